"""Softmax kernels beside the portable forms in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import KERNELS, _pool, softmax_cpu
from tdt._kernels._threads import PARALLEL, THREADS
from tdt.nn import functional as F
from tests._kernels.watch import watch

SHAPES = [(1, 1), (3, 2), (5, 7), (2, 15), (1, 16), (70, 17), (9, 31), (33, 127), (3, 1000), (2, 5003), (3, 5, 67)]
NAMES = ["softmax", "log_softmax"]


def share_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two threads share arrays of any size."""
    monkeypatch.setattr(THREADS, "count", 2)
    monkeypatch.setattr(THREADS, "elementwise", 0)


def logits(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, shape).astype(np.float32)


def portable(name: str, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        promoted = x.astype(np.float64)
        logs = promoted - promoted.max(axis=-1, keepdims=True)
        logs = logs - np.log(np.exp(logs).sum(axis=-1, keepdims=True))
        return logs if name == "log_softmax" else np.exp(logs)


def portable_gradient(name: str, g: np.ndarray, out: np.ndarray) -> np.ndarray:
    g, out = g.astype(np.float64), out.astype(np.float64)
    if name == "softmax":
        return out * (g - (g * out).sum(axis=-1, keepdims=True))
    return g - np.exp(out) * g.sum(axis=-1, keepdims=True)


def compare(name: str, x: np.ndarray) -> None:
    out = getattr(softmax_cpu, name)(x, dim=x.ndim - 1)
    np.testing.assert_allclose(out, portable(name, x), rtol=4e-6, atol=1e-37 if name == "softmax" else 4e-6)
    g = logits(x.shape, 1)
    grad = getattr(softmax_cpu, f"{name}_vjp")(g, out, dim=x.ndim - 1)
    np.testing.assert_allclose(grad, portable_gradient(name, g, out), rtol=1e-5, atol=1e-6 * x.shape[-1] ** 0.5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients_at_sizes_off_every_vector_width(name, shape):
    compare(name, logits(shape))


@pytest.mark.parametrize("name", NAMES)
def test_a_large_offset_costs_no_accuracy(name):
    x = np.round(logits((7, 100)) * 64) / 64
    np.testing.assert_array_equal(*(getattr(softmax_cpu, name)(x + np.float32(k), dim=1) for k in (0, 2**17)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("column", [0, 16, 36])  # in a vector's body and in its tail
def test_special_values(name, column):
    torch = pytest.importorskip("torch")
    x = logits((12, 37))
    special_values = [np.nan, -np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, -0.0, -100.0, 100.0]
    x[: len(special_values), column] = special_values
    x[10], x[11] = -np.inf, np.where(np.arange(37) == column, 0, -np.inf)
    out = getattr(softmax_cpu, name)(x, dim=1)
    expected = getattr(torch, name)(torch.from_numpy(x), 1).numpy()
    np.testing.assert_allclose(
        out, expected, rtol=4e-6, atol=1e-37 if name == "softmax" else 5e-7
    )  # both round the sum


def test_bits_do_not_depend_on_the_number_of_threads():
    x, g = logits((1003, 101)), logits((1003, 101), 1)
    before, found = _pool.get_num_threads(), []
    for threads in (1, 2, 3):
        _pool.set_num_threads(threads)
        arrays = []
        for name in NAMES:
            arrays.append(getattr(softmax_cpu, name)(x, dim=1))
            arrays.append(getattr(softmax_cpu, f"{name}_vjp")(g, arrays[-1], dim=1))
        found.append(b"".join(a.tobytes() for a in arrays))
    _pool.set_num_threads(before)
    assert len(set(found)) == 1


@pytest.fixture
def called(monkeypatch):
    """The kernels that ran."""
    monkeypatch.setattr(THREADS, "count", 2)  # one thread takes the short way whatever the size
    monkeypatch.setattr(THREADS, "rows", PARALLEL)
    return watch(monkeypatch, *[path for path in KERNELS if "softmax_cpu:" in path])


def both_ways(function, x: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Value and gradient with kernels, and without."""
    found = []
    for kernels in (True, False):
        with tdt.backends.kernels(kernels):
            leaf = tdt.from_numpy(x).detach().requires_grad_()
            out = function(leaf)
            (out * out).sum().backward()
            found.append([out.detach().numpy(), leaf.grad.numpy()])
    return tuple(found)


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("name", NAMES)
def test_the_ops_use_the_kernels_for_rows_of_any_size_and_layout(name, called):
    large = logits((3, 64, 200))
    for kind, x, dim in (("large", large, 2), ("one row", large.reshape(-1), 0), ("another dim", large, 1),
                         ("small", large[0, :2, :5], 1), ("strided", large.swapaxes(0, 1), 2),
                         ("float64", large.astype(np.float64), 2)):  # fmt: skip
        called.clear()
        fast, reference = both_ways(lambda leaf, d=dim: getattr(F, name)(leaf, d), x)
        module = "column_softmax_cpu" if kind == "another dim" else "softmax_cpu"
        assert called == ([] if kind == "float64" else [f"{module}:{name}", f"{module}:{name}_vjp"]), kind
        for found, expected in zip(fast, reference, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
            assert found.strides == expected.strides


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("name", NAMES)
def test_the_short_way_of_small_tensors_is_recorded_and_has_the_same_bits(name):
    x, g = logits((3, 4, 9)), logits((3, 4, 9), 1)
    for _ in range(2):  # the first call makes the plan
        leaf = tdt.tensor(x, requires_grad=True)
        out = getattr(F, name)(leaf, -1)
        out.backward(tdt.tensor(g))
        expected = getattr(softmax_cpu, name)(x, dim=2)
        np.testing.assert_array_equal(out.detach().numpy(), expected)
        np.testing.assert_array_equal(leaf.grad.numpy(), getattr(softmax_cpu, f"{name}_vjp")(g, expected, dim=2))
    with pytest.raises(IndexError, match="Dimension out of range"):
        getattr(F, name)(leaf, 3)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_has_the_same_bits_in_every_array(name, monkeypatch):
    """By one call of NumPy's, in blocks for threads, strided, and with other rows beside it."""
    rows = logits((400, 101))
    alone = np.concatenate([getattr(softmax_cpu, name)(row[None], dim=1) for row in rows])
    strided = getattr(softmax_cpu, name)(np.asfortranarray(rows), dim=1)
    share_all(monkeypatch)
    for found in (strided, getattr(softmax_cpu, name)(rows, dim=1)):
        np.testing.assert_array_equal(found, alone)
