"""EfficientNet (Tan, Le: EfficientNet, 2019) and EfficientNetV2 (Tan, Le: EfficientNetV2, 2021)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tdt import Tensor, nn
from tdt.vision.models._api import Builder, Norm, builder
from tdt.vision.models.mobilenetv2 import rounded
from tdt.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation
from tdt.vision.ops.stochastic_depth import StochasticDepth

__all__ = [
    "EfficientNet", "efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3", "efficientnet_b4",
    "efficientnet_b5", "efficientnet_b6", "efficientnet_b7", "efficientnet_v2_l", "efficientnet_v2_m", "efficientnet_v2_s",
]  # fmt: skip

Row = tuple[int, int, int, int, int, int]  # expansion, kernel, stride, input channels, output channels, blocks

B0: tuple[Row, ...] = (
    (1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3), (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1),
)  # fmt: skip
# Of the second version; the first three stages have one convolution instead of two.
V2_S: tuple[Row, ...] = (
    (1, 3, 1, 24, 24, 2), (4, 3, 2, 24, 48, 4), (4, 3, 2, 48, 64, 4), (4, 3, 2, 64, 128, 6), (6, 3, 1, 128, 160, 9),
    (6, 3, 2, 160, 256, 15),
)  # fmt: skip
V2_M: tuple[Row, ...] = (
    (1, 3, 1, 24, 24, 3), (4, 3, 2, 24, 48, 5), (4, 3, 2, 48, 80, 5), (4, 3, 2, 80, 160, 7), (6, 3, 1, 160, 176, 14),
    (6, 3, 2, 176, 304, 18), (6, 3, 1, 304, 512, 5),
)  # fmt: skip
V2_L: tuple[Row, ...] = (
    (1, 3, 1, 32, 32, 4), (4, 3, 2, 32, 64, 7), (4, 3, 2, 64, 96, 7), (4, 3, 2, 96, 192, 10), (6, 3, 1, 192, 224, 19),
    (6, 3, 2, 224, 384, 25), (6, 3, 1, 384, 640, 7),
)  # fmt: skip


@dataclass
class BlockConfig:
    """A stage: expansion of the channels, kernel, stride of its first block, channels, and number of blocks.

    fused: one convolution in place of the 1×1 one and the one of each channel, and no squeeze and excitation.
    """

    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    fused: bool = False


class _Block(nn.Module):
    """A block around which the input goes straight where its shape allows."""

    def __init__(self, cnf: BlockConfig, layers: Sequence[Any], stochastic_depth_prob: float) -> None:
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.out_channels = cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        """(n, input_channels, h, w) → (n, out_channels, h / stride, w / stride)."""
        result = self.block(input)
        return self.stochastic_depth(result) + input if self.use_res_connect else result


class MBConv(_Block):
    """1×1 to more channels, a convolution of each channel, squeeze and excitation, 1×1 to fewer."""

    def __init__(
        self, cnf: BlockConfig, stochastic_depth_prob: float, norm_layer: Norm, se_layer: Norm = SqueezeExcitation
    ) -> None:
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        inputs, width = cnf.input_channels, rounded(cnf.input_channels * cnf.expand_ratio, 8)
        layers = [conv(inputs, width, 1)] if width != inputs else []
        layers.append(conv(width, width, cnf.kernel, cnf.stride, groups=width))
        layers.append(se_layer(width, max(1, inputs // 4), activation=partial(nn.SiLU, inplace=True)))
        layers.append(conv(width, cnf.out_channels, 1, activation_layer=None))
        super().__init__(cnf, layers, stochastic_depth_prob)


class FusedMBConv(_Block):
    """A convolution to more channels and 1×1 to fewer; only the first where the channels stay as many."""

    def __init__(self, cnf: BlockConfig, stochastic_depth_prob: float, norm_layer: Norm) -> None:
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        inputs, width = cnf.input_channels, rounded(cnf.input_channels * cnf.expand_ratio, 8)
        if width != inputs:
            layers = [
                conv(inputs, width, cnf.kernel, cnf.stride),
                conv(width, cnf.out_channels, 1, activation_layer=None),
            ]
        else:
            layers = [conv(inputs, cnf.out_channels, cnf.kernel, cnf.stride)]
        super().__init__(cnf, layers, stochastic_depth_prob)


class EfficientNet(nn.Module):
    """EfficientNet: stages of inverted residual blocks, a mean over the image and one linear layer.

    Args:
        inverted_residual_setting: a BlockConfig for each stage.
        stochastic_depth_prob: probability that the last block's branch is left out; those before have less.
        norm_layer: function of the channels; None stands for BatchNorm2d.
        last_channel: channels of the last convolution; None for four times those of the last stage.
    Shape: x (N, 3, H, W); result (N, num_classes).
    Raises:
        ValueError: when `inverted_residual_setting` is empty.
        TypeError: when `inverted_residual_setting` holds something else.
    Source: Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", 2019.

    >>> import tdt
    >>> from tdt.vision.models.efficientnet import BlockConfig
    >>> model = tdt.vision.models.EfficientNet([BlockConfig(2, 3, 1, 8, 8, 1)], dropout=0.2, num_classes=10)
    >>> model(tdt.ones(2, 3, 32, 32)).shape
    tdt.Size([2, 10])
    """

    def __init__(
        self,
        inverted_residual_setting: Sequence[BlockConfig],
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: Norm | None = None,
        last_channel: int | None = None,
    ) -> None:
        super().__init__()
        if not inverted_residual_setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        if not all(isinstance(stage, BlockConfig) for stage in inverted_residual_setting):
            raise TypeError("The inverted_residual_setting should be List[BlockConfig]")
        norm = norm_layer or nn.BatchNorm2d
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.SiLU)
        layers: list[Any] = [conv(3, inverted_residual_setting[0].input_channels, stride=2)]
        total, number = sum(stage.num_layers for stage in inverted_residual_setting), 0
        for stage in inverted_residual_setting:
            blocks: list[Any] = []
            for i in range(stage.num_layers):
                one = replace(stage, input_channels=stage.out_channels, stride=1) if i else stage
                kind: Norm = FusedMBConv if stage.fused else MBConv
                blocks.append(kind(one, stochastic_depth_prob * number / total, norm))
                number += 1
            layers.append(nn.Sequential(*blocks))
        inputs = inverted_residual_setting[-1].out_channels
        outputs = 4 * inputs if last_channel is None else last_channel
        layers.append(conv(inputs, outputs, 1))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(outputs, num_classes))
        self._initialise()

    def _initialise(self) -> None:
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
            elif isinstance(layer, nn.Linear):
                bound = 1.0 / math.sqrt(layer.out_features)
                nn.init.uniform_(layer.weight, -bound, bound)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) → (n, num_classes)."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def _first_version(name: str, width: float, depth: float, dropout: float, file: str) -> Builder[EfficientNet]:
    stages = [
        BlockConfig(
            ratio, kernel, stride, rounded(inputs * width, 8), rounded(outputs * width, 8), math.ceil(count * depth)
        )
        for ratio, kernel, stride, inputs, outputs, count in B0
    ]
    large = {"norm_layer": partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)} if name[-1] in "567" else {}
    return builder(
        name, EfficientNet, stages, dropout=dropout, **large, file=file,
        doc=f"EfficientNet of {width} times the channels and {depth} times the blocks of the smallest.",
        source='Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", 2019',
    )  # fmt: skip


def _second_version(name: str, rows: Sequence[Row], dropout: float, file: str) -> Builder[EfficientNet]:
    return builder(
        name, EfficientNet, [BlockConfig(*row, fused=i < 3) for i, row in enumerate(rows)], dropout=dropout,
        norm_layer=partial(nn.BatchNorm2d, eps=0.001), last_channel=1280, file=file,
        doc=f"EfficientNetV2 of {sum(row[-1] for row in rows)} blocks.",
        source='Tan and Le, "EfficientNetV2: Smaller Models and Faster Training", 2021',
    )  # fmt: skip


efficientnet_b0 = _first_version("efficientnet_b0", 1.0, 1.0, 0.2, "efficientnet_b0_rwightman-7f5810bc.pth")
efficientnet_b1 = _first_version("efficientnet_b1", 1.0, 1.1, 0.2, "efficientnet_b1-c27df63c.pth")
efficientnet_b2 = _first_version("efficientnet_b2", 1.1, 1.2, 0.3, "efficientnet_b2_rwightman-c35c1473.pth")
efficientnet_b3 = _first_version("efficientnet_b3", 1.2, 1.4, 0.3, "efficientnet_b3_rwightman-b3899882.pth")
efficientnet_b4 = _first_version("efficientnet_b4", 1.4, 1.8, 0.4, "efficientnet_b4_rwightman-23ab8bcd.pth")
efficientnet_b5 = _first_version("efficientnet_b5", 1.6, 2.2, 0.4, "efficientnet_b5_lukemelas-1a07897c.pth")
efficientnet_b6 = _first_version("efficientnet_b6", 1.8, 2.6, 0.5, "efficientnet_b6_lukemelas-24a108a5.pth")
efficientnet_b7 = _first_version("efficientnet_b7", 2.0, 3.1, 0.5, "efficientnet_b7_lukemelas-c5b4e57e.pth")
efficientnet_v2_s = _second_version("efficientnet_v2_s", V2_S, 0.2, "efficientnet_v2_s-dd5fe13b.pth")
efficientnet_v2_m = _second_version("efficientnet_v2_m", V2_M, 0.3, "efficientnet_v2_m-dc08266a.pth")
efficientnet_v2_l = _second_version("efficientnet_v2_l", V2_L, 0.4, "efficientnet_v2_l-59c71312.pth")
