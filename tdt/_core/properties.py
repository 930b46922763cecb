"""Properties of Tensor that tell its layout, its kind and its device."""

from __future__ import annotations

from tdt._core import layout as _layout
from tdt._core.dtype import dtype
from tdt._core.methods import tensor_property
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import Tensor


@tensor_property
def layout(self: Tensor) -> _layout.layout:
    """How the elements are stored: `strided`, `sparse_coo` or `sparse_csr`."""
    return getattr(_layout, self._a.layout) if isinstance(self._a, SparseCOO) else _layout.strided


@tensor_property
def is_sparse(self: Tensor) -> bool:
    """Whether the layout is `sparse_coo`."""
    return layout(self) is _layout.sparse_coo


@tensor_property
def is_sparse_csr(self: Tensor) -> bool:
    """Whether the layout is `sparse_csr`."""
    return layout(self) is _layout.sparse_csr


@tensor_property
def is_cpu(self: Tensor) -> bool:
    """Whether the elements lie in main memory."""
    return self.device.type == "cpu"


@tensor_property
def is_meta(self: Tensor) -> bool:
    """Whether the tensor has a shape and a dtype but no elements (device "meta")."""
    return self.device.type == "meta"


@tensor_property
def name(self: Tensor) -> str | None:
    """Always None: tensors have no names."""
    return None


@tensor_property
def grad_dtype(self: Tensor) -> dtype | None:
    """Dtype of the gradients that a leaf accumulates; None for a tensor that is not a leaf."""
    return self.dtype if self.is_leaf else None


@tensor_property
def is_ipu(self: Tensor) -> bool:
    """Always False: tdt has no IPU device."""
    return False


@tensor_property
def is_maia(self: Tensor) -> bool:
    """Always False: tdt has no MAIA device."""
    return False


@tensor_property
def is_mkldnn(self: Tensor) -> bool:
    """Always False: tdt has no MKL-DNN layout."""
    return False


@tensor_property
def is_mps(self: Tensor) -> bool:
    """Always False: tdt has no MPS device."""
    return False


@tensor_property
def is_mtia(self: Tensor) -> bool:
    """Always False: tdt has no MTIA device."""
    return False


@tensor_property
def is_nested(self: Tensor) -> bool:
    """Always False: tdt has no nested tensors."""
    return False


@tensor_property
def is_quantized(self: Tensor) -> bool:
    """Always False: tdt has no quantized tensors."""
    return False


@tensor_property
def is_vulkan(self: Tensor) -> bool:
    """Always False: tdt has no Vulkan device."""
    return False


@tensor_property
def is_xla(self: Tensor) -> bool:
    """Always False: tdt has no XLA device."""
    return False


@tensor_property
def is_xpu(self: Tensor) -> bool:
    """Always False: tdt has no XPU device."""
    return False
