"""PyTorch's `torch.utils.dlpack`: tensors' memory shared with other libraries."""

from tdt._core.sharing import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
