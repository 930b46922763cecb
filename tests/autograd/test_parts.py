"""Gradients of parts of one tensor have the bits of the sum of all parts' gradients among zeros, and are not that slow."""

import numpy as np
import pytest

import tdt
from tdt.autograd import _engine
from tdt.autograd._parts import are_disjoint

INDICES = {
    "rows": [np.s_[0], np.s_[1], np.s_[2], np.s_[-1]],
    "columns": [np.s_[:, 0], np.s_[:, 1], np.s_[:, 3], np.s_[:, 3], np.s_[..., 2]],
    "windows": [np.s_[0:2], np.s_[2:4], np.s_[1:3], np.s_[:], np.s_[0:3]],
    "overlapping": [np.s_[:-1], np.s_[1:], np.s_[:-1], np.s_[1:]],
    "others": [np.s_[0], np.s_[::2], np.s_[None, 1], np.s_[3:1], np.s_[..., 1], np.s_[2, 3], np.s_[-2:], np.s_[1, 1:3]],
}


def gradients(parts, dtype, leaf, in_parts, monkeypatch):
    """The gradient of weighted parts of a tensor, whose weights hold both zeros; added as one would, or in parts."""
    if not in_parts:
        monkeypatch.setattr(_engine, "add_to_part", lambda *arguments: False)
    tdt.manual_seed(0)
    x = tdt.randn(4, 5).to(dtype).requires_grad_()
    whole = x if leaf else x * tdt.ones((), dtype=dtype)
    loss = 0
    for k, index in enumerate(parts):
        weight = tdt.randn(tuple(whole[index].shape)).to(dtype)
        flat = weight.view(-1)
        flat[:2] = -0.0
        if k == 1:
            loss = loss + (whole * tdt.randn(4, 5).round().to(dtype)).sum()
        loss = loss + (whole[index] * weight).sum()
    (loss.real if loss.is_complex() else loss).backward()
    return x.grad


@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("dtype", [tdt.float32, tdt.bfloat16, tdt.complex64])
@pytest.mark.parametrize("name", list(INDICES))
def test_parts_have_the_bits_of_the_sum(name, dtype, leaf, monkeypatch):
    for parts in (INDICES[name], INDICES[name][::-1], INDICES[name] * 2):
        found = gradients(parts, dtype, leaf, True, monkeypatch)
        with monkeypatch.context() as patch:
            expected = gradients(parts, dtype, leaf, False, patch)
        assert found._a.tobytes() == expected._a.tobytes()


def test_parts_of_a_shared_gradient_leave_it_as_it_is():
    x = tdt.ones(3, requires_grad=True)
    y = x * 1
    g = tdt.ones(3)
    received = []
    y.register_hook(lambda each: received.append(each.clone()))
    total = y[0] + 2 * y[1] + 3 * y[2]
    tdt.autograd.backward([y, total], [g, None])
    assert g.tolist() == [1, 1, 1]
    assert received[0].tolist() == x.grad.tolist() == [2, 3, 4]


def test_a_retained_graph_gives_its_gradients_again():
    x = tdt.arange(4.0).requires_grad_()
    loss = (x[0] * 2 + x[1] * 3 + x[2] * 4 + x[3] * 5) ** 2
    (first,) = tdt.autograd.grad(loss, x, retain_graph=True)
    (again,) = tdt.autograd.grad(loss, x, create_graph=True)
    assert first.tolist() == again.tolist() == [104, 156, 208, 260]
    assert tdt.autograd.grad(again.sum(), x)[0].tolist() == [56, 84, 112, 140]


def test_parts_with_sparse_gradients():
    weight, index = tdt.zeros(12, 2, requires_grad=True), tdt.tensor([0, 2, 2])
    rows = [tdt.nn.functional.embedding(index, weight[3 * k : 3 * k + 3], sparse=True) for k in range(4)]
    sum((k + 1) * each.sum() for k, each in enumerate(rows)).backward()
    assert weight.grad.to_dense()[:, 1].tolist() == [1, 0, 2, 2, 0, 4, 3, 0, 6, 4, 0, 8]


def test_parts_of_a_tensor_whose_data_was_replaced_are_refused():
    x = tdt.zeros(5, 2, requires_grad=True)
    first = x[0].sum()
    x.data = tdt.zeros(7, 2)
    with pytest.raises(ValueError, match="shapes"):
        (first + x[4].sum() + x[5].sum() + x[6].sum()).backward()


def test_few_elements_are_added(monkeypatch):
    """Of a hundred rows, only the first ones' gradients are added among zeros."""
    x = tdt.ones(100, 3, requires_grad=True)
    added = []
    monkeypatch.setattr(_engine, "add_to", lambda a, b: added.append(b.size) or np.add(a, b, out=a))
    monkeypatch.setattr(_engine, "add", lambda a, b: added.append(b.size) or a + b)
    loss = sum(x[k].sum() for k in range(100))
    loss.backward()
    assert added == [300]
    assert (x.grad == 1).all()


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (np.s_[0], np.s_[1], True),
        (np.s_[0], np.s_[-5], False),
        (np.s_[-1], np.s_[4], False),
        (np.s_[:2], np.s_[2:], True),
        (np.s_[:3], np.s_[2:], False),
        (np.s_[:, 1], np.s_[:, 2:], True),
        (np.s_[1:1], np.s_[1], True),
        (np.s_[1:4], np.s_[1:1], True),
        (np.s_[..., 0], np.s_[..., 1], False),
        (np.s_[None, 0], np.s_[None, 1], False),
        (np.s_[::2], np.s_[1::2], False),
        (np.s_[:], np.s_[0], False),
    ],
)
def test_disjoint_indices(a, b, expected):
    tuples = [index if isinstance(index, tuple) else (index,) for index in (a, b)]
    assert are_disjoint(*tuples, (5, 5)) is are_disjoint(*tuples[::-1], (5, 5)) is expected
