"""`torch.distributed.tensor.placement_types`: placements of a tensor on a mesh of devices. DTensors are not supported."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """The placement of a tensor along one dimension of a mesh.

    >>> from tdt.compat.distributed.tensor.placement_types import Partial, Replicate, Shard
    >>> Shard(0).is_shard(), Shard(0).is_shard(1), Replicate().is_replicate(), Partial().is_partial("sum")
    (True, False, True, True)
    """

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each device holds a part (along `dim`, unless it is None)."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each device holds the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the tensor is the reduction (`reduce_op`, unless it is None) of the tensors on the devices."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Replicate(Placement):
    """Each device holds the whole tensor."""


@dataclass(frozen=True)
class Shard(Placement):
    """Each device holds a part along `dim`."""

    dim: int


@dataclass(frozen=True)
class _StridedShard(Shard):
    split_factor: int = 1


@dataclass(frozen=True)
class Partial(Placement):
    """The tensor is the reduction `reduce_op` of the tensors on the devices."""

    reduce_op: str = "sum"
