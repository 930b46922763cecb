"""Classifiers of images: from LeNet to ConvNeXt, with the widths of the published networks and fewer layers."""

from __future__ import annotations

from typing import Any

from benchmarks.families._network import Network, classifier, conv_bn, residual


def lenet(library: Any, size: int) -> Network:
    """Two 5×5 convolutions with max pooling and three linear layers (LeCun et al., 1998), for 28×28 and 32×32 images."""
    nn = library.nn
    channels, side, (a, b) = ((1, 28, (6, 16)), (3, 32, (20, 50)))[size]
    model = nn.Sequential(
        nn.Conv2d(channels, a, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(a, b, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(b * ((side // 2 - 4) // 2) ** 2, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10),
    )  # fmt: skip
    return classifier(library, model, (channels, side, side), 10, (64, 128)[size])


def vgg(library: Any, size: int) -> Network:
    """Stages of 3×3 convolutions with max pooling, dropout before the classes (Simonyan and Zisserman, 2015)."""
    nn = library.nn
    side, batch, stages = ((32, 16, ((64, 1), (128, 1), (256, 2))), (48, 4, ((64, 2), (128, 2), (256, 2), (512, 2))))[
        size
    ]
    layers: list[Any] = []
    inside = 3
    for width, depth in stages:
        for _ in range(depth):
            layers += [nn.Conv2d(inside, width, 3, padding=1), nn.ReLU(inplace=True)]
            inside = width
        layers.append(nn.MaxPool2d(2))
    layers += [
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * inside, 512),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(512, 100),
    ]
    return classifier(library, nn.Sequential(*layers), (3, side, side), 100, batch)


def resnet_basic(library: Any, size: int) -> Network:
    """The residual network of basic blocks (He et al., 2016): 32×32 images of 16 to 64 channels, ResNet-18 for 64×64."""
    nn = library.nn
    Residual = residual(nn)

    def block(inside: int, outside: int, stride: int) -> Any:
        body = nn.Sequential(*conv_bn(nn, inside, outside, 3, stride, act=nn.ReLU), *conv_bn(nn, outside, outside, 3))
        shortcut = None if inside == outside else nn.Sequential(*conv_bn(nn, inside, outside, 1, stride))
        return Residual(body, shortcut, nn.ReLU(inplace=True))

    if size == 0:
        stem, widths, depth, side, batch = conv_bn(nn, 3, 16, 3, act=nn.ReLU), (16, 32, 64), 2, 32, 16
    else:
        stem = [*conv_bn(nn, 3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
        widths, depth, side, batch = (64, 128, 256, 512), 2, 64, 8
    layers, inside = stem, widths[0]
    for width in widths:
        for n in range(depth):
            layers.append(block(inside, width, 2 if n == 0 and width != inside else 1))
            inside = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 10)]
    return classifier(library, nn.Sequential(*layers), (3, side, side), 10, batch)


def _bottlenecks(library: Any, size: int, groups: int, expand: int) -> Network:
    """Residual blocks of 1×1, 3×3 (in groups) and 1×1 convolutions."""
    nn = library.nn
    Residual = residual(nn)

    def block(inside: int, width: int, outside: int, stride: int) -> Any:
        body = nn.Sequential(
            *conv_bn(nn, inside, width, 1, act=nn.ReLU), *conv_bn(nn, width, width, 3, stride, groups, nn.ReLU),
            *conv_bn(nn, width, outside, 1),
        )  # fmt: skip
        shortcut = None if inside == outside else nn.Sequential(*conv_bn(nn, inside, outside, 1, stride))
        return Residual(body, shortcut, nn.ReLU(inplace=True))

    side, batch, stages = ((32, 8, ((64, 1), (128, 1))), (64, 4, ((64, 2), (128, 2), (256, 2))))[size]
    layers, inside = [*conv_bn(nn, 3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)], 64
    for width, depth in stages:
        for n in range(depth):
            layers.append(block(inside, width * expand // 4, 4 * width, 2 if n == 0 and width > 64 else 1))
            inside = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 100)]
    return classifier(library, nn.Sequential(*layers), (3, side, side), 100, batch, lr=1e-3)


def resnet_bottleneck(library: Any, size: int) -> Network:
    """ResNet-50's blocks (He et al., 2016)."""
    return _bottlenecks(library, size, 1, 4)


def resnext(library: Any, size: int) -> Network:
    """ResNeXt-50's blocks with 32 groups (Xie et al., 2017)."""
    return _bottlenecks(library, size, 32, 8)


def wide_resnet(library: Any, size: int) -> Network:
    """Wide blocks with the norms before the convolutions (Zagoruyko and Komodakis, 2016)."""
    nn = library.nn
    Residual = residual(nn)

    def norm(width: int) -> list[Any]:
        return [nn.BatchNorm2d(width), nn.ReLU()]

    def block(inside: int, outside: int, stride: int) -> Any:
        body = nn.Sequential(
            *norm(inside), nn.Conv2d(inside, outside, 3, stride, 1, bias=False), *norm(outside), nn.Dropout(0.1),
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False),
        )  # fmt: skip
        return Residual(body, None if inside == outside else nn.Conv2d(inside, outside, 1, stride, bias=False))

    widen, depth, batch = ((2, 1, 16), (4, 2, 4))[size]
    layers, inside = [nn.Conv2d(3, 16, 3, padding=1, bias=False)], 16
    for width, stride in ((16 * widen, 1), (32 * widen, 2), (64 * widen, 2)):
        for n in range(depth):
            layers.append(block(inside, width, stride if n == 0 else 1))
            inside = width
    layers += [*norm(inside), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 10)]
    return classifier(library, nn.Sequential(*layers), (3, 32, 32), 10, batch)


def densenet(library: Any, size: int) -> Network:
    """Layers that see the outputs of all layers before (Huang et al., 2017)."""
    nn, cat = library.nn, library.cat

    class Layer(nn.Module):
        def __init__(self, inside: int, growth: int):
            super().__init__()
            self.body = nn.Sequential(
                nn.BatchNorm2d(inside), nn.ReLU(), nn.Conv2d(inside, 4 * growth, 1, bias=False),
                nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            return cat([x, self.body(x)], 1)

    growth, depths, batch = ((12, (3, 3, 3), 8), (32, (4, 6, 6), 4))[size]
    inside = 2 * growth
    layers: list[Any] = [nn.Conv2d(3, inside, 3, padding=1, bias=False)]
    for n, depth in enumerate(depths):
        if n:
            layers += [
                nn.BatchNorm2d(inside),
                nn.ReLU(),
                nn.Conv2d(inside, inside // 2, 1, bias=False),
                nn.AvgPool2d(2),
            ]
            inside //= 2
        for _ in range(depth):
            layers.append(Layer(inside, growth))
            inside += growth
    layers += [nn.BatchNorm2d(inside), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 10)]
    return classifier(library, nn.Sequential(*layers), (3, 32, 32), 10, batch)


def inception(library: Any, size: int) -> Network:
    """Branches of 1×1, 3×3, 5×5 (as two 3×3) and pooling, side by side (Szegedy et al., 2015)."""
    nn, cat = library.nn, library.cat

    class Inception(nn.Module):
        def __init__(self, inside: int, a: int, b: tuple[int, int], c: tuple[int, int], d: int):
            super().__init__()
            relu = nn.ReLU
            self.one = nn.Sequential(*conv_bn(nn, inside, a, 1, act=relu))
            self.three = nn.Sequential(*conv_bn(nn, inside, b[0], 1, act=relu), *conv_bn(nn, b[0], b[1], 3, act=relu))
            self.five = nn.Sequential(
                *conv_bn(nn, inside, c[0], 1, act=relu), *conv_bn(nn, c[0], c[1], 3, act=relu),
                *conv_bn(nn, c[1], c[1], 3, act=relu),
            )  # fmt: skip
            self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), *conv_bn(nn, inside, d, 1, act=relu))

        def forward(self, x: Any) -> Any:
            return cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1)

    side, batch = ((32, 4), (48, 8))[size]
    layers = [*conv_bn(nn, 3, 64, 3, 2, act=nn.ReLU), *conv_bn(nn, 64, 192, 3, act=nn.ReLU), nn.MaxPool2d(3, 2, 1),
              Inception(192, 64, (96, 128), (16, 32), 32)]  # fmt: skip
    width = 256
    if size:
        layers += [Inception(256, 128, (128, 192), (32, 96), 64), nn.MaxPool2d(3, 2, 1),
                   Inception(480, 192, (96, 208), (16, 48), 64)]  # fmt: skip
        width = 512
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.4), nn.Linear(width, 100)]
    return classifier(library, nn.Sequential(*layers), (3, side, side), 100, batch)


def _inverted(library: Any, size: int, act: Any, squeeze: bool, stages: tuple) -> Network:
    """Inverted residual blocks: 1×1 to more channels, depthwise, 1×1 back; with squeeze and excitation or without."""
    nn = library.nn
    Residual = residual(nn)

    class Excite(nn.Module):
        def __init__(self, width: int, inner: int):
            super().__init__()
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, inner, 1), act(), nn.Conv2d(inner, width, 1), nn.Sigmoid()
            )

        def forward(self, x: Any) -> Any:
            return x * self.gate(x)

    def block(inside: int, outside: int, kernel: int, stride: int, expand: int) -> Any:
        width = inside * expand
        layers = conv_bn(nn, inside, width, 1, act=act) if expand > 1 else []
        layers += conv_bn(nn, width, width, kernel, stride, width, act)
        if squeeze:
            layers.append(Excite(width, max(8, inside // 4)))
        body = nn.Sequential(*layers, *conv_bn(nn, width, outside, 1))
        return Residual(body) if inside == outside and stride == 1 else body

    side, batch = ((32, 8), (64, 8))[size]
    layers, inside = conv_bn(nn, 3, 16, 3, 2, act=act), 16
    for width, depth, kernel, stride, expand in stages:
        for n in range(depth):
            layers.append(block(inside, width, kernel, stride if n == 0 else 1, expand))
            inside = width
    layers += [*conv_bn(nn, inside, 4 * inside, 1, act=act), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
               nn.Linear(4 * inside, 100)]  # fmt: skip
    return classifier(library, nn.Sequential(*layers), (3, side, side), 100, batch)


def mobilenet_v2(library: Any, size: int) -> Network:
    """Inverted residuals with ReLU6 (Sandler et al., 2018)."""
    stages = ((16, 1, 3, 1, 1), (24, 2, 3, 2, 6), (32, 2, 3, 2, 6), (64, 2, 3, 2, 6), (96, 1, 3, 1, 6))
    return _inverted(library, size, library.nn.ReLU6, False, stages[: (3, 5)[size]])


def mobilenet_v3(library: Any, size: int) -> Network:
    """Inverted residuals with squeeze and excitation and hardswish (Howard et al., 2019)."""
    stages = ((16, 1, 3, 2, 1), (24, 2, 3, 2, 4), (40, 2, 5, 1, 6), (48, 2, 5, 1, 3))
    return _inverted(library, size, library.nn.Hardswish, True, stages[: (3, 4)[size]])


def efficientnet(library: Any, size: int) -> Network:
    """Inverted residuals with squeeze and excitation and SiLU (Tan and Le, 2019)."""
    stages = ((16, 1, 3, 1, 1), (24, 2, 3, 2, 6), (40, 2, 5, 2, 6), (80, 2, 3, 2, 6))
    return _inverted(library, size, library.nn.SiLU, True, stages[: (3, 4)[size]])


def shufflenet(library: Any, size: int) -> Network:
    """Half of the channels through 1×1, depthwise and 1×1 convolutions, then both halves shuffled (Ma et al., 2018)."""
    nn, cat = library.nn, library.cat

    def branch(inside: int, outside: int, stride: int) -> Any:
        return nn.Sequential(
            *conv_bn(nn, inside, outside, 1, act=nn.ReLU), *conv_bn(nn, outside, outside, 3, stride, outside),
            *conv_bn(nn, outside, outside, 1, act=nn.ReLU),
        )  # fmt: skip

    class Unit(nn.Module):
        def __init__(self, inside: int, outside: int, stride: int):
            super().__init__()
            half, self.stride = outside // 2, stride
            self.body = branch(inside if stride > 1 else half, half, stride)
            if stride > 1:
                self.side = nn.Sequential(
                    *conv_bn(nn, inside, inside, 3, 2, inside), *conv_bn(nn, inside, half, 1, act=nn.ReLU)
                )

        def forward(self, x: Any) -> Any:
            if self.stride > 1:
                y = cat([self.side(x), self.body(x)], 1)
            else:
                a, b = x.chunk(2, 1)
                y = cat([a, self.body(b)], 1)
            n, c, h, w = y.shape
            return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)

    side, batch, stages = ((32, 16, ((48, 2), (96, 2))), (64, 16, ((116, 3), (232, 4), (464, 2))))[size]
    layers, inside = [*conv_bn(nn, 3, 24, 3, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)], 24
    for width, depth in stages:
        for n in range(depth):
            layers.append(Unit(inside, width, 2 if n == 0 else 1))
            inside = width
    layers += [
        *conv_bn(nn, inside, 2 * inside, 1, act=nn.ReLU),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * inside, 100),
    ]
    return classifier(library, nn.Sequential(*layers), (3, side, side), 100, batch)


def convnext(library: Any, size: int) -> Network:
    """Depthwise 7×7, layer norm over channels, two linear layers with GELU, scaled (Liu et al., 2022)."""
    nn = library.nn

    class Norm(nn.LayerNorm):
        def forward(self, x: Any) -> Any:
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class Block(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.norm = nn.LayerNorm(width, eps=1e-6)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.scale = nn.Parameter(0.1 * library.ones(width))

        def forward(self, x: Any) -> Any:
            y = self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))
            return x + (self.scale * y).permute(0, 3, 1, 2)

    side, batch, stages = ((32, 8, ((40, 1), (80, 2))), (64, 8, ((48, 2), (96, 2), (192, 4))))[size]
    inside = stages[0][0]
    layers: list[Any] = [nn.Conv2d(3, inside, 4, 4), Norm(inside)]
    for width, depth in stages:
        if width != inside:
            layers += [Norm(inside), nn.Conv2d(inside, width, 2, 2)]
            inside = width
        layers += [Block(width) for _ in range(depth)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(inside), nn.Linear(inside, 100)]
    return classifier(library, nn.Sequential(*layers), (3, side, side), 100, batch, "AdamW", 1e-3)
