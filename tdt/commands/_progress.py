"""A progress bar on a terminal for commands that read batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(what: str, quiet: bool = False) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on stderr, if that is a terminal: call the result with the number of `what` done, and in all if known.

    quiet: whether to show none. Imports Rich only where it is shown.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda done, of: None
        return
    import rich.console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}"), TimeElapsedColumn()
    with Progress(*columns, console=rich.console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
