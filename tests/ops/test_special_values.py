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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("limit", [0.1, 0.3, 1 / 3, 2.71828])
def test_elements_at_a_limit_have_pytorchs_gradient(dtype, limit):
    calls = [
        lambda x: x.clamp(limit), lambda x: x.clamp(max=limit), lambda x: x.clamp(-limit, limit), lambda x: x.clamp_min(limit),
        lambda x: x.clamp_max(limit), lambda x: (x * 1).clamp_(-limit, limit), lambda x: (x * 1).clamp_max_(limit),
        lambda x: x.hardshrink(limit), lambda x: x.hardshrink(limit) * x,
    ]  # fmt: skip
    for call in calls:
        found = []
        for t in (tdt, torch):
            x = t.tensor([limit, limit * 1.01, limit * 0.99, -limit], dtype=getattr(t, dtype), requires_grad=True)
            found.append(t.autograd.grad(call(x).sum(), x)[0].tolist())
        assert found[0] == found[1]


INFINITE = [[math.inf, 1.0], [math.inf, math.inf, 1.0], [-math.inf, -math.inf], [-math.inf, 1.0], [math.inf, -math.inf, 2.0],
            [math.nan, math.inf]]  # fmt: skip


@pytest.mark.parametrize("values", INFINITE, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_gradients_of_logsumexp_of_infinities_are_pytorchs(values, dtype):
    found = []
    for t in (tdt, torch):
        x = t.tensor(values).to(getattr(t, dtype)).requires_grad_()
        for graph in (False, True):
            (g,) = t.autograd.grad(abs(t.logsumexp(x, 0)), x, create_graph=graph)
            found.append(torch.tensor(g.tolist()))
    for ours, theirs in zip(found[:2], found[2:], strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)


@pytest.mark.parametrize("logit", [math.inf, -math.inf, math.nan, 3.0])
@pytest.mark.parametrize("weights", ["", "weight", "pos_weight"])
def test_binary_cross_entropy_of_infinite_logits_is_pytorchs(logit, weights):
    for target in (0.0, 0.5, 1.0):
        for reduction in ("none", "mean", "sum"):
            found = []
            for t in (tdt, torch):
                x, y = (t.tensor([v, 0.5], requires_grad=True) for v in (logit, target))
                more = {weights: t.tensor([2.0, 3.0])} if weights else {}
                loss = t.nn.functional.binary_cross_entropy_with_logits(x, y, reduction=reduction, **more)
                found.append([torch.tensor(v.tolist()) for v in (loss, *t.autograd.grad(loss.sum(), (x, y)))])
            for ours, theirs in zip(*found, strict=True):
                torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("logit", [math.inf, -math.inf, math.nan])
def test_multilabel_soft_margin_loss_of_infinite_logits_is_pytorchs(logit):
    found = [
        [t.nn.functional.multilabel_soft_margin_loss(t.tensor([[logit, 1.0]]), t.tensor([[y, 1.0]])).item() for y in (0, 0.5, 1)]
        for t in (tdt, torch)
    ]  # fmt: skip
    assert found[0] == pytest.approx(found[1], nan_ok=True)
