"""Config errors: mistakes with their positions.

ConfigError                 every mistake in a config, one line each, sorted by line
└─ .problems                a Problem each: source, key, message, kind, suggestion

Kinds: unknown-key, unknown-name, wrong-type, missing, too-many, duplicate-key, bad-value, shape, unused, yaml, file, download,
many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tdt._did_you_mean import closest
from tdt.train._printable import hide, printable, redacted, shortened
from tdt.train.config.source import COMMAND_LINE, Source

MOST = 200  # problems that are reported at most
LONGEST_KEY, LONGEST_PLACE = 200, 500  # characters of a key path and of a file name in a message
_WORD = re.compile(r"[-+]?\d[\w.]*(?:[eE][-+]?\d+)?|\w+")


@dataclass(frozen=True)
class Problem:
    """One mistake. `str` is a printable line: `file:line:col: key.path: message; did you mean '...'?`.

    override: the argument of the command line that `source` is in, if it is in one.
    """

    source: Source
    key: str
    message: str
    kind: str
    suggestion: str | None = None
    override: str | None = None

    def __str__(self) -> str:
        return self.line(str(self.source), "" if self.override is None else f", in {self.override!r}")

    def line(self, place: str, where: str = "") -> str:
        """The mistake on one line, at a `place`; where: the end of its message, before the suggestion."""
        key = f"{shortened(self.key, LONGEST_KEY)}: " if self.key else ""
        meant = f"; did you mean '{shortened(self.suggestion, LONGEST_KEY)}'?" if self.suggestion else ""
        return shortened(printable(f"{shortened(place, LONGEST_PLACE)}: {key}{self.message}{where}{meant}"))


@dataclass(frozen=True)
class Secret:
    """A value from the environment: its text, the parsed value, and the position of its reference."""

    text: str
    value: Any
    reference: str
    path: str
    source: Source

    def is_near(self, source: Source, path: str) -> bool:
        """Whether a message at that position may be about this value: on its line, or at a key above it."""
        ours, theirs = self.path.split("."), path.split(".")
        shared = min(len(ours), len(theirs)) if path else 0
        same_line = (source.file, source.line) == (self.source.file, self.source.line)
        return same_line or (shared > 1 and ours[:shared] == theirs[:shared])

    def redact(self, message: str) -> str:
        """The message with the value, its words and numbers equal to it replaced by the reference."""
        pieces = message.split(self.reference)
        return self.reference.join(self._redact(piece) for piece in pieces)

    def _redact(self, piece: str) -> str:
        for form in (repr(self.text)[1:-1], self.text):
            piece = piece.replace(form, self.reference) if len(form) > 1 else piece
        words = set(re.findall(r"\w{2,}", self.text)) | {self.text}
        return _WORD.sub(lambda match: self.reference if self._shows(match[0], words) else match[0], piece)

    def _shows(self, word: str, words: set[str]) -> bool:
        if word in words or isinstance(self.value, str):
            return word in words
        try:
            return not isinstance(self.value, bool) and float(word) == self.value
        except (ValueError, TypeError):
            return False


def takes(names: Collection[str]) -> str:
    """The end of a message about an unknown argument: the names of those that there are."""
    return f"; it takes: {', '.join(names)}" if names else "; it takes none"


def _is_common(text: str) -> bool:
    """Whether a text is a name of tdt's own, which occurs in ordinary output."""
    from tdt.train.config import registry

    return text in ("train", "valid", "test", "auto", "cuda") or (
        text.isidentifier() and any(known.find(text) is not None for known in registry.ALL)
    )


class ConfigError(Exception):
    """Every mistake in a config. `problems` is sorted by line; `str` has one line for each."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = sorted(problems, key=_reading_order)
        super().__init__("\n".join(self.messages))

    @property
    def messages(self) -> list[str]:
        """One line per problem: `file:line:col: key: message; did you mean …`."""
        return [str(problem) for problem in self.problems]


def _reading_order(problem: Problem) -> tuple[bool, bool, Source]:
    return problem.kind == "many", problem.source.file == COMMAND_LINE, problem.source  # overrides come after the file


class ConfigErrors:
    """Collect problems in order to report all at once; at `MOST` problems a ConfigError is raised.

    config: looks up positions of key paths; needed only to `add` by key path.

    >>> from tdt.train import config
    >>> errors = config.ConfigErrors()
    >>> errors.add(config.Source("c.yaml", 3, 5), "unknown key", "lr", kind="unknown-key", key="optimizer.lrr")
    >>> errors.raise_if_any()
    Traceback (most recent call last):
    tdt.train.config.errors.ConfigError: c.yaml:3:5: optimizer.lrr: unknown key; did you mean 'lr'?
    """

    def __init__(self, config: Any = None) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.locate: Callable[[str], Source] | None = config.source if config is not None else None
        self.overrides: tuple[str, ...] = ()  # command-line overrides, shown in errors about them
        self._reported: set[Source] = set()
        self._known: set[Problem] = set()
        self._secrets: list[Secret] = config.secrets if config is not None else []

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

        A second message about a position with a YAML syntax error is dropped: it would be about our repair.
        """
        problem = self._problem(where, message, suggestion, kind, key)
        if problem.source in self._reported or problem in self._known:
            return
        self._known.add(problem)
        self.problems.append(problem)
        if len(self.problems) >= MOST:
            self.problems.append(
                Problem(problem.source, "", f"these are {MOST} mistakes; the search ends here", "many")
            )
            raise ConfigError(self.problems)

    def add_unknown(
        self,
        where: Source | None,
        message: str,
        name: str,
        known: Collection[str],
        *,
        key: str,
        kind: str = "unknown-key",
        listing: str | None = None,
        meant: str | None = None,
    ) -> None:
        """Add a problem about `name`, which is not in `known`: with a suggestion, or the end `listing` of the message.

        listing: if no name is close enough; by default all known names. meant: a better suggestion than the closest name.

        >>> from tdt.train import config
        >>> errors = config.ConfigErrors()
        >>> errors.add_unknown(config.Source("c.yaml", 3, 5), "unknown key", "wdith", ["width", "depth"], key="wdith")
        >>> errors.add_unknown(config.Source("c.yaml", 4, 5), "unknown key", "x", ["width", "depth"], key="x")
        >>> errors.raise_if_any()
        Traceback (most recent call last):
        tdt.train.config.errors.ConfigError: c.yaml:3:5: wdith: unknown key; did you mean 'width'?
        c.yaml:4:5: x: unknown key; known: width, depth
        """
        suggestion = meant or closest(name, known)
        ending = "" if suggestion else f"; known: {', '.join(known)}" if listing is None else listing
        self.add(where, message + ending, suggestion, kind=kind, key=key)

    def _problem(self, where: Any, message: str, suggestion: str | None, kind: str, key: str | None) -> Problem:
        if isinstance(where, str):
            if self.locate is None:
                raise TypeError(f"ConfigErrors.add: give ConfigErrors a config to locate the key path {where!r}")
            source, path = self.locate(where), where
        elif isinstance(where, Source):
            source, path = where, ""
        elif hasattr(where, "at_fault"):
            source, path = where.at_fault(message)
        else:
            source, path = where.source, where.key_path
        path = path if key is None else key
        message = redacted(message)
        for secret in self._secrets:
            if secret.is_near(source, path):
                message = secret.redact(message)
        in_override = source.file == COMMAND_LINE and source.line <= len(self.overrides)
        override = self.overrides[source.line - 1] if in_override else None
        return Problem(source, path, message, kind, suggestion, override)

    def hide(self, text: str, value: Any, reference: str, path: str, source: Source) -> None:
        """In messages, replace a value from the environment, used at `path`, by its reference.

        The run's name, which is also that of a folder, and texts equal to a name of tdt's own (such as a split) are
        replaced only in messages about that value.
        """
        self._secrets.append(Secret(text, value, reference, path, source))
        if isinstance(value, str) and path != "name" and not _is_common(text):
            hide(text, reference)

    def warn(self, where: Any, message: str, *, kind: str = "warning", key: str | None = None) -> None:
        """Add a warning at `where`: the config is valid, but may not do what was meant."""
        before = len(self.problems)
        self.add(where, message, kind=kind, key=key)
        self.warnings += self.problems[before:]
        del self.problems[before:]

    def mark_reported(self, source: Source) -> None:
        """Drop further messages about `source`."""
        self._reported.add(source)

    def raise_if_any(self) -> None:
        """Raise ConfigError if something was added."""
        if self.problems:
            raise ConfigError(self.problems)

    def __len__(self) -> int:
        return len(self.problems)
