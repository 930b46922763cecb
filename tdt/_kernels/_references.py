"""Whether objects refer to the same objects as before, as machine code finds out.

It compares addresses: of the items of lists, of the keys and values of dictionaries, and of what slots of objects hold; of
sets only whether they are empty, and of arrays their bytes. The objects are kept, so that no other one has their address. A
loop in Python takes ten times as long.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import chain
from types import CellType, FunctionType
from typing import Any

import numpy as np

from tdt._kernels._addresses import address_of, from_address
from tdt._kernels._builtin_code import BuiltIn, linked_built_in
from tdt._kernels._code import Value

EMPTY, LIST, DICT, ITEM, SLOT, SET, ARRAY = range(7)
# Words: the kind, the address, how many values or bytes or the key, the place of the first value.
RECORD = 4
HOLD = "tdt_hold"
COUNT, RECORDS, VALUES = range(3)  # words of its `self`
MISSING = object()
BUILT_IN = CellType, FunctionType  # classes without `__slots__` whose objects have places for attributes
LENGTH = object.__basicsize__  # where lists and dictionaries have how many items they have


class References:
    """What objects refer to when they are named.

    Attributes:
        complete: whether all that was named can be compared.
    """

    def __init__(self) -> None:
        self.complete = True
        self._records: list[tuple[int, int, int, int]] = []
        self._values: list[int] = []
        self._held: list[Any] = []
        self._call: Any = None

    def __call__(self) -> bool:
        """Whether all refer to the same objects."""
        if self._call is None:
            self._prepare()
        return self._call()

    def container(self, value: Any) -> None:
        """The items of a list, the keys and values of a dictionary, in the order of `dict`, or those of an empty set: none."""
        if isinstance(value, (dict, list)) and not value:
            self._append(EMPTY, value, 0, [])
        elif isinstance(value, dict):
            self._append(DICT, value, len(value), [*chain.from_iterable(dict.items(value))])
        elif isinstance(value, list):
            self._append(LIST, value, len(value), list(value))
        elif isinstance(value, set) and not value:
            self._append(SET, value, 0, [])
        else:
            self.complete = False

    def item(self, value: Any, key: str | int) -> None:
        """An item of a dictionary, which may be missing."""
        if value.__class__ is not dict:
            self.complete = False
            return
        found = value.get(key, MISSING)
        self._held.append(key)
        self._append(ITEM, value, id(key), [found])

    def slot(self, value: Any, name: str) -> None:
        """What an attribute with a place of its own in an object is: of `__slots__`, of a function, or the content of a cell."""
        try:
            found = getattr(value, name, MISSING)
        except ValueError:  # of a cell that is not assigned yet
            found = MISSING
        place = place_of(value.__class__ if value.__class__ in BUILT_IN else _owner(type(value), name), name)
        word = None if place is None else from_address(id(value) + place).value
        if found is None and word == 0:  # as functions have no defaults
            found = MISSING
        elif place is None or found is MISSING or word != id(found):
            self.complete = False
            return
        self._append(SLOT, value, 0, [found], place or 0)

    def array(self, value: np.ndarray, known: np.ndarray) -> None:
        """The bytes of an array, which must be those of another one, each without gaps between its elements."""
        self._records.append((ARRAY, address_of(value), value.nbytes, len(self._values)))
        self._values.append(address_of(known))
        self._held += value, known

    def _append(self, kind: int, value: Any, count: int, found: list[Any], place: int = 0) -> None:
        self._records.append((kind, id(value) + place, count, len(self._values)))
        self._values += [0 if each is MISSING else id(each) for each in found]
        self._held += value, found

    def _prepare(self) -> None:
        self._tables = np.array(self._records, np.int64).reshape(-1, RECORD), np.array(self._values, np.int64)
        words = len(self._records), *map(address_of, self._tables)
        self._call = linked_built_in("references", HOLD, _Hold, words)


def _owner(kind: type, name: str) -> type:
    """The class that an object has a slot from."""
    return next((each for each in kind.__mro__ if name in vars(each).get("__slots__", ())), kind)


@functools.cache
def place_of(kind: type, name: str) -> int | None:
    """Where objects of a class have the address of an attribute; None where there is no one such place."""
    marker: Any = object()
    try:
        if kind is FunctionType:
            example: Any = FunctionType(place_of.__wrapped__.__code__, {})
            marker = {"__code__": example.__code__, "__defaults__": (marker,), "__kwdefaults__": {"": marker}}[name]
        else:
            example = CellType() if kind is CellType else object.__new__(kind)
        object.__setattr__(example, name, marker)
    except (AttributeError, TypeError):
        return None
    places = [at for at in range(0, kind.__basicsize__, 8) if from_address(id(example) + at).value == id(marker)]
    return places[0] if len(places) == 1 else None


class _Hold(BuiltIn):
    """The function that compares. It calls functions of Python's that raise nothing."""

    def write(self) -> None:
        code = self.code
        self.values = code.cast(self.word(VALUES), "ptr")
        self.position, self.key, self.found = (code.array("i64", 1) for _ in range(3))
        records = code.cast(self.word(RECORDS), "ptr")
        with code.loop(0, self.word(COUNT)) as r:
            kind, address, self.size, self.start = (code.load("i64", records, r * RECORD + k) for k in range(RECORD))
            self.owner = code.cast(address, "ptr")
            cases = [
                (EMPTY, self.length),
                (LIST, self.items),
                (DICT, self.entries),
                (ITEM, self.item),
                (SLOT, self.slot),
                (SET, self.no_items),
            ]
            self.choose(kind, [*cases, (ARRAY, self.bytes)])
        self.end(self.truth(1))

    def choose(self, kind: Value, cases: list[tuple[int, Callable[[], None]]]) -> None:
        """Compare what a record of a kind names. The last case is that of all other kinds."""
        (first, compare), *others = cases
        if others:
            self.code.choose(kind == first, compare, lambda: self.choose(kind, others))
        else:
            compare()

    def truth(self, value: int) -> Value:
        """True for 1, False for 0."""
        return self.code.function("PyBool_FromLong", "ptr", self.code.value(value, "i64"))

    def fail(self, test: Value) -> None:
        """Return False where a test holds."""
        with self.code.when(test):
            self.leave(self.truth(0))

    def compare(self, found: Value, place: Any = 0) -> None:
        """Return False where another object is found than the record's value at this place."""
        self.fail(found != self.code.load("i64", self.values, self.start + place))

    def length(self) -> None:
        """How many items a list or dictionary has."""
        self.fail(self.field("i64", self.owner, LENGTH) != self.size)

    def items(self) -> None:
        """Those of a list."""
        code = self.code
        self.length()
        with code.loop(0, self.size) as i:
            self.compare(code.function("PyList_GetItem", "i64", self.owner, i), i)

    def entries(self) -> None:
        """Keys and values of a dictionary."""
        code = self.code
        self.length()
        code.store(code.value(0, "i64"), self.position)
        with code.loop(0, self.size) as i:
            code.function("PyDict_Next", "i32", self.owner, self.position, self.key, self.found)
            self.compare(code.load("i64", self.key), i * 2)
            self.compare(code.load("i64", self.found), i * 2 + 1)

    def no_items(self) -> None:
        """Those of an empty set."""
        self.fail(self.code.function("PySet_Size", "i64", self.owner) != 0)

    def item(self) -> None:
        """One of a dictionary."""
        self.compare(self.code.function("PyDict_GetItem", "i64", self.owner, self.code.cast(self.size, "ptr")))

    def bytes(self) -> None:
        """Those of an array."""
        code = self.code
        known = code.cast(code.load("i64", self.values, self.start), "ptr")
        self.fail(code.function("memcmp", "i32", self.owner, known, self.size) != 0)

    def slot(self) -> None:
        """A place in an object."""
        self.compare(self.code.load("i64", self.owner))
