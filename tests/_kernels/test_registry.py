"""Which kernel applies is found once for each combination of shapes, strides, types and settings."""

from __future__ import annotations

import numpy as np

import tdt
from tdt._kernels import ByShape, Kernel, chosen, enabled
from tdt._kernels._layout import transposed
from tdt._kernels._registry import forget, lazy


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


def test_the_choice_for_one_memory_order_is_not_that_for_another():
    kernels = ByShape((Kernel(lambda arrays, attributes: arrays[0].flags.c_contiguous, abs),))
    a = np.zeros((3, 4))
    with tdt.backends.kernels(True):
        assert [chosen(kernels, np, x) for x in (a, a.T.copy().T, a)] == [abs, None, abs]


def test_a_convolution_has_the_same_bits_after_one_of_another_memory_order():
    rng = np.random.default_rng(0)
    x, w = (tdt.from_numpy(rng.standard_normal(s, np.float32)) for s in ((1, 256, 7, 7), (128, 256, 5, 5)))
    x_last, w_last = (a.contiguous(memory_format=tdt.channels_last) for a in (x, w))

    def of_planes() -> bytes:
        return tdt.nn.functional.conv2d(x, w, padding=2).numpy().tobytes()

    forget()
    expected = of_planes()
    forget()
    tdt.nn.functional.conv2d(x_last, w_last, padding=2)
    assert of_planes() == expected


def test_a_kernel_has_its_modules_function_again_after_another_was_put_in_its_place():
    found = Kernel(lambda arrays, attributes: True, len)
    found.function = until_called = lazy("_layout:transposed", found)
    x = np.ones((1, 2, 3), np.float32)
    for _ in range(2):
        found.function(x, 2, 3)
        assert found.function is transposed
        found.function = until_called
