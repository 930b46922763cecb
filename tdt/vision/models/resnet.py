"""ResNet (He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, 2015) and its variants.

Wide ResNet: Zagoruyko, Komodakis, 2016; ResNeXt: Xie et al., 2016. A bottleneck strides in its 3×3 convolution (v1.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt import Tensor, nn
from tdt.vision.models._api import Builder, Norm, builder

__all__ = [
    "ResNet", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d", "resnext101_32x8d",
    "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2",
]  # fmt: skip


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    """A 3×3 convolution that keeps the size but for the stride."""
    return nn.Conv2d(in_planes, out_planes, 3, stride, dilation, dilation, groups, bias=False)


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A 1×1 convolution."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions around which the input goes straight."""

    expansion = 1

    def __init__(
        self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None, groups: int = 1,
        base_width: int = 64, dilation: int = 1, norm_layer: Norm | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm_layer(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """(n, inplanes, h, w) → (n, planes, h / stride, w / stride)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions, narrower in the middle, around which the input goes straight."""

    expansion = 4

    def __init__(
        self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None, groups: int = 1,
        base_width: int = 64, dilation: int = 1, norm_layer: Norm | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm_layer(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm_layer(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm_layer(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """(n, inplanes, h, w) → (n, 4 · planes, h / stride, w / stride)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    """ResNet: four stages of residual blocks, a mean over the image and one linear layer.

    Args:
        block: BasicBlock or Bottleneck.
        layers: numbers of blocks in the stages.
        zero_init_residual: start every block as the identity.
        groups, width_per_group: of the bottlenecks' 3 × 3 convolutions.
        replace_stride_with_dilation: for each of the last three stages, whether it keeps the image's size.
        norm_layer: function of the channels; None stands for BatchNorm2d.
    Shape: x (N, 3, H, W); result (N, num_classes).
    Raises:
        ValueError: when `replace_stride_with_dilation` does not have three elements.
    Source: He et al., "Deep Residual Learning for Image Recognition", 2016.

    >>> import tdt
    >>> from tdt.vision.models.resnet import BasicBlock
    >>> with tdt.device("meta"):
    ...     model = tdt.vision.models.ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10)
    >>> model(tdt.rand(2, 3, 64, 64, device="meta")).shape
    tdt.Size([2, 10])
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        dilate = replace_stride_with_dilation or (False, False, False)
        if len(dilate) != 3:
            raise ValueError(f"replace_stride_with_dilation should be None or a 3-element tuple, got {dilate}")
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation = 64, 1
        self.groups, self.base_width = groups, width_per_group
        self.conv1 = nn.Conv2d(3, self.inplanes, 7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self._stage(block, 64, layers[0])
        self.layer2 = self._stage(block, 128, layers[1], 2, dilate[0])
        self.layer3 = self._stage(block, 256, layers[2], 2, dilate[1])
        self.layer4 = self._stage(block, 512, layers[3], 2, dilate[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        self._initialise(zero_init_residual)

    def _stage(self, block: Any, planes: int, count: int, stride: int = 1, dilate: bool = False) -> nn.Sequential:
        outplanes, downsample, before = planes * block.expansion, None, self.dilation
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        if stride != 1 or self.inplanes != outplanes:
            downsample = nn.Sequential(conv1x1(self.inplanes, outplanes, stride), self._norm_layer(outplanes))
        shared = (self.groups, self.base_width)
        blocks = [block(self.inplanes, planes, stride, downsample, *shared, before, self._norm_layer)]
        self.inplanes = outplanes
        for _ in range(1, count):
            blocks.append(block(outplanes, planes, 1, None, *shared, self.dilation, self._norm_layer))
        return nn.Sequential(*blocks)

    def _initialise(self, zero_init_residual: bool) -> None:
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        for layer in self.modules() if zero_init_residual else ():
            if isinstance(layer, (BasicBlock, Bottleneck)):
                last = layer.bn3 if isinstance(layer, Bottleneck) else layer.bn2
                nn.init.zeros_(last.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) → (n, num_classes)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


# Beginning of a builder's name, kind of network, paper.
SOURCES = (
    ("resnet", "ResNet", 'He et al., "Deep Residual Learning for Image Recognition", 2016'),
    ("resnext", "ResNeXt", 'Xie et al., "Aggregated Residual Transformations for Deep Neural Networks", 2017'),
    ("wide_resnet", "Wide ResNet", 'Zagoruyko and Komodakis, "Wide Residual Networks", 2016'),
)


def _builder(name: str, file: str, block: Any, *layers: int, **preset: int) -> Builder[ResNet]:
    depth = sum(layers) * (2 if block is BasicBlock else 3) + 2
    kind, source = next(entry for prefix, *entry in SOURCES if name.startswith(prefix))
    return builder(name, ResNet, block, layers, doc=f"{kind} of {depth} layers.", source=source, file=file, **preset)


resnet18 = _builder("resnet18", "resnet18-f37072fd.pth", BasicBlock, 2, 2, 2, 2)
resnet34 = _builder("resnet34", "resnet34-b627a593.pth", BasicBlock, 3, 4, 6, 3)
resnet50 = _builder("resnet50", "resnet50-11ad3fa6.pth", Bottleneck, 3, 4, 6, 3)
resnet101 = _builder("resnet101", "resnet101-cd907fc2.pth", Bottleneck, 3, 4, 23, 3)
resnet152 = _builder("resnet152", "resnet152-f82ba261.pth", Bottleneck, 3, 8, 36, 3)
resnext50_32x4d = _builder(
    "resnext50_32x4d", "resnext50_32x4d-1a0047aa.pth", Bottleneck, 3, 4, 6, 3, groups=32, width_per_group=4
)
resnext101_32x8d = _builder(
    "resnext101_32x8d", "resnext101_32x8d-110c445d.pth", Bottleneck, 3, 4, 23, 3, groups=32, width_per_group=8
)
resnext101_64x4d = _builder(
    "resnext101_64x4d", "resnext101_64x4d-173b62eb.pth", Bottleneck, 3, 4, 23, 3, groups=64, width_per_group=4
)
wide_resnet50_2 = _builder(
    "wide_resnet50_2", "wide_resnet50_2-9ba9bcbe.pth", Bottleneck, 3, 4, 6, 3, width_per_group=128
)
wide_resnet101_2 = _builder(
    "wide_resnet101_2", "wide_resnet101_2-d733dc28.pth", Bottleneck, 3, 4, 23, 3, width_per_group=128
)
