"""NaN, infinities and signed zeros: each op returns for them what PyTorch returns."""

import math
import subprocess
import sys
import warnings

import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()
VALUES = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -200.0, 200.0]
FUNCTIONS = [
    lambda t, x: x.sign(), lambda t, x: x.sgn() + x, lambda t, x: x.abs(), lambda t, x: x.relu(), lambda t, x: x.sigmoid(),
    lambda t, x: x.tanh(), lambda t, x: x.sqrt(), lambda t, x: x.clamp(0, 1), lambda t, x: x**2, lambda t, x: x.norm(1),
    lambda t, x: t.where(x > 0, x, -x),
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_and_gradients_of_special_numbers_are_pytorchs(function):
    found = []
    for t in (tdt, torch):
        x = t.tensor(VALUES, requires_grad=True)
        y = function(t, x)
        y.sum().backward()
        found.append((torch.tensor(y.tolist()), torch.tensor(x.grad.tolist())))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_results_that_are_not_finite_raise_no_warning():
    script = (
        "import tdt; x = tdt.tensor([-1.0, 0.0, 1e30]); x / 0, x.sqrt(), x**2, x.log(), tdt.nn.functional.gelu(x / 0)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("shape", [(2, 3), (2, 4, 3)], ids=str)
def test_sums_of_infinities_and_of_what_is_too_large_warn_of_nothing(shape):
    functional, opposite, large = tdt.nn.functional, tdt.full(shape, math.inf), tdt.full(shape, 3e38)
    opposite[0] = -math.inf
    overflowing, spreads = [], []
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=RuntimeWarning, module="numpy")
        for x in (opposite, large):
            overflowing += [reduce(x, dim) for reduce in (tdt.sum, tdt.mean) for dim in (None, 0, -1)]
            overflowing += [functional.layer_norm(x, shape[-1:]), functional.group_norm(x, 1)]
            spreads += [reduce(x, dim) for reduce in (tdt.var, tdt.std) for dim in (None, 0, -1)]
        overflowing += [functional.batch_norm(opposite, None, None, training=True)]
        functional.batch_norm(large, None, None, training=True)  # its sums are float64 in generated code alone
    assert not any(t.isfinite().all() for t in overflowing + spreads[:6])
    assert all((t == 0).all() for t in spreads[6:])  # of equal numbers: their deviations are computed in float64
