"""A run's lock where a file system has none, and where it is not the run's own file."""

from __future__ import annotations

import errno
import os
import signal
import warnings

import pytest

from tdt import _files
from tdt.train.loop._signals import StopRequest, exit_code
from tdt.train.runs import _lock
from tdt.train.runs._lock import holder, lock


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_a_file_system_without_locks_is_warned_of_once_and_used(tmp_path, monkeypatch, number: int):
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(_lock.fcntl, "flock", fail)
    monkeypatch.setattr(_files, "_warned", set())
    with pytest.warns(UserWarning, match="has no locks: take care that no other process trains the same run"):
        lock(tmp_path / "run.lock").close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lock(tmp_path / "run.lock").close()
        assert holder(tmp_path / "run.lock") is None


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
