"""What ops share that give elements along a dimension and their indices: results, `out=`, the gradient."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from tdt import _kernels
from tdt._backend.scatter import add_at
from tdt._backend.waiting import refuse_program, repeatable
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor
from tdt._ops.elementwise._front import refuse_out
from tdt.autograd._op import finish


def named(name: str) -> Callable[[tuple[Tensor, ...]], Any]:
    """What makes the function's result of those of a fast path, (values, indices)."""
    return lambda results: return_type(name)(*results)


def _pair(name: str, record: Any, out: Any, x: Tensor, **attributes: Any) -> Any:
    """Run an op of two outputs, into `out` where given, and name the results."""
    return return_type(name)(*finish(record, out, x, **attributes))


def _check_out_values(out: Any, x: Tensor) -> None:
    """Raise RuntimeError if the first tensor of an `out=` pair has another dtype than x."""
    if out is not None:
        refuse_out(out[0], x)


_SELECTED = (_kernels.gpu_kernel("place_gpu:selected", _kernels.gpu_selected),)


def _add_gather_rule(record: Any, repeated: bool = False) -> None:
    """Register the gradient of an op that selects elements along `dim`: it is scattered to `indices`.

    repeated: whether an index may occur more than once.
    """

    @record.vjp("x")
    def _(g_values: Tensor, x_shape: tuple[int, ...], indices: Tensor, dim: int, keepdim: bool) -> Tensor:
        if not x_shape:
            return g_values
        if not keepdim:
            g_values, indices = g_values.unsqueeze(dim), indices.unsqueeze(dim)
        return g_values.new_zeros(x_shape).scatter_add(dim, indices, g_values)

    @record.fast_vjp("x")
    @repeatable
    def _(xp: ModuleType, g_values: Any, x_shape: tuple[int, ...], indices: Any, dim: int, keepdim: bool) -> Any:
        if not x_shape:
            return g_values
        if not keepdim:
            g_values, indices = xp.expand_dims(g_values, dim), xp.expand_dims(indices, dim)
        if fast := _kernels.chosen(_SELECTED, xp, g_values, indices, dim=dim):
            return fast(g_values, indices, x_shape, dim)
        refuse_program()
        out, last = xp.zeros(x_shape, g_values.dtype), len(x_shape) - 1
        place = [xp.arange(n).reshape((n,) + (1,) * (last - d)) for d, n in enumerate(indices.shape)]
        place[dim] = indices
        if repeated:
            if not _kernels.placed(out, indices, g_values, dim, "sum"):
                add_at(out, tuple(place), g_values)
        else:
            out[tuple(place)] = g_values
        return out


def _take(xp: ModuleType, x: Any, index: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """(values, index) of the elements at `index`, which has size 1 along `dim`; that dimension is removed unless keepdim."""
    values = _along(xp, x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def _along(xp: ModuleType, x: Any, index: Any, dim: int) -> Any:
    """The elements of x at `index` along `dim`."""
    fast = _kernels.taken(x, index, dim)
    return xp.take_along_axis(x, index, dim) if fast is None else fast
