"""Framing of one record of an event file (the TFRecord format).

    uint64 length | uint32 masked CRC-32C of the length | data | uint32 masked CRC-32C of the data

All little-endian. The mask keeps a checksum of data that itself holds checksums from degenerating.
"""

from __future__ import annotations

import struct

import google_crc32c

_MASK = 0xA282EAD8


def masked_crc(data: bytes) -> bytes:
    """The four bytes that stand behind `data` in a record."""
    crc = google_crc32c.value(data)
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + _MASK) & 0xFFFFFFFF)


def parts(data: bytes) -> tuple[bytes, ...]:
    """The parts of one whole record, in order; `data` itself is not copied."""
    length = struct.pack("<Q", len(data))
    return length, masked_crc(length), data, masked_crc(data)


def frame(data: bytes) -> bytes:
    """`data` as one whole record.

    >>> frame(b"ab").hex(" ", 4)
    '0200 00000000 00007827 0b346162 1cb0f0f4'
    """
    return b"".join(parts(data))
