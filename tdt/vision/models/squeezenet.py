"""SqueezeNet (Iandola et al.: AlexNet-level accuracy with 50x fewer parameters and <0.5MB model size, 2016)."""

from __future__ import annotations

import tdt
from tdt import Tensor, nn
from tdt.vision.models._api import Builder, builder

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]


class Fire(nn.Module):
    """A 1×1 convolution to few channels, then 1×1 and 3×3 convolutions side by side."""

    def __init__(self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int) -> None:
        super().__init__()
        self.inplanes = inplanes
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, 1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """(n, inplanes, h, w) → (n, expand1x1_planes + expand3x3_planes, h, w)."""
        x = self.squeeze_activation(self.squeeze(x))
        return tdt.cat([self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], 1)


# Channels and kernel size of the first convolution, and (squeeze, expand) channels of the fire modules; 0: max pooling.
VERSIONS = {
    "1_0": (96, 7, (0, (16, 64), (16, 64), (32, 128), 0, (32, 128), (48, 192), (48, 192), (64, 256), 0, (64, 256))),
    "1_1": (64, 3, (0, (16, 64), (16, 64), 0, (32, 128), (32, 128), 0, (48, 192), (48, 192), (64, 256), (64, 256))),
}


class SqueezeNet(nn.Module):
    """SqueezeNet: fire modules, a 1 × 1 convolution to the classes and a mean over the image.

    Args:
        version: "1_0" or "1_1".
    Shape: x (N, 3, H, W); result (N, num_classes).
    Raises:
        ValueError: when `version` is another name.
    Source: Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters", 2016.

    >>> import tdt
    >>> with tdt.device("meta"):
    ...     model = tdt.vision.models.SqueezeNet(num_classes=10)
    >>> model(tdt.rand(2, 3, 224, 224, device="meta")).shape
    tdt.Size([2, 10])
    """

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        if version not in VERSIONS:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        self.num_classes = num_classes
        channels, size, plan = VERSIONS[version]
        layers: list[nn.Module] = [nn.Conv2d(3, channels, size, stride=2), nn.ReLU(inplace=True)]
        for entry in plan:
            if isinstance(entry, tuple):
                squeezed, expanded = entry
                layers.append(Fire(channels, squeezed, expanded, expanded))
                channels = 2 * expanded
            else:
                layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(channels, num_classes, 1)
        self.classifier = nn.Sequential(nn.Dropout(dropout), last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1)))
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                if layer is last:
                    nn.init.normal_(layer.weight, 0.0, 0.01)
                else:
                    nn.init.kaiming_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) → (n, num_classes)."""
        return self.classifier(self.features(x)).flatten(1)


def _builder(version: str, file: str) -> Builder[SqueezeNet]:
    doc = f"SqueezeNet {version.replace('_', '.')}: a small network of fire modules."
    source = 'Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters", 2016'
    return builder(f"squeezenet{version}", SqueezeNet, version, doc=doc, source=source, file=file)


squeezenet1_0 = _builder("1_0", "squeezenet1_0-b66bff10.pth")
squeezenet1_1 = _builder("1_1", "squeezenet1_1-b8a52dc0.pth")
