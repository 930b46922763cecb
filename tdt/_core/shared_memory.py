"""Tensors in shared memory: moved by `share_memory_`, sent to other processes by file descriptor.

Python's `multiprocessing` pickles the objects that it sends. For a tensor in shared memory, it sends a descriptor of the
memory, so that the receiving process sees the writes of others. All other tensors are sent by value.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from itertools import chain
from multiprocessing import reduction
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend._shared import SharedMemory
from tdt._core.interchange import _attributes
from tdt._core.storage import UntypedStorage, own_bytes, part_of
from tdt._core.tensor import LEAF, Storage, Tensor, View


def share(tensors: Iterable[Tensor]) -> None:
    """Move the storages of tensors to one piece of shared memory, and with them all their views and aliases.

    Storages that are in shared memory already, or on a GPU, are not moved.
    """
    tensors = [t for t in tensors if type(t._a) is np.ndarray]
    _move([own_bytes(t) for t in tensors if not _memory_of(t)], tensors)
    for kind in {Tensor, *map(type, tensors)} - _registered:
        _registered.add(kind)
        reduction.register(kind, _reduce)


def share_storage(storage: UntypedStorage) -> None:
    """Move a storage to shared memory, and with it all tensors on it."""
    if type(storage._bytes) is np.ndarray and not storage.is_shared():
        _move([storage._bytes], [storage])


def _move(regions: list[np.ndarray], holders: Sequence[Tensor | UntypedStorage]) -> None:
    """Copy flat uint8 arrays to shared memory, and make all tensors and storages on the same memory use the copies.

    The garbage collector lists all tensors (`holders` may include objects that it does not track): a list of views would
    cost time in every view op.
    """
    regions = list({_key(region): region for region in regions}.values())
    if not regions:
        return
    copies = dict(zip(map(_key, regions), zip(regions, _backend.shared(regions), strict=True), strict=True))
    owners = {owner for owner, *_ in copies}
    moved: dict[
        int, tuple[np.ndarray, np.ndarray]
    ] = {}  # by id: an array (kept alive, so that its id stays valid) and its copy
    storages: set[Storage] = set()

    def copy_of(array: Any, storage: Storage | None) -> Any:
        if type(array) is not np.ndarray or id(_backend.owner(array)) not in owners:
            return array
        if id(array) not in moved:
            found = copies.get(_key(part_of(array, storage and storage.whole)))
            moved[id(array)] = array, array if found is None else _same_place(array, *found)
        if storage is not None and moved[id(array)][1] is not array:
            storages.add(storage)
        return moved[id(array)][1]

    for x in chain(holders, gc.get_objects()):  # [*…] would hold itself
        if type(x) is View:
            x.base_array = copy_of(x.base_array, x.base._st)
        elif type(x) is UntypedStorage:
            x._bytes = copy_of(x._bytes, x._st)
        elif issubclass(type(x), Tensor):
            x._a = copy_of(x._a, x._st)
    for storage in storages:
        storage.whole = None


def _key(region: np.ndarray) -> tuple[int, int, int]:
    """A key for a block of memory: the array that owns it, and its address range."""
    return id(_backend.owner(region)), *_backend.byte_bounds(region)


def _same_place(array: np.ndarray, region: np.ndarray, copy: np.ndarray) -> np.ndarray:
    """The part of `copy` that corresponds to `array` in `region`."""
    offset = min(max(array.ctypes.data - region.ctypes.data, 0), region.size)
    view = _backend.look_into(copy, array.dtype, offset, array.shape, array.strides)
    view.flags.writeable = array.flags.writeable
    return view


_registered: set[type[Tensor]] = set()


def _memory_of(t: Tensor) -> SharedMemory | None:
    """The shared memory of a tensor, or None."""
    memory = _backend.owner(t._a).base if type(t._a) is np.ndarray else None
    return memory if isinstance(memory, SharedMemory) else None


def _reduce(t: Tensor) -> Any:
    """Reduce a tensor for `multiprocessing`."""
    memory = _memory_of(t)
    if memory is None:
        return t.__reduce_ex__(2)
    if not t.is_leaf and t.requires_grad:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
            "process boundaries. If you just want to transfer the data, call detach() on the tensor before serializing "
            "(e.g., putting it on the queue)."
        )
    (start, end), at = _backend.byte_bounds(_backend.owner(t._a)), memory.address()
    offset = _backend.byte_bounds(t._a)[0] - start if t._a.size else 0
    place = (start - at, end - start), (t._a.dtype, offset, t._a.shape, t._a.strides)
    return _rebuild, (type(t), memory, place, t.requires_grad, _attributes(t))


def _rebuild(cls: type[Tensor], memory: SharedMemory, place: tuple, requires_grad: bool, attributes: dict) -> Tensor:
    """A tensor in shared memory that another process has sent."""
    (start, size), view = place
    tensor = cls.__new__(cls)
    tensor._a = _backend.look_into(np.ndarray(size, np.uint8, memory, start), *view)
    tensor._edge = LEAF if requires_grad else None
    tensor.__dict__.update(attributes)
    _registered.add(cls)
    reduction.register(cls, _reduce)
    return tensor
