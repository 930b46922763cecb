"""MobileNetV2 (Sandler et al.: Inverted Residuals and Linear Bottlenecks, 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tdt import Tensor, nn
from tdt.vision.models._api import Norm, builder
from tdt.vision.ops.misc import Conv2dNormActivation

__all__ = ["MobileNetV2", "mobilenet_v2"]

# For each stage: expansion factor, output channels, number of blocks, stride of the first block.
SETTING = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


def rounded(channels: float, divisor: int) -> int:
    """The nearest multiple of `divisor` that reduces the value by at most 10 %."""
    near = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * channels else near


class InvertedResidual(nn.Module):
    """1×1 to more channels, 3×3 of each channel, 1×1 to `oup`; the input goes straight where its shape allows."""

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: float, norm_layer: Norm | None = None) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        norm, hidden = norm_layer or nn.BatchNorm2d, round(inp * expand_ratio)
        self.stride, self.out_channels = stride, oup
        self.use_res_connect = stride == 1 and inp == oup
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
        layers: list[nn.Module] = [conv(inp, hidden, 1)] if expand_ratio != 1 else []
        layers.append(conv(hidden, hidden, 3, stride, groups=hidden))
        layers += [nn.Conv2d(hidden, oup, 1, bias=False), norm(oup)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """(n, inp, h, w) → (n, oup, h / stride, w / stride)."""
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """MobileNetV2: inverted residual blocks, a mean over the image and one linear layer.

    Args:
        width_mult: factor of every layer's channels.
        inverted_residual_setting: rows (expansion, channels, blocks, stride); None for the paper's.
        round_nearest: number that channels are rounded to a multiple of.
        block: class of the blocks.
        norm_layer: function of the channels; None stands for BatchNorm2d.
    Shape: x (N, 3, H, W); result (N, num_classes).
    Raises:
        ValueError: when a row of `inverted_residual_setting` does not have four numbers.
    Source: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018.

    >>> import tdt
    >>> with tdt.device("meta"):
    ...     model = tdt.vision.models.MobileNetV2(num_classes=10)
    >>> model.classifier[1].out_features
    10
    """

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: Sequence[Sequence[int]] | None = None,
        round_nearest: int = 8,
        block: Norm | None = None,
        norm_layer: Norm | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        block, norm = block or InvertedResidual, norm_layer or nn.BatchNorm2d
        rows = SETTING if inverted_residual_setting is None else inverted_residual_setting
        if not rows or len(rows[0]) != 4:
            raise ValueError(f"inverted_residual_setting should be non-empty or a 4-element list, got {rows}")
        channels = rounded(32 * width_mult, round_nearest)
        self.last_channel = rounded(1280 * max(1.0, width_mult), round_nearest)
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
        features: list[nn.Module] = [conv(3, channels, stride=2)]
        for ratio, width, count, first in rows:
            out = rounded(width * width_mult, round_nearest)
            for i in range(count):
                features.append(block(channels, out, 1 if i else first, expand_ratio=ratio, norm_layer=norm))
                channels = out
        features.append(conv(channels, self.last_channel, 1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(self.last_channel, num_classes))
        self._initialise()

    def _initialise(self) -> None:
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out")
            elif isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, 0, 0.01)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) → (n, num_classes)."""
        return self.classifier(nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1)).flatten(1))


mobilenet_v2 = builder(
    "mobilenet_v2",
    MobileNetV2,
    doc="MobileNetV2: inverted residual blocks with depthwise convolutions.",
    source='Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018',
    file="mobilenet_v2-7ebf99e0.pth",
)
