"""`torch.distributed._functional_collectives`: collectives that return their result, in a group of one process.

>>> import tdt
>>> from tdt.compat.distributed._functional_collectives import wait_tensor
>>> wait_tensor(tdt.ones(2))
tensor([1., 1.])
"""

from __future__ import annotations

from typing import Any

from tdt._core.tensor import Tensor


def wait_tensor(tensor: Tensor) -> Tensor:
    """Return `tensor`: collectives in a single process complete at once."""
    return tensor


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """The sum, or another reduction `reduceOp`, over the processes: with one process a copy."""
    return self.clone()


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all processes, concatenated along `gather_dim`: with one process a copy."""
    return self.clone()


def all_to_all_single(
    self: Tensor, output_split_sizes: Any, input_split_sizes: Any, group: Any, tag: str = ""
) -> Tensor:
    """Exchange a part of the tensor between each pair of processes: with one process a copy."""
    return self.clone()


all_to_all_single_autograd = all_to_all_single
