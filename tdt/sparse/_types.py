"""Sparse tensor types of PyTorch's first years: `torch.sparse.FloatTensor(indices, values, size)`."""

from __future__ import annotations

from typing import Any

from tdt._core.creation import empty
from tdt._core.dtype import dtype, int64
from tdt._core.size import Size
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import Tensor
from tdt.compat._old_types import TYPES
from tdt.sparse._methods import sparse_coo_tensor


class SparseType(type):
    """A dtype of sparse tensors under one name: calling it creates a tensor, `isinstance(x, it)` tests for it."""

    dtype: Any

    def __new__(cls, name: str, kind: dtype) -> SparseType:
        body = {"__module__": "torch.sparse", "__doc__": f"Sparse tensors of {kind} on the CPU."}
        result = super().__new__(cls, name, (), body)
        result.dtype = kind
        return result

    def __init__(self, name: str, kind: dtype) -> None:
        super().__init__(name, (), {})

    def __call__(self, *args: Any, device: Any = None) -> Tensor:
        if args and isinstance(args[0], Tensor):
            return sparse_coo_tensor(*args, device=device)
        sizes = args[0] if len(args) == 1 and isinstance(args[0], tuple | list) else args or (0,)
        places = empty(len(sizes), 0, dtype=int64)
        return sparse_coo_tensor(places, empty(0, dtype=self.dtype), Size(sizes), device=device)

    def __instancecheck__(self, x: object) -> bool:
        return (
            isinstance(x, Tensor) and x.dtype is self.dtype and x.device.type == "cpu" and isinstance(x._a, SparseCOO)
        )

    def __repr__(self) -> str:
        return f"<class 'torch.sparse.{self.__name__}'>"


SPARSE_TYPES = {name: SparseType(name, kind.dtype) for name, kind in TYPES.items()}
