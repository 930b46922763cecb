"""Tensors given other memory, another size, or shared memory: `set_`, `resize_`, `share_memory_`; and element by element
what a Python function says: `apply_`, `map_`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tdt import _backend
from tdt._backend import on
from tdt._core.aliases import Device
from tdt._core.creation import _shape_of
from tdt._core.memory_format import contiguous_format, memory_format, preserve_format
from tdt._core.methods import method
from tdt._core.mode import state
from tdt._core.sparse import SparseCOO
from tdt._core.storage import TypedStorage, UntypedStorage
from tdt._core.tensor import Storage, Tensor, wrap
from tdt._core.writing import refuse_inference
from tdt._ops.shape.memory import copy_
from tdt._ops.shape.split import memory

__all__ = ["resize_as_"]


@method()
def set_(
    self: Tensor,
    source: Tensor | UntypedStorage | TypedStorage | None = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Make the tensor use the memory of another tensor or of a storage.

    Args:
        source: None for no memory, which gives an empty tensor.
        storage_offset, stride: in elements; by default contiguous.
        size: by default that of `source`, or for a storage all its elements from `storage_offset` on.
    Shape: self (*); result `self`, of shape `size`.
    Raises:
        RuntimeError: when the dtypes differ, the view leaves the memory, or the tensor requires grad.
        TypeError: when `source` is neither a tensor nor a storage.

    >>> import tdt
    >>> tdt.zeros(1).set_(tdt.tensor([1.0, 2.0, 3.0]).untyped_storage(), 1, (2,))
    tensor([2., 3.])
    """
    _check_resizable(self)
    dtype, n = self._a.dtype, self._a.itemsize
    if source is None:
        self._a, self._st = on(self.device).empty(0, dtype), Storage()
    elif isinstance(source, Tensor):
        if source._a.dtype != dtype:
            raise RuntimeError(f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}")
        self._a, self._st = source._a, source._st
    if source is None or (isinstance(source, Tensor) and size is None):
        self._view = None
        return self
    storage = source.untyped_storage() if isinstance(source, Tensor) else source
    storage = storage.untyped() if isinstance(storage, TypedStorage) else storage
    if not isinstance(storage, UntypedStorage):
        raise TypeError(f"set_() takes a tensor or a storage, not {type(source).__name__}")
    shape = (storage.nbytes() // n - storage_offset,) if size is None else _shape_of((size,))
    steps = tuple(stride) if stride else tuple([math.prod(shape[d + 1 :]) for d in range(len(shape))])
    end = storage_offset + 1 + sum((m - 1) * s for m, s in zip(shape, steps, strict=True)) if 0 not in shape else 0
    if storage_offset < 0 or end * n > storage.nbytes():
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(steps)}, storage offset {storage_offset}, and itemsize {n} "
            f"requiring a storage size of {end * n} are out of bounds for storage of size {storage.nbytes()}"
        )
    self._a = _backend.look_into(storage._bytes, dtype, storage_offset * n, shape, tuple([s * n for s in steps]))
    self._st, self._view = storage.shared(), None
    return self


def _check_resizable(x: Tensor) -> None:
    refuse_inference(x)
    if state.grad and x.requires_grad:
        raise RuntimeError("cannot resize variables that require grad; do it under no_grad")


@method()
def resize_(
    self: Tensor,
    *sizes: int | Sequence[int],
    size: Sequence[int] | None = None,
    memory_format: memory_format = contiguous_format,
) -> Tensor:
    """Change the shape in place; the elements stay where they are in memory, new ones are not initialized.

    If the memory is too small, the tensor gets new, larger memory; other tensors on the old memory keep it.

    Shape: self (*); result `self`, of the new size.
    Raises:
        RuntimeError: when the tensor requires grad, a size is negative, or the format has another number of dimensions.
        NotImplementedError: when the tensor is sparse.

    >>> import tdt
    >>> tdt.tensor([1, 2, 3, 4]).resize_(2, 2)
    tensor([[1, 2],
            [3, 4]])
    """
    _check_resizable(self)
    if isinstance(self._a, SparseCOO):
        raise NotImplementedError("resize_ is not implemented for sparse tensors; use sparse_resize_ or resize_as_")
    shape = _shape_of(sizes if size is None else (size,))
    if shape != self._a.shape:
        a, xp, n = self._a, on(self.device), math.prod(shape)
        whole = memory(a).reshape(-1)
        start = (_backend.byte_bounds(a)[0] - _backend.byte_bounds(whole)[0]) // a.itemsize if a.size else 0
        if start + n > whole.size:
            enlarged = xp.empty(start + n, a.dtype)
            enlarged[: whole.size] = whole
            whole, self._st = enlarged, Storage()
        self._a, self._view = whole[start : start + n].reshape(shape), None
        self._st.bump_version()
    if memory_format.order and memory_format is not preserve_format:
        _reorder(self, memory_format)
    return self


def _reorder(self: Tensor, layout: memory_format) -> None:
    if self.ndim != len(layout.order):
        raise RuntimeError(f"required rank {len(layout.order)} tensor to use {layout.name} format")
    back = sorted(range(self.ndim), key=layout.order.__getitem__)
    self._a = self._a.reshape([self._a.shape[d] for d in layout.order]).transpose(back)


@method()
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """`resize_` to the shape of another tensor; `sparse_resize_` if both are sparse.

    Shape: input (*), the_template (*); result `input`, of the template's shape.
    Raises:
        RuntimeError: when sparse tensors get a `memory_format`, or a sparse tensor with entries would shrink.

    >>> import tdt
    >>> tdt.resize_as_(tdt.arange(4), tdt.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    template = the_template._a
    if input.layout.name == "sparse_coo" and isinstance(template, SparseCOO):
        _check_resizable(input)
        if memory_format is not None:
            raise RuntimeError(f"Unsupported memory format for sparse tensor resize_as_: {memory_format}")
        sparse_dim = len(template.indices)
        return input.sparse_resize_(template.shape, sparse_dim, template.ndim - sparse_dim)
    return resize_(input, size=template.shape, memory_format=memory_format or contiguous_format)


@method()
def resize(self: Tensor, *sizes: int | Sequence[int]) -> Tensor:
    """A view of another shape; deprecated in favour of `view` and `resize_`.

    Shape: self (*); result of the given sizes.

    >>> import tdt
    >>> tdt.zeros(4).view(2, 2).shape
    tdt.Size([2, 2])
    """
    warnings.warn("non-inplace resize is deprecated", UserWarning, 2)
    return self.view(*sizes)


@method()
def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """A view of the shape of another tensor; deprecated in favour of `view_as` and `resize_as_`.

    Shape: self (*), tensor with as many elements; result the shape of `tensor`.

    >>> import tdt
    >>> tdt.zeros(4).view_as(tdt.zeros(2, 2)).shape
    tdt.Size([2, 2])
    """
    warnings.warn("non-inplace resize_as is deprecated", UserWarning, 2)
    return self.view(tensor._a.shape)


@method()
def share_memory_(self: Tensor) -> Tensor:
    """Move the storage to memory that other processes can share, however they were started.

    All views and aliases of the tensor move along; its gradient does not.

    Shape: self (*); result `self`.

    >>> import tdt
    >>> tdt.zeros(2).share_memory_().is_shared()
    True
    """
    from tdt._core.shared_memory import share  # loads multiprocessing

    share([self])
    return self


def _share_storage(self: UntypedStorage) -> UntypedStorage:
    """Move to memory that other processes share; tensors on this storage move along."""
    from tdt._core.shared_memory import share_storage  # loads multiprocessing

    share_storage(self)
    return self


@method()
def is_shared(self: Tensor) -> bool:
    """Whether other processes that get the tensor see what is written to it; always True on a GPU.

    Shape: self (*); result a bool.

    >>> import tdt
    >>> tdt.zeros(2, device="cpu").is_shared()
    False
    """
    return self.untyped_storage().is_shared()


@method()
def is_pinned(self: Tensor, device: Device = None) -> bool:
    """Whether the memory is page-locked: always False, as copies to a GPU go through pinned buffers of tdt's own.

    Shape: self (*); result a bool.

    >>> import tdt
    >>> tdt.zeros(2).is_pinned()
    False
    """
    return False


@method()
def pin_memory(self: Tensor, device: Device = None) -> Tensor:
    """The tensor itself: copies to a GPU go through pinned buffers of tdt's own.

    Shape: self (*); result `self`.
    Raises:
        RuntimeError: when there is no GPU.

    >>> import tdt
    >>> x = tdt.zeros(2)
    >>> x.pin_memory() is x if tdt.cuda.is_available() else True
    True
    """
    if not _backend.cuda_device_count():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return self


@method()
def record_stream(self: Tensor, s: Any) -> None:
    """Let the tensor's memory be used again only when the work is done that `s` has when the tensor is gone.

    For a tensor of a GPU that another stream uses than the one in which it was created: to that one its memory returns.

    Args:
        s: a `tdt.cuda.Stream` of the tensor's GPU.
    Shape: self (*); no result.
    Raises:
        NotImplementedError: when the tensor is not on a GPU.

    >>> import tdt
    >>> tdt.zeros(2).record_stream(None)
    Traceback (most recent call last):
    NotImplementedError: record_stream: the tensor is on cpu, and only a GPU has streams
    """
    if self._a.__class__ is not _backend.GpuArray:
        raise NotImplementedError(f"record_stream: the tensor is on {self.device}, and only a GPU has streams")
    _backend.free_after(self._st, self._a, s._stream)


@method()
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element by the result of a Python function of it; slow.

    Shape: self (*); result `self`.
    Raises:
        RuntimeError: when the tensor requires grad.
        TypeError: when it is not on the CPU.

    >>> import tdt
    >>> tdt.tensor([1.0, 2.0]).apply_(lambda x: x * x)
    tensor([1., 4.])
    """
    return _mapped(self, "apply_", (), callable)


@method()
def map_(self: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by the result of a Python function of it and the element of another tensor; slow.

    Shape: self (*); other broadcastable to it; result `self`.
    Raises:
        RuntimeError: when a tensor requires grad.
        TypeError: when a tensor is not on the CPU or has another dtype.

    >>> import tdt
    >>> tdt.tensor([1.0, 2.0]).map_(tdt.tensor([3.0, 4.0]), lambda a, b: a + b)
    tensor([4., 6.])
    """
    return _mapped(self, "map_", (other,), callable)


@method()
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace each element by the result of a Python function of it and the elements of two other tensors; slow.

    Shape: self (*); x, y broadcastable to it; result `self`.
    Raises:
        RuntimeError: when a tensor requires grad.
        TypeError: when a tensor is not on the CPU or has another dtype.

    >>> import tdt
    >>> tdt.ones(2).map2_(tdt.tensor([1.0, 2.0]), tdt.tensor([3.0, 4.0]), lambda a, x, y: a + x * y)
    tensor([4., 9.])
    """
    return _mapped(self, "map2_", (x, y), callable)


def _mapped(self: Tensor, name: str, others: tuple[Tensor, ...], callable: Callable[..., Any]) -> Tensor:
    operands = (self, *others)
    if any(t.requires_grad for t in operands):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    for t in operands:
        if not t.is_cpu:
            raise TypeError(f"{name} is only implemented on CPU tensors")
        if t.dtype is not self.dtype:
            raise TypeError(f"{name}: all tensors must be of {self.dtype}, got one of {t.dtype}")
    columns = [t.expand(self._a.shape).reshape(-1).tolist() for t in operands]
    values = [callable(*row) for row in zip(*columns, strict=True)]
    xp = _backend.namespace(self._a)
    return copy_(self, wrap(xp.array(values, self._a.dtype).reshape(self._a.shape)))


UntypedStorage.share_memory_ = _share_storage  # type: ignore[assignment]
