"""The console for terminals: a table of epochs as wide as the terminal, and below it a progress bar for the whole run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

import rich.console
from rich.live import Live
from rich.text import Text

from tdt.commands._plain_console import TableConsole
from tdt.train._printable import message, number, printable
from tdt.train.logging.console import Piece
from tdt.train.logging.events import RunStarted, StepDone

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts

INTERVAL = 0.1  # seconds between two refreshes; each costs about 2 ms
NARROWEST, WIDEST = 8, 40  # columns of the bar


class BarConsole(TableConsole):
    """Shows a row per epoch, and step, loss, metrics, rate and remaining time, refreshed at most every INTERVAL."""

    def __init__(self, out: TextIO, parts: Parts | None = None) -> None:
        super().__init__(out, parts)
        self._console = rich.console.Console(file=out, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True, redirect_stdout=False)
        self._refreshed = 0.0
        self._status: dict[str, str] = {}
        self._encodes_bar = _encodes("━", out)

    def start(self, event: RunStarted) -> None:
        super().start(event)
        self._live.start()

    def step(self, event: StepDone) -> None:
        now = time.perf_counter()
        self._first = self._first or (event.step, now)
        if event.scalars:
            self._status = self.status(event)
        elif event.loss is not None:
            self._status = {"loss": f"loss {number(event.loss)}"}
        if now - self._refreshed >= INTERVAL or event.step == self._steps:
            self._refreshed = now
            self._live.update(self._bar(event, now), refresh=True)

    def _bar(self, event: StepDone, now: float) -> Text:
        """The line of the bar: what does not fit is left out, the least important first."""
        parts = self.where(event) | self._status | {"left": self.remaining(event.step, now)}
        parts = {name: printable(text) for name, text in parts.items() if text}
        room = self._console.width - sum(len(text) + 2 for text in parts.values())
        for name in ("metrics", "epoch"):
            if room < NARROWEST and name in parts:
                room += len(parts.pop(name)) + 2
        if room < -2:
            parts["step"] = " ".join(parts["step"].split())
        line = Text(no_wrap=True, overflow="ellipsis", end="")
        for name, text in parts.items():
            line.append(text + "  ")
            if name == "step" and room >= NARROWEST and self._steps:
                line.append_text(self._filled(event.step / self._steps, min(room - 2, WIDEST)))
                line.append("  ")
        line.rstrip()
        return line

    def _filled(self, share: float, width: int) -> Text:
        done = round(min(share, 1.0) * width)
        full, empty = ("━", "━" if self._console.color_system and not self._console.no_color else "╌")
        if not self._encodes_bar:
            full, empty = "#", "-"
        return Text.assemble((full * done, "green"), (empty * (width - done), "bright_black"))

    @property
    def width(self) -> int:
        return self._console.width

    def put(self, *pieces: Piece) -> None:
        self._console.print(_escaped(pieces), soft_wrap=True)

    def restore(self) -> None:
        with suppress(OSError):  # the terminal may be gone
            os.write(self._console.file.fileno(), b"\x1b[?25h\n")  # show the cursor, which the bar hides

    def stop(self) -> None:
        self._live.stop()


def _escaped(pieces: Iterable[Piece]) -> Text:
    """Texts with their styles as one, without the control characters that they may have."""
    return Text.assemble(*((message(text), style) for text, style in pieces))


def _encodes(text: str, out: TextIO) -> bool:
    try:
        text.encode(out.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
