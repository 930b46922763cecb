"""Programs over sparse tensors give what they give in PyTorch: values, layouts, dtypes and gradients."""

from __future__ import annotations

import pytest

import tdt
from tests.helpers import require_torch
from tests.sparse._both import assert_same, run

torch = require_torch()

ANY = ("matrix", "empty", "no rows", "vector", "cube", "hybrid", "rows", "no columns")
MATRICES = ("matrix", "empty", "no rows")

# program: kinds of sparse tensors. Gradients are compared where PyTorch has them.
PROGRAMS = {
    "x * 2": (lambda t, z: z.x * 2, ANY),
    "2 * x": (lambda t, z: 2 * z.x, ANY),
    "x * 0-d": (lambda t, z: z.x.detach() * z.s.detach(), ANY),
    "x / 2": (lambda t, z: z.x / 2, ANY),
    "-x": (lambda t, z: -z.x, ANY),
    "x + x": (lambda t, z: z.x + z.x, ANY),
    "x - coalesced": (lambda t, z: z.x - z.x.coalesce(), ANY),
    "add alpha": (lambda t, z: t.add(z.x, z.x.coalesce(), alpha=3), ANY),
    "d + x": (lambda t, z: z.d + z.x, ANY),
    "d - x": (lambda t, z: z.d - z.x, ANY),
    "x * x": (lambda t, z: z.x.coalesce() * z.x.coalesce(), ("matrix", "empty", "vector", "cube", "hybrid", "rows")),
    "x * others": (lambda t, z: z.x.coalesce() * (z.x * 2).t().t().coalesce(), MATRICES),
    "coalesce": (lambda t, z: z.x.coalesce(), ANY),
    "values": (lambda t, z: z.x.coalesce().values(), ANY),
    "to_dense": (lambda t, z: z.x.to_dense(), ANY),
    "to_dense whole gradient": (lambda t, z: z.x.to_dense(masked_grad=False), ANY),
    "to_sparse": (lambda t, z: z.d.to_sparse(), ANY),
    "to_sparse 1": (lambda t, z: z.d.to_sparse(1), ANY),
    "clone": (lambda t, z: z.x.clone(), ANY),
    "float": (lambda t, z: z.x.float(), ANY),
    "long": (lambda t, z: z.x.detach().long() * 2.5, ANY),
    "abs": (lambda t, z: z.x.abs(), ANY),
    "relu": (lambda t, z: t.relu(z.x), ANY),
    "pow": (lambda t, z: z.x**2, ("matrix", "empty", "vector")),
    "norm": (lambda t, z: z.x.detach().norm(), MATRICES),
    "norm 1": (lambda t, z: z.x.detach().norm(1), MATRICES),
    "any": (lambda t, z: z.x.detach().any(), ("matrix", "empty", "vector")),
    "sum": (lambda t, z: z.x.sum(), ANY),
    "sparse.sum": (lambda t, z: t.sparse.sum(z.x), ANY),
    "sparse.sum 0": (lambda t, z: t.sparse.sum(z.x, 0), ("matrix", "empty", "vector", "cube", "hybrid", "rows")),
    "sparse.sum -1": (lambda t, z: t.sparse.sum(z.x, -1), ("matrix", "empty", "vector", "cube", "hybrid", "rows")),
    "sparse.sum 0 1": (lambda t, z: t.sparse.sum(z.x, (0, 1)), ("matrix", "cube", "hybrid", "rows")),
    "sparse.sum dtype": (lambda t, z: t.sparse.sum(z.x.detach(), 0, dtype=t.float32), ("matrix", "hybrid")),
    "sum dense": (lambda t, z: z.x.detach().sum((0, 2)), ("hybrid",)),
    "sum keepdim": (lambda t, z: z.x.detach().sum(0, keepdim=True), MATRICES),
    "t": (lambda t, z: z.x.t(), MATRICES),
    "permute": (lambda t, z: z.x.permute(2, 0, 1), ("cube",)),
    "unsqueeze": (lambda t, z: z.x.detach().unsqueeze(1), ANY),
    "select": (lambda t, z: z.x.detach()[1], ("matrix", "empty", "vector", "cube", "hybrid", "rows")),
    "select both": (lambda t, z: z.x.detach()[1, 2], ("matrix", "empty", "hybrid")),
    "column": (lambda t, z: z.x.detach()[:, 1], ("matrix", "empty", "cube", "hybrid")),
    "narrow_copy": (lambda t, z: z.x.detach().narrow_copy(0, 1, 2), ("matrix", "empty", "vector", "hybrid", "rows")),
    "rows": (lambda t, z: list(z.x.detach()), ("matrix", "hybrid", "rows")),
    "index_select": (lambda t, z: z.x.detach().index_select(0, t.tensor([2, 0, 2])), ("matrix", "empty", "hybrid", "rows")),
    "index_select last": (lambda t, z: z.x.detach().index_select(-1, t.tensor([1, 0])), ("matrix", "hybrid", "rows")),
    "cat": (lambda t, z: t.cat([z.x.detach(), z.x.detach() * 2]), ANY),
    "cat last": (lambda t, z: t.cat([z.x.detach(), z.x.detach() * 2], -1), ANY),
    "stack": (lambda t, z: t.stack([z.x.detach(), z.x.detach() * 2]), ANY),
    "x @ m": (lambda t, z: z.x @ z.m, MATRICES),
    "mm": (lambda t, z: t.mm(z.x, z.m), MATRICES),
    "mm turned": (lambda t, z: t.mm(z.x.t(), z.d), MATRICES),
    "dense mm sparse": (lambda t, z: t.mm(z.m.t(), z.x.detach().t()), MATRICES),
    "spmm": (lambda t, z: t.spmm(z.x, z.m), MATRICES),
    "x @ v": (lambda t, z: z.x @ z.v, MATRICES),
    "mv": (lambda t, z: z.x.mv(z.v), MATRICES),
    "linear": (lambda t, z: t.nn.functional.linear(z.x, z.m.t()), MATRICES),
    "sparse.mm": (lambda t, z: t.sparse.mm(z.x, z.m), MATRICES),
    "sparse.mm both": (lambda t, z: t.sparse.mm(z.x, z.x.t()), ("matrix", "empty")),
    "addmm": (lambda t, z: t.addmm(z.m[:1], z.x, z.m, beta=0.5, alpha=3), MATRICES),
    "sparse.addmm": (lambda t, z: t.sparse.addmm(z.d[:, :2], z.x, z.m, beta=0.5, alpha=3), MATRICES),
    "bmm": (lambda t, z: t.bmm(z.x, z.d.transpose(1, 2)), ("cube",)),
    "hspmm": (lambda t, z: t.hspmm(z.x.detach(), z.m.detach()), MATRICES),
    "smm": (lambda t, z: t.smm(z.x.detach(), z.m.detach()), MATRICES),
    "sspaddmm": (lambda t, z: t.sspaddmm(z.d[:, :2].detach().to_sparse(), z.x.detach(), z.m.detach(), alpha=2), MATRICES),
    "softmax 0": (lambda t, z: t.sparse.softmax(z.x, 0), ("matrix", "empty", "vector", "cube", "hybrid", "rows")),
    "softmax 1": (lambda t, z: t.sparse.softmax(z.x, 1), ("matrix", "empty", "cube", "hybrid", "rows")),
    "log_softmax": (lambda t, z: t.sparse.log_softmax(z.x, 1), ("matrix", "empty", "cube", "hybrid", "rows")),
    "sparse_mask": (lambda t, z: z.d.sparse_mask(z.x.detach()), ANY),
    "sparse_mask sparse": (lambda t, z: z.d.to_sparse().sparse_mask(z.x.detach().coalesce()), MATRICES),
    "zeros_like": (lambda t, z: t.zeros_like(z.x), ANY),
    "zeros layout": (lambda t, z: t.zeros(2, 3, layout=t.sparse_coo, dtype=t.int32), ("matrix",)),
    "counts": (lambda t, z: [z.x._nnz(), z.x.sparse_dim(), z.x.dense_dim(), len(z.x), z.x.is_coalesced(), z.x.numel()], ANY),
    "shapes": (lambda t, z: [tuple(z.x._indices().shape), tuple(z.x._values().shape), tuple(z.x.shape)], ANY),
}  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n, (_, kinds) in PROGRAMS.items() for k in kinds])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_program_computes_what_it_does_in_pytorch(name, kind):
    for coalesced in (False, True):
        ours, our_grads = run(tdt, PROGRAMS[name][0], kind, coalesced)
        theirs, their_grads = run(torch, PROGRAMS[name][0], kind, coalesced)
        assert_same(ours, theirs)
        assert our_grads.keys() == their_grads.keys()
        for leaf, grad in their_grads.items():
            assert_same(our_grads[leaf], grad)
