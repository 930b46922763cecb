"""ConvNeXt (Liu et al.: A ConvNet for the 2020s, 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tdt
from tdt import Tensor, nn
from tdt.vision.models._api import Builder, Norm, builder
from tdt.vision.ops.misc import Conv2dNormActivation, Permute
from tdt.vision.ops.stochastic_depth import StochasticDepth

__all__ = ["ConvNeXt", "convnext_base", "convnext_large", "convnext_small", "convnext_tiny"]


class LayerNorm2d(nn.LayerNorm):
    """Layer norm over the channels of images (N, C, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) → the same."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@dataclass
class CNBlockConfig:
    """A stage: its channels, those of the next one (None for the last), and its number of blocks."""

    input_channels: int
    out_channels: int | None
    num_layers: int


class CNBlock(nn.Module):
    """A 7×7 convolution of each channel, layer norm, and two linear layers, around which the input goes straight."""

    def __init__(
        self, dim: int, layer_scale: float, stochastic_depth_prob: float, norm_layer: Norm | None = None
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, 7, padding=3, groups=dim), Permute([0, 2, 3, 1]), norm(dim),
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), Permute([0, 3, 1, 2]),
        )  # fmt: skip
        self.layer_scale = nn.Parameter(tdt.full((dim, 1, 1), layer_scale))
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        """(n, dim, h, w) → the same."""
        return self.stochastic_depth(self.layer_scale * self.block(input)) + input


class ConvNeXt(nn.Module):
    """ConvNeXt: stages of blocks, a mean over the image, layer norm and one linear layer.

    Args:
        block_setting: a CNBlockConfig for each stage.
        stochastic_depth_prob: probability that the last block's branch is left out; those before have less.
        layer_scale: initial factor of each channel of a block's branch.
        block: class of the blocks.
        norm_layer: function of the channels; None stands for layer norm with eps=1e-6.
    Shape: x (N, 3, H, W), at least 32 × 32 pixels; result (N, num_classes).
    Raises:
        ValueError: when `block_setting` is empty.
        TypeError: when `block_setting` holds something else.
    Source: Liu et al., "A ConvNet for the 2020s", 2022.

    >>> import tdt
    >>> from tdt.vision.models.convnext import CNBlockConfig
    >>> tdt.vision.models.ConvNeXt([CNBlockConfig(8, None, 1)], num_classes=10)(tdt.ones(1, 3, 32, 32)).shape
    tdt.Size([1, 10])
    """

    def __init__(
        self,
        block_setting: Sequence[CNBlockConfig],
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
        block: Norm | None = None,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        if not block_setting:
            raise ValueError("The block_setting should not be empty")
        if not all(isinstance(stage, CNBlockConfig) for stage in block_setting):
            raise TypeError("The block_setting should be List[CNBlockConfig]")
        block, norm = block or CNBlock, norm_layer or partial(LayerNorm2d, eps=1e-6)
        first, channels = block_setting[0].input_channels, 0
        layers: list[nn.Module] = [
            Conv2dNormActivation(3, first, 4, 4, 0, norm_layer=norm, activation_layer=None, bias=True)
        ]
        total, number = sum(stage.num_layers for stage in block_setting), 0
        for stage in block_setting:
            blocks: list[Any] = []
            for _ in range(stage.num_layers):
                blocks.append(
                    block(stage.input_channels, layer_scale, stochastic_depth_prob * number / max(total - 1, 1))
                )
                number += 1
            layers.append(nn.Sequential(*blocks))
            channels = stage.input_channels
            if stage.out_channels is not None:
                layers.append(nn.Sequential(norm(channels), nn.Conv2d(channels, stage.out_channels, 2, 2)))
                channels = stage.out_channels
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(norm(channels), nn.Flatten(1), nn.Linear(channels, num_classes))
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) → (n, num_classes)."""
        return self.classifier(self.avgpool(self.features(x)))


def _convnext(name: str, widths: Sequence[int], depth: int, probability: float, file: str) -> Builder[ConvNeXt]:
    stages = zip(widths, [*widths[1:], None], (3, 3, depth, 3), strict=True)
    return builder(
        name, ConvNeXt, [CNBlockConfig(*stage) for stage in stages], stochastic_depth_prob=probability,
        doc=f"ConvNeXt with {widths[0]} channels in the first stage and {depth} blocks in the third.",
        source='Liu et al., "A ConvNet for the 2020s", 2022', file=file,
    )  # fmt: skip


convnext_tiny = _convnext("convnext_tiny", (96, 192, 384, 768), 9, 0.1, "convnext_tiny-983f1562.pth")
convnext_small = _convnext("convnext_small", (96, 192, 384, 768), 27, 0.4, "convnext_small-0c510722.pth")
convnext_base = _convnext("convnext_base", (128, 256, 512, 1024), 27, 0.5, "convnext_base-6075fbad.pth")
convnext_large = _convnext("convnext_large", (192, 384, 768, 1536), 27, 0.5, "convnext_large-ea097f82.pth")
