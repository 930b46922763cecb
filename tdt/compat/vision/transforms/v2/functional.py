"""`torchvision.transforms.v2.functional`: the functions that `torchvision.transforms.functional` has too."""

from __future__ import annotations

from tdt.vision.transforms.functional import *  # noqa: F403
