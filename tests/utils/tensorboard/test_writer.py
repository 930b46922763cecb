"""SummaryWriter against PyTorch's, TensorBoard's readers, full disks, forks and kills."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.graph_pb2 import GraphDef

import tdt
from tdt.utils.tensorboard import SummaryWriter
from tests.helpers import require_torch
from tests.utils.tensorboard.readers import event_files, events, points, untimed

ROOT = Path(__file__).parents[3]


def log_everything(writer) -> None:
    writer.add_scalar("plain", 0.1, 1)
    writer.add_scalar("a/b c", 1e300, 3, 12.5)
    writer.add_scalar("nan", float("nan"), 2**40)
    writer.add_scalar("int", 7, 4.7)
    writer.add_scalar("bool", True)
    writer.add_scalar("numpy", np.float64(1 / 3), np.int64(5))
    writer.add_scalar("one element", np.full((1, 1), 2.5, np.float32), 5)
    writer.add_scalar("new", 0.1, 6, new_style=True)
    writer.add_scalar("double", 0.1, 6, new_style=True, double_precision=True)
    writer.add_scalar("double old", 0.1, 6, double_precision=True)
    writer.add_scalars("group/of", {"x": 1, "y": 2.5}, 7)


@pytest.mark.parametrize("purge_step", [None, 0, 5])
def test_the_events_equal_pytorchs(tmp_path, purge_step):
    require_torch()
    from torch.utils.tensorboard import SummaryWriter as Theirs

    for folder, kind in (("ours", SummaryWriter), ("theirs", Theirs)):
        with kind(tmp_path / folder, purge_step=purge_step, filename_suffix=".end") as writer:
            log_everything(writer)
    for run in ("", "group_of_x", "group_of_y"):
        (ours,), (theirs,) = event_files(tmp_path / "ours" / run), event_files(tmp_path / "theirs" / run)
        assert untimed(ours) == untimed(theirs)
        name = re.compile(r"events\.out\.tfevents\.\d{10}\." + re.escape(socket.gethostname()) + r"\.\d+\.\d+\.end")
        assert name.fullmatch(ours.name)
        assert name.fullmatch(theirs.name)


def test_a_file_writer_writes_pytorchs_events(tmp_path):
    require_torch()
    from torch.utils import tensorboard as theirs

    from tdt.utils import tensorboard as ours

    for side, kind in (("ours", ours.FileWriter), ("theirs", theirs.FileWriter)):
        file = kind(tmp_path / side, 5, filename_suffix=".end")
        file.add_summary(ours.summary.scalar("a", 1.5), 3, 12.0)
        file.add_graph((GraphDef(), RunMetadata()))
        file.add_onnx_graph(GraphDef(), 9.0)
        file.add_event(Event(step=4))
        file.flush()
        file.close()
        assert file.get_logdir() == str(tmp_path / side)
    (first,), (second,) = ([untimed(path) for path in event_files(tmp_path / side)] for side in ("ours", "theirs"))
    assert len(first) == 6
    assert first == second


def test_one_file_that_cannot_be_closed_does_not_keep_the_others_from_it(tmp_path):
    writer = SummaryWriter(tmp_path)
    writer.add_scalars("group", {"x": 1, "y": 2}, 1)
    writer.file_writer._failure = OSError(28, "No space left on device")
    with pytest.raises(OSError, match="could not be written"):
        writer.close()
    assert [points(tmp_path / f"group_{run}") for run in "xy"] == [{"group": [(1, 1.0)]}, {"group": [(1, 2.0)]}]


def test_the_default_folder_is_pytorchs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_trial") as writer:
        assert writer.get_logdir() == writer.log_dir
    assert re.fullmatch(rf"runs/\w{{3}}\d\d_\d\d-\d\d-\d\d_{socket.gethostname()}_trial", writer.log_dir)
    assert len(event_files(tmp_path / writer.log_dir)) == 1


def test_wall_times_are_now_or_as_passed(tmp_path):
    before = time.time()
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", 1)
        writer.add_scalar("a", 1, walltime=12.5)
    _, now, explicit = events(*event_files(tmp_path))
    assert before <= now.wall_time <= time.time()
    assert explicit.wall_time == 12.5


def test_a_tensor_of_one_element_is_a_number(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", tdt.full((1, 1), 0.25), 1)
        with pytest.raises(ValueError, match=r"got shape \(2,\)"):
            writer.add_scalar("a", tdt.zeros(2), 1)
    assert points(tmp_path) == {"a": [(1, 0.25)]}


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (np.zeros(3), ValueError, r"'a' must be one number, got shape \(3,\)"),
        (np.zeros((0, 1)), ValueError, r"got shape \(0, 1\)"),
        (1j, TypeError, "got complex"),
        (np.array(1j), TypeError, "got ndarray"),
        (None, NotImplementedError, "got NoneType"),
        ([1.0], NotImplementedError, "got list"),
        ("high", ValueError, "high"),
    ],
)
def test_what_is_no_number_is_an_error(tmp_path, value, kind, message):
    with SummaryWriter(tmp_path) as writer, pytest.raises(kind, match=message):
        writer.add_scalar("a", value)


def test_flush_writes_everything_while_the_writer_is_open(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step in range(5):
            writer.add_scalar("a", step, step)
        writer.flush()
        assert points(tmp_path) == {"a": [(step, float(step)) for step in range(5)]}


def test_a_full_queue_and_a_passed_interval_write_without_a_flush(tmp_path):
    def wait_for(folder, count: int) -> None:
        end = time.monotonic() + 10
        while len(events(*event_files(folder))) < count:
            assert time.monotonic() < end, "the thread did not write"
            time.sleep(0.01)

    with SummaryWriter(tmp_path / "queue", max_queue=3) as writer:
        for step in range(3):
            writer.add_scalar("a", step, step)
        wait_for(tmp_path / "queue", 4)
    with SummaryWriter(tmp_path / "interval", flush_secs=0) as writer:
        writer.add_scalar("a", 1, 1)
        wait_for(tmp_path / "interval", 2)


def test_nothing_is_lost_or_reordered_between_threads(tmp_path):
    def log(tag: str) -> None:
        for step in range(2000):
            writer.add_scalar(tag, step, step)

    with SummaryWriter(tmp_path, max_queue=1) as writer:
        threads = [threading.Thread(target=log, args=(tag,)) for tag in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    expected = [(step, float(step)) for step in range(2000)]
    assert points(tmp_path) == dict.fromkeys("abc", expected)


def test_sync_returns_the_length_to_which_a_file_may_be_truncated(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", 1, 1)
        writer.add_scalars("b", {"x": 1}, 1)
        lengths = writer.sync()
        assert lengths == {name: (tmp_path / name).stat().st_size for name in lengths}
        assert len(lengths) == 2
        writer.add_scalar("a", 2, 2)
    (path,) = event_files(tmp_path)
    os.truncate(path, lengths[path.name])
    assert points(tmp_path) == {"a": [(1, 1.0)]}


def test_a_writer_used_after_close_starts_a_new_file_as_in_pytorch(tmp_path):
    writer = SummaryWriter(tmp_path)
    writer.add_scalar("a", 1, 1)
    writer.close()
    writer.close()
    writer.add_scalar("a", 2, 2)
    writer.close()
    assert len(event_files(tmp_path)) == 2
    assert points(tmp_path) == {"a": [(1, 1.0), (2, 2.0)]}


def test_a_new_file_sorts_last_whatever_the_clock_shows(tmp_path):
    future = tmp_path / f"events.out.tfevents.{int(time.time()) + 1000}.host.1.0"
    future.touch()
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", 1, 1)
    assert event_files(tmp_path)[0] == future


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)


def test_a_full_disk_is_an_error_of_the_next_call_not_a_silent_thread(tmp_path):
    code = """
import resource, sys, time
from tdt.utils.tensorboard import SummaryWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
writer = SummaryWriter(sys.argv[1], max_queue=5)
try:
    for step in range(10_000):
        writer.add_scalar("a", step, step)
        time.sleep(1e-4)
except OSError as error:
    print(step, error)
"""
    done = python(code, tmp_path)
    assert re.match(r"\d+ .*event file could not be written: File too large; it ends after \d+ whole", done.stdout)
    assert "could not be written" in done.stderr  # once more, from closing it at exit
    whole = points(tmp_path)["a"]
    assert whole == [(step, float(step)) for step in range(len(whole))]
    assert len(whole) > 50


def test_what_is_queued_is_written_at_exit(tmp_path):
    code = "import sys; from tdt.utils.tensorboard import SummaryWriter as W; W(sys.argv[1]).add_scalar('a', 1, 1)"
    assert python(code, tmp_path).returncode == 0
    assert points(tmp_path) == {"a": [(1, 1.0)]}


def test_killed_while_writing_the_file_reads_to_the_last_whole_record(tmp_path):
    code = """
import sys
from itertools import count
from tdt.utils.tensorboard import SummaryWriter
writer = SummaryWriter(sys.argv[1])
for step in count():
    writer.add_scalar("a", step, step)
    if step == 1000:
        print(writer.sync(), flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT)
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    found = points(tmp_path)["a"]
    assert len(found) > 1000
    assert found == [(step, float(step)) for step in range(len(found))]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_writes_its_own_file_and_the_parents_queue_stays_the_parents(tmp_path):
    code = """
import os, sys
from tdt.utils.tensorboard import SummaryWriter
writer = SummaryWriter(sys.argv[1])
writer.add_scalar("parent", 1, 1)
silent = os.fork()
if silent == 0:
    sys.exit()
child = os.fork()
if child == 0:
    writer.add_scalar("child", 2, 2)
    sys.exit()
os.waitpid(silent, 0)
os.waitpid(child, 0)
writer.add_scalar("parent", 3, 3)
"""
    done = python(code, tmp_path)
    assert (done.returncode, "Error" in done.stderr) == (0, False)
    first, second = (untimed(path)[1:] for path in event_files(tmp_path))
    assert [event.step for event in first] == [1, 3]
    assert [event.step for event in second] == [2]


def test_importing_the_writer_loads_neither_numpy_nor_tensorflow(tmp_path):
    fake = tmp_path / "tensorflow"
    fake.mkdir()
    (fake / "__init__.py").write_text("raise RuntimeError('tensorflow was imported')")
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from tdt.utils.tensorboard import SummaryWriter
SummaryWriter(sys.argv[1] + "/logs").add_scalar("a", 1, 1)
heavy = {"numpy", "tensorflow", "grpc", "werkzeug", "PIL"}
print(sorted(heavy & sys.modules.keys()))
"""
    done = python(code, tmp_path)
    assert (done.stdout, done.stderr) == ("[]\n", "")
