"""Data sets of images. Each item is a pair (image, label)."""

from tdt.vision.datasets.digits import Digits as Digits

__all__ = ["Digits"]
