"""`torch.distributed._functional_collectives`: collectives that return their result, which has gradients.

Without a group, and in a group of one process, the result is a copy.

>>> import tdt
>>> from tdt.compat.distributed._functional_collectives import wait_tensor
>>> wait_tensor(tdt.ones(2))
tensor([1., 1.])
"""

from __future__ import annotations

from typing import Any

from tdt._core.tensor import Tensor
from tdt._ops.shape.join import cat
from tdt.distributed import ReduceOp, get_world_size, is_initialized
from tdt.distributed.nn import functional


def _is_alone(group: Any) -> bool:
    return not is_initialized() or get_world_size() == 1 or get_world_size(group) == 1


def wait_tensor(tensor: Tensor) -> Tensor:
    """Return `tensor`: it is complete when a collective returns it."""
    return tensor


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """The sum, or another reduction `reduceOp` ("sum", "avg", "max", …), over the processes."""
    return self.clone() if _is_alone(group) else functional.all_reduce(self, getattr(ReduceOp, reduceOp.upper()), group)


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all processes, concatenated along `gather_dim`."""
    return self.clone() if _is_alone(group) else cat(functional.all_gather(self, group), gather_dim)


def all_to_all_single(
    self: Tensor, output_split_sizes: Any, input_split_sizes: Any, group: Any, tag: str = ""
) -> Tensor:
    """Send a part of the tensor, along its first dimension, to each process, and receive one from each.

    Args:
        output_split_sizes, input_split_sizes: rows for each process; None: equal parts.
    """
    if _is_alone(group):
        return self.clone()
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    output = self.new_empty((rows, *self.shape[1:]))
    return functional.all_to_all_single(output, self, output_split_sizes, input_split_sizes, group)


all_to_all_single_autograd = all_to_all_single
