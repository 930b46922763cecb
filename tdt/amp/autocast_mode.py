"""`torch.amp.autocast_mode`: the names of `tdt.amp` for `autocast`."""

from tdt.amp._mode import autocast, custom_bwd, custom_fwd, is_autocast_available

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
