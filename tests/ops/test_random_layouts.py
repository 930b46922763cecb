"""Random numbers for tensors of any memory layout are drawn in PyTorch's order, and lie as PyTorch's do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()

LAYOUTS = {
    "contiguous": lambda lib: lib.ones(4, 6, 5, 7),
    "channels_last": lambda lib: lib.ones(4, 6, 5, 7).contiguous(memory_format=lib.channels_last),
    "one channel": lambda lib: lib.ones(4, 1, 5, 7).contiguous(memory_format=lib.channels_last),
    "channels_last_3d": lambda lib: lib.ones(2, 6, 3, 5, 4).contiguous(memory_format=lib.channels_last_3d),
    "flattened": lambda lib: lib.ones(4, 6, 5, 7).contiguous(memory_format=lib.channels_last).flatten(2),
    "transposed": lambda lib: lib.ones(4, 7, 5, 6).transpose(1, 3),
    "permuted": lambda lib: lib.ones(5, 7, 6, 4).permute(3, 2, 0, 1),
    "sliced": lambda lib: lib.ones(4, 6, 5, 14)[..., ::2],
    "sliced channels": lambda lib: lib.ones(4, 12, 5, 7)[:, ::2],
    "expanded": lambda lib: lib.ones(4, 1, 5, 7).expand(4, 6, 5, 7),
    "matrix": lambda lib: lib.ones(6, 40).t(),
}
DRAWS = {
    "dropout": lambda lib, x: lib.nn.functional.dropout(x, 0.3),
    "dropout in place": lambda lib, x: lib.nn.functional.dropout(x.clone(), 0.3, inplace=True),
    "alpha_dropout": lambda lib, x: lib.nn.functional.alpha_dropout(x, 0.3, True),
    "feature_dropout": lambda lib, x: lib.feature_dropout(x, 0.3, True),
    "feature_alpha_dropout": lambda lib, x: lib.nn.functional.feature_alpha_dropout(x, 0.3, True),
    "rrelu": lambda lib, x: lib.nn.functional.rrelu(-x, 0.1, 0.3, True),
    "rrelu_": lambda lib, x: lib.nn.functional.rrelu_((-x).clone(), 0.1, 0.3, True),
    "gumbel_softmax": lambda lib, x: lib.nn.functional.gumbel_softmax(x, dim=1),
    "rand_like": lambda lib, x: lib.rand_like(x),
    "randn_like": lambda lib, x: lib.randn_like(x),
    "randint_like": lambda lib, x: lib.randint_like(x, 9),
    "bernoulli": lambda lib, x: lib.bernoulli(x * 0.4),
    "bernoulli of p": lambda lib, x: lib.bernoulli(x, 0.4),
    "bernoulli_": lambda lib, x: x.clone().bernoulli_(0.4),
    "bernoulli_ of a tensor": lambda lib, x: x.clone().bernoulli_(x * 0.4),
    "poisson": lambda lib, x: lib.poisson(x * 3),
    "binomial": lambda lib, x: lib.binomial(x * 5, x * 0.3),
    "normal": lambda lib, x: lib.normal(x, x),
    "multinomial": lambda lib, x: lib.multinomial(x if x.ndim == 2 else x.flatten(1), 3),
    "normal_": lambda lib, x: x.clone().normal_(),
    "uniform_": lambda lib, x: x.clone().uniform_(),
    "exponential_": lambda lib, x: x.clone().exponential_(),
    "cauchy_": lambda lib, x: x.clone().cauchy_(),
    "geometric_": lambda lib, x: x.clone().geometric_(0.3),
    "log_normal_": lambda lib, x: x.clone().log_normal_(),
    "random_": lambda lib, x: x.clone().random_(9),
}
WRITES = ("normal_", "uniform_", "exponential_", "bernoulli_")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_draws_are_pytorchs_in_every_layout(layout, dtype):
    for name, draw in DRAWS.items():
        (ours, our_steps), (theirs, their_steps) = (drawn(lib, layout, dtype, draw) for lib in (tdt, torch))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=name)
        assert our_steps == their_steps, name


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "expanded"])
def test_numbers_written_into_a_view_are_pytorchs(layout, name):
    (ours, _), (theirs, _) = (drawn(lib, layout, "float32", lambda _, x: getattr(x, name)()) for lib in (tdt, torch))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def drawn(lib: Any, layout: str, dtype: str, draw: Any) -> tuple[np.ndarray, tuple[int, ...]]:
    """What is drawn for a tensor of the layout, and its strides."""
    lib.set_default_dtype(getattr(lib, dtype))
    try:
        lib.manual_seed(3)
        sample = draw(lib, LAYOUTS[layout](lib))
        return sample.numpy().copy(), sample.stride()
    finally:
        lib.set_default_dtype(lib.float32)


@pytest.mark.parametrize("name", ["rand", "randn", "normal", "randint"])
@pytest.mark.parametrize("order", ["contiguous", "transposed", "every second", "empty", "other shape"])
def test_numbers_drawn_into_out_are_in_the_order_of_its_memory(name: str, order: str):
    results = []
    for lib in (tdt, torch):
        lib.manual_seed(3)
        target = {
            "contiguous": lambda lib=lib: lib.empty(3, 20),
            "transposed": lambda lib=lib: lib.empty(20, 3).t(),
            "every second": lambda lib=lib: lib.empty(3, 40)[:, ::2],
            "empty": lambda lib=lib: lib.empty(0),
            "other shape": lambda lib=lib: lib.empty(2, 2),
        }[order]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a target of another shape is resized
            numbers = {"randint": (0, 9, (3, 20)), "normal": (1.0, 2.0, (3, 20))}.get(name, (3, 20))
            assert getattr(lib, name)(*numbers, out=target) is target
        results += [target.numpy(), lib.get_rng_state().numpy()]
    np.testing.assert_allclose(results[0], results[2], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(results[1], results[3])
