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
from tdt._ops.shape.memory import memory_format as _memory_format
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
LEAF: Any
class Storage:
    version = 0
    inference = False
    whole: Any = None

    def bump_version(self) -> None: ...
class View:
    base: Any
    source: Any
    step: Any
    version: Any
    creation_meta: Any
    base_array: Any
    __slots__ = ('base', 'source', 'step', 'version', 'creation_meta', 'base_array')

    def __init__(self, base: Tensor, source: Any, step: tuple, version: builtins.int, creation_meta: str, base_array: Any): ...
class Tensor:
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
    _fill: Callable[..., None]
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __new__(cls, *args: Any, dtype: Any=None, device: Any=None) -> Tensor: ...

    @property
    def shape(self) -> Size: ...

    @property
    def ndim(self) -> builtins.int: ...

    @property
    def dtype(self) -> _dtype: ...

    @property
    def device(self) -> _device: ...

    @property
    def is_cuda(self) -> builtins.bool: ...

    @property
    def _version(self) -> builtins.int: ...

    def is_inference(self) -> builtins.bool: ...

    @property
    def itemsize(self) -> builtins.int: ...

    @property
    def nbytes(self) -> builtins.int: ...

    def dim(self) -> builtins.int: ...

    def numel(self) -> builtins.int: ...
    nelement = numel
    ndimension = dim

    def element_size(self) -> builtins.int: ...

    def is_floating_point(self) -> builtins.bool: ...

    def is_complex(self) -> builtins.bool: ...

    def is_signed(self) -> builtins.bool: ...
    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: builtins.int) -> builtins.int: ...
    @overload
    def stride(self, dim: None = None) -> tuple[builtins.int, ...]: ...
    @overload
    def stride(self, dim: builtins.int) -> builtins.int: ...
    @property
    def H(self) -> Tensor: ...
    @property
    def T(self) -> Tensor: ...
    def __abs__(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def __add__(self, other: _Operand) -> Tensor: ...
    def __and__(self, other: _Operand) -> Tensor: ...
    def __array__(self, dtype: Any = ..., copy: builtins.bool | None = ...) -> np.ndarray[Any, Any]: ...  # tdt/_core/interchange.py
    def __array_wrap__(self, array: Any, context: Any = ..., return_scalar: builtins.bool = ...) -> Tensor: ...  # tdt/_core/sharing.py
    def __bool__(self) -> builtins.bool: ...  # tdt/_core/interchange.py
    def __complex__(self) -> builtins.complex: ...  # tdt/_core/interchange.py
    def __contains__(self, element: Any) -> builtins.bool: ...  # tdt/_ops/elementwise/compare.py
    def __deepcopy__(self, memo: dict) -> Tensor: ...  # tdt/_core/interchange.py
    def __delitem__(self, key: Any) -> None: ...  # tdt/_ops/index/getitem.py
    def __div__(self, other: _Operand) -> Tensor: ...
    def __dlpack__(self, *, stream: Any = ..., max_version: Any = ..., dl_device: Any = ..., copy: builtins.bool | None = ...) -> Any: ...  # tdt/_core/sharing.py
    def __dlpack_device__(self) -> tuple[builtins.int, builtins.int]: ...  # tdt/_core/sharing.py
    def __eq__(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...  # type: ignore[override]
    def __float__(self) -> builtins.float: ...  # tdt/_core/interchange.py
    def __floordiv__(self, other: _Operand) -> Tensor: ...
    def __ge__(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def __getitem__(self, key: _Index) -> Tensor: ...  # tdt/_ops/index/getitem.py
    def __gt__(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def __iadd__(self, other: _Operand) -> Tensor: ...
    def __iand__(self, other: _Operand) -> Tensor: ...
    def __idiv__(self, other: _Operand) -> Tensor: ...
    def __ifloordiv__(self, other: _Operand) -> Tensor: ...
    def __ilshift__(self, other: _Operand) -> Tensor: ...
    def __imod__(self, other: _Operand) -> Tensor: ...
    def __imul__(self, other: _Operand) -> Tensor: ...
    def __index__(self) -> builtins.int: ...  # tdt/_core/interchange.py
    def __int__(self) -> builtins.int: ...  # tdt/_core/interchange.py
    def __invert__(self) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def __ior__(self, other: _Operand) -> Tensor: ...
    def __ipow__(self, other: _Operand) -> Tensor: ...
    def __irshift__(self, other: _Operand) -> Tensor: ...
    def __isub__(self, other: _Operand) -> Tensor: ...
    def __iter__(self) -> Iterator[Tensor]: ...  # tdt/_ops/shape/split.py
    def __itruediv__(self, other: _Operand) -> Tensor: ...
    def __ixor__(self, other: _Operand) -> Tensor: ...
    def __le__(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def __len__(self) -> builtins.int: ...  # tdt/_core/interchange.py
    def __long__(self) -> builtins.int: ...  # tdt/_core/interchange.py
    def __lshift__(self, other: _Operand) -> Tensor: ...
    def __lt__(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def __matmul__(self, other: Tensor) -> Tensor: ...  # tdt/_ops/linalg/products.py
    def __mod__(self, other: _Operand) -> Tensor: ...
    def __mul__(self, other: _Operand) -> Tensor: ...
    def __ne__(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...  # type: ignore[override]
    def __neg__(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def __nonzero__(self) -> builtins.bool: ...  # tdt/_core/interchange.py
    def __or__(self, other: _Operand) -> Tensor: ...
    def __pos__(self) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
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
    def __setitem__(self, key: _Index, value: _Operand | np.ndarray[Any, Any]) -> None: ...  # tdt/_ops/index/getitem.py
    def __sub__(self, other: _Operand) -> Tensor: ...
    def __truediv__(self, other: _Operand) -> Tensor: ...
    def __xor__(self, other: _Operand) -> Tensor: ...
    @property
    def _base(self) -> Tensor | None: ...
    @property
    def _cdata(self) -> Any: ...
    def _coalesced_(self, coalesced: builtins.bool) -> Tensor: ...  # tdt/sparse/_methods.py
    def _indices(self) -> Tensor: ...  # tdt/sparse/_methods.py
    def _is_view(self) -> builtins.bool: ...  # tdt/autograd/_variable.py
    def _make_subclass(self, data: Tensor, require_grad: builtins.bool = ...) -> Any: ...  # tdt/_core/interchange.py
    def _nnz(self) -> builtins.int: ...  # tdt/sparse/_methods.py
    def _values(self) -> Tensor: ...  # tdt/sparse/_methods.py
    def abs(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def abs_(self) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def absolute(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def absolute_(self) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def acos(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def acos_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def acosh(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def acosh_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def add(self, other: _Operand) -> Tensor: ...
    def add_(self, other: _Operand) -> Tensor: ...
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = ..., alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = ..., alpha: _Number = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: _Number = ..., alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: _Number = ..., alpha: _Number = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: _Number = ..., alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: _Number = ..., alpha: _Number = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: _Number = ..., alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: _Number = ..., alpha: _Number = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
    def adjoint(self) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def all(self, dim: _Dims = ..., keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    def allclose(self, other: Tensor, rtol: builtins.float = ..., atol: builtins.float = ..., equal_nan: builtins.bool = ...) -> builtins.bool: ...  # tdt/_ops/elementwise/compare.py
    def amax(self, dim: _Dims = ..., keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    def amin(self, dim: _Dims = ..., keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    def aminmax(self, *, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., out: tuple[Tensor, Tensor] | None = ...) -> _aminmax_result: ...  # tdt/_ops/reduce/reductions.py
    def angle(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def any(self, dim: _Dims = ..., keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    def apply_(self, callable: Callable[[Any], Any]) -> Tensor: ...  # tdt/_ops/shape/resize.py
    def arccos(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def arccos_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def arccosh(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def arccosh_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def arcsin(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def arcsin_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def arcsinh(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def arcsinh_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def arctan(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def arctan2(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def arctan2_(self, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def arctan_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def arctanh(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def arctanh_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def argmax(self, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    def argmin(self, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    def argsort(self, dim: builtins.int = ..., descending: builtins.bool = ..., stable: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/reduce/order.py
    def argwhere(self) -> Tensor: ...  # tdt/_ops/index/nonzero.py
    def as_strided(self, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = ...) -> Tensor: ...  # tdt/_ops/shape/split.py
    def as_strided_(self, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = ...) -> Tensor: ...  # tdt/_ops/shape/split.py
    def as_strided_scatter(self, src: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_scatter.py
    def as_subclass(self, cls: type[Tensor]) -> Any: ...  # tdt/_core/interchange.py
    def asin(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def asin_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def asinh(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def asinh_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def atan(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def atan2(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def atan2_(self, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def atan_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def atanh(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def atanh_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def backward(self, gradient: Tensor | None = ..., retain_graph: builtins.bool | None = ..., create_graph: builtins.bool = ..., inputs: Sequence[Tensor] | Tensor | None = ...) -> None: ...  # tdt/autograd/_variable.py
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = ..., alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = ..., alpha: _Number = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
    def bernoulli(self, p: builtins.float | None = ..., *, generator: Generator | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
    def bernoulli_(self, p: builtins.float | Tensor = ..., *, generator: Generator | None = ...) -> Tensor: ...  # tdt/_ops/random/fill.py
    def bfloat16(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/conversions.py
    def bincount(self, weights: Tensor | None = ..., minlength: builtins.int = ...) -> Tensor: ...  # tdt/_ops/reduce/counting.py
    def bitwise_and(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def bitwise_and_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def bitwise_left_shift(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def bitwise_left_shift_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def bitwise_not(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def bitwise_not_(self) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def bitwise_or(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def bitwise_or_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def bitwise_right_shift(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def bitwise_right_shift_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def bitwise_xor(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def bitwise_xor_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def bmm(self, mat2: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
    def bool(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/conversions.py
    def broadcast_to(self, size: Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/views.py
    def byte(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/conversions.py
    def cauchy_(self, median: builtins.float = ..., sigma: builtins.float = ..., *, generator: Generator | None = ...) -> Tensor: ...  # tdt/_ops/random/fill.py
    def cdouble(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/conversions.py
    def ceil(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def ceil_(self) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def cfloat(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/conversions.py
    def char(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/conversions.py
    def cholesky(self, upper: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/root_namespace.py
    def cholesky_inverse(self, upper: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/triangular.py
    def cholesky_solve(self, input2: Tensor, upper: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/triangular.py
    def chunk(self, chunks: builtins.int, dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
    def clamp(self, min: Tensor | _Number | None = ..., max: Tensor | _Number | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def clamp_(self, min: Tensor | _Number | None = ..., max: Tensor | _Number | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def clamp_max(self, max: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def clamp_max_(self, max: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def clamp_min(self, min: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def clamp_min_(self, min: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def clip(self, min: Tensor | _Number | None = ..., max: Tensor | _Number | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def clip_(self, min: Tensor | _Number | None = ..., max: Tensor | _Number | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def clone(self, *, memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_ops/shape/memory.py
    def coalesce(self) -> Tensor: ...  # tdt/sparse/_methods.py
    def col_indices(self) -> Tensor: ...  # tdt/sparse/_methods.py
    def conj(self) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
    def conj_physical(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
    def conj_physical_(self) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
    def const_data_ptr(self) -> builtins.int: ...  # tdt/_core/interchange.py
    def contiguous(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/memory.py
    def copy_(self, src: Any, non_blocking: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/shape/memory.py
    def copysign(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def copysign_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def corrcoef(self) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
    def cos(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def cos_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def cosh(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def cosh_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def count_nonzero(self, dim: _Dims = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    def cov(self, *, correction: builtins.int = ..., fweights: Tensor | None = ..., aweights: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
    def cpu(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/memory.py
    def cross(self, other: Tensor, dim: builtins.int | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
    def crow_indices(self) -> Tensor: ...  # tdt/sparse/_methods.py
    def cuda(self, device: _Device | None = ..., non_blocking: builtins.bool = ..., memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/memory.py
    def cummax(self, dim: builtins.int, *, out: tuple[Tensor, Tensor] | None = ...) -> _cummax_result: ...  # tdt/_ops/reduce/cumulative.py
    def cummin(self, dim: builtins.int, *, out: tuple[Tensor, Tensor] | None = ...) -> _cummin_result: ...  # tdt/_ops/reduce/cumulative.py
    def cumprod(self, dim: builtins.int, *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/cumulative.py
    def cumprod_(self, dim: builtins.int, *, dtype: _dtype | None = ...) -> Tensor: ...  # tdt/_ops/reduce/cumulative.py
    def cumsum(self, dim: builtins.int, *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/cumulative.py
    def cumsum_(self, dim: builtins.int, *, dtype: _dtype | None = ...) -> Tensor: ...  # tdt/_ops/reduce/cumulative.py
    @property
    def data(self) -> Tensor: ...
    @data.setter
    def data(self, value: Tensor) -> None: ...
    def data_ptr(self) -> builtins.int: ...  # tdt/_core/interchange.py
    def deg2rad(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def deg2rad_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def dense_dim(self) -> builtins.int: ...  # tdt/_core/layout.py
    def det(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/root_namespace.py
    def detach(self) -> Tensor: ...  # tdt/autograd/_variable.py
    def detach_(self) -> Tensor: ...  # tdt/autograd/_variable.py
    def diag(self, diagonal: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/diagonals.py
    def diag_embed(self, offset: builtins.int = ..., dim1: builtins.int = ..., dim2: builtins.int = ...) -> Tensor: ...  # tdt/_ops/shape/diagonals.py
    def diagflat(self, offset: builtins.int = ...) -> Tensor: ...  # tdt/_ops/shape/diagonals.py
    def diagonal(self, offset: builtins.int = ..., dim1: builtins.int = ..., dim2: builtins.int = ...) -> Tensor: ...  # tdt/_ops/shape/views.py
    def diagonal_scatter(self, src: Tensor, offset: builtins.int = ..., dim1: builtins.int = ..., dim2: builtins.int = ...) -> Tensor: ...  # tdt/_ops/shape/view_scatter.py
    def diff(self, n: builtins.int = ..., dim: builtins.int = ..., prepend: Tensor | None = ..., append: Tensor | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/cumulative.py
    def digamma(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def digamma_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def dim_order(self, ambiguity_check: builtins.bool = ...) -> tuple[builtins.int, ...]: ...  # tdt/_core/layout.py
    def dist(self, other: Tensor, p: builtins.float = ...) -> Tensor: ...  # tdt/_ops/linalg/norms.py
    def div(self, other: _Operand) -> Tensor: ...
    def div_(self, other: _Operand) -> Tensor: ...
    def divide(self, other: Tensor | _Number, *, rounding_mode: str | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def divide_(self, other: Tensor | _Number, *, rounding_mode: str | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def dot(self, tensor: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
    def double(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/conversions.py
    def dsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
    def eq(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...  # type: ignore[override]
    def eq_(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...  # type: ignore[override]
    def equal(self, other: Tensor) -> builtins.bool: ...  # tdt/_ops/elementwise/compare.py
    def erf(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def erf_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def erfc(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def erfc_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def erfinv(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def erfinv_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def exp(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def exp2(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def exp2_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def exp_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def expand(self, *sizes: builtins.int | Sequence[builtins.int], implicit: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/shape/views.py
    def expand_as(self, other: Tensor) -> Tensor: ...  # tdt/_ops/shape/views.py
    def expm1(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def expm1_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def exponential_(self, lambd: builtins.float = ..., *, generator: Generator | None = ...) -> Tensor: ...  # tdt/_ops/random/fill.py
    def fill_(self, value: Tensor | _Number) -> Tensor: ...  # tdt/_ops/shape/memory.py
    def fill_diagonal_(self, fill_value: _Number, wrap: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/index/getitem.py
    def fix(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def fix_(self) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def flatten(self, start_dim: builtins.int = ..., end_dim: builtins.int = ...) -> Tensor: ...  # tdt/_ops/shape/views.py
    def flip(self, *places: builtins.int | Sequence[builtins.int], dims: _Dims = ...) -> Tensor: ...  # tdt/_ops/shape/reorder.py
    def fliplr(self) -> Tensor: ...  # tdt/_ops/shape/reorder.py
    def flipud(self) -> Tensor: ...  # tdt/_ops/shape/reorder.py
    def float(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/conversions.py
    def float_power(self, exponent: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def float_power_(self, exponent: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def floor(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def floor_(self) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def floor_divide(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def floor_divide_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def fmax(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def fmin(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def fmod(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def fmod_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def frac(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def frac_(self) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def frexp(self, *, out: tuple[Tensor, Tensor] | None = ...) -> _frexp_result: ...  # tdt/_ops/elementwise/rounding.py
    def gather(self, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/scatter.py
    def gcd(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def gcd_(self, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def ge(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def ge_(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def geometric_(self, p: builtins.float, *, generator: Generator | None = ...) -> Tensor: ...  # tdt/_ops/random/fill.py
    def geqrf(self, *, out: tuple[Tensor, Tensor] | None = ...) -> _geqrf_result: ...  # tdt/_ops/linalg/householder.py
    def ger(self, vec2: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
    def get_device(self) -> builtins.int: ...  # tdt/_core/layout.py
    @property
    def grad(self) -> Tensor | None: ...
    @grad.setter
    def grad(self, value: Tensor | None) -> None: ...
    @property
    def grad_dtype(self) -> _dtype | None: ...
    @property
    def grad_fn(self) -> Any: ...
    def greater(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def greater_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def greater_equal(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def greater_equal_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def gt(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def gt_(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def half(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/conversions.py
    def hardshrink(self, lambd: builtins.float = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/piecewise.py
    def hash_tensor(self, dim: _Dims = ..., *, keepdim: builtins.bool = ..., mode: builtins.int = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    def heaviside(self, values: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def heaviside_(self, values: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def histc(self, bins: builtins.int = ..., min: builtins.float = ..., max: builtins.float = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/counting.py
    def histogram(self, bins: builtins.int | Tensor = ..., *, range: Sequence[builtins.float] | None = ..., weight: Tensor | None = ..., density: builtins.bool = ..., out: tuple[Tensor, Tensor] | None = ...) -> _histogram_result: ...  # tdt/_ops/reduce/counting.py
    def hsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
    def hypot(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def hypot_(self, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def i0(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/special.py
    def i0_(self) -> Tensor: ...  # tdt/_ops/elementwise/special.py
    def igamma(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/special.py
    def igamma_(self, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/special.py
    def igammac(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/special.py
    def igammac_(self, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/special.py
    @property
    def imag(self) -> Tensor: ...
    def index_add(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
    def index_add_(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: _Number = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
    def index_copy(self, dim: builtins.int, index: Tensor, source: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
    def index_copy_(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor: ...  # tdt/_ops/index/pick.py
    def index_fill(self, dim: builtins.int, index: Tensor, value: Tensor | _Number) -> Tensor: ...  # tdt/_ops/index/pick.py
    def index_fill_(self, dim: builtins.int, index: Tensor, value: Tensor | _Number) -> Tensor: ...  # tdt/_ops/index/pick.py
    def index_put(self, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/index/getitem.py
    def index_put_(self, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/index/getitem.py
    def index_reduce(self, dim: builtins.int, index: Tensor, source: Tensor, reduce: Literal['prod', 'mean', 'amax', 'amin'], *, include_self: builtins.bool = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
    def index_reduce_(self, dim: builtins.int, index: Tensor, source: Tensor, reduce: Literal['prod', 'mean', 'amax', 'amin'], *, include_self: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
    def index_select(self, dim: builtins.int, index: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
    def indices(self) -> Tensor: ...  # tdt/sparse/_methods.py
    def inner(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
    def int(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/conversions.py
    def inverse(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/solve.py
    def is_coalesced(self) -> builtins.bool: ...  # tdt/sparse/_methods.py
    def is_conj(self) -> builtins.bool: ...  # tdt/_core/layout.py
    def is_contiguous(self, memory_format: _memory_format = ...) -> builtins.bool: ...  # tdt/_ops/shape/memory.py
    @property
    def is_cpu(self) -> builtins.bool: ...
    def is_distributed(self) -> builtins.bool: ...  # tdt/_core/layout.py
    @property
    def is_ipu(self) -> builtins.bool: ...
    @property
    def is_leaf(self) -> builtins.bool: ...
    @property
    def is_maia(self) -> builtins.bool: ...
    @property
    def is_meta(self) -> builtins.bool: ...
    @property
    def is_mkldnn(self) -> builtins.bool: ...
    @property
    def is_mps(self) -> builtins.bool: ...
    @property
    def is_mtia(self) -> builtins.bool: ...
    def is_neg(self) -> builtins.bool: ...  # tdt/_core/layout.py
    @property
    def is_nested(self) -> builtins.bool: ...
    def is_nonzero(self) -> builtins.bool: ...  # tdt/_core/layout.py
    def is_pinned(self, device: _Device | None = ...) -> builtins.bool: ...  # tdt/_ops/shape/resize.py
    @property
    def is_quantized(self) -> builtins.bool: ...
    def is_same_size(self, other: Tensor) -> builtins.bool: ...  # tdt/_core/layout.py
    def is_set_to(self, tensor: Tensor) -> builtins.bool: ...  # tdt/_core/layout.py
    def is_shared(self) -> builtins.bool: ...  # tdt/_ops/shape/resize.py
    @property
    def is_sparse(self) -> builtins.bool: ...
    @property
    def is_sparse_csr(self) -> builtins.bool: ...
    @property
    def is_vulkan(self) -> builtins.bool: ...
    @property
    def is_xla(self) -> builtins.bool: ...
    @property
    def is_xpu(self) -> builtins.bool: ...
    def isclose(self, other: Tensor, rtol: builtins.float = ..., atol: builtins.float = ..., equal_nan: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def isfinite(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def isinf(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def isnan(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def isneginf(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def isposinf(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def isreal(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def istft(self, n_fft: builtins.int, hop_length: builtins.int | None = ..., win_length: builtins.int | None = ..., window: Tensor | None = ..., center: builtins.bool = ..., normalized: builtins.bool = ..., onesided: builtins.bool | None = ..., length: builtins.int | None = ..., return_complex: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/spectral/stft.py
    def item(self) -> builtins.bool | builtins.int | builtins.float: ...  # tdt/_core/interchange.py
    def kron(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
    def kthvalue(self, k: builtins.int, dim: builtins.int = ..., keepdim: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _kthvalue_result: ...  # tdt/_ops/reduce/order.py
    @property
    def layout(self) -> _layout: ...
    def lcm(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def lcm_(self, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def ldexp(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def ldexp_(self, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def le(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def le_(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def lerp(self, end: Tensor, weight: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def lerp_(self, end: Tensor, weight: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def less(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def less_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def less_equal(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def less_equal_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def lgamma(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def lgamma_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def log(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def log10(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def log10_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def log1p(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def log1p_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def log2(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def log2_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def log_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def log_normal_(self, mean: builtins.float = ..., std: builtins.float = ..., *, generator: Generator | None = ...) -> Tensor: ...  # tdt/_ops/random/fill.py
    def log_softmax(self, dim: builtins.int, dtype: _dtype | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/nn/softmax.py
    def logaddexp(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def logaddexp2(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def logcumsumexp(self, dim: builtins.int, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/cumulative.py
    def logdet(self) -> Tensor: ...  # tdt/_ops/linalg/solve.py
    def logical_and(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def logical_and_(self, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def logical_not(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def logical_not_(self) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def logical_or(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def logical_or_(self, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def logical_xor(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def logical_xor_(self, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def logit(self, eps: builtins.float | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def logit_(self, eps: builtins.float | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def logsumexp(self, dim: _Dims, keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    def long(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/conversions.py
    def lt(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def lt_(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...
    def lu(self, pivot: builtins.bool = ..., get_infos: builtins.bool = ..., out: tuple[Tensor, ...] | None = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/linalg/root_namespace.py
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/root_namespace.py
    @property
    def mH(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    def map2_(self, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor: ...  # tdt/_ops/shape/resize.py
    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor: ...  # tdt/_ops/shape/resize.py
    def masked_fill(self, mask: Tensor, value: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def masked_fill_(self, mask: Tensor, value: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor: ...  # tdt/_ops/index/pick.py
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor: ...  # tdt/_ops/index/pick.py
    def masked_select(self, mask: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
    def matmul(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
    def matrix_exp(self) -> Tensor: ...  # tdt/_ops/linalg/matrix_functions.py
    def matrix_power(self, n: builtins.int, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/matrix_functions.py
    @overload
    def max(self) -> Tensor: ...
    @overload
    def max(self, dim: builtins.int, keepdim: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _max_result: ...
    @overload
    def max(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/order.py
    def maximum(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def mean(self, dim: _Dims = ..., keepdim: builtins.bool = ..., *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    @overload
    def median(self) -> Tensor: ...
    @overload
    def median(self, dim: builtins.int, keepdim: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _median_result: ...  # tdt/_ops/reduce/order.py
    @overload
    def min(self) -> Tensor: ...
    @overload
    def min(self, dim: builtins.int, keepdim: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _min_result: ...
    @overload
    def min(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/order.py
    def minimum(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def mm(self, mat2: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
    def mode(self, dim: builtins.int = ..., keepdim: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _mode_result: ...  # tdt/_ops/reduce/order.py
    def module_load(self, other: Tensor, assign: builtins.bool = ...) -> Tensor: ...  # tdt/_core/interchange.py
    def moveaxis(self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def movedim(self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def msort(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/order.py
    def mul(self, other: _Operand) -> Tensor: ...
    def mul_(self, other: _Operand) -> Tensor: ...
    def multinomial(self, num_samples: builtins.int, replacement: builtins.bool = ..., *, generator: Generator | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
    def multiply(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def multiply_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def mv(self, vec: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
    def mvlgamma(self, p: builtins.int, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/special.py
    def mvlgamma_(self, p: builtins.int) -> Tensor: ...  # tdt/_ops/elementwise/special.py
    @property
    def name(self) -> str | None: ...
    def nan_to_num(self, nan: builtins.float | None = ..., posinf: builtins.float | None = ..., neginf: builtins.float | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def nan_to_num_(self, nan: builtins.float | None = ..., posinf: builtins.float | None = ..., neginf: builtins.float | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def nanmean(self, dim: _Dims = ..., keepdim: builtins.bool = ..., *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    @overload
    def nanmedian(self) -> Tensor: ...
    @overload
    def nanmedian(self, dim: builtins.int, keepdim: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _nanmedian_result: ...  # tdt/_ops/reduce/order.py
    def nanquantile(self, q: builtins.float | Tensor, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., *, interpolation: Literal['linear', 'lower', 'higher', 'midpoint', 'nearest'] = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
    def nansum(self, dim: _Dims = ..., keepdim: builtins.bool = ..., *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    def narrow(self, dim: builtins.int, start: builtins.int | Tensor, length: builtins.int) -> Tensor: ...  # tdt/_ops/shape/views.py
    def narrow_copy(self, dim: builtins.int, start: builtins.int | Tensor, length: builtins.int, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
    def ne(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...  # type: ignore[override]
    def ne_(self, other: _Operand | np.ndarray[Any, Any]) -> Tensor: ...  # type: ignore[override]
    def neg(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def neg_(self) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def negative(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def negative_(self) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def new(self, *args: Any, device: Any = ...) -> Tensor: ...  # tdt/sparse/_methods.py
    def new_empty(self, *sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = ..., dtype: _dtype | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., layout: _layout | None = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/new_tensors.py
    def new_empty_strided(self, size: Sequence[builtins.int], stride: Sequence[builtins.int], *, dtype: _dtype | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ...) -> Tensor: ...  # tdt/_core/new_tensors.py
    def new_full(self, size: Sequence[builtins.int], fill_value: _Number, *, dtype: _dtype | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., layout: _layout | None = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/new_tensors.py
    def new_ones(self, *sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = ..., dtype: _dtype | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., layout: _layout | None = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/new_tensors.py
    def new_tensor(self, data: Any, *, dtype: _dtype | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ...) -> Tensor: ...  # tdt/_core/new_tensors.py
    def new_zeros(self, *sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = ..., dtype: _dtype | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., layout: _layout | None = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/new_tensors.py
    def nextafter(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def nextafter_(self, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def nonzero(self, *, out: Tensor | None = ..., as_tuple: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/index/nonzero.py
    def nonzero_static(self, *, size: builtins.int, fill_value: builtins.int = ...) -> Tensor: ...  # tdt/_ops/index/nonzero.py
    def norm(self, p: builtins.float | Literal['fro', 'nuc'] | None = ..., dim: _Dims = ..., keepdim: builtins.bool = ..., out: Tensor | None = ..., dtype: _dtype | None = ...) -> Tensor: ...  # tdt/_ops/linalg/norms.py
    def normal_(self, mean: builtins.float = ..., std: builtins.float = ..., *, generator: Generator | None = ...) -> Tensor: ...  # tdt/_ops/random/fill.py
    def not_equal(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def not_equal_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def numpy(self, *, force: builtins.bool = ...) -> np.ndarray[Any, Any]: ...  # tdt/_core/interchange.py
    def orgqr(self, input2: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/householder.py
    def ormqr(self, input2: Tensor, input3: Tensor, left: builtins.bool = ..., transpose: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/householder.py
    def outer(self, vec2: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
    @property
    def output_nr(self) -> builtins.int: ...
    def permute(self, *dims: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def pin_memory(self, device: _Device | None = ...) -> Tensor: ...  # tdt/_ops/shape/resize.py
    def pinverse(self, rcond: builtins.float = ...) -> Tensor: ...  # tdt/_ops/linalg/least_squares.py
    def polygamma(self, n: builtins.int) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def polygamma_(self, n: builtins.int) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def positive(self) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def pow(self, other: _Operand) -> Tensor: ...
    def pow_(self, other: _Operand) -> Tensor: ...
    def prelu(self, weight: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/piecewise.py
    def prod(self, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    def put(self, index: Tensor, source: Tensor, accumulate: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
    def put_(self, index: Tensor, source: Tensor, accumulate: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
    def qr(self, some: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _qr_result: ...  # tdt/_ops/linalg/root_namespace.py
    def quantile(self, q: builtins.float | Tensor, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., *, interpolation: Literal['linear', 'lower', 'higher', 'midpoint', 'nearest'] = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
    def rad2deg(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def rad2deg_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def random_(self, *ends: builtins.int | None, generator: Generator | None = ...) -> Tensor: ...  # tdt/_ops/random/fill.py
    def ravel(self) -> Tensor: ...  # tdt/_ops/shape/views.py
    @property
    def real(self) -> Tensor: ...
    def reciprocal(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def reciprocal_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Any: ...  # tdt/autograd/_variable.py
    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Any: ...  # tdt/autograd/_variable.py
    def relu(self, inplace: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/elementwise/piecewise.py
    def relu_(self) -> Tensor: ...  # tdt/_ops/elementwise/piecewise.py
    def remainder(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def remainder_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def renorm(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
    def renorm_(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
    def repeat(self, *repeats: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/join.py
    def repeat_interleave(self, repeats: Tensor | builtins.int | None = ..., dim: builtins.int | None = ..., *, output_size: builtins.int | None = ...) -> Tensor: ...  # tdt/_ops/shape/join.py
    @property
    def requires_grad(self) -> builtins.bool: ...
    @requires_grad.setter
    def requires_grad(self, value: builtins.bool) -> None: ...
    def requires_grad_(self, requires_grad: builtins.bool = ...) -> Tensor: ...  # tdt/autograd/_variable.py
    def reshape(self, *shape: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/views.py
    def reshape_as(self, other: Tensor) -> Tensor: ...  # tdt/_ops/shape/views.py
    def resize(self, *sizes: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/resize.py
    def resize_(self, *sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = ..., memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/resize.py
    def resize_as(self, tensor: Tensor) -> Tensor: ...  # tdt/_ops/shape/resize.py
    def resize_as_(self, the_template: Tensor, *, memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_ops/shape/resize.py
    def resolve_conj(self) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
    def resolve_neg(self) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
    def retain_grad(self) -> None: ...  # tdt/autograd/_variable.py
    @property
    def retains_grad(self) -> builtins.bool: ...
    def roll(self, shifts: builtins.int | Sequence[builtins.int], dims: _Dims = ...) -> Tensor: ...  # tdt/_ops/shape/reorder.py
    def rot90(self, k: builtins.int = ..., dims: Sequence[builtins.int] = ...) -> Tensor: ...  # tdt/_ops/shape/reorder.py
    def round(self, *, decimals: builtins.int | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def round_(self, *, decimals: builtins.int | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def rsqrt(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def rsqrt_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def scatter(self, dim: builtins.int, index: Tensor, src: Tensor | _Number | None = ..., *, value: _Number | None = ..., reduce: Literal['add', 'multiply'] | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/scatter.py
    def scatter_(self, dim: builtins.int, index: Tensor, src: Tensor | _Number | None = ..., *, value: _Number | None = ..., reduce: Literal['add', 'multiply'] | None = ...) -> Tensor: ...  # tdt/_ops/index/scatter.py
    def scatter_add(self, dim: builtins.int, index: Tensor, src: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/scatter.py
    def scatter_add_(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor: ...  # tdt/_ops/index/scatter.py
    def scatter_reduce(self, dim: builtins.int, index: Tensor, src: Tensor, reduce: Literal['sum', 'prod', 'mean', 'amax', 'amin'], *, include_self: builtins.bool = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/scatter.py
    def scatter_reduce_(self, dim: builtins.int, index: Tensor, src: Tensor, reduce: Literal['sum', 'prod', 'mean', 'amax', 'amin'], *, include_self: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/index/scatter.py
    def select(self, dim: builtins.int, index: builtins.int) -> Tensor: ...  # tdt/_ops/shape/views.py
    def select_scatter(self, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor: ...  # tdt/_ops/shape/view_scatter.py
    def set_(self, source: Tensor | UntypedStorage | TypedStorage | None = ..., storage_offset: builtins.int = ..., size: Sequence[builtins.int] | None = ..., stride: Sequence[builtins.int] | None = ...) -> Tensor: ...  # tdt/_ops/shape/resize.py
    def sgn(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def sgn_(self) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def share_memory_(self) -> Tensor: ...  # tdt/_ops/shape/resize.py
    def short(self, memory_format: _memory_format = ...) -> Tensor: ...  # tdt/_ops/shape/conversions.py
    def sigmoid(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def sigmoid_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def sign(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def sign_(self) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def signbit(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
    def sin(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def sin_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def sinc(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def sinc_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def sinh(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def sinh_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def slice_scatter(self, src: Tensor, dim: builtins.int = ..., start: builtins.int | None = ..., end: builtins.int | None = ..., step: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_scatter.py
    def slogdet(self, *, out: tuple[Tensor, Tensor] | None = ...) -> _slogdet_result: ...  # tdt/_ops/linalg/root_namespace.py
    def softmax(self, dim: builtins.int, dtype: _dtype | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/nn/softmax.py
    def sort(self, dim: builtins.int = ..., descending: builtins.bool = ..., stable: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _sort_result: ...  # tdt/_ops/reduce/order.py
    def sparse_dim(self) -> builtins.int: ...  # tdt/_core/layout.py
    def sparse_mask(self, mask: Tensor) -> Tensor: ...  # tdt/sparse/_methods.py
    def sparse_resize_(self, size: Any, sparse_dim: builtins.int, dense_dim: builtins.int) -> Tensor: ...  # tdt/sparse/_methods.py
    def sparse_resize_and_clear_(self, size: Any, sparse_dim: builtins.int, dense_dim: builtins.int) -> Tensor: ...  # tdt/sparse/_methods.py
    def split(self, split_size_or_sections: builtins.int | Sequence[builtins.int], dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
    def split_with_sizes(self, split_sizes: Sequence[builtins.int], dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
    def sqrt(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def sqrt_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def square(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def square_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def squeeze(self, dim: _Dims = ...) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def squeeze_(self, dim: _Dims = ...) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def std(self, dim: _Dims | builtins.bool | None = ..., unbiased: builtins.bool | None = ..., keepdim: builtins.bool = ..., *, correction: builtins.float | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/variance.py
    def stft(self, n_fft: builtins.int, hop_length: builtins.int | None = ..., win_length: builtins.int | None = ..., window: Tensor | None = ..., center: builtins.bool = ..., pad_mode: str = ..., normalized: builtins.bool = ..., onesided: builtins.bool | None = ..., return_complex: builtins.bool | None = ..., align_to_window: builtins.bool | None = ...) -> Tensor: ...  # tdt/_ops/spectral/stft.py
    def storage(self) -> TypedStorage: ...  # tdt/_core/storage.py
    def storage_offset(self) -> builtins.int: ...  # tdt/_ops/shape/split.py
    def storage_type(self) -> type[TypedStorage]: ...  # tdt/_core/storage.py
    def sub(self, other: _Operand) -> Tensor: ...
    def sub_(self, other: _Operand) -> Tensor: ...
    def subtract(self, other: Tensor | _Number, *, alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def subtract_(self, other: Tensor | _Number, *, alpha: _Number = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def sum(self, dim: _Dims = ..., keepdim: builtins.bool = ..., *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
    def sum_to_size(self, *size: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/views.py
    def svd(self, some: builtins.bool = ..., compute_uv: builtins.bool = ..., *, out: tuple[Tensor, Tensor, Tensor] | None = ...) -> _svd_result: ...  # tdt/_ops/linalg/root_namespace.py
    def swapaxes(self, axis0: builtins.int, axis1: builtins.int) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def swapaxes_(self, axis0: builtins.int, axis1: builtins.int) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def swapdims(self, dim0: builtins.int, dim1: builtins.int) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def swapdims_(self, dim0: builtins.int, dim1: builtins.int) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def t(self) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def t_(self) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def take(self, index: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
    def take_along_dim(self, indices: Tensor, dim: builtins.int | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
    def tan(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def tan_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def tanh(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def tanh_(self) -> Tensor: ...  # tdt/_ops/elementwise/math.py
    def tensor_split(self, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor, dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
    def tile(self, *dims: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/join.py
    def to(self, *args: Any, **options: Any) -> Tensor: ...  # tdt/_ops/shape/memory.py
    def to_dense(self, dtype: _dtype | None = ..., *, masked_grad: builtins.bool | None = ...) -> Tensor: ...  # tdt/sparse/_methods.py
    def to_sparse(self, sparse_dim: builtins.int | None = ..., *, layout: _layout | None = ..., blocksize: Any = ..., dense_dim: builtins.int | None = ...) -> Tensor: ...  # tdt/sparse/_methods.py
    def to_sparse_bsc(self, *args: Any, **options: Any) -> Tensor: ...  # tdt/sparse/_methods.py
    def to_sparse_bsr(self, *args: Any, **options: Any) -> Tensor: ...  # tdt/sparse/_methods.py
    def to_sparse_coo(self) -> Tensor: ...  # tdt/sparse/_methods.py
    def to_sparse_csc(self, *args: Any, **options: Any) -> Tensor: ...  # tdt/sparse/_methods.py
    def to_sparse_csr(self, dense_dim: builtins.int | None = ...) -> Tensor: ...  # tdt/sparse/_methods.py
    def tolist(self) -> Any: ...  # tdt/_core/interchange.py
    def topk(self, k: builtins.int, dim: builtins.int = ..., largest: builtins.bool = ..., sorted: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _topk_result: ...  # tdt/_ops/reduce/order.py
    def trace(self) -> Tensor: ...  # tdt/_ops/linalg/products.py
    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def transpose_(self, dim0: builtins.int, dim1: builtins.int) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def triangular_solve(self, A: Tensor, upper: builtins.bool = ..., transpose: builtins.bool = ..., unitriangular: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _triangular_solve_result: ...  # tdt/_ops/linalg/triangular.py
    def tril(self, diagonal: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/diagonals.py
    def tril_(self, diagonal: builtins.int = ...) -> Tensor: ...  # tdt/_ops/shape/diagonals.py
    def triu(self, diagonal: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/diagonals.py
    def triu_(self, diagonal: builtins.int = ...) -> Tensor: ...  # tdt/_ops/shape/diagonals.py
    def true_divide(self, other: Tensor | _Number, *, rounding_mode: str | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def true_divide_(self, other: Tensor | _Number, *, rounding_mode: str | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
    def trunc(self, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def trunc_(self) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
    def type(self, dtype: Any = ..., non_blocking: builtins.bool = ...) -> Any: ...  # tdt/compat/_old_types.py
    def type_as(self, other: Tensor) -> Tensor: ...  # tdt/_ops/shape/memory.py
    def unbind(self, dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
    def unflatten(self, dim: builtins.int, sizes: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/views.py
    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor: ...  # tdt/_ops/spectral/frames.py
    def uniform_(self, from_: builtins.float = ..., to: builtins.float = ..., *, generator: Generator | None = ...) -> Tensor: ...  # tdt/_ops/random/fill.py
    def unique(self, sorted: builtins.bool = ..., return_inverse: builtins.bool = ..., return_counts: builtins.bool = ..., dim: builtins.int | None = ...) -> Any: ...  # tdt/_ops/reduce/unique.py
    def unique_consecutive(self, return_inverse: builtins.bool = ..., return_counts: builtins.bool = ..., dim: builtins.int | None = ...) -> Tensor | tuple[Tensor, ...]: ...  # tdt/_ops/reduce/unique.py
    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
    def unsafe_split(self, split_size: builtins.int | Sequence[builtins.int], dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
    def unsafe_split_with_sizes(self, split_sizes: Sequence[builtins.int], dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
    def unsqueeze(self, dim: builtins.int) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def unsqueeze_(self, dim: builtins.int) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
    def untyped_storage(self) -> UntypedStorage: ...  # tdt/_core/storage.py
    def values(self) -> Tensor: ...  # tdt/sparse/_methods.py
    def var(self, dim: _Dims | builtins.bool | None = ..., unbiased: builtins.bool | None = ..., keepdim: builtins.bool = ..., *, correction: builtins.float | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/variance.py
    def vdot(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
    def view(self, *shape: builtins.int | Sequence[builtins.int] | _dtype, dtype: _dtype | None = ...) -> Tensor: ...  # tdt/_ops/shape/views.py
    def view_as(self, other: Tensor) -> Tensor: ...  # tdt/_ops/shape/views.py
    def vsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
    def where(self, condition: Tensor, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/select.py
    def xlogy(self, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def xlogy_(self, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
    def zero_(self) -> Tensor: ...  # tdt/_ops/shape/memory.py
_EMPTY: Any
_new: Any
def wrap(array: Any) -> Tensor:
    ...
def alias(array: Any, edge: tuple | None, storage: Any=None) -> Tensor:
    ...
def check_dim(dim: builtins.int, ndim: builtins.int) -> builtins.int:
    ...
