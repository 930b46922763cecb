"""`torch.distributed._tensor`: the old name of `torch.distributed.tensor`."""

from __future__ import annotations

from tdt.compat.distributed.tensor import *  # noqa: F403
