"""Checks of many names in several processes, side by side: one that ends or hangs costs one name."""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tests.gpu_results import RESTART

SILENCE = 120.0  # seconds without a result, after which a process is taken to hang


def check_in_processes(
    command: Sequence[str], names: Sequence[str], jobs: int, until: float, silence: float = SILENCE
) -> Iterator[tuple[str, Any]]:
    """(name, result) for each name, in no order; a text says why a name has none. At `until` (monotonic) it stops.

    Args:
        command: which names follow; it prints a line for each, in their order: the result as JSON.
        silence: seconds without a line, after which the process is killed.
    """
    results: queue.Queue[tuple[str, Any] | None] = queue.Queue()
    threads = [
        threading.Thread(target=_work, args=(command, [*names[k::jobs]], until, silence, results)) for k in range(jobs)
    ]
    for thread in threads:
        thread.start()
    running = len(threads)
    while running:
        result = results.get()
        if result is None:
            running -= 1
        else:
            yield result


def _work(command: Sequence[str], left: list[str], until: float, silence: float, results: queue.Queue) -> None:
    try:
        while left and time.monotonic() < until:
            why = _run(command, left, until, silence, results)
            if why is not None and left and time.monotonic() < until:
                results.put((left.pop(0), why))
    finally:
        results.put(None)


def _run(command: Sequence[str], left: list[str], until: float, silence: float, results: queue.Queue) -> str | None:
    """Run a process for the names in `left`, from which those with a result are taken.

    Returns: how it ended, None if another one is to go on: it ended as planned.
    """
    with tempfile.TemporaryFile("w+") as messages:
        process = subprocess.Popen([*command, *left], stdout=subprocess.PIPE, stderr=messages, text=True)
        hung = threading.Event()

        def kill() -> None:
            hung.set()
            process.kill()

        def watch() -> threading.Timer:
            timer = threading.Timer(max(min(silence, until - time.monotonic()), 0), kill)
            timer.daemon = True
            timer.start()
            return timer

        timer = watch()
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                timer.cancel()
                results.put((left.pop(0), json.loads(line)))
                timer = watch()
        process.wait()
        timer.cancel()
        messages.seek(0)
        last = ([line for line in messages.read().splitlines() if line.strip()] or ["no message"])[-1][:200]
    if process.returncode in (0, RESTART):
        return None if process.returncode == RESTART or not left else "its process ended without a result"
    return f"no result in {silence:.0f} seconds" if hung.is_set() else f"exit code {process.returncode}: {last}"
