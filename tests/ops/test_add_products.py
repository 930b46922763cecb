"""addmm, addmv and baddbmm, each one op: values, gradients of both orders and nodes as PyTorch's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

CASES = {
    "addmm": [[(5, 7), (5, 3), (3, 7)], [(7,), (5, 3), (3, 7)], [(5, 1), (5, 3), (3, 7)], [(), (5, 0), (0, 7)]],
    "addmv": [[(5,), (5, 3), (3,)], [(1,), (5, 3), (3,)]],
    "baddbmm": [[(2, 5, 7), (2, 5, 3), (2, 3, 7)], [(7,), (2, 5, 3), (2, 3, 7)]],
}
FACTORS = [{}, {"beta": 2, "alpha": 0.5}, {"beta": 0}, {"alpha": -1.5}]


def results(library, name, arrays, factors):
    """The node's name, the value, the gradients and the gradients of their squares."""
    tensors = [library.from_numpy(a.copy()).requires_grad_() for a in arrays]
    y = getattr(library, name)(*tensors, **factors)
    grads = library.autograd.grad((y * y).sum(), tensors, create_graph=True)
    second = library.autograd.grad(sum((g * g).sum() for g in grads), tensors)
    return y.grad_fn.name(), [t.detach().numpy() for t in (y, *grads, *second)]


@pytest.mark.parametrize("factors", FACTORS, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_values_gradients_and_nodes_are_pytorchs(name, factors):
    torch = require_torch()
    for shapes in CASES[name]:
        arrays = [np.random.default_rng(len(s)).standard_normal(s).astype(np.float32) for s in shapes]
        (ours, found), (theirs, expected) = (results(library, name, arrays, factors) for library in (tdt, torch))
        assert ours == theirs
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_a_bias_has_the_bits_of_linear():
    x, w, b = tdt.randn(9, 20), tdt.randn(33, 20), tdt.randn(33)
    assert tdt.equal(tdt.addmm(b, x, w.t()), tdt.nn.functional.linear(x, w, b))


def test_nothing_of_an_ignored_input_reaches_the_result():
    y = tdt.addmm(tdt.full((2, 2), float("nan")), tdt.ones(2, 3), tdt.ones(3, 2), beta=0)
    assert tdt.equal(y, tdt.full((2, 2), 3.0))


@pytest.mark.parametrize("name", ["addr", "addbmm"])
def test_the_gradient_of_an_ignored_input_is_zeros(name):
    size = (2,) if name == "addr" else (2, 2, 2)
    x = tdt.full((2, 2), float("nan"), requires_grad=True)
    factors = tdt.full(size, -0.0), tdt.ones(*size)
    y = getattr(tdt, name)(x, *factors, beta=0)
    y.sum().backward()
    assert not y.isnan().any() and tdt.equal(x.grad, tdt.zeros(2, 2))
    assert tdt.equal(y.signbit(), getattr(tdt, name)(x.detach(), *factors, beta=0).signbit())


@pytest.mark.parametrize("kind", ["bool", "int64", "float32"])
@pytest.mark.parametrize("factor", [True, False, 2.0, 1j])
def test_addr_takes_the_factors_that_its_result_can_hold(kind, factor):
    torch = require_torch()
    for name in ("alpha", "beta"):
        found = []
        for t in (torch, tdt):
            x, v = t.ones(2, 2, dtype=t.bool), t.ones(2, dtype=getattr(t, kind))
            try:
                found.append(t.addr(x, v, v, **{name: factor}).tolist())
            except RuntimeError as error:
                found.append(str(error))
        assert found[0] == found[1]


def test_true_as_a_factor_of_true_leaves_a_sum_of_bools_one():
    x = tdt.tensor([True, False])
    for other, factor in ((True, True), (True, 2), (False, True), (True, False)):
        y = tdt.add(x, other, alpha=factor)
        assert y.dtype is tdt.bool and y.tolist() == [True, other and bool(factor)]


@pytest.mark.parametrize("shapes", [[(5, 6), (5, 3), (3, 7)], [(5, 7), (5, 3), (4, 7)], [(1, 5, 7), (5, 3), (3, 7)]])
def test_shapes_that_do_not_fit_are_refused(shapes):
    with pytest.raises(RuntimeError):
        tdt.addmm(*(tdt.ones(s) for s in shapes))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("size", [(3, 5), (1, 9), (65, 33), (4, 0)])
def test_products_that_are_not_recorded_have_the_bits_of_recorded_ones(size, kind):
    torch, rng = require_torch(), np.random.default_rng(2)
    a, u, v = (rng.standard_normal(shape).astype(kind) for shape in (size, size[:1], size[1:]))
    calls = [
        lambda t, a, u, v: t.mv(a, v),
        lambda t, a, u, v: t.dot(v, v),
        lambda t, a, u, v: t.addmv(u, a, v, beta=0.5, alpha=2),
        lambda t, a, u, v: t.addr(a, u, v, beta=0.3, alpha=0.7),
        lambda t, a, u, v: t.addmm(v, a, a.mT @ a),
    ]
    for call, m in itertools.product(calls, (a, np.asfortranarray(a), np.repeat(a, 2, 1)[:, ::2])):
        arrays = m, u, v
        found = call(tdt, *map(tdt.from_numpy, arrays)).numpy()
        recorded = call(tdt, *[tdt.from_numpy(x).requires_grad_() for x in arrays]).detach().numpy()
        np.testing.assert_array_equal(found, recorded, strict=True)
        np.testing.assert_allclose(found, call(torch, *map(torch.from_numpy, arrays)).numpy(), rtol=1e-4, atol=1e-5)


def test_renorm_that_is_not_recorded_has_the_bits_of_a_recorded_one():
    torch, x = require_torch(), np.random.default_rng(3).standard_normal((5, 6, 7)).astype(np.float32)
    for p, dim in itertools.product((1, 2, 3.5, float("inf")), range(3)):
        found = tdt.renorm(tdt.tensor(x), p, dim, 1.0)
        recorded = tdt.renorm(tdt.tensor(x, requires_grad=True), p, dim, 1.0)
        np.testing.assert_array_equal(found.numpy(), recorded.detach().numpy())
        np.testing.assert_allclose(found.numpy(), torch.renorm(torch.tensor(x), p, dim, 1.0).numpy(), rtol=1e-5)
        for turned in (tdt.tensor(x).mT, tdt.tensor(x, requires_grad=True).mT):
            assert tdt.renorm(turned, p, dim, 1.0).is_contiguous()


def test_renorm_takes_tensors_and_refuses_nan_and_norms_of_nothing():
    torch = require_torch()
    for p, maxnorm, shape in [(2, "t", (2, 3)), (2, np.nan, (2, 3)), (np.nan, 1, (2, 3)), (np.inf, 1, (0, 3))]:
        found = []
        for t in torch, tdt:
            try:
                found.append(
                    t.renorm(t.ones(*shape), p, 1, t.tensor(1.0) if maxnorm == "t" else maxnorm).numpy().tolist()
                )
            except RuntimeError as error:
                found.append(type(error))
        assert found[0] == found[1]


def test_the_dot_product_with_an_expanded_vector_has_one_value():
    x, y = tdt.linspace(-1, 2, 3000), tdt.tensor([0.7]).expand(3000)
    assert tdt.equal(tdt.dot(x, y), tdt.dot(x.clone().requires_grad_(), y))
    assert tdt.equal(tdt.dot(x, y), tdt.dot(x, y.contiguous()))


def test_addr_has_the_layout_of_its_input():
    x, u, v = tdt.ones(4, 3).T, tdt.ones(3), tdt.ones(4)
    assert tdt.addr(x, u, v).stride() == tdt.addr(x.clone().requires_grad_(), u, v).stride() == (1, 3)


def test_scalars_have_no_matrix_product():
    with pytest.raises(RuntimeError, match="at least 1D"):
        tdt.matmul(tdt.tensor(1.0), tdt.tensor(2.0))


@pytest.mark.parametrize("name", ["vdot", "addmm", "addr"])
def test_a_leaf_takes_a_result_where_gradients_are_off(name):
    shapes = {"vdot": ((3,), (3,)), "addmm": ((2, 2),) * 3, "addr": ((2, 2), (2,), (2,))}[name]
    args = [tdt.ones(*shape) for shape in shapes]
    expected = getattr(tdt, name)(*args)
    out = tdt.zeros(expected.shape, requires_grad=True)
    with tdt.no_grad():
        assert getattr(tdt, name)(*args, out=out) is out
    assert tdt.equal(out, expected) and out.is_leaf and out.requires_grad
