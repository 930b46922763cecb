"""Sparse tensors as scripts use them: writing in place, saving, modules, optimizers, and what is refused."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.sparse._both import assert_same, plain

torch = require_torch()
BOTH = (tdt, torch)


def example(lib):
    """Coordinates out of order, one of them twice."""
    return lib.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 0, 1]], [3.0, 4.0, 5.0, -6.0], (2, 3))


def saved(lib, value):
    file = io.BytesIO()
    lib.save(value, file)
    file.seek(0)
    return lib.load(file)


def leaf(lib):
    return example(lib).requires_grad_()


def train(lib, layer, optimizer, batch):
    """The table of an embedding after three steps by sparse gradients, and the last gradient."""
    lib.nn.init.ones_(layer.weight)
    for _ in range(3):
        optimizer.zero_grad()
        (layer(lib.tensor(batch)) ** 2).sum().backward()
        optimizer.step()
    return [layer.weight, layer.weight.grad]


def embedding(lib, name, **options):
    layer = lib.nn.Embedding(4, 2, sparse=True)
    return train(lib, layer, getattr(lib.optim, name)(layer.parameters(), 0.1, **options), [1, 1, 3])


def bag(lib, mode):
    layer = lib.nn.EmbeddingBag(4, 2, sparse=True, mode=mode)
    return train(lib, layer, lib.optim.SGD(layer.parameters(), 0.1, momentum=0.9), [[1, 1, 3], [0, 3, 3]])


def with_hook(lib):
    x, calls = leaf(lib), []
    x.register_hook(lambda g: calls.append(g.is_sparse) or g * 2)
    lib.sparse.mm(x, lib.ones(3, 2)).sum().backward()
    return [calls, x.grad]


def accumulated(lib):
    """Sparse, then sparse, then dense gradients."""
    x, after = leaf(lib), []
    for part in (lib.sparse.sum(x), lib.sparse.sum(x * x), x.sum()):
        part.backward()
        after.append(x.grad.clone())
    return after


def second(lib):
    x = leaf(lib)
    (g,) = lib.autograd.grad((x.to_dense() ** 3).sum(), x, create_graph=True)
    g.to_dense().sum().backward()
    return [g, x.grad]


def retained(lib):
    x = leaf(lib)
    y = x.coalesce()
    y.retain_grad()
    (y.values() ** 2).sum().backward()
    return [x.grad, y.grad]


def from_values(lib):
    v = lib.tensor([3.0, 4.0, 1.0], requires_grad=True)
    x = lib.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], v * 2, (2, 2))
    ((x @ lib.ones(2, 2)) ** 2).sum().backward()
    return v.grad


def written(lib, write, start=example):
    x = start(lib)
    result = write(lib, x)
    return [x, result]


def module(lib):
    m, n = lib.nn.Module(), lib.nn.Module()
    m.register_buffer("a", example(lib))
    n.register_buffer("a", example(lib) * 0)
    n.load_state_dict(m.state_dict())
    return [n.a, n.double().a, list(m.state_dict())]


def linear(lib):
    layer = lib.nn.Linear(3, 2)
    lib.nn.init.ones_(layer.weight)
    lib.nn.init.ones_(layer.bias)
    layer(example(lib)).sum().backward()
    return [layer.weight.grad, layer.bias.grad]


def produced(lib):
    """A sparse gradient on its way through dense ops."""
    e = lib.ones(4, 2, requires_grad=True)
    lib.nn.functional.embedding(lib.tensor([1, 2, 2]), e * 2, sparse=True).sum().backward()
    return e.grad


SCRIPTS = {
    "mul_": lambda t: written(t, lambda t, x: x.mul_(2)),
    "add_": lambda t: written(t, lambda t, x: x.add_(x.clone(), alpha=2)),
    "add_ itself": lambda t: written(t, lambda t, x: x.add_(x)),
    "add_ detached": lambda t: written(t, lambda t, x: x.add_(x.detach())),
    "sub_": lambda t: written(t, lambda t, x: x.sub_(x.coalesce())),
    "neg_": lambda t: written(t, lambda t, x: x.neg_()),
    "zero_": lambda t: written(t, lambda t, x: x.zero_()),
    "copy_": lambda t: written(t, lambda t, x: x.copy_(x.double() * 3)),
    "dense add_": lambda t: written(t, lambda t, d: d.add_(example(t)), lambda t: t.ones(2, 3)),
    "dense sub_": lambda t: written(t, lambda t, d: d.sub_(example(t), alpha=2), lambda t: t.ones(2, 3)),
    "dense mul_": lambda t: written(t, lambda t, d: d.mul_(example(t)), lambda t: t.ones(2, 3)),
    "write to values": lambda t: written(t, lambda t, x: x.values().mul_(2), lambda t: example(t).coalesce()),
    "resize": lambda t: written(t, lambda t, x: x.sparse_resize_((4, 5), 2, 0)),
    "resize and clear": lambda t: written(t, lambda t, x: x.sparse_resize_and_clear_((4, 5), 1, 1)),
    "resize as": lambda t: written(t, lambda t, x: x.resize_as_(t.ones(4, 5).to_sparse())),
    "resize an empty one": lambda t: example(t).new().resize_as_(t.sparse_coo_tensor([[0, 2]], t.ones(2, 3), (5, 3))),
    "resize to itself": lambda t: written(t, lambda t, x: t.resize_as_(x, x)),
    "out": lambda t: t.add(example(t), example(t), out=t.zeros(2, 3).to_sparse()),
    "deepcopy": lambda t: copy.deepcopy(example(t)),
    "copy": lambda t: copy.copy(example(t)),
    "pickle": lambda t: pickle.loads(pickle.dumps(example(t))),
    "save": lambda t: [saved(t, {"a": example(t)})["a"], saved(t, example(t).coalesce()).is_coalesced()],
    "parameter": lambda t: [t.nn.Parameter(example(t)), t.nn.Parameter(example(t)).requires_grad],
    "module": module, "linear": linear, "hook": with_hook, "accumulated": accumulated, "second": second,
    "retained": retained, "from values": from_values, "produced": produced,
    "half": lambda t: [example(t).half() * 2, example(t).half() @ t.ones(3, 2).half()],
    "integers": lambda t: [example(t).long() @ t.ones(3, 2).long(), example(t).bool().sum(), example(t).long() / 2],
    "complex": lambda t: [(example(t) * 1j).conj(), (example(t).to(t.complex64) * (1 + 2j)).abs()],
    "SparseAdam": lambda t: embedding(t, "SparseAdam"), "Adagrad": lambda t: embedding(t, "Adagrad"),
    "SGD": lambda t: embedding(t, "SGD", momentum=0.9), "bag sum": lambda t: bag(t, "sum"), "bag mean": lambda t: bag(t, "mean"),
    "spdiags": lambda t: t.sparse.spdiags(t.tensor([[1.0, 2, 3], [4, 5, 6]]), t.tensor([0, -1]), (3, 3)),
    "spdiags wide": lambda t: t.sparse.spdiags(t.tensor([1.0, 2, 3]), t.tensor(1), (3, 4)),
    "facts": lambda t: [example(t).is_sparse, example(t).layout is t.sparse_coo, example(t).type(), example(t).stride(),
                        example(t).element_size(), t.eye(2).is_sparse, t.eye(2).sparse_dim(), t.eye(2).dense_dim()],
    "inferred": lambda t: t.sparse_coo_tensor([[0, 3]], t.ones(2, 2)),
    "scalar": lambda t: t.sparse_coo_tensor(t.empty(0, 2, dtype=t.int64), [3.0, 4.0]).coalesce(),
    "dtype": lambda t: t.sparse_coo_tensor([[0, 1]], [1, 2], (2,), dtype=t.float64),
    "no entries": lambda t: t.sparse_coo_tensor((2, 3), dtype=t.int32),
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_script_computes_what_it_does_in_pytorch(name):
    ours, theirs = (SCRIPTS[name](lib) for lib in BOTH)
    assert_same(plain(ours), plain(theirs))


REFUSED = {
    "nnz": (lambda t: t.sparse_coo_tensor([[0, 1]], [1.0, 2.0, 3.0], (2,)), 40),
    "ranks": (lambda t: t.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2, 3)), 40),
    "flat indices": (lambda t: t.sparse_coo_tensor([0, 1], [1.0, 2.0]), 30),
    "dense size": (lambda t: t.sparse_coo_tensor([[0, 1]], t.ones(2, 2), (2, 3)), 40),
    "negative": (lambda t: t.sparse_coo_tensor([[0, -1]], [1.0, 2.0]), 30),
    "outside": (lambda t: t.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (2,), check_invariants=True), 40),
    "not in order": (lambda t: t.sparse_coo_tensor([[1, 0]], [1.0, 2.0], (2,), is_coalesced=True, check_invariants=True), 40),
    "integers": (lambda t: t.sparse_coo_tensor([[0]], [1], (2,), requires_grad=True), 40),
    "indices": (lambda t: example(t).indices(), 40),
    "values": (lambda t: example(t).values(), 40),
    "of dense": (lambda t: t.ones(2).coalesce(), 40),
    "x + dense": (lambda t: example(t) + t.ones(2, 3), 30),
    "x + 1": (lambda t: example(t) + 1, 30),
    "dense + other size": (lambda t: t.ones(3, 3) + example(t), 40),
    "other size": (lambda t: example(t) + example(t).t(), 40),
    "x / dense": (lambda t: example(t) / t.ones(2, 3), 40),
    "x ** 0": (lambda t: example(t) ** 0, 40),
    "cat": (lambda t: t.cat([example(t), t.ones(2, 3)]), 40),
    "resize as, recorded": (lambda t: leaf(t).resize_as_(example(t)), 40),
    "resize as, format": (lambda t: example(t).resize_as_(example(t), memory_format=t.contiguous_format), 50),
    "copy_": (lambda t: example(t).copy_(t.ones(2, 3)), 40),
    "leaf": (lambda t: leaf(t).mul_(2), 40),
    "to_sparse": (lambda t: t.ones(2).to_sparse(3), 40),
    "mask": (lambda t: t.ones(2).sparse_mask(example(t)), 40),
    "spdiags": (lambda t: t.sparse.spdiags(t.ones(2, 3), t.tensor([0, 0]), (3, 3)), 30),
    "spdiags offsets": (lambda t: t.sparse.spdiags(t.ones(1, 3), t.tensor([0.0]), (3, 3)), 30),
    "numpy": (lambda t: example(t).numpy(), 30),
    "eq": (lambda t: example(t) == example(t), 0), "exp": (lambda t: example(t).exp(), 0),
    "max": (lambda t: example(t).max(), 0), "softmax": (lambda t: example(t).softmax(1), 0),
    "fill_": (lambda t: example(t).fill_(1), 0), "ones_like": (lambda t: t.ones_like(example(t)), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused_with_its_message(name):
    call, same = REFUSED[name]
    (ours, theirs) = (pytest.raises(Exception, call, lib).value for lib in BOTH)
    assert type(ours) is type(theirs)
    assert str(ours)[:same] == str(theirs)[:same]
    if not same:
        assert "call .to_dense() first" in str(ours)


@pytest.mark.parametrize("call", [lambda x: x.resize_(3, 3), lambda x: x.resize_as_(tdt.ones(3, 3))])
def test_resize_of_a_sparse_tensor_names_sparse_resize(call):
    with pytest.raises(NotImplementedError, match="use sparse_resize_"):
        call(example(tdt))


def test_indices_outside_the_size_are_refused_unless_nobody_is_to_look():
    with pytest.raises(RuntimeError, match="size is 2 but found index 5"):
        tdt.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (2,))
    assert tdt.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (2,), check_invariants=False)._nnz() == 2


def test_order_is_looked_at_where_invariants_are():
    def claim():
        return tdt.sparse_coo_tensor([[1, 0]], [1.0, 2.0], (2,), is_coalesced=True)

    assert claim().is_coalesced()
    with tdt.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match="uncoalesced"):
        claim()
    with pytest.raises(RuntimeError, match="uncoalesced"):
        tdt.sparse.check_sparse_tensor_invariants()(claim)()
    assert not tdt.sparse.check_sparse_tensor_invariants.is_enabled()


CHECKED = {
    "mm": lambda x, m: tdt.sparse.mm(x, m),
    "dense mm": lambda x, m: tdt.mm(m.t(), x.t()),
    "both": lambda x, m: tdt.sparse.mm(x, (x * 2).t()),
    "sin": lambda x, m: x.sin() * 3,
    "softmax": lambda x, m: tdt.sparse.softmax(x, 1),
    "log_softmax": lambda x, m: tdt.sparse.log_softmax(x, 0),
    "times dense": lambda x, m: x * m.t()[0],
    "by a scalar": lambda x, m: x / m[0, 0],
    "norm": lambda x, m: x.norm(),
    "picked": lambda x, m: tdt.cat([x[1:], x.index_select(0, tdt.tensor([0, 0]))]),
    "column": lambda x, m: x[:, 1],
    "reshaped": lambda x, m: x.reshape(2, 2, 3).sum(0),
    "stacked": lambda x, m: tdt.stack([x, x * 2], 1).sum((0, 1)),
    "smm": lambda x, m: tdt.sspaddmm(tdt.smm(x, m), x, m, alpha=2),
    "masked": lambda x, m: (m @ m.t())[:3, :3].sparse_mask(tdt.eye(3).to_sparse()),
}


@pytest.mark.parametrize("name", CHECKED)
def test_gradients_are_those_of_finite_differences(name):
    tdt.manual_seed(3)
    dense = tdt.randn(4, 3, dtype=tdt.float64)
    x = (dense * (dense.abs() > 0.5)).to_sparse().requires_grad_()
    m = tdt.randn(3, 2, dtype=tdt.float64, requires_grad=True)
    for gradcheck in (tdt.autograd.gradcheck, tdt.autograd.gradgradcheck):
        assert tdt.sparse.as_sparse_gradcheck(gradcheck)(CHECKED[name], (x, m))


def test_a_random_program_over_sparse_tensors_equals_the_dense_one():
    rng = np.random.default_rng(0)
    steps = {
        "scale": lambda x, y: x * 1.5, "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
        "turn": lambda x, y: x.t() @ y, "neg": lambda x, y: -y, "sin": lambda x, y: y.sin(), "both": lambda x, y: x @ y.t() @ x,
        "row": lambda x, y: x[[1], :].expand(3, 3) if not x.is_sparse else x[1:2].expand(3, 3), "abs": lambda x, y: x.abs() + y,
    }  # fmt: skip
    for _ in range(150):
        nnz = int(rng.integers(0, 8))
        v = rng.normal(size=nnz)
        start = tdt.sparse_coo_tensor(rng.integers(0, 3, (2, nnz)), v, (3, 3), requires_grad=True)
        dense = start.detach().to_dense().requires_grad_()
        pairs = [(start * 1, dense * 1), (start.t(), dense.t())]
        for name in rng.choice(list(steps), 4):
            (a, c), (b, d) = (pairs[i] for i in rng.integers(0, len(pairs), 2))
            pairs.append((steps[name](a, b), steps[name](c, d)))
        x, y = pairs[-1]
        np.testing.assert_allclose(x.detach().to_dense().numpy(), y.detach().numpy(), rtol=1e-9, atol=1e-12)
        if x.requires_grad:
            x.to_dense(masked_grad=False).sum().backward() if x.is_sparse else x.sum().backward()
            y.sum().backward()
            at = tuple(start.detach().coalesce().indices().numpy())
            np.testing.assert_allclose(
                start.grad.to_dense().numpy()[at], dense.grad.numpy()[at], rtol=1e-9, atol=1e-9, err_msg=str(nnz)
            )


def test_a_sparse_gradient_flows_through_dense_operations():
    """PyTorch raises at the first rule that does not take it."""
    for make in (tdt.tanh, lambda w: w[:, 1:], lambda w: w.cumsum(0), lambda w: w.index_select(0, tdt.tensor([0, 1, 1])),
                 lambda w: tdt.cat([w, w]), lambda w: w.reshape(2, 8), lambda w: w.flip(0).relu() + 1):  # fmt: skip
        grads = []
        for sparse in (True, False):
            w = tdt.arange(16.0).reshape(4, 4).div(8).requires_grad_()
            rows = tdt.nn.functional.embedding(tdt.tensor([1, 1, 0]), make(w), sparse=sparse)
            (rows**2).sum().backward()
            grads.append(w.grad.to_dense())
        tdt.testing.assert_close(*grads)


@pytest.mark.parametrize("shape", [(12, 2), (2, 3, 2, 2), (3, 2, 4), (24,), (1, 24), (3, 8)])
def test_sparse_tensors_are_reshaped(shape):
    """PyTorch does not."""
    x = tdt.tensor(np.random.default_rng(0).integers(0, 3, (3, 4, 2)))
    for n in (1, 2, 3):
        assert tdt.equal(x.to_sparse(n).reshape(shape).to_dense(), x.reshape(shape))


def test_gradients_are_clipped_by_their_norm():
    """PyTorch has no norm for them; two entries at one row count as their sum."""
    layer = tdt.nn.Embedding(4, 2, sparse=True)
    layer(tdt.tensor([1, 2, 2])).sum().backward()
    assert tdt.nn.utils.clip_grad_norm_(layer.parameters(), 1.0).item() == pytest.approx(10**0.5)
    assert layer.weight.grad.to_dense().norm().item() == pytest.approx(1.0, rel=1e-5)


def test_the_old_new_of_a_sparse_tensor_is_sparse():
    torch = require_torch()
    for t in (tdt, torch):
        x = t.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,))
        created = x.new(t.tensor([[0, 2]]), t.tensor([5.0, 6.0]), t.Size([4]))
        assert created.to_dense().tolist() == [5, 0, 6, 0]
        assert x.new(t.tensor([[1]]), t.tensor([5.0])).to_dense().tolist() == [0, 5]
        assert (x.new(4, 5).layout, tuple(x.new(4, 5).shape)) == (t.sparse_coo, (4, 5))
