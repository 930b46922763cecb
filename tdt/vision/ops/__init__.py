"""Layers for images that `torchvision.ops` has."""

from tdt.vision.ops.misc import FrozenBatchNorm2d as FrozenBatchNorm2d

__all__ = ["FrozenBatchNorm2d"]
