"""CuPy's second package, as far as training uses it."""

import contextlib

import numpy as np


def errstate(**options):
    return contextlib.nullcontext()


def scatter_add(out, index, values):
    from cupy import launch

    launch(np.add.at, out, index, values, writes=out)
