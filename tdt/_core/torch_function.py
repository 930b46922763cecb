"""`__torch_function__`: how classes of tensors, and modes, take over calls of tdt's functions.

To look for it takes time in every call, which programs that have no such class should not pay. So functions look for it only from
the first tensor of such a class on, or from the first mode: `begin` then gives all functions and methods other code, which asks
classes and modes before it runs the function's own. The functions stay the same objects, wherever they were imported.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, NoneType
from typing import Any

from tdt._core.mode import state
from tdt._core.tensor import Tensor

# Public modules whose functions are overridden, where these come from a module of RUNS.
NAMESPACES = ("_public", "nn.functional", "nn.init", "linalg", "fft", "special")
RUNS = (
    "tdt._ops.", "tdt._core.creation", "tdt._core.ranges", "tdt._core.layout", "tdt.autograd._variable",
    "tdt.autograd._in_place_methods", "tdt.sparse.", "tdt.nn.init", "tdt.linalg", "tdt.fft", "tdt.special",
)  # fmt: skip
NO_FUNCTIONS_OF_TENSORS = {"is_tensor", "is_distributed", "broadcast_shapes"}
# Functions of values, whose calls modes take over and classes of tensors do not.
OF_VALUES = {"tensor", "as_tensor", "from_numpy", "scalar_tensor"}
# Methods that are no functions of tensors, that handlers themselves call, or that call `unbind`.
NOT_OVERRIDDEN = {"as_subclass", "__iter__", "__init__", "__hash__", "__setattr__", "__getattr__", "__dir__"}
# Python's operators by the methods that handlers get for them.
OPERATORS = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add_", "__sub__": "sub", "__isub__": "sub_", "__mul__": "mul",
    "__rmul__": "mul", "__imul__": "mul_", "__truediv__": "div", "__itruediv__": "div_", "__mod__": "remainder",
    "__ifloordiv__": "floor_divide_", "__pow__": "pow", "__ipow__": "pow_", "__matmul__": "matmul", "__lt__": "lt",
    "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__ne__": "ne", "__neg__": "neg", "__abs__": "abs",
}  # fmt: skip
PLAIN = frozenset((Tensor, int, float, bool, complex, str, NoneType, slice))  # types without a handler
SEQUENCES = frozenset((list, tuple))

# Of each function that has been given other code, one with its own.
ORIGINALS: dict[FunctionType, FunctionType] = {}


def disabled(func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
    """`__torch_function__` of classes, as of parameters, whose tensors are computed with as any others."""
    return NotImplemented


def is_overriding(kind: type) -> bool:
    """Whether a class takes calls over."""
    return kind not in PLAIN and getattr(kind, "__torch_function__", disabled) is not disabled


def overriding_arguments(values: Iterable[Any]) -> list[Any]:
    """One argument of each class that takes calls over, subclasses before their bases."""
    found: list[Any] = []
    for x in values:
        kind = x.__class__
        if kind in PLAIN:
            continue
        inner = overriding_arguments(x) if kind in SEQUENCES else [x] if is_overriding(kind) else ()
        for each in inner:
            if each.__class__ not in map(type, found):
                place = next((i for i, y in enumerate(found) if issubclass(each.__class__, y.__class__)), len(found))
                found.insert(place, each)
    return found


def call_handlers(function: Any, overriding: list[Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result of the innermost mode, or of the first class, that takes the call of a function over; else NotImplemented."""
    types = tuple(map(type, overriding))
    if state.modes:
        modes = state.modes
        state.modes = modes[:-1]
        try:
            result = modes[-1].__torch_function__(function, types, args, kwargs)
        finally:
            state.modes = modes
        if result is not NotImplemented:
            return result
    for x in overriding:
        result = type(x).__torch_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def refused(function: Any, overriding: list[Any]) -> TypeError:
    """The error of a call that no handler took over."""
    names = "".join(f"\n  - tensor subclass {type(x)}" for x in overriding)
    return TypeError(
        f"Multiple dispatch failed for '{name_of(function)}'; all __torch_function__ handlers returned NotImplemented:\n{names}"
    )


def default(cls: type[Tensor], func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
    """Call the function with the tensors as they are, and give the tensors of its result this class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    before, state.subclasses = state.subclasses, False
    try:
        result = func(*args, **(kwargs or {}))
    finally:
        state.subclasses = before
    return result if func in AS_THEY_ARE else _converted(result, cls)


def _converted(result: Any, cls: type[Tensor]) -> Any:
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else Tensor._of_class(result, cls)
    if isinstance(result, (tuple, list)):
        parts = [_converted(x, cls) for x in result]
        return result._make(parts) if hasattr(result, "_make") else type(result)(parts)
    return result


def name_of(function: Any) -> str:
    """The public name of a function, method or property."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, property):
        return f"tdt.Tensor.{owner.fget.__name__}.{function.__name__}"  # type: ignore[union-attr]
    home = "" if function.__qualname__.startswith("Tensor.") else NAMES.get(function, "tdt")
    return f"tdt.{function.__qualname__}" if not home else f"{home}.{function.__name__}"


def functions() -> Iterator[tuple[str, FunctionType]]:
    """(public module, function) of all functions that classes and modes can take over."""
    for namespace in NAMESPACES:
        module = importlib.import_module(f"tdt.{namespace}")
        for name, function in vars(module).items():
            if name[0] == "_" or not isinstance(function, FunctionType) or name in NO_FUNCTIONS_OF_TENSORS:
                continue
            if function.__module__.startswith(RUNS):
                yield "tdt" if namespace == "_public" else f"tdt.{namespace}", function


def members() -> Iterator[tuple[FunctionType, Any]]:
    """(function, what handlers get as the function) of methods and properties of Tensor."""
    for name, member in vars(Tensor).items():
        hidden = name[0] == "_" and not (name.startswith("__") or name == "_version")
        if hidden or name in NOT_OVERRIDDEN:
            continue
        if isinstance(member, FunctionType):
            yield member, getattr(Tensor, OPERATORS.get(name, name))
        elif isinstance(member, property):
            for accessor, way in ((member.fget, member.__get__), (member.fset, member.__set__)):
                if isinstance(accessor, FunctionType):
                    yield accessor, way


NAMES: dict[FunctionType, str] = {}  # the public modules of functions
AS_THEY_ARE: tuple[Any, ...] = ()  # whose results keep their class


def begin() -> None:
    """Let all functions and methods look for `__torch_function__`. Further calls do nothing."""
    global AS_THEY_ARE
    if ORIGINALS:
        return
    AS_THEY_ARE = tuple(vars(Tensor)[name].__get__ for name in ("grad", "_base"))
    for home, function in functions():
        NAMES.setdefault(function, home)
    for function, shown in (*[(f, f) for f in NAMES], *members()):
        if function not in ORIGINALS:
            _give_handler(function, shown)


def end() -> None:
    """Give functions and methods their own code back, as it was before `begin`."""
    for function, own in ORIGINALS.items():
        function.__code__ = own.__code__
        if vars(function).get("__wrapped__") is own:
            del function.__wrapped__  # type: ignore[attr-defined]
    ORIGINALS.clear()


def _begin_with(cls: type[Tensor]) -> None:
    """`begin` for the first tensor of a class that takes calls over."""
    if not ORIGINALS and is_overriding(cls):
        begin()


ENTRY = """
def enclosing({names}):
    def entry(*args, **kwargs):
        handler = "a function that takes this constant's place"
        return handler(*args, **kwargs)
        ({names})
"""


@functools.cache
def _entry(names: str) -> CodeType:
    """The code of a function that calls its handler, with these free variables: a function's new code must have the old one's."""
    code = compile(ENTRY.format(names=names), __file__, "exec")
    for _ in range(2):
        code = next(c for c in code.co_consts if isinstance(c, CodeType))
    return code


def _give_handler(function: FunctionType, shown: Any) -> None:
    """Let a function ask classes and modes first, which get it as `shown`."""
    code = function.__code__
    own = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    own.__kwdefaults__ = function.__kwdefaults__
    is_operator = function.__name__ in OPERATORS or function.__name__.startswith("__r")
    classes = function.__name__ not in OF_VALUES

    def handler(*args: Any, **kwargs: Any) -> Any:
        overriding: list[Any] = []
        if classes and state.subclasses:
            overriding = overriding_arguments((*args, *kwargs.values()) if kwargs else args)
        if not overriding and not state.modes:
            return own(*args, **kwargs)
        result = call_handlers(shown, overriding, args, kwargs)
        if result is NotImplemented and not is_operator:
            raise refused(shown, overriding)
        return result

    ORIGINALS[function] = own
    if not hasattr(function, "__wrapped__"):
        function.__wrapped__ = own  # type: ignore[attr-defined]  # whose signature `inspect` shows
    entry = _entry("".join(f"{name}, " for name in code.co_freevars))
    constants = tuple(handler if isinstance(c, str) else c for c in entry.co_consts)
    function.__code__ = entry.replace(co_name=code.co_name, co_qualname=code.co_qualname, co_consts=constants)


Tensor.__torch_function__ = classmethod(default)  # type: ignore[attr-defined]
Tensor._begin_with = staticmethod(_begin_with)
