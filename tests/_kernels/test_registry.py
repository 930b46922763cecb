"""Which kernel applies is found once for each combination of shapes, types and settings."""

from __future__ import annotations

import numpy as np

import tdt
from tdt._kernels import ByShape, Kernel, chosen, enabled


def test_the_choice_by_shape_is_found_once_and_follows_settings_and_switches():
    requested = []

    def when(arrays, attributes):
        requested.append(arrays[0].shape)
        return enabled() and arrays[0].size > 2 and attributes["stride"] == (1,)

    kernels = ByShape((Kernel(when, abs),))
    with tdt.backends.kernels(True):
        assert [chosen(kernels, np, np.zeros(n), None, stride=(1,)) for n in (3, 2, 3, 2)] == [abs, None, abs, None]
        assert requested == [(3,), (2,)]
        assert chosen(kernels, np, np.zeros(3), None, stride=(2,)) is None
        assert chosen(kernels, np, np.zeros(3), np.zeros(3), stride=(1,)) is abs
    with tdt.backends.kernels(False):
        assert chosen(kernels, np, np.zeros(3), None, stride=(1,)) is None
