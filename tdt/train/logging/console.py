"""Prints the progress of a run: a header, a line per epoch, within long epochs a line per logged step, and the test metrics."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import tdt
from tdt.train._printable import counted, duration, message, number
from tdt.train.logging.events import EpochDone, Event, Notice, RunStarted, RunStopped, StepDone, TestDone, Validated

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts

Piece = tuple[str, str]  # a text and its style
SILENCE = 10.0  # seconds after a line until a logged step is printed


class Console:
    """Prints events as plain lines. If writing fails (a closed pipe as in `tdt train … | head`, a closed terminal, a
    full disk), training continues without output.

    parts: of the run, for the header and for the score that chooses the best checkpoint.

    >>> from tdt.train.logging.console import Console
    >>> from tdt.train.logging.events import Notice
    >>> import sys
    >>> Console(sys.stdout)(Notice(step=1, text="hello"))
    hello
    """

    def __init__(self, out: TextIO, parts: Parts | None = None) -> None:
        self._out, self._parts = out, parts
        self.monitor = "/".join((parts and parts.monitor) or ())
        self._open = True
        self._epoch_done: EpochDone | None = None
        self._began = self._written = time.perf_counter()
        self._epochs: int | None = None
        self._steps: int | None = None
        self._first: tuple[int, float] | None = None  # the first step done here, and when

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
                self.row(event, None)
        elif isinstance(event, Validated):
            ended, self._epoch_done = self._epoch_done, None
            self.row(ended if ended is not None and ended.step == event.step else None, event)
        elif isinstance(event, RunStopped):
            self.stop()
        elif isinstance(event, TestDone):
            which = f"{event.checkpoint.stem} weights, " if event.checkpoint else ""
            scores = [_scores({tag: value}) for tag, value in event.scalars.items()]
            self.test([f"test {scores[0]}", *scores[1:], f" ({which}epoch {event.epoch + 1})"])

    def start(self, event: RunStarted) -> None:
        """Print what is trained, on what, and for how long."""
        self._epochs, self._steps = event.epochs, event.steps
        self._began = time.perf_counter()
        rows = header(event, self._parts)
        width = max(map(len, rows))
        for name, value in rows.items():
            self.header_line(f"{name:<{width}}", value)

    def header_line(self, name: str, value: str) -> None:
        """Print a line of the header."""
        self.put((name, "bold"), (f"  {value}", ""))

    def step(self, event: StepDone) -> None:
        """Called after each training step: must be fast. Prints a logged step unless a line was printed shortly before."""
        now = time.perf_counter()
        self._first = self._first or (event.step, now)
        if event.scalars and now - self._written >= SILENCE:
            parts = self.where(event) | self.status(event) | {"left": self.remaining(event.step, now)}
            self.write("  ".join(filter(None, parts.values())))

    def where(self, event: Event) -> dict[str, str]:
        """Epoch and step, as in `epoch 3/10` and `step 72/360`."""
        epoch, step = self.of_all(event.epoch + 1, self._epochs), self.of_all(event.step, self._steps)
        return {"epoch": f"epoch {epoch}", "step": f"step {step}"}

    def status(self, event: StepDone) -> dict[str, str]:
        """The loss, the metrics, and the samples per second of a logged step; what is unknown is absent."""
        scores = {tag: value for tag, value in event.scalars.items() if tag.startswith("train/")}
        loss = {tag: scores.pop(tag) for tag in ("train/loss",) if tag in scores}
        rate = event.scalars.get("time/samples_per_second", 0.0)
        found = {"loss": _scores(loss), "metrics": _scores(scores)}
        found["rate"] = f"{rate:,.0f} samples/s" if rate >= 10 else f"{rate:.2g} samples/s" if rate else ""
        return {name: text for name, text in found.items() if text}

    def remaining(self, step: int, now: float) -> str:
        """`1:05 left`: the time until the last step at the pace so far; empty if unknown."""
        if self._first is None or self._steps is None or step <= self._first[0]:
            return ""
        seconds = (now - self._first[1]) / (step - self._first[0]) * (self._steps - step)
        return f"{duration(round(seconds))} left"

    def row(self, epoch: EpochDone | None, valid: Validated | None) -> None:
        """Print the scores of an epoch, of a validation within one, or of both."""
        now = time.perf_counter()
        pieces: list[Piece] = []
        if epoch is not None:
            pieces.append((f"epoch {self.of_all(epoch.epoch + 1, self._epochs)}  train {_scores(epoch.scalars)}", ""))
        if valid is not None:
            pieces.append(("  valid" if epoch is not None else f"step {valid.step:,}  valid", ""))
            for tag, value in valid.scalars.items():
                pieces += [(" ", ""), (_scores({tag: value}), self.style_of(tag, valid))]
        if epoch is not None:
            pieces.append((f"  {self.took(now):.2f} s", ""))
        if valid is not None and valid.best:
            pieces += [("  ", ""), ("best", "green")]
        self.put(*pieces)

    def test(self, texts: Sequence[str]) -> None:
        """Print the scores of the test data, and of which weights they are."""
        self.write(" ".join(texts))

    def style_of(self, tag: str, valid: Validated) -> str:
        """The style of a score: of the one that chooses the best checkpoint, whether it is the best so far."""
        return ("green" if valid.best else "yellow") if tag == self.monitor else ""

    def took(self, now: float) -> float:
        """Seconds since the end of the epoch before."""
        took, self._began = now - self._began, now
        return took

    @staticmethod
    def of_all(number: int, all: int | None) -> str:
        """`3/10`, or `3` if the total is unknown."""
        return str(number) if all is None else f"{number:>{len(str(all))}}/{all}"

    def write(self, line: str) -> None:
        """Print a line."""
        self.put((line, ""))

    def put(self, *pieces: Piece) -> None:
        """Print texts, each with its style, as one line."""
        print(_escaped(pieces, self.styled), file=self._out, flush=True)
        self._written = time.perf_counter()

    def styled(self, text: str, style: str) -> str:
        """The text in a style ("" for none); here as it is, without colours."""
        return text

    def restore(self) -> None:
        """Restore the terminal before the process exits; called from a signal handler."""

    def stop(self) -> None:
        """End the display, if it is live."""


def _escaped(pieces: Sequence[Piece], styled: Callable[[str, str], str]) -> str:
    """The texts, with their control characters spelt out, in their styles."""
    return "".join(styled(message(text), style) for text, style in pieces)


def header(event: RunStarted, parts: Parts | None) -> dict[str, str]:
    """What a run that starts consists of: lines by name."""
    rows = {"run": f"{event.folder}{f', from step {event.step:,}' if event.resumed else ''}"}
    each = ""
    if parts is not None:
        rows["device"] = _device(parts)
        rows["model"] = counted(sum(p.numel() for p in parts.model.parameters()), "parameter")
        rows["data"] = ", ".join(f"{split} {count:,}" for split, count in parts.samples.items()) + " samples"
        train = parts.config.train
        each = f", {counted(parts.config.data.loader.batch_size * train.accumulate, 'sample')} a step"
    if event.steps is not None:
        rows["length"] = f"{counted(event.epochs or 0, 'epoch')}, {counted(event.steps, 'step')}{each}"
    elif each:
        rows["length"] = each.removeprefix(", ")
    return rows


def _device(parts: Parts) -> str:
    """`cpu, 2 threads`, or the GPU's name; with the number of processes if there are several."""
    if parts.device.type == "cuda":
        found = f"{parts.device} ({tdt.cuda.get_device_name(parts.device)})"
    else:
        found = f"{parts.device}, {counted(tdt.get_num_threads(), 'thread')}"
    return found if parts.ranks.size == 1 else f"{found}, {parts.ranks.size} processes"


def _scores(scalars: Any) -> str:
    """`loss 0.1234 accuracy 0.9876` from scalars whose tags are split/metric."""
    return " ".join(f"{tag.rpartition('/')[2]} {number(value)}" for tag, value in scalars.items())
