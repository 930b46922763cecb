"""Straight-line programs on arrays: statements that call functions, written out as the source of one Python function."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

FREED_EARLY = 1 << 15  # bytes; smaller arrays live until the function returns


class Refusal(Exception):
    """Why a function is not compiled. module: the innermost one that was running, if there is one."""

    def __init__(self, reason: str, module: Any = None):
        super().__init__(reason)
        self.module = module


class Program:
    """Statements in order, each `names = function(arguments)`; every name is assigned once.

    Arguments are names, of values that the program computes or is given, or of constants.
    """

    def __init__(self, before: Program | None = None):
        """before: the program whose values and constants this one may name."""
        self.statements: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
        self.constants: dict[str, Any] = {} if before is None else before.constants
        self.sizes: dict[str, int] = {}
        self._ids: dict[int, str] = {} if before is None else before._ids
        self._count: Iterator[int] = itertools.count() if before is None else before._count

    def constant(self, value: Any) -> str:
        """The name of a constant."""
        name = self._ids.get(id(value))
        if name is None:
            name = self._ids[id(value)] = f"c{len(self.constants)}"
            self.constants[name] = value
        return name

    def name(self, value: Any = None) -> str:
        """A new name. value: what it stands for while the program is recorded."""
        name = f"v{next(self._count)}"
        self.sizes[name] = value.nbytes if isinstance(value, np.ndarray) and value.base is None else 0
        return name

    def call(
        self, function: Callable[..., Any], arguments: Sequence[str], results: Sequence[str], form: str = ""
    ) -> None:
        """Append `results = function(*arguments)`.

        form: of the right side, with the function and the arguments in the places of {0}, {1}, …; by default a plain call.
        """
        names = (self.constant(function), *arguments)
        text = form.format(*names) if form else f"{names[0]}({', '.join(arguments)})"
        self.statements.append((text, tuple(results), tuple(arguments)))

    def compiled(self, parameters: Sequence[str], results: str, title: str) -> Callable[..., Any]:
        """The function of `parameters` that runs all statements and returns the expression `results`."""
        source = self.source(parameters, results)
        names = {**self.constants, "__name__": __name__}  # whose warnings of NumPy are filtered
        exec(compile(source, f"<tdt.compile: {title}>", "exec"), names)
        return names["run"]

    def source(self, parameters: Sequence[str], results: str) -> str:
        """The source of that function. Large arrays are freed after their last use."""
        lines = [f"def run({', '.join(parameters)}):"]
        last = {name: at for at, (_, outs, read) in enumerate(self.statements) for name in (*outs, *read)}
        returned = set(
            results.replace(",", " ").replace("(", " ").replace(")", " ").replace("[", " ").replace("]", " ").split()
        )
        ends: dict[int, list[str]] = {}
        for name, at in last.items():
            if self.sizes.get(name, 0) >= FREED_EARLY and name not in returned:
                ends.setdefault(at, []).append(name)
        for at, (text, outs, _) in enumerate(self.statements):
            lines.append(f"    {', '.join(outs)} = {text}" if outs else f"    {text}")
            if at in ends:
                lines.append(f"    {' = '.join(ends[at])} = None")
        return "\n".join([*lines, f"    return {results}", ""])
