"""Wrapper of public functions: accepts NumPy's argument names, and raises TypeErrors that name the wrong argument.

Arguments are checked only after a call has failed, so a correct call costs no more than a try block.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from tdt._core.dtype import dtype
from tdt._core.tensor import Tensor
from tdt._core.wrapping import wraps

# PyTorch accepts these as aliases in every function with a parameter of that name.
NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}

TENSOR_TYPES: set[type] = {Tensor}  # and all subclasses: a lookup in this set is the fastest test for a tensor


def _add_tensor_type(cls: type[Tensor], **kwargs: Any) -> None:
    super(Tensor, cls).__init_subclass__(**kwargs)
    TENSOR_TYPES.add(cls)


Tensor.__init_subclass__ = classmethod(_add_tensor_type)  # type: ignore[assignment]


def front(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `function`: accepts NumPy's argument names, and its TypeErrors name the argument of a wrong type."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs) if kwargs else function(*args)
        except Exception as error:
            renamed = _renamed(function, kwargs) if kwargs and isinstance(error, TypeError) else None
            if renamed is None:
                _check_arguments(function, args, kwargs)
                raise
        return called(*args, **renamed)

    return called


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


def as_numbers(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The attributes of op `name`, with 0-d tensors replaced by numbers.

    TypeError for a tensor with dimensions, and for one that requires a gradient.
    """
    for argument, value in settings.items():
        if isinstance(value, Tensor) and (value.ndim or value.requires_grad):
            raise TypeError(f"{name.lstrip('_')}(): argument '{argument}' must be Number, not {type(value).__name__}")
    return {argument: value.item() if isinstance(value, Tensor) else value for argument, value in settings.items()}


def _renamed(function: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """`kwargs` with NumPy's names replaced by PyTorch's; None if there is nothing to rename."""
    known = inspect.signature(function).parameters
    names = {
        name: NUMPY_NAMES[name]
        for name in kwargs
        if name not in known and NUMPY_NAMES.get(name) in known.keys() - kwargs.keys()
    }
    return {names.get(name, name): value for name, value in kwargs.items()} if names else None


def _check_arguments(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> None:
    """TypeError for the first argument whose value does not match its annotation."""
    signature = inspect.signature(function)
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return  # the error of the call itself names the missing argument
    for place, (name, value) in enumerate(arguments.items()):
        annotation = signature.parameters[name].annotation
        if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            annotation, value = "Sequence[Tensor]" if name == "tensors" else None, _flatten_varargs(value)
        if name == "out":
            expected, fits = "Tensor", value is None or _all(_is_tensor, value)
        elif isinstance(annotation, str) and annotation.removesuffix(" | None") in KINDS:
            expected, check = KINDS[annotation.removesuffix(" | None")]
            fits = check(value) or (value is None and annotation.endswith(" | None"))
        else:
            continue
        if not fits:
            where = "" if name in kwargs else f" (position {place + 1})"
            raise TypeError(
                f"{function.__name__}(): argument '{name}'{where} must be {expected}, {_describe_value(expected, value)}"
            ) from None


def _describe_value(expected: str, value: Any) -> str:
    """The type of a value that is not as `expected`; for a sequence, that of the first such element."""
    if isinstance(value, (tuple, list)) and expected.startswith("tuple of"):
        fits = _is_tensor if expected == "tuple of Tensors" else _is_int
        bad = next(i for i, element in enumerate(value) if not fits(element))
        return f"but found element of type {type(value[bad]).__name__} at pos {bad}"
    return f"not {'torch.dtype' if isinstance(value, dtype) else type(value).__name__}"


def _flatten_varargs(values: tuple) -> Any:
    """The sequence of tensors in `f(a, b)` and `f([a, b])`."""
    return values[0] if len(values) == 1 and isinstance(values[0], (tuple, list)) else values


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _is_int(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and not (value.is_floating_point() or value.is_complex())
    return hasattr(value, "__index__") and not isinstance(value, (bool, np.ndarray))


def _is_number(value: Any) -> bool:
    return value.numel() == 1 if isinstance(value, Tensor) else isinstance(value, (int, float, complex, np.number))


def _all(check: Callable[[Any], bool], value: Any) -> bool:
    """Whether `check` holds of a value, or of all that a tuple or list has."""
    return all(map(check, value)) if isinstance(value, (tuple, list)) else check(value)


# By annotation: PyTorch's name of the expected type, and a check.
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "Tensor": ("Tensor", _is_tensor),
    "Sequence[Tensor]": ("tuple of Tensors", lambda value: not _is_tensor(value) and _all(_is_tensor, value)),
    "int": ("int", _is_int),
    "bool": ("bool", lambda value: isinstance(value, (bool, np.bool_))),
    "float": ("Number", _is_number),
    "str": ("str", lambda value: isinstance(value, str)),
    "Dims": ("tuple of ints", lambda value: value is None or _all(_is_int, value)),
    "dtype": ("torch.dtype", lambda value: isinstance(value, dtype)),
    "Dtype": ("torch.dtype", lambda value: isinstance(value, dtype)),
}
