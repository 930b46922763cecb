"""`tdt.multiprocessing`: Python's own names, and `spawn` with its errors."""

from __future__ import annotations

import multiprocessing
import os

import pytest

import tdt
from tdt import multiprocessing as mp


def write(number: int, folder: str) -> None:
    with open(f"{folder}/{number}", "w") as file:
        file.write(str(float(tdt.ones(number + 1).sum())))


def fail(number: int) -> None:
    if number == 1:
        raise ValueError("process one")


def leave(number: int) -> None:
    os._exit(7)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_function_runs_in_numbered_processes(method: str, tmp_path):
    assert mp.start_processes(write, (str(tmp_path),), nprocs=2, start_method=method) is None
    assert sorted(path.name + path.read_text() for path in tmp_path.iterdir()) == ["01.0", "12.0"]


def test_the_error_of_a_process_is_raised_with_its_traceback():
    with pytest.raises(mp.ProcessRaisedException, match="Process 1 ended(?s:.*)in fail(?s:.*)ValueError: process one"):
        mp.start_processes(fail, nprocs=2, start_method="fork")
    with pytest.raises(mp.ProcessExitedException, match="process 0 ended with exit code 7"):
        mp.start_processes(leave, start_method="fork")


def test_processes_can_be_waited_for_later(tmp_path):
    started = mp.start_processes(write, (str(tmp_path),), nprocs=2, join=False, start_method="fork")
    assert started is not None
    assert len(started.pids()) == 2
    while not started.join(timeout=5):
        pass
    assert len(list(tmp_path.iterdir())) == 2


def test_the_rest_is_pythons_own():
    assert mp.Process is multiprocessing.Process
    assert mp.cpu_count() == multiprocessing.cpu_count()
    queue = mp.get_context("fork").SimpleQueue()
    queue.put(tdt.arange(3))
    assert queue.get().tolist() == [0, 1, 2]
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    with pytest.raises(AssertionError, match="invalid sharing strategy 'x'"):
        mp.set_sharing_strategy("x")
