"""Layers that several networks for images are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tdt
from tdt import Tensor, nn

__all__ = ["MLP", "Conv2dNormActivation", "FrozenBatchNorm2d", "Permute", "SqueezeExcitation"]


class FrozenBatchNorm2d(nn.Module):
    """Batch normalisation of images with fixed statistics, scale and shift, which are buffers.

    Args:
        num_features: channels.
        eps: added to the variance.
    Shape:
        (N, num_features, H, W) → the same.

    >>> import tdt
    >>> layer = tdt.vision.ops.FrozenBatchNorm2d(2)
    >>> list(layer.parameters()), list(layer.state_dict())
    ([], ['weight', 'bias', 'running_mean', 'running_var'])
    """

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", tdt.ones(num_features))
        self.register_buffer("bias", tdt.zeros(num_features))
        self.register_buffer("running_mean", tdt.zeros(num_features))
        self.register_buffer("running_var", tdt.ones(num_features))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        state_dict.pop(f"{prefix}num_batches_tracked", None)  # of a BatchNorm2d that is frozen
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forward(self, x: Tensor) -> Tensor:
        scale = (self.weight * (self.running_var + self.eps).rsqrt()).reshape(1, -1, 1, 1)
        shift = self.bias.reshape(1, -1, 1, 1) - self.running_mean.reshape(1, -1, 1, 1) * scale
        return x * scale + shift

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.weight)}, eps={self.eps})"


class Conv2dNormActivation(nn.Sequential):
    """A convolution, its normalisation and its activation.

    Args:
        padding: None for the one that keeps the size where the stride is 1.
        norm_layer: function of the channels; None for no normalisation.
        activation_layer: function that gives the activation; None for none.
        inplace: argument of the activation; None for one that does not take it.
        bias: whether the convolution has one; None where there is no normalisation.
    Shape:
        (N, in_channels, H, W) → (N, out_channels, H / stride, W / stride).

    >>> import tdt
    >>> layer = tdt.vision.ops.Conv2dNormActivation(3, 8, stride=2)
    >>> layer(tdt.ones(1, 3, 8, 8)).shape
    tdt.Size([1, 8, 4, 4])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        stride: int = 1,
        padding: int | None = None,
        groups: int = 1,
        norm_layer: Callable[..., Any] | None = nn.BatchNorm2d,
        activation_layer: Callable[..., Any] | None = nn.ReLU,
        dilation: int = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
    ) -> None:
        padding = (kernel_size - 1) // 2 * dilation if padding is None else padding
        bias = norm_layer is None if bias is None else bias
        layers: list[Any] = [
            nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias=bias)
        ]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**({} if inplace is None else {"inplace": inplace})))
        super().__init__(*layers)
        self.out_channels = out_channels


class SqueezeExcitation(nn.Module):
    """Multiplies each channel by a number between 0 and 1 that follows from the means of all channels.

    Args:
        activation, scale_activation: functions that give the activations after the first and the second convolution.
    Shape:
        (N, input_channels, H, W) → the same.
    Source: Hu et al., "Squeeze-and-Excitation Networks", 2018.

    >>> import tdt
    >>> tdt.vision.ops.SqueezeExcitation(8, 2)(tdt.ones(1, 8, 4, 4)).shape
    tdt.Size([1, 8, 4, 4])
    """

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Callable[..., Any] = nn.ReLU,
        scale_activation: Callable[..., Any] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        squeezed = self.activation(self.fc1(self.avgpool(input)))
        return self.scale_activation(self.fc2(squeezed)) * input


class MLP(nn.Sequential):
    """Linear layers with a normalisation, an activation and dropout between them, and dropout at the end.

    Args:
        hidden_channels: outputs of each linear layer.
        norm_layer: function of the channels; None for no normalisation.
        inplace: argument of activations and dropout; None for their default.
    Shape:
        (..., in_channels) → (..., hidden_channels[-1]).

    >>> import tdt
    >>> tdt.vision.ops.MLP(4, [8, 2])(tdt.ones(3, 4)).shape
    tdt.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: Sequence[int],
        norm_layer: Callable[..., Any] | None = None,
        activation_layer: Callable[..., Any] = nn.ReLU,
        inplace: bool | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        options: dict[str, Any] = {} if inplace is None else {"inplace": inplace}
        layers: list[Any] = []
        for number, channels in enumerate(hidden_channels, 1):
            layers.append(nn.Linear(in_channels, channels, bias=bias))
            if number < len(hidden_channels):
                layers += [] if norm_layer is None else [norm_layer(channels)]
                layers.append(activation_layer(**options))
            layers.append(nn.Dropout(dropout, **options))
            in_channels = channels
        super().__init__(*layers)


class Permute(nn.Module):
    """A view of its input with the dimensions in the order `dims`.

    Shape:
        any of len(dims) dimensions → the same dimensions in that order.

    >>> import tdt
    >>> tdt.vision.ops.Permute([0, 2, 1])(tdt.ones(1, 2, 3)).shape
    tdt.Size([1, 3, 2])
    """

    def __init__(self, dims: Sequence[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(*self.dims)
