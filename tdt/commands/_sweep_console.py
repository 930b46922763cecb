"""Shows a sweep: on a terminal a live table of its trials, otherwise a line when a trial begins and ends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from tdt.commands._output import moves_cursor, one_line, print_lines
from tdt.train._printable import duration, message, number
from tdt.train.tune.sweep import shown

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial
    from rich.table import Table

    from tdt.train.tune.sweep import Sweep
    from tdt.train.tune.worker import Worker

SHOWN = 10  # best trials in the table
Row = tuple[str, str, float | None, Mapping[str, object]]  # trial, state, best score, settings


class SweepConsole:
    """Prints a line when a trial begins and ends."""

    def __init__(self, out: TextIO, sweep: Sweep) -> None:
        self._out, self._sweep = out, sweep

    def show(self, worker: Worker, line: str) -> None:
        """Called when something changed; line: what, or ""."""
        if line:
            print_lines(one_line(line), file=self._out, flush=True)


class LiveTable(SweepConsole):
    """A table of the running trials and of the best so far, below the lines."""

    def __init__(self, out: TextIO, sweep: Sweep) -> None:
        import rich.console
        from rich.live import Live

        super().__init__(out, sweep)
        self.live = Live(console=rich.console.Console(file=out, highlight=False), auto_refresh=False)

    def show(self, worker: Worker, line: str) -> None:
        if line:
            self.live.console.print(message(one_line(line)), markup=False, soft_wrap=True)
        self.live.update(self._table(worker), refresh=True)

    def _table(self, worker: Worker) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        sweep, trials = self._sweep, self._sweep.trials()
        done = [trial for trial in trials if trial.state.is_finished()]
        total = "" if sweep.total is None else f"/{sweep.total}"
        failed = sum(trial.state.name == "FAIL" for trial in trials)
        pruned = sum(trial.state.name == "PRUNED" for trial in trials)
        title = f"{sweep.folder}  {len(done)}{total} trials done, {pruned} pruned, {failed} failed"
        table = Table(title=Text(one_line(title)), box=box.SIMPLE_HEAD, title_justify="left")
        for head in ("trial", "state", sweep.settings.metric, *sweep.search):
            table.add_column(Text(one_line(head)), overflow="fold")
        for name, state, value, settings in self._rows(worker, trials):
            score = "" if value is None else number(value)
            cells = (name, state, score, *(shown(settings.get(key, "")) for key in sweep.search))
            table.add_row(*(Text(one_line(cell)) for cell in cells))
        return table

    def _rows(self, worker: Worker, trials: list[FrozenTrial]) -> Iterator[Row]:
        """The running trials, this process's first, then the best."""
        for active in worker.active.values():
            state = f"running {duration(time.monotonic() - active.began)}"
            yield str(active.claimed.number), state, active.value, active.claimed.values
        for trial in trials:
            if trial.state.name == "RUNNING" and trial.number + 1 not in worker.active:
                yield str(trial.number + 1), "elsewhere", None, trial.params
        sign = 1 if self._sweep.minimize else -1
        done = [trial for trial in trials if trial.state.name == "COMPLETE"]
        for trial in sorted(done, key=lambda t: (sign * (t.value or 0), t.number))[:SHOWN]:
            yield str(trial.number + 1), "done", trial.value, trial.params


@contextmanager
def sweep_console(out: TextIO, sweep: Sweep) -> Iterator[SweepConsole]:
    """A live table if `out` is a terminal; otherwise plain lines."""
    if moves_cursor(out):
        console = LiveTable(out, sweep)
        with console.live:
            yield console
    else:
        yield SweepConsole(out, sweep)
