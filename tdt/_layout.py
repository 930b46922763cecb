"""What a tensor's memory is laid out as: `strided`, or the sparse layouts' names."""

from __future__ import annotations

from tdt._sparse import SparseCOO
from tdt._tensor import Tensor

__all__ = ["layout", "sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc", "sparse_csr", "strided"]


class layout:  # noqa: N801  (PyTorch's name)
    """How elements are stored: `strided` for dense tensors, `sparse_coo` for coordinates and values.

    >>> import tdt
    >>> tdt.zeros(2).layout
    tdt.strided
    """

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"tdt.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided, sparse_coo = layout("strided"), layout("sparse_coo")
sparse_csr, sparse_csc, sparse_bsr, sparse_bsc = map(layout, ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"))


def layout_of(self: Tensor) -> layout:
    """How the elements are stored."""
    return sparse_coo if isinstance(self._a, SparseCOO) else strided


PROPERTIES = {"layout": layout_of}
for _name, _getter in PROPERTIES.items():
    setattr(Tensor, _name, property(_getter))
