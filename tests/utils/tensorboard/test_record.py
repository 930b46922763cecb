"""Record framing against TensorBoard's writer and reader."""

from __future__ import annotations

import struct

import pytest
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.summary.writer.record_writer import RecordWriter

from tdt.utils.tensorboard._record import frame


@pytest.mark.parametrize("data", [b"", b"a", bytes(range(256)), b"\xff" * 100_000])
def test_a_record_equals_tensorboards(tmp_path, data):
    with open(tmp_path / "theirs", "wb") as file:
        RecordWriter(file).write(data)
    assert frame(data) == (tmp_path / "theirs").read_bytes()


def test_records_read_back_and_a_torn_one_ends_the_file(tmp_path):
    path = tmp_path / "records"
    whole = frame(b"one") + frame(b"two")
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        count = 0 if length < len(frame(b"one")) else 1
        assert list(RawEventFileLoader(str(path)).Load()) == [b"one", b"two"][:count]


def test_the_checksum_is_the_published_one():
    # RFC 3720, B.4: the CRC-32C of 32 zero bytes is 8a9136aa.
    rotated = (0x8A9136AA >> 15 | 0x8A9136AA << 17) & 0xFFFFFFFF
    assert frame(bytes(32))[-4:] == struct.pack("<I", (rotated + 0xA282EAD8) & 0xFFFFFFFF)
