"""Layouts (strided, sparse), and predicates such as `is_contiguous` and `is_leaf`."""

from __future__ import annotations

from typing import Any

from tdt import _about, _backend
from tdt._core import dtype as _dtype
from tdt._core.dtype import dtype
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import Tensor

__all__ = [
    "get_device", "is_complex", "is_conj", "is_distributed", "is_floating_point", "is_inference", "is_neg", "is_nonzero",
    "is_same_size", "is_signed", "is_tensor", "layout", "numel", "result_type", "sparse_bsc", "sparse_bsr", "sparse_coo",
    "sparse_csc", "sparse_csr", "strided",
]  # fmt: skip


class layout:  # noqa: N801  (PyTorch's name)
    """How elements are stored: `strided` for dense tensors, `sparse_coo` for coordinates and values.

    >>> import tdt
    >>> tdt.zeros(2).layout
    tdt.strided
    """

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"{_about.prefix}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided: layout = layout("strided")
sparse_coo: layout = layout("sparse_coo")
sparse_csr, sparse_csc, sparse_bsr, sparse_bsc = map(layout, ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"))


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor.

    >>> import tdt
    >>> tdt.is_tensor(tdt.zeros(1)), tdt.is_tensor([0.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


def _method_function(name: str, answer: str, example: str) -> Any:
    """A function that calls a method of Tensor; TypeError for other arguments."""

    def function(input: Tensor) -> Any:
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
        return getattr(input, name)()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{answer}

    >>> import tdt
    >>> tdt.{name}({example}
    """
    return function


is_floating_point = _method_function(
    "is_floating_point", "Whether the elements are real floating-point numbers.", "tdt.zeros(1))\n    True"
)
is_complex = _method_function("is_complex", "Whether the elements are complex numbers.", "tdt.zeros(1))\n    False")
is_signed = _method_function("is_signed", "Whether the elements can be negative.", "tdt.zeros(1))\n    True")
is_inference = _method_function(
    "is_inference", "Whether the tensor was made in inference mode.", "tdt.zeros(1))\n    False"
)
is_conj = _method_function(
    "is_conj", "False: tdt conjugates at once, not when elements are read.", "tdt.tensor(1j).conj())\n    False"
)
is_neg = _method_function(
    "is_neg", "False: tdt negates at once, not when elements are read.", "-tdt.ones(1))\n    False"
)
is_distributed = _method_function(
    "is_distributed", "False: no tensor's elements lie on several machines.", "tdt.ones(1))\n    False"
)
is_nonzero = _method_function(
    "is_nonzero",
    "Whether the only element is not 0; RuntimeError if there are more or none.",
    "tdt.tensor([2]))\n    True",
)
numel = _method_function("numel", "How many elements.", "tdt.zeros(2, 3))\n    6")
get_device = _method_function(
    "get_device", "The GPU that holds the elements, -1 for the CPU.", "tdt.zeros(1)) < 16\n    True"
)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape.

    >>> import tdt
    >>> tdt.is_same_size(tdt.zeros(2), tdt.zeros(3))
    False
    """
    return input._a.shape == other._a.shape


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The dtype of the result of arithmetic on two tensors or numbers.

    >>> import tdt
    >>> tdt.result_type(tdt.tensor([1, 2]), 1.0), tdt.result_type(tdt.tensor([1, 2], dtype=tdt.uint8), 1)
    (tdt.float32, tdt.uint8)
    """
    both = (tensor1, tensor2)
    tensors = [(v.dtype, v.ndim == 0) for v in both if isinstance(v, Tensor)]
    numbers = [v for v in both if not isinstance(v, Tensor)]
    for v in numbers:
        if not isinstance(v, bool | int | float | complex):
            raise TypeError(f"result_type() takes tensors and numbers, not {type(v).__name__}")
    return _dtype.result_of(tensors, [_dtype.as_dtype(type(v)) for v in numbers])


def _dim_order(self: Tensor, ambiguity_check: bool = False) -> tuple[int, ...]:
    """The dimensions from the outermost in memory to the innermost."""
    return tuple(sorted(range(self.ndim), key=lambda d: (-self._a.strides[d], d)))


def _is_nonzero(self: Tensor) -> bool:
    """Whether the only element is not 0; RuntimeError if there are more or none."""
    return bool(self)


def _get_device(self: Tensor) -> int:
    """The GPU that holds the elements, -1 for the CPU."""
    index = self.device.index
    return -1 if index is None else index


def _is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether another tensor looks at the same memory in the same way."""
    a, b = self._a, tensor._a
    return (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype) and (
        _backend.byte_bounds(a) == _backend.byte_bounds(b) and a.size > 0
    )


def _sparse_dim(self: Tensor) -> int:
    """How many dimensions are given by coordinates: 0 for a dense tensor."""
    return len(self._a.indices) if isinstance(self._a, SparseCOO) else 0


def _dense_dim(self: Tensor) -> int:
    """How many dimensions are stored whole."""
    return self.ndim - _sparse_dim(self)


def _no(self: Tensor) -> bool:
    """False: tdt has no tensors of this kind."""
    return False


ABSENT = ["is_ipu", "is_maia", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized",
          "is_vulkan", "is_xla", "is_xpu"]  # fmt: skip
METHODS = {
    "dim_order": _dim_order, "is_nonzero": _is_nonzero, "get_device": _get_device, "is_set_to": _is_set_to,
    "sparse_dim": _sparse_dim, "dense_dim": _dense_dim, "is_same_size": is_same_size, "is_conj": _no, "is_neg": _no,
    "is_distributed": _no,
}  # fmt: skip
PROPERTIES = {
    "layout": lambda self: globals()[self._a.layout] if isinstance(self._a, SparseCOO) else strided,
    "is_sparse": lambda self: self.layout is sparse_coo,
    "is_sparse_csr": lambda self: self.layout is sparse_csr,
    "is_cpu": lambda self: self.device.type == "cpu",
    "is_meta": lambda self: self.device.type == "meta",
    "name": lambda self: None,
    "grad_dtype": lambda self: self.dtype if self.is_leaf else None,
    **dict.fromkeys(ABSENT, _no),
}
for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
for _name, _getter in PROPERTIES.items():
    setattr(Tensor, _name, property(_getter))
