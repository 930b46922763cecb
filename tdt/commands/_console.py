"""What a run shows while it trains: a line per epoch, the test score; on a terminal a bar below them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, TextIO

from tdt.commands._output import say
from tdt.train._printable import counted
from tdt.train.logging.events import EpochDone, Event, Notice, RunStarted, RunStopped, StepDone, TestDone, Validated


class Console:
    """Prints events as plain lines. A reader that goes away, as in `tdt train … | head`, a terminal that is closed or a
    full disk behind `>` do not stop the training: what comes after is not shown.

    >>> import sys
    >>> Console(sys.stdout)(Notice(step=1, text="hello"))
    hello
    """

    def __init__(self, out: TextIO):
        self._out = out
        self._seen = True
        self._epoch_done: EpochDone | None = None
        self._began = time.perf_counter()
        self._epochs: int | None = None

    def __call__(self, event: Event) -> None:
        self._try(self._show, event)

    def say(self, line: str) -> None:
        """Print a line."""
        self._try(self.write, line)

    def close(self) -> None:
        """No more events come."""
        self._try(self.stop)

    def _try(self, show: Callable[..., object], *what: object) -> None:
        if not self._seen:
            return
        try:
            show(*what)
        except OSError:  # nobody sees it; the checkpoints and logs are what matters
            self._seen = False
            with open(os.devnull, "w") as nowhere:  # for what still waits in Python's buffer
                os.dup2(nowhere.fileno(), self._out.fileno())

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
                self._say_epoch(event)
        elif isinstance(event, Validated):
            said, best = f"valid {_scores(event.scalars)}", "  best" if event.best else ""
            if self._epoch_done is not None and self._epoch_done.step == event.step:
                self._say_epoch(self._epoch_done, f"  {said}", best)
            else:
                self.write(f"step {event.step:,}  {said}{best}")
        elif isinstance(event, RunStopped):
            self.stop()
        elif isinstance(event, TestDone):
            which = f"{event.checkpoint.stem} weights, " if event.checkpoint else ""
            self.write(f"test {_scores(event.scalars)}  ({which}epoch {event.epoch + 1})")

    def start(self, event: RunStarted) -> None:
        """The run begins, or goes on."""
        self._epochs = event.epochs
        self._began = time.perf_counter()
        done = f", from step {event.step}" if event.resumed else ""
        length = (
            "" if event.steps is None else f": {counted(event.epochs or 0, 'epoch')}, {counted(event.steps, 'step')}"
        )
        self.write(f"{event.folder}{length}{done}")

    def step(self, event: StepDone) -> None:
        """A step is done. Called after each one: must cost next to nothing."""

    def _say_epoch(self, event: EpochDone, valid: str = "", best: str = "") -> None:
        now = time.perf_counter()
        took, self._began = now - self._began, now
        self.write(
            f"epoch {self.of_all(event.epoch + 1, self._epochs)}  train {_scores(event.scalars)}{valid}  "
            f"{took:.2f} s{best}"
        )

    @staticmethod
    def of_all(number: int, all: int | None) -> str:
        """`3/10`, and the number alone where nobody knows of how many."""
        return str(number) if all is None else f"{number:>{len(str(all))}}/{all}"

    def write(self, line: str) -> None:
        say(line, file=self._out, flush=True)

    def restore(self) -> None:
        """Put the terminal in order where the process is about to end; called from a signal handler."""

    def stop(self) -> None:
        """Nothing more is shown."""


def _scores(scalars: Any) -> str:
    """`loss 0.1234 accuracy 0.9876` from scalars whose tags are split/metric."""
    return " ".join(f"{tag.rpartition('/')[2]} {number(value)}" for tag, value in scalars.items())


def number(value: float) -> str:
    """Four decimals, where these say something; else four digits.

    >>> number(0.5), number(0.0), number(0.000031234), number(7.2448e18)
    ('0.5000', '0.0000', '3.123e-05', '7.245e+18')
    """
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e6 else f"{value:.4g}"
