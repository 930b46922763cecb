"""`torchvision.transforms.v2`: those transforms of it that are in `torchvision.transforms` too."""

from __future__ import annotations

from tdt.compat.vision.transforms.v2 import functional as functional
from tdt.vision.transforms import *  # noqa: F403
