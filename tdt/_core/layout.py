"""Layouts (strided, sparse), and predicates of tensors such as `is_complex` and `is_conj`."""

from __future__ import annotations

from typing import Any

from tdt import _about, _backend
from tdt._core import dtype as _dtype
from tdt._core.aliases import Number
from tdt._core.dtype import dtype
from tdt._core.methods import method
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import Tensor

__all__ = [
    "get_device", "is_complex", "is_conj", "is_distributed", "is_floating_point", "is_inference", "is_neg", "is_nonzero",
    "is_same_size", "is_signed", "is_tensor", "layout", "numel", "result_type", "sparse_bsc", "sparse_bsr", "sparse_coo",
    "sparse_csc", "sparse_csr", "strided",
]  # fmt: skip


class layout:
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


def _check_tensor(name: str, input: object) -> None:
    """PyTorch's TypeError for an `input` that is not a tensor."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are real floating-point numbers.

    Shape: input (*); result a bool.
    Raises:
        TypeError: when `input` is not a tensor.

    >>> import tdt
    >>> tdt.is_floating_point(tdt.zeros(1))
    True
    """
    _check_tensor("is_floating_point", input)
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers.

    Shape: input (*); result a bool.
    Raises:
        TypeError: when `input` is not a tensor.

    >>> import tdt
    >>> tdt.is_complex(tdt.zeros(1))
    False
    """
    _check_tensor("is_complex", input)
    return input.is_complex()


def is_signed(input: Tensor) -> bool:
    """Whether the dtype can represent negative numbers.

    Shape: input (*); result a bool.
    Raises:
        TypeError: when `input` is not a tensor.

    >>> import tdt
    >>> tdt.is_signed(tdt.zeros(1))
    True
    """
    _check_tensor("is_signed", input)
    return input.is_signed()


def is_inference(input: Tensor) -> bool:
    """Whether the tensor was created in inference mode.

    Shape: input (*); result a bool.
    Raises:
        TypeError: when `input` is not a tensor.

    >>> import tdt
    >>> tdt.is_inference(tdt.zeros(1))
    False
    """
    _check_tensor("is_inference", input)
    return input.is_inference()


@method()
def is_conj(input: Tensor) -> bool:
    """Always False: tdt conjugates at once, not when the elements are read.

    Shape: input (*); result a bool.
    Raises:
        TypeError: when `input` is not a tensor.

    >>> import tdt
    >>> tdt.is_conj(tdt.tensor(1j).conj())
    False
    """
    _check_tensor("is_conj", input)
    return False


@method()
def is_neg(input: Tensor) -> bool:
    """Always False: tdt negates at once, not when the elements are read.

    Shape: input (*); result a bool.
    Raises:
        TypeError: when `input` is not a tensor.

    >>> import tdt
    >>> tdt.is_neg(-tdt.ones(1))
    False
    """
    _check_tensor("is_neg", input)
    return False


@method()
def is_distributed(input: Tensor) -> bool:
    """Always False: the elements of a tensor lie on one device.

    Shape: input (*); result a bool.
    Raises:
        TypeError: when `input` is not a tensor.

    >>> import tdt
    >>> tdt.is_distributed(tdt.ones(1))
    False
    """
    _check_tensor("is_distributed", input)
    return False


@method()
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element of the tensor is not 0.

    Shape: input with one element; result a bool.
    Raises:
        TypeError: when `input` is not a tensor.
        RuntimeError: when there is not exactly one element.

    >>> import tdt
    >>> tdt.is_nonzero(tdt.tensor([2]))
    True
    """
    _check_tensor("is_nonzero", input)
    return bool(input)


def numel(input: Tensor) -> int:
    """Number of elements.

    Shape: input (*); result an int.
    Raises:
        TypeError: when `input` is not a tensor.

    >>> import tdt
    >>> tdt.numel(tdt.zeros(2, 3))
    6
    """
    _check_tensor("numel", input)
    return input.numel()


@method()
def get_device(input: Tensor) -> int:
    """Index of the GPU that holds the elements; -1 on the CPU.

    Shape: input (*); result an int.
    Raises:
        TypeError: when `input` is not a tensor.

    >>> import tdt
    >>> tdt.get_device(tdt.zeros(1, device="cpu"))
    -1
    """
    _check_tensor("get_device", input)
    index = input.device.index
    return -1 if index is None else index


@method()
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape.

    Shape: input (*), other (*); result a bool.

    >>> import tdt
    >>> tdt.is_same_size(tdt.zeros(2), tdt.zeros(3))
    False
    """
    return input._a.shape == other._a.shape


def result_type(tensor1: Tensor | Number, tensor2: Tensor | Number) -> dtype:
    """Dtype of the result of arithmetic on two tensors or numbers.

    Shape: tensor1, tensor2 (*); a 0-d tensor and a number weigh less than a tensor with dimensions.
    Raises:
        TypeError: when an argument is neither a tensor nor a number.

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


@method()
def dim_order(self: Tensor, ambiguity_check: bool = False) -> tuple[int, ...]:
    """The dimensions in the order of memory, outermost first.

    Shape: self (*); result one int for each dimension.

    >>> import tdt
    >>> tdt.zeros(2, 3).t().dim_order()
    (1, 0)
    """
    return tuple(sorted(range(self.ndim), key=lambda d: (-self._a.strides[d], d)))


@method()
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether another tensor has the same memory, shape, strides and dtype.

    Shape: self (*), tensor (*); result a bool, False for tensors without elements.

    >>> import tdt
    >>> x = tdt.zeros(2)
    >>> x.is_set_to(x.view(2)), x.is_set_to(x.clone())
    (True, False)
    """
    a, b = self._a, tensor._a
    return (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype) and (
        _backend.byte_bounds(a) == _backend.byte_bounds(b) and a.size > 0
    )


@method()
def sparse_dim(self: Tensor) -> int:
    """Number of dimensions that coordinates index: 0 for a dense tensor.

    Shape: self (*), dense or sparse; result an int.

    >>> import tdt
    >>> tdt.zeros(2, 3).to_sparse().sparse_dim()
    2
    """
    return len(self._a.indices) if isinstance(self._a, SparseCOO) else 0


@method()
def dense_dim(self: Tensor) -> int:
    """Number of dimensions that are stored densely: all of them for a dense tensor.

    Shape: self (*), dense or sparse; result an int.

    >>> import tdt
    >>> tdt.zeros(2, 3).to_sparse(1).dense_dim()
    1
    """
    return self.ndim - sparse_dim(self)
