"""`torchvision.transforms.v2`: the transforms that `torchvision.transforms` has too."""

from __future__ import annotations

from tdt.compat.vision.transforms.v2 import functional as functional
from tdt.vision.transforms import *  # noqa: F403
