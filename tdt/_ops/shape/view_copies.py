"""`*_copy`: what a view shows, with memory of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt._core.calls import front
from tdt._core.dtype import dtype as Dtype  # noqa: N812  (`dtype` is an argument here)
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._ops._common import as_shape, store_into
from tdt._ops.elementwise import view_as_complex, view_as_real
from tdt._ops.elementwise._front import named
from tdt._ops.shape import dimensions, split
from tdt._ops.shape import views as shape
from tdt._ops.shape.memory import contiguous_format
from tdt._ops.spectral import frames


def _slice(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    return shape.slice_along(input, dim, start, end, step)


def _view(input: Tensor, *shape_or_dtype: Any, dtype: Any = None) -> Tensor:
    """`view`, also where that needs a copy, which is made here anyway."""
    if dtype is not None or isinstance(shape_or_dtype[0], Dtype):
        return shape.view(input, *shape_or_dtype, dtype=dtype)
    return shape.reshape(input, as_shape(shape_or_dtype))


# The view's function, and a call on [[0, 1], [2, 3]] that a reader can check.
VIEWS: dict[str, tuple[Callable[..., Any], str]] = {
    "alias": (lambda input: input, ""),
    "as_strided": (split.as_strided, ", (2,), (2,)"),
    "detach": (lambda input: input.detach(), ""),
    "diagonal": (shape.diagonal, ""),
    "expand": (lambda input, size, *, implicit=False: shape.expand(input, *size), ", (3, 2, 2)"),
    "narrow": (shape.narrow, ", 0, 1, 1"),
    "permute": (dimensions.permute, ", (1, 0)"),
    "select": (shape.select, ", 0, 1"),
    "slice": (_slice, ", 1, 0, 1"),
    "split": (split.split, ", 1"),
    "split_with_sizes": (split.split_with_sizes, ", [1, 1]"),
    "squeeze": (dimensions.squeeze, ""),
    "t": (dimensions.t, ""),
    "transpose": (dimensions.transpose, ", 0, 1"),
    "unbind": (split.unbind, ""),
    "unfold": (frames.unfold, ", 0, 2, 1"),
    "unsqueeze": (dimensions.unsqueeze, ", 0"),
    "view": (_view, ", (4,)"),
    "view_as_complex": (view_as_complex, ".float()"),
    "view_as_real": (view_as_real, ".to(tdt.complex64)"),
}


def _own(view: Tensor) -> Tensor:
    return view.clone(memory_format=contiguous_format)


def _copying(name: str, view: Callable[..., Any], call: str) -> Callable[..., Any]:
    def function(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        seen = view(input, *args, **kwargs)
        if isinstance(seen, Tensor):
            copy = _own(seen)
            return copy if out is None else store_into(out, copy, exact=True)
        copies = tuple([_own(part) for part in seen])
        if out is None:
            return copies
        if len(out) != len(copies):
            raise RuntimeError(f"{name}_copy(): out must be {len(seen)} tensors, one for each part, but got {len(out)}")
        for target, copy in zip(out, copies, strict=True):
            store_into(target, copy, exact=True)
        return None

    doc = f"""`{name}` as a copy: `input` and the result share no memory.

    >>> import tdt
    >>> x = tdt.arange(4).reshape(2, 2)
    >>> copy = tdt.{name}_copy(x{call})
    """
    return named(function, f"{name}_copy", doc)


__all__ = [f"{name}_copy" for name in VIEWS]
globals().update({f"{name}_copy": _copying(name, view, call) for name, (view, call) in VIEWS.items()})


for _name in __all__:
    globals()[_name] = front(globals()[_name])
method()(globals()["narrow_copy"])
