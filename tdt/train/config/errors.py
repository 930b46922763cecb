"""Where something was written, and what is wrong with it.

ConfigError                 everything that is wrong with a config, one line each, sorted by line
└─ .problems                a Problem each: source, key, message, kind, suggestion

Kinds: unknown-key, unknown-name, wrong-type, missing, too-many, duplicate-key, bad-value, shape, unused, yaml, file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND_LINE = "<command line>"


@dataclass(frozen=True, order=True)
class Source:
    """A place in a config: file as the user named it, line and column from 1.

    For an override the file is `<command line>`, the line counts the overrides, the column lies in its text. Line 0 is
    the file as a whole.
    """

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def path(self, written: str) -> Path:
        """A path that is written here: relative to the file's folder, on the command line to the working folder."""
        folder = Path.cwd() if self.file == COMMAND_LINE else Path(self.file).parent
        return Path(os.path.abspath(folder / Path(written).expanduser()))


@dataclass(frozen=True)
class Problem:
    """One mistake: `str` gives `file:line:col: key.path: what; did you mean '...'?`."""

    source: Source
    key: str
    message: str
    kind: str
    suggestion: str | None = None

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        meant = f"; did you mean '{self.suggestion}'?" if self.suggestion else ""
        return f"{self.source}: {key}{self.message}{meant}"


class ConfigError(Exception):
    """Everything that is wrong with a config. `problems` is sorted by line; `str` is one line for each."""

    def __init__(self, problems: list[Problem]):
        self.problems = sorted(problems, key=_reading_order)
        super().__init__("\n".join(self.messages))

    @property
    def messages(self) -> list[str]:
        """A line for each problem: `file:line:col: key: what; did you mean …`."""
        return [str(problem) for problem in self.problems]


def _reading_order(problem: Problem) -> tuple[bool, Source]:
    return problem.source.file == COMMAND_LINE, problem.source  # overrides come after the file


class ConfigErrors:
    """Collects problems, so that all are reported at once.

    config: gives the position of a key path; needed only to `add` by key path.

    >>> errors = ConfigErrors()
    >>> errors.add(Source("c.yaml", 3, 5), "unknown key", "lr", kind="unknown-key", key="optimizer.lrr")
    >>> errors.raise_if_any()
    Traceback (most recent call last):
    tdt.train.config.errors.ConfigError: c.yaml:3:5: optimizer.lrr: unknown key; did you mean 'lr'?
    """

    def __init__(self, config: Any = None):
        self.problems: list[Problem] = []
        self.locate: Callable[[str], Source] | None = config.source if config is not None else None
        self.overrides: tuple[str, ...] = ()  # their texts, shown with errors about them
        self._settled: set[Source] = set()

    def add(
        self,
        where: Any,
        message: str,
        suggestion: str | None = None,
        *,
        kind: str = "bad-value",
        key: str | None = None,
    ) -> None:
        """Add a problem at `where`: a Source, a key path, or anything with `source` and `key_path` (a Component).

        A second message about a place that YAML itself could not read is dropped: it would be about our repair.
        """
        if isinstance(where, str):
            if self.locate is None:
                raise TypeError(f"ConfigErrors.add: give ConfigErrors a config to locate the key path {where!r}")
            source, path = self.locate(where), where
        elif isinstance(where, Source):
            source, path = where, ""
        else:
            source, path = where.source, where.key_path
        if source.file == COMMAND_LINE and source.line <= len(self.overrides):
            message += f", in {self.overrides[source.line - 1]!r}"
        problem = Problem(source, path if key is None else key, message, kind, suggestion)
        if source not in self._settled and problem not in self.problems:
            self.problems.append(problem)

    def settle(self, source: Source) -> None:
        """Say that what is wrong at `source` has been said."""
        self._settled.add(source)

    def raise_if_any(self) -> None:
        """Raise ConfigError if something was added."""
        if self.problems:
            raise ConfigError(self.problems)

    def __len__(self) -> int:
        return len(self.problems)
