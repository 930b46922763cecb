"""Mixed precision: `autocast` lets products run in 16 bits, `GradScaler` keeps float16 gradients from vanishing."""

from tdt.amp import autocast_mode as autocast_mode
from tdt.amp._mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from tdt.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
