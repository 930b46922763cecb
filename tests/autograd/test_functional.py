"""`autograd.functional` beside PyTorch's."""

import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()

X = [[0.3, -1.2, 0.7], [1.1, 0.2, -0.5]]
Y = [0.4, -0.8, 1.5]


def inputs(lib, grad=False):
    return tuple(lib.tensor(v, dtype=lib.float64, requires_grad=grad) for v in (X, Y))


def two(lib):
    return lambda x, y: ((x * y).sin().sum(1), (x.exp() @ y.pow(2)) * y.sum())


def one(lib):
    return lambda x, y: ((x * y).sin() * x.exp()).sum() + y.pow(3).sum()


def flat(result):
    if isinstance(result, tuple):
        return [part for entry in result for part in flat(entry)]
    return [result]


CALLS = {
    "jacobian": lambda lib, a, **kw: lib.autograd.functional.jacobian(two(lib), a, **kw),
    "jacobian of one": lambda lib, a, **kw: lib.autograd.functional.jacobian(lambda x: x.tanh(), a[0], **kw),
    "hessian": lambda lib, a, **kw: lib.autograd.functional.hessian(one(lib), a, **kw),
    "hessian of one": lambda lib, a, **kw: lib.autograd.functional.hessian(lambda x: x.pow(3).sum(), a[1], **kw),
    "vjp": lambda lib, a, **kw: lib.autograd.functional.vjp(two(lib), a, (a[0][:, 0] * 2, a[0][:, 1]), **kw),
    "jvp": lambda lib, a, **kw: lib.autograd.functional.jvp(two(lib), a, (a[0] * 3, a[1] * 2), **kw),
    "vhp": lambda lib, a, **kw: lib.autograd.functional.vhp(one(lib), a, (a[0] * 3, a[1] * 2), **kw),
    "hvp": lambda lib, a, **kw: lib.autograd.functional.hvp(one(lib), a, (a[0] * 3, a[1] * 2), **kw),
    "vjp without v": lambda lib, a, **kw: lib.autograd.functional.vjp(one(lib), a, **kw),
    "jvp without v": lambda lib, a, **kw: lib.autograd.functional.jvp(lambda x: x * x, a[1][0], **kw),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_results_and_their_gradients_are_pytorchs(name, create_graph):
    results, slopes = [], []
    for lib in (torch, tdt):
        a = inputs(lib, grad=True)
        found = flat(CALLS[name](lib, a, create_graph=create_graph))
        assert all(t.requires_grad == create_graph for t in found)
        results.append([t.tolist() for t in found])
        if create_graph:
            sum((t * t).sum() for t in found).backward()
            slopes.append([None if x.grad is None else x.grad.tolist() for x in a])
    for theirs, ours in zip(*results, strict=True):
        assert tdt.allclose(tdt.tensor(ours, dtype=tdt.float64), tdt.tensor(theirs, dtype=tdt.float64), rtol=1e-12)
    for theirs, ours in zip(*(slopes or [[], []]), strict=True):
        assert (theirs is None) == (ours is None)
        if theirs is not None:
            assert tdt.allclose(tdt.tensor(ours, dtype=tdt.float64), tdt.tensor(theirs, dtype=tdt.float64), rtol=1e-10)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_vectorized_results_are_the_same(strategy):
    a = inputs(tdt)
    plain = flat(tdt.autograd.functional.jacobian(two(tdt), a))
    for vectorized, other in zip(plain, flat(tdt.autograd.functional.jacobian(two(tdt), a, vectorize=True, strategy=strategy)),
                           strict=True):  # fmt: skip
        assert tdt.equal(vectorized, other)


BAD = {
    "independent output": lambda lib, f: f.jacobian(lambda x: lib.ones(2), lib.ones(2), strict=True),
    "independent input": lambda lib, f: f.vjp(lambda x, y: x.sum(), (lib.ones(2), lib.ones(2)), strict=True),
    "constant slope": lambda lib, f: f.hessian(lambda x: (2 * x).sum(), lib.ones(2), strict=True),
    "constant slope in hvp": lambda lib, f: f.hvp(lambda x: (2 * x).sum(), lib.ones(2), lib.ones(2), strict=True),
    "no tensor": lambda lib, f: f.jacobian(lambda x: x, 3.0),
    "no tensor returned": lambda lib, f: f.jacobian(lambda x: 3.0, lib.ones(2)),
    "not a scalar": lambda lib, f: f.hessian(lambda x: x, lib.ones(2)),
    "a tuple for hessian": lambda lib, f: f.hessian(lambda x: (x.sum(), x.sum()), lib.ones(2)),
    "v left out": lambda lib, f: f.vjp(lambda x: x, lib.ones(2)),
    "v of another shape": lambda lib, f: f.jvp(lambda x: x, lib.ones(2), lib.ones(3)),
    "v too long": lambda lib, f: f.jvp(lambda x: x, (lib.ones(2),), (lib.ones(2), lib.ones(2))),
    "strict and vectorize": lambda lib, f: f.jacobian(lambda x: x * x, lib.ones(2), strict=True, vectorize=True),
    "forward without vectorize": lambda lib, f: f.jacobian(lambda x: x, lib.ones(2), strategy="forward-mode"),
    "unknown strategy": lambda lib, f: f.jacobian(lambda x: x, lib.ones(2), strategy="sideways"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_raise_pytorchs_class(name):
    with pytest.raises(Exception) as theirs:  # noqa: PT011 (its class is what is compared)
        BAD[name](torch, torch.autograd.functional)
    with pytest.raises(type(theirs.value)):
        BAD[name](tdt, tdt.autograd.functional)


def test_an_input_that_changes_nothing_has_zeros_where_not_strict():
    found = tdt.autograd.functional.jacobian(lambda x, y: x * 2, (tdt.ones(2), tdt.ones(3)))
    assert found[1].tolist() == [[0.0] * 3] * 2
    _, product = tdt.autograd.functional.jvp(lambda x: tdt.ones(2), tdt.ones(2), tdt.ones(2))
    assert product.tolist() == [0.0, 0.0]
