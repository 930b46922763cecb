"""Activation kernels beside the portable forms in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._backend.layout import to_front, to_last
from tdt._kernels import KERNELS, LARGE_ACTIVATION, _pool, activation_cpu
from tdt._kernels.activation_cpu import BLOCK
from tdt._ops.nn.loss.binary import _binary_cross_entropy_with_logits
from tdt.autograd._op_table import OPS
from tests._kernels.watch import watch

SIZES = [1, 2, 7, 15, 16, 17, 31, 127, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 13]
SPECIAL_VALUES = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    -1e-40,
    1e-45,
    3e38,
    -3e38,
    -20.0,
    20.0,
    -88.0,
    88.0,
    0.625,
    -0.34,
]
SETTINGS = {
    "sigmoid": {}, "tanh": {}, "silu": {}, "leaky_relu": {"slope": -0.3},
    "elu": {"alpha": 1.7, "scale": 1.1, "input_scale": 0.6}, "softplus": {"beta": 2.0, "threshold": 4.0}, "mish": {},
    "log_sigmoid": {}, "hardtanh": {"low": -0.5, "high": 2.0}, "hardsigmoid": {}, "hardswish": {},
}  # fmt: skip
every = pytest.mark.parametrize("name", SETTINGS)


def portable(name: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The activation of x in float64, what its gradient's kernel is given beside g, and the slope."""
    promoted = tdt.tensor(x.astype(np.float64), requires_grad=True)
    with np.errstate(all="ignore"):
        out = OPS[name](promoted, **SETTINGS[name])
        (slope,) = tdt.autograd.grad(out, promoted, tdt.ones_like(out), create_graph=True)  # the rule on tensors
    value = out.detach().numpy()
    return value, value if name in ("sigmoid", "tanh") else x, slope.detach().numpy()


def values(size: int) -> np.ndarray:
    return np.random.default_rng(size).normal(0, 3, size).astype(np.float32)


def compare(name: str, x: np.ndarray, g: np.ndarray) -> None:
    value, saved, slope = portable(name, x)
    if name != "tanh":  # its forward is NumPy's
        found = getattr(activation_cpu, name)(x, **SETTINGS[name])
        np.testing.assert_allclose(found, value.astype(np.float32), rtol=1e-6, atol=1e-36)
    grad = getattr(activation_cpu, f"{name}_vjp")(g, saved.astype(np.float32), **SETTINGS[name])
    np.testing.assert_allclose(grad, g * slope, rtol=2e-6, atol=1e-6)


@every
@pytest.mark.parametrize("size", SIZES)
def test_values_and_gradients_at_sizes_off_every_vector_width(name, size):
    compare(name, values(size), values(size)[::-1].copy())


@every
@pytest.mark.parametrize("place", [0, 1, 17])  # in a vector's body and in its tail
def test_special_values(name, place):
    x = np.concatenate([np.full(place, 0.5), SPECIAL_VALUES]).astype(np.float32)
    compare(name, x, np.ones_like(x))


@every
def test_the_relative_error_near_0_and_far_from_it(name):
    size = np.float32(10) ** np.linspace(-38, 1.9, 20_001, dtype=np.float32)
    compare(name, np.concatenate([-size, size]), np.zeros(2 * size.size, np.float32))


@every
def test_bits_do_not_depend_on_the_number_of_threads(name):
    x, g, before, found = values(100_003), values(100_003)[::-1].copy(), _pool.get_num_threads(), []
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        arrays = [getattr(activation_cpu, f"{name}_vjp")(g, x, **SETTINGS[name])]
        if name != "tanh":
            arrays.append(getattr(activation_cpu, name)(x, **SETTINGS[name]))
        found.append(b"".join(a.tobytes() for a in arrays))
    _pool.set_num_threads(before)
    assert len(set(found)) == 1


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("name", [*SETTINGS, "gelu"])
def test_an_op_uses_its_kernels_for_large_arrays_that_lie_alike_and_else_the_portable_form(name, monkeypatch):
    attributes = {"approximate": "none"} if name == "gelu" else SETTINGS[name]
    value, slope = (f"{'gelu' if name == 'gelu' else 'activation'}_cpu:{name}{end}" for end in ("", "_vjp"))
    kernels_used = [path for path in (value, slope) if path in KERNELS]
    called = watch(monkeypatch, *kernels_used)
    flat = values(4 * LARGE_ACTIVATION)
    last = to_front(np.ascontiguousarray(to_last(flat.reshape(2, 2, 2, -1))))
    fits = {"contiguous": flat, "channels-last": last if name != "gelu" else flat}
    other = {"strided": flat[::2], "wide": flat.astype(np.float64), "small": flat[:1000]}
    for kind, x in (fits | other).items():
        called.clear()
        found = []
        for kernels in (True, False):
            with tdt.backends.kernels(kernels):
                leaf = tdt.from_numpy(x).detach().requires_grad_()
                out = OPS[name](leaf, **attributes)
                out.backward(out.detach())
                found += [out.detach().numpy(), leaf.grad.numpy()]
        # Of a strided x these two keep the result, which is not.
        again = [slope] if kind == "strided" and name in ("sigmoid", "tanh") else []
        assert called == (kernels_used if kind in fits else again), kind
        for fast, reference in zip(found[:2], found[2:], strict=True):
            np.testing.assert_allclose(fast, reference, rtol=5e-6, atol=5e-6)
            assert fast.strides == reference.strides


@pytest.mark.parametrize("size", [*SIZES, 100_003])
def test_losses_of_logits_and_their_slopes_are_the_portable_ones(size):
    x, y = (
        np.resize(np.concatenate([values(size), SPECIAL_VALUES]).astype(np.float32), size),
        np.abs(values(size)[::-1]) / 10,
    )
    x[: min(size, len(SPECIAL_VALUES))] = SPECIAL_VALUES[:size]
    y[::5] = 1 - y[::5] / 1000
    promoted = x.astype(np.float64)
    with np.errstate(all="ignore"):
        loss = _binary_cross_entropy_with_logits.forward(np, promoted, y.astype(np.float64))
        slope = 1 / (1 + np.exp(-promoted)) - y
    before, found = _pool.get_num_threads(), []
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        found.append((activation_cpu.logits_losses(x, y), activation_cpu.logits_slopes(x, y)))
        assert [a.tobytes() for a in found[0]] == [a.tobytes() for a in found[-1]]
    _pool.set_num_threads(before)
    np.testing.assert_allclose(found[0][0], loss.astype(np.float32), rtol=1e-6, atol=1e-36)
    np.testing.assert_allclose(found[0][1], slope, rtol=2e-6, atol=1e-6)
