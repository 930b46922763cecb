"""MobileNetV3 (Howard et al.: Searching for MobileNetV3, 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tdt import Tensor, nn
from tdt.vision.models._api import Norm, builder
from tdt.vision.models.mobilenetv2 import rounded
from tdt.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation

__all__ = ["MobileNetV3", "mobilenet_v3_large", "mobilenet_v3_small"]

# For each block: input channels, kernel, expanded channels, output channels, squeeze and excitation, activation, stride. The
# last three may be dilated instead of strided, and their channels halved.
LARGE = (
    (16, 3, 16, 16, False, "RE", 1), (16, 3, 64, 24, False, "RE", 2), (24, 3, 72, 24, False, "RE", 1),
    (24, 5, 72, 40, True, "RE", 2), (40, 5, 120, 40, True, "RE", 1), (40, 5, 120, 40, True, "RE", 1),
    (40, 3, 240, 80, False, "HS", 2), (80, 3, 200, 80, False, "HS", 1), (80, 3, 184, 80, False, "HS", 1),
    (80, 3, 184, 80, False, "HS", 1), (80, 3, 480, 112, True, "HS", 1), (112, 3, 672, 112, True, "HS", 1),
    (112, 5, 672, 160, True, "HS", 2), (160, 5, 960, 160, True, "HS", 1), (160, 5, 960, 160, True, "HS", 1),
)  # fmt: skip
SMALL = (
    (16, 3, 16, 16, True, "RE", 2), (16, 3, 72, 24, False, "RE", 2), (24, 3, 88, 24, False, "RE", 1),
    (24, 5, 96, 40, True, "HS", 2), (40, 5, 240, 40, True, "HS", 1), (40, 5, 240, 40, True, "HS", 1),
    (40, 5, 120, 48, True, "HS", 1), (48, 5, 144, 48, True, "HS", 1), (48, 5, 288, 96, True, "HS", 2),
    (96, 5, 576, 96, True, "HS", 1), (96, 5, 576, 96, True, "HS", 1),
)  # fmt: skip


class InvertedResidualConfig:
    """A block: its channels times `width_mult`, kernel, activation ("RE" for ReLU, "HS" for Hardswish) and stride."""

    def __init__(
        self, input_channels: int, kernel: int, expanded_channels: int, out_channels: int, use_se: bool, activation: str,
        stride: int, dilation: int, width_mult: float,
    ) -> None:  # fmt: skip
        self.input_channels = self.adjust_channels(input_channels, width_mult)
        self.kernel = kernel
        self.expanded_channels = self.adjust_channels(expanded_channels, width_mult)
        self.out_channels = self.adjust_channels(out_channels, width_mult)
        self.use_se = use_se
        self.use_hs = activation == "HS"
        self.stride = stride
        self.dilation = dilation

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        """A multiple of 8 near channels · width_mult."""
        return rounded(channels * width_mult, 8)


class InvertedResidual(nn.Module):
    """1×1 to more channels, a convolution of each channel, squeeze and excitation, 1×1 to fewer; the input goes straight
    where its shape allows."""

    def __init__(self, cnf: InvertedResidualConfig, norm_layer: Norm, se_layer: Norm | None = None) -> None:
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError("illegal stride value")
        squeeze = se_layer or partial(SqueezeExcitation, scale_activation=nn.Hardsigmoid)
        width, activation = cnf.expanded_channels, nn.Hardswish if cnf.use_hs else nn.ReLU
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=activation)
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        layers: list[Any] = [conv(cnf.input_channels, width, 1)] if width != cnf.input_channels else []
        stride = 1 if cnf.dilation > 1 else cnf.stride
        layers.append(conv(width, width, cnf.kernel, stride, dilation=cnf.dilation, groups=width))
        if cnf.use_se:
            layers.append(squeeze(width, rounded(width // 4, 8)))
        layers.append(conv(width, cnf.out_channels, 1, activation_layer=None))
        self.block = nn.Sequential(*layers)
        self.out_channels = cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        """(n, input_channels, h, w) → (n, out_channels, h / stride, w / stride)."""
        result = self.block(input)
        return result + input if self.use_res_connect else result


class MobileNetV3(nn.Module):
    """MobileNetV3: inverted residual blocks with squeeze and excitation, a mean over the image and two linear layers.

    Args:
        inverted_residual_setting: an InvertedResidualConfig for each block.
        last_channel: outputs of the first linear layer.
        block: class of the blocks.
        norm_layer: function of the channels; None stands for batch norm with eps=0.001 and momentum=0.01.
    Shape: x (N, 3, H, W); result (N, num_classes).
    Raises:
        ValueError: when `inverted_residual_setting` is empty.
        TypeError: when `inverted_residual_setting` holds something else.
    Source: Howard et al., "Searching for MobileNetV3", 2019.

    >>> import tdt
    >>> from tdt.vision.models.mobilenetv3 import InvertedResidualConfig
    >>> setting = [InvertedResidualConfig(16, 3, 16, 16, True, "RE", 2, 1, 0.5)]
    >>> tdt.vision.models.MobileNetV3(setting, 32, num_classes=10)(tdt.ones(2, 3, 32, 32)).shape
    tdt.Size([2, 10])
    """

    def __init__(
        self,
        inverted_residual_setting: Sequence[InvertedResidualConfig],
        last_channel: int,
        num_classes: int = 1000,
        block: Norm | None = None,
        norm_layer: Norm | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        if not inverted_residual_setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        if not all(isinstance(one, InvertedResidualConfig) for one in inverted_residual_setting):
            raise TypeError("The inverted_residual_setting should be List[InvertedResidualConfig]")
        block, norm = block or InvertedResidual, norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.Hardswish)
        layers: list[Any] = [conv(3, inverted_residual_setting[0].input_channels, stride=2)]
        layers += [block(one, norm) for one in inverted_residual_setting]
        channels = inverted_residual_setting[-1].out_channels
        layers.append(conv(channels, 6 * channels, 1))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(6 * channels, last_channel), nn.Hardswish(inplace=True),
            nn.Dropout(dropout, inplace=True), nn.Linear(last_channel, num_classes),
        )  # fmt: skip
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
            elif isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, 0, 0.01)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) → (n, num_classes)."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def _mobilenet_v3(
    setting: Sequence[tuple[int, int, int, int, bool, str, int]],
    last_channel: int,
    width_mult: float = 1.0,
    reduced_tail: bool = False,
    dilated: bool = False,
    num_classes: int = 1000,
    block: Norm | None = None,
    norm_layer: Norm | None = None,
    dropout: float = 0.2,
) -> MobileNetV3:
    """The network of the rows `setting`.

    Args:
        width_mult: factor of every layer's channels.
        reduced_tail: halve the channels of the last three blocks.
        dilated: dilate the convolutions of the last three blocks.
    """
    divisor, dilation = 2 if reduced_tail else 1, 2 if dilated else 1
    blocks = []
    for number, (inputs, kernel, expanded, outputs, squeeze, activation, stride) in enumerate(setting, 1):
        after = number - (len(setting) - 3)  # 1 for the first of the end
        if after > 0:
            outputs //= divisor
        if after > 1:
            inputs, expanded = inputs // divisor, expanded // divisor
        spread = dilation if after > 0 else 1
        blocks.append(
            InvertedResidualConfig(inputs, kernel, expanded, outputs, squeeze, activation, stride, spread, width_mult)
        )
    last = InvertedResidualConfig.adjust_channels(last_channel // divisor, width_mult)
    return MobileNetV3(blocks, last, num_classes, block, norm_layer, dropout)


SOURCE = 'Howard et al., "Searching for MobileNetV3", 2019'
mobilenet_v3_large = builder(
    "mobilenet_v3_large",
    _mobilenet_v3,
    LARGE,
    1280,
    doc="MobileNetV3 of 15 blocks.",
    source=SOURCE,
    file="mobilenet_v3_large-5c1a4163.pth",
)
mobilenet_v3_small = builder(
    "mobilenet_v3_small",
    _mobilenet_v3,
    SMALL,
    1024,
    doc="MobileNetV3 of 11 blocks.",
    source=SOURCE,
    file="mobilenet_v3_small-047dcff4.pth",
)
