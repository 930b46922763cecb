"""Complex numbers: conjugates, real and imaginary parts, conversions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import COMPLEX_ONLY, FLOAT8S, FLOATING
from tdt._core.methods import method, tensor_property
from tdt._core.tensor import Tensor
from tdt._ops._common import Number
from tdt._ops.elementwise._front import make_op, refuse_out, tensor_argument
from tdt.autograd._in_place_methods import by_op
from tdt.autograd._op import finish, op
from tdt.autograd._remembered import calls_by_shape

__all__ = [
    "complex",
    "conj",
    "conj_physical",
    "imag",
    "real",
    "resolve_conj",
    "resolve_neg",
    "view_as_complex",
    "view_as_real",
]

_conj = make_op(
    "conj_physical",
    lambda xp, x: xp.conjugate(x) if x.dtype.kind == "c" else x.copy(),
    computes=False,
    float8=FLOAT8S,
    sparse_values="all",
    sparse_gradients=True,
)
_conj.vjp("x")(lambda g: g.conj())


@method()
@front
def conj(input: Tensor) -> Tensor:
    """The complex conjugate of each element; a real tensor is returned itself.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.conj(tdt.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return _conj(input) if input._a.dtype.kind == "c" else input


@method(in_place=by_op, in_place_function=True)
@front
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugate of each element, computed at once, which `conj` does here, too.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.conj_physical(tdt.tensor([1.0]))
    tensor([1.])
    """
    if out is None:
        return conj(input)
    refuse_out(out, input)
    return _conj.into(out, input)


@method()
@front
def resolve_conj(input: Tensor) -> Tensor:
    """`input` itself: `conj` computes at once, so there is no conjugation to resolve.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.resolve_conj(tdt.tensor([1j]).conj())
    tensor([0.-1.j])
    """
    return tensor_argument("resolve_conj", input)


@method()
@front
def resolve_neg(input: Tensor) -> Tensor:
    """`input` itself: `neg` and the imaginary part of `conj` are computed at once, so there is no negation to resolve.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.resolve_neg(tdt.tensor([1 - 2j]).conj().imag)
    tensor([2.])
    """
    return tensor_argument("resolve_neg", input)


@op(dtypes=COMPLEX_ONLY, view=True, float8=FLOAT8S, sparse_values="coalesced")
def _real(xp: ModuleType, x: Any) -> Any:
    return x.real


@op(dtypes=COMPLEX_ONLY, view=True, sparse_values="coalesced")
def _imag(xp: ModuleType, x: Any) -> Any:
    return x.imag


_real.vjp("x")(lambda g: g + 0j)
_imag.vjp("x")(lambda g: g * 1j)


@front
def real(input: Tensor) -> Tensor:
    """The real part of each element: a view of a complex tensor; a real tensor is returned itself.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.real(tdt.tensor([1 + 2j]))
    tensor([1.])
    """
    return _real(input) if input._a.dtype.kind == "c" else input


@front
def imag(input: Tensor) -> Tensor:
    """The imaginary part of each element: a view of a complex tensor.

    Shape: input (*); result the same.
    Raises:
        RuntimeError: when `input` is real.

    >>> import tdt
    >>> tdt.imag(tdt.tensor([1 + 2j]))
    tensor([2.])
    """
    if input._a.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return _imag(input)


@op(dtypes=COMPLEX_ONLY, view=True)
def _view_as_real(xp: ModuleType, x: Any) -> Any:
    parts = x.real
    return xp.lib.stride_tricks.as_strided(parts, (*x.shape, 2), (*x.strides, parts.itemsize))


_view_as_real.vjp("x")(lambda g: complex(g.select(-1, 0), g.select(-1, 1)))


@front
def view_as_real(input: Tensor) -> Tensor:
    """A view of a complex tensor as real numbers with a last dimension (real, imaginary).

    Shape: input (*); result (*, 2).
    Raises:
        RuntimeError: when `input` is real.

    >>> import tdt
    >>> tdt.view_as_real(tdt.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if input._a.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return _view_as_real(input)


@op(dtypes=FLOATING, view=True)
def _view_as_complex(xp: ModuleType, x: Any) -> Any:
    kind = xp.complex64 if x.dtype == xp.float32 else xp.complex128
    return x.view(kind)[..., 0]


_view_as_complex.vjp("x")(lambda g: view_as_real(g))


@front
def view_as_complex(input: Tensor) -> Tensor:
    """A view of pairs (real, imaginary) in the last dimension as complex numbers.

    Shape: input (*, 2); result (*).
    Raises:
        RuntimeError: when `input` is neither float32 nor float64, or its last dimension does not have size 2
            and stride 1.

    >>> import tdt
    >>> tdt.view_as_complex(tdt.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    if input.dtype not in (_dtype.float32, _dtype.float64):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar "
            f"type: {input.dtype}"
        )
    if input.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if input.stride(-1) != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    return _view_as_complex(input)


@op(dtypes=FLOATING)
def _complex(xp: ModuleType, x: Any, y: Any) -> Any:
    shape = x.shape if x.shape == y.shape else np.broadcast_shapes(x.shape, y.shape)
    out = xp.empty(shape, np.complex128 if x.dtype == np.float64 else np.complex64)
    if not _kernels.paired(x, y, out):
        out.real, out.imag = x, y
    return out


@_kernels.prepares(_complex.forward)
def _(x: Any, y: Any, *, recorded: bool) -> Any:
    return _kernels.prepared_pairs(functools.partial(_complex.forward, np), x, y)


_complex.vjp("x")(lambda g: real(g))
_complex.vjp("y")(lambda g: imag(g) if g.is_complex() else g.new_zeros(g.shape))
_complex.fast_vjp("x")(lambda g: g.real)
_complex.fast_vjp("y")(lambda g: g.imag)


@calls_by_shape
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex numbers real + i · imag.

    Shape: real (*), imag broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when the dtypes differ or are not float16, float32 or float64.

    >>> import tdt
    >>> tdt.complex(tdt.tensor([1.0]), tdt.tensor([2.0]))
    tensor([1.+2.j])
    """
    tensor_argument("complex", real, "real")
    tensor_argument("complex", imag, "imag", 2)
    if real.dtype is not imag.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {_dtype.SCALAR_NAMES[real.dtype]} but got scalar type "
            f"{_dtype.SCALAR_NAMES[imag.dtype]} for second argument"
        )
    if real.dtype not in (_dtype.float16, _dtype.float32, _dtype.float64):
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {_dtype.SCALAR_NAMES[real.dtype]} and "
            f"{_dtype.SCALAR_NAMES[imag.dtype]}"
        )
    if out is not None:
        refuse_out(out, real.dtype.to_complex())
    return finish(_complex, out, real, imag)


def _set_part(part: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Any], None]:
    """The setter of `x.real` or `x.imag`."""

    def write(self: Tensor, value: Tensor | Number) -> None:
        target = part(self)
        target.copy_(value) if isinstance(value, Tensor) else target.fill_(value)

    return write


tensor_property(real, setter=_set_part(real))
tensor_property(imag, setter=_set_part(imag))
