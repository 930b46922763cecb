"""`tdt.func` beside PyTorch's: gradients, Jacobians and batches of functions."""

import importlib

import pytest

import tdt
import tdt.func
from tests.helpers import require_torch

torch = require_torch()
importlib.import_module("torch.func")

X, Y = [0.3, -1.2, 0.7], [1.1, 0.2, -0.5]


def cube(x):
    return (x**3).sum()


CALLS = {
    "grad": lambda t, f, x, y: f.grad(cube)(x),
    "grad of grad": lambda t, f, x, y: f.grad(lambda a: f.grad(lambda b: (b * a).sin().sum())(a).exp().sum())(x),
    "grad of both": lambda t, f, x, y: f.grad(lambda a, b: (a * b).sin().sum(), argnums=(0, 1))(x, y),
    "grad of the second": lambda t, f, x, y: f.grad(lambda a, b: (a * b * b).sum(), argnums=1)(x, y),
    "grad of a dict": lambda t, f, x, y: f.grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": x, "b": [y]}),
    "grad with aux": lambda t, f, x, y: f.grad(lambda a: (cube(a), a.exp()), has_aux=True)(x),
    "grad and value": lambda t, f, x, y: f.grad_and_value(lambda a: (cube(a), {"k": a.exp()}), has_aux=True)(x),
    "what does not matter": lambda t, f, x, y: f.grad(lambda a, b: b.sum(), argnums=(0, 1))(x, y),
    "vjp": lambda t, f, x, y: f.vjp(lambda a, b: (a * b, a.sum()), x, y)[1]((y, x[0])),
    "jvp": lambda t, f, x, y: f.jvp(lambda a, b: (a * b, a.sum()), (x, y), (y, x)),
    "jvp with aux": lambda t, f, x, y: f.jvp(lambda a: (a.sin(), a), (x,), (y,), has_aux=True),
    "linearize": lambda t, f, x, y: f.linearize(lambda a: a.sin() * 2, x)[1](y),
    "jacrev": lambda t, f, x, y: f.jacrev(lambda a, b: {"p": a * b, "q": a.outer(b)}, argnums=(0, 1))(x, y),
    "jacrev with aux": lambda t, f, x, y: f.jacrev(lambda a: (a.sin(), a), has_aux=True)(x),
    "jacfwd": lambda t, f, x, y: f.jacfwd(lambda a: a.cumsum(0) * a)(x),
    "hessian": lambda t, f, x, y: f.hessian(lambda a: (a.sin() * a.cumsum(0)).sum())(x),
    "hessian by two": lambda t, f, x, y: f.hessian(lambda a, b: (a * b * b).sum(), argnums=(0, 1))(x, y),
    "vmap": lambda t, f, x, y: f.vmap(lambda a, b: a * b, in_dims=(0, None))(x, y),
    "vmap out": lambda t, f, x, y: f.vmap(lambda a: (a.exp(), a.sum()), 1, (1, 0))(x.outer(y)),
    "vmap in a dict": lambda t, f, x, y: f.vmap(lambda d: d["a"] * d["b"], ({"a": 0, "b": None},))({"a": x, "b": y}),
    "per-sample gradients": lambda t, f, x, y: f.vmap(f.grad(lambda w, a: (w * a).sin().sum()), (None, 0))(
        x, x.outer(y)
    ),
    "jacobian by vmap": lambda t, f, x, y: f.vmap(f.vjp(lambda a: a.sin(), x)[1])(t.eye(3, dtype=t.float64)),
    "vmap of vmap": lambda t, f, x, y: f.vmap(f.vmap(lambda a, b: a * b), (None, 0))(x, x.outer(y)),
}


def plain(result):
    if isinstance(result, dict):
        return [item for key in result for item in plain(result[key])]
    if isinstance(result, (tuple, list)):
        return [item for part in result for item in plain(part)]
    return [(tuple(result.shape), result.requires_grad, result.detach().reshape(-1).tolist())]


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_pytorchs_and_lead_back_only_to_graphs_around_them(name, outer):
    theirs, ours = (
        plain(CALLS[name](lib, lib.func, *(lib.tensor(v, dtype=lib.float64, requires_grad=outer) for v in (X, Y))))
        for lib in (torch, tdt)
    )
    assert [t[:2] for t in ours] == [t[:2] for t in theirs] or outer
    for (shape, _, values), (their_shape, _, their_values) in zip(ours, theirs, strict=True):
        assert shape == their_shape
        assert values == pytest.approx(their_values, rel=1e-12, abs=1e-14)


def test_gradients_of_transformed_functions_reach_the_graph_around():
    slopes = []
    for lib in (torch, tdt):
        w = lib.tensor(X, dtype=lib.float64, requires_grad=True)
        lib.func.grad(lambda a, w=w: (a * w).sin().sum())(lib.tensor(Y, dtype=lib.float64)).sum().backward()
        slopes.append(w.grad.tolist())
    assert slopes[1] == pytest.approx(slopes[0], rel=1e-12)


BAD = {
    "not a scalar": lambda t, f, x: f.grad(lambda a: a)(x),
    "no tensor": lambda t, f, x: f.grad(cube)(3.0),
    "argnum": lambda t, f, x: f.grad(cube, argnums=1)(x),
    "no aux": lambda t, f, x: f.grad(cube, has_aux=True)(x),
    "another shape": lambda t, f, x: f.vjp(lambda a: a, x)[1](t.ones(4)),
    "tangents": lambda t, f, x: f.jvp(lambda a: a, (x,), (t.ones(4),)),
    "lists": lambda t, f, x: f.jvp(lambda a: a, [x], [x]),
    "0-d": lambda t, f, x: f.vmap(lambda a: a)(t.tensor(1.0)),
    "no tensor out": lambda t, f, x: f.vmap(lambda a: 3)(x),
    "sizes": lambda t, f, x: f.vmap(lambda a, b: a + b)(x, t.ones(4)),
    "random": lambda t, f, x: f.vmap(lambda a: t.rand_like(a))(x),
    "randomness": lambda t, f, x: f.vmap(lambda a: a, randomness="none")(x),
    "nothing mapped": lambda t, f, x: f.vmap(lambda a: a, in_dims=None)(x),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_raise_pytorchs_class(name):
    with pytest.raises(Exception) as theirs:  # noqa: PT011 (its class is what is compared)
        BAD[name](torch, torch.func, torch.tensor(X))
    with pytest.raises(type(theirs.value)):
        BAD[name](tdt, tdt.func, tdt.tensor(X))


def test_entries_may_draw_the_same_or_other_numbers():
    same = tdt.func.vmap(tdt.rand_like, randomness="same")(tdt.ones(3, 2))
    other = tdt.func.vmap(tdt.rand_like, randomness="different")(tdt.ones(3, 2))
    assert tdt.equal(same[0], same[1])
    assert not tdt.equal(other[0], other[1])


def test_what_serves_compilers_is_refused():
    with pytest.raises(NotImplementedError, match="functionalize is not offered"):
        tdt.func.functionalize(cube)
