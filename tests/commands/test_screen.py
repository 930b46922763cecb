"""What a run looks like on terminals of several widths, drawn by a terminal emulator."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyte
import pytest

from tdt.commands._bar import BarConsole
from tdt.commands._console import console_on
from tdt.commands._epoch_table import Cell
from tdt.commands._output import STYLES
from tdt.train.logging import console as plain
from tdt.train.logging.events import EpochDone, Notice, RunStarted, StepDone, TestDone, Validated
from tests.commands.running import COMMAND, SMALL, environment
from tests.commands.terminal import Terminal

WIDTHS = (40, 60, 80, 120)
NUMBER = re.compile(r"-?(\d{1,7}\.\d{1,4}(e[-+]\d\d)?|\d(\.\d+)?e[-+]\d\d|nan|-?inf)")
TRAIN = {"loss": 1234.5678, "accuracy": 0.5, "f1": 0.25, "top5_accuracy": 0.9999}
VALID = {"loss": -1.2345e-05, "accuracy": 0.75, "f1": 7.2448e18, "top5_accuracy": float("nan")}


def scores(split: str, values: dict[str, float]) -> dict[str, float]:
    return {f"{split}/{name}": value for name, value in values.items()}


class Screen:
    """A BarConsole of this process on a terminal."""

    def __init__(self, width: int, monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
        for name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in ({"TERM": "xterm-256color", "COLUMNS": str(width)} | variables).items():
            monkeypatch.setenv(name, value)
        self.width = width
        self.screen = pyte.Screen(width, 60)
        self._stream = pyte.ByteStream(self.screen)
        self._ours, theirs = pty.openpty()
        self._out = os.fdopen(theirs, "w", encoding="utf-8")
        parts: Any = SimpleNamespace(monitor=("valid", "accuracy"))
        self.console = BarConsole(self._out, parts)

    def show(self, *events: Any) -> list[str]:
        """The lines on the screen after these events."""
        for event in events:
            self.console(event)
        self._out.flush()
        while select.select([self._ours], [], [], 0)[0]:
            self._stream.feed(os.read(self._ours, 1 << 16))
        return [line.rstrip() for line in self.screen.display if line.strip()]

    def colour(self, text: str) -> str:
        row, column = next((y, line.find(text)) for y, line in enumerate(self.screen.display) if text in line)
        return self.screen.buffer[row][column].fg

    def close(self) -> None:
        self.console.close()
        self._out.close()
        os.close(self._ours)


@pytest.fixture
def screen_of(monkeypatch) -> Iterator[Any]:
    opened: list[Screen] = []

    def make(width: int, **variables: str) -> Screen:
        monkeypatch.setattr(plain, "header", lambda event, parts: {"run": str(event.folder)})
        opened.append(Screen(width, monkeypatch, **variables))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def epochs(count: int) -> Iterator[Any]:
    yield RunStarted(step=0, folder=Path("runs/big/1"), steps=1_000_000, epochs=1000)
    for epoch in range(count):
        step = (epoch + 1) * 1000
        yield EpochDone(step=step, epoch=epoch, scalars=scores("train_epoch", TRAIN), validated=True)
        yield Validated(step=step, epoch=epoch, scalars=scores("valid", VALID), best=epoch == 0)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_row_fits_the_terminal_and_no_number_is_cut(screen_of, width: int):
    lines = screen_of(width).show(*epochs(5))
    table = lines[1:]
    rows = [line for line in table if "/1000" in line]
    assert len(rows) == 5 and len(table) == 7, lines  # each on one line, below a header that is printed once
    assert all(len(line) <= width for line in lines)
    for row in rows:
        cells = row.removesuffix("best").split()
        assert re.fullmatch(r"\d+/1000", cells[0])
        assert all(NUMBER.fullmatch(cell) or re.fullmatch(r"\d+|s", cell) for cell in cells[1:]), row
    assert rows[0].endswith("best") and "0.7500" in rows[0]  # the score that chooses the checkpoint stays


def test_a_narrow_terminal_shows_fewer_columns(screen_of):
    shown = [len(screen_of(width).show(*epochs(1))[-1].split()) for width in WIDTHS]
    assert shown == sorted(shown) and len(set(shown)) == len(WIDTHS)


def test_columns_stand_below_the_names_of_their_splits(screen_of):
    _, groups, names, row = screen_of(140).show(*epochs(1))
    assert re.match(r" +-+ train -+  -+ valid -+$", groups)
    assert names.split() == ["epoch", "step", *TRAIN, *VALID, "time"]
    for name in ("loss", "accuracy", "f1"):
        ends = [match.end() for match in re.finditer(rf"\b{name}\b", names)]
        assert all(row[end - 1] not in " " and row[end : end + 1] in ("", " ") for end in ends)


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_long_names_of_metrics_are_cut_and_their_scores_stay(screen_of, width: int):
    long = {"accuracy_over_all_classes_of_birds": 0.875, "accuracy_over_all_classes_of_fish": 0.125}
    screen = screen_of(width)
    screen.show(
        RunStarted(step=0, folder=Path("runs/big/1"), steps=100, epochs=10),
        Validated(step=10, epoch=0, scalars=scores("valid", {"loss": 0.5, **long})),
    )
    tested = scores("test", {"loss": 0.25, **long, "top5_accuracy": 0.9999})
    lines = screen.show(TestDone(step=100, epoch=9, scalars=tested, checkpoint=Path("best.safetensors")))
    assert all(len(line) <= width for line in lines), lines
    assert any("0.5000" in line and "0.8750" in line for line in lines)
    assert "accuracy_o…_of_birds" in "".join(lines)
    begin = next(number for number, line in enumerate(lines) if line.startswith("test"))
    assert " ".join(" ".join(lines[begin:]).split()) == (
        "test loss 0.2500 accuracy_over_all_classes_of_birds 0.8750 accuracy_over_all_classes_of_fish 0.1250 top5_accuracy "
        "0.9999 (best weights, epoch 10)"
    )
    assert not [line for line in lines[begin + 1 :] if re.match(r" *[\d.]", line)]  # a score stands behind its name


def test_a_validation_within_an_epoch_has_a_row_of_its_own(screen_of):
    screen = screen_of(80)
    begin = RunStarted(step=0, folder=Path("runs/a/1"), steps=100, epochs=2)
    lines = screen.show(begin, Validated(step=20, epoch=0, scalars=scores("valid", {"loss": 0.5})))
    assert lines[-1].split() == ["1/2", "20", "0.5000"]
    lines = screen.show(EpochDone(step=50, epoch=0, scalars=scores("train_epoch", {"loss": 0.25})))
    assert lines[-1].split()[:3] == ["1/2", "50", "0.2500"] and "train" in lines[-3]  # a new column: a new header


def test_the_bar_keeps_step_loss_rate_and_time_left(screen_of, monkeypatch):
    monkeypatch.setattr("tdt.commands._bar.INTERVAL", 0.0)
    for width in WIDTHS[1:]:
        screen = screen_of(width)
        screen.show(
            RunStarted(step=0, folder=Path("runs/big/1"), steps=100_000, epochs=100), StepDone(step=1, samples=8)
        )
        time.sleep(0.01)
        tags = scores("train", {"loss": 0.75, "accuracy": 0.5}) | {"time/samples_per_second": 1234.5}
        bar = screen.show(StepDone(step=2, samples=8, scalars=tags))[-1]
        assert len(bar) <= width
        assert re.search(r"step +2/100000 .*loss 0\.7500 .*1,234 samples/s +[\d:]+( s)? left$", bar), bar
        assert ("accuracy 0.5000" in bar) == (width >= 100) and ("━" in bar) == (width > 60)


def test_the_bar_shows_the_loss_of_the_first_step_until_one_is_logged(screen_of):
    screen = screen_of(80)
    run = RunStarted(step=0, folder=Path("runs/a/1"), steps=100, epochs=2)
    assert "loss 2.5000" in screen.show(run, StepDone(step=1, samples=8, loss=2.5))[-1]
    screen.console._refreshed = 0.0
    assert "loss 2.5000" in screen.show(StepDone(step=2, samples=8))[-1]
    screen.console._refreshed = 0.0
    bar = screen.show(StepDone(step=3, samples=8, scalars=scores("train", {"loss": 0.75})))[-1]
    assert "loss 0.7500" in bar and "2.5" not in bar


def test_messages_and_rows_stand_above_the_bar(screen_of, monkeypatch):
    monkeypatch.setattr("tdt.commands._bar.INTERVAL", 0.0)
    lines = screen_of(80).show(*epochs(1), StepDone(step=1001, epoch=1), Notice(step=1001, text="look\x1b[2Jhere"))
    assert lines[-2] == r"look\x1b[2Jhere" and "step    1001/1000000" in lines[-1]


def test_the_end_leaves_no_bar(screen_of):
    screen = screen_of(80)
    screen.show(*epochs(1), StepDone(step=1001, epoch=1))
    screen.console.close()
    lines = screen.show(TestDone(step=1001, epoch=0, scalars={"test/loss": 0.5}, checkpoint=Path("best.safetensors")))
    assert lines[-1] == "test loss 0.5000  (best weights, epoch 1)" and not any("━" in line for line in lines)


def test_the_best_and_a_worse_score_have_colours(screen_of):
    screen = screen_of(80)
    screen.show(*epochs(1))
    assert (screen.colour("0.7500"), screen.colour("best"), screen.colour("1234.568")) == ("green", "green", "default")
    worse = Validated(step=2000, epoch=1, scalars=scores("valid", {"accuracy": 0.625}))
    screen.show(worse)
    assert screen.colour("0.6250") == "brown"  # pyte's name of yellow


def test_no_color_shows_the_same_text_without_colours(screen_of):
    screen = screen_of(80, NO_COLOR="1")
    lines = screen.show(*epochs(1))
    assert {screen.colour(text) for text in ("0.7500", "best")} == {"default"}
    assert [line[:20] for line in screen_of(80).show(*epochs(1))] == [line[:20] for line in lines]


@pytest.mark.parametrize(
    "value", [0.0, 0.5, -0.5, 12.3456, 999999.9, 1e6, 1234567.8, 1e-9, -1.2345e-05, 7.2448e18, -1e300, float("nan")]
)  # fmt: skip
def test_a_score_fits_its_column_and_keeps_its_value(value: float):
    text = Cell.of(value).text
    assert len(text) <= 8
    assert value != value or float(text) == pytest.approx(value, rel=0.05, abs=1e-4)


@pytest.mark.parametrize("width", [60, 120])
def test_a_run_has_a_header_a_table_and_a_bar(tmp_path: Path, width: int):
    (tmp_path / "small.yaml").write_text(SMALL)
    command = [*COMMAND, "train", "small.yaml", "train.epochs=20"]
    with Terminal(command, cwd=tmp_path, environment=environment(TERM="xterm-256color"), width=width) as terminal:
        assert terminal.exit_code() == 0
        lines = terminal.text.splitlines()
        assert lines[:5] == [
            "run     runs/small/1",
            "device  cpu, 1 thread",
            "model   650 parameters",
            "data    train 1,149, valid 288, test 360 samples",
            "length  20 epochs, 180 steps, 128 samples a step",
        ]
        assert lines[6].startswith("epoch") and sum(line.startswith("epoch") for line in lines) == 1
        assert [line.split()[0] for line in lines[7:27]] == [f"{epoch}/20" for epoch in range(1, 21)]
        assert lines[27].startswith("test loss") and lines[-2] == "to evaluate: tdt eval small/1"
        assert any(re.search(r"step +\d+/180 .*loss \d\.\d+ .*samples/s .* left$", frame) for frame in terminal.frames)
        assert not terminal.screen.cursor.hidden


@pytest.mark.parametrize(
    ("requested", "coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_a_log_file_has_colours_where_the_environment_forces_them(
    monkeypatch, requested: dict[str, str], coloured: bool
):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in requested.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(plain, "header", lambda event, parts: {"run": str(event.folder)})
    out = io.StringIO()
    parts: Any = SimpleNamespace(monitor=("valid", "accuracy"))
    console = console_on(out, parts)
    console(RunStarted(step=0, folder=Path("runs/a\x1b[2J/1"), steps=6, epochs=3))
    for epoch, best in enumerate((True, False)):
        console(EpochDone(step=2 * epoch + 2, epoch=epoch, scalars={"train_epoch/loss": 0.5}, validated=True))
        console(
            Validated(step=2 * epoch + 2, epoch=epoch, scalars={"valid/loss": 0.25, "valid/accuracy": 1.0}, best=best)
        )
    console(Validated(step=5, epoch=2, scalars={"valid/accuracy": 0.5}, best=False))
    lines = re.sub(r"\d+\.\d\d s", "1.00 s", out.getvalue()).splitlines()
    expected = [
        "[bold]run[]  runs/a\\x1b[2J/1",
        "epoch 1/3  train loss 0.5000  valid loss 0.2500 [green]accuracy 1.0000[]  1.00 s  [green]best[]",
        "epoch 2/3  train loss 0.5000  valid loss 0.2500 [yellow]accuracy 1.0000[]  1.00 s",
        "step 5  valid [yellow]accuracy 0.5000[]",
    ]
    codes = {name: f"\x1b[{code}m" if coloured else "" for name, code in (STYLES | {"": "0"}).items()}
    assert lines == [re.sub(r"\[([a-z]*)\]", lambda style: codes[style[1]], line) for line in expected]


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_a_terminal_that_moves_no_cursor_has_the_table_without_a_bar(tmp_path: Path, width: int):
    (tmp_path / "small.yaml").write_text(SMALL)
    command = [*COMMAND, "train", "small.yaml"]
    with Terminal(command, cwd=tmp_path, environment=environment(TERM="dumb"), width=width) as terminal:
        assert terminal.exit_code() == 0
        assert terminal.text.startswith("run     runs/small/1") and "\x1b" not in terminal.text
        lines = terminal.text.splitlines()
        assert [line.split()[0] for line in lines[6:9]] == ["epoch", "1/2", "2/2"]
        assert not any("left" in frame for frame in terminal.frames)
