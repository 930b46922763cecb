"""`torchvision.transforms.v2.functional`: those functions of it that are in `torchvision.transforms.functional` too."""

from __future__ import annotations

from tdt.vision.transforms.functional import *  # noqa: F403
