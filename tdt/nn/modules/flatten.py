"""Dimensions joined and split."""

from __future__ import annotations

from tdt._core.tensor import Tensor
from tdt.nn.modules.module import Module


class Flatten(Module):
    """Joins the dimensions `start_dim` to `end_dim` into one; by default all but the batch.

    Args:
        start_dim, end_dim: first and last dimension to join; 0 is the batch, negative ones count from the end.
    Shape: input (*, S_start, …, S_end, *); result (*, product of these sizes, *).

    >>> import tdt
    >>> tdt.nn.Flatten()(tdt.ones(2, 3, 4)).shape
    tdt.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits dimension `dim` into several.

    Args:
        unflattened_size: sizes of the new dimensions; one of them may be -1 and is inferred.
    Shape: input (*, S_dim, *); result (*, *unflattened_size, *).
    Raises:
        TypeError: when `unflattened_size` is not a tuple or list of integers.

    >>> import tdt
    >>> tdt.nn.Unflatten(1, (3, 4))(tdt.ones(2, 12)).shape
    tdt.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]):
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for i, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError("unflattened_size must be tuple of ints, "
                                f"but found element of type {type(size).__name__} at pos {i}")  # fmt: skip
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
