"""`out=`: results, resized targets and errors as PyTorch's, for operands that broadcast and for functions with a short way."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

PAIRS = [
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "atan2",
    "pow",
    "hypot",
    "copysign",
    "fmod",
    "eq",
    "lt",
    "floor_divide",
    "xlogy",
]
SHAPES = [((5, 1), (1, 7)), ((5, 7), (7,)), ((7,), (5, 7)), ((1,), (5, 7)), ((), (5, 7)), ((300, 1), (1, 400)),
          ((2, 3, 1), (1, 3, 50)), ((1, 3), (1, 3))]  # fmt: skip


def outcome(call: Callable[[], Any]) -> Any:
    """The values and shape of a result, or the class of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call().numpy().copy()
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            return type(error)


def assert_same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours is theirs
    else:
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_operands_that_broadcast_are_computed_into_targets_of_any_shape(name: str, shapes: tuple):
    torch = require_torch()
    rng = np.random.default_rng(0)
    a, b = (np.asarray(rng.uniform(0.1, 1.1, shape), np.float32) for shape in shapes)
    shape = np.broadcast_shapes(*shapes)
    for target in (shape, (0,), (5, *shape), shape[:-1]):
        results = [
            outcome(lambda lib=lib: getattr(lib, name)(
                lib.tensor(a), lib.tensor(b), out=lib.empty(target, dtype=lib.bool if name in ("eq", "lt") else lib.float32)
            )) for lib in (tdt, torch)
        ]  # fmt: skip
        assert_same(*results)


CALLS: dict[str, Callable[..., Any]] = {
    "sum": lambda lib, x, i, out: lib.sum(x, 1, out=out),
    "mean": lambda lib, x, i, out: lib.mean(x, (0, 1), out=out),
    "amax": lambda lib, x, i, out: lib.amax(x, 0, keepdim=True, out=out),
    "cumsum": lambda lib, x, i, out: lib.cumsum(x, 1, out=out),
    "tril": lambda lib, x, i, out: lib.tril(x, out=out),
    "clamp": lambda lib, x, i, out: lib.clamp(x, 0.2, 0.7, out=out),
    "where": lambda lib, x, i, out: lib.where(x > 0.5, x, -x, out=out),
    "gather": lambda lib, x, i, out: lib.gather(x, 1, i, out=out),
    "index_select": lambda lib, x, i, out: lib.index_select(x, 0, i[0], out=out),
    "addcmul": lambda lib, x, i, out: lib.addcmul(x, x, x, value=0.5, out=out),
    "round": lambda lib, x, i, out: lib.round(x, out=out),
    "cat": lambda lib, x, i, out: lib.cat([x, x], out=out),
    "softmax": lambda lib, x, i, out: lib.softmax(x, 1, out=out),
}


ELEMENTWISE = {"clamp", "where", "addcmul", "round"}
KINDS = ["fitting", "empty", "other shape", "int64", "float64", "transposed", "operand"]


@pytest.mark.parametrize(
    ("name", "target"), [(n, k) for n in CALLS for k in KINDS if k != "operand" or n in ELEMENTWISE or n == "gather"]
)
def test_small_results_are_written_to_targets_of_any_kind(name: str, target: str):
    torch = require_torch()
    values = np.random.default_rng(1).random((4, 4), np.float32)
    results = []
    for lib in (tdt, torch):
        x, i = lib.tensor(values), lib.tensor(np.tile(np.array([0, 3, 1, 2]), (4, 1)))
        shape = CALLS[name](lib, x, i, None).shape
        out = {
            "fitting": lambda lib=lib, shape=shape: lib.zeros(shape),
            "empty": lambda lib=lib: lib.empty(0),
            "other shape": lambda lib=lib: lib.zeros(2, 3, 5),
            "int64": lambda lib=lib, shape=shape: lib.zeros(shape, dtype=lib.int64),
            "float64": lambda lib=lib, shape=shape: lib.zeros(shape, dtype=lib.float64),
            "transposed": lambda lib=lib, shape=shape: (
                lib.zeros(*reversed(shape)).t() if len(shape) == 2 else lib.zeros(shape)
            ),
            "operand": lambda x=x: x,
        }[target]()
        for _ in range(3):  # the later calls go a shorter way
            version = out._version
            results.append(outcome(lambda lib=lib, x=x, i=i, out=out: CALLS[name](lib, x, i, out)))
            assert isinstance(results[-1], type) or out._version > version
            x.copy_(lib.tensor(values))
    for ours, theirs in zip(results[:3], results[3:], strict=True):
        assert_same(ours, theirs)


@pytest.mark.parametrize("name", sorted({*CALLS} - {"softmax"}))  # whose gradients PyTorch drops without a word
def test_targets_and_operands_that_need_gradients_are_refused(name: str):
    torch = require_torch()
    for needs in ("operand", "target"):
        classes = []
        for lib in (tdt, torch):
            x, i = lib.rand(4, 4), lib.tensor(np.tile(np.array([0, 3, 1, 2]), (4, 1)))
            out = lib.zeros(CALLS[name](lib, x, i, None).shape)
            CALLS[name](lib, x, i, out)
            (x if needs == "operand" else out).requires_grad_()
            classes.append(outcome(lambda lib=lib, x=x, i=i, out=out: CALLS[name](lib, x, i, out).detach()))
            with lib.no_grad():
                np.testing.assert_array_equal(
                    CALLS[name](lib, x, i, out).detach().numpy(), CALLS[name](lib, x, i, None).detach().numpy()
                )
        assert classes == [RuntimeError, RuntimeError]


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, x, mask: lib.addcmul(mask, x, x, out=x),
        lambda lib, x, mask: lib.addcdiv(mask, x + 1, x, out=x),
        lambda lib, x, mask: lib.special.legendre_polynomial_p(x, 2, out=x),
        lambda lib, x, mask: lib.special.shifted_chebyshev_polynomial_v(x, 1, out=x),
        lambda lib, x, mask: lib.lerp(x, x * 2, 0.25, out=x),
    ],
)
def test_a_result_written_over_an_operand_is_computed_once(call: Callable[..., Any]):
    torch = require_torch()
    results = []
    for lib in (tdt, torch):
        x, mask = lib.tensor([0.5, 2.0, -3.0]), lib.tensor([True, False, True])
        for _ in range(2):
            call(lib, x, mask)
            results.append(x.numpy().copy())
    np.testing.assert_allclose(results[:2], results[2:], rtol=1e-5)


@pytest.mark.parametrize("name", ["sum", "prod"])
@pytest.mark.parametrize("dtype", ["int64", "uint8", "float16", "float64"])
def test_sums_and_products_are_computed_in_the_dtype_of_the_target(name: str, dtype: str):
    torch = require_torch()
    results = [
        getattr(lib, name)(lib.tensor([[1.6, 2.5], [3.0, 1.0]]), 0, out=lib.zeros(2, dtype=getattr(lib, dtype))).numpy()
        for lib in (tdt, torch)
    ]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("name", ["round", "ceil", "floor", "trunc"])
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_integers_that_rounding_leaves_are_written_to_targets_with_gaps(name: str, dtype: str):
    x = (tdt.arange(400) % 10).view(20, 20).to(getattr(tdt, dtype))
    for _ in range(5):
        out = tdt.zeros(20, 40, dtype=x.dtype)[:, ::2]
        getattr(tdt, name)(x, out=out)
        assert out.equal(x)


@pytest.mark.parametrize("call", [lambda t, a, b: t.add(b, b, out=a), lambda t, a, b: t.neg(b, out=a),
                                  lambda t, a, b: t.clamp(b, 0, out=a)], ids=["add", "neg", "clamp"])  # fmt: skip
def test_a_target_that_overlaps_itself_is_refused_whatever_its_shape(call: Callable[..., Any]):
    for lib in (tdt, require_torch()):
        b = lib.arange(3.0)[None]
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single"):
            call(lib, b.expand(3, 3), b)


@pytest.mark.parametrize("write", [
    lambda a, b: a.__setitem__(..., b), lambda a, b: a[:, :2].__setitem__(..., b[:, :2]), lambda a, b: a.copy_(b.expand(3, 3)),
    lambda a, b: a.__setitem__(slice(1, 3), a[0:2]), lambda a, b: a.copy_(b), lambda a, b: a.__setitem__(..., b + 0),
])  # fmt: skip
def test_elements_that_share_memory_are_written_only_to_themselves(write: Callable[..., Any]):
    found = []
    for lib in (tdt, require_torch()):
        b = lib.arange(3.0)[None]
        a = b.expand(3, 3)
        try:
            write(a, b)
            found.append(a.tolist())
        except RuntimeError as error:
            found.append(str(error)[:60])
    assert found[0] == found[1]
