"""Repeated small calls of half precision have the bits of the first call, and PyTorch's values within a few roundings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

CALLS = {
    "max": lambda t, x: x.max(),
    "max of dim": lambda t, x: x.max(-1),
    "min of dim": lambda t, x: x.min(0),
    "amax": lambda t, x: x.amax(0),
    "mean": lambda t, x: x.mean(),
    "mean of dim": lambda t, x: x.mean(0, keepdim=True),
    "mean of float": lambda t, x: x.mean(dtype=t.float32),
    "prod": lambda t, x: x.prod(0),
    "norm": lambda t, x: x.norm(),
    "vector_norm": lambda t, x: t.linalg.vector_norm(x, 1, 0),
    "var": lambda t, x: x.var(0),
    "std_mean": lambda t, x: t.std_mean(x, 0),
    "argmax": lambda t, x: x.argmax(),
    "argmin": lambda t, x: x.argmin(0),
    "cumsum": lambda t, x: x.cumsum(0),
    "cumprod": lambda t, x: x.cumprod(0),
    "cummax": lambda t, x: x.cummax(0),
    "softmax": lambda t, x: x.softmax(0),
    "log_softmax": lambda t, x: x.log_softmax(-1),
    "logsumexp": lambda t, x: x.logsumexp(0),
    "sort": lambda t, x: x.sort(0),
    "topk": lambda t, x: x.topk(min(2, x.shape[-1]) if x.ndim else 1),
    "median": lambda t, x: x.median(0),
    "all": lambda t, x: (x > 0).all(),
    "times": lambda t, x: x * 2.5,
    "times an integer": lambda t, x: 3 * x - 1,
    "by": lambda t, x: x / 3,
    "gelu": lambda t, x: t.nn.functional.gelu(x),
    "where": lambda t, x: t.where(x > 0, x, 0.0),
}
SHAPES = [(), (1,), (7,), (5, 6), (40, 30)]
LAYOUTS = {"contiguous": lambda x: x, "turned": lambda x: x.t() if x.ndim == 2 else x,
           "gaps": lambda x: x[::2] if x.ndim else x}  # fmt: skip


def results(t: Any, name: str, x: np.ndarray, dtype: str, layout: str, recorded: bool) -> list[np.ndarray]:
    leaf = t.from_numpy(x).to(getattr(t, dtype)).requires_grad_(recorded)
    found = CALLS[name](t, LAYOUTS[layout](leaf))
    outs = list(found) if isinstance(found, tuple) else [found]
    if recorded and outs[0].requires_grad:
        outs[0].float().sum().backward()
        outs.append(leaf.grad)
    return [out.detach().double().numpy() for out in outs]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_later_calls_have_the_bits_of_the_first(name, dtype, recorded):
    torch = require_torch()
    for shape in SHAPES:
        numbers = np.random.default_rng(len(shape)).permutation(int(np.prod(shape))) / 64 - 0.3
        x = np.asarray(numbers.reshape(shape), np.float32)
        for layout in LAYOUTS:
            first, *others = [results(tdt, name, x, dtype, layout, recorded) for _ in range(5)]
            for other in others:
                for a, b in zip(first, other, strict=True):
                    np.testing.assert_array_equal(a, b)
            expected = results(torch, name, x, dtype, layout, recorded)
            assert [a.shape for a in first] == [b.shape for b in expected]
            if "arg" not in name:  # of equal elements PyTorch may choose others
                error = 0.2 if name == "cumprod" else 0.03  # whose products PyTorch rounds one by one
                np.testing.assert_allclose(first[0], expected[0], rtol=error, atol=0.02)


@pytest.mark.parametrize("dtype", [tdt.bfloat16, tdt.float16])
def test_special_values_and_inference_mode(dtype):
    x = tdt.tensor([1.0, float("nan"), float("inf"), -0.0], dtype=dtype)
    for _ in range(4):
        assert x.max().isnan() and x[2:].max() == float("inf") and (x * 2).dtype is dtype
        with tdt.inference_mode():
            assert x.mean().is_inference() and x.max(0).values.is_inference()
        for out in (x.mean(), x.max(0).values, x.softmax(0), x.cumsum(0)):
            assert out.dtype is dtype and not out.is_inference()
