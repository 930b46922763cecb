"""PyTorch's `torch.storage`: the memory that tensors look into."""

from tdt._storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
