"""Wrapper of public functions: accepts NumPy's argument names, and raises TypeErrors that name the wrong argument.

Arguments are checked only after a call has failed, so a correct call costs no more than a try block.
"""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from tdt._core.dtype import dtype
from tdt._core.tensor import Tensor
from tdt._core.wrapping import wraps

F = TypeVar("F", bound=Callable[..., Any])

# PyTorch accepts these as aliases in every function with a parameter of that name.
NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}

# Names of one parameter in those of PyTorch's overloads that take it as a number, a tensor or a sequence alone.
OVERLOADS_NAMES = {
    "element": "elements",
    "test_element": "test_elements",
    "split_size": "split_size_or_sections",
    **dict.fromkeys(("sections", "indices", "tensor_indices_or_sections"), "indices_or_sections"),
}
OTHER_NAMES = NUMPY_NAMES | OVERLOADS_NAMES

PUBLIC_MODULES = ("tdt", "tdt.nn.functional")  # whose functions TypeErrors name

# In PyTorch, Python functions that pass all their arguments on by position: errors tell also a keyword argument's position.
BY_POSITION = {"glu", "group_norm", "layer_norm", "max_pool1d", "max_pool2d", "max_pool3d"}

VIEWED = ("dim", "index", "start", "length", "end", "size")  # beginnings of integer arguments' names that views take

TENSOR_TYPES: set[type] = {Tensor}  # and all subclasses: a lookup in this set is the fastest test for a tensor


def _add_tensor_type(cls: type[Tensor], **kwargs: Any) -> None:
    super(Tensor, cls).__init_subclass__(**kwargs)
    TENSOR_TYPES.add(cls)


Tensor.__init_subclass__ = classmethod(_add_tensor_type)  # type: ignore[assignment]


def front(function: F) -> F:
    """Wrap `function`: accepts NumPy's argument names, and its TypeErrors name the argument of a wrong type."""
    function = refusing_bools(function)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs) if kwargs else function(*args)
        except Exception as error:
            renamed = renamed_keywords(function, args, kwargs, error, sys._getframe().f_code)
            if renamed is None:
                raise
        return called(*args, **renamed)

    return cast(F, called)


def refusing_bools(function: F) -> F:
    """`function`, but with a TypeError for a bool as an integer, or first in a sequence of integers.

    Those of `VIEWED`, as dimensions, are refused where they are looked at, so that views need no further call.
    """
    code = inspect.unwrap(function).__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    kinds = {name: str(function.__annotations__.get(name)).removesuffix(" | None") for name in names}
    places = [(k, name) for k, name in enumerate(names) if kinds[name] in INTEGERS and not name.startswith(VIEWED)]
    if not places:
        return function

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        count = len(args)
        for at, name in places:
            value = args[at] if at < count else kwargs.get(name)
            if is_bool(value):
                raise TypeError(f"{code.co_name}(): argument '{name}' must be int, not bool")
        return function(*args, **kwargs)

    return cast(F, checked)


def is_bool(value: Any) -> bool:
    """Whether `value` is a bool, or a sequence that begins with one: of integers, PyTorch looks at the first alone."""
    kind = value.__class__
    return kind is bool or ((kind is tuple or kind is list) and value and value[0].__class__ is bool)


def is_empty(value: Any) -> bool:
    """Whether `value` is an empty tuple or list. A number of NumPy compared with one gives an array, not a bool."""
    return value.__class__ in (tuple, list) and not value


def integer(value: Any) -> int:
    """`operator.index(value)`, but TypeError for a bool."""
    if value.__class__ is bool:
        raise TypeError("an integer is required, not a bool")
    return operator.index(value)


def renamed_keywords(
    function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], error: Exception, code: CodeType
) -> dict[str, Any] | None:
    """A failed call's keyword arguments under the names of `function`; None if they have them, TypeError for a wrong one.

    Args:
        error: that the call of `function` raised.
        code: of the public function, or method.
    """
    renamed = _renamed(function, kwargs) if kwargs and isinstance(error, TypeError) else None
    if renamed is None:
        check_call()
        _check_arguments(function, args, kwargs, code)
    return renamed


def in_namespace(module: str, namespace: dict[str, Any]) -> None:
    """Let TypeErrors of a namespace's functions name them as PyTorch does: `linalg_det()` for `tdt.linalg.det`.

    Args:
        module: name of the namespace's module.
        namespace: its globals; each function in `__all__` is replaced by one of its own, as `tdt` may have it too.
    """
    for name in namespace["__all__"]:
        if isinstance(namespace[name], FunctionType):
            namespace[name] = _renaming(namespace[name], module, name)


def _renaming(function: FunctionType, module: str, name: str) -> Callable[..., Any]:
    """`function` as `module.name`."""
    own, shown = function.__name__, f"{module.rpartition('.')[2]}_{name}"

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs) if kwargs else function(*args)
        except TypeError as error:
            message = str(error)
            if message.startswith(f"{own}()"):
                error.args = (shown + message.removeprefix(own),)
            raise

    called.__module__, called.__name__, called.__qualname__ = module, name, name
    called.__code__ = called.__code__.replace(co_name=name, co_qualname=name)
    return called


def check_call() -> None:
    """TypeError for the wrong argument of the public function that was called, under the names of its own signature.

    For ops and helpers that refuse a value, and know it by another name than the caller. The function is found on the
    stack, so that a correct call costs nothing; no error is raised where all its arguments are of the right kind.
    """
    found: TypeError | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tdt":
        function = _public_function(frame.f_code)
        if function is not None:
            try:
                _check_arguments(function, *_arguments_of(frame), frame.f_code)
            except TypeError as error:
                found = error  # of functions that call each other, the outermost got the wrong value from the user
        frame = frame.f_back
    try:
        if found is not None:
            raise found from None
    finally:
        found = None  # the error would refer to itself, by this frame


def _public_function(code: CodeType) -> Callable[..., Any] | None:
    """The function of tdt, or method of Tensor, that `code` belongs to."""
    owner, _, name = code.co_qualname.rpartition(".")
    homes = {"": filter(None, map(sys.modules.get, PUBLIC_MODULES)), "Tensor": (Tensor,)}.get(owner, ())
    functions = (vars(home).get(name) for home in homes)
    return next((function for function in functions if getattr(function, "__code__", None) is code), None)


def _arguments_of(frame: FrameType) -> tuple[tuple, dict[str, Any]]:
    """The positional and the keyword arguments with which the function of a frame was called."""
    code, values = frame.f_code, {**frame.f_locals}
    # Before Python 3.13 a frame keeps a copy of its variables, and in it the error that was raised.
    if isinstance(frame.f_locals, dict):
        frame.f_locals.clear()
    count = code.co_argcount
    keywords = code.co_varnames[count : count + code.co_kwonlyargcount]
    rest = code.co_varnames[count + len(keywords) :]
    args = tuple(values.get(name) for name in code.co_varnames[:count])
    kwargs = {name: values.get(name) for name in keywords}
    if code.co_flags & inspect.CO_VARARGS:
        args, rest = (*args, *values.get(rest[0], ())), rest[1:]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs |= values.get(rest[0], {})
    return args, kwargs


def as_shape(args: tuple[Any, ...], least: int = -sys.maxsize) -> tuple[int, ...]:
    """Sizes passed as `f(2, 3)` or `f((2, 3))`, as a tuple of ints; TypeError for anything else.

    RuntimeError for a size below `least`: NumPy takes any negative one for -1.
    """
    if len(args) == 1 and args[0].__class__ is tuple:
        args = args[0]
    for size in args:
        if size.__class__ is not int or size < least:
            break
    else:
        return args
    try:
        if len(args) == 1 and not hasattr(args[0], "__index__"):
            args = tuple(args[0])
        sizes = (integer(args[0]), *map(operator.index, args[1:])) if args else args
    except TypeError:
        check_call()
        raise
    for place, size in enumerate(sizes):
        if size < least:
            raise RuntimeError(f"invalid shape dimension {size} at index {place} of shape {list(sizes)}")
    return sizes


def as_numbers(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The attributes of op `name`, with 0-d tensors replaced by numbers.

    TypeError for a tensor with dimensions, and for one that requires a gradient.
    """
    for argument, value in settings.items():
        if isinstance(value, Tensor) and (value.ndim or value.requires_grad):
            check_call()
            raise TypeError(f"{name.lstrip('_')}(): argument '{argument}' must be Number, not {type(value).__name__}")
    return {argument: value.item() if isinstance(value, Tensor) else value for argument, value in settings.items()}


def plain_number(value: Any) -> Any:
    """A number of NumPy as one of Python; anything else as it is."""
    return value.item() if isinstance(value, np.number) else value


def _renamed(function: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """`kwargs` with other names of parameters replaced by those of `function`; None if there is nothing to rename."""
    known = inspect.signature(function).parameters
    names = {
        name: OTHER_NAMES[name]
        for name in kwargs
        if name not in known and OTHER_NAMES.get(name) in known.keys() - kwargs.keys()
    }
    return {names.get(name, name): value for name, value in kwargs.items()} if names else None


def _check_arguments(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], code: CodeType) -> None:
    """TypeError for the first argument whose value does not match its annotation.

    Args:
        code: of the public function or method, which has its name; PyTorch does not count a method's tensor.
    """
    signature = inspect.signature(function)
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return  # the error of the call itself names the missing argument
    for place, (name, value) in enumerate(arguments.items(), start=not code.co_qualname.startswith("Tensor.")):
        parameter = signature.parameters[name]
        annotation = parameter.annotation
        if value is parameter.default:
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            annotation = VARARGS.get(name, annotation)
            if name == "ends":  # `randint(low, high, size)`
                annotation, value = "Ints", [n for v in value for n in (v if isinstance(v, (tuple, list)) else (v,))]
            else:
                value = _from_varargs(value, annotation)
        if name == "out":
            expected, fits = "Tensor", value is None or _all(_is_tensor, value)
        elif isinstance(annotation, str) and annotation.removesuffix(" | None") in KINDS:
            expected, check = KINDS[annotation.removesuffix(" | None")]
            fits = check(value) or (value is None and annotation.endswith(" | None"))
        else:
            continue
        if not fits:
            if name in kwargs and code.co_name in BY_POSITION:
                where = f" (position {[*signature.parameters].index(name) + 1})"
            else:
                where = "" if name in kwargs else f" (position {place})"
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL and name in ONE_BY_ONE:
                name = next((n for n in ONE_BY_ONE[name] if n in signature.parameters), name)
            raise TypeError(f"{code.co_name}(): argument '{name}'{_problem(where, expected, value)}") from None


def _problem(where: str, expected: str, value: Any) -> str:
    """What came instead of what was `expected`, as PyTorch says it; of several values the first that does not fit."""
    if isinstance(value, (tuple, list)) and expected.startswith("tuple of"):
        ints = expected != "tuple of Tensors"
        fits = [(_is_int(v) or (k > 0 and v.__class__ is bool)) if ints else _is_tensor(v) for k, v in enumerate(value)]
        place = fits.index(False)
        kind = type(value[place]).__name__
        if place and ints:
            return (
                f' failed to unpack the object at pos {place + 1} with error "type must be {expected},but got {kind}"'
            )
        return f"{where} must be {expected}, but found element of type {kind} at pos {place}"
    return f"{where} must be {expected}, not {'torch.dtype' if isinstance(value, dtype) else type(value).__name__}"


def _from_varargs(values: tuple, annotation: str) -> Any:
    """The sequence that came as `f(a, b)`, or `f([a, b])`; where integers are expected, any single value as it is."""
    alone = len(values) == 1 and (isinstance(values[0], (tuple, list)) or KINDS.get(annotation) is INTS)
    return values[0] if alone else values


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _is_int(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and not (value.is_floating_point() or value.is_complex())
    return hasattr(value, "__index__") and not isinstance(value, (bool, np.ndarray))


def _are_ints(value: Any) -> bool:
    """Whether `value` is an integer, or a sequence or array of integers, of which all but the first may be bools."""
    if _is_int(value) or isinstance(value, str) or not hasattr(value, "__len__"):
        return _is_int(value)
    return not is_bool(value) and all(_is_int(v) or v.__class__ is bool for v in value)


def _is_number(value: Any) -> bool:
    return value.numel() == 1 if isinstance(value, Tensor) else isinstance(value, (int, float, complex, np.number))


def _all(check: Callable[[Any], bool], value: Any) -> bool:
    """Whether `check` holds of a value, or of all that a tuple or list has."""
    return all(map(check, value)) if isinstance(value, (tuple, list)) else check(value)


# What `f(*tensors)` and `f(*shapes)` take together; each of the shapes is a sequence itself.
# Names of sequences that come one by one, `f(*sizes)`, and those by which `f(size=sizes)` takes them.
ONE_BY_ONE = {"sizes": ("size", "shape"), "order": ("dims",), "places": ("dims",), "times": ("repeats", "dims")}
VARARGS = {"tensors": "Sequence[Tensor]", "shapes": "Sequence[Sequence[int]]"}
INTS: tuple[str, Callable[[Any], bool]] = ("tuple of ints", _are_ints)
OPERAND: tuple[str, Callable[[Any], bool]] = ("Tensor", lambda value: _is_tensor(value) or _is_number(value))

# By annotation: PyTorch's name of the expected type, and a check.
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "Tensor": ("Tensor", _is_tensor),
    "Sequence[Tensor]": ("tuple of Tensors", lambda value: not _is_tensor(value) and _all(_is_tensor, value)),
    "int": ("int", _is_int),
    "bool": ("bool", lambda value: isinstance(value, (bool, np.bool_))),
    "float": ("Number", _is_number),
    "Number": ("Number", _is_number),
    "Tensor | Number": OPERAND,
    "Number | Tensor": ("Number", OPERAND[1]),
    "Ints": INTS,
    "Sequence[int]": INTS,
    "int | Sequence[int]": INTS,
    "int | Sequence[int | None]": ("tuple of ints", lambda value: not is_bool(value)),
    "str": ("str", lambda value: isinstance(value, str)),
    "Dims": ("tuple of ints", lambda value: value is None or _are_ints(value)),
    "dtype": ("torch.dtype", lambda value: isinstance(value, dtype)),
    "Dtype": ("torch.dtype", lambda value: isinstance(value, dtype)),
}
INTEGERS = {annotation for annotation, (kind, _) in KINDS.items() if kind in ("int", "tuple of ints")}
