"""The console for terminals: a progress bar for the whole run, below the lines."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TextIO

import rich.console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from tdt.commands._console import Console, number
from tdt.train._printable import message
from tdt.train.logging.events import RunStarted, StepDone

INTERVAL = 0.1  # seconds between two refreshes; each costs about 2 ms


class BarConsole(Console):
    """Shows epoch, step, loss, metrics, samples per second and remaining time, refreshed at most every INTERVAL."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._console = rich.console.Console(file=out, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[scores]}", markup=False),
            TimeRemainingColumn(),
            console=self._console,
            auto_refresh=False,
            transient=True,
            expand=True,
        )
        self._refreshed = 0.0
        self._scores = ""
        self._steps: int | None = None

    def start(self, event: RunStarted) -> None:
        super().start(event)
        self._steps = event.steps
        self._task = self._progress.add_task("", total=event.steps, completed=event.step, scores="")
        self._progress.start()

    def step(self, event: StepDone) -> None:
        if event.scalars:
            rate = event.scalars.get("time/samples_per_second", 0.0)
            named = [(tag.partition("/"), value) for tag, value in event.scalars.items()]
            means = [f"{name} {number(value)}" for (split, _, name), value in named if split == "train"]
            self._scores = message(" ".join([*means, f"{rate:,.0f}/s"]))
        now = time.perf_counter()
        if now - self._refreshed >= INTERVAL or event.step == self._steps:
            self._refreshed = now
            where = f"epoch {self.of_all(event.epoch + 1, self._epochs)} step {self.of_all(event.step, self._steps)}"
            self._progress.update(self._task, completed=event.step, description=where, scores=self._scores)
            self._progress.refresh()

    def write(self, line: str) -> None:
        self._console.print(message(line), markup=False, soft_wrap=True)

    def restore(self) -> None:
        with suppress(OSError):  # the terminal may be gone
            os.write(self._console.file.fileno(), b"\x1b[?25h\n")  # show the cursor, which the bar hides

    def stop(self) -> None:
        self._progress.stop()
