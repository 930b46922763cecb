"""DenseNet (Huang et al.: Densely Connected Convolutional Networks, 2017)."""

from __future__ import annotations

from collections.abc import Sequence

import tdt
from tdt import Tensor, nn
from tdt.utils.checkpoint import checkpoint
from tdt.vision.models._api import Builder, builder

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]


class _DenseLayer(nn.Module):
    """1×1 and 3×3 convolutions that make `growth_rate` channels of all that the block has so far."""

    def __init__(
        self, num_input_features: int, growth_rate: int, bn_size: int, drop_rate: float, memory_efficient: bool = False
    ) -> None:
        super().__init__()
        width = bn_size * growth_rate
        self.norm1 = nn.BatchNorm2d(num_input_features)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, width, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, growth_rate, 3, padding=1, bias=False)
        self.drop_rate = float(drop_rate)
        self.memory_efficient = memory_efficient

    def _bottleneck(self, *features: Tensor) -> Tensor:
        return self.conv1(self.relu1(self.norm1(tdt.cat(features, 1))))

    def forward(self, input: Tensor | Sequence[Tensor]) -> Tensor:
        """Tensors (n, c, h, w) of num_input_features channels in all → (n, growth_rate, h, w)."""
        features = [input] if isinstance(input, Tensor) else input
        if self.memory_efficient and any(feature.requires_grad for feature in features):
            narrow = checkpoint(self._bottleneck, *features, use_reentrant=False)
        else:
            narrow = self._bottleneck(*features)
        out = self.conv2(self.relu2(self.norm2(narrow)))
        return nn.functional.dropout(out, self.drop_rate, self.training) if self.drop_rate > 0 else out


class _DenseBlock(nn.ModuleDict):
    """Layers of which each reads the outputs of all before it."""

    def __init__(
        self, num_layers: int, num_input_features: int, bn_size: int, growth_rate: int, drop_rate: float,
        memory_efficient: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        for i in range(num_layers):
            inputs = num_input_features + i * growth_rate
            self[f"denselayer{i + 1}"] = _DenseLayer(inputs, growth_rate, bn_size, drop_rate, memory_efficient)

    def forward(self, init_features: Tensor) -> Tensor:
        """(n, c, h, w) → (n, c + layers · growth_rate, h, w)."""
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return tdt.cat(features, 1)


class _Transition(nn.Sequential):
    """Fewer channels, and half the size."""

    def __init__(self, num_input_features: int, num_output_features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, 1, bias=False)
        self.pool = nn.AvgPool2d(2, 2)


class DenseNet(nn.Module):
    """DenseNet: blocks whose layers read all before them, a mean over the image and one linear layer.

    Args:
        growth_rate: channels that each layer adds.
        block_config: layers of each block.
        num_init_features: channels of the first convolution.
        bn_size: channels of the 1×1 convolutions, in multiples of `growth_rate`.
        drop_rate: of dropout after each layer.
        memory_efficient: compute the 1×1 convolutions again in backward instead of keeping them.
    Shape: x (N, 3, H, W), at least 29 × 29 pixels; result (N, num_classes).
    Source: Huang et al., "Densely Connected Convolutional Networks", 2017.

    >>> import tdt
    >>> tdt.vision.models.DenseNet(8, (1, 1, 1, 1), 16, num_classes=10)(tdt.ones(2, 3, 32, 32)).shape
    tdt.Size([2, 10])
    """

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: Sequence[int] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        self.features = nn.Sequential()
        self.features.add_module("conv0", nn.Conv2d(3, num_init_features, 7, stride=2, padding=3, bias=False))
        self.features.add_module("norm0", nn.BatchNorm2d(num_init_features))
        self.features.add_module("relu0", nn.ReLU(inplace=True))
        self.features.add_module("pool0", nn.MaxPool2d(3, stride=2, padding=1))
        channels = num_init_features
        for number, count in enumerate(block_config, 1):
            block = _DenseBlock(count, channels, bn_size, growth_rate, drop_rate, memory_efficient)
            self.features.add_module(f"denseblock{number}", block)
            channels += count * growth_rate
            if number < len(block_config):
                self.features.add_module(f"transition{number}", _Transition(channels, channels // 2))
                channels //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(channels))
        self.classifier = nn.Linear(channels, num_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) → (n, num_classes)."""
        features = nn.functional.relu(self.features(x), inplace=True)
        return self.classifier(nn.functional.adaptive_avg_pool2d(features, (1, 1)).flatten(1))


def _densenet(name: str, growth: int, blocks: Sequence[int], first: int, file: str) -> Builder[DenseNet]:
    return builder(
        name, DenseNet, growth, blocks, first, doc=f"DenseNet of {name.removeprefix('densenet')} layers.",
        source='Huang et al., "Densely Connected Convolutional Networks", 2017', file=file,
    )  # fmt: skip


densenet121 = _densenet("densenet121", 32, (6, 12, 24, 16), 64, "densenet121-a639ec97.pth")
densenet161 = _densenet("densenet161", 48, (6, 12, 36, 24), 96, "densenet161-8d451a50.pth")
densenet169 = _densenet("densenet169", 32, (6, 12, 32, 32), 64, "densenet169-b2777c0a.pth")
densenet201 = _densenet("densenet201", 32, (6, 12, 48, 32), 64, "densenet201-c1103571.pth")
