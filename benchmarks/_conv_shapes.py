"""Convolutions drawn at random as networks of torchvision, timm, and of audio and video have them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

MACS = 3 << 26  # multiply-adds of a pass, at most: larger batches and images are cut
ELEMENTS = 3 << 20  # of input or result, at most


class Shape(NamedTuple):
    """A convolution of `dims` dimensions; its sizes and settings have as many numbers."""

    family: str
    batch: int
    channels: int
    out: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    transposed: bool = False
    last: bool = False

    def result(self) -> tuple[int, ...]:
        """The spatial size of the result."""
        numbers = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        if self.transposed:
            return tuple((n - 1) * s - 2 * p + d * (k - 1) + 1 for n, k, s, p, d in numbers)
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in numbers)

    def macs(self) -> int:
        """Multiply-adds of a pass."""
        places = math.prod(self.size if self.transposed else self.result())
        return self.batch * places * math.prod(self.kernel) * self.channels * self.out // self.groups

    def __str__(self) -> str:
        parts = [f"{self.batch}x{self.channels}x{'x'.join(map(str, self.size))} -> {self.out}, k {_short(self.kernel)}"]
        for letter, value, default in (("s", self.stride, 1), ("p", self.padding, 0), ("d", self.dilation, 1)):
            if value != (default,) * len(value):
                parts.append(f"{letter} {_short(value)}")
        if self.groups > 1:
            parts.append(f"groups {self.groups}")
        return ", ".join([*parts, *["transposed"] * self.transposed, *["channels-last"] * self.last])


def _short(value: tuple[int, ...]) -> str:
    return str(value[0]) if len(set(value)) == 1 else "x".join(map(str, value))


Draw = Callable[[list], int]


def _layer(dims: int, channels: int, out: int, size: int, kernel: int, stride: int = 1, dilation: int = 1,
           groups: int = 1, padding: int | None = None, transposed: bool = False) -> dict:  # fmt: skip
    """A layer with the same numbers in every dimension, padded to keep the size unless `padding` is given."""
    padding = dilation * (kernel - 1) // 2 if padding is None else padding
    every = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    how = {name: (number,) * dims for name, number in every.items()}
    return {
        "channels": channels,
        "out": out,
        "size": (size,) * dims,
        "groups": groups,
        "transposed": transposed,
        **how,
    }


def resnet(pick: Draw) -> dict:
    width, size = pick([(64, 56), (128, 28), (256, 14), (512, 7), (64, 32), (128, 16), (16, 32), (32, 16), (64, 8)])
    kind = pick(["3x3", "3x3", "strided", "reduce", "expand", "shortcut"])
    if kind == "3x3":
        return _layer(2, width, width, size, 3)
    if kind == "strided":
        return _layer(2, width // 2, width, 2 * size, 3, 2)
    if kind == "shortcut":
        return _layer(2, width // 2, width, 2 * size, 1, 2)
    return _layer(2, 4 * width, width, size, 1) if kind == "reduce" else _layer(2, width, 4 * width, size, 1)


def resnext(pick: Draw) -> dict:
    width, size = pick([(128, 56), (256, 28), (512, 14), (1024, 7)])
    return _layer(2, width, width, size, 3, pick([1, 1, 2]), groups=32)


def vgg(pick: Draw) -> dict:
    channels, out, size = pick([(3, 64, 64), (64, 64, 64), (64, 128, 56), (128, 128, 56), (128, 256, 28), (256, 256, 28),
                                (256, 512, 14), (512, 512, 14), (512, 512, 7)])  # fmt: skip
    return _layer(2, channels, out, size, 3)


def densenet(pick: Draw) -> dict:
    size, start = pick([(56, 64), (28, 128), (14, 256), (7, 512)])
    channels = start + 32 * pick(range(16))
    if pick([0, 1]):
        return _layer(2, 128, 32, size, 3)
    return _layer(2, channels, pick([128, channels // 2]), size, 1)


def inception(pick: Draw) -> dict:
    layer = _layer(2, *pick([(192, 64, 35), (64, 96, 35), (48, 64, 35), (768, 192, 17), (128, 128, 17), (160, 192, 17),
                             (448, 384, 8), (384, 384, 8)]), 3)  # fmt: skip
    kernel = pick([(1, 1), (3, 3), (5, 5), (1, 7), (7, 1), (1, 3), (3, 1)])
    return {**layer, "kernel": kernel, "padding": tuple(k // 2 for k in kernel)}


def mobilenet(pick: Draw) -> dict:
    width, size = pick([(16, 112), (24, 56), (32, 28), (64, 14), (96, 14), (160, 7), (40, 28), (80, 14), (112, 14)])
    kind = pick(["expand", "project", "depthwise", "strided", "stem"])
    if kind == "expand":
        return _layer(2, width, 6 * width, size, 1)
    if kind == "project":
        return _layer(2, 6 * width, width, size, 1)
    if kind == "stem":
        return _layer(2, 3, pick([16, 32, 40]), 2 * pick([48, 64, 96, 112]), 3, 2)
    strided = kind == "strided"
    return _layer(2, 6 * width, 6 * width, size * (2 if strided else 1), pick([3, 3, 5]), 1 + strided, groups=6 * width)


def efficientnet(pick: Draw) -> dict:
    width, size = pick([(16, 56), (24, 56), (40, 28), (80, 14), (112, 14), (192, 7), (48, 24), (136, 12), (232, 8)])
    kind = pick(["expand", "project", "depthwise", "excite", "fused"])
    if kind == "fused":
        return _layer(2, min(width, 64), 4 * min(width, 64), size, 3, pick([1, 2]))
    if kind == "excite":
        return _layer(2, 6 * width, max(4, width // 4), 1, 1)
    if kind == "depthwise":
        return _layer(2, 6 * width, 6 * width, size, pick([3, 5]), pick([1, 1, 2]), groups=6 * width)
    return _layer(2, width, 6 * width, size, 1) if kind == "expand" else _layer(2, 6 * width, width, size, 1)


def convnext(pick: Draw) -> dict:
    width, size = pick([(96, 56), (192, 28), (384, 14), (768, 7), (80, 32), (320, 8)])
    if pick([0, 1]):
        return _layer(2, width, width, size, 7, groups=width)
    return _layer(2, width, 2 * width, size, 2, 2, padding=0)


def patchify(pick: Draw) -> dict:
    side = pick([4, 8, 14, 16, 32])
    return _layer(2, pick([3, 3, 1]), pick([96, 192, 384, 768]), side * pick([7, 14, 16]), side, side, padding=0)


def stem(pick: Draw) -> dict:
    kernel, stride, out = pick([(7, 2, 64), (3, 2, 32), (3, 1, 64), (3, 1, 16), (5, 1, 6), (11, 4, 64)])
    return _layer(2, pick([1, 3, 3, 3, 4]), out, pick([28, 32, 64, 96, 128, 160, 224]), kernel, stride)


def unet(pick: Draw) -> dict:
    width, size = pick([(32, 128), (64, 64), (128, 32), (256, 16), (512, 8), (48, 60), (24, 96)])
    kind = pick(["encode", "decode", "up", "down", "head", "bilinear"])
    if kind == "up":
        return _layer(2, 2 * width, width, size // 2, 2, 2, padding=0, transposed=True)
    if kind == "bilinear":
        return _layer(2, 2 * width, width, size // 2, 4, 2, padding=1, transposed=True)
    if kind == "head":
        return _layer(2, width, pick([1, 2, 3, 19, 21]), size, pick([1, 3]))
    return _layer(2, *{"encode": (width, width), "decode": (2 * width, width), "down": (width, 2 * width)}[kind], size, 3,
                  2 if kind == "down" else 1)  # fmt: skip


def dilated(pick: Draw) -> dict:
    return _layer(2, *pick([(256, 256), (512, 256), (128, 128)]), pick([16, 28, 33]), 3, 1, pick([2, 4, 6, 12]))


def gan(pick: Draw) -> dict:
    width, size = pick([(64, 32), (128, 16), (256, 8), (512, 4), (32, 64)])
    if pick([0, 1]):
        return _layer(2, 2 * width, width, size, 4, 2, padding=1, transposed=True)
    return _layer(2, pick([width, 3]), 2 * width, 2 * size, 4, 2, padding=1)


def superres(pick: Draw) -> dict:
    width = pick([32, 48, 56, 64])
    return _layer(2, *pick([(width, width), (3, width), (width, 3), (width, 12), (width, 4 * width)]), pick([24, 48, 61]),
                  pick([3, 3, 5, 9]))  # fmt: skip


def small_nets(pick: Draw) -> dict:
    channels, out = pick([(1, 6), (6, 16), (1, 32), (32, 64), (3, 10), (10, 20), (20, 50), (17, 33), (16, 120)])
    return _layer(2, channels, out, pick([8, 12, 14, 15, 28, 31]), pick([3, 5]), padding=pick([0, 1, 2]))


def video(pick: Draw) -> dict:
    width, size = pick([(64, 28), (128, 14), (256, 7), (32, 16), (16, 24)])
    depth = pick([2, 4, 8, 16])
    kernel, stride = pick(
        [((3, 3, 3), 1), ((1, 3, 3), 1), ((3, 1, 1), 1), ((3, 3, 3), 2), ((1, 1, 1), 1), ((3, 7, 7), 2)]
    )
    channels = 3 if kernel == (3, 7, 7) else width
    layer = _layer(
        3, channels, width * (1 if stride == 1 else 2) if channels > 3 else 64, 2 * size if stride == 2 else size, 3
    )
    stride = (1, 2, 2) if kernel == (3, 7, 7) else (stride,) * 3
    return {**layer, "size": (depth, *layer["size"][1:]), "kernel": kernel, "stride": stride,
            "padding": tuple(k // 2 for k in kernel)}  # fmt: skip


def volumes(pick: Draw) -> dict:
    width, size = pick([(16, 32), (32, 16), (64, 8), (8, 32), (24, 20)])
    kind = pick(["3x3x3", "3x3x3", "first", "up", "down", "head"])
    if kind == "up":
        return _layer(3, 2 * width, width, size // 2, 2, 2, padding=0, transposed=True)
    if kind == "down":
        return _layer(3, width, 2 * width, size, 3, 2)
    if kind == "head":
        return _layer(3, width, 3, size, 1)
    return _layer(3, 1 if kind == "first" else width, width, size, 3)


def wavenet(pick: Draw) -> dict:
    width = pick([16, 32, 64, 128, 256])
    return _layer(
        1, width, pick([width, 2 * width]), pick([256, 1000, 2048, 4001]), pick([1, 2, 3]), 1, 2 ** pick(range(7))
    )


def temporal(pick: Draw) -> dict:
    width = pick([25, 64, 100, 150, 512])
    return _layer(1, width, width, pick([64, 100, 500]), pick([3, 7, 8]), 1, 2 ** pick(range(5)))


def speech(pick: Draw) -> dict:
    kind = pick(["features", "first", "conformer", "mel", "vocoder"])
    if kind == "features":
        return _layer(1, 512, 512, pick([200, 800]), pick([2, 3]), 2, padding=0)
    if kind == "first":
        return _layer(1, 1, pick([64, 512]), 8000, 10, 5, padding=0)
    if kind == "conformer":
        width = pick([144, 256, 512])
        return _layer(1, width, width, pick([100, 400]), pick([15, 31]), groups=width)
    if kind == "mel":
        return _layer(1, 80, pick([384, 512]), pick([100, 1500]), 3, pick([1, 2]))
    width, stride = pick([(512, 8), (256, 8), (128, 2)])
    return _layer(1, width, width // 2, 32, 2 * stride, stride, padding=stride // 2, transposed=True)


def series(pick: Draw) -> dict:
    return _layer(1, *pick([(1, 64), (64, 128), (128, 128), (12, 64), (32, 32)]), pick([187, 512, 1024, 1800]),
                  pick([3, 5, 8, 16]), pick([1, 1, 2]))  # fmt: skip


FAMILIES = (resnet, resnet, vgg, densenet, inception, mobilenet, efficientnet, convnext, patchify, stem, unet, dilated, gan,
            superres, small_nets, resnext, video, volumes, wavenet, temporal, speech, series)  # fmt: skip


def draw(rng: np.random.Generator, families: str = "") -> Shape:
    """One convolution: its family, layer, batch and memory format at random, cut to `MACS` and `ELEMENTS`."""

    def pick(options):
        return options[int(rng.integers(len(options)))]

    family = pick([f for f in FAMILIES if families in f.__name__])
    layer = family(pick)
    last = len(layer["size"]) == 2 and int(rng.integers(3)) == 0
    shape = Shape(family.__name__, batch=round(2 ** (6 * rng.random())), last=last, **layer)
    while not _fits(shape):
        if shape.batch > 1:
            shape = shape._replace(batch=shape.batch // 2)
        else:
            shape = shape._replace(
                size=tuple(max(-(-2 * n // 3), k) for n, k in zip(shape.size, shape.kernel, strict=True))
            )
    return shape


def _fits(shape: Shape) -> bool:
    elements = shape.batch * max(shape.channels * math.prod(shape.size), shape.out * math.prod(shape.result()))
    return shape.macs() <= MACS and elements <= ELEMENTS
