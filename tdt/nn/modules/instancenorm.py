"""Instance normalisation layers: each channel of each sample by its own statistics."""

from __future__ import annotations

import warnings
from typing import Any

from tdt._core.tensor import Tensor
from tdt.nn import functional as F
from tdt.nn._types import Device, Dtype
from tdt.nn.modules.batchnorm import _NormBase


class _InstanceNorm(_NormBase):
    """`dims`: the number of dimensions of an input without and with a batch."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Device = None, dtype: Dtype = None, *,
                 bias: bool = True):  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        single = input.dim() == self.dims[0]
        at = 0 if single else 1
        if (channels := input.shape[at]) != self.num_features:
            if self.affine:
                raise ValueError(f"expected input's size at dim={at} to match num_features ({self.num_features}), "
                                 f"but got: {channels}.")  # fmt: skip
            warnings.warn(f"input's size at dim={at} does not match num_features: it is {channels}, not {self.num_features}. "
                          "Nothing depends on num_features here, since affine=False", stacklevel=2)  # fmt: skip
        out = F.instance_norm(input.unsqueeze(0) if single else input, self.running_mean, self.running_var, self.weight,
                              self.bias, self.training or not self.track_running_stats,
                              0.0 if self.momentum is None else self.momentum, self.eps)  # fmt: skip
        return out.squeeze(0) if single else out

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        if local_metadata.get("version") is None and not self.track_running_stats:
            old = [key for key in (prefix + "running_mean", prefix + "running_var") if key in state_dict]
            if old:
                rest[-1].append(f"Unexpected running stats buffer(s) {' and '.join(map(repr, old))} for {type(self).__name__} "
                                "with track_running_stats=False, the default since PyTorch 0.4: remove them from the state, or "
                                "make the layer with track_running_stats=True")  # fmt: skip
                for key in old:
                    del state_dict[key]
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sample to mean 0 and variance 1.

    Args:
        eps: added to the variance before its root is taken.
        momentum: weight of the new batch in the running estimates.
        affine, bias: whether a learned scale follows, and a shift with it.
        track_running_stats: keep running estimates in training and use them in evaluation.
    Shape: input (N, C, L) or (C, L); result the same shape; `weight`, `bias` (C,) if affine.
    Raises:
        ValueError: when the input has another number of dimensions or, if affine, of channels.
    Source: Ulyanov, Vedaldi and Lempitsky, "Instance Normalization", 2016.

    >>> import tdt
    >>> tdt.nn.InstanceNorm1d(1)(tdt.tensor([[[1.0, 3.0]]])).tolist()
    [[[-0.9999949932098389, 0.9999949932098389]]]
    """

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each sample to mean 0 and variance 1.

    Args:
        eps: added to the variance before its root is taken.
        momentum: weight of the new batch in the running estimates.
        affine, bias: whether a learned scale follows, and a shift with it.
        track_running_stats: keep running estimates in training and use them in evaluation.
    Shape: input (N, C, H, W) or (C, H, W); result the same shape; `weight`, `bias` (C,) if affine.
    Raises:
        ValueError: when the input has another number of dimensions or, if affine, of channels.
    Source: Ulyanov, Vedaldi and Lempitsky, "Instance Normalization", 2016.

    >>> import tdt
    >>> tdt.nn.InstanceNorm2d(3)(tdt.rand(2, 3, 4, 4)).shape
    tdt.Size([2, 3, 4, 4])
    """

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each sample to mean 0 and variance 1.

    Args:
        eps: added to the variance before its root is taken.
        momentum: weight of the new batch in the running estimates.
        affine, bias: whether a learned scale follows, and a shift with it.
        track_running_stats: keep running estimates in training and use them in evaluation.
    Shape: input (N, C, D, H, W) or (C, D, H, W); result the same shape; `weight`, `bias` (C,) if affine.
    Raises:
        ValueError: when the input has another number of dimensions or, if affine, of channels.
    Source: Ulyanov, Vedaldi and Lempitsky, "Instance Normalization", 2016.

    >>> import tdt
    >>> tdt.nn.InstanceNorm3d(3)(tdt.rand(2, 3, 4, 4, 4)).shape
    tdt.Size([2, 3, 4, 4, 4])
    """

    dims = (4, 5)
