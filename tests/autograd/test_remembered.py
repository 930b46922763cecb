"""`calls_one_op`: a call that is remembered gives what the first one gave."""

import math

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels import _threads
from tdt.autograd import _call_counts
from tdt.autograd._remembered import calls_by_shape
from tests.helpers import require_torch


def bits(x):
    return x.numpy().tobytes(), x.dtype, x.shape


@pytest.fixture(params=[False, True], ids=["", "shared"])
def shared(request, monkeypatch):
    """Whether two threads share the work from two elements on."""
    if request.param:
        for name in ("PARALLEL", "PARALLEL_ELEMENTWISE"):
            monkeypatch.setattr(_threads, name, 2)
    before = tdt.get_num_threads()
    tdt.set_num_threads(2)
    yield
    monkeypatch.undo()
    tdt.set_num_threads(before)


CALLS = {
    "clamp": lambda t, x, y: t.clamp(x, 0.25, 0.75),
    "clamp by tensors": lambda t, x, y: t.clamp(x, y, max=None),
    "clamp_max": lambda t, x, y: x.clamp_max(0.5),
    "addcmul": lambda t, x, y: t.addcmul(x, y, x, value=3),
    "lerp": lambda t, x, y: t.lerp(x, y, 0.3),
    "where": lambda t, x, y: t.where(y > 0.5, 1.0, x),
    "celu": lambda t, x, y: t.celu(x - 0.5, 2.0),
    "gelu": lambda t, x, y: t.nn.functional.gelu(x, approximate="tanh"),
    "round": lambda t, x, y: t.round(x),
    "masked_fill": lambda t, x, y: x.masked_fill(y > 0.5, 3),
    "nextafter": lambda t, x, y: t.nextafter(x, y),
    "nan_to_num": lambda t, x, y: t.nan_to_num(x / 0, posinf=3.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_later_calls_and_their_gradients_are_pytorchs(name, shared):
    torch = require_torch()
    call = CALLS[name]
    values = tdt.rand(2, 3, 4).numpy()
    for shape in ((3, 4), (12,), (2, 6)):
        found = []
        for t in (tdt, torch):
            x, y = (t.from_numpy(v.reshape(shape).copy()) for v in values)
            with t.no_grad():
                first, second = call(t, x, y), call(t, x, y)
            x.requires_grad_()
            third, fourth = call(t, x, y), call(t, x, y)
            fourth.sum().backward()
            assert bits(first) == bits(second) == bits(third.detach()) == bits(fourth.detach())
            found.append((first.numpy(), x.grad.numpy(), third.grad_fn.name(), fourth.grad_fn.name()))
        assert found[0][0] == pytest.approx(found[1][0], rel=1e-6, nan_ok=True)
        assert found[0][1] == pytest.approx(found[1][1], rel=1e-5, nan_ok=True)
        assert found[0][2:] == found[1][2:]


@pytest.mark.parametrize("alpha", [2.7, 3])
@pytest.mark.parametrize("dtype", [tdt.bfloat16, tdt.float16])
def test_half_precision_is_rounded_once_by_later_calls_too(dtype, alpha, shared):
    x, y = tdt.rand(2, 40).to(dtype)
    first, *later = [tdt.add(x, y, alpha=alpha) for _ in range(6)]
    assert first.dtype is dtype and all(bits(first) == bits(result) for result in later)


def test_later_calls_look_at_values_that_decide():
    x, y = tdt.rand(2, 3, 3, 3)
    for dims in (1, 2, 1, 2):
        assert tdt.tensordot(x, y, tdt.tensor(dims)).ndim == 6 - 2 * dims
    for _ in range(3):
        tdt.linalg.matrix_power(tdt.eye(3), -1)
        with pytest.raises(tdt.linalg.LinAlgError):
            tdt.linalg.matrix_power(tdt.ones(3, 3), -1)


def test_equal_numbers_of_other_kinds_are_other_calls():
    x = tdt.tensor([-1.0, -0.0, 2.0])
    for _ in range(2):
        assert math.copysign(1, tdt.clamp(x, -0.0, 1.0)[0]) == -1
        assert math.copysign(1, tdt.clamp(x, 0.0, 1.0)[0]) == 1
    whole = tdt.tensor([1, 5])
    for _ in range(2):
        assert tdt.where(whole > 2, whole, 1).dtype is tdt.int64
        assert tdt.where(whole > 2, whole, 1.0).dtype is tdt.float32


def test_a_remembered_call_keeps_errors_out_and_modes():
    x, y = tdt.rand(3), tdt.rand(3)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="The size of tensor a .3. must match the size of tensor b .2."):
            tdt.lerp(x, tdt.rand(2), 0.5)
        with pytest.raises(TypeError, match="argument 'weight'"):
            tdt.lerp(x, y, "half")
    out = tdt.empty(3)
    assert tdt.clamp(x, 0.1, 0.2, out=out) is out
    assert bits(tdt.clamp(x, 0.1, 0.2)) == bits(out)
    with tdt.inference_mode():
        assert tdt.clamp(x, 0.1, 0.2).is_inference()
    assert tdt.clamp(x.half(), 0.1, 0.2).dtype is tdt.float16
    turned = tdt.rand(4, 3).t()
    assert tdt.clamp(turned, 0.1, 0.2).stride() == turned.stride()


def test_the_node_is_named_when_the_first_call_was_of_a_view_without_gradient():
    assert tdt.celu(tdt.rand(3, 3)[0]).grad_fn is None
    doubled = (tdt.rand(3, requires_grad=True) * 2)[:2]
    for _ in range(3):
        assert tdt.celu(doubled).grad_fn.name() == "CeluBackward0"


def test_switching_kernels_forgets_calls():
    x = tdt.rand(5)
    found = bits(tdt.clamp(x, 0.3, 0.6))
    before = tdt.backends.kernels.enabled()
    try:
        for on in (False, True, False):
            tdt.backends.kernels(on)
            assert bits(tdt.clamp(x, 0.3, 0.6)) == bits(tdt.clamp(x, 0.3, 0.6)) == found
    finally:
        tdt.backends.kernels(before)


@pytest.mark.parametrize("call", [
    lambda t, x: x * 1.5, lambda t, x: x / x, lambda t, x: t.sin(x), lambda t, x: t.clamp(x, 0, 1.5), lambda t, x: t.logit(x),
    lambda t, x: t.where(x > 1, x, 1.5), lambda t, x: x * 1j, lambda t, x: t.nn.functional.mse_loss(x * 2.0, x * 1.0),
])  # fmt: skip
def test_the_default_dtype_is_that_of_each_call(call):
    dtypes = []
    for t in (tdt, require_torch()):
        x, found = t.tensor([1, 2]), []
        try:
            for default in (t.float32, t.float64, t.bfloat16, t.float32):
                t.set_default_dtype(default)
                found += [str(call(t, x).dtype).split(".")[1] for _ in range(3)]
        finally:
            t.set_default_dtype(t.float32)
        dtypes.append(found)
    assert dtypes[0] == dtypes[1]


SHAPES = {
    "layer_norm": lambda t, x, i: t.nn.functional.layer_norm(x, (6,), None, x[0]),
    "group_norm": lambda t, x, i: t.nn.functional.group_norm(x.reshape(2, 4, 3, 2), 2),
    "instance_norm": lambda t, x, i: t.nn.functional.instance_norm(x.reshape(2, 4, 6)),
    "huber_loss": lambda t, x, i: t.nn.functional.huber_loss(x, x.detach().flip(0), delta=0.5),
    "mse_loss": lambda t, x, i: t.nn.functional.mse_loss(x, x.detach().flip(0), reduction="none"),
    "soft_margin_loss": lambda t, x, i: t.nn.functional.soft_margin_loss(x, x.detach().sign(), reduction="sum"),
    "logits": lambda t, x, i: t.nn.functional.binary_cross_entropy_with_logits(x, x.detach().sigmoid()),
    "kl_div": lambda t, x, i: t.nn.functional.kl_div(x, x.detach().softmax(1), reduction="batchmean"),
    "batch_norm": lambda t, x, i: t.nn.functional.batch_norm(x.reshape(2, 4, 3, 2), None, None, training=True),
    "avg_pool2d": lambda t, x, i: t.nn.functional.avg_pool2d(x.reshape(2, 1, 4, 6), 2, padding=1),
    "avg_pool2d of lines": lambda t, x, i: t.nn.functional.avg_pool2d(
        x.reshape(2, 2, 3, 4), (1, 3), (1, 2), ceil_mode=True
    ),
    "max_pool2d of tiles": lambda t, x, i: t.nn.functional.max_pool2d(x.reshape(2, 2, 2, 6), 2),
    "max_pool2d of far windows": lambda t, x, i: t.nn.functional.max_pool2d(x.reshape(2, 1, 4, 6), 1, stride=3),
    "max_pool2d": lambda t, x, i: t.nn.functional.max_pool2d(x.reshape(2, 1, 4, 6), (2, 3), stride=1),
    "adaptive": lambda t, x, i: t.nn.functional.adaptive_avg_pool2d(x.reshape(2, 1, 4, 6), 1),
    "max_pool1d": lambda t, x, i: t.nn.functional.max_pool1d(x.reshape(2, 4, 6), 3, 2, 1, ceil_mode=True),
    "avg_pool1d": lambda t, x, i: t.nn.functional.avg_pool1d(x.reshape(2, 4, 6), 3, 2, 1, count_include_pad=False),
    "avg_pool1d of all": lambda t, x, i: t.nn.functional.avg_pool1d(x.reshape(2, 4, 6), 6),
    "adaptive_max": lambda t, x, i: t.nn.functional.adaptive_max_pool2d(x.reshape(2, 1, 4, 6), (3, 4)),
    "pad": lambda t, x, i: t.nn.functional.pad(x, (1, -2, 0, 1), value=2.0),
    "glu": lambda t, x, i: t.nn.functional.glu(x, 0),
    "embedding": lambda t, x, i: t.nn.functional.embedding(i[0], x),
    "embedding by a column": lambda t, x, i: t.nn.functional.embedding(i[:, 0], x),
    "two indices": lambda t, x, i: x[i[0], i[:6, 0]],
    "gather": lambda t, x, i: x.gather(1, i),
    "gather along rows": lambda t, x, i: t.gather(x, 0, index=i),
    "scatter_add": lambda t, x, i: x.scatter_add(1, i, x),
    "scatter_add to fewer": lambda t, x, i: t.ones(8, 7).scatter_add(1, i, x),
    "scatter_add by a column": lambda t, x, i: t.ones(7, 6).scatter_add(0, i[:, :1].expand(-1, 6), x),
    "scatter_add by a row of turned": lambda t, x, i: t.ones(6, 7).scatter_add(1, i[:, 0].expand(6, -1), x.t()),
    "scatter_reduce by a column": lambda t, x, i: t.ones(7, 6).scatter_reduce(0, i[:, :1].expand(-1, 6), x, "sum"),
    "nll_loss": lambda t, x, i: t.nn.functional.nll_loss(x, i[:, 0], ignore_index=1),
    "nll_loss of each": lambda t, x, i: t.nn.functional.nll_loss(x, i[:, 0], x.detach()[0], reduction="none"),
    "embedding but one": lambda t, x, i: t.nn.functional.embedding(i, x, padding_idx=2),
    "index_select": lambda t, x, i: x.index_select(0, i[0]),
    "bilinear": lambda t, x, i: t.nn.functional.interpolate(x.reshape(1, 2, 4, 6), scale_factor=2, mode="bilinear"),
    "nearest": lambda t, x, i: t.nn.functional.interpolate(x.reshape(1, 2, 4, 6), size=(3, 9)),
    "tril": lambda t, x, i: t.tril(x, -1),
    "dist": lambda t, x, i: t.dist(x, x.flip(0)),
    "pdist": lambda t, x, i: t.pdist(x),
    "cosine_similarity": lambda t, x, i: t.cosine_similarity(x, x.flip(0), dim=0),
    "cosine_similarity of small": lambda t, x, i: t.cosine_similarity(x * 1e-9, x.flip(0), eps=1e-3),
    "polar": lambda t, x, i: t.polar(x, x.flip(0)).real,
    "ldexp": lambda t, x, i: t.ldexp(x, x),
    "cross_entropy": lambda t, x, i: t.nn.functional.cross_entropy(x, i[:, 0], label_smoothing=0.0),
    "cross_entropy of probabilities": lambda t, x, i: t.nn.functional.cross_entropy(x, x.detach(), reduction="sum"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_later_calls_by_shape_and_their_gradients_are_pytorchs(name, shared):
    torch = require_torch()
    call = SHAPES[name]
    for _ in range(3):
        values, places = tdt.randn(8, 6).numpy(), tdt.randint(0, 6, (8, 6)).numpy()
        found = []
        for t in (tdt, torch):
            x, i = t.from_numpy(values.copy()), t.from_numpy(places)
            with t.no_grad():
                first, second = call(t, x, i), call(t, x, i)
            x.requires_grad_()
            third, fourth = call(t, x, i), call(t, x, i)
            for _ in range(2):
                call(t, x, i).backward(t.ones_like(fourth))
            x.grad = None
            fourth.backward(t.ones_like(fourth) * 2)
            if t is tdt:
                assert bits(first) == bits(second) == bits(third.detach()) == bits(fourth.detach())
            assert third.grad_fn.name() == fourth.grad_fn.name()
            found.append((first.numpy(), x.grad.numpy(), first.stride()))
        assert found[0][0] == pytest.approx(found[1][0], rel=1e-5, abs=1e-6)
        assert found[0][1] == pytest.approx(found[1][1], rel=1e-4, abs=1e-5)
        assert found[0][2:] == found[1][2:]


def normed(t, x, w, b):
    f, mean, var = t.nn.functional, t.zeros(4), t.ones(4)
    image = x.reshape(2, 4, 3, 2)
    return {
        "layer": lambda: f.layer_norm(x, (6,), x[0] * 0 + 1 if w is None else w.repeat(2)[:6], None),
        "batch": lambda: f.batch_norm(image, mean, var, w, b, True),
        "rows": lambda: f.batch_norm(x.reshape(12, 4), mean, var, w, b, True, momentum=0.25),
        "group": lambda: f.group_norm(image, 2, w, b),
        "logits": lambda: f.binary_cross_entropy_with_logits(x, x.detach().abs() / 9, reduction="none"),
        "absolute": lambda: f.l1_loss(x, x.detach() - 1, reduction="none"),
    }


@pytest.mark.parametrize("needs", ["xwb", "x", "wb", "xb"])
@pytest.mark.parametrize("name", normed(tdt, tdt.ones(8, 6), None, None))
def test_prepared_gradients_are_those_of_the_first_calls(name, needs, shared):
    """Each call's backward is prepared from the second on; a gradient of other strides, or a second one, is not."""
    if name in ("logits", "absolute") and "x" not in needs:
        needs = "x" + needs
    found = {}
    for t in (tdt, require_torch()):
        random = np.random.default_rng(0)
        x, w, b = (t.tensor(random.standard_normal(n), dtype=t.float32) for n in ((8, 6), 4, 4))
        leaves = [v.requires_grad_() for v, k in zip((x, w, b), "xwb", strict=True) if k in needs]
        used = [
            v for v in leaves if v is x or name not in ("logits", "absolute", "layer") or (v is w and name == "layer")
        ]
        call = normed(t, x, w, b)[name]
        first = call()
        g = t.tensor(random.standard_normal(tuple(first.shape)), dtype=t.float32)
        turned = g.transpose(0, -1).contiguous().transpose(0, -1)
        one = t.ones(()).expand(first.shape)
        results = found[t] = [
            list(t.autograd.grad(call(), used, v)) for v in (g, g, g, turned, turned, turned, one, one)
        ]
        twice = [t.autograd.grad(call(), used, g, create_graph=True)[0] for _ in range(2)]
        results += [list(t.autograd.grad((v * v).sum(), used, allow_unused=True)) for v in twice if v.requires_grad]
        if t is tdt:
            for alike in (results[:3], results[3:6]):
                assert len({tuple(map(bits, each)) for each in alike}) == 1
        saved = call()
        results += [list(t.autograd.grad(saved, used, g, retain_graph=True)) for _ in range(2)]
        if "x" in needs and name != "absolute":
            changed = call()
            with t.no_grad():
                x.mul_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                changed.backward(g)
    for ours, theirs in zip(*found.values(), strict=True):
        for a, b in zip(ours, theirs, strict=True):
            a, b = (0.0 if v is None else v.numpy(force=True) for v in (a, b))  # where all is 0, one library gives None
            assert a + 0 * b == pytest.approx(b + 0 * a, rel=1e-4, abs=2e-5)


def test_an_index_out_of_range_is_refused_in_later_calls_too():
    x, good, bad = tdt.ones(8, 8), tdt.zeros(8, 8, dtype=tdt.int64), tdt.full((8, 8), 8)
    for index in (good, good, bad, good):
        for call, error in ((x.gather, RuntimeError), (lambda d, i: x.scatter_add(d, i, x), RuntimeError),
                            (lambda d, i: x.index_select(d, i[0]), IndexError),
                            (lambda d, i: x.scatter_add(d, i[:, :1].expand(-1, 8), x), RuntimeError),
                            (lambda d, i: x.scatter_reduce(d, i[:, :1].expand(-1, 8), x, "amax"), RuntimeError),
                            (lambda d, i: x[i[0], i[1]], IndexError),
                            (lambda d, i: tdt.nn.functional.embedding(i[0], x), IndexError),
                            (lambda d, i: tdt.nn.functional.embedding(i[:, 0], x), IndexError),
                            (lambda d, i: tdt.nn.functional.cross_entropy(x, i[0]), IndexError)):  # fmt: skip
            if index is bad:
                with pytest.raises(error, match=r"out of (bounds|range)"):
                    call(0, index)
            else:
                call(0, index)


def test_calls_by_shape_tell_memory_formats_apart():
    x = tdt.randn(2, 1, 4, 4)
    last = x.to(memory_format=tdt.channels_last)
    for _ in range(2):
        for y in (x, last, x.transpose(2, 3)):
            assert tdt.nn.functional.max_pool2d(y, 2).equal(tdt.nn.functional.max_pool2d(y.contiguous(), 2))
            assert tdt.nn.functional.interpolate(y, size=8, mode="bilinear")[0, 0].equal(
                tdt.nn.functional.interpolate(y.contiguous(), size=8, mode="bilinear")[0, 0]
            )


def test_tables_of_embeddings_are_normalised_in_every_call():
    table = tdt.ones(4, 9)
    for _ in range(3):
        table.fill_(1.0)
        assert tdt.nn.functional.embedding(tdt.arange(4), table, max_norm=1.0).norm() == pytest.approx(2)


def test_a_function_that_writes_to_its_own_results_is_not_remembered():
    from tdt.autograd._remembered import calls_by_shape

    @calls_by_shape
    def halved_twice(x):
        y = x * 0.5
        y.mul_(0.5)
        return y + 0

    for value in (4.0, 8.0, 12.0):
        assert halved_twice(tdt.full((3,), value)).tolist() == [value / 4] * 3


@pytest.mark.parametrize("name, arguments", [
    ("glu", {"dim": "a"}), ("group_norm", {"num_groups": 2, "bias": "a"}),
    ("layer_norm", {"normalized_shape": (4,), "eps": "a"}), ("max_pool1d", {"kernel_size": 2, "dilation": "a"}),
    ("max_pool2d", {"kernel_size": "a"}), ("max_pool3d", {"kernel_size": 2, "stride": "a"}),
])  # fmt: skip
def test_errors_tell_the_position_of_keywords_that_pytorch_passes_by_position(name, arguments):
    torch = require_torch()
    messages = []
    for t in (tdt, torch):
        with pytest.raises(TypeError) as error:
            getattr(t.nn.functional, name)(t.ones(1, 2, 4, 4, 4), **arguments)
        messages.append(str(error.value).partition(" must be")[0])
    assert messages[0] == messages[1]


@pytest.mark.parametrize("equation", [
    "bi,bi->b", "bi,bj->bij", "bij,bjk->bik", "bhid,bhjd->bhij", "bhij,bhjd->bhid", "bhwc,hkc->bhwk", "bn,anm,bm->ba",
    "...ij,...kj->...ki", "bij->b", "bij->jbi", "bii->bi", "bij,bij->", "ij,kl->kijl",
])  # fmt: skip
def test_later_calls_of_einsum_are_pytorchs_also_of_turned_operands(equation):
    torch = require_torch()
    sizes = dict(zip("abcdhijklmnw", (2, 3, 5, 4, 2, 3, 3, 4, 2, 5, 4, 3), strict=True))
    for turned in (False, True):
        for _ in range(3):
            inputs = []
            for names in equation.partition("->")[0].replace("...", "bh").split(","):
                shape = [sizes[c] for c in names]
                a = tdt.randn(shape[::-1] if turned else shape).numpy()
                inputs.append(a.T if turned else a)
            ours, theirs = (lib.einsum(equation, *[lib.from_numpy(a) for a in inputs]) for lib in (tdt, torch))
            assert ours.shape == theirs.shape
            tdt.testing.assert_close(ours, tdt.from_numpy(theirs.contiguous().numpy()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("equation", ["bij->jbi", "iij->ij"])
def test_what_einsum_only_views_stays_a_view_of_the_input(equation):
    for _ in range(3):
        x = tdt.zeros(3, 3, 4)
        tdt.einsum(equation, x).fill_(1.0)
        assert x.sum() == (36 if equation == "bij->jbi" else 12)


def test_a_view_of_what_einsum_computed_has_memory_of_its_own():
    x, y = tdt.ones(3, 4), tdt.ones(3, 4)
    for _ in range(3):
        out = tdt.einsum("bi,bi->b", x, y)
        out += 1
        assert out.tolist() == [5.0] * 3
        assert x.sum() == y.sum() == 12


def test_rows_of_large_tables_are_prepared_where_nothing_is_recorded(monkeypatch):
    from tdt._ops.nn import embedding

    values = np.arange(40_000 * 4, dtype=np.float32).reshape(-1, 4)
    table, general, check = tdt.from_numpy(values), [], embedding.check_embedding
    monkeypatch.setattr(embedding, "check_embedding", lambda *args: general.append(args) or check(*args))
    for start in (0, 39_000, 7, 100):
        index = tdt.arange(start, start + 3)
        general.clear()
        found = tdt.nn.functional.embedding(index, table)
        assert not start or not general
        np.testing.assert_array_equal(found.numpy(), values[start : start + 3])
        with pytest.raises(IndexError, match="out of range"):
            tdt.nn.functional.embedding(index - start - 1, table)
        with pytest.raises(IndexError, match="out of range"):
            tdt.nn.functional.embedding(index * 0 + 40_000, table)
    table.requires_grad_()
    for _ in range(3):
        table.grad = None
        tdt.nn.functional.embedding(tdt.tensor([5, 39_999, 5]), table).sum().backward()
        assert table.grad[5].tolist() == [2.0] * 4 and table.grad.sum() == 12


@pytest.mark.parametrize(
    "name",
    PAIRS := {
        "einsum": lambda x, y: tdt.einsum("ij,ij->i", x, y),
        "pairwise_distance": lambda x, y: tdt.pairwise_distance(x, y),
    },
)
def test_a_tensor_that_was_passed_twice_stands_for_no_other(name):
    pair, x, y = PAIRS[name], tdt.arange(12.0).cos().reshape(3, 4).clone(), tdt.arange(12.0).sin().reshape(3, 4).clone()
    same = [pair(x, x) for _ in range(3)]
    found = pair(x, y)
    for saved in _kernels.UFUNCS:
        saved.clear()
    tdt.testing.assert_close(found, pair(x, y))
    for each in same:
        tdt.testing.assert_close(each, pair(x, x.clone()))


@pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="portable code remembers no such calls")
@pytest.mark.parametrize("times", [1, 4])
def test_calls_of_a_tensor_passed_twice_are_remembered(times, monkeypatch):
    monkeypatch.setattr(_call_counts, "TIMES", times)
    calls = []

    @calls_by_shape
    def ratio(x, y, *, scale=1.0):
        calls.append(x)
        return tdt.div(tdt.exp(x), y) * scale

    x = tdt.tensor([1.0, 2.0])
    for _ in range(times + 4):
        assert ratio(x, y=x, scale=2.0).tolist() == (x.exp() / x * 2).tolist()
    assert len(calls) == times
    with pytest.raises(RuntimeError, match="size of tensor"):
        ratio(x, tdt.ones(3))


def test_an_op_of_a_tensor_passed_twice_keeps_the_order_of_its_arguments():
    @calls_by_shape
    def backwards(x, y):
        return tdt.pow(y, x)

    x, y = tdt.tensor([1.0, 2.0]), tdt.tensor([3.0, 5.0])
    for recorded in (False, True):
        x.requires_grad_(recorded)
        for _ in range(3):
            backwards(x, x)
        assert backwards(x, y).tolist() == [3.0, 25.0]


def test_another_thread_may_forget_plans_while_a_call_is_watched():
    @calls_by_shape
    def hyperbolic(x):
        result = tdt.nn.functional.hardtanh(x)
        for saved in _kernels.UFUNCS:
            saved.clear()
        return result

    for _ in range(3):
        x = tdt.tensor([0.5, 2.0], requires_grad=True)
        hyperbolic(x).sum().backward()
        assert x.grad.tolist() == [1.0, 0.0]


def test_a_view_of_what_needs_no_gradient_is_computed_as_its_values():
    """A view is recorded only if its base, or it itself, has a gradient: before, at every write, and after it."""
    base = tdt.zeros(2, 3)
    view = base[1:]
    for _ in range(4):
        assert not tdt.nn.functional.softplus(view, 2.0).requires_grad
        assert not (view + view).requires_grad
    base.add_(tdt.ones(3, requires_grad=True))
    for _ in range(4):
        assert tdt.nn.functional.softplus(view, 2.0).requires_grad
        out = (view * view).sum()
        assert out.requires_grad and out.item() == 3
        (gradient,) = tdt.autograd.grad(view.sum(), base)
        assert gradient.tolist() == [[0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("kind", ["GRUCell", "LSTMCell", "RNNCell"])
def test_later_steps_of_cells_are_the_first_on_several_threads(kind, grad):
    """Of weights that are so many that threads share them: nothing is prepared for these."""
    before = tdt.get_num_threads()
    try:
        tdt.set_num_threads(2)
        cell, x = getattr(tdt.nn, kind)(150, 128), tdt.randn(4, 150)
        with tdt.set_grad_enabled(grad):
            steps = [cell(x) for _ in range(7)]
        states = [step if isinstance(step, tuple) else (step,) for step in steps]
        assert len({tuple(map(bits, [s.detach() for s in each])) for each in states}) == 1
        if grad:
            gradients = [tdt.autograd.grad(each[-1].sum(), [*cell.parameters()]) for each in states]
            assert len({tuple(map(bits, each)) for each in gradients}) == 1
    finally:
        tdt.set_num_threads(before)


def test_a_short_way_is_prepared_for_the_fourth_call_of_a_kind(monkeypatch):
    monkeypatch.setattr(_call_counts, "TIMES", 4)
    counts = _call_counts.CallCounts()
    assert [counts.often(kind) for kind in "aabaaab"] == [False, False, False, False, True, False, False]
