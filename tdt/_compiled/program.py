"""Straight-line programs on arrays: statements that call functions, written out as the source of one Python function."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from tdt._compiled.elements import Element
    from tdt._kernels.fused_fold import Folding

FREED_EARLY = 1 << 15  # bytes; smaller arrays live until the function returns
STACK = 2048  # words of a part of the stack on which Python has the frames of its functions


NAME = re.compile(r"\b[vrg]\d+\b")  # of a value: computed, of a root, of an output's gradient


def names_in(text: str) -> list[str]:
    """The names of values in an expression."""
    return NAME.findall(text)


def renamed(text: str, names: dict[str, str]) -> str:
    """An expression with other names of values in the place of some."""
    return NAME.sub(lambda found: names.get(found[0], found[0]), text)


def copy_in_memory(array: np.ndarray) -> np.ndarray:
    """A copy that lies as the array."""
    return array.copy(order="K")


class Refusal(Exception):
    """Why a function is not compiled. module: the innermost one that was running, if there is one."""

    def __init__(self, reason: str, module: Any = None):
        super().__init__(reason)
        self.module = module


class Call(NamedTuple):
    """The op that a statement computes, or a gradient of it.

    Attributes:
        place: of the operand whose gradient it is; None: it is the result.
        numbers: the operands of the result, with None in the place of arrays.
        turned: whether the result, of a product, lies as the transpose of an array in order.
        attributes: of the op, of a result.
    """

    op: Any
    place: int | None = None
    numbers: tuple = ()
    turned: bool = False
    attributes: dict[str, Any] = {}


class Statement(NamedTuple):
    """`outs = text`, or `text` alone.

    Attributes:
        reads: the names of the values that it takes.
        element: what it computes of each element, where it is elementwise.
        writes: whether it writes into an array that it reads.
        repeatable: whether it gives the same when it is called again, as what draws random numbers does not.
        update: where it is the step of an optimizer, that.
        folding: where it is a reduction of the one value that it takes, which may be computed with that in one pass.
        cheap: whether it takes little time beside those that read its results.
        again: whether it computes a value again that would be in memory longer otherwise.
        call: what it computes of ops, where that is known.
        trusts: whether it trusts that others have checked the values that it takes, as those of a backward pass do.
    """

    text: str
    outs: tuple[str, ...]
    reads: tuple[str, ...]
    element: Element | None = None
    writes: bool = False
    repeatable: bool = True
    update: Any = None
    trusts: bool = False
    folding: Folding | None = None
    cheap: bool = False
    again: bool = False
    call: Call | None = None


def with_names(statement: Statement, names: dict[str, str]) -> Statement:
    """A statement with other names of values."""
    if names.keys().isdisjoint((*statement.outs, *statement.reads)):
        return statement
    outs, reads = (tuple([names.get(name, name) for name in some]) for some in (statement.outs, statement.reads))
    element = statement.element
    if element is not None:
        element = element._replace(operands=tuple([names.get(name, name) for name in element.operands]))
    return statement._replace(text=renamed(statement.text, names), outs=outs, reads=reads, element=element)


class Program:
    """Statements in order, each `names = function(arguments)`; every name is assigned once.

    Arguments are names, of values that the program computes or is given, or of constants.
    """

    def __init__(self, before: Program | None = None):
        """before: the program whose values and constants this one may name."""
        self.statements: list[Statement] = []
        self.constants: dict[str, Any] = {} if before is None else before.constants
        self.sizes: dict[str, int] = {}  # bytes of the values that are not views
        self.held: dict[str, int] = (
            {} if before is None else before.held
        )  # bytes of the memory that a value keeps, if known
        self._ids: dict[int, str] = {} if before is None else before._ids
        self._count: Iterator[int] = itertools.count() if before is None else before._count

    def with_statements(self, statements: Sequence[Statement]) -> Program:
        """A program of other statements with the same names."""
        other = copy.copy(self)
        other.statements = [*statements]
        return other

    def constant(self, value: Any) -> str:
        """The name of a constant."""
        name = self._ids.get(id(value))
        if name is None:
            name = self._ids[id(value)] = f"c{len(self.constants)}"
            self.constants[name] = value
        return name

    def name(self, value: Any = None) -> str:
        """A new name. value: the one that it names while the program is recorded."""
        name, owner = f"v{next(self._count)}", value
        self.sizes[name] = 0
        if isinstance(value, np.ndarray):
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            self.held[name] = owner.nbytes
            self.sizes[name] = value.nbytes if value.base is None else 0
        return name

    def name_like(self, name: str) -> str:
        """A new name of a value like one that is named."""
        other = self.name()
        self.sizes[other] = self.sizes.get(name, 0)
        self.held.update({other: self.held[name]} if name in self.held else {})
        return other

    def call(
        self,
        function: Callable[..., Any],
        arguments: Sequence[str],
        results: Sequence[str],
        form: str = "",
        element: Element | None = None,
        repeatable: bool = True,
        update: Any = None,
        writes: bool | None = None,
        folding: Folding | None = None,
        cheap: bool = False,
        call: Call | None = None,
    ) -> None:
        """Append `results = function(*arguments)`.

        Args:
            form: of the right side, with the function and the arguments in the places of {0}, {1}, …; by default a call.
            element, repeatable, update, writes, folding, cheap, call: of the `Statement`; a call without results writes, unless
                it says not.
        """
        names = (self.constant(function), *arguments)
        text = form.format(*names) if form else f"{names[0]}({', '.join(arguments)})"
        reads, writes = tuple(names_in(" ".join(arguments))), not results if writes is None else writes
        each = Statement(text, tuple(results), reads, element, writes, repeatable, update, folding=folding, cheap=cheap)
        each = each._replace(call=call)
        self.statements.append(each)

    def compiled(self, parameters: Sequence[str], results: str, title: str, takes: bool = False) -> Callable[..., Any]:
        """The function of `parameters` that runs all statements and returns the expression `results`.

        takes: its one argument is a list of their values, which it empties.
        """
        source = self.source(parameters, results, takes)
        names = {**self.constants, "__name__": __name__}  # whose warnings of NumPy are filtered
        exec(compile(source, f"<tdt.compile: {title}>", "exec"), names)
        run, code = names["run"], names["run"].__code__
        if code.co_nlocals + code.co_stacksize > STACK // 4:
            # Has a part of its own: near the end of one, each call would get the next part from the system and free it.
            run.__code__ = code.replace(co_stacksize=code.co_stacksize + STACK)
        return run

    def source(self, parameters: Sequence[str], results: str, takes: bool = False) -> str:
        """The source of that function. All but small arrays are freed after their last use."""
        lines = [f"def run({', '.join(parameters)}):"]
        if takes:
            lines = ["def run(values):", f"    {', '.join(parameters)}, = values", "    values.clear()"]
        last = {
            name: at
            for at, each in enumerate(self.statements)
            for name in names_in(" ".join((*each.outs, *each.reads)))
        }
        remaining = {*names_in(results), *(() if takes else parameters)}
        ends: dict[int, list[str]] = {}
        for name, at in last.items():
            if name not in remaining and self.held.get(name, FREED_EARLY) >= FREED_EARLY:
                ends.setdefault(at, []).append(name)
        for at, each in enumerate(self.statements):
            lines.append(f"    {', '.join(each.outs)} = {each.text}" if each.outs else f"    {each.text}")
            if at in ends:
                lines.append(f"    {' = '.join(ends[at])} = None")
        return "\n".join([*lines, f"    return {results}", ""])
