"""Keep the working folder off `sys.path` of processes started by `spawn` or `forkserver`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

_VARIABLE = "PYTHONSAFEPATH"
_SET_BY_TDT = "tdt"  # any value sets the option; this one marks that tdt set it


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Start processes in the block without the working folder on `sys.path`, unless this process has it first there.

    Python starts them by `python -c`, which puts the working folder first on `sys.path`. A file `random.py` or `pickle.py`
    in that folder would be imported, and a worker that fails because of it would leave its parent waiting.
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
    """Called in the started process: remove the option, so that programs which it starts do not inherit it."""
    if os.environ.get(_VARIABLE) == _SET_BY_TDT:
        del os.environ[_VARIABLE]


def _looks_there_itself() -> bool:
    try:
        return bool(sys.path) and os.path.samefile(sys.path[0] or os.curdir, os.curdir)
    except OSError:  # an entry that is no folder
        return False
