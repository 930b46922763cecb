"""What a function depends on besides its arguments, as far as it can be seen, and whether that is still as it was.

Found are: the modules, tensors, numbers and functions that a function reads as free variables, globals, defaults and the
attributes of `self`, and the same of functions and modules found there, except for those of this package itself.
"""

from __future__ import annotations

import builtins
import dis
import functools
import gc
import random
import sys
import types
import weakref
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import is_
from typing import Any

import numpy as np

from tdt._compiled.program import Refusal
from tdt._core.tensor import Tensor
from tdt._kernels._references import References
from tdt._random import Generator

SCALARS = frozenset((bool, int, float, complex, str, bytes, type(None)))
REGISTRIES = ("_parameters", "_buffers", "_modules")
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
GLOBAL = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"))
MOST_OBJECTS = 20_000
MOST_BYTES = 65536  # of an array of numbers that is compared in each call
SKIPPED = (types.ModuleType, slice, np.generic, np.dtype)
NEVER_HELD: tuple[type, ...] = (weakref.ReferenceType, *weakref.ProxyTypes, memoryview, type({}.values()))
OWN = frozenset(("tdt", "numpy", *sys.stdlib_module_names))
MISSING = object()


class Guards:
    """What a function depends on, and its values now.

    Attributes:
        tensors: the tensors found: parameters, buffers and others.
        generators: of random numbers, that were found.
    """

    def __init__(self, *objects: Any):
        self.tensors: list[Tensor] = []
        self.generators: list[Generator] = []
        self._dicts: list[dict] = []
        self._lists: list[list] = []
        self._others: list[Any] = []  # deques, sets, and dicts with an order of their own
        self._arrays: list[tuple[Any, tuple]] = []  # NumPy's and Python's, with what they contain
        # [object, name, value]: contents of cells, `__slots__`, defaults of functions.
        self._slots: list[list[Any]] = []
        self._globals: list[list[Any]] = []  # [dict, name, value]
        self._empty: list[Any] = []  # dicts, lists and sets, as those of hooks, that must stay empty
        self._visited: dict[int, Any] = {}
        self._optimizers: list[Any] = []
        self._reads_options = False  # whether code of the user's own takes a look at them
        self._visit_items(objects)
        for optimizer in self._optimizers if self._reads_options else ():
            self._hold_options(optimizer)
        self._containers = [*self._dicts, *self._lists]
        self._sizes = [*map(len, self._containers)]
        self._items = [*self._contained()]
        self._other_sizes = [*map(len, self._others)]
        self._other_items = [*chain.from_iterable(self._others)]

    def hold(self) -> bool:
        """Whether all is as it was, but for numbers and texts that were replaced by equal ones."""
        if any(self._empty) or [*map(len, self._containers)] != self._sizes:
            return False
        if not all(map(is_, self._contained(), self._items)) and not _alike(self._contained(), self._items):
            return False
        if not self.hold_others():
            return False
        for owner, name, value in self._slots:
            if (now := _slot(owner, name)) is not value and not _alike((now,), (value,)):
                return False
        for names, name, value in self._globals:
            if (now := names.get(name, MISSING)) is not value and not _alike((now,), (value,)):
                return False
        return True

    def refer(self, references: References) -> None:
        """Name what `hold` looks at, but for what `hold_others` does."""
        for container in (*self._containers, *self._empty):
            references.container(container)
        for owner, name, _ in self._slots:
            references.slot(owner, name)
        for names, name, _ in self._globals:
            references.item(names, name)

    def hold_others(self) -> bool:
        """Whether deques, sets, orders of dicts, and arrays of numbers are as they were."""
        others = self._others
        if not (others or self._arrays):
            return True
        if others and [*map(len, others)] != self._other_sizes:
            return False
        if self._other_items and not _alike(chain.from_iterable(others), self._other_items):
            return False
        return not self._arrays or all(_contents(each) == contents for each, contents in self._arrays)

    def _contained(self) -> Iterable[Any]:
        """The keys and values of dicts, and the items of lists."""
        return chain.from_iterable((*map(dict.keys, self._dicts), *map(dict.values, self._dicts), *self._lists))

    def _visit(self, value: Any) -> None:
        if value.__class__ in SCALARS or id(value) in self._visited:
            return
        if isinstance(value, type):
            self._visit_class(value)
            return
        self._visited[id(value)] = value
        if len(self._visited) > MOST_OBJECTS:
            raise Refusal(f"it refers to more than {MOST_OBJECTS} objects")
        for kinds, visit in VISITS:
            if isinstance(value, kinds):
                visit(self, value)
                return
        if isinstance(value, SKIPPED) or any(kind.__module__ == "logging" for kind in type(value).__mro__):
            return
        _check_changes(value)
        if isinstance(value, (np.ndarray, array, bytearray)):
            self._hold_array(value)
            self._visit_attributes(value)
        elif all(name in getattr(value, "__dict__", ()) for name in REGISTRIES):
            self._visit_module(value)
        elif hasattr(value, "is_compiled_by_tdt"):
            self._visit(value.function)
        elif hasattr(value, "param_groups"):
            self._visit_optimizer(value)
        else:
            self._visit_object(value)

    def _visit_tensor(self, value: Tensor) -> None:
        self.tensors.append(value)
        for name in [name for name in vars(value) if not name.startswith("_")]:
            self._hold_item(vars(value), name)

    def _visit_collection(self, value: Any) -> None:
        """A list, tuple or set."""
        if isinstance(value, set) and not value:
            self._empty.append(value)
        elif isinstance(value, (set, deque)):
            self._others.append(value)
        elif isinstance(value, list):
            (self._lists if value else self._empty).append(value)
        self._visit_items(value)
        self._visit_attributes(value)

    def _visit_dict(self, value: dict) -> None:
        self._hold_dict(value)
        self._visit_items([*value, *dict.values(value)])
        self._visit_attributes(value)

    def _visit_generator(self, value: Generator) -> None:
        self._hold_dict(vars(value))
        self.generators.append(value)
        if value.device.type == "cpu":  # that of a GPU draws, and is seeded, without a new recording
            self._hold_dict(vars(value.engine))  # with its seed

    def _visit_optimizer(self, value: Any) -> None:
        if not getattr(value, "is_recorded", False):
            raise Refusal(
                f"it refers to an optimizer, {type(value).__name__}, whose steps are not recorded: compile only the "
                "computation of the loss"
            )
        self._optimizers.append(value)
        self._visit_items(p for group in value.param_groups for p in group["params"])
        self._visit_class(type(value))

    def _visit_object(self, value: Any) -> None:
        kind = type(value)
        is_held = self._visit_attributes(value) or (kind.__hash__ is not None and (_is_own(kind) or callable(value)))
        if isinstance(value, NEVER_HELD) or not is_held:
            raise Refusal(f"it refers to an object of type {kind.__name__}, whose changes are not seen")

    def _visit_attributes(self, value: Any) -> bool:
        """Those of an object that has some in a dictionary, or in slots of a class of the user's; whether it may have some."""
        kind = type(value)
        found = hasattr(value, "__dict__")
        if found:
            self._hold_dict(vars(value))
            self._visit_items(vars(value).values())
        for base in kind.__mro__:
            if "__slots__" in vars(base) and not _is_own(base):
                found = True
                for name, slot in vars(base).items():
                    if isinstance(slot, types.MemberDescriptorType):
                        self._hold_slot(value, name)
        self._visit_class(kind)
        return found

    def _visit_items(self, values: Any) -> None:
        for value in list(values):
            self._visit(value)

    def _visit_module(self, module: Any) -> None:
        own = vars(module)
        if any(own[name] for name in HOOKS if "backward" in name):
            raise Refusal(f"backward hooks are registered on {type(module).__name__}", module)
        if type(module)._hooks_of_all:
            raise Refusal("hooks of all modules are registered")
        self._hold_dict(own)
        self._hold_dict(type(module)._hooks_of_all)
        for name in HOOKS:
            self._hold_dict(own[name])
            self._visit_items(hook.call for hook in own[name].values())
        for name in REGISTRIES:
            self._hold_dict(own[name])
            self._visit_items(own[name].values())
        self._visit_items(value for name, value in own.items() if name not in (*REGISTRIES, *HOOKS))
        self._visit_class(type(module))

    def _visit_class(self, kind: type) -> None:
        """The attributes and methods that a class of the user's has, and its bases of the user's."""
        bases = [base for base in kind.__mro__ if not _is_own(base)]
        if id(kind) in self._visited or not bases:
            return
        self._visited[id(kind)] = kind
        dicts = [gc.get_referents(vars(base))[0] for base in bases]  # themselves, where `vars` gives views of them
        names = {
            name: None
            for own in dicts
            for name, value in own.items()
            if not name.startswith("__") or isinstance(value, types.FunctionType)
        }
        for own in dicts:
            for name in (*names, "forward"):
                value = own.get(name, MISSING)
                self._globals.append([own, name, value])
                self._visit(getattr(value, "fget", None) or getattr(value, "__func__", value))

    def _hold_dict(self, d: dict) -> None:
        if not d:
            self._empty.append(d)
            return
        self._dicts.append(d)
        if isinstance(d, OrderedDict):
            self._others.append(d)

    def _hold_item(self, names: dict, name: str) -> None:
        value = names.get(name, MISSING)
        self._globals.append([names, name, value])
        self._visit(value)

    def _hold_slot(self, owner: Any, name: str) -> None:
        value = _slot(owner, name)
        self._slots.append([owner, name, value])
        self._visit(value)

    def _hold_array(self, value: Any) -> None:
        if (isinstance(value, np.ndarray) and value.dtype.hasobject) or memoryview(value).nbytes > MOST_BYTES:
            raise Refusal(f"it refers to an array of more than {MOST_BYTES} bytes or of objects, not a tensor")
        self._arrays.append((value, _contents(value)))

    def _hold_options(self, optimizer: Any) -> None:
        """Let the options of an optimizer be as they are, which its recorded step reads anew in each call."""
        groups = optimizer.param_groups
        self._globals.append([vars(optimizer), "param_groups", groups])
        self._lists.append(groups)
        for group in groups:
            self._hold_dict(group)
            self._visit_items(group.values())

    def _visit_function(self, function: types.FunctionType) -> None:
        if (function.__module__ or "").partition(".")[0] == "tdt":
            return
        for cell in function.__closure__ or ():
            self._hold_slot(cell, "cell_contents")
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            self._hold_slot(function, name)
        self._visit(vars(function))
        codes = [function.__code__]
        for code in codes:  # which grows
            codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        self._reads_options |= any("param_groups" in (*code.co_names, *code.co_consts) for code in codes)
        for name in {i.argval for code in codes for i in dis.get_instructions(code) if i.opname in GLOBAL}:
            value = function.__globals__.get(name, MISSING)
            if value is not MISSING or not hasattr(builtins, name):
                self._hold_item(function.__globals__, name)


# How objects of some kinds are visited.
VISITS: tuple[tuple[Any, Callable[[Guards, Any], None]], ...] = (
    (Tensor, Guards._visit_tensor),
    (types.FunctionType, Guards._visit_function),
    (types.MethodType, lambda guards, value: guards._visit_items([value.__self__, value.__func__])),
    (
        functools.partial,
        lambda guards, value: guards._visit_items([value.func, *value.args, *value.keywords.values()]),
    ),
    ((list, deque, tuple, set, frozenset), Guards._visit_collection),
    (dict, Guards._visit_dict),
    (types.MappingProxyType, lambda guards, value: guards._visit_items(gc.get_referents(value))),
    (types.BuiltinFunctionType, lambda guards, value: guards._visit(value.__self__)),
    (Generator, Guards._visit_generator),
)


def _check_changes(value: Any) -> None:
    """Refuse iterators and generators of random numbers, whose changes are not seen."""
    if hasattr(value, "__next__"):
        raise Refusal(f"it refers to an iterator, {type(value).__name__}")
    if isinstance(value, random.Random) or type(value).__module__.startswith("numpy.random"):
        compared: tuple[Any, ...] = random.random, np.random.rand  # of those whose states recordings compare
        if not any(value is function.__self__ for function in compared):
            raise Refusal(f"it refers to a generator of random numbers, {type(value).__name__}")


def _is_own(kind: type) -> bool:
    """Whether a class is one of this package, of NumPy or of Python's library."""
    return kind.__module__.partition(".")[0] in OWN


def _slot(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except (AttributeError, ValueError):  # a slot, or a cell, that is not assigned yet
        return MISSING


def _contents(value: Any) -> tuple:
    """What an array of numbers contains, and how."""
    kind = (value.dtype, value.shape) if isinstance(value, np.ndarray) else getattr(value, "typecode", None)
    return kind, bytes(value) if isinstance(value, bytearray) else value.tobytes()


def _alike(now: Iterable[Any], before: Sequence[Any]) -> bool:
    """Whether values are the same objects, or equal numbers or texts."""
    for a, b in zip(now, before, strict=True):
        if a is not b and not (a.__class__ is b.__class__ and a.__class__ in SCALARS and (a, repr(a)) == (b, repr(b))):
            return False
    return True
