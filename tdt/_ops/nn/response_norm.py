"""Local response normalisation across neighbouring channels."""

from __future__ import annotations

from tdt._core.tensor import Tensor
from tdt._ops.nn.pad import pad
from tdt._ops.nn.pool_average import avg_pool2d


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """input / (k + alpha · mean of the squares of `size` neighbouring channels)^beta.

    Channels beyond the first and the last count as 0 in the mean.

    Shape: input (N, C, *), of 3 dimensions or more; result the same.
    Raises:
        ValueError: when `input` has fewer than 3 dimensions.
    Source: Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", 2012.

    >>> import tdt
    >>> tdt.nn.functional.local_response_norm(tdt.tensor([[[2.0], [0.0]]]), 1, alpha=1.0, beta=0.5)
    tensor([[[0.8944],
             [0.0000]]])
    """
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if not input.numel():
        return input
    shape = input.shape
    squares = (input * input).reshape(shape[0], 1, shape[1], -1)
    squares = pad(squares, (0, 0, size // 2, (size - 1) // 2))
    mean = avg_pool2d(squares, (size, 1), stride=1).reshape(shape)
    return input / (mean * alpha + k) ** beta


__all__: list[str] = []
