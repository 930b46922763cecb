"""Ctrl-C, SIGTERM and SIGHUP during training: the first stops the run after the step, a second one ends the process."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

# SIGHUP is sent when a terminal or a connection is closed; Windows has none.
REPEATED = 1.0  # seconds in which a launcher sends its ranks a signal that they may have got themselves
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def exit_code(reason: str) -> int:
    """Exit code of a process that was stopped by the signal called `reason`: 128 + its number, as in shells."""
    return 128 + int(signal.Signals[reason])


class StopRequest:
    """Context manager in which SIGINT, SIGTERM and SIGHUP only set `reason`, their name; a second one exits at once.

    A second SIGHUP does not exit: a closing terminal sends two, one of them through the shell. An ignored SIGHUP, as
    under `nohup`, stays ignored. Python delivers signals in the main thread only: entered in another thread, this has
    no effect.

    Args:
        at_once: called before the exit, to reset the terminal. It must not print through Python's buffers, which the
            signal may have interrupted.
        repeated: seconds in which signals count as one: mpirun sends its own on to the ranks, which a scheduler may have
            signalled too.
    """

    def __init__(self, at_once: Callable[[], None] = lambda: None, repeated: float = 0.0) -> None:
        self.reason: str | None = None
        self._at_once, self._repeated, self._received_at = at_once, repeated, 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            handled = [number for number in SIGNALS if not _is_ignored_hangup(number)]
            self._before = {number: signal.signal(number, self._handle) for number in handled}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def ignore(self) -> None:
        """Ignore the signals from now on, also after the context: of a process that is about to end."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)
        self._before = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.reason is None:
            self.reason, self._received_at = signal.Signals(number).name, time.monotonic()
            return
        is_same = time.monotonic() - self._received_at < self._repeated
        if is_same or signal.Signals(number).name == "SIGHUP":
            return
        self._at_once()
        os._exit(128 + number)


def _is_ignored_hangup(number: signal.Signals) -> bool:
    return number.name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN
