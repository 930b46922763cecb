"""Communication hook that averages gradients over a part of the processes; not supported."""

from __future__ import annotations

from tdt.compat._refusal import refused, refused_class
from tdt.compat.distributed._reasons import SENT

PostLocalSGDState = refused_class("PostLocalSGDState", SENT)
post_localSGD_hook = refused("post_localSGD_hook", SENT)
