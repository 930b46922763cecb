# Made by scripts/make_stub.py; a test compares.
import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import EllipsisType
from typing import IO, Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from tdt._backend.device import device as _device
from tdt._core.dtype import dtype as _dtype
from tdt._core.layout import layout as _layout
from tdt._core.size import Size as Size
from tdt._core.storage import TypedStorage as TypedStorage
from tdt._core.storage import UntypedStorage as UntypedStorage
from tdt._core.memory_format import memory_format as _memory_format
from tdt._random import Generator as Generator

_Number: TypeAlias = builtins.int | builtins.float | builtins.complex | np.number[Any] | np.bool_
_Operand: TypeAlias = Tensor | _Number
_Ints: TypeAlias = builtins.int | Sequence[builtins.int]
_Dims: TypeAlias = builtins.int | Sequence[builtins.int] | None
_Device: TypeAlias = _device | str | builtins.int | None
_Normed: TypeAlias = tuple[Tensor, Tensor, Tensor]
_Lengths: TypeAlias = Tensor | Sequence[builtins.int]
_Index: TypeAlias = (
    builtins.int | builtins.slice | EllipsisType | Tensor | np.ndarray[Any, Any] | list[Any] | tuple[Any, ...] | None
)

class _aminmax_result(NamedTuple):
    min: Tensor
    max: Tensor
class _cummax_result(NamedTuple):
    values: Tensor
    indices: Tensor
class _cummin_result(NamedTuple):
    values: Tensor
    indices: Tensor
class _frexp_result(NamedTuple):
    mantissa: Tensor
    exponent: Tensor
class _geqrf_result(NamedTuple):
    a: Tensor
    tau: Tensor
class _histogram_result(NamedTuple):
    hist: Tensor
    bin_edges: Tensor
class _kthvalue_result(NamedTuple):
    values: Tensor
    indices: Tensor
class _max_result(NamedTuple):
    values: Tensor
    indices: Tensor
class _median_result(NamedTuple):
    values: Tensor
    indices: Tensor
class _min_result(NamedTuple):
    values: Tensor
    indices: Tensor
class _mode_result(NamedTuple):
    values: Tensor
    indices: Tensor
class _nanmedian_result(NamedTuple):
    values: Tensor
    indices: Tensor
class _qr_result(NamedTuple):
    Q: Tensor
    R: Tensor
class _slogdet_result(NamedTuple):
    sign: Tensor
    logabsdet: Tensor
class _sort_result(NamedTuple):
    values: Tensor
    indices: Tensor
class _svd_result(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor
class _topk_result(NamedTuple):
    values: Tensor
    indices: Tensor
class _triangular_solve_result(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor
class _lu_unpack_result(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor
_FLOAT32: Any
DETACHED: Any
LEAF: Any
class Storage:
    """The state that a tensor shares with all its views."""
    version = 0
    inference: bool | str = False
    whole: Any = None

    def bump_version(self) -> None:
        """Count an in-place write, so that a backward pass that saved the values before it is refused."""
class View:
    """How a tensor is a view of another tensor, its `base`."""
    base: Any
    source: Any
    step: Any
    version: Any
    creation_meta: Any
    base_array: Any
    __slots__ = ('base', 'source', 'step', 'version', 'creation_meta', 'base_array')

    def __init__(self, base: Tensor, source: Any, step: tuple, version: builtins.int, creation_meta: str, base_array: Any): ...
class Tensor:
    """An n-dimensional array with automatic differentiation. Created by `tdt.tensor`, `tdt.zeros`, … and by every op."""
    __slots__ = ('_a', '_st', '_edge', '_view', '_grad', '__dict__', '__weakref__')
    _a: Any
    _st: Storage
    _edge: tuple[Any, int] | None
    _view: View | None
    _grad: Tensor | None
    _hooks: dict | None = None
    _post_hooks: dict | None = None
    _node_hooks: Any = None
    _retains = False
    _begin_with: Callable[..., None]
    _fill: Callable[..., None]
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __new__(cls, *args: Any, dtype: Any=None, device: Any=None) -> Tensor:
        """Legacy constructor: `Tensor(2, 3)` is an uninitialised tensor of that shape, `Tensor([1, 2])` has those values."""

    @property
    def shape(self) -> Size:
        """Sizes of the dimensions."""

    @property
    def ndim(self) -> builtins.int:
        """Number of dimensions."""

    @property
    def dtype(self) -> _dtype:
        """Data type of the elements."""

    @property
    def device(self) -> _device:
        """Device that holds the elements."""

    @property
    def is_cuda(self) -> builtins.bool:
        """Whether the elements are on a GPU."""

    @property
    def _version(self) -> builtins.int: ...

    def is_inference(self) -> builtins.bool:
        """Whether the tensor was created in inference mode, or detached from one that was."""

    @property
    def itemsize(self) -> builtins.int:
        """Number of bytes per element."""

    @property
    def nbytes(self) -> builtins.int:
        """Number of bytes of all elements."""

    def dim(self) -> builtins.int:
        """Number of dimensions."""

    def numel(self) -> builtins.int:
        """Number of elements."""
    nelement = numel
    ndimension = dim

    def element_size(self) -> builtins.int:
        """Number of bytes per element."""

    def is_floating_point(self) -> builtins.bool:
        """Whether the elements are real floating-point numbers."""

    def is_complex(self) -> builtins.bool:
        """Whether the elements are complex numbers."""

    def is_signed(self) -> builtins.bool:
        """Whether the dtype can represent negative numbers."""
    @overload
    def size(self, dim: None = None) -> Size:
        """The shape, or the size of dimension `dim`."""
    @overload
    def size(self, dim: builtins.int) -> builtins.int:  # tdt/_core/tensor.py
        """The shape, or the size of dimension `dim`."""
    @overload
    def stride(self, dim: None = None) -> tuple[builtins.int, ...]:
        """Distance in elements between neighbours along each dimension, or along `dim`."""
    @overload
    def stride(self, dim: builtins.int) -> builtins.int:  # tdt/_core/tensor.py
        """Distance in elements between neighbours along each dimension, or along `dim`."""
    @property
    def H(self) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """The conjugate transpose of a matrix."""
    @property
    def T(self) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """All dimensions in reverse order."""
    def __abs__(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """The absolute value of each element; of complex numbers the modulus, in the real dtype."""
    def __add__(self, other: _Operand) -> Tensor: ...
    def __and__(self, other: _Operand) -> Tensor: ...
    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> np.ndarray[Any, Any]:  # tdt/_core/interchange.py
        """The elements as a NumPy array, for `numpy.asarray(tensor)`."""
    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: builtins.bool = False) -> Tensor:  # tdt/_core/sharing.py
        """Wrap the result of a NumPy function in a tensor. As in PyTorch, bools become uint8."""
    def __bool__(self) -> builtins.bool:  # tdt/_core/interchange.py
        """Whether the only element is not 0."""
    def __complex__(self) -> builtins.complex:  # tdt/_core/interchange.py
        """The only element as a complex number."""
    def __contains__(self, element: Any) -> builtins.bool: ...  # tdt/_ops/elementwise/compare.py
    def __deepcopy__(self, memo: dict) -> Tensor:  # tdt/_core/interchange.py
        """A copy whose memory is that of the copies of all tensors on the same memory, in one call of deepcopy."""
    def __delitem__(self, key: Any) -> None: ...  # tdt/_ops/index/getitem.py
    def __div__(self, other: _Operand) -> Tensor: ...
    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: builtins.bool | None = None) -> Any:  # tdt/_core/sharing.py
        """A DLPack capsule on the memory of the tensor."""
    def __dlpack_device__(self) -> tuple[builtins.int, builtins.int]:  # tdt/_core/sharing.py
        """DLPack's device type and index of the tensor."""
    def __eq__(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...  # type: ignore[override]
    def __float__(self) -> builtins.float:  # tdt/_core/interchange.py
        """The only element as a float."""
    def __floordiv__(self, other: _Operand) -> Tensor: ...
    def __ge__(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def __getitem__(self, key: _Index) -> Tensor:  # tdt/_ops/index/getitem.py
        """x[key], for any mix of integers, slices, None, Ellipsis, tensors, sequences and bools."""
    def __gt__(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def __iadd__(self, other: _Operand) -> Tensor: ...
    def __iand__(self, other: _Operand) -> Tensor: ...
    def __idiv__(self, other: _Operand) -> Tensor: ...
    def __ifloordiv__(self, other: _Operand) -> Tensor: ...
    def __ilshift__(self, other: _Operand) -> Tensor: ...
    def __imod__(self, other: _Operand) -> Tensor: ...
    def __imul__(self, other: _Operand) -> Tensor: ...
    def __index__(self) -> builtins.int:  # tdt/_core/interchange.py
        """The only element of an integer tensor, as an index."""
    def __int__(self) -> builtins.int:  # tdt/_core/interchange.py
        """The only element as an int."""
    def __invert__(self) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def __ior__(self, other: _Operand) -> Tensor: ...
    def __ipow__(self, other: _Operand) -> Tensor: ...
    def __irshift__(self, other: _Operand) -> Tensor: ...
    def __isub__(self, other: _Operand) -> Tensor: ...
    def __iter__(self) -> Iterator[Tensor]: ...  # tdt/_ops/shape/split.py
    def __itruediv__(self, other: _Operand) -> Tensor: ...
    def __ixor__(self, other: _Operand) -> Tensor: ...
    def __le__(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def __len__(self) -> builtins.int:  # tdt/_core/interchange.py
        """Size of the first dimension."""
    def __long__(self) -> builtins.int:  # tdt/_core/interchange.py
        """The only element as an int."""
    def __lshift__(self, other: _Operand) -> Tensor: ...
    def __lt__(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def __matmul__(self, other: Tensor) -> Tensor:  # tdt/_ops/linalg/products.py
        """Matrix product over the last two dimensions, with the other dimensions broadcast."""
    def __mod__(self, other: _Operand) -> Tensor: ...
    def __mul__(self, other: _Operand) -> Tensor: ...
    def __ne__(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...  # type: ignore[override]
    def __neg__(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """The negative of each element, -x."""
    def __nonzero__(self) -> builtins.bool:  # tdt/_core/interchange.py
        """Whether the only element is not 0."""
    def __or__(self, other: _Operand) -> Tensor: ...
    def __pos__(self) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """`input` itself, as `+input` returns it."""
    def __pow__(self, other: _Operand) -> Tensor: ...
    def __radd__(self, other: _Operand) -> Tensor: ...
    def __rand__(self, other: _Operand) -> Tensor: ...
    def __rdiv__(self, other: _Operand) -> Tensor: ...
    def __reversed__(self) -> Tensor: ...  # tdt/_ops/shape/reorder.py
    def __rfloordiv__(self, other: _Operand) -> Tensor: ...
    def __rlshift__(self, other: _Operand) -> Tensor: ...
    def __rmatmul__(self, other: Tensor) -> Tensor: ...  # tdt/_ops/linalg/products.py
    def __rmod__(self, other: _Operand) -> Tensor: ...
    def __rmul__(self, other: _Operand) -> Tensor: ...
    def __ror__(self, other: _Operand) -> Tensor: ...
    def __rpow__(self, other: _Operand) -> Tensor: ...
    def __rrshift__(self, other: _Operand) -> Tensor: ...
    def __rshift__(self, other: _Operand) -> Tensor: ...
    def __rsub__(self, other: _Operand) -> Tensor: ...
    def __rtruediv__(self, other: _Operand) -> Tensor: ...
    def __rxor__(self, other: _Operand) -> Tensor: ...
    def __setitem__(self, key: _Index, value: _Operand | np.ndarray[Any, Any]) -> None:  # tdt/_ops/index/getitem.py
        """x[key] = value, with value broadcast and converted."""
    def __sub__(self, other: _Operand) -> Tensor: ...
    def __truediv__(self, other: _Operand) -> Tensor: ...
    def __xor__(self, other: _Operand) -> Tensor: ...
    @property
    def _base(self) -> Tensor | None:  # tdt/autograd/_variable.py
        """The tensor this one is a view of, or None."""
    @property
    def _cdata(self) -> Any:
        """Return the identity of an object."""
    def _coalesced_(self, coalesced: builtins.bool) -> Tensor:  # tdt/sparse/_methods.py
        """Set the flag that the coordinates are sorted and unique, without a check."""
    def _indices(self) -> Tensor:  # tdt/sparse/_methods.py
        """Coordinates, coalesced or not."""
    def _is_view(self) -> builtins.bool:  # tdt/autograd/_variable.py
        """Whether the tensor is a view of another tensor that autograd tracks."""
    def _make_subclass(self, data: Tensor, require_grad: builtins.bool = False) -> Any:  # tdt/_core/interchange.py
        """A tensor of a class that inherits from Tensor on the memory of `data`, outside its graph."""
    def _nnz(self) -> builtins.int:  # tdt/sparse/_methods.py
        """How many entries are stored."""
    def _of_class(self, cls: type[Tensor]) -> Tensor:  # tdt/_core/interchange.py
        """A tensor of this class that shares all with another."""
    def _values(self) -> Tensor:  # tdt/sparse/_methods.py
        """Values, coalesced or not, without their gradient."""
    def abs(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """The absolute value of each element; of complex numbers the modulus, in the real dtype."""
    def abs_(self) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `abs`."""
    def absolute(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """The absolute value of each element; of complex numbers the modulus, in the real dtype."""
    def absolute_(self) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `abs`."""
    def acos(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The inverse cosine of each element, in radians in [0, π]; nan outside [-1, 1]."""
    def acos_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `acos`."""
    def acosh(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The inverse hyperbolic cosine of each element; nan below 1."""
    def acosh_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `acosh`."""
    def add(self, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The sum input + alpha · other."""
    def add_(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """In-place version of `add`."""
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/add_products.py
        """Sum of a tensor and the matrix products of a batch: beta · input + alpha · (batch1 @ batch2).sum(0)."""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:  # tdt/_ops/linalg/add_products.py
        """In-place version of `addbmm`."""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
        """The sum input + value · tensor1 / tensor2."""
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:  # tdt/_ops/elementwise/select.py
        """In-place version of `addcdiv`."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
        """The sum input + value · tensor1 · tensor2."""
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:  # tdt/_ops/elementwise/select.py
        """In-place version of `addcmul`."""
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/add_products.py
        """Sum of a tensor and a matrix product: beta · input + alpha · (mat1 @ mat2)."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:  # tdt/_ops/linalg/add_products.py
        """In-place version of `addmm`."""
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/add_products.py
        """Sum of a tensor and a matrix-vector product: beta · input + alpha · (mat @ vec)."""
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:  # tdt/_ops/linalg/add_products.py
        """In-place version of `addmv`."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/add_products.py
        """Sum of a tensor and an outer product: beta · input + alpha · outer(vec1, vec2)."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:  # tdt/_ops/linalg/add_products.py
        """In-place version of `addr`."""
    def adjoint(self) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """The conjugate transpose of a matrix or of each matrix in a batch."""
    def all(self, dim: _Dims = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/truth.py
        """Whether all elements over `dim` are non-zero: bool, but uint8 for uint8 input."""
    def allclose(self, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:  # tdt/_ops/elementwise/compare.py
        """Whether `isclose` is True for every pair of elements."""
    def amax(self, dim: _Dims = (), keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/extremes.py
        """Largest element over `dim`; the gradient is divided equally among ties."""
    def amin(self, dim: _Dims = (), keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/extremes.py
        """Smallest element over `dim`; the gradient is divided equally among ties."""
    def aminmax(self, *, dim: builtins.int | None = None, keepdim: builtins.bool = False, out: tuple[Tensor, Tensor] | None = None) -> _aminmax_result:  # tdt/_ops/reduce/extremes.py
        """Smallest and largest element along `dim`, or of the whole tensor."""
    def angle(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """The argument of each complex number, in radians in (-π, π]; of real numbers 0, or π below 0."""
    def any(self, dim: _Dims = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/truth.py
        """Whether at least one element over `dim` is non-zero: bool, but uint8 for uint8 input."""
    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:  # tdt/_ops/shape/resize.py
        """Replace each element by the result of a Python function of it; slow."""
    def arccos(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The inverse cosine of each element, in radians in [0, π]; nan outside [-1, 1]."""
    def arccos_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `acos`."""
    def arccosh(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The inverse hyperbolic cosine of each element; nan below 1."""
    def arccosh_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `acosh`."""
    def arcsin(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The inverse sine of each element, in radians in [-π/2, π/2]; nan outside [-1, 1]."""
    def arcsin_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `asin`."""
    def arcsinh(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The inverse hyperbolic sine of each element."""
    def arcsinh_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `asinh`."""
    def arctan(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The inverse tangent of each element, in radians in (-π/2, π/2)."""
    def arctan2(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """The angle of the point (x, y) = (other, input), in radians in (-π, π]."""
    def arctan2_(self, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """In-place version of `atan2`."""
    def arctan_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `atan`."""
    def arctanh(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The inverse hyperbolic tangent of each element; nan outside [-1, 1]."""
    def arctanh_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `atanh`."""
    def argmax(self, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/extremes.py
        """Index of the largest element, of equal ones the first."""
    def argmin(self, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/extremes.py
        """Index of the smallest element, of equal ones the first."""
    def argsort(self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/sort.py
        """Indices that put the elements in order along `dim`; nan counts as larger than all numbers."""
    def argwhere(self) -> Tensor:  # tdt/_ops/index/nonzero.py
        """Indices of the elements that are not 0, a row each."""
    def as_strided(self, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor:  # tdt/_ops/shape/split.py
        """A view of the memory of `input` with any sizes and strides."""
    def as_strided_(self, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor:  # tdt/_ops/shape/split.py
        """In-place version of `as_strided`."""
    def as_strided_scatter(self, src: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor:  # tdt/_ops/shape/view_scatter.py
        """A copy of `input` with `src` in the view that `as_strided` returns."""
    def as_subclass(self, cls: type[Tensor]) -> Any:  # tdt/_core/interchange.py
        """The same tensor as an instance of a subclass of Tensor; memory, graph and gradient are shared."""
    def asin(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The inverse sine of each element, in radians in [-π/2, π/2]; nan outside [-1, 1]."""
    def asin_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `asin`."""
    def asinh(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The inverse hyperbolic sine of each element."""
    def asinh_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `asinh`."""
    def atan(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The inverse tangent of each element, in radians in (-π/2, π/2)."""
    def atan2(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """The angle of the point (x, y) = (other, input), in radians in (-π, π]."""
    def atan2_(self, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """In-place version of `atan2`."""
    def atan_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `atan`."""
    def atanh(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The inverse hyperbolic tangent of each element; nan outside [-1, 1]."""
    def atanh_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `atanh`."""
    def backward(self, gradient: Tensor | None = None, retain_graph: builtins.bool | None = None, create_graph: builtins.bool = False, inputs: Sequence[Tensor] | Tensor | None = None) -> None:  # tdt/autograd/_variable.py
        """Add the gradients of this tensor, times `gradient`, to the `.grad` of the leaves."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/add_products.py
        """Sum of a tensor and batched matrix products: beta · input + alpha · (batch1 @ batch2)."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:  # tdt/_ops/linalg/add_products.py
        """In-place version of `baddbmm`."""
    def bernoulli(self, p: builtins.float | None = None, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/random/creation.py
        """Ones and zeros: 1 with the probability in `input`, or `p` if it is given. The gradient is zero."""
    def bernoulli_(self, p: builtins.float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:  # tdt/_ops/random/fill.py
        """Fill with ones and zeros: 1 with probability `p`."""
    def bfloat16(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/conversions.py
        """The tensor converted to bfloat16; the tensor itself if it has that dtype."""
    def bincount(self, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:  # tdt/_ops/reduce/counting.py
        """Number of occurrences of each integer 0, 1, … in a vector, or the sum of the weights of its occurrences."""
    def bitwise_and(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """The bitwise AND of two integers; the logical AND of two bools."""
    def bitwise_and_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `bitwise_and`."""
    def bitwise_left_shift(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Integers shifted left by `other` bits: input · 2^other, without the bits that leave the type."""
    def bitwise_left_shift_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `bitwise_left_shift`."""
    def bitwise_not(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """The bitwise NOT of each integer; the logical NOT of each bool."""
    def bitwise_not_(self) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `bitwise_not`."""
    def bitwise_or(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """The bitwise OR of two integers; the logical OR of two bools."""
    def bitwise_or_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `bitwise_or`."""
    def bitwise_right_shift(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Integers shifted right by `other` bits: input / 2^other, rounded down."""
    def bitwise_right_shift_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `bitwise_right_shift`."""
    def bitwise_xor(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """The bitwise exclusive OR of two integers; the logical one of two bools."""
    def bitwise_xor_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `bitwise_xor`."""
    def bmm(self, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
        """Products of the matrices of two batches."""
    def bool(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/conversions.py
        """The tensor converted to bool; the tensor itself if it has that dtype."""
    def broadcast_to(self, size: Sequence[builtins.int]) -> Tensor:  # tdt/_ops/shape/views.py
        """A view of `input` broadcast to a shape."""
    def byte(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/conversions.py
        """The tensor converted to uint8; the tensor itself if it has that dtype."""
    def cauchy_(self, median: builtins.float = 0.0, sigma: builtins.float = 1.0, *, generator: Generator | None = None) -> Tensor:  # tdt/_ops/random/fill.py
        """Fill with random numbers from the Cauchy distribution."""
    def cdouble(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/conversions.py
        """The tensor converted to complex128; the tensor itself if it has that dtype."""
    def ceil(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """The smallest integer that is at least x, for each element."""
    def ceil_(self) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `ceil`."""
    def cfloat(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/conversions.py
        """The tensor converted to complex64; the tensor itself if it has that dtype."""
    def char(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/conversions.py
        """The tensor converted to int8; the tensor itself if it has that dtype."""
    def cholesky(self, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/root_namespace.py
        """Cholesky decomposition input = L Lᴴ: the lower triangular L; `linalg.cholesky` is the newer form."""
    def cholesky_inverse(self, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/triangular.py
        """Inverse of A from its Cholesky factor: A = L Lᴴ with L = input."""
    def cholesky_solve(self, input2: Tensor, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/triangular.py
        """Solution X of A X = input from the Cholesky factor of A: A = L Lᴴ with L = input2."""
    def chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
        """At most `chunks` views of equal size along `dim`, the last possibly smaller."""
    def clamp(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
        """Each element limited to the interval [min, max]; where min > max the result is max."""
    def clamp_(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
        """In-place version of `clamp`."""
    def clamp_max(self, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
        """The smaller of each element and `max`."""
    def clamp_max_(self, max: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/select.py
        """In-place version of `clamp_max`."""
    def clamp_min(self, min: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
        """The larger of each element and `min`."""
    def clamp_min_(self, min: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/select.py
        """In-place version of `clamp_min`."""
    def clip(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
        """Each element limited to the interval [min, max]; where min > max the result is max."""
    def clip_(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
        """In-place version of `clamp`."""
    def clone(self, *, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_ops/shape/memory.py
        """A copy in new memory, through which gradients flow."""
    def coalesce(self) -> Tensor:  # tdt/sparse/_methods.py
        """The same sparse tensor with sorted, unique coordinates; values at equal coordinates are added."""
    def col_indices(self) -> Tensor:  # tdt/sparse/_methods.py
        """Of a matrix with compressed rows: the column of each entry."""
    def conj(self) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
        """The complex conjugate of each element; a real tensor is returned itself."""
    def conj_physical(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
        """The complex conjugate of each element, computed at once, which `conj` does here, too."""
    def conj_physical_(self) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
        """In-place version of `conj_physical`."""
    def const_data_ptr(self) -> builtins.int:  # tdt/_core/interchange.py
        """Address of the first element in memory."""
    def contiguous(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/memory.py
        """The tensor itself if its memory has the given format, else a copy that has it."""
    def copy_(self, other: Any, non_blocking: builtins.bool = False) -> Tensor:  # tdt/_ops/shape/memory.py
        """Overwrite the elements with those of `other`, broadcast and converted to the dtype and device of this tensor."""
    def copysign(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """The absolute value of `input` with the sign of `other`."""
    def copysign_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """In-place version of `copysign`."""
    def corrcoef(self) -> Tensor:  # tdt/_ops/reduce/statistics.py
        """Matrix of the Pearson correlation coefficients of variables (rows) over observations (columns)."""
    def cos(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The cosine of each element, an angle in radians."""
    def cos_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `cos`."""
    def cosh(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The hyperbolic cosine of each element."""
    def cosh_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `cosh`."""
    def count_nonzero(self, dim: _Dims = None) -> Tensor:  # tdt/_ops/reduce/truth.py
        """Number of non-zero elements over `dim`, an int64."""
    def cov(self, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/statistics.py
        """Covariance matrix of variables (rows) over observations (columns)."""
    def cpu(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/memory.py
        """The tensor in main memory; the tensor itself if it is there."""
    def cross(self, other: Tensor, dim: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/cross.py
        """Cross product of vectors of 3 elements along `dim`."""
    def crow_indices(self) -> Tensor:  # tdt/sparse/_methods.py
        """Of a matrix with compressed rows: the number of entries before each row, and last the number of all entries."""
    def cuda(self, device: _Device | None = None, non_blocking: builtins.bool = False, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/memory.py
        """The tensor on a GPU, by default the current one; the tensor itself if it is there."""
    def cummax(self, dim: builtins.int, *, out: tuple[Tensor, Tensor] | None = None) -> _cummax_result:  # tdt/_ops/reduce/cumulative.py
        """Largest element up to each position along `dim`, and its index, of equal elements the last; nan persists."""
    def cummin(self, dim: builtins.int, *, out: tuple[Tensor, Tensor] | None = None) -> _cummin_result:  # tdt/_ops/reduce/cumulative.py
        """Smallest element up to each position along `dim`, and its index, of equal elements the last; nan persists."""
    def cumprod(self, dim: builtins.int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/cumulative.py
        """Cumulative products along `dim`; of integers and bools as int64."""
    def cumprod_(self, dim: builtins.int, *, dtype: _dtype | None = None) -> Tensor:  # tdt/_ops/reduce/cumulative.py
        """In-place version of `cumprod`."""
    def cumsum(self, dim: builtins.int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/cumulative.py
        """Cumulative sums along `dim`; of integers and bools as int64."""
    def cumsum_(self, dim: builtins.int, *, dtype: _dtype | None = None) -> Tensor:  # tdt/_ops/reduce/cumulative.py
        """In-place version of `cumsum`."""
    @property
    def data(self) -> Tensor:  # tdt/autograd/_variable.py
        """A tensor on the same memory outside the graph, whose in-place changes autograd does not detect."""
    @data.setter
    def data(self, value: Tensor) -> None: ...
    def data_ptr(self) -> builtins.int:  # tdt/_core/interchange.py
        """Address of the first element in memory."""
    def deg2rad(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """Angles in degrees converted to radians."""
    def deg2rad_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `deg2rad`."""
    def dense_dim(self) -> builtins.int:  # tdt/_core/layout.py
        """Number of dimensions that are stored densely: all of them for a dense tensor."""
    def det(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/root_namespace.py
        """Determinant of each square matrix."""
    def detach(self) -> Tensor:  # tdt/autograd/_variable.py
        """A tensor on the same memory that takes no part in the graph."""
    def detach_(self) -> Tensor:  # tdt/autograd/_variable.py
        """Take this tensor out of the graph, in place."""
    def diag(self, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/diagonals.py
        """The matrix with a vector on its diagonal, or a copy of the diagonal of a matrix."""
    def diag_embed(self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:  # tdt/_ops/shape/diagonals.py
        """Matrices with the last dimension of `input` on their diagonal, zeros elsewhere."""
    def diagflat(self, offset: builtins.int = 0) -> Tensor:  # tdt/_ops/shape/diagonals.py
        """The matrix with all elements of `input` on its diagonal."""
    def diagonal(self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:  # tdt/_ops/shape/diagonals.py
        """The view of a diagonal of each plane (`dim1`, `dim2`), as the last dimension."""
    def diagonal_scatter(self, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:  # tdt/_ops/shape/view_scatter.py
        """A copy of `input` with `src` on the diagonal that `diagonal` returns."""
    def diff(self, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/cumulative.py
        """Differences of neighbouring elements along `dim`, taken n times; of bools, whether neighbours differ."""
    def digamma(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The derivative of lgamma, ψ(x) = Γ'(x) / Γ(x), of each element."""
    def digamma_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `digamma`."""
    def dim_order(self, ambiguity_check: builtins.bool = False) -> tuple[builtins.int, ...]:  # tdt/_core/layout.py
        """The dimensions in the order of memory, outermost first."""
    def dist(self, other: Tensor, p: builtins.float = 2) -> Tensor:  # tdt/_ops/linalg/norms.py
        """The p-norm of input - other."""
    def div(self, other: Tensor | _Number, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The quotient input / other, element by element."""
    def div_(self, other: Tensor | _Number, *, rounding_mode: str | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """In-place version of `div`."""
    def divide(self, other: Tensor | _Number, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The quotient input / other, element by element."""
    def divide_(self, other: Tensor | _Number, *, rounding_mode: str | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """In-place version of `div`."""
    def dot(self, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
        """Dot product of two vectors, without conjugation."""
    def double(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/conversions.py
        """The tensor converted to float64; the tensor itself if it has that dtype."""
    def dsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
        """Views along dimension 2: a number of them of equal size, or split before the given indices."""
    def eq(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether input == other, element by element; a bool tensor."""
    def eq_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `eq`."""
    def equal(self, other: Tensor) -> builtins.bool:  # tdt/_ops/elementwise/compare.py
        """Whether two tensors have the same shape and equal elements."""
    def erf(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The error function of each element, 2 / √π · ∫₀^x exp(-t²) dt."""
    def erf_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `erf`."""
    def erfc(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The complementary error function of each element, 1 - erf(x), accurate for large x."""
    def erfc_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `erfc`."""
    def erfinv(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The inverse error function of each element; nan outside [-1, 1]."""
    def erfinv_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `erfinv`."""
    def exp(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The exponential function of each element, e^x."""
    def exp2(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """2 to the power of each element, 2^x."""
    def exp2_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `exp2`."""
    def exp_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `exp`."""
    def expand(self, *sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = None, implicit: builtins.bool = False) -> Tensor:  # tdt/_ops/shape/views.py
        """A view with dimensions of size 1 repeated to `sizes`, without copying."""
    def expand_as(self, other: Tensor) -> Tensor:  # tdt/_ops/shape/views.py
        """A view expanded to the shape of another tensor."""
    def expm1(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """exp(x) - 1 of each element, accurate near 0."""
    def expm1_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `expm1`."""
    def exponential_(self, lambd: builtins.float = 1.0, *, generator: Generator | None = None) -> Tensor:  # tdt/_ops/random/fill.py
        """Fill with random numbers from the exponential distribution of rate `lambd` (mean 1 / lambd)."""
    def fill_(self, value: Tensor | _Number) -> Tensor:  # tdt/_ops/shape/memory.py
        """Overwrite every element with `value`, a number or a 0-d tensor."""
    def fill_diagonal_(self, fill_value: _Number, wrap: builtins.bool = False) -> Tensor:  # tdt/_ops/index/getitem.py
        """Write a number to the elements whose indices are all equal."""
    def fix(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """Each element rounded towards 0."""
    def fix_(self) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `trunc`."""
    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:  # tdt/_ops/shape/views.py
        """The dimensions `start_dim` to `end_dim` as one: a view where possible, else a copy."""
    def flip(self, *places: builtins.int | Sequence[builtins.int], dims: _Dims = None) -> Tensor:  # tdt/_ops/shape/reorder.py
        """A copy with the entries along each of `dims` in reverse order: `x.flip(0, 1)` or `x.flip((0, 1))`."""
    def fliplr(self) -> Tensor:  # tdt/_ops/shape/reorder.py
        """A copy with the entries along dimension 1 in reverse order."""
    def flipud(self) -> Tensor:  # tdt/_ops/shape/reorder.py
        """A copy with the entries along dimension 0 in reverse order."""
    def float(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/conversions.py
        """The tensor converted to float32; the tensor itself if it has that dtype."""
    def float_power(self, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/powers.py
        """Each element of `input` to the power of `exponent`, computed in float64, or complex128 for complex numbers."""
    def float_power_(self, exponent: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/powers.py
        """In-place version of `float_power`."""
    def floor(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """The largest integer that is at most x, for each element."""
    def floor_(self) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `floor`."""
    def floor_divide(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The quotient input / other rounded down, element by element. It has no gradient; `div(rounding_mode="floor")` has."""
    def floor_divide_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """In-place version of `floor_divide`."""
    def fmax(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The larger element of each pair; where one is nan, the other."""
    def fmin(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The smaller element of each pair; where one is nan, the other."""
    def fmod(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The remainder of input / other, with the sign of `input`, as C's `fmod`."""
    def fmod_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """In-place version of `fmod`."""
    def frac(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """The fractional part x - trunc(x) of each element."""
    def frac_(self) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `frac`."""
    def frexp(self, *, out: tuple[Tensor, Tensor] | None = None) -> _frexp_result:  # tdt/_ops/elementwise/rounding.py
        """Mantissa and exponent of each element: input = mantissa · 2^exponent where |mantissa| is 0 or in [0.5, 1)."""
    def gather(self, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/scatter.py
        """Elements of `input` along `dim`: result[i][j] = input[index[i][j]][j] for dim 0, and so on."""
    def gcd(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The greatest common divisor of each pair of integers."""
    def gcd_(self, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """In-place version of `gcd`."""
    def ge(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether input >= other, element by element; a bool tensor."""
    def ge_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `ge`."""
    def geometric_(self, p: builtins.float, *, generator: Generator | None = None) -> Tensor:  # tdt/_ops/random/fill.py
        """Fill with random numbers of trials (1, 2, …) until the first success, of probability `p`."""
    def geqrf(self, *, out: tuple[Tensor, Tensor] | None = None) -> _geqrf_result:  # tdt/_ops/linalg/householder.py
        """QR decomposition in packed form: R in the upper triangle, the Householder reflections whose product is Q below it."""
    def ger(self, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
        """Outer product of two vectors: input[i] · vec2[j]."""
    def get_device(self) -> builtins.int:  # tdt/_core/layout.py
        """Index of the GPU that holds the elements; -1 on the CPU."""
    @property
    def grad(self) -> Tensor | None:  # tdt/autograd/_variable.py
        """The accumulated gradient, or None."""
    @grad.setter
    def grad(self, value: Tensor | None) -> None: ...
    @property
    def grad_dtype(self) -> _dtype | None:  # tdt/_core/properties.py
        """Dtype of the gradients that a leaf accumulates; None for a tensor that is not a leaf."""
    @property
    def grad_fn(self) -> Any:  # tdt/autograd/_variable.py
        """The node that computed this tensor, or None for a leaf."""
    def greater(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether input > other, element by element; a bool tensor."""
    def greater_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `gt`."""
    def greater_equal(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether input >= other, element by element; a bool tensor."""
    def greater_equal_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `ge`."""
    def gt(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether input > other, element by element; a bool tensor."""
    def gt_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `gt`."""
    def half(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/conversions.py
        """The tensor converted to float16; the tensor itself if it has that dtype."""
    def hardshrink(self, lambd: builtins.float = 0.5, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/piecewise.py
        """Hard thresholding: 0 where |x| ≤ lambd, else x."""
    def hash_tensor(self, dim: _Dims = (), *, keepdim: builtins.bool = False, mode: builtins.int = 0, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/reductions.py
        """Hash over `dim`: the exclusive or of the bits of the elements, as uint64."""
    def heaviside(self, values: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """The Heaviside step function: 0 where input < 0, 1 where input > 0, `values` where it is 0."""
    def heaviside_(self, values: Tensor) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """In-place version of `heaviside`."""
    def histc(self, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/counting.py
        """Histogram of all elements with `bins` bins of equal width between min and max; elements outside are not counted."""
    def histogram(self, bins: builtins.int | Tensor = 100, *, range: Sequence[builtins.float] | None = None, weight: Tensor | None = None, density: builtins.bool = False, out: tuple[Tensor, Tensor] | None = None) -> _histogram_result:  # tdt/_ops/reduce/counting.py
        """Histogram of all elements; a bin contains its left edge, the last one also its right edge."""
    def hsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
        """Views along dimension 1; of a vector along dimension 0: a number of them of equal size, or split before the given indices."""
    def hypot(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """The hypotenuse sqrt(input² + other²), without overflow."""
    def hypot_(self, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """In-place version of `hypot`."""
    def i0(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/special.py
        """The modified Bessel function of the first kind of order 0."""
    def i0_(self) -> Tensor:  # tdt/_ops/elementwise/special.py
        """In-place version of `i0`."""
    def igamma(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/special.py
        """The regularized lower incomplete gamma function: ∫₀^other t^(input - 1) e^(-t) dt / Γ(input)."""
    def igamma_(self, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/special.py
        """In-place version of `igamma`."""
    def igammac(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/special.py
        """The regularized upper incomplete gamma function: ∫_other^∞ t^(input - 1) e^(-t) dt / Γ(input)."""
    def igammac_(self, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/special.py
        """In-place version of `igammac`."""
    @property
    def imag(self) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
        """The imaginary part of each element: a view of a complex tensor."""
    @imag.setter
    def imag(self, value: Tensor | _Number) -> None: ...
    def index_add(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/pick.py
        """A copy of `input` with alpha · source added to the entries `index` along `dim`; repeated indices add up."""
    def index_add_(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: _Number = 1) -> Tensor:  # tdt/_ops/index/pick.py
        """In-place version of `index_add`."""
    def index_copy(self, dim: builtins.int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/pick.py
        """A copy of `input` with the entries `index` along `dim` replaced by those of `source`."""
    def index_copy_(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:  # tdt/_ops/index/pick.py
        """In-place version of `index_copy`."""
    def index_fill(self, dim: builtins.int, index: Tensor, value: Tensor | _Number) -> Tensor:  # tdt/_ops/index/pick.py
        """A copy of `input` with the entries `index` along `dim` set to `value`."""
    def index_fill_(self, dim: builtins.int, index: Tensor, value: Tensor | _Number) -> Tensor:  # tdt/_ops/index/pick.py
        """In-place version of `index_fill`."""
    def index_put(self, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False) -> Tensor:  # tdt/_ops/index/by_tensors.py
        """A copy of `input` with input[indices] set to `values`, or increased by them."""
    def index_put_(self, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False) -> Tensor:  # tdt/_ops/index/by_tensors.py
        """In-place version of `index_put`."""
    def index_reduce(self, dim: builtins.int, index: Tensor, source: Tensor, reduce: Literal['prod', 'mean', 'amax', 'amin'], *, include_self: builtins.bool = True, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/pick.py
        """A copy of `input` in which the entries `index` along `dim` are reduced with those of `source`."""
    def index_reduce_(self, dim: builtins.int, index: Tensor, source: Tensor, reduce: Literal['prod', 'mean', 'amax', 'amin'], *, include_self: builtins.bool = True) -> Tensor:  # tdt/_ops/index/pick.py
        """In-place version of `index_reduce`."""
    def index_select(self, dim: builtins.int, index: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/pick.py
        """A copy of the entries `index` along `dim`."""
    def indices(self) -> Tensor:  # tdt/sparse/_methods.py
        """Coordinates of the entries of a coalesced sparse tensor."""
    def inner(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
        """Sums of products over the last dimension of both tensors; the product if one of them has no dimensions."""
    def int(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/conversions.py
        """The tensor converted to int32; the tensor itself if it has that dtype."""
    def inverse(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/solve.py
        """Inverse of each square matrix."""
    def is_coalesced(self) -> builtins.bool:  # tdt/sparse/_methods.py
        """Whether the coordinates are known to be sorted and unique."""
    def is_conj(self) -> builtins.bool:  # tdt/_core/layout.py
        """Always False: tdt conjugates at once, not when the elements are read."""
    def is_contiguous(self, memory_format: _memory_format = ...) -> builtins.bool:  # tdt/_ops/shape/memory.py
        """Whether the elements lie in memory in the order of the format, without gaps."""
    @property
    def is_cpu(self) -> builtins.bool:  # tdt/_core/properties.py
        """Whether the elements lie in main memory."""
    def is_distributed(self) -> builtins.bool:  # tdt/_core/layout.py
        """Always False: the elements of a tensor lie on one device."""
    @property
    def is_ipu(self) -> builtins.bool:  # tdt/_core/properties.py
        """Always False: tdt has no IPU device."""
    @property
    def is_leaf(self) -> builtins.bool:  # tdt/autograd/_variable.py
        """Whether the tensor was not computed by a recorded operation."""
    @property
    def is_maia(self) -> builtins.bool:  # tdt/_core/properties.py
        """Always False: tdt has no MAIA device."""
    @property
    def is_meta(self) -> builtins.bool:  # tdt/_core/properties.py
        """Whether the tensor has a shape and a dtype but no elements (device "meta")."""
    @property
    def is_mkldnn(self) -> builtins.bool:  # tdt/_core/properties.py
        """Always False: tdt has no MKL-DNN layout."""
    @property
    def is_mps(self) -> builtins.bool:  # tdt/_core/properties.py
        """Always False: tdt has no MPS device."""
    @property
    def is_mtia(self) -> builtins.bool:  # tdt/_core/properties.py
        """Always False: tdt has no MTIA device."""
    def is_neg(self) -> builtins.bool:  # tdt/_core/layout.py
        """Always False: tdt negates at once, not when the elements are read."""
    @property
    def is_nested(self) -> builtins.bool:  # tdt/_core/properties.py
        """Always False: tdt has no nested tensors."""
    def is_nonzero(self) -> builtins.bool:  # tdt/_core/layout.py
        """Whether the only element of the tensor is not 0."""
    def is_pinned(self, device: _Device | None = None) -> builtins.bool:  # tdt/_ops/shape/resize.py
        """Whether the memory is page-locked: always False, as copies to a GPU go through pinned buffers of tdt's own."""
    @property
    def is_quantized(self) -> builtins.bool:  # tdt/_core/properties.py
        """Always False: tdt has no quantized tensors."""
    def is_same_size(self, other: Tensor) -> builtins.bool:  # tdt/_core/layout.py
        """Whether two tensors have the same shape."""
    def is_set_to(self, tensor: Tensor) -> builtins.bool:  # tdt/_core/layout.py
        """Whether another tensor has the same memory, shape, strides and dtype."""
    def is_shared(self) -> builtins.bool:  # tdt/_ops/shape/resize.py
        """Whether other processes that get the tensor see what is written to it; always True on a GPU."""
    @property
    def is_sparse(self) -> builtins.bool:  # tdt/_core/properties.py
        """Whether the layout is `sparse_coo`."""
    @property
    def is_sparse_csr(self) -> builtins.bool:  # tdt/_core/properties.py
        """Whether the layout is `sparse_csr`."""
    @property
    def is_vulkan(self) -> builtins.bool:  # tdt/_core/properties.py
        """Always False: tdt has no Vulkan device."""
    @property
    def is_xla(self) -> builtins.bool:  # tdt/_core/properties.py
        """Always False: tdt has no XLA device."""
    @property
    def is_xpu(self) -> builtins.bool:  # tdt/_core/properties.py
        """Always False: tdt has no XPU device."""
    def isclose(self, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether |input - other| ≤ atol + rtol · |other|, element by element; a bool tensor."""
    def isfinite(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether each element is neither infinite nor nan; a bool tensor."""
    def isinf(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether each element is infinite; a bool tensor."""
    def isnan(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether each element is nan; a bool tensor."""
    def isneginf(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether each element is -inf; a bool tensor."""
    def isposinf(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether each element is +inf; a bool tensor."""
    def isreal(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether each element has imaginary part 0; a bool tensor."""
    def istft(self, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Tensor | None = None, center: builtins.bool = True, normalized: builtins.bool = False, onesided: builtins.bool | None = None, length: builtins.int | None = None, return_complex: builtins.bool = False) -> Tensor:  # tdt/_ops/spectral/stft.py
        """Signal whose `stft` with the same arguments is closest to `input` in the least-squares sense."""
    def item(self) -> builtins.bool | builtins.int | builtins.float:  # tdt/_core/interchange.py
        """The only element, as a Python number."""
    def kron(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
        """Kronecker product: the blocks input[i, …] · other."""
    def kthvalue(self, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _kthvalue_result:  # tdt/_ops/reduce/order.py
        """The k-th smallest element along `dim`, and its index."""
    @property
    def layout(self) -> _layout:  # tdt/_core/properties.py
        """How the elements are stored: `strided`, `sparse_coo` or `sparse_csr`."""
    def lcm(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The least common multiple of each pair of integers; 0 where either is 0."""
    def lcm_(self, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """In-place version of `lcm`."""
    def ldexp(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """The product input · 2^other, where `other` may be a tensor of integers or of floating-point numbers."""
    def ldexp_(self, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """In-place version of `ldexp`."""
    def le(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether input <= other, element by element; a bool tensor."""
    def le_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `le`."""
    def lerp(self, end: Tensor, weight: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
        """Linear interpolation from `input` to `end`: input + weight · (end - input)."""
    def lerp_(self, end: Tensor, weight: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/select.py
        """In-place version of `lerp`."""
    def less(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether input < other, element by element; a bool tensor."""
    def less_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `lt`."""
    def less_equal(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether input <= other, element by element; a bool tensor."""
    def less_equal_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `le`."""
    def lgamma(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The natural logarithm of |Γ(x)| of each element, where Γ is the gamma function."""
    def lgamma_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `lgamma`."""
    def log(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The natural logarithm of each element; nan below 0, -inf at 0."""
    def log10(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The logarithm of each element to base 10; nan below 0, -inf at 0."""
    def log10_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `log10`."""
    def log1p(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """log(1 + x) of each element, accurate near 0."""
    def log1p_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `log1p`."""
    def log2(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The logarithm of each element to base 2; nan below 0, -inf at 0."""
    def log2_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `log2`."""
    def log_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `log`."""
    def log_normal_(self, mean: builtins.float = 1.0, std: builtins.float = 2.0, *, generator: Generator | None = None) -> Tensor:  # tdt/_ops/random/fill.py
        """Fill with exp of random numbers from a normal distribution of `mean` and standard deviation `std`."""
    def log_softmax(self, dim: builtins.int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/nn/softmax.py
        """Logarithm of `softmax` along `dim`, computed without its loss of precision."""
    def logaddexp(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """log(exp(input) + exp(other)), without overflow."""
    def logaddexp2(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """log2(2^input + 2^other), without overflow."""
    def logcumsumexp(self, dim: builtins.int, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/cumulative.py
        """Logarithm of the cumulative sums of exp(x) along `dim`, computed without overflow."""
    def logdet(self) -> Tensor:  # tdt/_ops/linalg/solve.py
        """Logarithm of the determinant of each square matrix; nan where it is negative, -inf where it is 0."""
    def logical_and(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether both elements of each pair are nonzero; a bool tensor."""
    def logical_and_(self, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `logical_and`."""
    def logical_not(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether each element is zero; a bool tensor."""
    def logical_not_(self) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `logical_not`."""
    def logical_or(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether at least one element of each pair is nonzero; a bool tensor."""
    def logical_or_(self, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `logical_or`."""
    def logical_xor(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether exactly one element of each pair is nonzero; a bool tensor."""
    def logical_xor_(self, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `logical_xor`."""
    def logit(self, eps: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The inverse of sigmoid, log(x / (1 - x)), of each element."""
    def logit_(self, eps: builtins.float | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `logit`."""
    def logsumexp(self, dim: builtins.int | Sequence[builtins.int], keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/reductions.py
        """Logarithm of the sum of exp(x) over `dim`, computed without overflow."""
    def long(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/conversions.py
        """The tensor converted to int64; the tensor itself if it has that dtype."""
    def lt(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether input < other, element by element; a bool tensor."""
    def lt_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `lt`."""
    def lu(self, pivot: builtins.bool = True, get_infos: builtins.bool = False, out: tuple[Tensor, ...] | None = None) -> tuple[Tensor, ...]:  # tdt/_ops/linalg/root_namespace.py
        """LU decomposition with partial pivoting in packed form; `linalg.lu_factor` is the newer form."""
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/root_namespace.py
        """Solution X of A X = input from the LU decomposition of A; `linalg.lu_solve` is the newer form."""
    @property
    def mH(self) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """The last two dimensions swapped and conjugated; RuntimeError for a vector."""
    @property
    def mT(self) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """The last two dimensions swapped; RuntimeError for fewer than two."""
    def map2_(self, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:  # tdt/_ops/shape/resize.py
        """Replace each element by the result of a Python function of it and the elements of two other tensors; slow."""
    def map_(self, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:  # tdt/_ops/shape/resize.py
        """Replace each element by the result of a Python function of it and the element of another tensor; slow."""
    def masked_fill(self, mask: Tensor, value: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/select.py
        """`input` with `value` where `mask` is True."""
    def masked_fill_(self, mask: Tensor, value: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/select.py
        """In-place version of `masked_fill`."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:  # tdt/_ops/index/masked.py
        """A copy of `input` in which the elements where `mask` is True are replaced, in order, by those of `source`."""
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:  # tdt/_ops/index/masked.py
        """In-place version of `masked_scatter`."""
    def masked_select(self, mask: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/masked.py
        """The elements where `mask` is True, as a vector."""
    def matmul(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
        """Matrix product over the last two dimensions, with the other dimensions broadcast."""
    def matrix_exp(self) -> Tensor:  # tdt/_ops/linalg/matrix_functions.py
        """Exponential of square matrices: Σ Aᵏ / k!."""
    def matrix_power(self, n: builtins.int, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/matrix_functions.py
        """Power of square matrices; for negative n, of their inverses."""
    @overload
    def max(self) -> Tensor:
        """Largest element; along a dimension also its index; or the elementwise maximum of two tensors."""
    @overload
    def max(self, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _max_result:
        """Largest element; along a dimension also its index; or the elementwise maximum of two tensors."""
    @overload
    def max(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/order.py
        """Largest element; along a dimension also its index; or the elementwise maximum of two tensors."""
    def maximum(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The larger element of each pair; nan where either is nan."""
    def mean(self, dim: _Dims = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/reductions.py
        """Mean of the elements over `dim`; nan of no elements."""
    @overload
    def median(self) -> Tensor:
        """Median, of an even number of elements the lower one; nan if an element is nan."""
    @overload
    def median(self, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _median_result:  # tdt/_ops/reduce/order.py
        """Median, of an even number of elements the lower one; nan if an element is nan."""
    @overload
    def min(self) -> Tensor:
        """Smallest element; along a dimension also its index; or the elementwise minimum of two tensors."""
    @overload
    def min(self, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _min_result:
        """Smallest element; along a dimension also its index; or the elementwise minimum of two tensors."""
    @overload
    def min(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/order.py
        """Smallest element; along a dimension also its index; or the elementwise minimum of two tensors."""
    def minimum(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The smaller element of each pair; nan where either is nan."""
    def mm(self, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
        """Product of two matrices."""
    def mode(self, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _mode_result:  # tdt/_ops/reduce/order.py
        """Most frequent value along `dim`, the smallest of equally frequent ones, and the last index at which it occurs."""
    def module_load(self, other: Tensor, assign: builtins.bool = False) -> Tensor:  # tdt/_core/interchange.py
        """The tensor that `load_state_dict` stores in place of this one."""
    def moveaxis(self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """A view with the dimensions `source` moved to the positions `destination`, the others in their order."""
    def movedim(self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """A view with the dimensions `source` moved to the positions `destination`, the others in their order."""
    def msort(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/sort.py
        """Elements in ascending order along the first dimension."""
    def mul(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The product input · other, element by element."""
    def mul_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """In-place version of `mul`."""
    def multinomial(self, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/random/creation.py
        """Indices of `num_samples` categories, drawn in each row with probabilities proportional to the weights in `input`."""
    def multiply(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The product input · other, element by element."""
    def multiply_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """In-place version of `mul`."""
    def mv(self, vec: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
        """Product of a matrix and a vector."""
    def mvlgamma(self, p: builtins.int, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/special.py
        """The natural logarithm of the multivariate gamma function of dimension `p`, valid where input > (p - 1) / 2."""
    def mvlgamma_(self, p: builtins.int) -> Tensor:  # tdt/_ops/elementwise/special.py
        """In-place version of `mvlgamma`."""
    @property
    def name(self) -> str | None:  # tdt/_core/properties.py
        """Always None: tensors have no names."""
    def nan_to_num(self, nan: builtins.float | None = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """Each element, with nan and infinities replaced by finite numbers."""
    def nan_to_num_(self, nan: builtins.float | None = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `nan_to_num`."""
    def nanmean(self, dim: _Dims = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/reductions.py
        """Mean over `dim` of the elements that are not nan; nan where there are none."""
    @overload
    def nanmedian(self) -> Tensor:
        """Median of the elements that are not nan, of an even number of them the lower one."""
    @overload
    def nanmedian(self, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _nanmedian_result:  # tdt/_ops/reduce/order.py
        """Median of the elements that are not nan, of an even number of them the lower one."""
    def nanquantile(self, q: builtins.float | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: Literal['linear', 'lower', 'higher', 'midpoint', 'nearest'] = 'linear', out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/statistics.py
        """Quantiles of the elements that are not nan: the values below which the fractions `q` of them lie."""
    def nansum(self, dim: _Dims = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/reductions.py
        """Sum over `dim` with nan counted as 0."""
    def narrow(self, dim: builtins.int, start: builtins.int | Tensor, length: builtins.int) -> Tensor:  # tdt/_ops/shape/views.py
        """The view of `length` entries along `dim`, from `start` on."""
    def narrow_copy(self, dim: builtins.int, start: builtins.int | Tensor, length: builtins.int, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
        """A copy of `length` entries along `dim`, from `start` on."""
    def ne(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether input != other, element by element; a bool tensor."""
    def ne_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `ne`."""
    def neg(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """The negative of each element, -x."""
    def neg_(self) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `neg`."""
    def negative(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """The negative of each element, -x."""
    def negative_(self) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `neg`."""
    def new(self, *args: Any, device: Any = None) -> Tensor:  # tdt/sparse/_methods.py
        """Legacy constructor: a tensor with the dtype and device of `self`, from sizes, a sequence, a tensor or a storage."""
    def new_empty(self, *sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = None, dtype: _dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layout | None = None, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/new_tensors.py
        """A tensor of the given size, not initialized, by default with this tensor's dtype and device."""
    def new_empty_strided(self, size: Sequence[builtins.int], stride: Sequence[builtins.int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/new_tensors.py
        """An uninitialized tensor of the given size and strides, by default with this tensor's dtype and device."""
    def new_full(self, size: Sequence[builtins.int], fill_value: _Number, *, dtype: _dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layout | None = None, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/new_tensors.py
        """A tensor of the given size with every element `fill_value`, by default with this tensor's dtype and device."""
    def new_ones(self, *sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = None, dtype: _dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layout | None = None, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/new_tensors.py
        """A tensor of the given size, all 1, by default with this tensor's dtype and device."""
    def new_tensor(self, data: Any, *, dtype: _dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/new_tensors.py
        """A new tensor that holds a copy of `data`, by default with the dtype and device of this tensor."""
    def new_zeros(self, *sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = None, dtype: _dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, layout: _layout | None = None, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/new_tensors.py
        """A tensor of the given size, all 0, by default with this tensor's dtype and device."""
    def nextafter(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """The floating-point number next to each element of `input` in the direction of `other`."""
    def nextafter_(self, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `nextafter`."""
    @overload
    def nonzero(self, *, out: Tensor | None = None, as_tuple: Literal[False] = False) -> Tensor:
        """Indices of the elements that are not 0."""
    @overload
    def nonzero(self, *, out: Tensor | None = None, as_tuple: Literal[True]) -> tuple[Tensor, ...]:  # tdt/_ops/index/nonzero.py
        """Indices of the elements that are not 0."""
    def nonzero_static(self, *, size: builtins.int, fill_value: builtins.int = -1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/nonzero.py
        """The first `size` rows of `nonzero`, filled up with `fill_value`."""
    def norm(self, p: builtins.float | Literal['fro', 'nuc'] | None = 'fro', dim: _Dims = None, keepdim: builtins.bool = False, out: Tensor | None = None, dtype: _dtype | None = None) -> Tensor:  # tdt/_ops/linalg/norms.py
        """Norm of the elements over `dim`; `linalg.norm` is the newer form."""
    def normal_(self, mean: builtins.float = 0.0, std: builtins.float = 1.0, *, generator: Generator | None = None) -> Tensor:  # tdt/_ops/random/fill.py
        """Fill with random numbers from a normal distribution."""
    def not_equal(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether input != other, element by element; a bool tensor."""
    def not_equal_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """In-place version of `ne`."""
    def numpy(self, *, force: builtins.bool = False) -> np.ndarray[Any, Any]:  # tdt/_core/interchange.py
        """The elements as a NumPy array that shares memory with the tensor."""
    def orgqr(self, input2: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/householder.py
        """Product of Householder reflections: `linalg.householder_product` under LAPACK's name."""
    def ormqr(self, input2: Tensor, input3: Tensor, left: builtins.bool = True, transpose: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/householder.py
        """Product of input3 and the square Q whose Householder reflections `geqrf` returned as (input, input2)."""
    def outer(self, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
        """Outer product of two vectors: input[i] · vec2[j]."""
    @property
    def output_nr(self) -> builtins.int:  # tdt/autograd/_variable.py
        """Which output of its `grad_fn` this tensor is."""
    def permute(self, *order: builtins.int | Sequence[builtins.int], dims: Sequence[builtins.int] | None = None) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """The dimensions in another order: `x.permute(2, 0, 1)` or `x.permute((2, 0, 1))`."""
    def pin_memory(self, device: _Device | None = None) -> Tensor:  # tdt/_ops/shape/resize.py
        """The tensor itself: copies to a GPU go through pinned buffers of tdt's own."""
    def pinverse(self, rcond: builtins.float = 1e-15) -> Tensor:  # tdt/_ops/linalg/least_squares.py
        """Moore-Penrose pseudo-inverse; `linalg.pinv` is the newer form."""
    def polygamma(self, n: builtins.int) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The n-th derivative of digamma at each element: `tdt.polygamma(n, self)`."""
    def polygamma_(self, n: builtins.int) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `polygamma`."""
    def positive(self) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """`input` itself, as `+input` returns it."""
    def pow(self, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/powers.py
        """Each element of `input` to the power of `exponent`."""
    def pow_(self, exponent: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/powers.py
        """In-place version of `pow`."""
    def prelu(self, weight: Tensor) -> Tensor:  # tdt/_ops/elementwise/piecewise.py
        """Parametric rectified linear unit: x where x > 0, else weight · x, with learned weights."""
    def prod(self, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/product.py
        """Product of the elements over `dim`; of integers and bools an int64."""
    def put(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:  # tdt/_ops/index/pick.py
        """A copy of `input` with the elements of the flattened tensor at `index` set to those of `source`, or increased by them."""
    def put_(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:  # tdt/_ops/index/pick.py
        """In-place version of `put`."""
    def qr(self, some: builtins.bool = True, *, out: tuple[Tensor, Tensor] | None = None) -> _qr_result:  # tdt/_ops/linalg/root_namespace.py
        """QR decomposition input = Q R; `linalg.qr` is the newer form."""
    def quantile(self, q: builtins.float | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: Literal['linear', 'lower', 'higher', 'midpoint', 'nearest'] = 'linear', out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/statistics.py
        """Quantiles of the elements: the values below which the fractions `q` of them lie; nan if an element is nan."""
    def rad2deg(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """Angles in radians converted to degrees."""
    def rad2deg_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `rad2deg`."""
    def random_(self, *ends: builtins.int | None, to: builtins.int | None = None, generator: Generator | None = None) -> Tensor:  # tdt/_ops/random/fill.py
        """Fill with random integers: `random_(high)` on [0, high), `random_(low, high)` on [low, high)."""
    def ravel(self) -> Tensor:  # tdt/_ops/shape/views.py
        """All elements in one dimension: a view where possible, else a copy."""
    @property
    def real(self) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
        """The real part of each element: a view of a complex tensor; a real tensor is returned itself."""
    @real.setter
    def real(self, value: Tensor | _Number) -> None: ...
    def reciprocal(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The reciprocal of each element, 1 / x."""
    def reciprocal_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `reciprocal`."""
    def record_stream(self, s: Any) -> None:  # tdt/_ops/shape/resize.py
        """Let the tensor's memory be used again only when the work is done that `s` has when the tensor is gone."""
    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Any:  # tdt/autograd/_variable.py
        """Call `hook(gradient)` whenever the gradient of this tensor is computed; a value it returns replaces the gradient."""
    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Any:  # tdt/autograd/_variable.py
        """Call `hook(tensor)` after the `.grad` of this leaf was updated."""
    def relu(self, inplace: builtins.bool = False) -> Tensor:  # tdt/_ops/elementwise/piecewise.py
        """Rectified linear unit: max(x, 0); nan stays nan."""
    def relu_(self) -> Tensor:  # tdt/_ops/elementwise/piecewise.py
        """In-place version of `relu`."""
    def remainder(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The remainder of input / other, with the sign of `other`, as Python's `%`."""
    def remainder_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """In-place version of `remainder`."""
    def renorm(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/statistics.py
        """Slices along `dim` scaled down to the p-norm `maxnorm` where their norm is larger."""
    def renorm_(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:  # tdt/_ops/reduce/statistics.py
        """In-place version of `renorm`."""
    def repeat(self, *times: builtins.int | Sequence[builtins.int], repeats: Sequence[builtins.int] | None = None) -> Tensor:  # tdt/_ops/shape/repeat.py
        """The tensor copied `times[d]` times along each dimension `d`; a method of Tensor."""
    def repeat_interleave(self, repeats: Tensor | builtins.int | None = None, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor:  # tdt/_ops/shape/repeat.py
        """Each entry along `dim` repeated in place: the same number of times, or each its own number."""
    @property
    def requires_grad(self) -> builtins.bool:  # tdt/autograd/_variable.py
        """Whether gradients are computed for this tensor. Settable on leaves of floating-point or complex dtype."""
    @requires_grad.setter
    def requires_grad(self, value: builtins.bool) -> None: ...
    def requires_grad_(self, requires_grad: builtins.bool = True) -> Tensor:  # tdt/autograd/_variable.py
        """Set `requires_grad` in place; True for a computed tensor that requires grad changes nothing."""
    def reshape(self, *sizes: builtins.int | Sequence[builtins.int], shape: Sequence[builtins.int] | None = None) -> Tensor:  # tdt/_ops/shape/views.py
        """The elements in another shape: `x.reshape(2, -1)` or `x.reshape((2, -1))`."""
    def reshape_as(self, other: Tensor) -> Tensor:  # tdt/_ops/shape/views.py
        """The elements in the shape of another tensor: a view where possible, else a copy."""
    def resize(self, *sizes: builtins.int | Sequence[builtins.int]) -> Tensor:  # tdt/_ops/shape/resize.py
        """A view of another shape; deprecated in favour of `view` and `resize_`."""
    def resize_(self, *sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = None, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/resize.py
        """Change the shape in place; the elements stay where they are in memory, new ones are not initialized."""
    def resize_as(self, tensor: Tensor) -> Tensor:  # tdt/_ops/shape/resize.py
        """A view of the shape of another tensor; deprecated in favour of `view_as` and `resize_as_`."""
    def resize_as_(self, the_template: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_ops/shape/resize.py
        """`resize_` to the shape of another tensor; `sparse_resize_` if both are sparse."""
    def resolve_conj(self) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
        """`input` itself: `conj` computes at once, so there is no conjugation to resolve."""
    def resolve_neg(self) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
        """`input` itself: `neg` and the imaginary part of `conj` are computed at once, so there is no negation to resolve."""
    def retain_grad(self) -> None:  # tdt/autograd/_variable.py
        """Keep the gradient of a computed tensor in its `.grad`."""
    @property
    def retains_grad(self) -> builtins.bool:  # tdt/autograd/_variable.py
        """Whether `retain_grad` was called on this non-leaf tensor."""
    def roll(self, shifts: builtins.int | Sequence[builtins.int], dims: _Dims = None) -> Tensor:  # tdt/_ops/shape/reorder.py
        """A copy with the entries shifted along `dims`; those shifted past the end come in at the front."""
    def rot90(self, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1)) -> Tensor:  # tdt/_ops/shape/reorder.py
        """A copy with the plane `dims` rotated by k · 90°, from the first towards the second dimension."""
    def round(self, *, decimals: builtins.int | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """Each element rounded to `decimals` decimals; halves go to the even neighbour."""
    def round_(self, *, decimals: builtins.int | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `round`."""
    def rsqrt(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The reciprocal of the square root of each element, 1 / sqrt(x)."""
    def rsqrt_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `rsqrt`."""
    def scatter(self, dim: builtins.int, index: Tensor, src: Tensor | _Number | None = None, *, value: _Number | None = None, reduce: Literal['add', 'multiply'] | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/scatter.py
        """A copy of `input` with result[index[i][j]][j] = src[i][j] for dim 0, and so on."""
    def scatter_(self, dim: builtins.int, index: Tensor, src: Tensor | _Number | None = None, *, value: _Number | None = None, reduce: Literal['add', 'multiply'] | None = None) -> Tensor:  # tdt/_ops/index/scatter.py
        """In-place version of `scatter`."""
    def scatter_add(self, dim: builtins.int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/scatter.py
        """A copy of `input` with src[i][j] added to result[index[i][j]][j] for dim 0, and so on; repeated indices add up."""
    def scatter_add_(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:  # tdt/_ops/index/scatter.py
        """In-place version of `scatter_add`."""
    def scatter_reduce(self, dim: builtins.int, index: Tensor, src: Tensor, reduce: Literal['sum', 'prod', 'mean', 'amax', 'amin'], *, include_self: builtins.bool = True, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/scatter.py
        """A copy of `input` in which the elements that `index` names along `dim` are reduced with those of `src`."""
    def scatter_reduce_(self, dim: builtins.int, index: Tensor, src: Tensor, reduce: Literal['sum', 'prod', 'mean', 'amax', 'amin'], *, include_self: builtins.bool = True) -> Tensor:  # tdt/_ops/index/scatter.py
        """In-place version of `scatter_reduce`."""
    def select(self, dim: builtins.int, index: builtins.int) -> Tensor:  # tdt/_ops/shape/views.py
        """The view at `index` along `dim`."""
    def select_scatter(self, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:  # tdt/_ops/shape/view_scatter.py
        """A copy of `input` with `src` at `index` along `dim`."""
    def set_(self, source: Tensor | UntypedStorage | TypedStorage | None = None, storage_offset: builtins.int = 0, size: Sequence[builtins.int] | None = None, stride: Sequence[builtins.int] | None = None) -> Tensor:  # tdt/_ops/shape/resize.py
        """Make the tensor use the memory of another tensor or of a storage."""
    def sgn(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """The sign of each element: x / |x|, and 0 at 0."""
    def sgn_(self) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `sgn`."""
    def share_memory_(self) -> Tensor:  # tdt/_ops/shape/resize.py
        """Move the storage to memory that other processes can share, however they were started."""
    def short(self, memory_format: _memory_format = ...) -> Tensor:  # tdt/_ops/shape/conversions.py
        """The tensor converted to int16; the tensor itself if it has that dtype."""
    def sigmoid(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The logistic function of each element, 1 / (1 + exp(-x))."""
    def sigmoid_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `sigmoid`."""
    def sign(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """The sign of each real element: -1, 0 or 1; nan has sign 0."""
    def sign_(self) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `sign`."""
    def signbit(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
        """Whether the sign bit of each element is set, that of -0.0 included; a bool tensor."""
    def sin(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The sine of each element, an angle in radians."""
    def sin_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `sin`."""
    def sinc(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The normalized sinc function of each element, sin(πx) / (πx), and 1 at 0."""
    def sinc_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `sinc`."""
    def sinh(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The hyperbolic sine of each element."""
    def sinh_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `sinh`."""
    def slice_scatter(self, src: Tensor, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_scatter.py
        """A copy of `input` with `src` at start, start + step, … before `end` along `dim`."""
    def slogdet(self, *, out: tuple[Tensor, Tensor] | None = None) -> _slogdet_result:  # tdt/_ops/linalg/root_namespace.py
        """Sign and logarithm of the absolute value of the determinant, computed without overflow."""
    def softmax(self, dim: builtins.int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/nn/softmax.py
        """exp(x) / Σ exp(x) along `dim`; a slice of all -inf gives NaN."""
    def sort(self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _sort_result:  # tdt/_ops/reduce/sort.py
        """Elements in ascending or descending order along `dim`; nan counts as larger than all numbers."""
    def sparse_dim(self) -> builtins.int:  # tdt/_core/layout.py
        """Number of dimensions that coordinates index: 0 for a dense tensor."""
    def sparse_mask(self, mask: Tensor) -> Tensor:  # tdt/sparse/_methods.py
        """The elements of a tensor, dense or sparse, at the places where the sparse `mask` has entries."""
    def sparse_resize_(self, size: Any, sparse_dim: builtins.int, dense_dim: builtins.int) -> Tensor:  # tdt/sparse/_methods.py
        """Change the size of a sparse tensor in place, keeping its entries."""
    def sparse_resize_and_clear_(self, size: Any, sparse_dim: builtins.int, dense_dim: builtins.int) -> Tensor:  # tdt/sparse/_methods.py
        """Change the size of a sparse tensor in place and remove all entries."""
    def split(self, split_size_or_sections: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
        """Views of `split_size_or_sections` entries each along `dim`, the last possibly smaller; or of the sizes in a list."""
    def split_with_sizes(self, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
        """Views of the given sizes along `dim`."""
    def sqrt(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The square root of each element; nan below 0."""
    def sqrt_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `sqrt`."""
    def square(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
        """The square of each element, x · x."""
    def square_(self) -> Tensor:  # tdt/_ops/elementwise/math.py
        """In-place version of `square`."""
    def squeeze(self, dim: _Dims = None) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """A view without the dimensions of size 1: all of them, or those among `dim`."""
    def squeeze_(self, dim: _Dims = None) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """In-place version of `squeeze`."""
    def std(self, dim: _Dims | builtins.bool | None = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/variance.py
        """Standard deviation over `dim`: the square root of the variance."""
    def stft(self, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Tensor | None = None, center: builtins.bool = True, pad_mode: str = 'reflect', normalized: builtins.bool = False, onesided: builtins.bool | None = None, return_complex: builtins.bool | None = None, align_to_window: builtins.bool | None = None) -> Tensor:  # tdt/_ops/spectral/stft.py
        """Short-time Fourier transform: the spectrum of each frame of a signal."""
    def storage(self) -> TypedStorage:  # tdt/_core/storage.py
        """The memory that the tensor and its views share, as elements; deprecated in favour of `untyped_storage`."""
    def storage_offset(self) -> builtins.int:  # tdt/_ops/shape/split.py
        """Number of elements in the storage before the first element of this tensor."""
    def storage_type(self) -> type[TypedStorage]:  # tdt/_core/storage.py
        """The class of the tensor's typed storage, such as FloatStorage."""
    def sub(self, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The difference input - alpha · other."""
    def sub_(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """In-place version of `sub`."""
    def subtract(self, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The difference input - alpha · other."""
    def subtract_(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """In-place version of `sub`."""
    def sum(self, dim: _Dims = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/reductions.py
        """Sum of the elements over `dim`; of integers and bools an int64."""
    def sum_to_size(self, *sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = None) -> Tensor:  # tdt/_ops/shape/views.py
        """The sum over the dimensions along which a tensor of shape `size` would be broadcast to `input`."""
    def svd(self, some: builtins.bool = True, compute_uv: builtins.bool = True, *, out: tuple[Tensor, Tensor, Tensor] | None = None) -> _svd_result:  # tdt/_ops/linalg/root_namespace.py
        """Singular value decomposition input = U diag(S) Vᴴ; `linalg.svd`, which returns Vᴴ, is the newer form."""
    def swapaxes(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """A view with two dimensions swapped: `transpose` under NumPy's name."""
    def swapaxes_(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """In-place version of `swapaxes`."""
    def swapdims(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """A view with dimensions `dim0` and `dim1` swapped."""
    def swapdims_(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """In-place version of `transpose`."""
    def t(self) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """A view of a matrix with its dimensions swapped; a vector or 0-d tensor is returned unchanged."""
    def t_(self) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """`t` in place."""
    def take(self, index: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/pick.py
        """The elements of the flattened tensor at `index`."""
    def take_along_dim(self, indices: Tensor, dim: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/pick.py
        """The elements at `indices` along `dim`, where `input` and `indices` broadcast along the other dimensions."""
    def tan(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The tangent of each element, an angle in radians."""
    def tan_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `tan`."""
    def tanh(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """The hyperbolic tangent of each element."""
    def tanh_(self) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
        """In-place version of `tanh`."""
    def tensor_split(self, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor, dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
        """Views along `dim`: a number of them of nearly equal size, or split before the given indices."""
    def tile(self, *times: builtins.int | Sequence[builtins.int], dims: Sequence[builtins.int] | None = None) -> Tensor:  # tdt/_ops/shape/repeat.py
        """The tensor copied `times[d]` times along each dimension: `x.tile(2, 1)` or `x.tile((2, 1))`."""
    def to(self, *args: Any, **options: Any) -> Tensor:  # tdt/_ops/shape/memory.py
        """The tensor with another dtype, device or memory format; the tensor itself if nothing changes."""
    def to_dense(self, dtype: _dtype | None = None, *, masked_grad: builtins.bool | None = None) -> Tensor:  # tdt/sparse/_methods.py
        """A dense copy of a sparse tensor; a dense tensor is returned unchanged."""
    def to_sparse(self, sparse_dim: builtins.int | None = None, *, layout: _layout | None = None, blocksize: Any = None, dense_dim: builtins.int | None = None) -> Tensor:  # tdt/sparse/_methods.py
        """The elements of a dense tensor that are not 0, with their coordinates in the first `sparse_dim` dimensions (all)."""
    def to_sparse_bsc(self, *args: Any, **options: Any) -> Tensor:  # tdt/sparse/_methods.py
        """Not supported: a sparse matrix compressed by columns of blocks; see `to_sparse_csr`."""
    def to_sparse_bsr(self, *args: Any, **options: Any) -> Tensor:  # tdt/sparse/_methods.py
        """Not supported: a sparse matrix compressed by rows of blocks; see `to_sparse_csr`."""
    def to_sparse_coo(self) -> Tensor:  # tdt/sparse/_methods.py
        """`to_sparse()`: the elements that are not 0, with their coordinates."""
    def to_sparse_csc(self, *args: Any, **options: Any) -> Tensor:  # tdt/sparse/_methods.py
        """Not supported: a sparse matrix compressed by columns; see `to_sparse_csr`."""
    def to_sparse_csr(self, dense_dim: builtins.int | None = None) -> Tensor:  # tdt/sparse/_methods.py
        """A matrix, dense or sparse, as a sparse one whose rows are compressed."""
    def tolist(self) -> Any:  # tdt/_core/interchange.py
        """The elements as nested lists of Python numbers; a number for a 0-d tensor."""
    def topk(self, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True, *, out: tuple[Tensor, Tensor] | None = None) -> _topk_result:  # tdt/_ops/reduce/sort.py
        """The k largest elements along `dim`, or the k smallest, in order, and their indices."""
    def trace(self) -> Tensor:  # tdt/_ops/linalg/products.py
        """Sum of the diagonal of a matrix."""
    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """A view with dimensions `dim0` and `dim1` swapped."""
    def transpose_(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """In-place version of `transpose`."""
    def triangular_solve(self, A: Tensor, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _triangular_solve_result:  # tdt/_ops/linalg/triangular.py
        """Solution X of A X = input with a triangular A; `linalg.solve_triangular` is the newer form."""
    def tril(self, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/diagonals.py
        """A copy of a matrix, or of each matrix in a batch, with zeros outside the lower triangle."""
    def tril_(self, diagonal: builtins.int = 0) -> Tensor:  # tdt/_ops/shape/diagonals.py
        """In-place version of `tril`."""
    def triu(self, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/diagonals.py
        """A copy of a matrix, or of each matrix in a batch, with zeros outside the upper triangle."""
    def triu_(self, diagonal: builtins.int = 0) -> Tensor:  # tdt/_ops/shape/diagonals.py
        """In-place version of `triu`."""
    def true_divide(self, other: Tensor | _Number, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """The quotient input / other, element by element."""
    def true_divide_(self, other: Tensor | _Number, *, rounding_mode: str | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
        """In-place version of `div`."""
    def trunc(self, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """Each element rounded towards 0."""
    def trunc_(self) -> Tensor:  # tdt/_ops/elementwise/rounding.py
        """In-place version of `trunc`."""
    def type(self, dtype: Any = None, non_blocking: builtins.bool = False) -> Any:  # tdt/compat/_old_types.py
        """Convert to `dtype`, which may be an old type or its name; without it, return the old type's name."""
    def type_as(self, other: Tensor) -> Tensor:  # tdt/_ops/shape/memory.py
        """The tensor with the dtype and device of another."""
    def unbind(self, dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
        """A view for each index along `dim`."""
    def unflatten(self, dim: builtins.int, sizes: builtins.int | Sequence[builtins.int]) -> Tensor:  # tdt/_ops/shape/views.py
        """A view with dimension `dim` split into several."""
    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:  # tdt/_ops/spectral/frames.py
        """Windows of `size` along `dimension`, `step` apart, in a new last dimension; a view."""
    def uniform_(self, from_: builtins.float = 0.0, to: builtins.float = 1.0, *, generator: Generator | None = None) -> Tensor:  # tdt/_ops/random/fill.py
        """Fill with random numbers, uniform on [from_, to)."""
    @overload
    def unique(self, sorted: builtins.bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: builtins.int | None = None) -> Tensor:
        """Distinct elements of the tensor, or distinct slices along `dim`, in ascending order."""
    @overload
    def unique(self, sorted: builtins.bool = True, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: builtins.int | None = None) -> tuple[Tensor, Tensor]:
        """Distinct elements of the tensor, or distinct slices along `dim`, in ascending order."""
    @overload
    def unique(self, sorted: builtins.bool = True, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor]:
        """Distinct elements of the tensor, or distinct slices along `dim`, in ascending order."""
    @overload
    def unique(self, sorted: builtins.bool = True, *, return_inverse: Literal[True], return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Distinct elements of the tensor, or distinct slices along `dim`, in ascending order."""
    @overload
    def unique(self, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Tensor | tuple[Tensor, ...]:  # tdt/_ops/reduce/unique.py
        """Distinct elements of the tensor, or distinct slices along `dim`, in ascending order."""
    @overload
    def unique_consecutive(self, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: builtins.int | None = None) -> Tensor:
        """Elements, or slices along `dim`, without those that are equal to the one directly before them."""
    @overload
    def unique_consecutive(self, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: builtins.int | None = None) -> tuple[Tensor, Tensor]:
        """Elements, or slices along `dim`, without those that are equal to the one directly before them."""
    @overload
    def unique_consecutive(self, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor]:
        """Elements, or slices along `dim`, without those that are equal to the one directly before them."""
    @overload
    def unique_consecutive(self, *, return_inverse: Literal[True], return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Elements, or slices along `dim`, without those that are equal to the one directly before them."""
    @overload
    def unique_consecutive(self, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Tensor | tuple[Tensor, ...]:  # tdt/_ops/reduce/unique.py
        """Elements, or slices along `dim`, without those that are equal to the one directly before them."""
    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
        """As `chunk`, but each view may be written to in place where autograd records."""
    def unsafe_split(self, split_size: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
        """As `split`, but each view may be written to in place where autograd records."""
    def unsafe_split_with_sizes(self, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
        """As `split_with_sizes`, but each view may be written to in place where autograd records."""
    def unsqueeze(self, dim: builtins.int) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """A view with a new dimension of size 1 at position `dim`."""
    def unsqueeze_(self, dim: builtins.int) -> Tensor:  # tdt/_ops/shape/dimensions.py
        """In-place version of `unsqueeze`."""
    def untyped_storage(self) -> UntypedStorage:  # tdt/_core/storage.py
        """The memory that the tensor and its views share, as bytes."""
    def values(self) -> Tensor:  # tdt/sparse/_methods.py
        """Values of the entries of a coalesced sparse tensor; gradients flow through them."""
    def var(self, dim: _Dims | builtins.bool | None = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/variance.py
        """Variance over `dim`: sum of squared distances from the mean, divided by n - correction."""
    def vdot(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
        """Dot product of two vectors, the first of which is conjugated."""
    def view(self, *sizes: builtins.int | Sequence[builtins.int] | _dtype, size: Sequence[builtins.int] | None = None, dtype: _dtype | None = None) -> Tensor:  # tdt/_ops/shape/views.py
        """The same memory with another shape, or read as another dtype."""
    def view_as(self, other: Tensor) -> Tensor:  # tdt/_ops/shape/views.py
        """A view with the shape of another tensor."""
    def vsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
        """Views along dimension 0: a number of them of equal size, or split before the given indices."""
    def where(self, condition: Tensor, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/select.py
        """Elements of the tensor where `condition` is True, of `other` elsewhere: `tdt.where(condition, self, other)`."""
    def xlogy(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """The product input · log(other), and 0 where `input` is 0 and `other` is not nan."""
    def xlogy_(self, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
        """In-place version of `xlogy`."""
    def zero_(self) -> Tensor:  # tdt/_ops/shape/memory.py
        """Overwrite every element with 0."""
_EMPTY: Any
_new: Any
def wrap(array: Any) -> Tensor:
    """Wrap `array` in a tensor that shares its memory and does not require a gradient."""
def wrap_new(array: Any) -> Tensor:
    """`wrap`, of the memory of a new tensor: in inference mode it is noted as created there."""
def alias(array: Any, edge: tuple | None, storage: Any=None) -> Tensor:
    """Wrap `array` in a tensor with the given autograd edge, and storage if given."""
def check_dim(dim: builtins.int, ndim: builtins.int) -> builtins.int:
    """`dim` counted from the front; IndexError outside [-ndim, ndim), where a 0-d tensor counts as 1-d."""
