"""Fused chains of elementwise ops: the bits of the ops one after the other, in one statement, with fewer values kept."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tdt
from tdt._compiled import turned as turned_products
from tdt._compiled.counts import _called
from tdt._kernels._native import vector_width
from tdt._kernels.expression import Expression
from tdt._kernels.fused import Layout, fused
from tdt.nn import functional as F

portable = pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="portable code is not fused")


def recording(compiled):
    """The only recording of a compiled function."""
    ((each,),) = compiled._compiled.recordings.values()
    assert each.recording is not None
    assert each.recording.verified
    return each.recording


def steps(function, tensors, calls: int = 4) -> list[list[bytes]]:
    """The bits of results and gradients of some calls, with other values in each."""
    draw = np.random.default_rng(0)
    found = []
    for _ in range(calls):
        for t in tensors:
            t.grad = None
            with tdt.no_grad():
                t.copy_(tdt.from_numpy(draw.standard_normal(t.shape).astype(np.float32)))
        outs = function(*tensors)
        sum(out.sum() for out in outs).backward()
        found.append([x.detach().numpy().tobytes() for x in (*outs, *[t.grad for t in tensors if t.grad is not None])])
    return found


UNARY = [
    tdt.tanh, tdt.exp, tdt.sigmoid, F.gelu, F.silu, tdt.relu, tdt.neg, tdt.square, lambda x: x.clamp(-0.5, 0.75),
    lambda x: 1.5 - x, lambda x: 2 / (x.abs() + 0.1), lambda x: x * 0.1, lambda x: x + 3, F.softplus, tdt.sin,
    lambda x: (x.abs() + 1).log(), lambda x: x.masked_fill(x > 1, -2.0), lambda x: x**2, lambda x: x**3, tdt.erf,
    lambda x: (x.square() + 1e-3).rsqrt(), lambda x: tdt.where(x < 0, x * 0.01, x),
]  # fmt: skip
BINARY = [
    tdt.add, tdt.sub, tdt.mul, lambda x, y: x / (y.abs() + 0.5), tdt.maximum, lambda x, y: tdt.where(x > y, x, y * 2),
    lambda x, y: x.lerp(y, 0.3), lambda x, y: tdt.addcmul(x, x, y, value=0.5), lambda x, y: x.add(y, alpha=0.7),
]  # fmt: skip
OTHER = [  # not elementwise
    lambda x: x.softmax(-1), lambda x: x - x.mean(-1, keepdim=True), lambda x: x.flip(-1), lambda x: x.cumsum(0),
]  # fmt: skip


def drawn_plan(draw: random.Random, steps: int) -> list[tuple[float, int, int, int]]:
    """For each step of a function a chance, and the numbers of an op and two operands."""
    return [(draw.random(), *(draw.randrange(1 << 16) for _ in range(3))) for _ in range(steps)]


def follow(plan, step, result=lambda x: x):
    """The function of tensors whose values are added by `step(first tensor, chance, op, x, y)`; it returns the last two."""

    def function(*tensors):
        values = [*tensors]
        for chance, k, a, b in plan:
            values += step(tensors[0], chance, k, values[a % len(values)], values[b % len(values)])
        return tuple(map(result, values[-2:]))

    return function


def drawn(seed: int):
    """A function of three tensors whose results are made of random chains, and the tensors."""
    draw = random.Random(seed)
    rows, columns = draw.choice([(1, 1), (3, 5), (7, 33), (64, 48)])
    batch = draw.choice([(), (2,), (2, 3)])
    shapes = [(*batch, rows, columns), draw.choice([(columns,), (rows, 1), (1, columns), (*batch, rows, columns)]),
              (*batch, rows, columns)]  # fmt: skip
    plan = drawn_plan(draw, 14)

    def step(first, chance, k, x, y):
        x = x * first if x.shape != first.shape else x
        if chance < 0.5:
            return [UNARY[k % len(UNARY)](x)]
        return [BINARY[k % len(BINARY)](x, y) if chance < 0.85 else OTHER[k % len(OTHER)](x)]

    return follow(plan, step), [tdt.zeros(s, requires_grad=True) for s in shapes]


PARTS = [
    lambda x: x.chunk(2, -1), lambda x: x.chunk(2, 1), lambda x: x.split([1, x.shape[1] - 1], 1)[1].split(1, 1)[:2],
    lambda x: (x[..., 1:], x[..., :-1]), lambda x: (x[:, ::2], x[:, 1::2]), lambda x: x.unflatten(-1, (-1, 2)).unbind(-1),
    lambda x: (x[:1].expand(x.shape), x), lambda x: (x.transpose(1, 2), x.transpose(1, 2) * 2),
]  # fmt: skip


def drawn_of_parts(seed: int):
    """A function of two tensors whose chains are of parts of them, which lie with gaps between their rows."""
    draw = random.Random(seed)
    shape = draw.choice([(4, 16, 64), (2, 6, 4), (5, 64, 96), (3, 8, 48), (64, 32, 8)])
    plan = drawn_plan(draw, 14)

    def step(first, chance, k, x, y):
        if chance < 0.2 and min(x.shape) >= 4 and not x.shape[1] % 2 and not x.shape[2] % 2:
            return PARTS[k % len(PARTS)](x)
        if chance < 0.6 or x.shape != y.shape:
            return [UNARY[k % len(UNARY)](x)]
        return [BINARY[k % len(BINARY)](x, y) if chance < 0.95 else REDUCTIONS[k % 2](x) * x]

    return follow(plan, step, lambda x: x * 1), [tdt.zeros(shape, requires_grad=True) for _ in range(2)]


def turned(x, dim, at):
    """The entries along a dimension from `at` on, then those before."""
    before, after = x.narrow(dim, 0, at), x.narrow(dim, at, x.shape[dim] - at)
    return tdt.cat((after * 1.5, before), dim)


JOINS = [
    lambda x, y: turned(x, -1, x.shape[-1] // 2), lambda x, y: turned(x, 1, 16) + y, lambda x, y: turned(y, -1, 32),
    lambda x, y: tdt.cat((x.chunk(2, 1)[0], y.chunk(2, 1)[1].tanh()), 1),
    lambda x, y: tdt.cat([part * k for k, part in enumerate((x + y).chunk(4, -1))], -1),
    lambda x, y: F.pad(x[:, 1:], (0, 0, 0, 1)) - x, lambda x, y: tdt.cat((x[:, :1], x[:, 1:] - x[:, :-1]), 1),
    lambda x, y: tdt.cat((x, y), -1).sigmoid()[..., 16 : 16 + x.shape[-1]], lambda x, y: (x * 2)[..., 16:].sum() * y,
    lambda x, y: tdt.cat((x.exp(), y), 1).narrow(1, 8, x.shape[1]), lambda x, y: (x @ y.transpose(1, 2))[..., :1] * x,
    lambda x, y: tdt.cat((x[..., :16], (x * y)[..., :16], y[..., 32:]), -1) * tdt.ones(x.shape[-1]),
]  # fmt: skip


def drawn_of_joins(seed: int):
    """A function of two tensors that takes parts of chains and joins them, and the tensors."""
    draw = random.Random(seed)
    shape = draw.choice([(5, 64, 96), (3, 48, 128), (16, 32, 64)])
    plan = drawn_plan(draw, 8)

    def step(first, chance, k, x, y):
        if chance < 0.5:
            return [JOINS[k % len(JOINS)](x, y)]
        return [UNARY[k % len(UNARY)](x) if chance < 0.75 else BINARY[k % len(BINARY)](x, y)]

    return follow(plan, step, lambda x: x * 1), [tdt.zeros(shape, requires_grad=True) for _ in range(2)]


@portable
@pytest.mark.parametrize("dim", [1, 2])
def test_a_rotary_embedding_is_one_pass_in_each_direction(dim):
    def rotated(x, cos, sin):
        a, b = x.narrow(dim, 0, 32), x.narrow(dim, 32, 32)
        return (x * cos + tdt.cat((-b, a), dim) * sin,)

    x, cos, sin = tdt.zeros(4, 64, 64, requires_grad=True), tdt.zeros(64, 64), tdt.zeros(64, 64)
    expected, compiled = steps(rotated, [x, cos, sin]), tdt.compile(rotated, fullgraph=True)
    assert steps(compiled, [x, cos, sin]) == expected
    ((backward, _),) = recording(compiled).backwards.values()
    assert len(_called(recording(compiled).forward)) == 3  # two views, and one pass over them
    assert len(_called(backward)) == 1


@portable
def test_a_rotary_embedding_of_heads_is_one_pass():
    def rotated(x, cos, sin):
        heads = x.view(4, 32, 2, 64).transpose(1, 2)  # whose products lie as they do, and whose joined parts in order
        a, b = heads.chunk(2, -1)
        return (heads * cos + tdt.cat((-b, a), -1) * sin,)

    x, cos, sin = tdt.zeros(4, 32, 128, requires_grad=True), tdt.zeros(32, 64), tdt.zeros(32, 64)
    expected, compiled = steps(rotated, [x, cos, sin]), tdt.compile(rotated, fullgraph=True)
    assert steps(compiled, [x, cos, sin]) == expected
    assert len(_called(recording(compiled).forward)) == 4  # three views, and one pass


def test_a_part_of_a_chain_follows_writes_to_it_and_to_another_part():
    def function(x):
        y = x.detach() * 2
        a, b = y[:, :32], y[:, 32:]
        y.add_(1)
        b.mul_(3)
        return (tdt.cat((b, a), 1).tanh() * x, a * 2)

    tensors = [tdt.zeros(4, 64, 64, requires_grad=True)]
    assert steps(tdt.compile(function, fullgraph=True), tensors) == steps(function, tensors)


@portable
@pytest.mark.parametrize("dim", [1, 2])
def test_a_gate_of_parts_is_one_pass_in_each_direction(dim):
    def gate(x):
        a, b = x.chunk(2, dim)
        return (a * tdt.sigmoid(b) * 2,)

    x = tdt.zeros(4, 32, 64, requires_grad=True)
    expected, compiled = steps(gate, [x]), tdt.compile(gate, fullgraph=True)
    assert steps(compiled, [x]) == expected
    program = recording(compiled).native.program
    assert len(program.statements) == 2, recording(compiled).source  # the parts, and one pass over them


def scanned(x, y):
    a = x[:, 0] * 1.0
    for t in range(1, x.shape[1]):
        a = tdt.where(a > 0, a * x[:, t], -0.0 * x[:, t].detach()) + y[:, t]
    return (a * -0.0 + x[:, 3],)


@pytest.mark.parametrize(
    "function",
    [
        scanned,
        lambda x, y: (sum(x[:, t] * -y[:, -1 - t].relu() for t in range(x.shape[1])) + (x * y).sum(1),),
        lambda x, y: (sum(x[0, t, 0] * y[1, t] for t in range(x.shape[1])), x * 2),
        lambda x, y: (sum(x[:, t] * y[:, t] + x[:, t].relu() * x[:, -1 - t] for t in range(x.shape[1])) + y.sum(1),),
        lambda x, y: (sum((x[:, t : t + 2] * y[:, t : t + 2]).sum() for t in range(11)),),  # which overlap
    ],
)
def test_gradients_of_many_parts_have_the_bits_of_sums_with_zeros(function):
    tensors = [tdt.zeros(2, 12, 3, requires_grad=True) for _ in range(2)]
    assert steps(tdt.compile(function, fullgraph=True), tensors) == steps(function, tensors)


@portable
def test_the_gradient_of_many_parts_is_joined_at_once():
    x = tdt.randn(2, 20, 3, requires_grad=True)
    compiled = tdt.compile(lambda x: (sum(x[:, t].sin() * t for t in range(20)),), fullgraph=True)
    steps(compiled, [x])
    ((backward, _),) = recording(compiled).backwards.values()
    assert [getattr(function, "__name__", "") for function in _called(backward)].count("join") == 1


@portable
def test_turns_of_a_loop_over_time_share_their_code():
    def loop(x, y):
        a = b = y
        for t in range(24):
            k = x[t]
            q = tdt.maximum(b + 1, k)
            a, b = tdt.exp(b - q) * a + tdt.exp(k - q) * k, q + tdt.sigmoid(a) * 0.5
        return (a / b,)

    x, y, compiled = tdt.randn(24, 64), tdt.randn(64), tdt.compile(loop, fullgraph=True)
    for _ in range(3):
        assert tdt.equal(compiled(x, y)[0], loop(x, y)[0])
    called = [f for f in _called(recording(compiled).forward) if getattr(f, "__name__", "") == "fused"]
    assert len(called) > 2 * len({*map(id, called)}), called


REDUCTIONS = [
    lambda x: x.sum(-1, keepdim=True), lambda x: x.mean(-1, keepdim=True), lambda x: x.sum(0), lambda x: x.amax(-2, keepdim=True),
    lambda x: x.mean((0, -1), keepdim=True), lambda x: x.sum(), lambda x: x.amin(), lambda x: x.sum((0, 1)),
]  # fmt: skip


def drawn_with_reductions(seed: int):
    """A function of three tensors that reduces chains and goes on with the results, and the tensors."""
    draw = random.Random(seed)
    shape = draw.choice([(64, 130), (5, 40, 96), (3, 2, 32, 80), (2000, 8), (8192,)])
    small = draw.choice([shape[-1:], (*shape[:-1], 1), shape, (1,)])
    plan = drawn_plan(draw, 14)
    turned = draw.random() < 0.25

    def step(first, chance, k, x, y):
        x = x * first if x.shape != first.shape else x
        if chance < 0.3:
            return [UNARY[k % len(UNARY)](x)]
        if chance < 0.6:
            return [BINARY[k % len(BINARY)](x, y)]
        return [REDUCTIONS[k % len(REDUCTIONS)](x) if x.ndim > 1 else x.mean()]

    x = tdt.zeros(shape[::-1]).permute(*range(len(shape))[::-1]) if turned else tdt.zeros(shape)
    return follow(plan, step), [t.detach().requires_grad_() for t in (x, tdt.zeros(small), tdt.zeros(shape))]


# What is drawn, how many functions of it in each run, and how many in the long step.
DRAWN = ((drawn, 10, 100), (drawn_of_parts, 8, 100), (drawn_of_joins, 8, 40), (drawn_with_reductions, 8, 80))


CASES = [
    pytest.param(draw, seed, marks=[pytest.mark.long] if seed >= 100 else [])
    for draw, few, many in DRAWN
    for seed in (*range(few), *range(100, 100 + many))
]


@pytest.mark.parametrize(("draw", "seed"), CASES)
def test_random_functions_have_the_bits_of_their_ops(draw, seed):
    function, tensors = draw(seed)
    expected, compiled = steps(function, tensors), tdt.compile(function, fullgraph=True)
    assert steps(compiled, tensors) == expected
    assert recording(compiled)


GRADIENTS = {
    "contiguous": lambda g: g,
    "expanded": lambda g: g[0, 0].expand(g.shape),
    "expanded rows": lambda g: g[:1].expand(g.shape),
    "turned": lambda g: g.T.contiguous().T,
    "sliced": lambda g: tdt.stack((g, g), -1)[..., 0],
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("calls", [3, 60])  # the last of many run on tapes
def test_sums_in_a_backward_pass_are_rounded_as_the_incoming_gradient_lies(turned, calls):
    draw = np.random.default_rng(0)
    x, w, g = (tdt.from_numpy(draw.standard_normal(shape, np.float32)) for shape in ((64, 130), (130,), (64, 130)))
    x = (x.T.contiguous().T if turned else x).requires_grad_()
    w.requires_grad_()

    def function(x, w):
        return (x * w).tanh() * x

    def gradients(f, g):
        x.grad = w.grad = None
        f(x, w).backward(g)
        return x.grad.numpy().tobytes(), w.grad.numpy().tobytes()

    compiled = tdt.compile(function, fullgraph=True)
    for _ in range(calls):
        gradients(compiled, g)
    for name, lies in GRADIENTS.items():
        assert gradients(compiled, lies(g)) == gradients(function, lies(g)), name


@portable
def test_the_mean_of_a_chain_is_computed_with_it_and_the_chain_is_stored_where_others_read_it():
    x, w = tdt.zeros(80, 128, requires_grad=True), tdt.zeros(128, 16, requires_grad=True)

    def alone(x, w):
        return ((x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w[0, 0],)

    def before_the_product(x, w):
        y = (x + 1).square()
        return y.sum(0), y @ w

    def after_the_product(x, w):
        y = (x + 1).square()
        z = y @ w
        return y.sum(0), z

    for function, calls in ((alone, 4), (before_the_product, 2), (after_the_product, 2)):
        expected = steps(function, [x, w])
        compiled = tdt.compile(function, fullgraph=True)
        assert steps(compiled, [x, w]) == expected
        assert len(_called(recording(compiled).forward)) == calls


@portable
def test_a_gradient_is_summed_to_a_broadcast_operand_in_the_pass_that_computes_it():
    x, w = tdt.zeros(80, 128, requires_grad=True), tdt.zeros(128, requires_grad=True)

    def function(x, w):
        return ((x * w + 1).tanh(),)

    expected = steps(function, [x, w])
    compiled = tdt.compile(function, fullgraph=True)
    assert steps(compiled, [x, w]) == expected
    ((backward, _),) = recording(compiled).backwards.values()
    assert len(_called(backward)) == 1


def test_a_sum_of_a_value_that_is_written_to_in_between_has_the_new_values():
    def function(x):
        y = x * 2 + 1
        z = y.tanh() @ tdt.ones(96, 4)
        y.add_(1)
        return z, y.sum(-1)

    tensors = [tdt.zeros(64, 96, requires_grad=True)]
    assert steps(tdt.compile(function), tensors) == steps(function, tensors)


@portable
def test_what_is_computed_twice_is_computed_once():
    def rotated(x, y):
        angle = y[0, :, :4].detach()
        cos, sin = (tdt.cat((f(angle), f(angle)), -1) for f in (tdt.cos, tdt.sin))
        return (x * cos + tdt.cat((-x[..., 4:], x[..., :4]), -1) * sin,)

    tensors = [tdt.zeros(2, 6, 8, requires_grad=True), tdt.zeros(2, 6, 8, requires_grad=True)]
    expected = steps(rotated, tensors)
    compiled = tdt.compile(rotated, fullgraph=True)
    assert steps(compiled, tensors) == expected
    # Three slices, one of them turned; each joined from two; and the sum.
    assert len(_called(recording(compiled).forward)) == 4 + 2 + 3 + 1


def test_values_of_constants_are_computed_once():
    def masked(x):
        mask = tdt.ones(24, 24, dtype=tdt.bool).tril()
        steps = tdt.arange(24.0) * 0.5
        return x.masked_fill(~mask, -1.0).softmax(-1), steps.cumsum(0) * x, steps.cos()

    tensors = [tdt.zeros(24, 24, requires_grad=True)]
    expected = steps(masked, tensors, 6)
    compiled = tdt.compile(masked, fullgraph=True)
    assert steps(compiled, tensors, 6) == expected
    assert "tril" not in str(_called(recording(compiled).forward))
    assert len(_called(recording(compiled).forward)) <= 3 + 3  # copies of three constants, and what is computed of x


def test_constants_that_are_written_to_are_new_in_each_call():
    def function(x):
        counts = tdt.zeros(4) + 1
        part = counts[:2]
        counts.add_(1)
        part.mul_(3)
        fresh = tdt.ones(4).tril() if x.ndim == 2 else tdt.ones(4) * 2
        return counts * x, fresh * 2

    tensors = [tdt.zeros(4, requires_grad=True)]
    found = []
    for run in (function, tdt.compile(function, fullgraph=True)):
        out = []
        for _ in range(4):
            a, b = run(tensors[0] + 1)
            b.add_(1)
            out.append((a.tolist(), b.tolist()))
        found.append(out)
    assert found[0] == found[1]


def test_equal_calls_are_not_one_where_a_value_is_written_to_or_returned_or_random():
    def function(x, y):
        a, b = x.detach().cumsum(0), x.detach().cumsum(0)
        a.view(-1).mul_(2)
        c = y.cumsum(0)
        before = y.detach().cumsum(0)
        d, e = tdt.rand(3, 4).cumsum(0), tdt.rand(3, 4).cumsum(0)
        held = y.detach() * 2
        f = held.flip(0)
        held.add_(1)
        g = held.flip(0)
        return b + c, y.cumsum(0), a * x + f - 2 * g, before, d - e

    found = []
    for run in (function, tdt.compile(function, fullgraph=True)):
        tdt.manual_seed(3)
        found.append(steps(run, [tdt.zeros(3, 4, requires_grad=True), tdt.zeros(3, 4, requires_grad=True)]))
    assert found[0] == found[1]


def new_gelu(x):
    return 0.5 * x * (1.0 + (0.7978845608 * (x + 0.044715 * x**3)).tanh())


@portable
def test_a_gelu_written_by_hand_is_one_pass_in_each_direction_and_keeps_only_its_input():
    x = tdt.randn(6, 40, requires_grad=True)
    compiled = tdt.compile(lambda x, w: (new_gelu(x @ w),), fullgraph=True)
    w = tdt.randn(40, 24, requires_grad=True)
    steps(compiled, [x, w])
    found = recording(compiled)
    assert len(found.source.strip().splitlines()) == 4  # def, product, fused chain, return
    saved = found.source.rpartition("), (")[2].rstrip(")\n").split(", ")
    assert len([name for name in saved if name.startswith("v")]) == 1


@portable
def test_the_gradient_of_a_mean_is_read_where_it_is_expanded():
    x, w = tdt.zeros(6, 40, requires_grad=True), tdt.zeros(40, requires_grad=True)

    def function(x, w):
        return ((x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()) * w,)

    expected = steps(function, [x, w])
    compiled = tdt.compile(function, fullgraph=True)
    assert steps(compiled, [x, w]) == expected
    ((backward, _),) = recording(compiled).backwards.values()
    assert (
        len(_called(backward)) == 8
    )  # the root again, two gradients and their sums, that of the mean, expanded, that of x


@pytest.mark.parametrize("turned", [False, True])
def test_expanded_tensors_are_operands_of_chains(turned):
    def function(x, y):
        z = y.expand(x.shape)
        return ((x * z + 1).tanh() * z, x - z)

    x = tdt.zeros(130, 96)
    x = (x.T if turned else x).requires_grad_()
    for small in (tdt.zeros(x.shape[0], 1), tdt.zeros(x.shape[1])):
        tensors = [x.detach().requires_grad_(), small.requires_grad_()]
        compiled = tdt.compile(function, fullgraph=True)
        assert steps(compiled, tensors) == steps(function, tensors)
        assert [out.stride() for out in compiled(*tensors)] == [out.stride() for out in function(*tensors)]


def test_an_input_that_is_written_to_before_backward_does_not_change_the_gradient():
    # Autograd keeps results of tanh and exp, not x: a compiled function may not compute them again from x.
    def run(function):
        found = []
        for k in range(4):
            x = tdt.arange(12.0).reshape(3, 4) / 10 + k
            w = tdt.full((3, 4), 0.5, requires_grad=True)
            out = function(x, w)
            x.mul_(100)
            out.sum().backward()
            found.append(w.grad.numpy().tobytes())
        return found

    def function(x, w):
        return ((x + 1).tanh() * w).exp()

    assert run(tdt.compile(function, fullgraph=True)) == run(function)


def test_random_numbers_like_a_strided_tensor_are_drawn_anew_in_each_call():
    def function(x):
        mean, log_variance = x.chunk(2, 1)
        return (mean + tdt.randn_like(mean) * (0.5 * log_variance).exp(),)

    found = []
    for run in (function, tdt.compile(function, fullgraph=True)):
        tdt.manual_seed(1)
        found.append(steps(run, [tdt.zeros(3, 8, requires_grad=True)]))
    assert found[0] == found[1]


def test_classes_that_are_ignored_are_recorded():
    target = tdt.tensor([1, -100, 2])

    def function(x):
        return (F.cross_entropy(x, target, ignore_index=-100),)

    tensors = [tdt.zeros(3, 4, requires_grad=True)]
    assert steps(tdt.compile(function, fullgraph=True), tensors) == steps(function, tensors)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("number", [1e40, -1e300, 3.5e38, 1e-50, 16777217, float("inf"), -0.0])
def test_numbers_that_float32_cannot_hold_are_rounded_as_in_the_ops(number):
    mask = tdt.tensor([True, False, True, False])

    def function(x):
        refused = abs(number) > 3e38 and number != float("inf")  # by ops that hold the number as one of the tensor's
        held = x if refused else x.masked_fill(mask, number).clamp(max=number)
        return (x * number + x).tanh(), held + (x - number) * (x < number), x / number

    tensors = [tdt.zeros(3, 4, requires_grad=True)]
    assert steps(tdt.compile(function, fullgraph=True), tensors) == steps(function, tensors)


def test_values_that_are_written_to_in_place_are_computed_before():
    def function(x):
        y = x * 2
        z = (y + 1).tanh()
        u = tdt.zeros(3, 4)
        v = (u + z).exp()
        u.add_(1)
        return (v * u + y,)

    tensors = [tdt.zeros(3, 4, requires_grad=True)]
    assert steps(tdt.compile(function), tensors) == steps(function, tensors)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", ["plain", "row", "column", "channels-last", "transposed", "mask"])
def test_large_arrays_on_several_threads_have_the_bits_of_the_ops(threads, form):
    before = tdt.get_num_threads()
    tdt.set_num_threads(threads)
    try:
        x = tdt.zeros(4, 24, 32, 32)
        other = tdt.zeros({"row": (32,), "column": (24, 1, 1)}.get(form, (4, 24, 32, 32)))
        if form == "channels-last":
            x, other = (t.to(memory_format=tdt.channels_last) for t in (x, other))
        if form == "transposed":
            x, other = (t.transpose(1, 3) for t in (x, other))
        tensors = [x.detach().requires_grad_(), other.detach().requires_grad_()]

        def function(x, y):
            z = (x * y + 1).tanh()
            if form == "mask":
                z = tdt.where(x > y, z, z * 0.5)
            return z * y, z + x

        assert steps(tdt.compile(function, fullgraph=True), tensors, 3) == steps(function, tensors, 3)
        strides = [[out.stride() for out in f(*tensors)] for f in (function, tdt.compile(function))]
        assert strides[0] == strides[1]
    finally:
        tdt.set_num_threads(before)


@pytest.mark.skipif(vector_width() < 8 or not tdt.backends.kernels.enabled(), reason="products are NumPy's")
@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (1, 1)])
@pytest.mark.parametrize("form", ["shared", "own", "scaled", "across", "one row"])
def test_gradients_of_transposed_factors_are_computed_across(monkeypatch, lead, form):
    calls: list[int] = []
    product = turned_products._product
    monkeypatch.setattr(turned_products, "_product", lambda g, x: calls.append(0) or product(g, x))
    rows = 1 if form == "one row" else 5
    x, y, z = (tdt.zeros(*lead, *size, requires_grad=True) for size in ((7, 6), (rows, 6), (rows, 6)))
    if form == "across":
        z = tdt.zeros(*lead, 6, rows).mT.requires_grad_()

    def function(x, y, z):
        weights = (x @ y.mT).tanh()
        if form == "scaled":
            y = y * 2
        other = {"own": z, "across": z * y}.get(form, y)
        return (weights @ other,)

    compiled = tdt.compile(function, fullgraph=True)
    assert steps(compiled, [x, y, z]) == steps(function, [x, y, z])
    assert [t.grad.stride() for t in (x, y)] == [t.stride() for t in (x, y)]
    assert bool(calls) == (form in ("shared", "scaled", "one row"))


@portable
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "shapes",
    [((40_000,), (40_000,)), ((3, 7, 5, 512), (5, 1)), ((2, 3, 4, 5, 512), (3, 1, 5, 1)), ((70_000, 1), (1,)),
     ((64, 1000), (64, 1)), ((5, 3), (3,))],
)  # fmt: skip
def test_a_fused_function_computes_what_numpy_does(threads, shapes):
    before = tdt.get_num_threads()
    tdt.set_num_threads(threads)
    try:
        draw = np.random.default_rng(1)
        a, b = (draw.standard_normal(shape).astype(np.float32) for shape in shapes)
        x, y = Expression("input", 0), Expression("input", 1)
        outputs = [x * y + x, x < y, x / (y * y + Expression("number", 1.5))]
        whole, small = Layout.of(a), Layout.of(b)
        mask = Layout.of(np.empty(a.shape, np.bool_))
        run = fused(outputs, [whole, small], [whole, mask, whole])
        assert run is not None
        for found, expected in zip(run(a, b), (a * b + a, a < b, a / (b * b + np.float32(1.5))), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
    finally:
        tdt.set_num_threads(before)
