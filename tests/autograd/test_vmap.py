"""`vmap` for all entries at once: what each entry gives alone, and what PyTorch gives."""

import importlib

import numpy as np
import pytest

import tdt
import tdt.func
from tdt import _batching
from tests.helpers import require_torch

torch = require_torch()
importlib.import_module("torch.func")

# Functions of x (3, 4), y (4, 5), v (4,), k (3,) of int64, c (2, 3, 6, 6), for each entry, and w (5, 4), which all entries share.
FUNCTIONS = {
    "elementwise": lambda t, x, y, v, k, c, w: (x * v + 1).sin() / (x.abs() + 2) - v[0] * x[0],
    "numbers and types": lambda t, x, y, v, k, c, w: (k * 2 + k.sum(), (k > 0) & (k < 3), x.double() * 2, x * k[0]),
    "where": lambda t, x, y, v, k, c, w: t.where(x > v, x, v),
    "masked_fill": lambda t, x, y, v, k, c, w: v.masked_fill(v > 0, 2.0),
    "clamp": lambda t, x, y, v, k, c, w: x.clamp(-0.5, 0.25),
    "sums": lambda t, x, y, v, k, c, w: (x.sum(), x.mean(0), x.var(-1), x.sum((0, 1), keepdim=True), v[0].sum(), x.norm(dim=1)),
    "cosines": lambda t, x, y, v, k, c, w: (t.cosine_similarity(x, x * v + 1), t.cosine_similarity(v, x, 0),
        t.cosine_similarity(v, w)),
    "extremes": lambda t, x, y, v, k, c, w: (x.amax(0), x.argmax(), x.argmin(1), x.max(-1), x.max(), x.logsumexp((0, 1))),
    "all": lambda t, x, y, v, k, c, w: ((x > 0).all(), (x > 0).any(0), (x > 0).sum(1)),
    "scans": lambda t, x, y, v, k, c, w: (x.cumsum(0), x.cumprod(-1), x.softmax(0), x.log_softmax(-1), x.prod(1), x.prod()),
    "order": lambda t, x, y, v, k, c, w: (x.sort(1), x.topk(2, -1), x.median(0), x.flip(0, 1), x.roll(1, 0)),
    "views": lambda t, x, y, v, k, c, w: (x.t(), x.reshape(-1), x.flatten(), x.unsqueeze(0), x.unsqueeze(-1),
        x[:, None].squeeze(1)),
    "parts": lambda t, x, y, v, k, c, w: (x[0], x[1:, 2], x[..., -1], x.split(2, 1), x.unbind(), x.diagonal(),
        c.permute(2, 0, 3, 1)),
    "expand": lambda t, x, y, v, k, c, w: (v.expand(3, 4), v.repeat(2, 3), v.expand(2, 3, -1), x.unfold(1, 2, 1)),
    "join": lambda t, x, y, v, k, c, w: (t.cat((x, v[None], w[:, :4]), 0), t.stack((v, v * 2), -1), t.cat((x, x), -1)),
    "products": lambda t, x, y, v, k, c, w: (x @ y, x @ v, v @ y, v @ v, w @ v, x @ w.t(), w @ y, v @ w.t(), y.t() @ x.t()),
    "products of many": lambda t, x, y, v, k, c, w: (c @ c.transpose(-1, -2), c @ c[0], x.matmul(c[0, :, :, :4].mT),
        c[0, 0] @ c[1, 0, 0]),
    "addmm": lambda t, x, y, v, k, c, w: (t.addmm(v, x, y[:, :4], beta=0.5), t.addmm(w[0], x, w.t()[:, :4], alpha=2.0)),
    "linear": lambda t, x, y, v, k, c, w: (t.nn.functional.linear(x, w, w[:, 0]), t.nn.functional.linear(v, w),
                                           t.nn.functional.linear(x, y.t(), y[0]), t.nn.functional.linear(v, y.t())),
    "einsum": lambda t, x, y, v, k, c, w: (t.einsum("ij,jk->ik", x, y), t.einsum("ij,j->i", x, v), t.einsum("i,j->ij", v, v)),
    "triangles": lambda t, x, y, v, k, c, w: (x.tril(), x.triu(1), (y @ y.t() + 3 * t.eye(4)).det(),
        t.linalg.inv(y @ y.t() + t.eye(4))),
    "places": lambda t, x, y, v, k, c, w: (x.gather(1, k[:, None]), x.index_select(1, t.arange(2)), w.gather(0, k[:, None]),
                                           x.scatter(1, k[:, None], 1.0), t.zeros(3, 4).scatter_add(1, k[:, None], x)),
    "indices": lambda t, x, y, v, k, c, w: (x[k[:2] % 3], w[k], x[t.tensor([0, 2])], y[x[0].abs().argsort()]),
    "embedding": lambda t, x, y, v, k, c, w: (t.nn.functional.embedding(k, w), t.nn.functional.one_hot(k, 4)),
    "images": lambda t, x, y, v, k, c, w: (
        t.nn.functional.conv2d(c, w[:3].reshape(1, 3, 2, 2), padding=1), t.nn.functional.max_pool2d(c, 2),
        t.nn.functional.avg_pool2d(c[0], 3, 1), t.nn.functional.group_norm(c, 3), t.nn.functional.pad(c, (1, 2)),
        t.nn.functional.adaptive_avg_pool2d(c, 2), t.nn.functional.unfold(c, 2),
        t.nn.functional.interpolate(c, scale_factor=2.0)),
    "norms": lambda t, x, y, v, k, c, w: (
        t.nn.functional.layer_norm(x, (4,), w[0], w[1]), t.nn.functional.layer_norm(v, (4,), v),
        t.nn.functional.rms_norm(x, (4,)),
        t.nn.functional.batch_norm(x, w[0], w[1].exp(), w[2]), t.nn.functional.instance_norm(c)),
    "losses": lambda t, x, y, v, k, c, w: (
        t.nn.functional.mse_loss(x, x * 2), t.nn.functional.l1_loss(v, w[0], reduction="sum"),
        t.nn.functional.smooth_l1_loss(x, x * 3, reduction="none"), t.nn.functional.binary_cross_entropy_with_logits(v, w[1])),
    "classes": lambda t, x, y, v, k, c, w: (
        t.nn.functional.cross_entropy(x, k), t.nn.functional.cross_entropy(v, k[0]),
        t.nn.functional.cross_entropy(x, (x * 2).softmax(1)), t.nn.functional.cross_entropy(v, w[0], reduction="sum"),
        t.nn.functional.nll_loss(x, k, reduction="sum"),
        t.nn.functional.cross_entropy(x, k, ignore_index=1), t.nn.functional.cross_entropy(x, k, label_smoothing=0.1),
        t.nn.functional.cross_entropy(x, k, reduction="none"), t.nn.functional.cross_entropy(w[:3, :4], k)),
    "attention": lambda t, x, y, v, k, c, w: (t.nn.functional.scaled_dot_product_attention(c, c + 1, c * 2),
                                              t.nn.functional.scaled_dot_product_attention(x, x, x)),
    "created": lambda t, x, y, v, k, c, w: (x + t.ones(4) + t.arange(4), t.zeros_like(x) + v, x.new_full((4,),
        2.0) * v, t.eye(4) @ v),
    "shared": lambda t, x, y, v, k, c, w: (w * 2, x),
    "without a rule": lambda t, x, y, v, k, c, w: (t.cdist(x, x), t.trapezoid(x), x.kron(v[None]),
        t.bucketize(x, w[0].sort()[0])),
    "gradient": lambda t, x, y, v, k, c, w: t.func.grad(lambda a, b: t.nn.functional.cross_entropy((a @ b).tanh(), k),
        (0, 1))(x, y),
    "gradient of shared": lambda t, x, y, v, k, c, w: t.func.grad_and_value(lambda a: ((x @ a.t()).relu() * v[0]).mean())(w),
    "gradient of gradient": lambda t, x, y, v, k, c, w: t.func.grad(
        lambda a: t.func.grad(lambda b: (b**3 * a * v).sum())(a).sum())(v),
    "gradient of images": lambda t, x, y, v, k, c, w: t.func.grad(
        lambda a: t.nn.functional.max_pool2d(t.nn.functional.conv2d(c, a), 2).exp().mean())(w[:3].reshape(1, 3, 2, 2)),
    "gradient of an unused one": lambda t, x, y, v, k, c, w: t.func.grad(lambda a, b: (b * 2).sum(), (0, 1))(x, v),
    "vjp": lambda t, x, y, v, k, c, w: t.func.vjp(lambda a: (a @ y, a.sum()), x)[1]((x @ y, v[0])),
    "vmap in it": lambda t, x, y, v, k, c, w: (t.vmap(lambda a: (a * v).sum() + w[0, 0])(x), t.vmap(t.dot, (1, 1))(x, x)),
    "gradients in a vmap in it": lambda t, x, y, v, k, c, w: t.vmap(t.func.grad(lambda a: (a.sin() * v).sum()))(x),
    "jacobian": lambda t, x, y, v, k, c, w: (t.func.jacrev(lambda a: a.sin() * v)(v),
        t.func.hessian(lambda a: (a**3).sum())(v)),
}  # fmt: skip
ALONE = {"without a rule", "jacobian"}  # of which ops, or the function, run entry by entry


def arguments(t, batch=6):
    random = np.random.default_rng(3)
    shapes = (3, batch, 4), (batch, 4, 5), (batch, 4), (5, 4), (batch, 2, 3, 6, 6)
    x, y, v, w, c = (t.from_numpy(random.standard_normal(shape).astype(np.float32)) for shape in shapes)
    return x, y, v, t.from_numpy(random.integers(0, 4, (batch, 3))), c, w


def mapped(t, name, *args, in_dims=(1, 0, 0, 0, 0, None), **how):
    return t.vmap(lambda *xs: FUNCTIONS[name](t, *xs), in_dims, **how)(*args)


def plain(result):
    if isinstance(result, (tuple, list)):
        return [item for part in result for item in plain(part)]
    return [result]


def agree(found, expected):
    for a, b in zip(plain(found), plain(expected), strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        assert str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]
        assert a.detach().numpy() == pytest.approx(b.detach().numpy(), rel=2e-4, abs=2e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_each_entry_and_pytorchs(name, monkeypatch):
    args = arguments(tdt)
    if name not in ALONE:
        monkeypatch.setattr(tdt._function_transforms, "get_rng_state", None)  # which the loop over entries calls
    found = mapped(tdt, name, *args)
    monkeypatch.undo()
    agree(found, mapped(torch, name, *arguments(torch)))
    monkeypatch.setattr(_batching.Batching, "may_run", staticmethod(lambda: False))
    agree(found, mapped(tdt, name, *args))


@pytest.mark.parametrize(
    "name", ["elementwise", "products", "linear", "classes", "gradient", "gradient of shared", "vmap in it"]
)
def test_gradients_lead_back_to_the_arguments(name):
    found = []
    for t in (tdt, torch):
        x, y, v, k, c, w = arguments(t)
        leaves = [a.requires_grad_() for a in (x, y, v, w)]
        total = sum((part**2).sum() for part in plain(mapped(t, name, x, y, v, k, c, w)) if part.is_floating_point())
        found.append(list(t.autograd.grad(total, leaves, allow_unused=True)))
    for a, b in zip(*found, strict=True):
        assert (a is None or not a.abs().sum()) == (b is None or not b.abs().sum())
        assert a is None or a.numpy() == pytest.approx(b.numpy(), rel=2e-3, abs=2e-4)


@pytest.mark.parametrize("d", [0, 1, -1])
def test_results_have_the_requested_dimension(d):
    results = [t.vmap(lambda x: x * 2, 1, d)(t.arange(24).reshape(2, 3, 4)) for t in (tdt, torch)]
    assert results[0].tolist() == results[1].tolist()
    x = tdt.ones(3, 2)
    same = tdt.vmap(lambda a: a)(x)
    same.add_(1)
    assert x.sum() == 6


def calls_itself_with_a_copy(x):
    return x + tdt.from_numpy(x.detach().numpy().copy())


class Doubled(tdt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 3


def swallows(x):
    try:
        return x * float(x.sum())
    except _batching.NotBatched:
        return x * 0


def writes(x):
    out = tdt.zeros(2)
    out[0] = x.sum()
    return out.add_(1)


EACH = {
    "in place": writes,
    "a value": lambda x: x if x.sum() > 1 else -x,
    "an item": lambda x: x * x[0].item(),
    "a value that is caught": swallows,
    "a tensor of values": lambda x: x + tdt.tensor([x[1], 2.0]),
    "NumPy": calls_itself_with_a_copy,
    "a gradient": lambda x: tdt.autograd.grad(((y := x.detach().clone().requires_grad_()) ** 2).sum(), y)[0],
    "a backward pass": lambda x: [y := (x * 1).requires_grad_(), (y**3).sum().backward(), y.grad][2],
    "a write that a gradient goes through": lambda x: tdt.func.grad(lambda a: (a * 1).mul_(a).exp().sum())(x),
    "a Function": lambda x: tdt.func.grad(lambda a: Doubled.apply(a).sum())(x),
    "sizes by values": lambda x: x[x > x.min()],
    "nonzero": lambda x: (x > -9).nonzero() + 0,
    "shared by an object": lambda x, holder=type("Holder", (), {"w": [tdt.ones(2)]})(): x * holder.w[0],
}


@pytest.mark.parametrize("name", EACH)
def test_what_depends_on_an_entry_otherwise_runs_for_each(name):
    x = tdt.tensor([[1.0, 2.0], [-3.0, 0.5], [0.0, 4.0]])
    found = tdt.vmap(EACH[name])(x)
    assert found.tolist() == tdt.stack([EACH[name](row) for row in x]).tolist()


def written(name, x):
    """What a function leaves in its argument, by which its result is computed."""
    if name == "out":
        tdt.exp(x, out=x)
    elif name == "converted":
        x.add_(tdt.ones(2, dtype=tdt.float64))
    elif name == "indexed":
        x[0] = x[1] + 1
    else:
        x.sub_(1).mul_(x)
    return x * 2


@pytest.mark.parametrize("name", ["out", "converted", "indexed", "direct"])
def test_entries_are_written_to_once(name):
    x, expected = (tdt.arange(6.0).reshape(3, 2) for _ in range(2))
    rows = tdt.stack([written(name, row) for row in expected])
    assert tdt.vmap(lambda a: written(name, a))(x).tolist() == rows.tolist()
    assert x.tolist() == expected.tolist()


def test_random_numbers_are_drawn_once_for_each_entry():
    tdt.manual_seed(0)
    first = tdt.rand(3)
    tdt.manual_seed(0)
    with pytest.raises(RuntimeError, match="called random operation"):
        tdt.vmap(lambda x: x + tdt.rand(1))(tdt.ones(3))
    tdt.manual_seed(0)
    found = tdt.vmap(lambda x: x * 0 + tdt.rand(()), randomness="different")(tdt.ones(3))
    assert found.tolist() == first.tolist()
    tdt.manual_seed(0)
    dropped = tdt.vmap(lambda x: tdt.nn.functional.dropout(x), randomness="different")(tdt.ones(3, 4))
    tdt.manual_seed(0)
    assert dropped.tolist() == tdt.stack([tdt.nn.functional.dropout(tdt.ones(4)) for _ in range(3)]).tolist()


def test_an_entry_that_fails_raises_its_own_error():
    w, places = tdt.ones(3, 2), tdt.tensor([0, 1, 7])
    with pytest.raises(IndexError, match=r"\[7, 7\]"):
        tdt.vmap(lambda i: tdt.nn.functional.embedding(i, w))(places)
    with pytest.raises(ZeroDivisionError):
        tdt.vmap(lambda x: 1 // 0)(w)


def test_per_sample_gradients_of_a_module_are_those_of_each_sample():
    model = tdt.nn.Sequential(tdt.nn.Linear(4, 6), tdt.nn.ReLU(), tdt.nn.LayerNorm(6), tdt.nn.Linear(6, 3))
    weights = {name: p.detach() for name, p in model.named_parameters()}
    x, k = tdt.randn(5, 4), tdt.randint(0, 3, (5,))

    def loss(weights, x, k):
        out = tdt.func.functional_call(model, weights, (x.unsqueeze(0),))
        return tdt.nn.functional.cross_entropy(out, k.unsqueeze(0))

    found = tdt.vmap(tdt.func.grad(loss), (None, 0, 0))(weights, x, k)
    for i in range(5):
        model.zero_grad()
        tdt.nn.functional.cross_entropy(model(x[i : i + 1]), k[i : i + 1]).backward()
        for name, p in model.named_parameters():
            assert found[name][i].numpy() == pytest.approx(p.grad.numpy(), rel=1e-4, abs=1e-6)
