"""Helpers of all op families: dimensions, conjugation, `out=`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, SupportsIndex, TypeVar, overload

import numpy as np

from tdt._core.aliases import Device, Dims, Ints, Number  # noqa: F401
from tdt._core.calls import check_call, integer, is_bool
from tdt._core.mode import state
from tdt._core.tensor import Tensor
from tdt._core.wrapping import wraps
from tdt._core.writing import store
from tdt._kernels import EXPAND

if TYPE_CHECKING:
    from typing_extensions import TypeIs

ndarray = np.ndarray
P = ParamSpec("P")
R = TypeVar("R", covariant=True)


def conj(value: Any) -> Any:
    """The complex conjugate of a tensor or a Python number; a real one is returned unchanged."""
    return value.conj() if isinstance(value, Tensor) else value.conjugate()


@functools.cache
def one(xp: ModuleType, dtype: Any) -> Any:
    """The number 1 as a 0-d array, which NumPy's ufuncs take in half the time of a Python number; for CuPy, that number."""
    return 1 if getattr(xp, "__name__", None) == "cupy" else xp.ones((), dtype)


def wrap_dim(dim: Any, ndim: int, scalar_ok: bool = True) -> int:
    """`dim` counted from the front. A 0-d tensor has, as in PyTorch, a dimension 0 that is also -1.

    IndexError outside [-ndim, ndim); TypeError for what is no integer.
    """
    if dim.__class__ is int and -ndim <= dim < ndim:
        return dim if dim >= 0 else dim + ndim
    try:
        dim = integer(dim)
    except TypeError:
        raise TypeError(f"argument 'dim' must be int, not {type(dim).__name__}") from None
    n = ndim or (1 if scalar_ok else 0)
    if not n:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return dim + n if dim < 0 else dim


def expanded(xp: ModuleType, x: Any, shape: tuple[int, ...]) -> Any:
    """A view of x broadcast to `shape`."""
    return expanded_array(x, shape) if xp is np else xp.broadcast_to(x, shape)


def expanded_array(x: Any, shape: tuple[int, ...]) -> Any:
    """`expanded`, for NumPy's arrays."""
    view = EXPAND.call(x, shape)
    if view is None:
        view = np.broadcast_to(x, shape)
        if x.flags.writeable:  # NumPy locks it; in-place ops do their own check for overlap
            view.flags.writeable = True
    return view


def at_once(*operands: Tensor | None) -> bool:
    """Whether a kernel may be called on these NumPy tensors at once, for an op that autocast leaves as it is: no other handler
    sees the call; see `record_results`."""
    if state.fast_record is None and state.uncast_record is None:
        return False
    for x in operands:  # noqa: SIM110  (all() would take twice the time)
        if x is not None and x._a.__class__ is not ndarray:
            return False
    return True


def unrecorded(*operands: Tensor | None) -> bool:
    """Whether a call on these NumPy tensors, of ops that autocast leaves as they are, is no more than its forward: nothing
    records it, and no other handler sees it."""
    record = state.fast_record
    if record is None and (record := state.uncast_record) is None:
        return False
    for x in operands:
        if x is not None and (
            x._a.__class__ is not ndarray
            or (record and (x._edge is not None or (x._view is not None and x._view.base._edge is not None)))
        ):
            return False
    return True


def is_int(value: Any) -> TypeIs[SupportsIndex]:
    """Whether `value` is an integer: of Python, of NumPy, or a 0-d tensor, which is accepted wherever an integer is."""
    return hasattr(value, "__index__")


def as_list(value: Any) -> Any:
    """One integer as a list of it; several as they are."""
    return [value] if is_int(value) else value


def wrap_dims(dim: Dims, ndim: int) -> tuple[int, ...] | None:
    """One or several dimensions as a tuple counted from the front; None for all of them (None, an empty list, 0-d).

    RuntimeError where one is named twice.
    """
    if dim is None or (dim.__class__ is tuple and not dim):
        return None
    if dim.__class__ is int and ndim:
        return (wrap_dim(dim, ndim),)
    if is_bool(dim):
        raise TypeError("argument 'dim' must be tuple of ints, not bool")
    dims = (
        (wrap_dim(dim, ndim),)
        if not isinstance(dim, Iterable) or is_int(dim)
        else tuple(wrap_dim(int(d) if d.__class__ is bool else d, ndim) for d in dim)
    )
    if len(set(dims)) != len(dims):
        twice = next(d for d in dims if dims.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return dims if dims and ndim else None


def tensor_argument(function: str, value: Any, name: str = "input", position: int = 1) -> Tensor:
    """`value` if it is a Tensor, else PyTorch's TypeError."""
    if not isinstance(value, Tensor):
        check_call()
        raise TypeError(
            f"{function}(): argument '{name}' (position {position}) must be Tensor, not {type(value).__name__}"
        )
    return value


def keep(value: Any, dim: tuple[int, ...] | None, x_shape: tuple[int, ...], keepdim: bool) -> Any:
    """A reduction's result (tensor) with the reduced dimensions put back as 1, so that it broadcasts against x."""
    return value if keepdim or not x_shape else value.reshape(keepdim_shape(dim, x_shape))


def keepdim_shape(dim: tuple[int, ...] | None, x_shape: tuple[int, ...]) -> tuple[int, ...]:
    """`x_shape` with 1 for the reduced dimensions."""
    reduced = range(len(x_shape)) if dim is None else dim
    return tuple([1 if i in reduced else n for i, n in enumerate(x_shape)])


def count(x_shape: tuple[int, ...], dim: tuple[int, ...] | None) -> int:
    """How many elements a reduction over `dim` folds into one."""
    total = 1
    for i, n in enumerate(x_shape):
        if dim is None or i in dim:
            total *= n
    return total


# C++'s names of dtypes, which PyTorch puts into some of its messages; the others are called the same.
C_NAMES = {
    "uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int", "int64": "long int",
    "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


def check_out_dtype(out: Tensor, dtype: Any) -> None:
    """RuntimeError where an `out=` that is not converted to has another dtype."""
    if out.dtype is not dtype:
        expected, got = (C_NAMES.get(d.name, d.name) for d in (dtype, out.dtype))
        raise RuntimeError(f"Expected out tensor to have dtype {expected}, but got {got} instead")


def store_into(out: Tensor, result: Tensor, exact: bool = False) -> Tensor:
    """`result` in `out`, by the rules of `out=`, for functions that are made of several ops; `exact` dtypes only."""
    if state.grad and (out.requires_grad or result.requires_grad):
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    if exact:
        check_out_dtype(out, result.dtype)
    store(out, result)
    return out


class WithOut(Protocol[P, R]):
    """What type checkers see of a function with an additional `out=`."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, *args: Any, out: Tensor | tuple[Tensor, ...] | None, **kwargs: Any) -> R: ...


@overload
def with_out(function: Callable[P, R]) -> WithOut[P, R]: ...
@overload
def with_out(*, packed: bool) -> Callable[[Callable[P, R]], WithOut[P, R]]: ...
def with_out(function: Callable[..., Any] | None = None, *, packed: bool = False) -> Any:
    """Add an `out=` argument (a tensor, or a tuple of tensors of exact dtypes) to a function composed of several ops.

    packed: an empty target becomes contiguous, whatever the strides of the result.
    """
    if function is None:
        return functools.partial(with_out, packed=packed)

    @wraps(function)
    def wrapper(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if out is None:
            return result
        if isinstance(result, Tensor):
            return store_into(out, result.contiguous() if packed else result, exact=True)
        stored = [store_into(t, r, exact=True) for t, r in zip(out, result, strict=True)]
        return tuple(stored) if type(result) is tuple else type(result)(*stored)

    signature = inspect.signature(function)
    target = f"{signature.return_annotation} | None"
    extra = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=target)
    wrapper.__signature__ = signature.replace(parameters=[*signature.parameters.values(), extra])
    return wrapper
