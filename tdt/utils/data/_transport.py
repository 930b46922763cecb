"""Objects between a worker and its parent, over a pipe; large arrays go through shared memory where Linux offers it.

The memory is an anonymous file (`memfd`) whose descriptor travels over the pipe: it has no name, so nothing is left
behind when a process is killed.
"""

from __future__ import annotations

import mmap
import os
import pickle
import weakref
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

SHARED_FROM = 1 << 18  # bytes of arrays from which sharing beats copying through the pipe
ALIGN = 64
SHARING = hasattr(os, "memfd_create")
MAPPED = 64  # how many batches may lie in shared memory at once

_mapped: weakref.WeakSet = weakref.WeakSet()


class Parcel(NamedTuple):
    """A pickled value, and the bytes of its arrays apart from it."""

    body: bytes
    views: list[memoryview]


class _Letter(NamedTuple):
    """What goes through the pipe: the arrays' bytes, or else where each lies in the memory file that follows."""

    body: bytes
    arrays: list[bytearray]
    places: list[tuple[int, int]]


def pack(value: Any) -> Parcel:
    """`value` pickled; what pickle raises for values that cannot be."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return Parcel(body, [buffer.raw() for buffer in buffers])


def send(connection: Connection, parcel: Parcel) -> None:
    """Send what `receive` at the other end returns the value of."""
    places, total = [], 0
    for view in parcel.views:
        start = -(-total // ALIGN) * ALIGN
        total = start + view.nbytes
        places.append((start, total))
    if not (SHARING and total >= SHARED_FROM):
        letter = _Letter(parcel.body, [bytearray(view) for view in parcel.views], [])
        connection.send_bytes(pickle.dumps(letter, protocol=5))
        return
    memory = os.memfd_create("tdt-batch")
    try:
        os.truncate(memory, total)
        with mmap.mmap(memory, total) as shared:
            for (start, end), view in zip(places, parcel.views, strict=True):
                shared[start:end] = view  # type: ignore[call-overload]
        connection.send_bytes(pickle.dumps(_Letter(parcel.body, [], places), protocol=5))
        reduction.send_handle(connection, memory, 0)
    finally:
        os.close(memory)


def receive(connection: Connection) -> Any:
    """The next value; EOFError when the other end is closed."""
    letter = pickle.loads(connection.recv_bytes())
    if not letter.places:
        return pickle.loads(letter.body, buffers=letter.arrays)
    memory = reduction.recv_handle(connection)
    try:
        shared: Any = mmap.mmap(memory, letter.places[-1][1])
    finally:
        os.close(memory)
    if len(_mapped) < MAPPED:
        _mapped.add(shared)
    else:  # each keeps a file descriptor, of which a process has few: whoever collects batches gets copies
        with shared:
            shared = bytearray(shared)
    view = memoryview(shared)
    return pickle.loads(letter.body, buffers=[view[start:end] for start, end in letter.places])
