"""Keep the working folder off `sys.path` of processes started by `spawn` or `forkserver`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

_VARIABLE = "PYTHONSAFEPATH"
_SET_BY_TDT = "tdt"  # any value switches it on; this one says who has set it


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Processes started in the block look into the working folder only where this one looks there first.

    Python starts them by `python -c`, which puts the working folder first on `sys.path`. So a `random.py` or `pickle.py`
    that lies there would run, and a worker that fails over it would leave its parent waiting.
    """
    if os.environ.get(_VARIABLE) or sys.flags.safe_path or _looks_there_itself():
        yield
        return
    os.environ[_VARIABLE] = _SET_BY_TDT
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


def leave_safe_path() -> None:
    """For the started process: programs that it starts itself are not meant."""
    if os.environ.get(_VARIABLE) == _SET_BY_TDT:
        del os.environ[_VARIABLE]


def _looks_there_itself() -> bool:
    try:
        return bool(sys.path) and os.path.samefile(sys.path[0] or os.curdir, os.curdir)
    except OSError:  # an entry that is no folder
        return False
