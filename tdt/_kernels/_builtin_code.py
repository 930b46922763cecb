"""Machine code of built-in functions of Python's, written with `Code`: it reads Python's objects and NumPy's arrays itself."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from tdt._kernels._addresses import ADDRESS
from tdt._kernels._builtin import BYTES, FAST_CALL, KEYWORDS, created
from tdt._kernels._code import Code, Value
from tdt._kernels._native import linked, target_triple

# Where arrays have these, beside the address of their elements, as NumPy's C API guarantees.
NDIM, SHAPE, STRIDES, DTYPE, FLAGS = ADDRESS + 8, ADDRESS + 16, ADDRESS + 24, ADDRESS + 40, ADDRESS + 48
CONTIGUOUS, ALIGNED, WRITEABLE = 1, 0x100, 0x400  # NumPy's flags
PARAMETERS = {"self": "ptr", "arguments": "ptr", "count": "i64", "names": "ptr"}


class BuiltIn(ABC):
    """A built-in function that is being written, see `_builtin`: `write` writes its code, which has to end with `end`.

    Attributes:
        arguments, count: the address of the arguments' addresses; how many there are without keywords.
        keywords: the names of the keywords, null for none.
    """

    def __init__(self) -> None:
        self.code = Code()
        own, self.arguments, self.count, self.keywords = (
            Value(self.code, f"%{name}", kind) for name, kind in PARAMETERS.items()
        )
        self._words = self.code.at("i8", own, BYTES)

    @abstractmethod
    def write(self) -> None:
        """Write the code."""

    def word(self, place: Any) -> Value:
        """A word of `self`."""
        return self.code.load("i64", self._words, place)

    def field(self, kind: str, owner: Value, place: Any) -> Value:
        """What an object has so many bytes behind its address."""
        return self.code.load(kind, self.code.at("i8", owner, place))

    def call_void(self, name: str, *args: Value) -> None:
        """Call a function that returns nothing."""
        self.code.declared.add(f"declare void @{name}({', '.join(a.kind for a in args)})")
        self.code.lines.append(f"  call void @{name}({', '.join(f'{a.kind} {a.name}' for a in args)})")

    def created(self, call: str) -> Value:
        """The object that a call creates. Where there is no memory for it, the function returns with Python's error."""
        found = self.code.new("ptr", call)
        with self.code.when(self.code.cast(found, "i64") == 0):
            self.leave(found)
        return found

    def end(self, result: Value) -> None:
        """Return an object."""
        self.code.lines.append(f"  ret ptr {result.name}")

    def leave(self, result: Value) -> None:
        """Return an object in a block that is not always run."""
        self.end(result)
        self.code.place(self.code.label())

    def module(self, name: str) -> str:
        """The IR of the function."""
        head = [
            f'target triple = "{target_triple()}"',
            f"define ptr @{name}({', '.join(f'{kind} %{parameter}' for parameter, kind in PARAMETERS.items())}) {{",
            "entry:",
        ]
        code = self.code
        return "\n".join([*head, *code.variables, *code.lines, "}", *sorted(code.declared), ""])


def built_in(name: str, function: Callable[[], BuiltIn]) -> str:
    """The IR of a function."""
    writer = function()
    writer.write()
    return writer.module(name)


def linked_built_in(
    kernel: str, name: str, function: Callable[[], BuiltIn], words: Sequence[int]
) -> Callable[..., Any]:
    """The built-in function `name`, whose `self` has these words; its machine code is cached as `kernel`."""
    [address] = linked(kernel, [name], lambda: built_in(name, function), optimize=True, vectorize=False)
    return created(name, address, struct.pack(f"={len(words)}q", *words), FAST_CALL | KEYWORDS)
