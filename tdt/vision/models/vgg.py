"""VGG (Simonyan, Zisserman: Very Deep Convolutional Networks for Large-Scale Image Recognition, 2014)."""

from __future__ import annotations

from collections.abc import Sequence

from tdt import Tensor, nn
from tdt.vision.models._api import Builder, builder

__all__ = ["VGG", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"]

WIDTHS = (64, 128, 256, 512, 512)  # of the five stages; each ends with a pooling layer that halves the image size


class VGG(nn.Module):
    """VGG: convolutions `features`, followed by three linear layers.

    Args:
        features: the convolutions, which return 512 channels.
        init_weights: draw the weights as the paper's authors did.
    Shape: x (N, 3, H, W), at least 32 × 32 pixels; result (N, num_classes).
    Source: Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2015.

    >>> import tdt
    >>> with tdt.device("meta"):
    ...     model = tdt.vision.models.VGG(tdt.nn.Conv2d(3, 512, 3), num_classes=10)
    >>> model.classifier[-1].out_features
    10
    """

    def __init__(
        self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096), nn.ReLU(inplace=True), nn.Dropout(dropout),
            nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(dropout), nn.Linear(4096, num_classes),
        )  # fmt: skip
        if init_weights:
            self._initialise()

    def _initialise(self) -> None:
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
            elif isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, 0, 0.01)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) → (n, num_classes)."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def make_layers(cfg: Sequence[int | str], batch_norm: bool = False) -> nn.Sequential:
    """The convolutions of a VGG.

    Args:
        cfg: numbers of channels of 3 × 3 convolutions, each followed by ReLU, and "M" for pooling by 2.
        batch_norm: put a batch norm between a convolution and its ReLU.
    Shape: of the modules' input (N, 3, H, W).

    >>> from tdt.vision.models.vgg import make_layers
    >>> make_layers([64, "M"])
    Sequential(
      (0): Conv2d(3, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
      (1): ReLU(inplace=True)
      (2): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    )
    """
    layers: list[nn.Module] = []
    channels = 3
    for width in cfg:
        if isinstance(width, str):
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers.append(nn.Conv2d(channels, width, 3, padding=1))
        layers += [nn.BatchNorm2d(width)] * batch_norm
        layers.append(nn.ReLU(inplace=True))
        channels = width
    return nn.Sequential(*layers)


def _vgg(
    depths: tuple[int, ...], batch_norm: bool, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5
) -> VGG:
    """Build a VGG from the number of convolutions per stage, with or without batch norm."""
    layers: list[int | str] = []
    for width, depth in zip(WIDTHS, depths, strict=True):
        layers += [*[width] * depth, "M"]
    return VGG(make_layers(layers, batch_norm), num_classes, init_weights, dropout)


def _builder(name: str, file: str, *depths: int) -> Builder[VGG]:
    batch_norm = name.endswith("_bn")
    doc = f"VGG of {sum(depths) + 3} layers{' with batch normalisation' * batch_norm}."
    source = 'Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2015'
    return builder(name, _vgg, depths, batch_norm, doc=doc, source=source, file=file)


vgg11 = _builder("vgg11", "vgg11-8a719046.pth", 1, 1, 2, 2, 2)
vgg11_bn = _builder("vgg11_bn", "vgg11_bn-6002323d.pth", 1, 1, 2, 2, 2)
vgg13 = _builder("vgg13", "vgg13-19584684.pth", 2, 2, 2, 2, 2)
vgg13_bn = _builder("vgg13_bn", "vgg13_bn-abd245e5.pth", 2, 2, 2, 2, 2)
vgg16 = _builder("vgg16", "vgg16-397923af.pth", 2, 2, 3, 3, 3)
vgg16_bn = _builder("vgg16_bn", "vgg16_bn-6c64b313.pth", 2, 2, 3, 3, 3)
vgg19 = _builder("vgg19", "vgg19-dcbb9e9d.pth", 2, 2, 4, 4, 4)
vgg19_bn = _builder("vgg19_bn", "vgg19_bn-c79401a0.pth", 2, 2, 4, 4, 4)
