"""Steps that autograd records, steps by sparse gradients, and what hooks and states of optimizers hold."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import optim_cpu
from tests.helpers import require_torch

torch = require_torch()

RECORDED = [
    ("SGD", {}), ("SGD", {"weight_decay": 0.1, "maximize": True}), ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True}), ("SGD", {"momentum": 0.9, "dampening": 0.3}),
    ("Adam", {}), ("Adam", {"amsgrad": True, "weight_decay": 0.1}), ("Adam", {"maximize": True}), ("AdamW", {}),
]  # fmt: skip


# PyTorch records these with the rate as a number, and writes to the state that a second step's backward needs.
ONE_STEP = [
    ("RMSprop", {}), ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.1}), ("Adagrad", {"lr_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1}), ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}), ("RAdam", {}),
    ("Adamax", {"weight_decay": 0.1}), ("Adadelta", {"eps": 0.1}), ("ASGD", {"t0": 0}), ("Rprop", {}),
]  # fmt: skip


def after(library, name, options, start, rate, steps):
    """The parameters after recorded steps from `start`."""
    p = start.clone()
    optimizer = getattr(library.optim, name)([p], lr=rate, differentiable=True, **options)
    data = library.tensor([0.3, 0.7, -1.1], dtype=library.float64)
    for _ in range(steps):
        now = p.clone()  # the step writes to p, so nothing that backward needs may be p itself
        (p.grad,) = library.autograd.grad(((now * data) ** 2).sum() + (now**3).sum(), now, create_graph=True)
        optimizer.step()
    return p


def learnt(library, name, options, steps):
    """The parameters after recorded steps, and the gradients of their squares by start and learning rate."""
    start = library.tensor([1.0, -2.0, 0.5], dtype=library.float64, requires_grad=True)
    rate = library.tensor(0.1, dtype=library.float64, requires_grad=True)
    p = after(library, name, options, start, rate, steps)
    (p**2).sum().backward()
    return p.tolist(), start.grad.tolist(), rate.grad.item()


@pytest.mark.parametrize(("name", "options"), RECORDED)
def test_gradients_flow_through_a_differentiable_step_as_in_pytorch(name, options):
    # PyTorch writes to these states in place, and its own backward over several steps then refuses.
    steps = 1 if "amsgrad" in options or ("momentum" in options and "nesterov" not in options) else 3
    ours, theirs = (learnt(library, name, options, steps) for library in (tdt, torch))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)  # the corrections for the start are float32 in both


@pytest.mark.parametrize(("name", "options"), ONE_STEP)
def test_gradients_flow_through_the_first_step_of_the_others(name, options):
    results = []
    for library in (tdt, torch):
        start = library.tensor([1.0, -2.0, 0.5], dtype=library.float64, requires_grad=True)
        p = after(library, name, options, start, 0.1, 1)
        (p**2).sum().backward()
        results.append((p.tolist(), start.grad.tolist()))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7)  # PyTorch's NAdam computes with a float32 product of momenta


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_a_differentiable_step_cannot_write_to_a_leaf_and_is_not_fused(name):
    for library in (tdt, torch):
        p = library.ones(2, requires_grad=True)
        p.grad = library.ones(2)
        with pytest.raises(
            RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"
        ):
            getattr(library.optim, name)([p], differentiable=True).step()
        with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
            getattr(library.optim, name)([p], differentiable=True, fused=True)


def rows(library, options, dense_too=False):
    """A table after three steps by sparse gradients, and its momentum buffer."""
    table = library.nn.Embedding.from_pretrained(library.ones(5, 2), freeze=False, sparse=True)
    weight = library.ones(2, 2, requires_grad=True)
    optimizer = library.optim.SGD([table.weight, weight] if dense_too else [table.weight], lr=0.1, **options)
    for used in ([1, 3, 1], [0, 1], [2]):
        optimizer.zero_grad()
        (table(library.tensor(used)) @ weight).pow(2).sum().backward()
        optimizer.step()
    buffer = optimizer.state_dict()["state"].get(0, {}).get("momentum_buffer")
    return table.weight, weight, buffer


@pytest.mark.parametrize("dense_too", [False, True])
@pytest.mark.parametrize("options", [
    {}, {"maximize": True}, {"foreach": True}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True},
    {"momentum": 0.9, "dampening": 0.2}, {"momentum": 0.5, "maximize": True},
])  # fmt: skip
def test_sgd_takes_sparse_gradients_as_in_pytorch(options, dense_too):
    ours, theirs = (rows(library, options, dense_too) for library in (tdt, torch))
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert a.is_sparse == b.is_sparse
            np.testing.assert_allclose(a.detach().to_dense().tolist(), b.detach().to_dense().tolist(), rtol=1e-5)


@pytest.mark.parametrize(("name", "options"), [
    ("SGD", {"weight_decay": 0.1}), ("SGD", {"fused": True}), ("Adam", {}), ("AdamW", {}),
])  # fmt: skip
def test_sparse_gradients_are_refused_where_pytorch_refuses_them(name, options):
    for library in (tdt, torch):
        table = library.nn.Embedding(5, 2, sparse=True)
        optimizer = getattr(library.optim, name)(table.parameters(), lr=0.1, **options)
        table(library.tensor([1])).sum().backward()
        with pytest.raises(RuntimeError, match="sparse"):
            optimizer.step()


def test_a_sparse_buffer_is_loaded_into_another_dtype():
    table = tdt.nn.Embedding.from_pretrained(tdt.ones(3, 2), freeze=False, sparse=True)
    optimizer = tdt.optim.SGD(table.parameters(), lr=0.1, momentum=0.9)
    table(tdt.tensor([1])).sum().backward()
    optimizer.step()
    other = tdt.optim.SGD([tdt.ones(3, 2, dtype=tdt.float64, requires_grad=True)], lr=0.1, momentum=0.9)
    other.load_state_dict(optimizer.state_dict())
    buffer = other.state_dict()["state"][0]["momentum_buffer"]
    assert buffer.dtype is tdt.float64
    assert buffer.to_dense().tolist() == [[0, 0], [1, 1], [0, 0]]


def test_step_hooks_see_the_optimizer_among_the_arguments_and_may_replace_them():
    for library in (tdt, torch):
        calls, p = [], library.ones(1, requires_grad=True)
        optimizer = library.optim.SGD([p], lr=0.1)
        optimizer.register_step_pre_hook(lambda o, args, kwargs: ((args[0], lambda: 7), kwargs))
        optimizer.register_step_post_hook(lambda o, args, kwargs, calls=calls: calls.append((o is args[0], len(args))))
        assert optimizer.step() == 7
        assert calls == [(True, 2)]


def test_without_momentum_sgd_has_no_state_and_betas_stay_as_passed():
    for library in (tdt, torch):
        p = library.ones(1, requires_grad=True)
        p.grad = library.ones(1)
        optimizer = library.optim.SGD([p], lr=0.1)
        optimizer.step()
        assert optimizer.state_dict()["state"] == {}
        betas = (library.tensor(0.9), library.tensor(0.99))
        group = library.optim.Adam([p], betas=betas).state_dict()["param_groups"][0]
        assert all(a is b for a, b in zip(group["betas"], betas, strict=True))


def test_an_option_that_is_a_tensor_prints_as_its_number():
    texts = [
        repr(library.optim.SGD([library.ones(1, requires_grad=True)], lr=library.tensor(0.5)))
        for library in (tdt, torch)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("name", "options"),
    [("SGD", {"momentum": 0.9}), ("AdamW", {}), ("Adagrad", {}), ("SGD", {"momentum": 0.9, "weight_decay": 0.1})],
)
def test_channels_last_weights_take_the_steps_of_contiguous_ones(name, options):
    """Also where their gradients lie otherwise, and where they are turned between two steps; the state lies as PyTorch's."""
    rng = np.random.default_rng(0)
    start, grads = rng.standard_normal((40, 30, 3, 3)), rng.standard_normal((4, 40, 30, 3, 3))

    def steps(library, order, dtype):
        p = library.nn.Parameter(library.from_numpy(start).to(dtype).contiguous(memory_format=order))
        small = library.nn.Parameter(library.ones(2, 3, 1, 2, dtype=dtype))
        optimizer = getattr(library.optim, name)([p, small], lr=0.01, **options)
        for number, grad in enumerate(grads):
            p.grad = library.from_numpy(grad).to(dtype)
            if number % 2 == 0:
                p.grad = p.grad.contiguous(memory_format=library.channels_last)
            small.grad = library.ones_like(small)
            if number == 2 and order is not library.contiguous_format:
                p.data = p.data.contiguous()
                p.grad = p.grad.contiguous()
            optimizer.step()
            if number == 1:
                states = [v.is_contiguous() for v in optimizer.state[p].values() if v.ndim == 4]
        return p.detach().float().numpy(), states

    for dtype in (tdt.float32, tdt.bfloat16):
        found = [steps(tdt, order, dtype)[0] for order in (tdt.contiguous_format, tdt.channels_last)]
        np.testing.assert_array_equal(*found)
    ours = steps(tdt, tdt.channels_last, tdt.float32)
    theirs = steps(torch, torch.channels_last, torch.float32)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-6)
    assert ours[1] == theirs[1]


@pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="portable code has no table")
def test_copies_of_strided_gradients_live_while_the_kernel_runs(monkeypatch):
    alive = []
    run = optim_cpu._run

    def watched(write, table, *args):
        alive.append([array() is not None for array in table._array_refs[1]])
        run(write, table, *args)

    monkeypatch.setattr(optim_cpu, "_run", watched)
    p = tdt.zeros(400, 400, requires_grad=True)
    optimizer = tdt.optim.SGD([p], lr=0.1, momentum=0.9)
    p.grad = (tdt.ones(400, 400) * tdt.arange(400.0)).t()
    assert not p.grad.is_contiguous()
    optimizer.step()
    assert alive == [[True]]
    assert tdt.equal(p.detach(), p.grad * -0.1)
