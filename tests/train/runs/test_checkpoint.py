"""Checkpoint files: what is saved comes back to the bit, and what is damaged is never believed."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tdt.train.runs import checkpoint
from tdt.train.runs.checkpoint import CheckpointError, CheckpointStore

ROOT = Path(__file__).parents[3]
GRID = np.arange(12, dtype=np.float32).reshape(3, 4)
ARRAYS = {
    "contiguous": GRID,
    "fortran": np.asfortranarray(GRID),
    "strided": GRID[::2, 1::2],
    "reversed": GRID[::-1],
    "expanded": np.broadcast_to(np.float32(3), (2, 3)),
    "zero dimensions": np.array(1.5),
    "empty": np.zeros((0, 3), np.float32),
    "bool": np.array([True, False]),
    "bfloat16": np.array([1.5, -0.0, np.nan, np.inf], ml_dtypes.bfloat16),
    "bfloat16 transposed": np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3).T,
    "complex64": np.array([[1 + 2j, -0.0j]], np.complex64),
    "complex128": np.array([[1 + 2j], [np.nan - 1j]])[::-1],
    "complex zero dimensions": np.array(1 - 1j),
    "complex empty": np.zeros((2, 0), np.complex128),
    "big-endian": np.array([1, 2], ">i4"),
    "float16": np.array([np.float16(65504)]),
    **{f"int{bits}": np.array([-1], f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": np.array([2**bits - 1], f"u{bits // 8}") for bits in (8, 16, 32, 64)},
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.safetensors"


def small(value: float = 1.0) -> dict[str, np.ndarray]:
    return {"model/weight": np.full((2, 2), value, np.float32), "rng/data": np.arange(3, dtype=np.uint64)}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_round_trips_bit_for_bit(path, name):
    array = ARRAYS[name]
    checkpoint.save(path, {"model/x": array}, {})
    back = checkpoint.load(path)[0]["model/x"]
    assert (back.shape, back.dtype.name) == (array.shape, array.dtype.name)
    little = array.dtype if name.startswith("bfloat16") else array.dtype.newbyteorder("<")
    assert back.tobytes() == array.astype(little).tobytes()


def test_many_arrays_round_trip_together_and_the_file_is_plain_safetensors(path):
    from safetensors.numpy import load_file

    checkpoint.save(path, ARRAYS, {"step": 3})
    assert set(checkpoint.load(path)[0]) == set(ARRAYS)
    np.testing.assert_array_equal(load_file(path)["fortran"], GRID)


def test_equal_contents_are_written_as_equal_files(tmp_path):
    for name in "ab":
        checkpoint.save(tmp_path / name, small(), {"step": 1, "epoch": 2})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_meta_round_trips(path):
    meta = {
        "config": "name: x\nünïcode: \ud800 \x00",
        "step": 2**70,
        "best": {"value": 0.1 + 0.2, "tiny": 5e-324, "zero": -0.0},
        "worst": [math.inf, -math.inf, {"deep": [None, True, []]}],
    }
    checkpoint.save(path, {}, meta)
    back = checkpoint.load(path)[1]
    assert back == meta
    assert math.copysign(1, back["best"]["zero"]) == -1


def test_nan_in_meta_round_trips_and_the_file_stays_strict_json(path):
    checkpoint.save(path, {}, {"best": math.nan})
    assert math.isnan(checkpoint.load(path)[1]["best"])
    header = path.read_bytes()[8:]
    refuse = pytest.fail
    json.loads(json.loads(header)["__metadata__"]["tdt"], parse_constant=refuse)


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({"a": {"b": [np.float32(1)]}}, "meta.a.b[0] is float32"),
        ({"a": {1: "x"}}, "meta.a has the key 1"),
        ({"a": {1, 2}}, "meta.a is set"),
        ({"a": b"x"}, "meta.a is bytes"),
        ({"format": 3}, "'format' is the format's own"),
    ],
)
def test_meta_that_json_would_not_keep_is_refused(path, meta, expected):
    with pytest.raises(CheckpointError) as caught:
        checkpoint.save(path, {}, meta)
    assert expected in str(caught.value)
    assert not path.exists()


@pytest.mark.parametrize("value", [np.array(["a"]), np.array([None]), np.zeros(1, "M8[s]"), np.float32(1), [1.0]])
def test_non_numeric_arrays_are_refused_by_name(path, value):
    with pytest.raises(CheckpointError, match="model/x is a"):
        checkpoint.save(path, {"model/x": value}, {})


def test_no_changed_byte_goes_unnoticed(path):
    tensors = small() | {"a": np.array(1 + 1j), "b": np.array([1], ml_dtypes.bfloat16), "c": np.array([True])}
    checkpoint.save(path, tensors, {"step": 7, "lr": 0.5})
    whole = path.read_bytes()
    unnoticed = []
    with path.open("r+b", buffering=0) as file:
        for position, byte in enumerate(whole):
            for mask in (0x01, 0x10, 0x20, 0x80, 0xFF, 0):  # the last one mends it
                file.seek(position)
                file.write(bytes([byte ^ mask]))
                try:
                    back, meta = checkpoint.load(path)
                except CheckpointError:
                    continue
                same = all(back[name].tobytes() == tensors[name].tobytes() for name in tensors)
                if not same or meta != {"step": 7, "lr": 0.5} or back.keys() != tensors.keys():
                    unnoticed.append((position, mask))
    assert unnoticed == []


def test_no_truncated_or_lengthened_file_is_believed(path):
    checkpoint.save(path, small(), {"step": 7})
    whole = path.read_bytes()
    for length in reversed(range(len(whole))):
        os.truncate(path, length)
        with pytest.raises(CheckpointError):
            checkpoint.load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(CheckpointError):
        checkpoint.load(path)


def crafted(header: dict | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


META = {"__metadata__": {"tdt": '{"format": 1, "tensors": {}}'}}
F32 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "damaged"),
        (crafted(b"{}", length=2**63), "damaged"),
        (crafted(b"{}", length=2**40), "damaged"),
        (crafted(b"[" * 100_000), "damaged"),
        (crafted(META | {"a": F32, "b": F32}, bytes(4)), "damaged"),
        (crafted(META | {"a": F32 | {"data_offsets": [0, 2**62]}}, bytes(4)), "damaged"),
        (crafted(META | {"a": F32 | {"shape": [2**40, 2**40]}}, bytes(4)), "damaged"),
        (crafted(META | {"a": F32 | {"dtype": "Q7"}}, bytes(4)), "damaged"),
        (crafted({"a": F32}, bytes(4)), "expected one metadata key 'tdt', got none"),
        (crafted({"__metadata__": {"format": "pt"}}), "expected one metadata key 'tdt', got ['format']"),
        (crafted({"__metadata__": {"tdt": "{"}}), "is no JSON"),
        (crafted({"__metadata__": {"tdt": "[" * 100_000}}), "is no JSON"),
        (crafted({"__metadata__": {"tdt": "[]"}}), "checksum"),
        (crafted({"__metadata__": {"tdt": '{"format": 2}'}}), "newer tdt (format 2; this one reads up to 1)"),
        (crafted(META), "checksum"),
    ],
)
def test_a_hostile_file_gets_a_message(path, content, expected):
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(path)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)


def signed(body: dict) -> dict:
    rest = json.dumps(body)[1:]
    return {"__metadata__": {"tdt": f'{{"crc32c": "{checkpoint._crc(rest.encode())}", {rest}'}}


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ({"a": ["float64", [1], "00000000"]}, "a is float32 [1] where float64 [1] was saved"),
        ({"a": ["float32", [], "00000000"]}, "a is float32 [1] where float32 [] was saved"),
        ({"a": ["float32", [1], "00000000"]}, "do not match their checksum"),
        ({"a": ["float7", [1], "00000000"]}, "where float7"),
        ({"a": [["float32"], 1]}, "damaged"),
        ({"a": None}, "damaged"),
        ({}, "unknown ['a']"),
        ({"a": ["float32", [1], "48674bc7"], "b": []}, "missing ['b']"),
    ],
)
def test_notes_that_contradict_the_arrays_are_found(path, notes, expected):
    path.write_bytes(crafted(signed({"format": 1, "tensors": notes}) | {"a": F32}, bytes(4)))
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(path)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("name", "expected"), [("missing", "no such checkpoint file"), ("", "is a folder; a checkpoint")]
)
def test_a_missing_file_is_reported(tmp_path, name: str, expected: str):
    with pytest.raises(CheckpointError, match=expected):
        checkpoint.load(tmp_path / name)


def test_a_file_without_read_permission_is_reported(path, monkeypatch):
    checkpoint.save(path, small(1), {})

    def refuse(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(type(path), "open", refuse)  # root, who runs this in CI, may read everything
    with pytest.raises(CheckpointError, match="cannot be read: Permission denied"):
        checkpoint.load(path)


WRITE = """
import sys, resource, numpy as np
from tdt.train.runs.checkpoint import CheckpointError, CheckpointStore
store = CheckpointStore(sys.argv[1])
store.clean()
if len(sys.argv) > 4:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]),) * 2)
for step in range(int(sys.argv[2]), int(sys.argv[3])):
    try:
        store.save(step, {"x": np.full(20_000, step, np.float32)}, {"step": step}, best=True)
    except CheckpointError as error:
        sys.exit(str(error))
"""


def write(folder, first: int, end: int, *limit: int, fault: str | None = None) -> subprocess.CompletedProcess[str]:
    """Save the steps from `first` to before `end` in another process."""
    arguments = [str(value) for value in (folder, first, end, *limit)]
    environment = os.environ | ({"TDT_FAULT": fault} if fault else {})
    command = [sys.executable, "-c", WRITE, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)


def holds(path, step: int) -> bool:
    tensors, meta = checkpoint.load(path)
    return meta["step"] == step and bool((tensors["x"] == step).all())


def test_killed_inside_the_write_the_checkpoint_before_is_whole_and_the_rest_is_cleaned(tmp_path):
    killed = write(tmp_path, 1, 5, fault="checkpoint.write:3")
    assert killed.returncode == -signal.SIGKILL
    store = CheckpointStore(tmp_path)
    assert store.steps() == [1, 2]
    assert holds(store.resolve("last"), 2)
    assert holds(store.resolve("best"), 2)
    assert len(list(tmp_path.glob(".*.tmp"))) == 1
    store.clean()
    assert list(tmp_path.glob(".*.tmp")) == []


@pytest.mark.parametrize(("nth", "last"), [(1, 1), (3, 2)])
def test_killed_after_the_rename_last_is_a_whole_checkpoint(tmp_path, nth, last):
    killed = write(tmp_path, 1, 5, fault=f"checkpoint.renamed:{nth}")
    assert killed.returncode == -signal.SIGKILL
    store = CheckpointStore(tmp_path)
    assert store.steps() == list(range(1, nth + 1))
    assert holds(store.resolve("last"), last)
    assert write(tmp_path, last + 1, 5).returncode == 0  # and the run continues over the files that are there
    assert holds(store.resolve("last"), 4)
    assert store.steps() == [2, 3, 4]


def test_a_full_disk_leaves_the_checkpoint_before_and_no_half_file(tmp_path):
    assert write(tmp_path, 1, 2).returncode == 0
    full = write(tmp_path, 2, 3, 50_000)
    assert full.returncode == 1
    assert "could not write" in full.stderr
    assert "File too large" in full.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "best.safetensors",
        "last.safetensors",
        "step-00000001.safetensors",
    ]
    assert holds(CheckpointStore(tmp_path).resolve("last"), 1)


def test_an_interrupted_write_leaves_the_old_file(path, monkeypatch):
    checkpoint.save(path, small(1), {})

    def interrupt(point):
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "fault_point", interrupt)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(path, small(2), {})
    assert checkpoint.load(path)[0]["model/weight"][0, 0] == 1
    assert [other.name for other in path.parent.iterdir()] == [path.name]


def test_the_newest_stay_and_best_and_last_always(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    for step in range(1, 6):
        store.save(step, {"x": np.array(step)}, {"step": step}, best=step == 2)
    assert store.steps() == [4, 5]
    assert holds(store.resolve("best"), 2)
    assert holds(store.resolve("last"), 5)
    assert os.path.samefile(store.resolve("last"), tmp_path / "step-00000005.safetensors")


def test_keep_none_keeps_all_and_keep_zero_is_refused(tmp_path):
    store = CheckpointStore(tmp_path, keep=None)
    for step in range(5):
        store.save(step, {}, {})
    assert store.steps() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="keep must be at least 1"):
        CheckpointStore(tmp_path, keep=0)


def test_saving_a_step_again_moves_last_to_the_new_file(tmp_path):
    store = CheckpointStore(tmp_path)
    for value in (1, 2):
        store.save(7, {"x": np.array(value)}, {"step": value}, best=True)
    assert holds(store.resolve("last"), 2)
    assert holds(store.resolve("best"), 2)
    assert len(list(tmp_path.iterdir())) == 3


def test_after_a_resume_from_an_earlier_step_the_abandoned_later_ones_go(tmp_path):
    store = CheckpointStore(tmp_path)
    for step in (7, 14, 21):
        store.save(step, {"x": np.array(step)}, {"step": step}, best=step == 21)
    store.save(10, {"x": np.array(10)}, {"step": 10})
    assert store.steps() == [7, 10]
    assert holds(store.resolve("last"), 10)
    assert holds(store.resolve("best"), 21)


def test_killed_between_its_two_links_best_is_ahead_of_last_never_behind(tmp_path, monkeypatch):
    store = CheckpointStore(tmp_path)
    store.save(7, {"x": np.array(7)}, {"step": 7}, best=True)
    point = CheckpointStore._point
    names = []

    def point_once(self, name, target):
        names.append(name)
        if len(names) > 1:
            raise KeyboardInterrupt
        point(self, name, target)

    monkeypatch.setattr(CheckpointStore, "_point", point_once)
    with pytest.raises(KeyboardInterrupt):
        store.save(14, {"x": np.array(14)}, {"step": 14}, best=True)
    assert holds(store.resolve("best"), 14)
    assert holds(store.resolve("last"), 7)


def test_without_hard_links_best_and_last_are_copies(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError("no hard links on this file system")

    monkeypatch.setattr(os, "link", refuse)
    store = CheckpointStore(tmp_path, keep=1)
    for step in (1, 2):
        store.save(step, {"x": np.array(step)}, {"step": step}, best=step == 1)
    assert holds(store.resolve("best"), 1)
    assert holds(store.resolve("last"), 2)
    assert not os.path.samefile(store.resolve("last"), tmp_path / "step-00000002.safetensors")


def test_resolve_takes_a_path_and_otherwise_lists_what_exists(tmp_path):
    store = CheckpointStore(tmp_path)
    with pytest.raises(CheckpointError, match="has no checkpoint"):
        store.resolve("last")
    saved = store.save(7, {}, {})
    assert store.resolve(saved) == saved
    with pytest.raises(CheckpointError, match="no checkpoint 'best'; .* has last, step 7"):
        store.resolve("best")


MEMORY = """
import resource, sys, numpy as np
from tdt.train.runs import checkpoint
import safetensors.numpy
array = np.ones((3000, 3000), np.float32)
checkpoint.save(sys.argv[1], {"x": np.zeros(3)}, {"step": 1})
large = sys.argv[1] + "2"
checkpoint.save(large, {"x": array, "y": array.T[::2]}, {"step": 2})
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (10 << 20), resource.RLIM_INFINITY))
for act in (lambda: checkpoint.save(sys.argv[1], {"x": array, "y": array.T[::2]}, {"step": 3 * [3_000_000 * "x"]}),
            lambda: checkpoint.load(large)):
    try:
        act()
    except checkpoint.CheckpointError as error:
        print(error)
print(checkpoint.load(sys.argv[1])[1])
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_running_out_of_memory_is_an_error_and_the_earlier_checkpoint_stays_intact(path):
    done = subprocess.run([sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    wrote, read, intact = done.stdout.splitlines()
    assert wrote.startswith(f"{path}: could not be written: not enough memory; earlier checkpoints are intact")
    assert read == f"{path}2: cannot be read: not enough memory" and intact == "{'step': 1}"


def test_large_arrays_are_written_a_chunk_at_a_time(path, monkeypatch):
    from safetensors.numpy import load_file

    monkeypatch.setattr(checkpoint, "_CHUNK", 64)
    arrays = {name: array for name, array in ARRAYS.items() if not name.startswith("bfloat16")}
    large = arrays | {"long": np.arange(1000.0), "turned": np.arange(999).reshape(37, 27).T[::-1, ::2]}
    checkpoint.save(path, large, {})
    back = checkpoint.load(path)[0]
    theirs = load_file(path)
    for name, array in large.items():
        np.testing.assert_array_equal(back[name], array, strict=False)
        if array.dtype.kind != "c":
            np.testing.assert_array_equal(theirs[name], array)


def test_the_metadata_alone_are_read_without_the_arrays(path):
    checkpoint.save(path, small(), {"step": 7})
    assert checkpoint.load_meta(path) == {"step": 7}
    for content in (b"", b"x" * 7, crafted(b"{}", length=2**63), crafted(b"[]"), crafted({"a": F32}, bytes(4))):
        path.write_bytes(content)
        with pytest.raises(CheckpointError):
            checkpoint.load_meta(path)


def test_a_checkpoint_that_cannot_be_read_is_not_called_damaged(path, monkeypatch):
    checkpoint.save(path, small(), {})

    def refuse(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(type(path), "open", refuse)
        with pytest.raises(CheckpointError) as caught:
            checkpoint.load(path)
    assert not caught.value.damaged
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(path)
    assert caught.value.damaged


def test_foreign_names_among_the_checkpoints_are_ignored(tmp_path):
    store = CheckpointStore(tmp_path, keep=1)
    store.save(5, {}, {})
    for name in (
        "step-5",
        "step-x",
        "step-000000007",
        "step-\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0661",
        "step-\udcff",
    ):
        (tmp_path / f"{name}.safetensors").touch()
    (tmp_path / "step-00000004.safetensors").mkdir()
    (tmp_path / ".x.safetensors.3.tmp").mkdir()
    assert store.steps() == [5]
    store.clean()
    store.save(6, {}, {})
    assert store.steps() == [6] and len(list(tmp_path.iterdir())) == 9


def test_a_link_in_the_place_of_the_checkpoints_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "checkpoints").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="is a link, and links are not followed here"):
        CheckpointStore(tmp_path / "checkpoints").save(1, {}, {})
    assert not list((tmp_path / "elsewhere").iterdir())
