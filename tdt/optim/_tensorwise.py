"""What the optimizers share whose formula looks at a parameter as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._core.sparse import SparseCOO
from tdt._core.tensor import Tensor
from tdt.optim._params import run_closure
from tdt.optim._subclass import Loss
from tdt.optim.optimizer import Optimizer


class TensorwiseOptimizer(Optimizer):
    """An optimizer that updates one parameter after the other: subclasses write `_update`."""

    _sparse = False  # whether gradients must be sparse; else they must be dense

    def _update(self, group: dict[str, Any], p: Tensor) -> None:
        """Update the array of `p`, which has a gradient."""
        raise NotImplementedError

    def step(self, closure: Callable[[], Loss] | None = None) -> Loss | None:
        """Update every parameter that has a gradient.

        closure: computes the loss and its gradients again; it is run first, and what it returns is returned.
        Raises RuntimeError for complex parameters, and gradients that are sparse where dense ones are needed or dense where
        sparse ones are.
        """
        loss = run_closure(closure)
        with np.errstate(all="ignore"):
            for group in self.param_groups:
                for p in group["params"]:
                    if p._grad is not None:
                        self._check(p)
                        self._update(group, p)
                        p._st.bump_version()
        return loss

    def _check(self, p: Any) -> None:
        name = type(self).__name__
        if p.is_complex():
            raise RuntimeError(f"{name} does not support complex parameters: give it view_as_real of them")
        if isinstance(p._grad._a, SparseCOO) is not self._sparse:
            kind, other = ("dense", "Adam") if self._sparse else ("sparse", "SparseAdam")
            raise RuntimeError(f"{name} does not support {kind} gradients, please consider {other} instead")
