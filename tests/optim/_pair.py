"""The same parameters and optimizer in tdt and in PyTorch, fed with the same gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

import tdt
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import wrap
from tests.helpers import require_torch

torch = require_torch()

SMALL = ((3, 4), (5,), (7, 2, 3), ())
MATRICES = ((3, 4), (5, 1), (4, 2))
NEEDS_MATRICES, NEEDS_SPARSE, NEEDS_CLOSURE = "Muon", "SparseAdam", "LBFGS"


class Pair:
    """`ours` and `theirs`: equal parameters with an optimizer each.

    groups: (which parameters, options) for each group; without it all are in one.
    """

    def __init__(
        self, name: str, options: dict, shapes: tuple | None = None, dtype: str = "float64", groups: list | None = None
    ):
        self.random = np.random.default_rng(0)
        if shapes is None:
            shapes = MATRICES if name in (NEEDS_MATRICES, NEEDS_SPARSE) else SMALL
        arrays = [self.draw(shape, dtype) for shape in shapes]
        self.goals = [self.draw(shape, dtype) for shape in shapes]
        self.theirs = [torch.nn.Parameter(torch.tensor(a)) for a in arrays]
        self.ours = [tdt.tensor(a.copy(), requires_grad=True) for a in arrays]
        self.dtype, self.options, self.name, self.groups = dtype, options, name, groups
        self.sparse = name == NEEDS_SPARSE
        self.their_optimizer, self.our_optimizer = self.new(torch, self.theirs), self.new(tdt, self.ours)

    def new(self, library: Any, params: list) -> Any:
        """A new optimizer of `library` over its parameters."""
        options = to_tdt(self.options) if library is tdt else self.options
        grouped = [{"params": [params[i] for i in which], **o} for which, o in self.groups or []]
        return getattr(library.optim, self.name)(grouped or params, **options)

    def draw(self, shape: tuple, dtype: str) -> np.ndarray:
        """Normal numbers."""
        value = self.random.normal(size=shape)
        return np.asarray(value + 1j * self.random.normal(size=shape) if "complex" in dtype else value).astype(dtype)

    def step(self, times: int, without: Any = lambda k, i: False) -> Pair:
        """Take steps in both libraries; in step k parameter i has no gradient where `without(k, i)`."""
        for k in range(times):
            if self.name == NEEDS_CLOSURE:
                self.their_optimizer.step(lambda: self.loss(torch))
                self.our_optimizer.step(lambda: self.loss(tdt))
                continue
            for i, (t, o) in enumerate(zip(self.theirs, self.ours)):
                t.grad, o.grad = (None, None) if without(k, i) else self.gradients(tuple(t.shape))
            self.their_optimizer.step()
            self.our_optimizer.step()
        return self

    def gradients(self, shape: tuple) -> tuple[Any, Any]:
        """A random gradient, in PyTorch and here; a sparse one names some rows, maybe twice."""
        g = self.draw(shape, self.dtype)
        if not self.sparse:
            return torch.tensor(g), tdt.tensor(g)
        rows = self.random.integers(0, shape[0], size=(1, shape[0]))
        theirs = torch.sparse_coo_tensor(torch.tensor(rows), torch.tensor(g), shape, check_invariants=True)
        return theirs, wrap(SparseCOO(rows, g, shape))

    def loss(self, library: Any) -> Any:
        """A loss with a curved valley; its gradients are computed."""
        params = self.ours if library is tdt else self.theirs
        total = 0
        for p, goal in zip(params, self.goals, strict=True):
            p.grad = None
            away = p - library.tensor(goal)
            away = library.view_as_real(away) if p.is_complex() else away
            total = total + (away**2).sum() + ((away + 1) ** 4).sum() + away.sum() ** 2
        total.backward()
        return total

    def agree(self, **tolerance: float) -> None:
        """Fail unless the parameters are equal within a tolerance."""
        for t, o in zip(self.theirs, self.ours):
            np.testing.assert_allclose(o.detach().numpy(), t.detach().numpy(), **tolerance)


def to_tdt(state: Any) -> Any:
    """A PyTorch state_dict, or options, with our tensors."""
    if isinstance(state, torch.Tensor):
        return tdt.tensor(state.numpy().copy())
    if isinstance(state, dict):
        return {k: to_tdt(v) for k, v in state.items()}
    return type(state)(to_tdt(v) for v in state) if isinstance(state, (list, tuple)) else state


def to_torch(state: Any) -> Any:
    """Our state_dict with PyTorch's tensors."""
    if isinstance(state, tdt.Tensor):
        return torch.tensor(state.detach().numpy().copy())
    if isinstance(state, dict):
        return {k: to_torch(v) for k, v in state.items()}
    return type(state)(to_torch(v) for v in state) if isinstance(state, (list, tuple)) else state
