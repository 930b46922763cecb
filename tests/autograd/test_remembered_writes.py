"""Calls in place and with `out=` of functions whose calls are remembered do what the first one did, and what PyTorch does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

RNG = np.random.default_rng(5)
X, Y = (RNG.standard_normal((9, 7)).astype(np.float32) for _ in range(2))
PLACES, ROWS = RNG.integers(0, 7, (9, 7)), RNG.permutation(9)
IN_PLACE: dict[str, Callable[[Any, Any, Any, Any, Any], Any]] = {  # library, x, y, places, rows
    "tril": lambda t, x, y, p, r: x.tril_(),
    "triu": lambda t, x, y, p, r: x.triu_(diagonal=-1),
    "round": lambda t, x, y, p, r: x.round_(),
    "round to decimals": lambda t, x, y, p, r: x.round_(decimals=1),
    "scatter": lambda t, x, y, p, r: x.scatter_(1, p, y),
    "scatter of a number": lambda t, x, y, p, r: x.scatter_(1, p, value=-0.0),
    "scatter by addition": lambda t, x, y, p, r: x.scatter_(1, p, y, reduce="add"),
    "scatter_add": lambda t, x, y, p, r: x.scatter_add_(1, p, y),
    "scatter of itself": lambda t, x, y, p, r: x.scatter_(1, p, x.clone()),
    "index_fill": lambda t, x, y, p, r: x.index_fill_(0, r[:4], 0.5),
    "index_copy": lambda t, x, y, p, r: x.index_copy_(0, r, y),
    "index_add": lambda t, x, y, p, r: x.index_add_(0, r, y, alpha=2),
    "index_put": lambda t, x, y, p, r: x.index_put_((r,), y),
    "index_put by addition": lambda t, x, y, p, r: x.index_put_((r, r % 7), y[:, 0], True),
    "index_put by a mask": lambda t, x, y, p, r: x.index_put_((x > 0,), y[0, 0]),
}
OUT: dict[str, Callable[[Any, Any, Any, Any], Any]] = {  # library, x, y, out
    "round": lambda t, x, y, out: t.round(x, out=out),
    "tril": lambda t, x, y, out: t.tril(x, -1, out=out),
    "softmax": lambda t, x, y, out: t.softmax(x, 1, out=out) if t is tdt else out.copy_(t.softmax(x, 1)),
    "scatter": lambda t, x, y, out: t.scatter(x, 1, t.from_numpy(PLACES), y, out=out),
    "sum": lambda t, x, y, out: t.sum(x, 1, keepdim=True, out=out[:, :1]),
    "matmul": lambda t, x, y, out: t.matmul(x, y[:7, :7].contiguous(), out=out),
    "aminmax": lambda t, x, y, out: t.aminmax(x, dim=1, keepdim=True, out=(out[:, :1].clone(), out[:, 1:2].clone())),
}


def _in_place(t: Any, name: str, x: np.ndarray, layout: str = "") -> Any:
    tensor = t.from_numpy(x.copy())
    if layout == "turned":
        tensor = t.from_numpy(x.T.copy()).t()
    elif layout == "part":
        tensor = t.from_numpy(np.concatenate([x, x])[2:11].copy())[:9]
    found = IN_PLACE[name](t, tensor, t.from_numpy(Y.copy()), t.from_numpy(PLACES.copy()), t.from_numpy(ROWS.copy()))
    assert found is tensor
    return tensor


@pytest.mark.parametrize("name", IN_PLACE)
def test_later_calls_in_place_write_what_pytorch_writes(name: str) -> None:
    for layout in ("", "", "", "turned", "part", ""):
        for x in (X, np.where(X > 1, np.nan, X)):
            ours, theirs = (_in_place(t, name, x, layout).numpy() for t in (tdt, require_torch()))
            np.testing.assert_array_equal(ours, theirs)
            np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))


@pytest.mark.parametrize(
    "name", [name for name in IN_PLACE if name != "scatter by addition"]
)  # has no gradient in PyTorch
def test_later_calls_in_place_are_recorded_and_counted(name: str) -> None:
    for _ in range(3):
        _in_place(tdt, name, X)
    grads = []
    for t in (tdt, require_torch()):
        leaf = t.from_numpy(X.copy()).requires_grad_()
        x = leaf * 1
        before = x._version
        IN_PLACE[name](t, x, t.from_numpy(Y.copy()), t.from_numpy(PLACES.copy()), t.from_numpy(ROWS.copy()))
        assert x._version > before
        x.sum().backward()
        grads.append(leaf.grad.numpy())
    np.testing.assert_allclose(*grads, rtol=1e-6)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        IN_PLACE[name](tdt, tdt.from_numpy(X.copy()).requires_grad_(), *map(tdt.from_numpy, (Y, PLACES, ROWS)))
    plain = tdt.from_numpy(X.copy())
    version = plain._version
    IN_PLACE[name](tdt, plain, *map(tdt.from_numpy, (Y.copy(), PLACES, ROWS)))
    assert plain._version > version


@pytest.mark.parametrize("name", OUT)
def test_later_calls_into_out_write_what_the_function_gives(name: str) -> None:
    results = []
    for t in (tdt, tdt, tdt, require_torch()):
        x, y, out = (t.from_numpy(a.copy()) for a in (X, Y, Y))
        found = OUT[name](t, x, y, out)
        results.append([each.numpy() for each in (found if isinstance(found, tuple) else (found, out))])
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-6)


def test_out_that_is_an_argument_or_of_another_kind_takes_the_general_way() -> None:
    for _ in range(3):
        x = tdt.from_numpy(X.copy())
        expected = tdt.round(x).clone()
        assert tdt.equal(tdt.round(x, out=x), expected)
        assert tdt.round(tdt.from_numpy(X), out=tdt.zeros(9, 7, dtype=tdt.float64).float()).dtype is tdt.float32
        with pytest.raises(RuntimeError, match="expected"):
            tdt.round(tdt.from_numpy(X), out=tdt.zeros(9, 7, dtype=tdt.float64))
        with pytest.raises(RuntimeError, match="automatic differentiation"):
            tdt.round(tdt.from_numpy(X), out=tdt.zeros(9, 7, requires_grad=True))
        with pytest.raises(TypeError, match="out"):
            tdt.from_numpy(X.copy()).round_(out=None)


@pytest.mark.parametrize("place", [-8, 7, 1 << 40])
def test_a_later_call_with_an_index_out_of_range_writes_nothing(place: int) -> None:
    y, good = tdt.from_numpy(Y), tdt.from_numpy(PLACES)
    bad = good.clone()
    bad[4, 3] = place
    for name in ("scatter_", "scatter_add_"):
        x = tdt.from_numpy(X.copy())
        for _ in range(3):
            getattr(x, name)(1, good, y)
        x = tdt.from_numpy(X.copy())
        version = x._version
        with pytest.raises(RuntimeError, match=f"index {place} is out of bounds"):
            getattr(x, name)(1, bad, y)
        np.testing.assert_array_equal(x.numpy(), X)
        assert x._version == version
        with pytest.raises(RuntimeError, match="out of bounds"):
            tdt.gather(x, 1, bad)


def test_positive_and_negative_zeros_are_other_calls_of_creation() -> None:
    for _ in range(3):
        for value in (0.0, -0.0, 0, False):
            assert np.signbit(tdt.full((2,), value).numpy().astype(float)).all() == np.signbit(
                float(value) if value.__class__ is float else 0.0
            )
            assert tdt.full((2,), value).dtype is {float: tdt.float32, int: tdt.int64, bool: tdt.bool}[value.__class__]
        with pytest.raises(TypeError, match="full"):
            tdt.full((2,))  # type: ignore[call-arg]
    with tdt.device("meta"):
        assert tdt.full((2,), 0.0).is_meta
        assert tdt.linspace(0, 1, 3).is_meta
    with tdt.inference_mode():
        assert tdt.full((2,), 0.0).is_inference()


@pytest.mark.parametrize("write", ["tril_", "scatter_", "index_fill_"])
def test_a_view_of_a_leaf_is_refused(write):
    x, index = tdt.rand(2, 2, requires_grad=True), tdt.tensor([0])
    arguments = {"tril_": (), "scatter_": (0, index[None], 1.0), "index_fill_": (0, index, 1.0)}[write]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            getattr(x[:], write)(*arguments)
    assert x._version == 0
