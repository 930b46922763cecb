"""Unpickles without executing code from the file: supports only the opcodes that plain data and tensors need.

Python's own unpickler calls any function that the file names. This one

- looks names up, as whole strings, in a table (`_names.ALLOWED_GLOBALS`) and in what the user allowed: it does not import
  modules or look up attributes;
- calls only functions of that table, and those that the user allowed;
- modifies only lists, dictionaries, sets and instances of allowed classes that it created during this load;
- counts the memory that each operation takes, and stops when it is out of proportion to the size of the file.

Anything else raises UnpicklingError.
"""

from __future__ import annotations

import pickletools
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from pickle import UnpicklingError
from typing import IO, Any

from tdt.serialization._names import RENAMED_MODULES, UNSUPPORTED, AllowedGlobal, allowed_global, checked_key
from tdt.serialization._rebuild import attributes, charge_to, str_of

LITERALS = {
    "INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2",
    "FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES",
    "BINBYTES8", "BYTEARRAY8", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
}  # fmt: skip
CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
CONTAINERS: dict[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set}
DICTIONARIES = (dict, OrderedDict, Counter)
BLOCKED = ("sys", "os", "posix", "nt")  # PyTorch rejects names of these modules even if the user allows them

ALLOWANCE, PER_BYTE = (
    64 << 20,
    128,
)  # memory limit of a pickle: ALLOWANCE bytes plus PER_BYTE bytes per byte of the file
SLOT, ENTRY, NOTE, CALL = (
    8,
    100,
    150,
    600,
)  # estimated overhead in bytes: of a list item, a dictionary entry, a record in `created` or `hashes`, a call


class _Bounded:
    """A file that rejects reads past its end before memory is allocated for them."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, here = file, file.tell()
        self.left = file.seek(0, 2) - here
        file.seek(here)
        self.tell = file.tell

    def read(self, n: int) -> bytes:
        """The next `n` bytes."""
        if n == 1 and not self.left:
            return b""
        if not 0 <= n <= self.left:
            raise UnpicklingError(f"the pickle claims {n} bytes, but only {self.left} are left")
        self.left -= n
        return self.file.read(n)

    def readline(self) -> bytes:
        """The next line."""
        line = self.file.readline()
        self.left -= len(line)
        return line


class RestrictedUnpickler:
    """Loads one pickle from `file`.

    Args:
        trusted: classes and functions that the user allowed, by dotted name.
        persistent: function from a persistent id to its storage.
        stored: compressed size of the pickle in bytes; default: its length.
    """

    def __init__(
        self, file: IO[bytes], trusted: dict[str, Any], persistent: Callable[[Any], Any], stored: int | None = None
    ) -> None:
        self.file, self.trusted, self.persistent = _Bounded(file), trusted, persistent
        self.classes = [value for value in trusted.values() if isinstance(value, type)]
        self.allowance = ALLOWANCE + PER_BYTE * (self.file.left if stored is None else stored)
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.calls: dict[int, Callable[..., Any]] = {}  # id of a global → the function that REDUCE calls for it
        self.hashes: Counter[tuple[int, int]] = (
            Counter()
        )  # number of keys by (id of their container, hash): see `checked_key`
        self.created: dict[int, Any] = {}  # id → containers and instances that this load created, and may modify

    def load(self) -> Any:
        """The object in the file."""
        charge_to(self.spend)
        try:
            for opcode, arg, _ in pickletools.genops(self.file):  # type: ignore[arg-type]
                name = opcode.name
                if step := STEPS.get(name):
                    step(self, arg)
                elif name in LITERALS:  # inlined `push`: most opcodes are literals
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
                    self.push_created(CONTAINERS[name]())
                else:
                    raise UnpicklingError(f"Unsupported operation {name}")
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise UnpicklingError(
                f"the pickle is damaged or not in the format of saved tensors: {str(error)[:500]}"
            ) from error
        raise UnpicklingError("the pickle has no STOP opcode")

    def spend(self, size: int) -> None:
        """Subtract `size` bytes from the memory limit; UnpicklingError if it is exceeded."""
        self.allowance -= size
        if self.allowance < 0:
            raise UnpicklingError("the pickle would allocate far more memory than a file of its size needs")

    def push(self, value: Any) -> None:
        """Push a new value."""
        self.spend(sys.getsizeof(value) + SLOT)
        self.stack.append(value)

    def push_created(self, value: Any) -> None:
        """Push an object that this load created, and may modify."""
        self.spend(NOTE)
        self.created[id(value)] = value
        self.push(value)

    def pop_mark(self) -> list[Any]:
        """The items pushed since the last mark."""
        items, self.stack = self.stack, self.marks.pop()
        return items

    def mark(self, _: Any) -> None:
        self.spend(ENTRY)
        self.marks.append(self.stack)
        self.stack = []

    def memoize(self, number: Any) -> None:
        self.spend(ENTRY)
        self.memo[len(self.memo) if number is None else number] = self.stack[-1]

    def get_memo(self, number: int) -> None:
        self.spend(SLOT)
        self.stack.append(self.memo[number])

    def push_global(self, pair: str | None) -> None:
        module, name = pair.split(" ") if pair is not None else self._last(2)
        if type(module) is not str or type(name) is not str:
            raise UnpicklingError("a name in the pickle is not a string")
        found = self.find_global(RENAMED_MODULES.get(module, module), name)
        self.spend(ENTRY)
        if found.call is not None:
            self.calls[id(found.value)] = found.call
        self.stack.append(found.value)

    def find_global(self, module: str, name: str) -> AllowedGlobal:
        """The global of exactly this name, from the table or allowed by the user; UnpicklingError if it is not allowed."""
        full = f"{module}.{name}"
        if module in BLOCKED:
            raise UnpicklingError(f"Trying to load unsupported GLOBAL {str_of(full)} whose module {module} is blocked.")
        ours = "tdt." + full.removeprefix("torch.") if full.startswith("torch.") else full
        for allowed in (full, ours):
            if allowed in self.trusted:
                value = self.trusted[allowed]
                return AllowedGlobal(value, value, "allowed by the user")
        if (found := allowed_global(full)) is not None:
            return found
        if full in UNSUPPORTED:
            raise UnpicklingError(f"the file refers to {full}: it contains {UNSUPPORTED[full]}.")
        raise GlobalNotAllowed(str_of(full))

    def _last(self, n: int) -> list[Any]:
        items = self.stack[-n:]
        if len(items) != n:
            raise UnpicklingError("the pickle pops more values than it pushed")
        del self.stack[-n:]
        return items

    def reduce(self, _: Any) -> None:
        function, args = self._last(2)
        run = self.calls.get(id(function))  # by id: globals live as long as the process
        if run is None:
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {_name_of(function)}")
        if type(args) is not tuple:
            raise UnpicklingError(f"the arguments of a call must be a tuple, not {type(args)}")
        self.spend(CALL + sum(map(_copy_size, args)))
        result = run(*args)
        if type(result) in (OrderedDict, Counter, set) or self._is_trusted(type(result)):
            self.push_created(result)
        else:
            self.push(result)

    def new_object(self, _: Any) -> None:
        kind, args = self._last(2)
        plain = _is_one_of(kind, (OrderedDict, Counter)) and type(args) is tuple and not args
        if not plain and not (self._is_trusted(kind) and type(args) is tuple):
            raise UnpicklingError(f"Trying to call new for unsupported class {_name_of(kind)}")
        self.spend(CALL)
        self.push_created(kind.__new__(kind, *args))

    def _is_trusted(self, kind: Any) -> bool:
        return isinstance(kind, type) and _is_one_of(kind, self.classes)

    def build(self, _: Any) -> None:
        state = self.stack.pop()
        instance = self._top_created()
        if self._is_trusted(type(instance)):
            _fill(instance, state)
        elif type(instance) in (OrderedDict, Counter):
            instance.__dict__.update(attributes(state, type(instance)))
        else:
            raise UnpicklingError(f"Can only build OrderedDict and classes that were allowed, not {type(instance)}")

    def _top_created(self) -> Any:
        """The object on top of the stack, which must have been created by this load."""
        top = self.stack[-1]
        if self.created.get(id(top)) is not top or top is None:
            raise UnpicklingError(f"Can only modify objects that this load created, not an object of {type(top)}")
        return top

    def storage(self, _: Any) -> None:
        self.spend(CALL)  # not the storage's bytes: they are in the file, and `Storages` compares them with its size
        self.stack.append(self.persistent(self.stack.pop()))

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
        """`key`, if it is a valid key of `target`; otherwise ValueError."""
        counted = len(self.hashes)
        checked_key(key, self.hashes, id(target))
        if len(self.hashes) > counted:
            self.spend(NOTE)
        return key

    def _target(self, *kinds: type) -> Any:
        target = self._top_created()
        if type(target) not in kinds and not (self._is_trusted(type(target)) and isinstance(target, kinds)):
            raise UnpicklingError(f"Can only modify {' and '.join(k.__name__ for k in kinds)}, not {type(target)}")
        return target

    def tuple_of(self, n: int | None) -> None:
        items = self.pop_mark() if n is None else self._last(n)
        self.push(tuple(items))

    def list_of(self, _: Any) -> None:
        self.push_created(self.pop_mark())

    def dict_of(self, _: Any) -> None:
        items = self.pop_mark()
        self.push_created({})
        self._update(items)

    def protocol(self, number: int) -> None:
        if number > 5:
            raise UnpicklingError(f"unsupported pickle protocol: {number}")

    def ignore(self, _: Any) -> None:
        """FRAME: contains no data."""


class GlobalNotAllowed(UnpicklingError):
    """The file refers to a global that neither the table nor the user allows."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Unsupported global: GLOBAL {name} was not an allowed global by default.")
        self.name = name


def names_in(file: IO[bytes]) -> set[tuple[str, str]]:
    """(module, name) of all globals in a pickle, without loading it: tracks only the strings on its stack."""
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
        popped = opcode.stack_before
        if pickletools.markobject in popped or (opcode.name == "POP" and stack and stack[-1] is MARK):
            while stack and stack.pop() is not MARK:
                pass
            popped = popped[: popped.index(pickletools.markobject)] if pickletools.markobject in popped else []
        del stack[max(0, len(stack) - len(popped)) :]
        stack += [MARK if kind is pickletools.markobject else pushed for kind in opcode.stack_after]
    return names


MARK = object()


def _name_of(value: Any) -> str:
    """The name of a class, or the type of any other object: values from the file are not printed, since they may be huge."""
    return repr(value) if isinstance(value, type) else f"an object of {type(value)}"


def _is_one_of(value: Any, choices: Iterable[Any]) -> bool:
    return any(value is choice for choice in choices)


def _copy_size(value: Any) -> int:
    """An upper bound of the memory that a copy of an argument takes, in bytes."""
    if isinstance(value, str | bytes | bytearray):
        return sys.getsizeof(value)
    return ENTRY * len(value) if isinstance(value, tuple | list | dict | set) else 0


def _fill(instance: Any, state: Any) -> None:
    """Set the state of an instance of an allowed class, as pickle does."""
    if hasattr(instance, "__setstate__"):
        instance.__setstate__(state)
        return
    values, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if values:
        instance.__dict__.update(values)
    for name, value in (slots or {}).items():
        setattr(instance, name, value)


_U = RestrictedUnpickler
STEPS: dict[str, Callable[[RestrictedUnpickler, Any], None]] = {
    "PROTO": _U.protocol, "FRAME": _U.ignore, "MARK": _U.mark, "GLOBAL": _U.push_global,
    "STACK_GLOBAL": _U.push_global, "REDUCE": _U.reduce, "NEWOBJ": _U.new_object, "BUILD": _U.build,
    "BINPERSID": _U.storage, "APPEND": _U.append, "APPENDS": _U.appends, "ADDITEMS": _U.add,
    "SETITEM": _U.set_item, "SETITEMS": _U.set_items, "LIST": _U.list_of, "DICT": _U.dict_of,
    "TUPLE": _U.tuple_of, "TUPLE1": lambda m, _: m.tuple_of(1), "TUPLE2": lambda m, _: m.tuple_of(2),
    "TUPLE3": lambda m, _: m.tuple_of(3), "POP": lambda m, _: m.stack.pop(),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _U.memoize),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _U.get_memo),
}  # fmt: skip
