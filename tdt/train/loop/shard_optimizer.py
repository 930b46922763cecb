"""`train.shard_optimizer`: each rank keeps the optimizer's state of some of the parameters, and updates these alone.

The gradients of a parameter are summed on its owner, which updates it and sends it to the other ranks. Optimizers need nothing
for that: they pass over parameters without a gradient, and have no state for them. Source: stage 1 of ZeRO (Rajbhandari et al.,
ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt import Tensor, _backend
from tdt.nn.utils.clip_grad import _joint_norm, _norm
from tdt.optim import Optimizer
from tdt.train._ranks import Ranks
from tdt.train._types import Arrays, Json


class Owners:
    """The rank that owns each parameter: the largest first, each to the rank that owns the fewest bytes so far.

    >>> import tdt
    >>> from tdt.train._ranks import Ranks
    >>> from tdt.train.loop.shard_optimizer import Owners
    >>> weight = tdt.ones(3)
    >>> owners = Owners([weight], Ranks.alone())
    >>> owners.rank_of(weight), owners.own(weight)
    (0, True)
    """

    def __init__(self, parameters: Sequence[Tensor], ranks: Ranks) -> None:
        self.ranks = ranks
        self._of: dict[Tensor, int] = {}
        held = [0] * ranks.size
        for p in sorted(parameters, key=_bytes, reverse=True):
            rank = self._of[p] = held.index(min(held))
            held[rank] += _bytes(p)

    def rank_of(self, parameter: Tensor) -> int:
        """The rank that owns a parameter."""
        return self._of[parameter]

    def own(self, parameter: Tensor) -> bool:
        """Whether this rank owns a parameter."""
        return self._of[parameter] == self.ranks.rank

    def drop_other_state(self, optimizer: Optimizer) -> None:
        """Forget the state of other ranks' parameters, which some optimizers have from the beginning."""
        for p in [p for p in optimizer.state if not self.own(p)]:
            del optimizer.state[p]

    def total_norm(self, parameters: Sequence[Tensor]) -> Tensor:
        """The norm of the gradients of all ranks as one vector, as `get_total_norm`. parameters: all that have a gradient.

        Each owner computes the norm of its gradients; the norms of all of them are those of a rank that has them all.
        """
        return self.joint_norm(parameters, [float(_norm(p.grad, 2.0)) for p in parameters if p.grad is not None])

    def joint_norm(self, parameters: Sequence[Tensor], own: Sequence[float]) -> Tensor:
        """The same. own: the norm of the gradient of each parameter that this rank owns."""
        norms = np.zeros(len(parameters))  # float64 holds float32 exactly, and x + 0 is x
        norms[[self.own(p) for p in parameters]] = own
        self.ranks.wait(self.ranks.communicator.all_reduce(norms), "norm of gradients")
        each = [
            _backend.namespace(p._a).asarray(norm, p._a.real.dtype) for norm, p in zip(norms, parameters, strict=True)
        ]
        return _joint_norm(each, 2.0)

    def gather_state(self, plain: Json, arrays: Arrays) -> None:
        """Add the entries of all ranks to those of the first, which receives one array after the other."""
        ranks, name = self.ranks, "state of the optimizer"
        known = ranks.exchange((plain, {key: (array.shape, array.dtype) for key, array in arrays.items()}), name)
        if not ranks.first:
            for array in arrays.values():
                ranks.wait(ranks.communicator.send(np.ascontiguousarray(array).reshape(-1), 0, 0), name)
            return
        for rank, (values, shapes) in enumerate(known[1:], 1):
            plain.update(values)
            for key, (shape, dtype) in shapes.items():
                arrays[key] = np.empty(shape, dtype)
                ranks.wait(ranks.communicator.receive(arrays[key].reshape(-1), rank, 0, []), name)


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())
