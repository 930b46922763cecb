"""A progress bar on a terminal for commands that read batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tdt.commands._output import moves_cursor

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress(what: str, quiet: bool = False) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on stderr, if that is a terminal: call the result with the number of `what` done, and in all if known.

    It appears with the first call, and disappears when all are done.

    quiet: whether to show none. Imports Rich only where it is shown.
    """
    if quiet or not moves_cursor(sys.stderr):
        yield lambda done, of: None
        return
    bar: Progress | None = None

    def show(done: int, of: int | None) -> None:
        nonlocal bar
        bar = bar or _bar(what)
        bar.start()
        bar.update(bar.task_ids[0], completed=done, total=of)
        if done == of:
            bar.stop()

    try:
        yield show
    finally:
        if bar is not None:
            bar.stop()


def _bar(what: str) -> Progress:
    import rich.console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}"), TimeElapsedColumn()
    bar = Progress(*columns, console=rich.console.Console(stderr=True), transient=True)
    bar.add_task(what, total=None)
    return bar


@contextmanager
def image_progress() -> Iterator[None]:
    """A bar on stderr while images are checked."""
    from tdt.vision.datasets._unreadable import showing

    with progress("images") as show, showing(show):
        yield
