"""Calls at the edge of what an op takes, made in both libraries: the same result, or an error of the same class."""

import math

import pytest

import tdt
from tdt._kernels import FEW_CALLS
from tests.helpers import require_torch

torch = require_torch()

from tests.parity.attempts import attempt, quiet  # noqa: E402
from tests.parity.compare import difference, error_difference  # noqa: E402

DTYPES = ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")

# `t` is the library, `x` three numbers of each dtype in turn, `b` three bools.
OF_EVERY_DTYPE = """
    x - x; x - 1; 1 - x; x - True; True - x; x - 1.5; x - b; b - x; x - t.tensor(True); t.tensor(True) - x; t.rsub(x, 1)
    t.rsub(x, True); t.sub(x, x, alpha=2); t.sub(x, 1, alpha=True); t.add(x, x, alpha=True)
    x.clone().sub_(True); x.clone().sub_(b)
    -x; +x; ~x; abs(x); x.clone().abs_(); x[:1] ** x[:1]; x ** 2; True ** x; 2 ** x; x ** 0.5
    t.hypot(x, x); t.hypot(x, t.ones(3)); t.lerp(x, x, 0.5); x.clone().lerp_(x, 0.5); t.addcmul(x, x, x, value=0.5)
    t.clamp(x, 0, 1); t.clamp(x, min=False); t.clamp(x, min=x); t.clamp(x, x, x); t.clamp_max(x, True); t.clamp_min(x, x)
    t.clamp(x.repeat(3000), -8, 20); t.clamp(x.repeat(3000), 2, True)
    t.relu(x); x.clone().relu_(); t.dropout(x, 0.5, True).dtype; t.dropout(x, 1.0, True); t.round(x); t.round(x, decimals=0)
    t.argmax(x); t.argmin(x, 0); t.median(x); t.nanmedian(x, 0); t.kthvalue(x, 1); t.topk(x, 2); t.sort(x); t.mode(x)
    t.unique(x); t.unique(x, dim=0); t.unique_consecutive(x); t.nanmean(x); t.nansum(x); t.trace(x.expand(3, 3))
    t.nn.functional.mse_loss(x, x); t.nn.functional.linear(x, x); t.dot(x, x); t.mm(x.expand(3, 3), x.expand(3, 3))
    t.linalg.vecdot(x, x); t.linalg.matrix_norm(x.expand(3, 3), 1); t.cross(x, x); t.arange(5)[x]
    t.nn.functional.cross_entropy(t.eye(3), x); t.nn.functional.cross_entropy(t.ones(3), x[0])
    t.nn.functional.cross_entropy(t.ones(1, 3, 3), x.unsqueeze(0)); t.nn.functional.nll_loss(t.ones(3), x[0])
    t.scatter_reduce(x, 0, t.arange(3), x, "mean"); t.scatter_reduce(x, 0, t.arange(3), x, "amax"); t.randint_like(x, 3).dtype
    t.nn.functional.max_pool1d(x[None], 2); t.nn.functional.max_pool1d(x[None], 2, return_indices=True)
    t.nn.functional.pad(x[None], (1, 1), "reflect"); t.nn.functional.pad(x[None], (1, 1), "replicate")
    t.nn.functional.avg_pool1d(x[None], 2); t.nn.functional.adaptive_avg_pool1d(x[None], 2)
    t.nn.functional.conv1d(x[None], x[None, None]); t.nn.functional.conv_transpose1d(x[None], x[None, None])
    t.nn.functional.batch_norm(x[None], x, x); t.linalg.inv(t.eye(3).to(x.dtype)); t.linalg.svdvals(t.eye(3).to(x.dtype))
"""

OF_NOTHING = """
    t.tensor([]).argmax(); t.tensor([]).argmin(); t.tensor([]).argmax(0); t.tensor([]).max(); t.tensor([]).amax()
    t.arange(0) // 0; t.arange(0) % t.tensor(0); t.arange(0).fmod(t.tensor([0])); t.arange(0).div(0, rounding_mode="trunc")
    t.arange(0).floor_divide_(0); 1 // t.arange(0); t.arange(1) // t.zeros(0, 1).long()
    t.linalg.norm(t.empty(0, 0), float("inf")); t.linalg.norm(t.empty(0, 0).half(), float("inf")); t.linalg.norm(t.empty(3, 0), 1)
    t.linalg.norm(t.empty(0, 3), 1); t.linalg.norm(t.empty(0, 3), 2); t.linalg.norm(t.empty(2, 0, 0), 2, (1, 2), True)
    t.linalg.norm(t.empty(0, 0), -1); t.linalg.norm(t.empty(0, 0), "nuc"); t.norm(t.empty(0, 0))
    t.nn.functional.batch_norm(t.empty(0), None, None, training=True)
    t.nn.functional.batch_norm(t.empty(0), t.ones(2), t.ones(2))
    t.nn.functional.batch_norm(t.ones(3), None, None, training=True); t.diag_embed(t.tensor(1.0)); t.diag_embed(t.empty(0))
    t.nn.functional.pad(t.ones(2, 3, 0), (1, 1), "replicate"); t.nn.functional.pad(t.ones(2, 0, 4), (1, 1), "replicate")
    t.nn.functional.pad(t.ones(0, 4), (1, 1), "reflect"); t.nn.functional.pad(t.ones(0, 3, 4), (1, 1), "reflect")
    t.nn.functional.pad(t.ones(0, 4, 4), (1, 1, 1, 1), "replicate"); t.nn.functional.pad(t.ones(0, 4, 4), (1, 1), "replicate")
"""

OF_REPEATS = """
    t.arange(6).view(2, 3).repeat_interleave(2, 1); t.arange(6).view(2, 3).repeat_interleave(2)
    t.ones(2, 3).repeat_interleave(0, 1); t.arange(6).view(2, 3).t().repeat_interleave(3, -1).stride()
    t.ones(2).repeat_interleave(-1); t.ones(2).repeat_interleave(2, 1); t.ones(2).repeat_interleave(2, output_size=4)
    t.ones(2).repeat_interleave(2, output_size=3); t.arange(3).repeat_interleave(t.tensor([2, 0, 1]), output_size=3)
    t.arange(2).repeat_interleave(t.tensor([2, 1]), output_size=4); t.repeat_interleave(t.tensor([1, 2]), output_size=5)
    t.ones(2).repeat_interleave(True); t.ones(2).repeat_interleave(1.0)
    t.ones(()).repeat_interleave(2); t.ones(()).repeat_interleave(2, 0); t.ones(()).repeat_interleave(t.tensor([2]), -1)
    t.ones(()).repeat_interleave(t.tensor([2])); t.repeat_interleave(t.tensor(2)); t.ones(3).repeat_interleave(t.tensor([1.0]))
"""

OF_INDICES = """
    t.tensor(1.0).index_select(0, t.tensor([0])); t.tensor(1.0).index_select(0, t.tensor([], dtype=t.int64))
    t.ones(1, 0, 3).index_select(1, t.tensor([0])); t.ones(0).index_select(0, t.tensor([0]))
    t.ones(3).index_select(1, t.tensor([1.0])); t.ones(3).index_select(0, t.tensor([1.0])); t.ones(3)[[]]; t.ones(2, 0)[[]]
    t.ones(3).index_fill(0, t.tensor([1.0]), 2); t.ones(3).index_fill(0, t.tensor([], dtype=t.bool), 2); t.ones(3)[t.tensor([])]
"""

OF_WRONG_INDICES = """
    t.ones(2, 3)[t.tensor(1, dtype=t.uint8)]; t.ones(2, 3)[t.tensor(0, dtype=t.uint8), 0]
    t.ones(2, 3)[:, t.tensor(1, dtype=t.uint8)]
    t.ones(2, 3).masked_select(t.ones(3).byte()); t.ones(2, 3).masked_select(t.ones(2) > 0); t.ones(3).put(t.arange(2), t.ones(1))
    t.ones(2, 3).take_along_dim(t.arange(2).int()); t.ones(2, 3).take_along_dim(t.ones(1, 2).int(), 1)
    t.ones(3).index_copy(0, t.arange(3).int(), t.ones(3)); t.ones(3).index_fill(0, t.arange(3).int(), 1)
    t.ones(3).index_fill(0, t.zeros(1, 1).long(), 1); t.ones(3).index_add(0, t.zeros(1).byte(), t.ones(1))
    t.ones(4).tensor_split(t.tensor([1.0])); t.ones(4).tensor_split(t.tensor([[1]])); t.ones(4).tensor_split(t.tensor([1]))
"""

OF_OVERLAPS = """
    t.nn.functional.multilabel_soft_margin_loss(t.ones(1), t.arange(5.0), weight=t.ones(1, 5))
    t.ones(3).expand(2, 3).tril_(); t.ones(3).expand(2, 3).triu_(); t.threshold_(t.ones(3).expand(2, 3), 1, 4)
    t.ones(3).expand(2, 3).index_fill_(0, t.tensor([0]), 2.0); t.ones(3).expand(2, 3).relu_()
    (lambda x: x[1:].nextafter_(x[:-1]))(t.ones(4)); (lambda x: x.nextafter_(x.T))(t.ones(3, 3)); t.ones(4).nextafter_(t.ones(4))
    t.addr(t.ones(3, 2).T, t.ones(2), t.ones(3), beta=0); t.addr(t.ones(3, 2).T, t.ones(2), t.ones(3), beta=0).stride()
    t.ones(3, 2).T.masked_fill(t.ones(3) > 0, 2).stride(); t.ones(3, 2).T.logcumsumexp(0).stride()
    t.zeros(2, 0).bool() @ t.zeros(0, 3).bool(); t.bmm(*[t.zeros(0, 2, 2).bool()] * 2); t.dot(*[t.zeros(0).bool()] * 2)
    t.multinomial(t.ones(0, 3), 2, True)
"""

OF_BIASES = """
    t.nn.functional.linear(t.ones(2, 3), t.ones(4, 3), t.arange(8.0).view(2, 4))
    t.nn.functional.linear(t.ones(2, 3), t.ones(4, 3), t.arange(2.0).view(2, 1))
    t.nn.functional.linear(t.ones(5, 2, 3), t.ones(4, 3), t.arange(8.0).view(2, 4))
    t.nn.functional.linear(t.ones(5, 2, 3), t.ones(4, 3), t.ones(3, 4))
    t.nn.functional.linear(t.ones(3), t.ones(4, 3), t.ones(2, 4))
    t.nn.functional.linear(t.ones(2, 3), t.ones(4, 3), t.ones(1, 2, 4))
    t.nn.functional.linear(t.ones(2, 3), t.ones(4, 3), t.ones(3))
"""


OF_OTHER_LAYOUTS = """
    t.select_scatter(t.arange(3).expand(4, 3), t.arange(4), 1, 2); t.diagonal_scatter(t.arange(3).expand(4, 3), t.zeros(3).long())
    t.slice_scatter(t.arange(3).expand(4, 3), t.zeros(2, 3).long(), 0, 1, 3); t.view_copy(t.arange(3).expand(4, 3), (6, 2))
    t.view_copy(t.ones(2), t.int32); t.index_fill(t.ones(3, 4).t(), 0, t.tensor([1]), 5).stride()
    t.gather(t.ones(3, 4).t(), 0, t.zeros(3, 2).long().t()).stride()
    t.rot90(t.ones(3, 4).t(), 4).stride(); t.rot90(t.ones(3, 4).t(), 1).stride(); t.rot90(t.ones(3, 4).t(), 2).stride()
    t.masked_scatter(t.ones(2, 3), t.ones(2) > 0, t.ones(6))
"""


def calls(text):
    return [c.strip() for line in text.strip().splitlines() for c in line.split(";")]


def assert_the_same(code, **operands):
    function = eval(f"lambda t, x=None, b=None: {code}")
    with quiet():
        expected, theirs = attempt(function, torch, **{k: v(torch) for k, v in operands.items()})
        found, ours = attempt(function, tdt, **{k: v(tdt) for k, v in operands.items()})
    assert error_difference(ours, theirs) is None
    if theirs is None:
        assert difference(found, expected) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("code", calls(OF_EVERY_DTYPE))
def test_what_an_op_takes_of_a_dtype_is_pytorchs(code, dtype):
    assert_the_same(
        code, x=lambda t: t.tensor([1, 0, 1]).to(getattr(t, dtype)), b=lambda t: t.tensor([True, False, True])
    )


OF_ALL = OF_NOTHING, OF_OTHER_LAYOUTS, OF_BIASES, OF_REPEATS, OF_INDICES, OF_WRONG_INDICES, OF_OVERLAPS


@pytest.mark.parametrize("code", [c for text in OF_ALL for c in calls(text)])
def test_results_of_empty_expanded_and_transposed_tensors_biases_repeats_and_indices_are_pytorchs(code):
    assert_the_same(code)


@pytest.mark.parametrize("name", ["argmax", "argmin", "prod", "aminmax"])
@pytest.mark.parametrize("dim", [(), (0,), [], [1], 1.0, True])
def test_what_is_no_dimension_is_refused_in_every_call(name, dim):
    for x in (tdt.ones(3, 4), tdt.tensor(1.0)):
        for _ in range(FEW_CALLS + 3):
            with pytest.raises(TypeError, match="must be int"):
                getattr(x, name)(dim=dim)


def test_batch_norm_of_an_empty_batch_leaves_the_running_statistics_alone():
    mean, variance = tdt.zeros(2), tdt.ones(2)
    weight = tdt.full((2,), 2.0, requires_grad=True)
    tdt.nn.functional.batch_norm(tdt.empty(0, 2, 3), mean, variance, weight, training=True).sum().backward()
    assert mean.tolist() == weight.grad.tolist() == [0, 0]
    assert variance.tolist() == [1, 1]


def test_an_index_with_more_parts_than_dimensions_is_refused():
    for key in ((slice(None), ..., slice(None)), (slice(None), slice(None)), (..., slice(None), slice(None))):
        with pytest.raises(IndexError):
            tdt.zeros(3)[key] = 5
    x = tdt.zeros(3)
    x[..., :] = 5
    assert x.tolist() == [5, 5, 5]


@pytest.mark.parametrize("kernels", [True, False])
def test_gradients_at_zero_are_pytorchs(kernels):
    results = []
    for t in (tdt, torch):
        with tdt.backends.kernels(kernels):
            x, y = (
                t.tensor(v, requires_grad=True) for v in ([0.0, -0.0, 0.0, 1e-30, 1.0], [0.0, 0.0, 2.0, 1e-30, 0.0])
            )
            angle, elu = t.atan2(x, y).sum(), t.nn.functional.elu(x, 0.5)
            (slope,) = t.autograd.grad(elu.sum(), x, create_graph=True)
            found = [*t.autograd.grad(angle, [x, y], create_graph=True), *t.autograd.grad(angle, [x, y])]
            results.append([g.tolist() for g in (*found, slope, *t.autograd.grad((slope * slope).sum(), x))])
    assert results[0] == results[1]


FACTORS = [
    128,
    -128,
    -129,
    200,
    256,
    300,
    -1,
    -200,
    -255,
    -256,
    40_000,
    -(2**31),
    2**40,
    2**63,
    -(2**63),
    1e39,
    math.inf,
    True,
]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float32", "float64", "bool"])
@pytest.mark.parametrize("name", ["add", "sub", "add_", "sub_"])
def test_factors_that_a_dtype_cannot_hold_are_refused(name, dtype):
    for alpha in FACTORS:
        outcomes = []
        for lib in (tdt, torch):
            x = lib.ones(2, dtype=getattr(lib, dtype))
            result, error = attempt(getattr(lib.Tensor, name), x, x.clone(), alpha=alpha)
            outcomes.append((type(error), str(error).partition(".")[0]) if error else result.tolist())
        assert outcomes[0] == outcomes[1], alpha


def test_the_error_of_a_difference_of_bools_is_pytorchs():
    for call in (lambda t, x: x - x, lambda t, x: x - 1, lambda t, x: 1 - x, lambda t, x: x - t.ones(1)):
        (_, ours), (_, theirs) = (attempt(call, lib, lib.ones(1, dtype=lib.bool)) for lib in (tdt, torch))
        assert str(ours) == str(theirs)


NODES = {
    "zero_": lambda t, x: x.zero_(),
    "fill_": lambda t, x: x.fill_(2),
    "fill_ by a tensor": lambda t, x: x.fill_(t.tensor(2.0)),
    "fill": lambda t, x: t.fill(x, 2),
    "uniform_": lambda t, x: x.uniform_(),
    "normal_": lambda t, x: x.normal_(),
    "log_normal_": lambda t, x: x.log_normal_(),
    "bernoulli_": lambda t, x: x.bernoulli_(0.5),
    "random_": lambda t, x: x.random_(),
    "random_ of a range": lambda t, x: x.random_(2, 5),
    "a number divided": lambda t, x: 1 / x,
    "divided by a number": lambda t, x: x / 2,
    "a number to a power": lambda t, x: 2**x,
    "a power": lambda t, x: x**x,
    "cross_entropy of probabilities": lambda t, x: t.nn.functional.cross_entropy(x, t.ones(2, 3) / 3, weight=t.ones(3)),
    "ctc_loss": lambda t, x: t.nn.functional.ctc_loss(
        x.view(2, 1, 3).log_softmax(-1), t.tensor([[1]]), [2], [1], reduction="none"
    ),
}


@pytest.mark.parametrize("call", NODES.values(), ids=NODES)
def test_nodes_have_pytorchs_names(call):
    names = []
    for lib in (tdt, torch):
        x = lib.ones(2, 3, requires_grad=True)
        names.append(call(lib, x * 1).grad_fn.name())
    assert names[0] == names[1]


def test_zero_in_place_leaves_the_name_of_a_node_that_it_does_not_follow():
    x = tdt.ones(2, requires_grad=True) * 2
    with tdt.no_grad():
        x.zero_()
    assert x.grad_fn.name() == "MulBackward0"


LARGE_INTEGERS = """
    x + n; n - x; x * -n; x / n; n / x; x < n; x == -n; x**n; n**x; x % n; n // x; t.fmod(x, n); t.add(x, n); t.sub(x, x, alpha=n)
    t.add(x, x, alpha=-n); t.where(x > 1, x, n); x.add_(n); x.mul_(n); t.clamp(x, max=n); x.masked_fill(x > 1, n)
    x.repeat(40000) + n; x.repeat(40000) % n; x.repeat(40000).mul_(n); x.__setitem__(0, n); x.__setitem__(slice(None), -n)
    x.__setitem__(0, n - 1); x.__setitem__(t.tensor([0]), n // 2); x.__setitem__(0, n // 2 - 1)
"""


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "uint8", "complex64"])
@pytest.mark.parametrize(
    "expression", [each.strip() for each in LARGE_INTEGERS.replace("\n", ";").split(";") if each.strip()]
)
def test_integers_of_more_than_64_bits_are_refused_as_in_pytorch(expression, dtype):
    found = []
    for lib in (tdt, torch):
        x = lib.tensor([1, 2]).to(getattr(lib, dtype))
        result, error = attempt(eval, expression, {"t": lib, "x": x, "n": 2**64})
        found.append(type(error) if error else str(result).replace("torch.", "tdt."))
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("name", ["add_", "sub_", "mul_"])
def test_integers_of_more_than_64_bits_are_refused_after_others(name, dtype):
    for n in (2**63, 2**64, -(2**63), -(2**63) - 1, 2**70):
        found = []
        for lib in (tdt, torch):
            x = lib.ones(3, dtype=getattr(lib, dtype))
            for _ in range(6):
                getattr(x, name)(2)
            _, error = attempt(getattr(x, name), n)
            found.append((type(error), x.tolist()))
        assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_counts_of_shifts_wrap_round_as_in_pytorch(dtype):
    for n in (0, 3, 8, 300, 256, 257, -1, 2**16 + 2, 2**31, 2**32 + 1, 2**62):
        for name in ("bitwise_left_shift", "bitwise_right_shift"):
            ours, theirs = (
                [getattr(x, name)(n).tolist() for _ in range(3)] + [getattr(x, f"{name}_")(n).tolist()]
                for x in (lib.tensor([5, 100, 0]).to(getattr(lib, dtype)) for lib in (tdt, torch))
            )
            assert ours == theirs, (name, n)


LIMITS = """
    t.max(x, dim=t.tensor(0)); x.min(dim=t.tensor(1, dtype=t.int32)); t.max(x, dim=t.tensor(-1), keepdim=True)
    t.max(x, dim=t.tensor([1])); t.max(x, dim=t.tensor(1.0)); t.min(x, dim=t.tensor(True)); t.max(x, dim=t.tensor(7))
    t.max(x, t.tensor(0)); t.max(x, t.tensor(0), True); t.min(x, x.flip(0)); t.max(x, other=t.tensor(3.0))
    x.index_put_((t.tensor(True),), t.tensor(5.0)); x.index_put_((t.tensor(False),), t.tensor(5.0))
    x.index_put((t.tensor(True),), t.tensor(5.0)); x.index_put_((t.tensor(True),), t.ones(1))
    x.index_put_((t.tensor(True), t.tensor(0)), t.ones(3)); x.index_put_((t.tensor(True), t.tensor([0, 1])), t.ones(3))
    x.index_put_((t.tensor(0), t.tensor(True)), t.ones(3)); x.index_put_((t.tensor(False), t.tensor(0)), t.ones(3))
    t.nn.functional.conv1d(t.ones(1, 0, 5), t.ones(2, 0, 3)); t.nn.functional.conv1d(t.ones(0, 5), t.ones(2, 0, 3), t.ones(2))
    t.nn.functional.conv2d(t.ones(3, 0, 5, 5), t.ones(2, 0, 3, 3), stride=2, padding=1)
    t.nn.Conv3d(0, 2, 1)(t.ones(1, 0, 2, 2, 2))
    t.nn.functional.conv2d(t.ones(3, 0, 1, 1), t.ones(2, 0, 3, 3)); t.nn.functional.conv2d(t.ones(3, 0, 5, 5), t.ones(2, 2, 3, 3))
    t.nn.functional.conv1d(t.ones(1, 0, 5).bfloat16(), t.ones(3, 0, 3).bfloat16(), groups=3)
    x.unfold(1, 2, 2**62); x.unfold(1, 3, 2**63 - 1); x.unfold(1, 2, 2**63); x.unfold(1, 0, 2**62); t.unfold_copy(x, 1, 2, 2**61)
    t.logsumexp(x, ()); t.logsumexp(x, dim=(), keepdim=True); t.logsumexp(x[0, 0], ()); t.logsumexp(x[:0], ()); x.logsumexp([])
    t.logsumexp(x, None); t.logsumexp(x, (0, 1)); t.logsumexp(x, 1)
    t.pixel_unshuffle(t.ones(0, 4, 2, 2), 2); t.pixel_unshuffle(t.ones(1, 0, 2, 2), 2); t.pixel_unshuffle(t.ones(1, 4, 0, 2), 2)
    t.pixel_unshuffle(t.ones(4, 0, 0), 2); t.pixel_unshuffle(t.ones(0, 3, 3), 2); t.pixel_shuffle(t.ones(0, 4, 2, 2), 2)
    t.pixel_shuffle(t.ones(1, 4, 0, 2), 2); t.pixel_shuffle(t.ones(1, 0, 2, 2), 2)
    t.all(x, []); t.any(x, dim=[], keepdim=True); x.all([]); x.all(()); t.all(x[:0], []); t.tensor(2j).adjoint()
    t.ones(3).adjoint(); t.tensor(2j).mH; t.tensor(2.0).mH; t.ones(3).mH; t.distributions.Multinomial(-1, t.ones(2))
    i & f; i | f; i ^ f; f & f; f | 1; 1.5 ^ i; i.bitwise_and_(f); i.bitwise_or_(1.5); i.bitwise_xor_(t.tensor(1.0)); i.gcd_(f)
    i.bitwise_left_shift_(1.5); t.bitwise_and(i, 1.5, out=i); (i > 0).bitwise_and_(f); i.bitwise_and_(f.to(t.complex64))
"""


@pytest.mark.parametrize("expression", [each.strip() for each in LIMITS.replace("\n", ";").split(";") if each.strip()])
def test_arguments_at_a_limit_give_pytorchs_results_or_errors(expression):
    found = []
    for lib in (tdt, torch):
        names = {"t": lib, "x": lib.arange(6.0).view(2, 3), "i": lib.tensor([6, 5]), "f": lib.ones(2)}
        found.append(attempt(eval, expression, names))
    (ours, our_error), (theirs, their_error) = found
    assert type(our_error) is type(their_error)
    assert not difference(ours, theirs)


INFINITE = [
    [1.0, math.inf], [math.inf, 1.0], [math.inf, math.inf], [math.inf], [1.0, -math.inf, 2.0], [1.0, math.nan, math.inf],
    [[1.0, math.inf], [2.0, 3.0]], [[math.inf, 1.0], [2.0, -math.inf]], [[1.0] * 20 + [math.inf]] * 3,
]  # fmt: skip


@pytest.mark.parametrize("values", INFINITE, ids=range(len(INFINITE)))
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_means_beside_variances_of_infinities_are_pytorchs(values, dtype):
    for how in ({}, {"dim": 0}, {"dim": -1, "keepdim": True}, {"correction": 0}):
        found = []
        for lib in (tdt, torch):
            x = lib.tensor(values).to(getattr(lib, dtype))
            found.append(
                [str(each).replace("torch.", "tdt.") for each in (*lib.var_mean(x, **how), *lib.std_mean(x, **how))]
            )
        assert found[0] == found[1], how


@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("place", [0, 1])
def test_running_statistics_that_require_grad_are_refused(name, training, place):
    for lib in (tdt, torch):
        running = [lib.zeros(3), lib.ones(3)]
        running[place].requires_grad_()
        norm, x = getattr(lib.nn.functional, name), lib.arange(24.0).reshape(2, 3, 4)
        flags = {"training" if name == "batch_norm" else "use_input_stats": training}
        with pytest.raises(RuntimeError, match=["running_mean", "running_var"][place]):
            norm(x, *running, **flags)
        with lib.no_grad():
            norm(x, *running, **flags)


@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_gradients_of_scattered_extremes_that_are_nan_are_pytorchs(reduce, include_self):
    rows = [[1.0, math.nan, 2.0, 2.0], [math.nan, math.nan, 0.0, 1.0]]
    for create_graph in (False, True):
        found = []
        for lib in (tdt, torch):
            x = lib.tensor([[0.0, math.nan, 7.0, 0.0], [0.0, 0.0, 5.0, 0.0]], requires_grad=True)
            src, index = lib.tensor(rows, requires_grad=True), lib.tensor([[0, 1, 2, 2], [1, 0, 2, 2]])
            out = x.scatter_reduce(1, index, src, reduce, include_self=include_self)
            found.append([str(g.detach()) for g in lib.autograd.grad(out.sum(), (x, src), create_graph=create_graph)])
        assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "bool", "float32"])
@pytest.mark.parametrize(("rtol", "atol"), [(300, 5), (2, 0), (1 << 40, 0), (0, 100), (0.5, 0)])
def test_whole_tolerances_are_as_others_for_every_dtype(dtype, rtol, atol):
    found = []
    for lib in (tdt, torch):
        x, y = (
            lib.tensor([1, 0, 3, 100], dtype=getattr(lib, dtype)),
            lib.tensor([1, 5, 2, 20], dtype=getattr(lib, dtype)),
        )
        found.append([lib.isclose(a, b, rtol, atol).tolist() for a, b in ((x, y), (y, x))])
    assert found[0] == found[1]
