"""The watchdog between threads that stand for processes: what is aborted, what is not, and what the message says."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tdt._activity import PREPARING, Activity
from tdt.distributed import _watchdog
from tdt.distributed._watchdog import Watchdog

TIMEOUT = 0.6
WAITING: list[set[int]] = []  # of the jobs so far
COLLECTIVES = [0]  # how many each process has begun


def heartbeat(activity: Activity) -> dict[str, Any]:
    waiting = any(id(activity) in some for some in WAITING[-1:])
    return vars(activity) | {"waiting": waiting, "collective": "gradients", "collectives": COLLECTIVES[0]}


class Job:
    """Watchdogs of several processes in one: each with its activity, and whether it was aborted."""

    def __init__(self, size: int, timeout: float = TIMEOUT) -> None:
        self.activities = [Activity() for _ in range(size)]
        self.aborted: dict[int, float] = {}
        hosts = [f"node{rank}" for rank in range(size)]
        self.dogs = [
            Watchdog(rank, hosts, timeout, self._abort_of(rank), activity)
            for rank, activity in enumerate(self.activities)
        ]
        self.waiting: set[int] = set()  # activities of those that wait in a collective
        self._barrier, self._values = threading.Barrier(size), [None] * size

    def _abort_of(self, rank: int) -> Callable[[], None]:
        return lambda: self.aborted.setdefault(rank, time.monotonic())

    def exchange_of(self, rank: int) -> Callable[[Any], list[Any]]:
        def exchange(value: Any) -> list[Any]:
            self._values[rank] = value
            self._barrier.wait()
            values = list(self._values)
            self._barrier.wait()
            return values

        return exchange

    def start(self) -> list[list[int]]:
        unreachable: list[list[int]] = [[] for _ in self.dogs]

        def run(rank: int) -> None:
            unreachable[rank] = self.dogs[rank].start(self.exchange_of(rank))

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(self.dogs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return unreachable

    def work(self, seconds: float, *ranks: int) -> None:
        """Report progress of these ranks for a time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.aborted:
            for rank in ranks:
                self.activities[rank].report()
            time.sleep(0.02)

    def until(self, condition: Callable[[], bool]) -> None:
        """Report progress of all until the condition holds."""
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end
            for activity in self.activities:
                activity.report()
            time.sleep(0.02)


@contextmanager
def job(size: int, timeout: float = TIMEOUT) -> Iterator[Job]:
    started = Job(size, timeout)
    WAITING.append(started.waiting)
    assert started.start() == [[]] * size
    for activity in started.activities:
        activity.report("training", 3)
    try:
        yield started
    finally:
        for dog in started.dogs:
            dog.stop()


@pytest.fixture
def messages(monkeypatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(_watchdog, "write", lines.append)
    monkeypatch.setattr(_watchdog, "addresses", lambda: ["127.0.0.1"])
    monkeypatch.setattr(_watchdog, "heartbeat", heartbeat)
    return lines


def test_a_run_that_makes_progress_is_left_alone(messages):
    with job(3) as run:
        run.work(2 * TIMEOUT, 0, 1, 2)
        assert not run.aborted
    assert not messages


def test_a_process_that_hangs_is_named_first(messages):
    with job(3) as run:
        for rank in (0, 2):  # they wait for it
            run.activities[rank].report("training", 4)
            run.waiting.add(id(run.activities[rank]))
        began = time.monotonic()
        run.work(3 * TIMEOUT)
        assert list(run.aborted) == [0] and TIMEOUT * 0.9 < run.aborted[0] - began < 2 * TIMEOUT
    (text,) = messages
    lines = text.splitlines()
    assert lines[0].startswith("rank 0 on node0: no progress for 0.6 s (the limit is train.stall_timeout)")
    assert lines[1] == "  rank 1 on node1: at step 3, training, last collective: gradients"
    waiting = [f"  rank {r} on node{r}: at step 4, training, waiting in gradients" for r in (0, 2)]
    assert set(lines[2:]) <= set(waiting)  # those whose last report is as old


def test_one_that_waits_for_a_slower_one_is_left_alone(messages):
    with job(2) as run:
        run.waiting.add(id(run.activities[1]))
        run.work(2 * TIMEOUT, 0)
        assert not run.aborted
        run.work(3 * TIMEOUT)  # now rank 0 stops, too
        assert run.aborted


def test_time_does_not_count_before_the_first_step(messages):
    with job(2) as run:
        for activity in run.activities:
            activity.report("")
        run.work(2 * TIMEOUT)
        assert not run.aborted


def test_preparation_may_take_any_time_but_others_wait_for_it_no_longer_than_for_a_batch(messages):
    with job(3) as run:
        for activity in run.activities:
            activity.report(PREPARING, 0)
        run.work(2 * TIMEOUT)
        assert not run.aborted
        waiting = {id(run.activities[rank]) for rank in (0, 2)}
        run.waiting |= waiting
        for COLLECTIVES[0] in range(1, 4):  # several, each of which takes less
            run.work(0.6 * TIMEOUT)
        assert not run.aborted
        run.work(3 * TIMEOUT)
        assert list(run.aborted) == [0]
    (text,) = messages
    lines = text.splitlines()
    assert lines[0].startswith("rank 0 on node0: no progress for 0.6 s (the limit is train.stall_timeout)")
    assert lines[1] == "  rank 1 on node1: at step 0, preparing, last collective: gradients"
    assert lines[2:] == [f"  rank {r} on node{r}: at step 0, preparing, waiting in gradients" for r in (0, 2)]


def test_a_process_without_heartbeats_ends_the_run_on_both_sides(messages):
    with job(2) as run:
        run.until(lambda: run.dogs[0]._peers[1].last["doing"] == "training")
        run.dogs[1]._ended.set()  # its thread no longer sends; the connection stays
        run.dogs[1]._thread.join()
        run.work(3 * TIMEOUT, 0, 1)
        assert list(run.aborted) == [0]
    assert messages[0].startswith("rank 0 on node0: no heartbeat of rank 1 on node1 for 1 s")
    assert "  rank 1 on node1: at step 3, training, last collective" in messages[0]


def test_rank_0_is_watched_by_the_others(messages):
    with job(3) as run:
        run.dogs[0]._ended.set()
        run.dogs[0]._thread.join()
        run.until(lambda: set(run.aborted) == {1, 2})
    assert all("no heartbeat of rank 0 on node0" in text for text in messages)


def test_the_end_of_a_connection_is_the_end_of_the_run(messages):
    with job(2, timeout=60) as run:
        run.activities[1].report("saving", 7)
        run.until(lambda: run.dogs[0]._peers[1].last["doing"] == "saving")
        run.dogs[1]._peers[0].stream.shutdown(socket.SHUT_RDWR)
        run.until(lambda: 0 in run.aborted)
    (text,) = [text for text in messages if text.startswith("rank 0 ")]
    assert "rank 1 on node1 has died or lost its connection" in text and "  rank 1 on node1: at step 7, saving" in text


def test_a_process_that_has_ended_its_part_may_end(messages):
    with job(3) as run:
        run.dogs[1].stop()
        run.work(2 * TIMEOUT, 0, 2)
        run.dogs[0].stop()
        run.work(2 * TIMEOUT, 2)
        assert not run.aborted


def test_one_that_has_ended_while_another_waits_for_it_ends_the_run(messages, monkeypatch):
    monkeypatch.setattr(_watchdog, "LEFT", 0.3)
    with job(2) as run:
        run.dogs[1].stop()
        waiting = SimpleNamespace(size=1, name="gradients")  # in a group without it
        monkeypatch.setattr(_watchdog.Progress, "waiting", waiting)
        run.work(0.6, 0)
        assert not run.aborted
        waiting.size = 2
        run.until(lambda: 0 in run.aborted)
    assert messages[0].startswith("rank 0 on node0: rank 1 on node1 has ended its part too early; the run is aborted")


def test_time_in_which_the_thread_could_not_run_does_not_count(messages, monkeypatch):
    with job(2) as run:
        clock, late = time.monotonic, 0.0
        monkeypatch.setattr(_watchdog.time, "monotonic", lambda: clock() + late)
        for late in (10.0, 30.0):  # noqa: B007 (the clock reads it)
            run_until = clock() + 0.3
            while clock() < run_until:
                for activity in run.activities:
                    activity.report()
                time.sleep(0.02)
        assert not run.aborted


def test_a_stranger_is_not_admitted(messages):
    with job(2) as run:
        port = run.dogs[1]._peers[0].stream.getpeername()[1]
        with pytest.raises(ConnectionRefusedError):  # all have come
            socket.create_connection(("127.0.0.1", port), 1)
        run.work(0.3, 0, 1)
        assert not run.aborted


def test_a_wrong_token_is_refused(messages):
    dog = Watchdog(0, ["node0", "node1"], TIMEOUT)

    def exchange(value: Any) -> list[Any]:
        if value is True:
            return [True, False]
        with socket.create_connection(("127.0.0.1", value[0])) as stranger:
            stranger.sendall(b'{"token": "wrong", "rank": 1}\n')
            dog._accept()
            assert stranger.recv(100) == b""
        return [value, None]

    assert dog.start(exchange) == [1] and not dog._peers
    dog.stop()


def test_a_process_that_cannot_reach_rank_0_is_reported(messages, monkeypatch):
    monkeypatch.setattr(_watchdog, "addresses", list)
    assert Job(2).start() == [[1], [1]]


def test_one_process_needs_no_watchdog():
    assert Watchdog(0, ["node0"]).start(lambda value: [value]) == []
