"""Tensors in memory that several processes share: moved there by `share_memory_`, sent to other processes by its descriptor.

Python's `multiprocessing` pickles what it sends. Of a tensor in shared memory it then sends where it lies, so that the
process that gets it sees what others write, by whatever method it was started. All other tensors are sent by value.
"""

from __future__ import annotations

from collections.abc import Iterable
from multiprocessing import reduction
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend._shared import SharedMemory
from tdt._interchange import _attributes
from tdt._tensor import LEAF, Storage, Tensor


def share(tensors: Iterable[Tensor]) -> None:
    """Move tensors to one piece of shared memory; those that lie in shared memory, or on a GPU, stay where they are."""
    moving = [t for t in dict.fromkeys(tensors) if type(t._a) is np.ndarray and not _memory_of(t)]
    for t, array in zip(moving, _backend.shared([t._a for t in moving]), strict=True):
        t._a, t._st = array, Storage()
        if (kind := type(t)) not in _registered:
            _registered.add(kind)
            reduction.register(kind, _reduce)


_registered: set[type[Tensor]] = set()


def _memory_of(t: Tensor) -> SharedMemory | None:
    """The shared memory in which a tensor lies, or None."""
    memory = _backend.owner(t._a).base if type(t._a) is np.ndarray else None
    return memory if isinstance(memory, SharedMemory) else None


def _reduce(t: Tensor) -> Any:
    """What `multiprocessing` pickles of a tensor."""
    memory = _memory_of(t)
    if memory is None:
        return t.__reduce_ex__(2)
    if not t.is_leaf and t.requires_grad:  # type: ignore[attr-defined]
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
            "process boundaries. If you just want to transfer the data, call detach() on the tensor before serializing "
            "(e.g., putting it on the queue)."
        )
    (start, end), at = _backend.byte_bounds(_backend.owner(t._a)), memory.address()
    offset = _backend.byte_bounds(t._a)[0] - start if t._a.size else 0
    place = (start - at, end - start), (t._a.dtype, offset, t._a.shape, t._a.strides)
    return _rebuild, (type(t), memory, place, t.requires_grad, _attributes(t))  # type: ignore[attr-defined]


def _rebuild(cls: type[Tensor], memory: SharedMemory, place: tuple, requires_grad: bool, attributes: dict) -> Tensor:
    """A tensor in shared memory that another process has sent."""
    (start, size), view = place
    made = cls.__new__(cls)
    made._a = _backend.look_into(np.ndarray(size, np.uint8, memory, start), *view)
    made._edge = LEAF if requires_grad else None
    made.__dict__.update(attributes)
    _registered.add(cls)
    reduction.register(cls, _reduce)
    return made
