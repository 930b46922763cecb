"""Loader workers: seeds, errors, deaths, signals, start methods and the way of large batches."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdt._random as R
import tdt.utils.data as data
from tdt._core.tensor import wrap
from tdt.utils.data import _transport
from tests.utils.data.common import Noisy, Numbers, plain, tdt_side, torch_side

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Telling(Numbers):
    """Sample `i` has the info and the random draws of the worker that loaded it."""

    def __init__(self, length: int, side: Any) -> None:
        super().__init__(length)
        self.side = side

    def __getitem__(self, index: int) -> tuple:
        info = self.side.data.get_worker_info()
        return index, info.id, info.num_workers, info.seed, self.side.rand(), np.random.rand(), random.random()


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_get_the_info_and_draw_the_numbers_of_pytorchs(workers: int) -> None:
    results = []
    for side in (tdt_side(), torch_side()):
        side.manual_seed(4)
        loader = side.data.DataLoader(Telling(17, side), 2, shuffle=True, num_workers=workers)
        results.append([[repr(plain(field)) for field in batch] for batch in loader])
    assert results[0] == results[1]
    assert data.get_worker_info() is None


class Parts(data.IterableDataset):
    """A stream of which workers give parts of unequal length."""

    def __init__(self, side: Any, lengths: list[int]) -> None:
        self.side, self.lengths = side, lengths

    def __iter__(self) -> Iterator[int]:
        worker = self.side.data.get_worker_info().id
        return iter(range(100 * worker, 100 * worker + self.lengths[worker]))


@pytest.mark.parametrize("lengths", [[5, 5], [7, 0], [1, 9], [4, 0, 11], [9, 2, 1]])
@pytest.mark.parametrize("stay", [False, True])
def test_streams_of_unequal_length_are_interleaved_as_in_pytorch(lengths: list[int], stay: bool) -> None:
    torch = torch_side()
    results = []
    for side in (tdt_side(), torch):
        stream = type("Stream", (Parts, side.data.IterableDataset), {})(side, lengths)
        loader = side.data.DataLoader(stream, 2, num_workers=len(lengths), persistent_workers=stay)
        results.append([[plain(batch) for batch in loader] for _ in range(2)])
    assert results[0] == results[1]


class Elsewhere(data.Dataset):
    """More than a pipe holds, and nothing that another process can load."""

    def __len__(self) -> int:
        return 4

    def __reduce__(self) -> tuple:
        return _refuse, (bytes(1 << 20),)


def _refuse(content: bytes) -> None:
    raise ValueError("not here")


def test_a_worker_that_cannot_load_its_dataset_raises() -> None:
    with pytest.raises(ValueError, match="Caught ValueError in DataLoader worker process 0") as caught:
        list(data.DataLoader(Elsewhere(), num_workers=1, multiprocessing_context="spawn"))
    assert "not here" in str(caught.value)


def test_a_program_without_a_main_guard_is_reported(tmp_path) -> None:
    """Its spawned worker imports it, and would start workers again."""
    program = tmp_path / "program.py"
    program.write_text(
        "from tdt.utils.data import DataLoader\n"
        "print(*DataLoader(range(4), num_workers=1, multiprocessing_context='spawn'))\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60)
    child, parent = (line for line in done.stderr.splitlines() if line.startswith("RuntimeError: "))
    guard = 'put the training code under if __name__ == "__main__":'
    assert "program.py starts worker processes when it is imported" in child and child.endswith(guard)
    assert "worker 0 exited with code 1" in parent and "put the training code under if __name__ ==" in parent


def loader_processes() -> set[int | None]:
    """The pids of this process's loader workers; an epoch that an earlier test left in a traceback may still have some."""
    return {child.pid for child in multiprocessing.active_children() if child.name.startswith("tdt-loader")}


class Failing(Numbers):
    def __init__(self, error: BaseException | str) -> None:
        super().__init__(8)
        self.error = error

    def __getitem__(self, index: int) -> int:
        if index == 5:
            if isinstance(self.error, BaseException):
                raise self.error
            {"exit": lambda: os._exit(3), "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
             "hang": lambda: time.sleep(60)}[self.error]()  # fmt: skip
        return index


class Awkward(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(a, b)


def test_an_error_in_a_worker_is_raised_in_the_parent_with_its_traceback() -> None:
    batches = iter(data.DataLoader(Failing(ValueError("sample 5 is broken")), 2, num_workers=2))
    assert [plain(next(batches)), plain(next(batches))] == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="Caught ValueError in DataLoader worker process 0") as caught:
        next(batches)
    assert "sample 5 is broken" in str(caught.value) and "in __getitem__" in str(caught.value)
    assert plain(next(batches)) == [6, 7]  # the others go on


class Coded(Exception):
    def __init__(self, code: int) -> None:
        super().__init__({1: "the first"}[code])


class Mute(Exception):
    def __init__(self, about: object) -> None:
        super().__init__()


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (KeyError("name"), KeyError, "Caught KeyError in DataLoader worker process 0.\nOriginal Traceback"),
        (Awkward(1, 2), RuntimeError, "Caught Awkward in DataLoader worker process 0"),
        (Coded(1), RuntimeError, "Caught Coded in DataLoader worker process 0"),
        (Mute(1), Mute, "in __getitem__"),
        (type("Local", (Exception,), {})("here"), RuntimeError, "here"),
    ],
)
def test_errors_that_cannot_travel_whole_arrive_as_text(error: Exception, kind: type, text: str) -> None:
    with pytest.raises(kind) as caught:
        list(data.DataLoader(Failing(error), 4, num_workers=1))
    assert text in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


def test_a_sample_that_raises_stop_iteration_ends_the_epoch_and_loses_no_sample_in_between() -> None:
    for workers in (0, 2):
        loader = data.DataLoader(Failing(StopIteration("over")), 2, num_workers=workers)
        assert [plain(batch) for batch in loader] == [[0, 1], [2, 3]]


def test_an_error_in_the_worker_init_fn_arrives_at_the_first_batch() -> None:
    def bad(worker: int) -> None:
        raise LookupError(f"no file for {worker}")

    with pytest.raises(LookupError, match="no file for 1|no file for 0"):
        next(iter(data.DataLoader(Numbers(8), num_workers=2, worker_init_fn=bad)))


def test_a_batch_that_cannot_be_pickled_is_an_error_not_a_hang() -> None:
    loader = data.DataLoader(Numbers(4), 2, num_workers=1, collate_fn=lambda samples: lambda: samples)
    with pytest.raises((AttributeError, RuntimeError), match="Can't pickle|pickle local"):
        next(iter(loader))


@pytest.mark.parametrize(
    ("how", "text"), [("exit", "worker 0 exited with code 3"), ("kill", "worker 0 was killed by SIGKILL")]
)
def test_a_worker_that_dies_is_reported_at_once(how: str, text: str) -> None:
    before = loader_processes()
    loader = data.DataLoader(Failing(how), 2, num_workers=2)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly") as caught:
        list(loader)
    assert text in str(caught.value) and time.monotonic() - start < 5
    assert loader_processes() <= before


def test_workers_of_a_process_that_handles_sigterm_itself_ignore_it() -> None:
    before, handler = loader_processes(), signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        batches = iter(data.DataLoader(Numbers(8), 2, num_workers=2))
        got = [plain(next(batches))]
        for pid in loader_processes() - before:
            os.kill(pid or 0, signal.SIGTERM)
        assert got + [plain(batch) for batch in batches] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert loader_processes() <= before


def test_a_program_that_handles_sigterm_ends_although_a_worker_hangs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import signal, time\nfrom tdt.utils import data\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\n"
        "batches = iter(data.DataLoader(range(8), 2, num_workers=2, collate_fn=lambda x: x if x[0] < 2 else time.sleep(99)))\n"
        "print(next(batches))\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1]\n", "")


def test_a_batch_that_a_dead_worker_had_sent_is_not_counted_unless_it_is_delivered() -> None:
    expected = [batch.tolist() for batch in data.DataLoader(Numbers(100), 2)]
    loader = data.DataLoader(Numbers(100), 2, num_workers=2)
    batches = iter(loader)
    got = [next(batches).tolist()]
    time.sleep(0.3)  # in which the workers send the requested batches
    for process in multiprocessing.active_children():
        process.kill()
        process.join()
    with pytest.raises(RuntimeError, match="was killed by SIGKILL"):
        got.extend(batch.tolist() for batch in batches)
    rest = data.DataLoader(Numbers(100), 2, num_workers=2)
    rest.load_state_dict(loader.state_dict())
    assert got + [batch.tolist() for batch in rest] == expected


class LargeNoise(Noisy):
    """Samples of which a batch goes through shared memory, with random numbers in it."""

    def __getitem__(self, index: int) -> Any:
        return np.full(_transport.MIN_SHARED_BYTES // 32 + 1, sum(super().__getitem__(index)))


def content(batch: Any) -> list[Any]:
    """A batch of Noisy, or of LargeNoise, whose samples have one value each."""
    if isinstance(batch, list):
        return plain(batch)
    values = batch.numpy()
    assert values.nbytes >= _transport.MIN_SHARED_BYTES and (values == values[:, :1]).all()
    return values[:, 0].tolist()


def noise(kind: type[Noisy]) -> tuple[data.DataLoader, Iterator[Any]]:
    """A loader of 10 batches with two workers, whose epoch has begun."""
    for seed in (R.manual_seed, np.random.seed, random.seed):
        seed(3)
    loader = data.DataLoader(kind(40), 4, shuffle=True, num_workers=2)
    return loader, iter(loader)


@functools.cache
def undisturbed(kind: type[Noisy]) -> list[Any]:
    return [content(batch) for batch in noise(kind)[1]]


# Each pause with each number of delivered batches; both kinds with each pause and with each number.
MOMENTS = [
    (LargeNoise if (i + j) % 2 else Noisy, delivered, pause)
    for i, delivered in enumerate((0, 1, 4))
    for j, pause in enumerate((0.0, 0.002, 0.01))
]


@pytest.mark.parametrize(("kind", "delivered", "pause"), MOMENTS)
def test_what_a_worker_killed_at_any_moment_did_not_deliver_is_delivered_after_a_resume(
    kind: type[Noisy], delivered: int, pause: float
) -> None:
    expected, before = undisturbed(kind), loader_processes()
    loader, batches = noise(kind)
    got = [content(next(batches)) for _ in range(delivered)]
    time.sleep(pause)
    os.kill(min(pid for pid in loader_processes() - before if pid), signal.SIGKILL)
    with contextlib.suppress(RuntimeError):  # or all had been sent
        got.extend(content(batch) for batch in batches)
    if len(got) < len(expected):
        rest = data.DataLoader(kind(40), 4, shuffle=True, num_workers=2)
        rest.load_state_dict(loader.state_dict())
        assert got + [content(batch) for batch in rest] == expected
    else:
        assert got == expected


@pytest.mark.parametrize("stay", [False, True])
def test_a_dead_workers_epoch_raises_again_and_the_next_epoch_has_new_workers(tmp_path: Path, stay: bool) -> None:
    class FailingOnce(Failing):
        def __getitem__(self, index: int) -> int:
            if index == 5 and not (tmp_path / "failed").exists():
                (tmp_path / "failed").touch()
                os._exit(3)
            return index

    loader = data.DataLoader(FailingOnce("exit"), 2, num_workers=2, persistent_workers=stay)
    batches = iter(loader)
    with pytest.raises(RuntimeError, match="exited with code 3"):
        list(batches)
    with pytest.raises(RuntimeError, match="exited with code 3"):
        next(batches)
    assert [plain(batch) for batch in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_worker_that_stays_and_dies_between_two_epochs_is_reported_once() -> None:
    loader = data.DataLoader(Numbers(4), 2, num_workers=1, persistent_workers=True)
    before = loader_processes()
    list(loader)
    for process in multiprocessing.active_children():
        if process.pid in loader_processes() - before:
            process.kill()
            process.join()
    with pytest.raises(RuntimeError, match="was killed by SIGKILL"):
        list(loader)
    assert [plain(batch) for batch in loader] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("stay", [False, True])
def test_an_interrupted_epoch_ends_and_is_resumed_or_restarted(stay: bool) -> None:
    class CtrlC(data.Sampler):
        pressed = False

        def __iter__(self) -> Iterator[int]:
            yield from range(10)
            if not self.pressed:
                self.pressed = True
                raise KeyboardInterrupt
            yield from (10, 11)

    loader = data.DataLoader(Numbers(12), 2, sampler=CtrlC(), num_workers=2, persistent_workers=stay)
    batches, got = iter(loader), []
    with pytest.raises(KeyboardInterrupt):
        got.extend(plain(batch) for batch in batches)
    assert got == [[0, 1]]
    with pytest.raises(RuntimeError, match="was interrupted: start a new iteration"):
        next(batches)
    state = loader.state_dict()
    assert len(list(loader)) == 6
    loader.load_state_dict(state)
    assert got + [plain(batch) for batch in loader] == [[i, i + 1] for i in range(0, 12, 2)]


def unreadable(text: str) -> Any:
    raise LookupError(text)


class Unreadable:
    def __reduce__(self) -> tuple:
        return unreadable, ("only in the parent",)


def test_a_batch_that_cannot_be_read_is_an_error_not_a_hang() -> None:
    batches = iter(data.DataLoader(Numbers(4), 2, num_workers=1, collate_fn=lambda samples: Unreadable()))
    with pytest.raises(LookupError, match="only in the parent"):
        next(batches)
    with pytest.raises(RuntimeError, match="could not be read"):
        next(batches)


def test_a_stream_that_fails_to_start_again_fails_for_that_epoch() -> None:
    class Second(data.IterableDataset):
        begun = 0

        def __iter__(self) -> Iterator[int]:
            self.begun += 1
            if self.begun == 2:
                raise OSError("no second time")
            return iter(range(2))

    loader = data.DataLoader(Second(), 2, num_workers=1, persistent_workers=True)
    assert [plain(batch) for batch in loader] == [[0, 1]]
    with pytest.raises(OSError, match="no second time"):
        list(loader)
    assert [plain(batch) for batch in loader] == [[0, 1]]


def test_a_stream_that_every_worker_yields_in_full_is_detected_by_its_length() -> None:
    class Whole(data.IterableDataset):
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

        def __len__(self) -> int:
            return 3

    for workers, warned in ((0, 0), (2, 1)):
        loader = data.DataLoader(Whole(), num_workers=workers)
        assert len(loader) == 3
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(loader)
        assert len([w for w in caught if "was reported to be 3" in str(w.message)]) == warned


def test_a_worker_that_hangs_runs_into_the_timeout() -> None:
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.3 seconds"):
        list(data.DataLoader(Failing("hang"), 2, num_workers=1, timeout=0.3))
    assert time.monotonic() - start < 5


def test_an_epoch_left_early_leaves_no_process() -> None:
    before = loader_processes()
    for _ in data.DataLoader(Numbers(1000), 2, num_workers=2):
        assert len(loader_processes() - before) == 2
        break
    assert loader_processes() <= before


def test_workers_that_stay_are_the_same_processes_in_every_epoch() -> None:
    class Pids(Numbers):
        def __getitem__(self, index: int) -> int:
            return os.getpid()

    loader = data.DataLoader(Pids(8), 2, num_workers=2, persistent_workers=True)
    first = {tuple(plain(batch)) for batch in loader}
    for _ in loader:
        break  # an epoch left early is finished unseen before the next
    assert {tuple(plain(batch)) for batch in loader} == first


class Images(Numbers):
    """Large samples, so that batches go through shared memory."""

    def __getitem__(self, index: int) -> tuple:
        return wrap(np.full((3, 64, 64), index, np.float32)), {"row": np.arange(index, index + 3)}, "name"


@pytest.mark.skipif(not _transport.HAS_MEMFD, reason="needs memfd")
def test_batches_in_a_list_do_not_exhaust_the_file_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport, "MAX_MAPPED", 3)
    before = len(os.listdir("/proc/self/fd"))
    batches = list(data.DataLoader(Images(48), 6, num_workers=1))
    assert len(os.listdir("/proc/self/fd")) - before <= 3
    assert [plain(images)[0][0][0][0] for images, _, _ in batches] == [*range(0, 48, 6)]
    batches[-1][0].numpy()[:] = -1


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_large_batches_arrive_whole_and_writable_by_every_start_method(method: str) -> None:
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    loader = data.DataLoader(Images(24), 8, num_workers=2, multiprocessing_context=method)
    batches = list(loader)
    for i, (images, info, names) in enumerate(batches):
        assert images.numpy().shape == (8, 3, 64, 64) and list(names) == ["name"] * 8
        assert (images.numpy()[:, 0, 5, 5] == np.arange(8 * i, 8 * i + 8)).all()
        assert (info["row"].numpy()[:, 0] == np.arange(8 * i, 8 * i + 8)).all()
        images.numpy()[:] = -1
        info["row"].numpy()[:] = -1
    assert not {name for name in set(os.listdir("/dev/shm")) - before if "tdt" in name} if before else True


def test_out_of_order_delivery_does_not_wait_for_a_slow_worker() -> None:
    class Slow(Numbers):
        def __getitem__(self, index: int) -> int:
            time.sleep(0.5 if index == 0 else 0)
            return index

    order = [plain(batch)[0] for batch in data.DataLoader(Slow(8), num_workers=2, in_order=False)]
    assert sorted(order) == [*range(8)] and order[0] != 0


def test_kernels_and_blas_use_one_thread_in_a_worker() -> None:
    class Threads(Numbers):
        def __getitem__(self, index: int) -> int:
            from tdt._kernels._pool import get_num_threads

            return get_num_threads()

    assert [plain(batch) for batch in data.DataLoader(Threads(2), num_workers=1)] == [[1], [1]]


PROGRAM = """
import os, signal, sys, time
import tdt.utils.data as data

class Slow(data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        time.sleep(0.05)
        return index

if __name__ == "__main__":
    method, act = sys.argv[1:]
    train = data.DataLoader(Slow(), 2, num_workers=2, multiprocessing_context=method, persistent_workers=True)
    valid = data.DataLoader(Slow(), 2, num_workers=1, multiprocessing_context=method)
    signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
    a, b = iter(train), iter(valid)
    next(a), next(b)
    import multiprocessing
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    if act == "wait":
        time.sleep(60)
    rest = [batch.tolist() for batch in a]
    print(len(rest), flush=True)
"""


def start(tmp_path: Path, *arguments: str) -> tuple[subprocess.Popen, list[int]]:
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    process = subprocess.Popen(
        [sys.executable, str(script), *arguments],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, [int(pid) for pid in process.stdout.readline().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="needs /proc")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_no_worker_outlives_a_parent_that_is_killed(tmp_path: Path, method: str) -> None:
    process, workers = start(tmp_path, method, "wait")
    assert len(workers) == 3 and all(map(alive, workers))
    process.kill()
    process.wait()
    deadline = time.monotonic() + 5
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(alive, workers))


@pytest.mark.skipif(os.name != "posix", reason="needs process groups")
def test_ctrl_c_reaches_the_parent_and_not_the_workers(tmp_path: Path) -> None:
    process, workers = start(tmp_path, "fork", "go on")
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert output.split() == ["interrupted", "19"] and process.returncode == 0
    assert not any(map(alive, workers))


def test_a_loaders_generator_is_not_shared_with_its_workers() -> None:
    R.manual_seed(0)
    before = R.default_generator.state_array()
    list(data.DataLoader(Telling(8, tdt_side()), 2, num_workers=2))
    R.default_generator.set_state_array(before)
    R.full_range(R.default_generator, (), np.int64)
    one_draw = R.default_generator.state_array()
    R.default_generator.set_state_array(before)
    list(data.DataLoader(Telling(8, tdt_side()), 2, num_workers=2))
    assert (R.default_generator.state_array() == one_draw).all()
