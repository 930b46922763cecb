"""CuPy's second package, as far as tdt uses it."""

import contextlib
import importlib
import sys

import cupy
import numpy as np


class _Raising(contextlib.ContextDecorator):
    def __init__(self, **options):
        assert options in ({"linalg": "raise"}, {"linalg": "ignore"}), options

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


errstate = _Raising


def empty_pinned(shape, dtype=float, order="C"):
    return cupy.cuda.memory.pin(np.empty(shape, dtype, order=order))


def _lazily(name):
    """A module of cupyx.scipy, over SciPy's; its import loads SciPy."""
    if name not in sys.modules:
        cupy.module(name, importlib.import_module(name.replace("cupyx.", "")))
    return sys.modules[name]
