"""The grad modes, under their module's name; made in `_mode`."""

from tdt._core.mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
