"""Batch and instance normalisation that take the number of channels from their first input."""

from __future__ import annotations

from tdt._core.creation import tensor
from tdt._core.dtype import int64
from tdt._core.tensor import Tensor
from tdt.nn._types import Device, Dtype
from tdt.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, _NormBase
from tdt.nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from tdt.nn.modules.lazy import OneSize
from tdt.nn.parameter import UninitializedBuffer, UninitializedParameter


class _LazyNorm(OneSize, _NormBase):
    unknown = "num_features"

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
                 device: Device = None, dtype: Dtype = None, *, bias: bool = True):  # fmt: skip
        super().__init__(0, eps, momentum, False, False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def _size(self, input: Tensor) -> int:
        return input.shape[1]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,))


class _LazyInstanceNorm(_LazyNorm):
    def _size(self, input: Tensor) -> int:
        return input.shape[0 if input.dim() == self.dims[0] else 1]


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """`BatchNorm1d` that takes `num_features` from its first input; that call makes it a plain BatchNorm1d.

    Shape: input (N, C) or (N, C, L); result the same shape.

    >>> import tdt
    >>> layer = tdt.nn.LazyBatchNorm1d()
    >>> _ = layer(tdt.ones(2, 3, 4))
    >>> layer
    BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """`BatchNorm2d` that takes `num_features` from its first input; that call makes it a plain BatchNorm2d.

    Shape: input (N, C, H, W); result the same shape.

    >>> import tdt
    >>> layer = tdt.nn.LazyBatchNorm2d()
    >>> _ = layer(tdt.ones(2, 3, 4, 4))
    >>> layer
    BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """`BatchNorm3d` that takes `num_features` from its first input; that call makes it a plain BatchNorm3d.

    Shape: input (N, C, D, H, W); result the same shape.

    >>> import tdt
    >>> layer = tdt.nn.LazyBatchNorm3d()
    >>> _ = layer(tdt.ones(2, 3, 4, 4, 4))
    >>> layer
    BatchNorm3d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """`InstanceNorm1d` that takes `num_features` from its first input; that call makes it a plain InstanceNorm1d.

    Shape: input (N, C, L) or (C, L); result the same shape.
    Raises:
        ValueError: when the input has another number of dimensions.

    >>> import tdt
    >>> layer = tdt.nn.LazyInstanceNorm1d()
    >>> _ = layer(tdt.ones(2, 3, 4))
    >>> layer
    InstanceNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """`InstanceNorm2d` that takes `num_features` from its first input; that call makes it a plain InstanceNorm2d.

    Shape: input (N, C, H, W) or (C, H, W); result the same shape.
    Raises:
        ValueError: when the input has another number of dimensions.

    >>> import tdt
    >>> layer = tdt.nn.LazyInstanceNorm2d()
    >>> _ = layer(tdt.ones(2, 3, 4, 4))
    >>> layer
    InstanceNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """`InstanceNorm3d` that takes `num_features` from its first input; that call makes it a plain InstanceNorm3d.

    Shape: input (N, C, D, H, W) or (C, D, H, W); result the same shape.
    Raises:
        ValueError: when the input has another number of dimensions.

    >>> import tdt
    >>> layer = tdt.nn.LazyInstanceNorm3d()
    >>> _ = layer(tdt.ones(2, 3, 4, 4, 4))
    >>> layer
    InstanceNorm3d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = InstanceNorm3d
