"""Matrices with compressed rows, beside PyTorch's."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.sparse.test_tensors import BOTH, saved

torch = require_torch()
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")


def example(lib, **options):
    return lib.sparse_csr_tensor([0, 2, 2, 3], [0, 3, 1], [3.0, 4.0, -5.0], (3, 4), **options)


def dense(lib, *shape):
    return (lib.arange(float(np.prod(shape))).reshape(shape) - 3).requires_grad_()


def as_plain(value):
    """Layout, shape and dense values of a tensor; what is no tensor as it is."""
    if isinstance(value, (list, tuple)):
        return [as_plain(v) for v in value]
    if isinstance(value, (tdt.Tensor, torch.Tensor)):
        layout = str(value.layout).rpartition(".")[2]
        return layout, tuple(value.shape), str(value.dtype).rpartition(".")[2], value.detach().to_dense().tolist()
    return value


def mm(lib, reduce="sum"):
    x, m = example(lib, requires_grad=True), dense(lib, 4, 2)
    y = lib.sparse.mm(x, m, reduce)
    (y * y).sum().backward()
    return [y, x.grad.to_dense(), m.grad]


def sampled(lib):
    x, a, b = example(lib), dense(lib, 3, 2), dense(lib, 2, 4)
    y = lib.sparse.sampled_addmm(x, a, b, beta=0.5, alpha=2.0)
    (y.to_dense() ** 2).sum().backward()
    return [y, a.grad, b.grad]


def layer(lib):
    m = dense(lib, 4, 2)
    (example(lib) @ m).sum().backward()
    return m.grad


PROGRAMS = {
    "made": lambda t: [example(t), example(t).crow_indices(), example(t).col_indices(), example(t).values()],
    "inferred": lambda t: t.sparse_csr_tensor([0, 1, 3], [1, 0, 2], [4, 5, 6]),
    "dtype": lambda t: t.sparse_csr_tensor([0, 1], [0], [4], dtype=t.float64),
    "facts": lambda t: [example(t).is_sparse, example(t).is_sparse_csr, example(t)._nnz(), example(t).requires_grad],
    "of dense": lambda t: t.tensor([[0.0, 2], [0, 0], [3, 4]]).to_sparse_csr(),
    "of coordinates": lambda t: t.sparse_coo_tensor([[1, 0, 1], [0, 1, 0]], [1.0, 2, 3], (2, 2)).to_sparse_csr(),
    "by layout": lambda t: t.eye(2).to_sparse(layout=t.sparse_csr),
    "to coordinates": lambda t: example(t).to_sparse(),
    "empty": lambda t: t.zeros(0, 3).to_sparse_csr(), "zeros": lambda t: t.zeros(2, 3).to_sparse_csr(),
    "times": lambda t: [example(t) * 2, -example(t), example(t) + example(t), example(t).sin()],
    "plus": lambda t: example(t) + t.sparse_csr_tensor([0, 1, 2, 3], [0, 1, 2], [1.0, 1, 1], (3, 4)),
    "dtypes": lambda t: [example(t).double(), example(t).clone(), example(t).detach()],
    "sum": lambda t: example(t).sum(),
    "mm": mm, "mean": lambda t: mm(t, "mean"), "amax": lambda t: mm(t, "amax"), "amin": lambda t: mm(t, "amin"),
    "matmul": lambda t: [example(t) @ dense(t, 4, 2), example(t) @ t.ones(4), t.addmm(t.ones(3, 2), example(t), t.ones(4, 2))],
    "layer": layer, "sampled_addmm": sampled,
    "copies": lambda t: [pickle.loads(pickle.dumps(example(t))), saved(t, example(t))],
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_what_it_does_in_pytorch(name):
    ours, theirs = (as_plain(PROGRAMS[name](lib)) for lib in BOTH)
    assert ours == theirs


def test_coordinate_operations_of_pytorch_work_too():
    for x in (copy.deepcopy(example(tdt)), example(tdt) / 2 * 2, example(tdt)[:], example(tdt).t().t()):
        assert tdt.equal(x.to_dense(), example(tdt).to_dense())


def test_it_prints_as_pytorchs():
    assert repr(example(tdt)) == repr(example(torch)).replace("torch.", "tdt.")


REFUSED = {
    "rows": lambda t: t.sparse_csr_tensor([0, 1], [0], [1.0], (2, 2), check_invariants=True),
    "ends": lambda t: t.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0], (2, 2), check_invariants=True),
    "falls": lambda t: t.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2.0], (2, 2), check_invariants=True),
    "outside": lambda t: t.sparse_csr_tensor([0, 1, 2], [0, 4], [1.0, 2.0], (2, 2), check_invariants=True),
    "order": lambda t: t.sparse_csr_tensor([0, 2, 2], [1, 0], [1.0, 2.0], (2, 2), check_invariants=True),
    "count": lambda t: t.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0], (2, 2), check_invariants=True),
    "indices": lambda t: example(t).indices(),
    "of coordinates": lambda t: example(t).to_sparse().crow_indices(),
    "sampled": lambda t: t.sparse.sampled_addmm(t.eye(2).to_sparse(), t.ones(2, 2), t.ones(2, 2)),
    "plus": lambda t: example(t) + 1,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name):
    ours, theirs = (pytest.raises(Exception, REFUSED[name], lib).value for lib in BOTH)
    assert isinstance(ours, RuntimeError) and isinstance(theirs, (RuntimeError, TypeError))


@pytest.mark.parametrize("name", ["to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc"])
def test_other_compressed_layouts_are_refused_with_what_there_is(name):
    with pytest.raises(NotImplementedError, match="use to_sparse_csr"):
        getattr(tdt.eye(2), name)()
