"""`torch.quantization`: PyTorch's older name of `torch.ao.quantization`, which is refused."""

from tdt.compat.ao.quantization import *  # noqa: F403
from tdt.compat.ao.quantization import __all__  # noqa: F401
