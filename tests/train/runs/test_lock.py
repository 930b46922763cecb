"""A run's lock where a file system has none, and where it is not the run's own file."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import time
import warnings

import pytest

from tdt import _files
from tdt.train.loop._signals import StopRequest, exit_code
from tdt.train.runs import _heartbeat, _lock
from tdt.train.runs._lock import holder, lock

NO_LOCKS = [errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS]


@pytest.fixture
def no_locks(monkeypatch, request):
    """A file system whose flock fails."""
    number = getattr(request, "param", errno.ENOLCK)

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(_lock.fcntl, "flock", fail)
    monkeypatch.setattr(_files, "_warned", set())
    monkeypatch.setattr(_heartbeat, "CHECK_AFTER", 0.0)


@pytest.mark.parametrize("no_locks", NO_LOCKS, indirect=True)
def test_a_file_system_without_locks_is_warned_of_once_and_a_file_takes_their_place(tmp_path, no_locks):
    path = tmp_path / "run.lock"
    with pytest.warns(UserWarning, match="has no locks: files that end in .owner name the process"):
        lock(path).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lock(tmp_path / "journal.lock").close()
        with lock(path):
            me = f"by process {os.getpid()} on {socket.gethostname()}"
            assert holder(path) == me
            with pytest.raises(_lock.Locked, match=me):
                lock(path)
        assert holder(path) is None
        lock(path).close()


@pytest.mark.filterwarnings("ignore:this file system has no locks")
@pytest.mark.parametrize(
    ("facts", "age", "outdated"),
    [
        ({"pid": 2**22 + 1}, 0, True),  # no such process
        ({"started": "1"}, 0, True),  # its number is that of another process now
        ({}, 1000, False),  # this process, whose clock does not matter
        ({"host": "elsewhere"}, 10, False),
        ({"host": "elsewhere"}, 1000, True),
    ],
)
def test_the_lock_of_a_process_that_has_ended_is_outdated(tmp_path, no_locks, facts, age, outdated):
    path = tmp_path / "run.lock"
    path.touch()
    me = {"host": socket.gethostname(), "pid": os.getpid(), "started": _heartbeat.started(os.getpid())}
    owner = _heartbeat.owner_file(path)
    owner.write_text(json.dumps(me | facts))
    os.utime(owner, (time.time() - age,) * 2)
    assert (holder(path) is None) == outdated
    if outdated:
        lock(path).close()
        assert not owner.exists()
    else:
        with pytest.raises(_lock.Locked):
            lock(path)


@pytest.mark.filterwarnings("ignore:this file system has no locks")
def test_the_file_is_touched_while_the_lock_is_held(tmp_path, no_locks, monkeypatch):
    monkeypatch.setattr(_heartbeat, "HEARTBEAT", 0.01)
    with lock(tmp_path / "run.lock"):
        owner = _heartbeat.owner_file(tmp_path / "run.lock")
        os.utime(owner, (0, 0))
        until = time.monotonic() + 10
        while owner.stat().st_mtime == 0:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_a_lock_that_is_a_link_is_refused_and_a_hard_link_is_not_written_to(tmp_path):
    other = tmp_path / "other"
    other.write_text("somebody else's")
    (tmp_path / "soft").symlink_to(other)
    with pytest.raises(OSError, match="is a symbolic link"):
        lock(tmp_path / "soft")
    os.link(other, tmp_path / "hard")
    lock(tmp_path / "hard").close()
    assert other.read_text() == "somebody else's"


def test_the_holder_of_the_lock_is_reported_whatever_the_file_contains(tmp_path):
    path = tmp_path / "run.lock"
    with lock(path):
        path.write_bytes(b"\xff" * 5000)
        assert len(holder(path) or "") == _lock.MOST
    assert holder(path) is None


def test_a_closed_terminal_stops_as_sigterm_does_and_its_second_signal_changes_nothing():
    before = signal.getsignal(signal.SIGHUP)
    with StopRequest() as stop:
        for _ in range(2):  # by the shell, and by the terminal itself
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop.reason == "SIGHUP" and exit_code(stop.reason) == 129
    assert signal.getsignal(signal.SIGHUP) is before


def test_a_hangup_that_nohup_has_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.reason is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
