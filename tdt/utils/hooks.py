"""What registering a hook returns, under PyTorch's name."""

from tdt.autograd._hooks import RemovableHandle

__all__ = ["RemovableHandle"]
