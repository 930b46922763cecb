"""Named points at which a test can have the process killed: `TDT_FAULT=checkpoint.write:2 tdt train …`.

The process sends itself SIGKILL at the n-th passing (default: the first) of the named point, which is as sudden as a
power cut for everything but the disk's own cache. Without the variable a point costs a dictionary lookup.
Points: `checkpoint.write` (half of the bytes are written), `checkpoint.renamed` (the file has its name, `best` and
`last` do not point to it yet), `train.step` and `validate` (after a step; between two batches of a validation).
"""

from __future__ import annotations

import os
import signal
from collections import Counter

_passed: Counter[str] = Counter()


def fault_point(name: str) -> None:
    """Die here, if `TDT_FAULT` says so."""
    wanted = os.environ.get("TDT_FAULT")
    if wanted is None:
        return
    _passed[name] += 1
    point, _, nth = wanted.partition(":")
    if point == name and _passed[name] == int(nth or 1):
        os.kill(os.getpid(), signal.SIGKILL)
