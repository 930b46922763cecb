"""Sends objects between a worker and its parent over a pipe; on Linux, large arrays use shared memory.

The shared memory is an anonymous file (`memfd`) whose descriptor is sent over the pipe. It has no name, so a killed
process leaves nothing behind.
"""

from __future__ import annotations

import mmap
import os
import pickle
import weakref
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

MIN_SHARED_BYTES = 1 << 18  # from this size on, shared memory is faster than the pipe
ALIGN = 64
HAS_MEMFD = hasattr(os, "memfd_create")
MAX_MAPPED = 64  # largest number of batches in shared memory at a time

_mapped: weakref.WeakSet = weakref.WeakSet()


class Message(NamedTuple):
    """A pickled value, with the buffers of its arrays out of band."""

    body: bytes
    views: list[memoryview]


class _Envelope(NamedTuple):
    """The data sent over the pipe: the bytes of the arrays, or their offsets in the memory file that is sent next."""

    body: bytes
    arrays: list[bytearray]
    places: list[tuple[int, int]]


def pack(value: Any) -> Message:
    """Pickle `value`. Raises the errors of pickle for values that cannot be pickled."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return Message(body, [buffer.raw() for buffer in buffers])


def send(connection: Connection, message: Message) -> None:
    """Send a message; `receive` at the other end returns its value."""
    places, total = [], 0
    for view in message.views:
        start = -(-total // ALIGN) * ALIGN
        total = start + view.nbytes
        places.append((start, total))
    if not (HAS_MEMFD and total >= MIN_SHARED_BYTES):
        envelope = _Envelope(message.body, [bytearray(view) for view in message.views], [])
        connection.send_bytes(pickle.dumps(envelope, protocol=5))
        return
    memory = os.memfd_create("tdt-batch")
    try:
        os.truncate(memory, total)
        with mmap.mmap(memory, total) as shared:
            for (start, end), view in zip(places, message.views, strict=True):
                shared[start:end] = view
        connection.send_bytes(pickle.dumps(_Envelope(message.body, [], places), protocol=5))
        reduction.send_handle(connection, memory, 0)
    finally:
        os.close(memory)


def receive(connection: Connection) -> Any:
    """The next value; EOFError when the other end is closed."""
    envelope = pickle.loads(connection.recv_bytes())
    if not envelope.places:
        return pickle.loads(envelope.body, buffers=envelope.arrays)
    memory = reduction.recv_handle(connection)
    try:
        shared: Any = mmap.mmap(memory, envelope.places[-1][1])
    finally:
        os.close(memory)
    if len(_mapped) < MAX_MAPPED:
        _mapped.add(shared)
    else:  # each keeps a file descriptor open: if the caller keeps many batches, later ones are copies
        with shared:
            shared = bytearray(shared)
    view = memoryview(shared)
    return pickle.loads(envelope.body, buffers=[view[start:end] for start, end in envelope.places])
