"""Functions decorated with `takes`: calls that are repeated have the results and errors of the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import Found
from tdt._ops.linalg import products
from tdt._ops.reduce import order
from tdt._ops.shape import join
from tdt.autograd import _dispatch
from tdt.autograd._fast_path import FastPath

CALLS = 4  # the first makes the op's plan, the second finds the path, the third takes it


@pytest.mark.parametrize("kernels", [True, False])
def test_repeated_calls_give_the_same_values(kernels):
    x = tdt.tensor([[1.0, 5.0, 3.0], [4.0, 2.0, 6.0]])
    with tdt.backends.kernels(kernels):
        for _ in range(CALLS):
            assert x.sum().item() == 21
            assert x.sum(1).tolist() == x.sum(dim=1).tolist() == x.sum(axis=1).tolist() == [9, 12]
            assert x.sum((0, 1), True).shape == (1, 1)
            assert tdt.trace(x).item() == 3
            assert x.max().item() == 6
            values, indices = x.max(1)
            assert (values.tolist(), indices.tolist()) == ([5, 6], [1, 2])
            assert x.median(dim=0).values.tolist() == [1, 2, 3]
            assert x.topk(2).indices.tolist() == [[1, 2], [2, 0]]
            assert x.cumsum(0).tolist() == [[1, 5, 3], [5, 7, 9]]


def test_calls_that_equal_a_repeated_one_but_are_of_other_types_go_their_own_way():
    x = tdt.ones(2, 3)
    for _ in range(CALLS):
        assert x.sum(1).shape == (2,)
        assert x.var(1).shape == (2,)
        assert x.sum((1,), True).shape == (2, 1)
    for dim in (1.0, "dim"):
        with pytest.raises(TypeError):
            x.sum(dim)
    for _ in range(CALLS):
        assert x.sum(dim=0).shape == (3,)
    with pytest.raises(TypeError):
        x.sum("dim", 0)
    assert x.var(True).shape == ()  # a bool is taken as `unbiased`
    assert x.sum([1]).shape == (2,)


def test_repeated_calls_are_recorded_and_follow_writes_to_a_views_base():
    base = tdt.tensor([[1.0, 2.0], [3.0, 4.0]])
    for _ in range(CALLS):
        assert base.max().item() == 4
    x = base.clone().requires_grad_()
    largest = x.max()
    assert largest.grad_fn.name() == "MaxBackward1"
    largest.backward()
    assert x.grad.tolist() == [[0, 0], [0, 1]]
    moved = x * 1
    row = moved[0]
    moved.mul_(3)
    row.sum().backward()
    assert x.grad.tolist() == [[3, 3], [0, 1]]
    with tdt.inference_mode():
        assert base.max().is_inference()
    half = base.bfloat16()
    assert [half.prod().dtype for _ in range(CALLS)] == [tdt.bfloat16] * CALLS
    with tdt.autocast("cpu", tdt.bfloat16):
        assert half.prod().dtype is tdt.float32


def test_results_lie_in_memory_of_their_own():
    x = tdt.ones(1, 4)
    results = [x.cumsum(1) for _ in range(CALLS)]
    results[-1].zero_()
    assert [r.sum().item() for r in results] == [10] * (CALLS - 1) + [0]
    assert x.sum().item() == 4


class Forgetting(dict):
    """What is saved is cleared at once."""

    def __setitem__(self, *item: object) -> None:
        pass


class ForgettingFound(Forgetting, Found):
    """Functions are found anew for every call."""


class Off(dict):
    """Another thread, which has switched kernels off, saves that there is no short way."""

    def __setitem__(self, key: object, found: Any) -> None:
        super().__setitem__(key, (None, *found[1:]))


@pytest.mark.parametrize("kind", [Forgetting, Off])
def test_another_thread_may_change_what_is_saved(kind, monkeypatch):
    monkeypatch.setattr(products._short_trace, "saved", kind())
    monkeypatch.setattr(join, "_join", ForgettingFound(join._join.find))
    x = tdt.ones(3, 47 if kind is Off else 49)
    for _ in range(CALLS):
        assert tdt.trace(x) == 3
        assert tdt.stack([x, x]).shape == (2, *x.shape)
        assert x.t()._base is x


IN_INFERENCE_MODE = [
    "x * 2", "x + x", "-x", "x.exp()", "x.clamp(0.1, 0.5)", "x @ x", "x.sum()", "x.max(0).values", "x.mean(1)",
    "x.sort(1).indices", "x.softmax(1)", "x.view(4)", "x.t().reshape(4)", "x.t().contiguous()", "x[0]", "x[:, [1, 0]]",
    "x[x > 0.3]", "x[i, 0]", "x.chunk(2)[1]", "lib.cat([x, x])", "lib.stack((x, x))", "F.linear(x, x)",
    "F.layer_norm(x, (2,))", "F.embedding(i, x)", "F.gelu(x)", "lib.topk(x, 1).values", "x.clone().add_(1)",
    "lib.where(x > 0.3, x, 0.0)", "x.masked_fill(x > 0.3, 0)", "x.expand(2, 2, 2)", "x.to(lib.float64)",
    "F.conv1d(x[None], x[None])", "F.scaled_dot_product_attention(x, x, x)", "F.relu_(x * 1)",
    "lib.zeros(3)", "lib.full((2,), 1.0)", "lib.linspace(0, 1, 5)", "x.nonzero()", "lib.nonzero(x, as_tuple=True)[1]", "x[i]",
    "x[0] @ x[1]", "x.mv(x[0])", "x[0].dot(x[1])", "lib.addmm(x, x, x)", "lib.inner(x, x)", "lib.linalg.lu(x).L", "x.diff()",
    "lib.linalg.cross(lib.cat((x, x[:1])), lib.cat((x[:1], x)), dim=0)", "lib.cdist(x, x)", "lib.diag(x)", "x.int()",
    "F.batch_norm(x, x[0], x[1])", "F.group_norm(x[None], 2)", "F.normalize(x)", "F.avg_pool1d(x[None], 2)",
    "F.max_pool1d(x[None], 2)", "F.conv1d(x[None], x[None], lib.ones(1))", "lib.trapezoid(x)", "lib.t_copy(x)",
    "lib.slice_scatter(x, x[:1], 0, 0, 1)", "x.clone().triu_()", "x.clone().index_add_(0, i, x)", "lib.from_numpy(x.numpy())",
    "lib.exp(x, out=lib.empty(2, 2))", "lib.sort(x, out=(lib.empty(2, 2), lib.empty(2, 2, dtype=lib.int64)))[1]",
]  # fmt: skip


@pytest.mark.parametrize("call", IN_INFERENCE_MODE)
def test_what_is_computed_in_inference_mode_is_marked_at_first_and_later(call):
    torch = pytest.importorskip("torch")

    def outcome(lib):
        names = {
            "lib": lib,
            "F": lib.nn.functional,
            "x": lib.tensor([[0.25, 0.5], [0.125, 1.0]]),
            "i": lib.tensor([1, 0]),
        }
        code = compile(call, call, "eval")
        eval(code, names)  # some functions take a short way after a call in normal mode only
        found = []
        with lib.inference_mode():
            for _ in range(3):
                y = eval(code, names)
                found.append((y.is_inference(), y.requires_grad, [round(v, 4) for v in y.flatten().tolist()]))
            names["x"] = names["x"] * 1
            y = eval(code, names)
            y = y.clone().mul_(2)  # inference tensors are written to
            found.append((y.is_inference(), [round(v, 4) for v in y.flatten().tolist()]))
        return found

    assert outcome(tdt) == outcome(torch)


@pytest.mark.parametrize("call", [
    "tdt.rand(3)", "tdt.randn(2, 2)", "tdt.randint(9, (4,))", "tdt.randperm(5)", "tdt.multinomial(x, 2)", "tdt.rand_like(x)",
])  # fmt: skip
def test_what_is_drawn_in_inference_mode_is_marked_and_has_the_usual_values(call):
    names = {"tdt": tdt, "x": tdt.tensor([0.25, 0.5, 0.125])}
    found = []
    for mode in (tdt.no_grad, tdt.inference_mode):
        tdt.manual_seed(3)
        with mode():
            drawn = [eval(call, names) for _ in range(CALLS)]
        assert {x.is_inference() for x in drawn} == {mode is tdt.inference_mode}
        found.append([x.tolist() for x in drawn])
    assert found[0] == found[1]


def test_short_ways_in_inference_mode_leave_other_modes_as_they_are():
    w, target = tdt.ones(2, 2, requires_grad=True), tdt.zeros(2, 2)
    with tdt.inference_mode():
        for _ in range(CALLS):
            with tdt.enable_grad():
                assert not (w @ w).requires_grad
            assert tdt.exp(target, out=target) is target  # a tensor from outside
        inside = tdt.zeros(2, 2)
        version = target._version
        assert tdt.triu(inside, out=target) is target
        assert target._version > version
    assert not target.is_inference()
    assert (w @ w).requires_grad
    for _ in range(CALLS):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            inside.triu_()
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            tdt.exp(target, out=inside)


def calls_of_ops(monkeypatch: pytest.MonkeyPatch, call: Any) -> int:
    """How many ops a call in inference mode runs by the general way, once it has been called before."""
    counted = []
    with tdt.inference_mode():
        for _ in range(CALLS):
            call()
        monkeypatch.setattr(_dispatch, "_by_plan", lambda *args: counted.append(args) or by_plan(*args))
        call()
    return len(counted)


by_plan = _dispatch._by_plan


@pytest.mark.parametrize("kernels", [True, False])
def test_indexing_in_inference_mode_takes_the_short_way(kernels, monkeypatch):
    x, i = tdt.rand(4, 4), tdt.tensor([1, 2])
    with tdt.backends.kernels(kernels):
        for key in (i, x > 0.5, (i, i), (slice(None), i)):
            assert calls_of_ops(monkeypatch, lambda key=key: x[key]) == 0


FOLDS = ["sum", "mean", "prod", "amax", "amin", "logsumexp", "var", "all", "nansum", "count_nonzero", "norm"]
ALONG = ["softmax", "log_softmax", "cumsum", "cumprod", "max", "min", "median", "mode", "argmax", "sort"]


@pytest.mark.parametrize("name", [*FOLDS, *ALONG])
@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (2, 0, 1)])
def test_repeated_calls_on_dimensions_in_another_order_of_memory_give_the_first_ones_bits(name, order):
    x = tdt.arange(60.0).reshape(3, 4, 5).sin().permute(order)
    for dims in (0, 1, -1, None, (0, 2)):
        if name in ("prod", *ALONG) and dims.__class__ is tuple:
            continue
        if name in ALONG and dims is None and not name.startswith(("max", "min")):
            continue
        for part in (x, x[..., :1], x[1:], x[0]):
            if part.ndim < 3 and dims.__class__ is tuple:
                continue
            dim = dims if dims is None or dims.__class__ is tuple else dims % part.ndim
            arguments: dict[str, Any] = {} if dim is None else {"dim": dim}
            if name == "logsumexp" and dim is None:
                continue
            results = []
            for _ in range(2 * CALLS):
                found = getattr(part, name)(**arguments)
                found = found if isinstance(found, tuple) else (found,)
                results.append([(y.numpy().tobytes(), y.shape, _steps(y)) for y in found])
            assert all(result == results[0] for result in results)


def _steps(y: tdt.Tensor) -> list[int]:
    """The strides of the dimensions that have several elements."""
    return [step for step, n in zip(y.stride(), y.shape, strict=True) if n > 1]


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("value", [2.5, -0.0, float("nan"), float("-inf"), 3, True])
def test_repeated_calls_on_one_element_without_dimensions_give_the_first_ones_bits(name, value):
    x = tdt.tensor(value)
    if not x.is_floating_point() and name in ("mean", "logsumexp", "var", "norm"):
        return
    arguments: list[dict[str, Any]] = [{"dim": 0}, {"dim": -1}] if name == "logsumexp" else [{}, {"dim": 0}]
    for each in arguments:
        for recorded in {False, x.is_floating_point()}:
            y = x.clone().requires_grad_(recorded)
            results = []
            for _ in range(2 * CALLS):
                found = getattr(y, name)(**each)
                assert found.shape == ()
                node = found.grad_fn and found.grad_fn.name()
                slope = tdt.autograd.grad(found, y)[0].numpy().tobytes() if found.requires_grad else None
                results.append((found.dtype, found.detach().numpy().tobytes(), node, slope))
            assert all(result == results[0] for result in results)


@pytest.mark.parametrize("name", ["max", "min"])
def test_kernels_for_gpus_alone_leave_the_short_way_to_numpys_arrays(name):
    op = order._EXTREME_PATHS[name].op
    getattr(tdt.ones(2, 3), name)(1)
    assert op.plans[(np.dtype(np.float32),)].direct


def test_two_short_ways_of_which_another_thread_has_forgotten_one(monkeypatch):
    x = tdt.rand(3, 4)
    for _ in range(CALLS):
        tdt.aminmax(x)
    _kernels.forget()
    lost, call = [], FastPath.__call__

    def called(path, *args):
        found = call(path, *args)
        lost.append(path.saved.pop((x._a.dtype, x.shape, *args[1:]), None))
        return found

    monkeypatch.setattr(FastPath, "__call__", called)
    for _ in range(CALLS):
        found = tdt.aminmax(x)
        assert found.min == x.numpy().min() and found.max == x.numpy().max()
    assert any(lost)
