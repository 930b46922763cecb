"""Framing of one record of an event file (the TFRecord format).

    uint64 length | uint32 masked CRC-32C of the length | data | uint32 masked CRC-32C of the data

All little-endian. The mask keeps a checksum of data that itself holds checksums from degenerating.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

import google_crc32c

_MASK = 0xA282EAD8


def masked_crc(data: bytes) -> bytes:
    """The four checksum bytes after `data` in a record."""
    crc = google_crc32c.value(data)
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + _MASK) & 0xFFFFFFFF)


def parts(data: bytes) -> tuple[bytes, ...]:
    """The parts of a record, in order, without copying `data`."""
    length = struct.pack("<Q", len(data))
    return length, masked_crc(length), data, masked_crc(data)


def frame(data: bytes) -> bytes:
    """`data` as one whole record.

    >>> from tdt.utils.tensorboard._record import frame
    >>> frame(b"ab").hex(" ", 4)
    '0200 00000000 00007827 0b346162 1cb0f0f4'
    """
    return b"".join(parts(data))


class RecordWriter:
    """Writes records to `writer`, a binary file.

    >>> import tdt
    >>> from tdt.utils.tensorboard._record import frame
    >>> import io
    >>> file = io.BytesIO()
    >>> tdt.utils.tensorboard.RecordWriter(file).write(b"ab")
    >>> file.getvalue() == frame(b"ab")
    True
    """

    def __init__(self, writer: BinaryIO) -> None:
        self._writer = writer

    def write(self, data: bytes) -> None:
        """Write `data` as one record."""
        self._writer.write(frame(data))

    def flush(self) -> None:
        """Flush the file."""
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()

    @property
    def closed(self) -> bool:
        """Whether the file is."""
        return self._writer.closed
