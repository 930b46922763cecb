"""Check a sweep before its first trial: every key, each value of a list and both ends of a range, as overrides."""

from __future__ import annotations

import dataclasses
import math
import random
import warnings
from collections.abc import Iterator, Sequence

from tdt.train.config import ConfigError, Draft, Problem, Source, draft
from tdt.train.config.search import Domain
from tdt.train.config.source import COMMAND_LINE
from tdt.train.loop.build import build
from tdt.train.loop.parts import Parts

TRIES, FIT = 20, 2  # random combinations that are built, as long as fewer than two of them fit
_ABSENT = "is missing; tdt tune needs the metric to improve, the settings to search, and the number of trials"
_ABOUT_KEYS = ("unknown-key", "unused", "too-many")  # kinds of mistakes that do not depend on the value


def check_sweep(name: str, overrides: Sequence[str]) -> Parts:
    """Check a config and its sweep. Returns the parts of the config, built on the device meta.

    Each candidate is built alone, on top of the config. Shapes that do not fit may fit together with a value of another
    setting, and a trial whose shapes do not fit fails alone: so they are reported only if none of some combinations fits.

    Raises:
        ConfigError: with every mistake in the config and in the sweep, each at its place in the file.
    """
    base = draft(name, overrides)
    problems = [*base.errors.problems, *_missing(base, name), *_grid_problems(base)]
    parts = None
    try:
        parts = build(_without_sweep(name, overrides, base), splits=(), dry_run=True)
    except ConfigError as error:
        problems += error.problems
    known = {(problem.key, problem.message) for problem in problems}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the candidates; those of the config have been shown
        for key, domain in base.search.items():
            for problem in _candidate_problems(name, overrides, key, domain):
                if (problem.key, problem.message) not in known:
                    known.add((problem.key, problem.message))
                    problems.append(problem)
        if not problems:
            problems += _shape_problems(name, overrides, base.search)
    if problems or parts is None:
        raise ConfigError(list(dict.fromkeys(problems)))
    return parts


def grid_size(search: dict[str, Domain]) -> int:
    """The number of combinations of a grid."""
    return math.prod(len(domain.grid() or ()) for domain in search.values())


def _without_sweep(name: str, overrides: Sequence[str], base: Draft) -> Draft:
    """The config alone, so that a mistake in its sweep does not keep it from being built."""
    return draft(name, [*overrides, "~sweep"]) if base.search else base


def _missing(base: Draft, name: str) -> Iterator[Problem]:
    if base.sweep is None and not any(problem.key.startswith("sweep") for problem in base.errors.problems):
        where = base.errors.locate("sweep") if base.errors.locate else Source(name)
        yield Problem(where, "sweep", _ABSENT, "missing", None)


def _grid_problems(base: Draft) -> Iterator[Problem]:
    for key, domain in base.search.items() if base.sweep is not None and base.sweep.sampler == "grid" else ():
        if domain.grid() is None:
            message = f"the sampler grid needs a list of values, or a range with a step, got {domain}"
            yield Problem(domain.key_source, f"sweep.search.{key}", message, "bad-value", None)


def _shape_problems(name: str, overrides: Sequence[str], search: dict[str, Domain]) -> list[Problem]:
    """A shape that does not fit, if fewer than `FIT` of `TRIES` random combinations fit: most trials would fail."""
    chance, fit = random.Random(0), 0
    found: list[Problem] = []
    for _ in range(TRIES):
        values = [f"{key}={domain.draw(chance)}" for key, domain in search.items()]
        try:
            build(draft(name, [*overrides, "~sweep", *values]), splits=(), dry_run=True)
            fit += 1
        except ConfigError as error:
            shapes = [problem for problem in error.problems if problem.kind == "shape"]
            found += [_placed(problem, overrides, values, list(search.values())) for problem in shapes]
            fit += not shapes
        if fit == FIT:
            return []
    advice = (
        f"{fit} of {TRIES} combinations of sweep.search fit; search a size that two layers share under a ${{reference}}"
    )
    return [dataclasses.replace(found[0], message=f"{found[0].message}; {advice}")]


def _placed(problem: Problem, overrides: Sequence[str], values: list[str], domains: list[Domain]) -> Problem:
    """The problem at its setting in `sweep.search`, if it is at one of `values`, which follow the overrides and `~sweep`."""
    number = problem.source.line - len(overrides) - 2
    if problem.source.file != COMMAND_LINE or number not in range(len(values)):
        return problem
    return dataclasses.replace(problem, source=domains[number].key_source, override=None)


def _candidate_problems(name: str, overrides: Sequence[str], key: str, domain: Domain) -> Iterator[Problem]:
    """The mistakes that the candidates of one setting cause, at their places in `sweep.search`."""
    if key.partition(".")[0] == "sweep":
        yield Problem(
            domain.key_source, f"sweep.search.{key}", "a sweep cannot search its own settings", "bad-value", None
        )
        return
    for value, where in domain.candidates():
        text = f"{key}={value}"
        try:
            build(draft(name, [*overrides, "~sweep", text]), splits=(), dry_run=True)
        except ConfigError as error:
            for problem in error.problems:
                if problem.kind == "shape":
                    continue
                placed = _placed(problem, overrides, [text], [domain])
                moved = placed is not problem and problem.kind not in _ABOUT_KEYS
                yield dataclasses.replace(placed, source=where) if moved else placed
