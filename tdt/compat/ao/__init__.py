"""`torch.ao`: quantisation, importable and refused."""

from tdt.compat.ao import quantization as quantization
