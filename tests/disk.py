"""Files that need not reach the disk: tests kill processes, not the power."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def unflushed() -> Iterator[None]:
    """`os.fsync`, which waits for the disk, only asks whether the file is open."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield
