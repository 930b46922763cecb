"""Ctrl-C, SIGTERM and SIGHUP while training: the first asks to stop after the step, a second one ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

# SIGHUP comes where a terminal or a connection is closed; Windows has none.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def exit_code(reason: str) -> int:
    """What a process ends with that stopped for the signal of that name: 128 and its number, as shells have it."""
    return 128 + int(signal.Signals[reason])


class StopRequest:
    """While it is entered, SIGINT, SIGTERM and SIGHUP only set `reason`, their name; a second one exits at once.

    But not a second SIGHUP: a terminal that is closed sends it through the shell and by itself. A SIGHUP that is ignored,
    as below `nohup`, stays so.

    at_once: called before that exit, to put the terminal in order. It must not print through Python's buffers, which
    the signal may have interrupted.

    Signals are Python's to hand out in the main thread alone; entered in another, this never asks to stop.
    """

    def __init__(self, at_once: Callable[[], object] = lambda: None) -> None:
        self.reason: str | None = None
        self._at_once = at_once
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            wanted = [number for number in SIGNALS if not _is_ignored_hangup(number)]
            self._before = {number: signal.signal(number, self._handle) for number in wanted}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.reason is None:
            self.reason = signal.Signals(number).name
            return
        if signal.Signals(number).name == "SIGHUP":
            return
        self._at_once()
        os._exit(128 + number)


def _is_ignored_hangup(number: signal.Signals) -> bool:
    return number.name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN
