"""`torch.distributed.tensor.placement_types`: how a tensor would lie on a mesh of devices. What uses them is refused."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a tensor lies on one dimension of a mesh.

    >>> Shard(0).is_shard(), Shard(0).is_shard(1), Replicate().is_replicate(), Partial().is_partial("sum")
    (True, False, True, True)
    """

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each device holds a part (along `dim`, where it is given)."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each device holds the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the tensor is the reduction (of this kind, where it is given) of what the devices hold."""
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
    """The tensor is the reduction `reduce_op` of what the devices hold."""

    reduce_op: str = "sum"
