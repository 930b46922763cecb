"""Prints the progress of a run: one line per epoch and the test metrics."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, TextIO

from tdt.train._printable import counted, message
from tdt.train.logging.events import EpochDone, Event, Notice, RunStarted, RunStopped, StepDone, TestDone, Validated


class Console:
    """Prints events as plain lines. If writing fails (a closed pipe as in `tdt train … | head`, a closed terminal, a
    full disk), training continues without output.

    >>> from tdt.train.logging.console import Console
    >>> from tdt.train.logging.events import Notice
    >>> import sys
    >>> Console(sys.stdout)(Notice(step=1, text="hello"))
    hello
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._open = True
        self._epoch_done: EpochDone | None = None
        self._began = time.perf_counter()
        self._epochs: int | None = None

    def __call__(self, event: Event) -> None:
        self._try(self._show, event)

    def print_line(self, line: str) -> None:
        """Print a line."""
        self._try(self.write, line)

    def close(self) -> None:
        """Stop printing; no more events follow."""
        self._try(self.stop)

    def _try(self, function: Callable[..., object], *args: object) -> None:
        if not self._open:
            return
        try:
            function(*args)
        except OSError:  # the output is closed; checkpoints and logs are still written
            self._open = False
            with open(os.devnull, "w") as devnull:  # takes the text that is left in Python's buffer
                os.dup2(devnull.fileno(), self._out.fileno())

    def _show(self, event: Event) -> None:
        if type(event) is StepDone:
            self.step(event)
        elif isinstance(event, Notice):
            self.write(event.text)
        elif isinstance(event, RunStarted):
            self.start(event)
        elif isinstance(event, EpochDone):
            self._epoch_done = event
            if not event.validated:
                self._print_epoch(event)
        elif isinstance(event, Validated):
            scores, best = f"valid {_scores(event.scalars)}", "  best" if event.best else ""
            if self._epoch_done is not None and self._epoch_done.step == event.step:
                self._print_epoch(self._epoch_done, f"  {scores}", best)
            else:
                self.write(f"step {event.step:,}  {scores}{best}")
        elif isinstance(event, RunStopped):
            self.stop()
        elif isinstance(event, TestDone):
            which = f"{event.checkpoint.stem} weights, " if event.checkpoint else ""
            self.write(f"test {_scores(event.scalars)}  ({which}epoch {event.epoch + 1})")

    def start(self, event: RunStarted) -> None:
        """Print how the run starts, or from which step it resumes."""
        self._epochs = event.epochs
        self._began = time.perf_counter()
        done = f", from step {event.step}" if event.resumed else ""
        length = (
            "" if event.steps is None else f": {counted(event.epochs or 0, 'epoch')}, {counted(event.steps, 'step')}"
        )
        self.write(f"{event.folder}{length}{done}")

    def step(self, event: StepDone) -> None:
        """Called after each training step: must be fast."""

    def _print_epoch(self, event: EpochDone, valid: str = "", best: str = "") -> None:
        now = time.perf_counter()
        took, self._began = now - self._began, now
        self.write(
            f"epoch {self.of_all(event.epoch + 1, self._epochs)}  train {_scores(event.scalars)}{valid}  "
            f"{took:.2f} s{best}"
        )

    @staticmethod
    def of_all(number: int, all: int | None) -> str:
        """`3/10`, or `3` if the total is unknown."""
        return str(number) if all is None else f"{number:>{len(str(all))}}/{all}"

    def write(self, line: str) -> None:
        print(message(line), file=self._out, flush=True)

    def restore(self) -> None:
        """Restore the terminal before the process exits; called from a signal handler."""

    def stop(self) -> None:
        """End the display, if it is live."""


def _scores(scalars: Any) -> str:
    """`loss 0.1234 accuracy 0.9876` from scalars whose tags are split/metric."""
    return " ".join(f"{tag.rpartition('/')[2]} {number(value)}" for tag, value in scalars.items())


def number(value: float) -> str:
    """Format with four decimals; very small and very large numbers with four significant digits.

    >>> from tdt.train.logging.console import number
    >>> number(0.5), number(0.0), number(0.000031234), number(7.2448e18)
    ('0.5000', '0.0000', '3.123e-05', '7.245e+18')
    """
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e6 else f"{value:.4g}"
