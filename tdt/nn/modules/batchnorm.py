"""Batch normalisation layers, with their running statistics; instance normalisation builds on the same base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy import ndarray

from tdt._core.creation import ones, tensor, zeros
from tdt._core.dtype import int64
from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt._ops.nn.batch_norm import counted_batch_norm
from tdt.autograd._inplace import is_plain
from tdt.nn import functional as F
from tdt.nn._types import Device, Dtype
from tdt.nn.modules._lookup import pair
from tdt.nn.modules.module import Module
from tdt.nn.parameter import Parameter

if TYPE_CHECKING:
    from tdt.distributed import ProcessGroup
    from tdt.nn.modules._synchronized import Rows


class _NormBase(Module):
    """`weight` and `bias` (C,) if `affine`; buffers running_mean, running_var (C,) and num_batches_tracked."""

    weight: Parameter
    bias: Parameter
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    _version = 2
    dims: tuple[int, ...]

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Device = None, dtype: Dtype = None, *, bias: bool = True):  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.register_parameter("weight", Parameter(ones(num_features, device=device, dtype=dtype)) if affine else None)
        self.register_parameter(
            "bias", Parameter(zeros(num_features, device=device, dtype=dtype)) if affine and bias else None
        )
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", tensor(0, dtype=int64, device=device) if tracked else None)

    def reset_running_stats(self) -> None:
        """Running mean 0, variance 1, no batches seen."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Statistics as at first, scale 1, shift 0."""
        self.reset_running_stats()
        with no_grad():
            if self.weight is not None:
                self.weight.fill_(1)
            if self.bias is not None:
                self.bias.zero_()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self.dims:
            expected = " or ".join(f"{d}D" for d in self.dims)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")  # fmt: skip

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        key = prefix + "num_batches_tracked"
        # States before version 2 did not count batches.
        if (local_metadata.get("version") or 0) < 2 and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            state_dict[key] = tensor(0, dtype=int64) if count is None else count
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def _count(batches: Tensor) -> None:
    """Add 1 to a number of batches."""
    if is_plain(batches):
        array = batches._a
        array += 1
        batches._st.bump_version()
    else:
        batches.add_(1)


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        training, momentum = self.training, self.momentum
        count = self.num_batches_tracked if training and self.track_running_stats else None
        mean, var = pair(self, "_buffers", "running_mean", "running_var")
        weight, bias = pair(self, "_parameters", "weight", "bias")
        if count is not None:
            if momentum is not None and count._a.__class__ is not ndarray:
                out = counted_batch_norm(input, mean, var, weight, bias, momentum, self.eps, count)
                if out is not None:
                    return out
            _count(count)
            if momentum is None:  # the plain mean of all batches so far
                momentum = 1.0 / float(count)
        by_batch = training or (mean is None and var is None)
        if training and not self.track_running_stats:
            mean = var = None
        momentum = 0.0 if momentum is None else momentum
        return F.batch_norm(input, mean, var, weight, bias, by_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """Normalises each channel over the batch to mean 0 and variance 1, then applies a learned scale and shift.

    Training uses the batch's biased mean and variance and updates running estimates (the variance unbiased); evaluation
    uses the running estimates.

    Args:
        eps: added to the variance before its root is taken.
        momentum: weight of the new batch in the running estimates; None averages all batches equally.
        affine, bias: whether there is a learned scale, and a shift with it.
        track_running_stats: without running estimates, evaluation uses the batch's statistics too.
    Shape: input (N, C) or (N, C, L); result the same shape; `weight`, `bias`, `running_mean`, `running_var` (C,).
    Raises:
        ValueError: when the input has another number of dimensions.
    Source: Ioffe and Szegedy, "Batch Normalization", 2015.

    >>> import tdt
    >>> tdt.nn.BatchNorm1d(1)(tdt.tensor([[1.0], [3.0]])).tolist()
    [[-0.9999949932098389], [0.9999949932098389]]
    """

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises each channel over the batch to mean 0 and variance 1, then applies a learned scale and shift.

    Training uses the batch's biased mean and variance and updates running estimates (the variance unbiased); evaluation
    uses the running estimates.

    Args:
        eps: added to the variance before its root is taken.
        momentum: weight of the new batch in the running estimates; None averages all batches equally.
        affine, bias: whether there is a learned scale, and a shift with it.
        track_running_stats: without running estimates, evaluation uses the batch's statistics too.
    Shape: input (N, C, H, W); result the same shape; `weight`, `bias`, `running_mean`, `running_var` (C,).
    Raises:
        ValueError: when the input has another number of dimensions.
    Source: Ioffe and Szegedy, "Batch Normalization", 2015.

    >>> import tdt
    >>> tdt.nn.BatchNorm2d(3)(tdt.rand(2, 3, 4, 4)).shape
    tdt.Size([2, 3, 4, 4])
    """

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises each channel over the batch to mean 0 and variance 1, then applies a learned scale and shift.

    Training uses the batch's biased mean and variance and updates running estimates (the variance unbiased); evaluation
    uses the running estimates.

    Args:
        eps: added to the variance before its root is taken.
        momentum: weight of the new batch in the running estimates; None averages all batches equally.
        affine, bias: whether there is a learned scale, and a shift with it.
        track_running_stats: without running estimates, evaluation uses the batch's statistics too.
    Shape: input (N, C, D, H, W); result the same shape; `weight`, `bias`, `running_mean`, `running_var` (C,).
    Raises:
        ValueError: when the input has another number of dimensions.
    Source: Ioffe and Szegedy, "Batch Normalization", 2015.

    >>> import tdt
    >>> tdt.nn.BatchNorm3d(3)(tdt.rand(2, 3, 4, 4, 4)).shape
    tdt.Size([2, 3, 4, 4, 4])
    """

    dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation by the statistics of the batches of all processes in `process_group` (default: all there are).

    With one process, or without `distributed.init_process_group`, it equals `BatchNorm1d`, for any number of dimensions.

    Args:
        eps: added to the variance before its root is taken.
        process_group: the processes whose batches count; None for all.
        momentum: weight of the new batch in the running estimates; None averages all batches equally.
        affine, bias: whether there is a learned scale, and a shift with it.
        track_running_stats: without running estimates, evaluation uses the batch's statistics too.
    Shape: input (N, C, *); result the same shape.
    Raises:
        ValueError: when the input has fewer than 2 dimensions or no channels.
    Source: Ioffe and Szegedy, "Batch Normalization", 2015.

    >>> import tdt
    >>> tdt.nn.SyncBatchNorm(3)(tdt.rand(2, 3, 4)).shape
    tdt.Size([2, 3, 4])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: ProcessGroup | Rows | None = None,
        device: Device = None,
        dtype: Dtype = None,
        *,
        bias: bool = True,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        group = self._group()
        if group is None or not (self.training or (self.running_mean is None and self.running_var is None)):
            return super().forward(input)
        from tdt._ops.shape.memory import in_output_format
        from tdt.nn.modules._synchronized import Rows, SyncNorm

        self._check_input_dim(input)
        x = in_output_format(input.float() if input.element_size() == 2 else input)
        weight, bias = (None if v is None else v.to(x.dtype) for v in (self.weight, self.bias))
        out, mean, var, count = SyncNorm.apply(
            x, weight, bias, group if isinstance(group, Rows) else Rows(group), self.eps
        )
        if self.training and self.running_mean is not None and self.running_var is not None:
            self._track(mean, var * count / (count - 1))
        return out.to(input.dtype)

    def _group(self) -> ProcessGroup | Rows | None:
        """The group of processes, or other parts of a batch, if it has several."""
        from tdt import distributed

        group = self.process_group or distributed.group.WORLD
        return group if group is not None and group.size() > 1 else None

    def _track(self, mean: Tensor, var: Tensor) -> None:
        """Update the running statistics."""
        assert self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(var.to(self.running_var.dtype), momentum)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.shape[1] == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: ProcessGroup | None = None) -> Module:
        """`module` with a SyncBatchNorm, of the same parameters and statistics, for each BatchNorm in it.

        >>> import tdt
        >>> tdt.nn.SyncBatchNorm.convert_sync_batchnorm(tdt.nn.Sequential(tdt.nn.BatchNorm1d(2)))[0]
        SyncBatchNorm(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
        """
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                       process_group, bias=module.bias is not None)  # fmt: skip
            converted.training = module.training
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(converted, name, getattr(module, name))
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
