"""Layers for images that `torchvision.ops` has."""

from tdt.vision.ops.misc import MLP as MLP
from tdt.vision.ops.misc import Conv2dNormActivation as Conv2dNormActivation
from tdt.vision.ops.misc import FrozenBatchNorm2d as FrozenBatchNorm2d
from tdt.vision.ops.misc import Permute as Permute
from tdt.vision.ops.misc import SqueezeExcitation as SqueezeExcitation
from tdt.vision.ops.stochastic_depth import StochasticDepth as StochasticDepth
from tdt.vision.ops.stochastic_depth import stochastic_depth as stochastic_depth

__all__ = [
    "MLP", "Conv2dNormActivation", "FrozenBatchNorm2d", "Permute", "SqueezeExcitation", "StochasticDepth", "stochastic_depth",
]  # fmt: skip
