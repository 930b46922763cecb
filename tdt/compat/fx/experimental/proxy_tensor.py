"""`torch.fx.experimental.proxy_tensor`: tracing of tensors, which tdt does not do."""

from __future__ import annotations

from tdt.compat._refusal import refused
from tdt.compat.fx import REASON

make_fx = refused("make_fx", REASON)


def get_proxy_mode() -> None:
    """The mode that traces at the moment: None."""
