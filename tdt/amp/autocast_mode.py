"""PyTorch's module of this name: what `tdt.amp` has of `autocast`."""

from tdt.amp._mode import autocast, custom_bwd, custom_fwd, is_autocast_available

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
