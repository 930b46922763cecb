"""Activation checkpoints, beside PyTorch's."""

import functools
import gc
import importlib
import warnings
import weakref

import pytest

import tdt
from tdt import nn
from tdt.utils import checkpoint as cp
from tests.helpers import require_torch

torch = require_torch()

X = [[0.3, -1.2, 0.7], [1.1, 0.2, -0.5]]


def model():
    tdt.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 2))


def gradients(net, forward):
    tdt.manual_seed(3)
    net.zero_grad()
    x = tdt.tensor(X, requires_grad=True)
    forward(x).pow(2).sum().backward()
    return [x.grad, *(p.grad for p in net.parameters())]


def again(*args, **kwargs):
    return cp.checkpoint(*args, use_reentrant=False, **kwargs)


FORWARDS = {
    "reentrant": lambda m: lambda x: cp.checkpoint(m, x, use_reentrant=True),
    "not reentrant": lambda m: lambda x: again(m, x),
    "nested": lambda m: lambda x: again(lambda y: again(m[3:], again(m[:3], y)), x),
    "nested in reentrant": lambda m: lambda x: cp.checkpoint(lambda y: again(m, y), x, use_reentrant=True),
    "without early stop": lambda m: lambda x: again(m, x, early_stop=False),
    "sequential": lambda m: lambda x: cp.checkpoint_sequential(m, 3, x, use_reentrant=False),
    "sequential, reentrant": lambda m: lambda x: cp.checkpoint_sequential(m, 2, x, use_reentrant=True),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_a_checkpoint_changes_no_gradient_though_dropout_draws(name):
    net = model()
    plain, found = gradients(net, net), gradients(net, FORWARDS[name](net))
    assert all(tdt.equal(a, b) for a, b in zip(plain, found, strict=True))


def test_the_generator_continues_as_without_a_checkpoint():
    net = model()
    ends = []
    for forward in (net, FORWARDS["reentrant"](net), FORWARDS["not reentrant"](net)):
        gradients(net, forward)
        ends.append(tdt.rand(1).item())
    assert len(set(ends)) == 1


def test_what_was_computed_between_is_freed_until_backward():
    references = []

    def f(x):
        y = x.exp()
        references.append(weakref.ref(y._st))
        return y.sin()

    gc.disable()
    try:
        x = tdt.ones(3, requires_grad=True)
        out = again(f, x)
        assert references[0]() is None
        out.sum().backward()
        assert len(references) == 2
        assert references[1]() is None
    finally:
        gc.enable()


def test_second_derivatives_and_grad_go_through():
    def slopes(forward):
        x = tdt.tensor(X, dtype=tdt.float64, requires_grad=True)
        (g,) = tdt.autograd.grad(forward(x).sum(), x, create_graph=True)
        (h,) = tdt.autograd.grad(g.pow(2).sum(), x)
        return g, h

    def f(x):
        return x.sin().exp_().cos()

    for a, b in zip(slopes(f), slopes(lambda x: again(f, x)), strict=True):
        assert tdt.equal(a, b)


class Cube(tdt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x * x


def test_a_function_of_the_users_may_stand_in_a_checkpoint():
    x = tdt.tensor(X, requires_grad=True)
    again(lambda x: Cube.apply(x.sin()).exp(), x).sum().backward()
    (expected,) = tdt.autograd.grad((x.sin() ** 3).exp().sum(), x)
    assert tdt.allclose(x.grad, expected)


def test_graphs_may_be_retained_and_gradients_computed_inside():
    x = tdt.tensor(X, requires_grad=True)
    y = again(lambda x: x.exp().sin(), x).sum()
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    assert tdt.equal(x.grad, once + once)

    def inner(x):
        z = x.sin()
        (slope,) = tdt.autograd.grad(z.cos().sum(), x, create_graph=True)
        return slope * z

    (expected,) = tdt.autograd.grad(inner(x).sum(), x)
    (found,) = tdt.autograd.grad(again(inner, x).sum(), x)
    assert tdt.equal(found, expected)


def runs(lib, module, name):  # noqa: C901  (a table of scenarios, each a few lines)
    """How often the function ran, what it returned, the gradients and the class of an error: one scenario in a library."""
    count = 0
    x = lib.tensor(X, dtype=lib.float64, requires_grad=True)
    w = lib.tensor(2.0, dtype=lib.float64, requires_grad=True)

    def f(x, scale=1.0, flip=False):
        nonlocal count
        count += 1
        if name == "another shape" and count > 1:
            x = x[:1]
        if name == "more ops" and count > 1:
            return (x.exp().sin() * w * scale).exp()
        if name == "fewer ops" and count > 1:
            return x * scale
        if flip:
            return x.exp() * scale, 3
        return x.exp().sin() * w * scale

    try:
        if name == "keyword arguments":
            y = module.checkpoint(f, x, use_reentrant=False, scale=w)
        elif name == "several outputs":
            y, _ = module.checkpoint(f, x, 2.0, True, use_reentrant=False)
        elif name == "keyword arguments, reentrant":
            y = module.checkpoint(f, x, use_reentrant=True, scale=w)
        elif name == "grad, reentrant":
            y = module.checkpoint(f, x, use_reentrant=True)
            return lib.autograd.grad(y.sum(), x)
        elif name == "no_grad":
            with lib.no_grad():
                y = module.checkpoint(f, x, use_reentrant=False)
            return y.requires_grad, count
        elif name == "nothing asks, reentrant":
            y = module.checkpoint(f, x.detach(), use_reentrant=True)
            return y.requires_grad, count
        elif name == "nothing asks":
            y = module.checkpoint(f, x.detach(), use_reentrant=False)
        elif name == "unknown check":
            y = module.checkpoint(f, x, use_reentrant=False, determinism_check="strict")
        elif name == "another shape, unchecked":
            y = module.checkpoint(f, x, use_reentrant=False, determinism_check="none")
        elif name == "twice":
            y = module.checkpoint(f, module.checkpoint(f, x, use_reentrant=False), use_reentrant=False)
        elif name == "without early stop":
            with module.set_checkpoint_early_stop(False):
                y = module.checkpoint(f, x, use_reentrant=False)
        elif name == "hooks inside":
            with lib.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t * 1):
                y = module.checkpoint(f, x, use_reentrant=False)
        elif name == "contexts":
            y = module.checkpoint(f, x, use_reentrant=False, context_fn=lambda: (lib.no_grad(), lib.no_grad()))
            return y.requires_grad, count
        elif name == "contexts, reentrant":
            y = module.checkpoint(f, x, use_reentrant=True, context_fn=lambda: (lib.no_grad(), lib.no_grad()))
        elif name == "the argument is written to":
            z = x * 1
            y = module.checkpoint(f, z, use_reentrant=False)
            z.add_(1)
        elif name == "unknown keyword of sequential":
            y = module.checkpoint_sequential([f], 1, x, use_reentrant=False, scale=2)
        elif name == "detach_variable of a list":
            return module.detach_variable([x])
        else:
            y = module.checkpoint(f, x, use_reentrant=False)
        y.sum().backward()
    except Exception as error:  # noqa: BLE001 (the error is the answer that is compared)
        return type(error).__name__, count
    return count, *[None if t.grad is None else t.grad.reshape(-1).tolist() for t in (x, w)]


@pytest.mark.parametrize(
    "name",
    ["plain", "keyword arguments", "several outputs", "keyword arguments, reentrant", "grad, reentrant", "no_grad",
     "nothing asks", "nothing asks, reentrant", "unknown check", "another shape", "fewer ops", "more ops", "twice",
     "without early stop", "hooks inside", "contexts", "contexts, reentrant", "the argument is written to",
     "unknown keyword of sequential", "detach_variable of a list"],
)  # fmt: skip
def test_a_checkpoint_does_as_in_pytorch(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = runs(torch, importlib.import_module("torch.utils.checkpoint"), name), runs(tdt, cp, name)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a == (pytest.approx(b, rel=1e-12) if isinstance(b, list) else b)


def test_debug_lists_what_both_runs_did():
    calls = []

    def f(x):
        calls.append(0)
        return x.exp().sin() if len(calls) == 1 else x.cos()

    with pytest.raises(
        cp.CheckpointError, match=r"(?s)Forward: ExpBackward0, SinBackward0.*Recomputation: CosBackward0"
    ):
        again(f, tdt.ones(3, requires_grad=True), debug=True).sum().backward()


def test_leaving_use_reentrant_out_warns():
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        cp.checkpoint(lambda x: x * 2, tdt.ones(1, requires_grad=True))


def selective(lib, policy, **options):
    """`checkpoint` of one library with a policy for the results of ops."""
    module = importlib.import_module(f"{lib.__name__}.utils.checkpoint")
    contexts = functools.partial(module.create_selective_checkpoint_contexts, policy, **options)
    return functools.partial(module.checkpoint, use_reentrant=False, context_fn=contexts)


def block(lib, x, w):
    """Products, sums, a normalization, attention and a loss, the last two with values for their gradients alone."""
    f = lib.nn.functional
    h = f.layer_norm(f.linear((x @ w).sin(), w, w[0]), (4,)).relu()
    heads = f.scaled_dot_product_attention(h[None, None], h[None, None] * 0.5, h[None, None])[0, 0]
    return (
        f.cross_entropy(heads.softmax(-1) + h.transpose(0, 1), lib.tensor([1, 0, 3, 2])) + (h * 2).max(1).values.mean()
    )


POLICIES = {
    "none": lambda lib: lambda ctx, op, *args, **kwargs: False,
    "all": lambda lib: lambda ctx, op, *args, **kwargs: True,
    "offloaded": lambda lib: lambda ctx, op, *args, **kwargs: cp.CheckpointPolicy.MUST_CPU_OFFLOAD,
    "products": lambda lib: [lib.ops.aten.mm.default, lib.ops.aten.addmm.default],
    "every second": lambda lib: lambda ctx, op, *args, _calls=[], **kwargs: len(_calls.append(op) or _calls) % 2 == 0,
}  # fmt: skip


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_selective_checkpoint_changes_no_gradient(name, dtype):
    found = []
    for run in (block, functools.partial(selective(tdt, POLICIES[name](tdt)), block)):
        tdt.manual_seed(0)
        x, w = (tdt.randn(4, 4).to(getattr(tdt, dtype)).requires_grad_() for _ in range(2))
        run(tdt, x, w).backward()
        found.append((x.grad, w.grad))
    assert all(tdt.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_selective_checkpoint_has_pytorchs_gradients_and_names_of_ops():
    found = []
    for lib in (torch, tdt):
        visited = []

        def policy(ctx, op, *args, visited=visited, **kwargs):
            visited.append(str(op))
            assert not ctx.is_recompute and ctx.op_output.shape is not None
            return len(visited) % 2 == 0

        x = lib.tensor([[0.3, -1.2], [1.1, 0.2]], requires_grad=True)
        b = lib.tensor([0.5, 2.0])
        selective(lib, policy)(lambda x, lib=lib, b=b: (
            (lib.nn.functional.linear((x @ x).sin(), x, b).softmax(1) * x + 1).sum(1) ** 2).mean(), x).backward()  # fmt: skip
        found.append(
            (x.grad, [name for name in visited if name != "aten.t.default"])
        )  # which a linear layer is not made of here
    assert found[0][1] == found[1][1]
    assert tdt.allclose(found[1][0], tdt.from_numpy(found[0][0].numpy()), rtol=1e-6)


@pytest.mark.parametrize(("saved", "calls"), [(True, 1), (False, 2)])
def test_what_is_saved_is_not_computed_again(saved, calls, monkeypatch):
    op, count = tdt.autograd._op_table.OPS["trace"], []
    forward = op.forward
    monkeypatch.setattr(op, "kernels", ())
    monkeypatch.setattr(op, "forward", lambda *args, **kwargs: count.append(1) or forward(*args, **kwargs))
    x = tdt.ones(3, 3, requires_grad=True)
    selective(tdt, lambda ctx, op, *args, **kwargs: saved)(lambda x: x.trace().sin() ** 2, x).backward()
    assert len(count) == calls


def test_dropout_and_writes_in_place_are_computed_again_by_every_policy():
    def function(x):
        y = tdt.nn.functional.dropout((x * 2).sin_(), 0.5) + tdt.rand(8)
        return (y.relu_() ** 2).sum()

    found = []
    for run in (
        function,
        functools.partial(selective(tdt, lambda ctx, op, *args, **kwargs: "relu" not in str(op)), function),
    ):
        tdt.manual_seed(0)
        x = tdt.arange(8.0).requires_grad_()
        with tdt.autograd.graph.allow_mutation_on_saved_tensors() if run is function else tdt.enable_grad():
            run(x)
        found.append(tdt.rand(1).item())
    assert found[0] == found[1]


def mutated(lib, allow):
    def function(x):
        y = x.exp()
        z = y * 2
        with lib.no_grad():
            y.mul_(3)
        return z.sin().sum()

    x = lib.ones(2, requires_grad=True)
    saves = lambda ctx, op, *args, **kwargs: str(op) == "aten.exp.default"  # noqa: E731
    selective(lib, saves, allow_cache_entry_mutation=allow)(function, x).backward()


def test_errors_of_selective_checkpoints_are_pytorchs():
    for lib in (torch, tdt):
        create = importlib.import_module(f"{lib.__name__}.utils.checkpoint").create_selective_checkpoint_contexts
        with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload"):
            create([lib.ops.aten.mm])
        with pytest.raises(TypeError, match="must be either a function or a list of ops"):
            create(3)
        with pytest.raises(RuntimeError, match="has been mutated"):
            mutated(lib, False)
        calls = []
        changing = lambda x, calls=calls: calls.append(1) or (x.sin() if len(calls) == 1 else x.cos()).exp().sum()  # noqa: E731
        with pytest.raises(RuntimeError, match="encountered during backward but not found in storage"):
            selective(lib, lambda ctx, op, *args, **kwargs: True)(changing, lib.ones(2, requires_grad=True)).backward()
    assert [p.name for p in cp.CheckpointPolicy] == [p.name for p in torch.utils.checkpoint.CheckpointPolicy]
