"""What ops state of their kernels."""

from __future__ import annotations

import importlib

import tdt.optim  # noqa: F401  (optimizers state theirs too)
from tdt._kernels import KERNELS


def test_every_kernel_that_is_stated_exists():
    missing = []
    for path in KERNELS:
        module, _, name = path.partition(":")
        if not hasattr(importlib.import_module(f"tdt._kernels.{module}"), name):
            missing.append(path)
    assert KERNELS
    assert not missing
