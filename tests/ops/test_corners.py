"""Corners of dtypes, sizes and arguments in which results are PyTorch's too, in the first calls and in later ones."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

import tdt
from tdt.autograd._node import RUNS
from tests.helpers import require_torch

torch = require_torch()
CALLS = 5  # of which the last ones are remembered
HALF = ["float16", "bfloat16"]
INF, NAN = math.inf, math.nan


def every_number(lib: Any, dtype: str, step: int = 7) -> Any:
    """Numbers of 16 bits of all sizes, without the largest, of which PyTorch's vectors have other remainders."""
    bits = np.arange(0, 1 << 16, step, dtype=np.uint16).view(np.int16)
    x = lib.from_numpy(bits).view(getattr(lib, dtype))
    return x[x.float().abs() < 1e30]


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(
    "function",
    [lambda x: x % 0.1, lambda x: x % -0.3, lambda x: x.fmod(0.1), lambda x: x.remainder(3), lambda x: x**0.3],
)
def test_remainders_and_powers_of_half_precision_take_numbers_rounded_to_it(function, dtype):
    expected = function(every_number(torch, dtype)).float()
    x = every_number(tdt, dtype)
    for found in [function(x) for _ in range(CALLS)]:
        np.testing.assert_array_equal(found.float().numpy(), expected.numpy())
    few = x[10:20].clone()
    for found in [function(few) for _ in range(CALLS)]:
        np.testing.assert_array_equal(found.float().numpy(), expected[10:20].numpy())


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("width", [0.1, 0.3, 1 / 3, 2.71828])
def test_softshrink_has_no_slope_at_a_rounded_limit(width, dtype):
    found = []
    for lib in (tdt, torch):
        for graph in [False] * CALLS + [True]:
            x = lib.tensor([width, -width, 2 * width], dtype=getattr(lib, dtype), requires_grad=True)
            y = lib.nn.functional.softshrink(x, width)
            (slope,) = lib.autograd.grad(y.sum(), x, create_graph=graph)
            found.append((y.tolist(), slope.tolist()))
    assert found.count(found[-1]) == len(found)


NATIVE = {
    "binary_cross_entropy_with_logits": 2, "cosine_embedding_loss": 3, "hinge_embedding_loss": 2, "kl_div": 2,
    "margin_ranking_loss": 3, "triplet_margin_loss": 3,
}  # fmt: skip


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("reduction", [None, 0, 1, 2, 3, -1])
def test_losses_of_tdt_itself_are_not_reduced_by_default(name, reduction):
    results = []
    for lib in (tdt, torch):
        x = lib.tensor([[0.1, 0.2], [0.3, 0.4]])
        tensors = (x, x + 0.3, lib.tensor([1.0, -1.0]) if name != "triplet_margin_loss" else 2 * x)[: NATIVE[name]]
        results.append(getattr(lib, name)(*tensors, **({} if reduction is None else {"reduction": reduction})))
    np.testing.assert_allclose(*(r.numpy() for r in results), rtol=1e-5, strict=True)
    with pytest.raises(TypeError, match="'reduction' .*must be int, not str"):
        getattr(tdt, name)(*[tdt.ones(2, 2)] * NATIVE[name], reduction="mean")


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_binary_losses_of_infinite_logits_are_pytorchs_for_any_target(reduction):
    pairs = list(itertools.product([INF, -INF, NAN, 0.5], [2.0, 1.5, 1.0, 0.5, 0.0, -1.0, INF, NAN]))
    for logit, target in pairs:
        results = []
        for lib in [torch] + [tdt] * CALLS:
            x, y = lib.tensor([logit]), lib.tensor([target])
            results.append(lib.nn.functional.binary_cross_entropy_with_logits(x, y, reduction=reduction).numpy())
        for result in results[1:]:
            np.testing.assert_allclose(result, results[0], rtol=1e-6)


@pytest.mark.parametrize("function", [lambda x, dim: x.topk(1, dim), lambda x, dim: x.mode(dim, True)])
def test_strides_of_dimensions_of_size_1_are_those_of_contiguous_results(function):
    for shape in [(1, 3), (1, 4, 1), (3, 1, 4)]:
        for order in itertools.permutations(range(len(shape))):
            back = [order.index(d) for d in range(len(shape))]
            for dim in range(len(shape)):
                strides = []
                for lib in [torch] + [tdt] * CALLS:
                    x = lib.arange(float(math.prod(shape))).reshape([shape[d] for d in order]).permute(back)
                    strides.append([each.stride() for each in function(x, dim)])
                assert strides.count(strides[0]) == len(strides), (shape, order, dim)


WRITES = [lambda x: x.add_(1), lambda x: x.zero_(), lambda x: x.uniform_(), lambda x: x.masked_fill_(x > 0, 1),
          lambda x: type(x).__setitem__(x, 0, 1.0), lambda x: x.copy_(x.clone()), lambda x: x.relu_()]  # fmt: skip
PARTS = [
    lambda x: x.detach()[1:],
    lambda x: x.detach().t(),
    lambda x: x.data.view(3, 2),
    lambda x: x.detach().unbind()[0],
]


@pytest.mark.parametrize("shape", [(4, 5, 7), (9, 5, 4, 4), (40, 50, 30)])
def test_selected_entries_lie_in_the_order_of_their_dimensions(shape):
    for dim in range(len(shape)):
        strides = []
        for lib in [torch] + [tdt] * CALLS:
            x = lib.ones(shape[::-1]).permute(*range(len(shape))[::-1])
            strides.append(x.index_select(dim, lib.tensor([1, 0, 1])).stride())
        assert len(set(strides)) == 1


@pytest.mark.parametrize("lib", [tdt, torch])
@pytest.mark.parametrize("write", [*WRITES, lambda x: x.resize_(2), lambda x: x.set_(x.clone())])
@pytest.mark.parametrize("part", PARTS)
def test_parts_of_tensors_detached_from_those_of_inference_mode_are_not_written_to(part, write, lib):
    with lib.inference_mode():
        x = lib.ones(2, 3)
    for _ in range(CALLS):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            write(part(x))
        with lib.no_grad(), pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            write(part(x))
    with lib.inference_mode():
        write(part(x))


@pytest.mark.parametrize("lib", [tdt, torch])
def test_out_of_parts_of_detached_inference_tensors_is_refused(lib):
    with lib.inference_mode():
        x = lib.ones(2, 3)
    for _ in range(CALLS):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            lib.add(lib.ones(1, 3), 1, out=x.detach()[1:])
    lib.add(lib.ones(2, 3), 1, out=x.detach())
    assert x.tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("shape", [(2, 3), (1, 6), (6, 1), (6,), (3,), (0,), (2, 0)])
def test_ranges_keep_the_shape_of_an_output_of_as_many_elements(shape):
    calls = {
        "arange": lambda lib, out: lib.arange(6, out=out),
        "range": lambda lib, out: lib.range(0, 5, out=out),
        "linspace": lambda lib, out: lib.linspace(0, 1, 6, out=out),
        "logspace": lambda lib, out: lib.logspace(0, 1, 6, out=out),
        "nothing": lambda lib, out: lib.arange(0, out=out),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call in calls.items():
            results = []
            for lib in (tdt, torch):
                for out in (lib.zeros(shape), lib.zeros(shape[::-1]).permute(*range(len(shape))[::-1])):
                    assert call(lib, out) is out
                    results.append((tuple(out.shape), out.stride() if out.numel() else (), out))
            assert [r[:2] for r in results[:2]] == [r[:2] for r in results[2:]], name
            for ours, theirs in zip(results[:2], results[2:], strict=True):
                np.testing.assert_allclose(ours[2].numpy(), theirs[2].numpy(), rtol=1e-6)


@pytest.mark.parametrize("lib", [tdt, torch])
def test_ends_of_random_integers_are_integers(lib):
    x = lib.zeros(3)
    for ends in [(2.5,), (0, 2.5), (1.0, 3), (True,), ("a",), (None,), (np.float32(2),)]:
        with pytest.raises(TypeError):
            x.random_(*ends)
        with pytest.raises(TypeError):
            lib.randint_like(x, *ends)
    for ends in [(3,), (1, 3), (np.int64(3),), (lib.tensor(3),)]:
        assert x.random_(*ends).max() < 3
        assert lib.randint_like(x, *ends).max() < 3
    assert x.random_(5, None).min() >= 5


@pytest.mark.parametrize("dtype", [*HALF, "float32", "float64", "complex64"])
@pytest.mark.parametrize("ord", [2.0, 1.0, 3.0, 0.5, -1.0, 0.0, INF, -INF])
def test_the_norm_of_one_element_is_its_size(ord, dtype):
    for number in (1e30, 1e-30, 0.0, -3.0, INF, NAN):
        for shape, dim in [((1,), None), ((), None), ((2, 1, 3), 1), ((1, 1, 2), (0, 1)), ((1, 2), 0)]:
            found = []
            for lib in [torch] + [tdt] * CALLS:
                x = lib.full(shape, number, dtype=lib.float64).to(getattr(lib, dtype))
                result = lib.linalg.vector_norm(x, ord, dim)
                found.append((result.double().tolist(), str(result.dtype).partition(".")[2]))
            assert len({repr(each) for each in found}) == 1, (number, shape, dim, found)


KINKED = {
    "relu": lambda f, x: f.relu(x), "relu6": lambda f, x: f.relu6(x), "leaky_relu": lambda f, x: f.leaky_relu(x, 0.1),
    "rrelu": lambda f, x: f.rrelu(x), "hardtanh": lambda f, x: f.hardtanh(x), "threshold": lambda f, x: f.threshold(x, 0.1, 2.0),
    "hardshrink": lambda f, x: f.hardshrink(x), "softshrink": lambda f, x: f.softshrink(x), "relu_": lambda f, x: (x * 1).relu_(),
    "prelu": lambda f, x: f.prelu(x, x.detach()[0, 0, :1, 0]), "max_pool2d": lambda f, x: f.max_pool2d(x, 2),
    "max_pool1d": lambda f, x: f.max_pool1d(x[0], 2), "avg_pool2d": lambda f, x: f.avg_pool2d(x, 2),
    "adaptive_max_pool2d": lambda f, x: f.adaptive_max_pool2d(x, 3),
    "fractional_max_pool2d": lambda f, x: f.fractional_max_pool2d(x, 2, 2, _random_samples=x.detach().new_full((1, 1, 2), 0.3)),
    "indices": lambda f, x: f.max_pool2d(x, 2, return_indices=True)[0],
    "nll_loss": lambda f, x: f.nll_loss(x[0, 0], x.detach()[0, 0, 0].long().abs()), "mixed": lambda f, x: f.relu(x) * x,
}  # fmt: skip


@pytest.mark.parametrize("name", KINKED)
def test_gradients_between_kinks_have_a_graph_in_which_the_operand_has_none(name):
    rng = np.random.default_rng(0)
    numbers, weights = rng.standard_normal((2, 1, 1, 4, 4)).astype(np.float32)
    found = []
    for lib in [torch, *[tdt] * CALLS]:
        x = lib.from_numpy(numbers).requires_grad_()
        y = KINKED[name](lib.nn.functional, x)
        (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = lib.autograd.grad((g * lib.from_numpy(weights)).sum(), x)
        found.append((g.requires_grad, g.tolist(), h.tolist()))
    for each in found[1:]:
        assert each[0] is found[0][0] is True
        for ours, theirs in zip(each[1:], found[0][1:], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_gradients_between_kinks_have_a_graph_after_many_passes():
    x = tdt.tensor([-1.0, 2.0], requires_grad=True)
    w = tdt.tensor([3.0, 4.0], requires_grad=True)
    for _ in range(2 * RUNS + 2):
        (g,) = tdt.autograd.grad((x.relu() * w).sum(), x, create_graph=True)
        assert [h.tolist() for h in tdt.autograd.grad(g.sum(), (x, w))] == [[0.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
@pytest.mark.parametrize("shape", [(2, 3), (1,), ()])
def test_places_in_the_whole_keep_all_dimensions(shape, dtype):
    found = []
    for lib in [torch] + [tdt] * CALLS:
        x = lib.arange(math.prod(shape), dtype=getattr(lib, dtype)).reshape(shape)
        results = x.argmax(keepdim=True), x.argmin(None, True), lib.argmax(x, keepdim=True)
        found.append([(tuple(r.shape), r.tolist()) for r in results])
    assert found.count(found[0]) == len(found)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("number", [2, -1, 2.5, True, 1j, 2**40, INF, -0.0])
@pytest.mark.filterwarnings("ignore")
def test_copies_of_numbers_are_pytorchs(number, dtype):
    if isinstance(number, float) and dtype[0] in "iu" and math.isinf(number):
        return  # undefined
    results = []
    for lib in [torch] + [tdt] * CALLS:
        x = lib.ones(2, 2, dtype=getattr(lib, dtype))
        assert x.t().copy_(number)._version == 1
        results.append(repr(x.tolist()))
    assert results.count(results[0]) == len(results)
    with pytest.raises(TypeError, match="'other' .* must be Tensor, not NoneType"):
        x.copy_(None)


@pytest.mark.parametrize("lib", [tdt, torch])
def test_a_histogram_has_bins(lib):
    for bins in (0, -1, lib.tensor([1.0])):
        with pytest.raises(RuntimeError, match="bins must be > 0"):
            lib.histogram(lib.ones(2), bins)


ELEMENTWISE = {
    "add": lambda t, x, y: x + y, "div": lambda t, x, y: x / y, "eq": lambda t, x, y: x == y, "atan2": lambda t, x, y: x.atan2(y),
    "fmod": lambda t, x, y: t.fmod(x, y), "pow": lambda t, x, y: x**y, "where": lambda t, x, y: t.where(x > 0, x, y),
}  # fmt: skip
LAYOUTS = {"expanded": lambda x: x[:1].expand(4, 3), "turned": lambda x: x.t()[:3].contiguous().t(), "row": lambda x: x[:1],
           "expanded columns": lambda x: x.t()[:, :1].expand(4, 3)[:4] if x.shape[1] == 4 else x[:, :1].expand(4, 3)}  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize(
    "dtypes", [("float64", "float32"), ("float64", "int64"), ("float32", "bfloat16"), ("int64", "int32")]
)
def test_strides_of_promoted_results_are_pytorchs_in_every_call(name, dtypes):
    for layouts in itertools.product(LAYOUTS, LAYOUTS):
        for swap in (1, -1):
            strides = []
            for lib in [torch] + [tdt] * CALLS:
                x, y = (
                    LAYOUTS[way](lib.ones(4, 3, dtype=getattr(lib, dtype)))
                    for way, dtype in zip(layouts, dtypes[::swap], strict=True)
                )
                strides.append(ELEMENTWISE[name](lib, x, y).stride())
            assert strides.count(strides[0]) == len(strides), (layouts, swap, strides)


REFUSE_BOOLS = ["ceil", "floor", "trunc", "round", "abs", "neg", "square", "relu"]
PREDICATES = ["sign", "sgn", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "nan_to_num"]


@pytest.mark.parametrize("dtype", ["int32", "bool", "float32"])
@pytest.mark.parametrize("name", REFUSE_BOOLS + PREDICATES)
def test_results_for_integers_keep_the_order_in_memory(name, dtype):
    if dtype == "bool" and name in REFUSE_BOOLS:
        return
    for layout in LAYOUTS.values():
        strides = []
        for lib in [torch] + [tdt] * CALLS:
            strides.append(getattr(layout(lib.ones(4, 3, dtype=getattr(lib, dtype))), name)().stride())
        assert strides.count(strides[0]) == len(strides), strides


class Doubled:
    """A function of the user, by library, that notes the gradients that arrive."""

    def __init__(self, lib, received):
        class Double(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                received.append(g.tolist())
                return g * 2

        self.apply = Double.apply


@pytest.mark.parametrize(
    "watch",
    ["requested", "both", "result", "retained", "hook", "hook of the node", "function", "accumulated", "graph"],
)
def test_zeros_behind_kinks_reach_what_is_on_their_way(watch):
    found = []
    for lib in [torch, *[tdt] * CALLS]:
        received, x = [], lib.tensor([1.0, -2.0], requires_grad=True)
        h = Doubled(lib, received).apply(x) if watch == "function" else x * 3
        y = h.relu()
        (g,) = lib.autograd.grad(y.sum(), h, create_graph=True)
        if watch == "result":
            received.append(lib.autograd.grad(g.sum(), y)[0].tolist())
        elif watch == "graph":
            for _ in range(2):
                (g,) = lib.autograd.grad(g.sum(), h, create_graph=True)
                received.append((g.requires_grad, g.tolist()))
        elif watch == "requested":
            received.append(lib.autograd.grad(g.sum(), h)[0].tolist())
        elif watch == "both":
            received += [each.tolist() for each in lib.autograd.grad(g.sum(), (h, x))]
        else:
            if watch == "hook":
                h.register_hook(lambda g, received=received: received.append(g.tolist()))
            elif watch == "hook of the node":
                h.grad_fn.register_hook(
                    lambda gs, outs, received=received: received.append((gs[0].tolist(), outs[0].tolist()))
                )
            elif watch == "retained":
                h.retain_grad()
            g.sum().backward(inputs=[h, x] if watch == "accumulated" else None)
            received += [x.grad.tolist(), h.grad.tolist() if watch in ("retained", "accumulated") else None]
        found.append(received)
    assert len({repr(each) for each in found}) == 1, found[:2]


def test_zeros_behind_kinks_are_sparse_where_the_leaf_is():
    found = []
    for lib in (torch, tdt):
        x = lib.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse().requires_grad_()
        (g,) = lib.autograd.grad(lib.sparse.sum(x.relu()), x, create_graph=True)
        (h,) = lib.autograd.grad(lib.sparse.sum(g), x)
        found.append((g.requires_grad, h.is_sparse, h.to_dense().tolist()))
    assert found[0] == found[1]
