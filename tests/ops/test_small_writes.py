"""Short ways of small calls in place, into `out=` and of creation have the results of the long ones, which are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tests.helpers import require_torch

RNG = np.random.default_rng(0)
SQUARES = [(5, 5), (70, 80), (300, 200), (2, 300, 200), (3, 0), (0, 3), (1000, 3)]


def _equal(call: Any) -> None:
    theirs = call(require_torch())
    ours = call(tdt)
    assert str(ours.dtype).partition(".")[2] == str(theirs.dtype).partition(".")[2]
    np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())


@pytest.mark.parametrize("name", ["tril_", "triu_"])
@pytest.mark.parametrize("shape", SQUARES)
@pytest.mark.parametrize("kind", ["float32", "int64", "bool", "complex64"])
def test_triangles_in_place(name: str, shape: tuple[int, ...], kind: str) -> None:
    x = RNG.standard_normal(shape)
    for edge in (-400, -3, 0, 1, 5, 400):
        _equal(lambda t, k=edge: getattr(t.from_numpy(x.copy()).to(getattr(t, kind)), name)(k))
        _equal(lambda t, k=edge: getattr(t.from_numpy(x.copy()).transpose(-1, -2), name)(diagonal=k))


@pytest.mark.parametrize("name", ["tril_", "triu_"])
def test_large_triangles_in_place_have_gradients_and_keep_their_memory(name: str) -> None:
    x = tdt.ones(200, 300, requires_grad=True)
    y = x * 2
    before, version = y.data_ptr(), y._version
    getattr(y, name)()
    assert y.data_ptr() == before
    assert y._version > version
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), 2 * getattr(np, name[:-1])(np.ones((200, 300))))
    with pytest.raises(RuntimeError, match="leaf Variable"):
        getattr(x, name)()


@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7), (8, 2), (4, 4, 4), (3, 0), (0, 3)])
@pytest.mark.parametrize("wrap", [False, True])
def test_diagonals_are_filled(shape: tuple[int, ...], wrap: bool) -> None:
    for kind in ("float32", "float64", "int64", "uint8", "bool"):
        for value in (2, 2.5, True):
            _equal(lambda t, k=kind, v=value: t.ones(shape, dtype=getattr(t, k)).fill_diagonal_(v, wrap))


@pytest.mark.parametrize("places", [[0, 2], [-1, 1], [], [1, 1], [4]])
def test_entries_are_filled(places: list[int]) -> None:
    x = RNG.standard_normal((6, 5)).astype(np.float32)
    for dim in (0, 1, -1):
        _equal(lambda t, d=dim: t.from_numpy(x.copy()).index_fill_(d, t.tensor(places, dtype=t.int64), 7.0))
        _equal(lambda t, d=dim: t.from_numpy(x.copy()).index_fill(d, t.tensor(places, dtype=t.int64), t.tensor(3.0)))


@pytest.mark.parametrize("accumulate", [False, True])
def test_later_writes_at_pairs_of_integers_and_at_flat_places(accumulate: bool) -> None:
    x, i, j, y = np.zeros((6, 7, 3)), np.arange(40) % 6 - 6, np.arange(40) % 7, np.arange(40.0)
    for _ in range(6):
        _equal(lambda t: _from(t, x).index_put((_from(t, i), _from(t, j)), t.ones(40, 3).double(), accumulate))
        _equal(lambda t: _from(t, x).put_(_from(t, i + 7 * j), _from(t, y), accumulate))
    turned = [t.ones(3, 40).t().put(t.arange(4), t.zeros(4)).stride() for t in (tdt, require_torch())]
    assert turned[0] == turned[1]
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        _from(tdt, x).index_put((_from(tdt, i), _from(tdt, j + 1)), tdt.ones(40, 3).double(), accumulate)


def _from(t: Any, array: np.ndarray) -> Any:
    return t.from_numpy(array.copy())


def test_a_place_out_of_range_is_named_and_nothing_written() -> None:
    x = tdt.zeros(3)
    for bad in (3, -4):
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds for dimension 0 with size 3"):
            x.index_fill_(0, tdt.tensor([1, bad]), 1.0)
    assert not x.any()


def test_creation() -> None:
    for ends in ((5.0,), (0, 1, 0.125), (1, 2.5, 0.5), (5, 0, -1.0), (0.0,), (3, 1.0, -1), (10,), (0, 3000.0, 1)):
        for kind in (None, "float32", "float64"):
            _equal(lambda t, e=ends, k=kind: t.arange(*e, **({"dtype": getattr(t, k)} if k else {})))
    for sizes in ((3,), (0,), (4, 2), (2, 5), (3, 0)):
        for kind in ("float32", "int64", "bool"):
            _equal(lambda t, s=sizes, k=kind: t.eye(*s, dtype=getattr(t, k)))
    for value in (7, -3, 2.5, True, 2**62):
        _equal(lambda t, v=value: t.full((3, 4), v))
    for ends, kind in (((0, float("inf")), RuntimeError), ((0, 1, 0.0), RuntimeError), ((3, 1.0), RuntimeError)):
        with pytest.raises(kind):
            tdt.arange(*ends)


@pytest.mark.parametrize("steps", [2, 3, 8, 11, 1023, 1025, 2049, 5000, 8191, 20000])
@pytest.mark.parametrize("ends", [(0, 1), (-1.5, 7), (3, -2), (1, 1), (0.1, 3.3), (1e10, 0.3), (2**24 + 1, -1e-3)])
@pytest.mark.parametrize("recorded", [False, True])
def test_linspace_has_pytorchs_bits(steps: int, ends: tuple[float, float], recorded: bool) -> None:
    _equal(lambda lib: lib.linspace(*ends, steps, requires_grad=recorded))


@pytest.mark.parametrize("start", [1e39, -1e39])
def test_linspace_refuses_ends_that_its_type_cannot_hold(start: float) -> None:
    for steps in (1, 3):
        with pytest.raises(RuntimeError, match="float.* without overflow"):
            tdt.linspace(start, 0, steps)
    with pytest.raises(RuntimeError, match="int8.* without overflow"):
        tdt.linspace(0, start, 3, dtype=tdt.int8)
    assert tdt.linspace(start, 0, 0).shape == (0,)
    assert tdt.linspace(0, start, 1).item() == 0


def test_products_into_out() -> None:
    x, y = (tdt.randn(4, 4) for _ in range(2))
    expected = (x @ y).clone()
    out = tdt.zeros(4, 4)
    assert tdt.matmul(x, y, out=out) is out
    assert tdt.equal(out, expected)
    assert tdt.equal(tdt.matmul(x, y, out=x), expected)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        tdt.matmul(y.requires_grad_(), y, out=out)


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("shape", [(3, 16), (5, 100), (70, 301), (1, 5000)])
def test_running_extremes_of_rows(kind: str, shape: tuple[int, int]) -> None:
    x = RNG.standard_normal(shape) * 50
    rows = {"random": x, "rising": np.sort(x), "falling": -np.sort(-x), "ties": np.round(x / 40)}
    if kind[0] == "f":
        broken = x.copy()
        broken[RNG.random(shape) < 0.02] = np.nan
        broken[RNG.random(shape) < 0.1] = np.inf
        rows["not finite"] = broken
    for values in rows.values():
        array = (np.abs(values) if kind == "uint8" else values).astype(kind)
        for name in ("cummax", "cummin"):
            for place in (0, 1):
                _equal(lambda t, a=array, n=name, p=place: getattr(t, n)(t.from_numpy(a), 1)[p])


MIXED = ("bool", "uint8", "int32", "int64", "float16", "float32", "float64")


@pytest.mark.parametrize("left", MIXED)
@pytest.mark.parametrize("right", MIXED)
def test_operands_of_two_types(left: str, right: str) -> None:
    for shapes in (((4, 5), (4, 5)), ((4, 5), ()), ((), (4, 5)), ((4, 1), (5,)), ((), ()), ((0, 3), (3,))):
        x, y = (RNG.integers(1, 9, shape) for shape in shapes)

        def pair(t: Any, x: np.ndarray = np.asarray(x), y: np.ndarray = np.asarray(y)) -> tuple[Any, Any]:
            return t.from_numpy(x.copy()).to(getattr(t, left)), t.from_numpy(y.copy()).to(getattr(t, right))

        for how in ("__add__", "__mul__", "__eq__", "__lt__", "maximum"):
            for _ in range(2):  # the second call is a shorter one
                _equal(lambda t, n=how: getattr(pair(t)[0], n)(pair(t)[1]))


def test_operands_of_two_types_have_gradients() -> None:
    for _ in range(3):
        x, y = tdt.ones(3, requires_grad=True), tdt.full((3,), 2, dtype=tdt.float64, requires_grad=True)
        (x * y + x * tdt.tensor([1, 2, 3])).sum().backward()
        assert x.grad is not None
        assert y.grad is not None
        assert (x.grad.dtype, y.grad.dtype) == (tdt.float32, tdt.float64)
        assert x.grad.tolist() == [3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    "bounds", [{"min": 0}, {"max": 1}, {"min": -0.5}, {"min": -1, "max": 0.5}, {"min": 0.0}, {"min": -0.0}]
)
@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "float16"])
def test_repeated_clamps_with_one_bound(bounds: dict[str, float], kind: str) -> None:
    x = np.array([-2.0, -0.0, 0.0, 0.25, 3.0, np.inf, -np.inf, np.nan])[: 5 if kind == "int64" else None]
    if kind == "int64" and not all(isinstance(bound, int) for bound in bounds.values()):
        bounds = {"min": -1}

    def call(t: Any) -> Any:
        y = t.from_numpy(x).to(getattr(t, kind))
        results = [y.clone().clamp_(**bounds) for _ in range(4)]
        version = results[-1]._version
        results += [results[-1].clamp_(max=2).clamp_(**bounds)]
        assert results[-1]._version == version + 2
        return t.stack(results).double()

    _equal(call)
    if _kernels.enabled():  # NumPy's extremes of 0.0 and -0.0 are either
        np.testing.assert_array_equal(np.signbit(call(tdt).numpy()), np.signbit(call(require_torch()).numpy()))
