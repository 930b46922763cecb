"""Pickles read without running anybody's code: a small machine for the operations that plain data needs.

Python's own unpickler calls whatever the file names. This one knows the names that it is given and no others, calls those
alone, and fills lists, dictionaries and sets of exactly these types; anything else is an UnpicklingError.
"""

from __future__ import annotations

import pickletools
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import IO, Any

from tdt.serialization._names import MOVED

LITERALS = {
    "INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2",
    "FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES",
    "BINBYTES8", "BYTEARRAY8", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
}  # fmt: skip
FRESH: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set, "EMPTY_TUPLE": tuple,
}  # fmt: skip
DICTIONARIES = (dict, OrderedDict, Counter)


class Machine:
    """Reads one pickle from `file`.

    find: a dotted name → what it stands for, or None where it is not allowed. trusted: classes that the user vouched for,
    whose instances may be made and filled. persistent: what the file calls a storage → that storage.
    """

    def __init__(
        self, file: IO[bytes], find: Callable[[str], Any], trusted: set[Any], persistent: Callable[[Any], Any]
    ):
        self.file, self.find, self.trusted, self.persistent = file, find, trusted, persistent
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.known: list[Any] = []  # what `find` gave: all that may be called

    def load(self) -> Any:
        """The object in the file."""
        try:
            for opcode, arg, _ in pickletools.genops(self.file):
                if opcode.name == "STOP":
                    return self.stack.pop()
                if opcode.name in LITERALS:
                    self.stack.append(arg)
                elif opcode.name in FRESH:
                    self.stack.append(FRESH[opcode.name]())
                elif step := STEPS.get(opcode.name):
                    step(self, arg)
                else:
                    raise UnpicklingError(f"Unsupported operation {opcode.name}")
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise UnpicklingError(
                f"the pickle is not whole or not of the kind that tensors are saved in: {error}"
            ) from error
        raise UnpicklingError("the pickle has no end")

    def pop_mark(self) -> list[Any]:
        """What was pushed since the last mark."""
        items, self.stack = self.stack, self.marks.pop()
        return items

    def mark(self, _: Any) -> None:
        self.marks.append(self.stack)
        self.stack = []

    def remember(self, number: Any) -> None:
        self.memo[len(self.memo) if number is None else number] = self.stack[-1]

    def recall(self, number: int) -> None:
        self.stack.append(self.memo[number])

    def name(self, pair: str | None) -> None:
        module, name = pair.split(" ") if pair is not None else self._last(2)
        full = f"{MOVED.get(module, module)}.{name}"
        found = self.find(full)
        if found is None:
            raise UnpicklingError(f"Unsupported global: GLOBAL {full} was not an allowed global by default.")
        self.known.append(found)
        self.stack.append(found)

    def _last(self, n: int) -> list[Any]:
        items = self.stack[-n:]
        if len(items) != n:
            raise UnpicklingError("the pickle takes more values than it gave")
        del self.stack[-n:]
        return items

    def call(self, _: Any) -> None:
        function, args = self._last(2)
        if not any(function is known for known in self.known):
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {function!r}")
        self.stack.append(function(*args))

    def make(self, _: Any) -> None:
        kind, args = self._last(2)
        if kind not in self.trusted and kind not in DICTIONARIES:
            raise UnpicklingError(f"Trying to call new for unsupported class {kind!r}")
        self.stack.append(kind.__new__(kind, *args))

    def fill(self, _: Any) -> None:
        state = self.stack.pop()
        made = self.stack[-1]
        if type(made) in self.trusted and hasattr(made, "__setstate__"):
            made.__setstate__(state)
        elif type(made) in self.trusted or type(made) in (OrderedDict, Counter):
            made.__dict__.update(state)
        else:
            raise UnpicklingError(f"Can only build OrderedDict and classes that were allowed, not {type(made)}")

    def storage(self, _: Any) -> None:
        self.stack.append(self.persistent(self.stack.pop()))

    def append(self, _: Any) -> None:
        self._extend([self.stack.pop()])

    def appends(self, _: Any) -> None:
        self._extend(self.pop_mark())

    def _extend(self, items: list[Any]) -> None:
        target = self._target(list)
        target.extend(items)

    def add(self, _: Any) -> None:
        items = self.pop_mark()
        self._target(set).update(items)

    def set_item(self, _: Any) -> None:
        self._update(self._last(2))

    def set_items(self, _: Any) -> None:
        self._update(self.pop_mark())

    def _update(self, items: list[Any]) -> None:
        target = self._target(*DICTIONARIES)
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[key] = value

    def _target(self, *kinds: type) -> Any:
        kind = type(self.stack[-1])
        if kind not in kinds and not (kind in self.trusted and issubclass(kind, kinds)):
            raise UnpicklingError(
                f"Can only fill {' and '.join(k.__name__ for k in kinds)}, not {type(self.stack[-1])}"
            )
        return self.stack[-1]

    def tuple_of(self, n: int | None) -> None:
        items = self.pop_mark() if n is None else self._last(n)
        self.stack.append(tuple(items))

    def list_of(self, _: Any) -> None:
        items = self.pop_mark()
        self.stack.append(items)

    def dict_of(self, _: Any) -> None:
        items = self.pop_mark()
        self.stack.append(dict(zip(items[::2], items[1::2], strict=True)))

    def nothing(self, _: Any) -> None:
        """Protocol and frames say nothing about the data."""


STEPS: dict[str, Callable[[Machine, Any], None]] = {
    "PROTO": Machine.nothing, "FRAME": Machine.nothing, "MARK": Machine.mark, "GLOBAL": Machine.name,
    "STACK_GLOBAL": Machine.name, "REDUCE": Machine.call, "NEWOBJ": Machine.make, "BUILD": Machine.fill,
    "BINPERSID": Machine.storage, "APPEND": Machine.append, "APPENDS": Machine.appends, "ADDITEMS": Machine.add,
    "SETITEM": Machine.set_item, "SETITEMS": Machine.set_items, "LIST": Machine.list_of, "DICT": Machine.dict_of,
    "TUPLE": Machine.tuple_of, "TUPLE1": lambda m, _: m.tuple_of(1), "TUPLE2": lambda m, _: m.tuple_of(2),
    "TUPLE3": lambda m, _: m.tuple_of(3), "POP": lambda m, _: m.stack.pop(),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), Machine.remember),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine.recall),
}  # fmt: skip
