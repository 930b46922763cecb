"""Communication hook that compresses gradients to low rank; not supported."""

from __future__ import annotations

from tdt.compat._refusal import refused, refused_class
from tdt.compat.distributed._reasons import SENT

PowerSGDState = refused_class("PowerSGDState", SENT)
batched_powerSGD_hook = refused("batched_powerSGD_hook", SENT)
powerSGD_hook = refused("powerSGD_hook", SENT)
