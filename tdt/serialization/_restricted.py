"""Pickles read without running anybody's code: a small machine for the operations that plain data needs.

Python's own unpickler calls whatever the file names. This one

- resolves names in a table (`_names.OFFERED`) and in what the user allowed, as whole strings: it imports nothing and looks no
  attribute up;
- calls what that table offers to be called, and what the user allowed, nothing else;
- fills only lists, dictionaries, sets and instances of allowed classes that it made itself in this load;
- charges each operation with the memory that it takes, and stops where that is out of proportion to the file.

Anything else is an UnpicklingError.
"""

from __future__ import annotations

import pickletools
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from pickle import UnpicklingError
from typing import IO, Any

from tdt.serialization._names import MOVED, UNSUPPORTED, Offered, checked_key, offered
from tdt.serialization._rebuild import attributes, charge_to, str_of

LITERALS = {
    "INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2",
    "FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES",
    "BINBYTES8", "BYTEARRAY8", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
}  # fmt: skip
CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
CONTAINERS: dict[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set}
DICTIONARIES = (dict, OrderedDict, Counter)
BLOCKED = ("sys", "os", "posix", "nt")  # PyTorch refuses these modules even where the user allows one of their names

ALLOWANCE, PER_BYTE = 64 << 20, 128  # bytes of memory that a pickle may take: in any case, and per byte of the file
SLOT, ENTRY, NOTE, CALL = (
    8,
    100,
    150,
    600,
)  # … that a list's or dictionary's item, a container, a call take beside the values


class _Bounded:
    """A file that is not read past its end: what claims to be longer is refused before memory is allocated for it."""

    def __init__(self, file: IO[bytes]):
        self.file, here = file, file.tell()
        self.left = file.seek(0, 2) - here
        file.seek(here)
        self.tell = file.tell

    def read(self, n: int) -> bytes:
        """The next `n` bytes."""
        if n == 1 and not self.left:
            return b""
        if not 0 <= n <= self.left:
            raise UnpicklingError(f"the pickle claims {n} bytes where {self.left} are left")
        self.left -= n
        return self.file.read(n)

    def readline(self) -> bytes:
        """The next line."""
        line = self.file.readline()
        self.left -= len(line)
        return line


class Machine:
    """Reads one pickle from `file`.

    Args:
        trusted: what the user allowed, by dotted name; classes may be called, made and filled, functions called.
        persistent: what the file calls a storage → that storage.
        stored: bytes that the pickle takes in the file, where it is compressed; else its length.
    """

    def __init__(
        self, file: IO[bytes], trusted: dict[str, Any], persistent: Callable[[Any], Any], stored: int | None = None
    ):
        self.file, self.trusted, self.persistent = _Bounded(file), trusted, persistent
        self.classes = [value for value in trusted.values() if isinstance(value, type)]
        self.allowance = ALLOWANCE + PER_BYTE * (self.file.left if stored is None else stored)
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.calls: dict[int, Callable[..., Any]] = {}  # id of what a name stands for → what a call of it runs
        self.hashes: Counter[tuple[int, int]] = (
            Counter()
        )  # keys by id of their container and by hash: see `checked_key`
        self.own: dict[int, Any] = {}  # id → the containers and instances that this load made: all that may be filled

    def load(self) -> Any:
        """The object in the file."""
        charge_to(self.spend)
        try:
            for opcode, arg, _ in pickletools.genops(self.file):  # type: ignore[arg-type]
                name = opcode.name
                if step := STEPS.get(name):
                    step(self, arg)
                elif name in LITERALS:  # as `push`, without its calls: most of a pickle is of this kind
                    self.allowance -= sys.getsizeof(arg) + SLOT
                    self.stack.append(arg)
                    if self.allowance < 0:
                        self.spend(0)
                elif name == "STOP":
                    return self.stack.pop()
                elif name in CONSTANTS:
                    self.spend(SLOT)
                    self.stack.append(CONSTANTS[name])
                elif name in CONTAINERS:
                    self.push_own(CONTAINERS[name]())
                else:
                    raise UnpicklingError(f"Unsupported operation {name}")
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise UnpicklingError(
                f"the pickle is not whole or not of the kind that tensors are saved in: {str(error)[:500]}"
            ) from error
        raise UnpicklingError("the pickle has no end")

    def spend(self, size: int) -> None:
        """Take `size` bytes of memory off the allowance; UnpicklingError if it is used up."""
        self.allowance -= size
        if self.allowance < 0:
            raise UnpicklingError("the pickle would take far more memory than a file of its size needs")

    def push(self, value: Any) -> None:
        """Put a new value on the stack."""
        self.spend(sys.getsizeof(value) + SLOT)
        self.stack.append(value)

    def push_own(self, value: Any) -> None:
        """Put an object on the stack that this load made, and may fill."""
        self.spend(NOTE)
        self.own[id(value)] = value
        self.push(value)

    def pop_mark(self) -> list[Any]:
        """What was pushed since the last mark."""
        items, self.stack = self.stack, self.marks.pop()
        return items

    def mark(self, _: Any) -> None:
        self.spend(ENTRY)
        self.marks.append(self.stack)
        self.stack = []

    def remember(self, number: Any) -> None:
        self.spend(ENTRY)
        self.memo[len(self.memo) if number is None else number] = self.stack[-1]

    def recall(self, number: int) -> None:
        self.spend(SLOT)
        self.stack.append(self.memo[number])

    def name(self, pair: str | None) -> None:
        module, name = pair.split(" ") if pair is not None else self._last(2)
        if type(module) is not str or type(name) is not str:
            raise UnpicklingError("a name in the pickle is not a string")
        found = self.find(MOVED.get(module, module), name)
        self.spend(ENTRY)
        if found.call is not None:
            self.calls[id(found.value)] = found.call
        self.stack.append(found.value)

    def find(self, module: str, name: str) -> Offered:
        """What the table or the user has for exactly this name; UnpicklingError if there is nothing."""
        full = f"{module}.{name}"
        if module in BLOCKED:
            raise UnpicklingError(f"Trying to load unsupported GLOBAL {str_of(full)} whose module {module} is blocked.")
        ours = "tdt." + full.removeprefix("torch.") if full.startswith("torch.") else full
        for allowed in (full, ours):
            if allowed in self.trusted:
                value = self.trusted[allowed]
                return Offered(value, value, "the user allowed it")
        if (found := offered(full)) is not None:
            return found
        if full in UNSUPPORTED:
            raise UnpicklingError(f"the file names {full}: it holds {UNSUPPORTED[full]}.")
        raise NotAllowed(str_of(full))

    def _last(self, n: int) -> list[Any]:
        items = self.stack[-n:]
        if len(items) != n:
            raise UnpicklingError("the pickle takes more values than it gave")
        del self.stack[-n:]
        return items

    def call(self, _: Any) -> None:
        function, args = self._last(2)
        run = self.calls.get(id(function))  # what names stand for lives as long as the process
        if run is None:
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {_name_of(function)}")
        if type(args) is not tuple:
            raise UnpicklingError(f"the arguments of a call must be a tuple, not {type(args)}")
        self.spend(CALL + sum(map(_copied, args)))
        result = run(*args)
        if type(result) in (OrderedDict, Counter, set) or self._is_trusted(type(result)):
            self.push_own(result)
        else:
            self.push(result)

    def make(self, _: Any) -> None:
        kind, args = self._last(2)
        plain = _is_one_of(kind, (OrderedDict, Counter)) and type(args) is tuple and not args
        if not plain and not (self._is_trusted(kind) and type(args) is tuple):
            raise UnpicklingError(f"Trying to call new for unsupported class {_name_of(kind)}")
        self.spend(CALL)
        self.push_own(kind.__new__(kind, *args))

    def _is_trusted(self, kind: Any) -> bool:
        return isinstance(kind, type) and _is_one_of(kind, self.classes)

    def fill(self, _: Any) -> None:
        state = self.stack.pop()
        made = self._own()
        if self._is_trusted(type(made)):
            _fill(made, state)
        elif type(made) in (OrderedDict, Counter):
            made.__dict__.update(attributes(state, type(made)))
        else:
            raise UnpicklingError(f"Can only build OrderedDict and classes that were allowed, not {type(made)}")

    def _own(self) -> Any:
        """The object on top of the stack, which this load made."""
        top = self.stack[-1]
        if self.own.get(id(top)) is not top or top is None:
            raise UnpicklingError(f"Can only fill what this load made, not an object of {type(top)}")
        return top

    def storage(self, _: Any) -> None:
        self.spend(CALL)
        self.push(self.persistent(self.stack.pop()))

    def append(self, _: Any) -> None:
        self._extend([self.stack.pop()])

    def appends(self, _: Any) -> None:
        self._extend(self.pop_mark())

    def _extend(self, items: list[Any]) -> None:
        target = self._target(list)
        self.spend(2 * SLOT * len(items))
        target.extend(items)

    def add(self, _: Any) -> None:
        items = self.pop_mark()
        target = self._target(set)
        self.spend(ENTRY * len(items))
        target.update([self._key(item, target) for item in items])

    def set_item(self, _: Any) -> None:
        self._update(self._last(2))

    def set_items(self, _: Any) -> None:
        self._update(self.pop_mark())

    def _update(self, items: list[Any]) -> None:
        target = self._target(*DICTIONARIES)
        self.spend(ENTRY * len(items))
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[key if type(key) is str else self._key(key, target)] = value

    def _key(self, key: Any, target: Any) -> Any:
        """`key`, if it may be a key of `target`; ValueError if not."""
        counted = len(self.hashes)
        checked_key(key, self.hashes, id(target))
        if len(self.hashes) > counted:
            self.spend(NOTE)
        return key

    def _target(self, *kinds: type) -> Any:
        target = self._own()
        if type(target) not in kinds and not (self._is_trusted(type(target)) and isinstance(target, kinds)):
            raise UnpicklingError(f"Can only fill {' and '.join(k.__name__ for k in kinds)}, not {type(target)}")
        return target

    def tuple_of(self, n: int | None) -> None:
        items = self.pop_mark() if n is None else self._last(n)
        self.push(tuple(items))

    def list_of(self, _: Any) -> None:
        self.push_own(self.pop_mark())

    def dict_of(self, _: Any) -> None:
        items = self.pop_mark()
        self.push_own({})
        self._update(items)

    def protocol(self, number: int) -> None:
        if number > 5:
            raise UnpicklingError(f"unsupported pickle protocol: {number}")

    def nothing(self, _: Any) -> None:
        """Frames say nothing about the data."""


class NotAllowed(UnpicklingError):
    """A name that neither the table nor the user allows."""

    def __init__(self, name: str):
        super().__init__(f"Unsupported global: GLOBAL {name} was not an allowed global by default.")
        self.name = name


def names_in(file: IO[bytes]) -> set[tuple[str, str]]:
    """(module, name) of all that a pickle names, found without running it: strings alone are followed through its stack."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    names = set()
    arg: Any
    for opcode, arg, _ in pickletools.genops(file):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if arg is None else arg] = stack[-1] if stack else None
            continue
        pushed: Any = arg if opcode.name in LITERALS and type(arg) is str else None
        if opcode.name in ("GET", "BINGET", "LONG_BINGET"):
            pushed = memo.get(arg)
        elif opcode.name in ("GLOBAL", "INST"):
            names.add(tuple(arg.split(" ", 1)))
        elif opcode.name == "STACK_GLOBAL":
            names.add(tuple(part if type(part) is str else "?" for part in [None, None, *stack][-2:]))
        taken = opcode.stack_before
        if pickletools.markobject in taken or (opcode.name == "POP" and stack and stack[-1] is MARK):
            while stack and stack.pop() is not MARK:
                pass
            taken = taken[: taken.index(pickletools.markobject)] if pickletools.markobject in taken else []
        del stack[max(0, len(stack) - len(taken)) :]
        stack += [MARK if kind is pickletools.markobject else pushed for kind in opcode.stack_after]
    return names  # type: ignore[return-value]


MARK = object()


def _name_of(value: Any) -> str:
    """A class by its name, any other object by its type: what a file gives is never printed, since it may be endless."""
    return repr(value) if isinstance(value, type) else f"an object of {type(value)}"


def _is_one_of(value: Any, choices: Iterable[Any]) -> bool:
    return any(value is choice for choice in choices)


def _copied(value: Any) -> int:
    """Bytes that a copy of an argument may take."""
    if isinstance(value, str | bytes | bytearray):
        return sys.getsizeof(value)
    return ENTRY * len(value) if isinstance(value, tuple | list | dict | set) else 0


def _fill(made: Any, state: Any) -> None:
    """Give an instance of a class that the user allowed its state, as pickle does."""
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return
    values, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if values:
        made.__dict__.update(values)
    for name, value in (slots or {}).items():
        setattr(made, name, value)


STEPS: dict[str, Callable[[Machine, Any], None]] = {
    "PROTO": Machine.protocol, "FRAME": Machine.nothing, "MARK": Machine.mark, "GLOBAL": Machine.name,
    "STACK_GLOBAL": Machine.name, "REDUCE": Machine.call, "NEWOBJ": Machine.make, "BUILD": Machine.fill,
    "BINPERSID": Machine.storage, "APPEND": Machine.append, "APPENDS": Machine.appends, "ADDITEMS": Machine.add,
    "SETITEM": Machine.set_item, "SETITEMS": Machine.set_items, "LIST": Machine.list_of, "DICT": Machine.dict_of,
    "TUPLE": Machine.tuple_of, "TUPLE1": lambda m, _: m.tuple_of(1), "TUPLE2": lambda m, _: m.tuple_of(2),
    "TUPLE3": lambda m, _: m.tuple_of(3), "POP": lambda m, _: m.stack.pop(),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), Machine.remember),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine.recall),
}  # fmt: skip
