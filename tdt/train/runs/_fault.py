"""Named points at which a test can kill the process: `TDT_FAULT=checkpoint.write:2 tdt train …`.

The process sends itself a signal at the n-th call of the named point, by default at the first: `validate:5:SIGINT`. The
default signal, SIGKILL, is like a power cut except for the disk's cache. Several, `validate:5:SIGINT+SIGTERM`, are
handled in that order, one before the next is sent. The variable is read once: without it a point costs almost nothing.
Points: `checkpoint.write` (half of the arrays are written), `checkpoint.renamed` (the file has its name, but is not
yet `best` or `last`), `train.step` and `validate` (after a step; after a batch of a validation or test).
"""

from __future__ import annotations

import os
import signal
from collections import Counter

_REQUESTED = os.environ.get("TDT_FAULT")
_passed: Counter[str] = Counter()


def fault_point(name: str) -> None:
    """Send the signals here if `TDT_FAULT` names this point."""
    if _REQUESTED is None:
        return
    _passed[name] += 1
    point, _, when = _REQUESTED.partition(":")
    nth, _, sent = when.partition(":")
    if point == name and _passed[name] == int(nth or 1):
        for each in (sent or "SIGKILL").split("+"):
            signal.raise_signal(signal.Signals[each])
