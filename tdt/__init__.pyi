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
from tdt.train.trained_model import load_model as load_model

from tdt import accelerator as accelerator
from tdt import amp as amp
from tdt import autograd as autograd
from tdt import backends as backends
from tdt import compiler as compiler
from tdt import cuda as cuda
from tdt import distributed as distributed
from tdt import distributions as distributions
from tdt import fft as fft
from tdt import func as func
from tdt import functional as functional
from tdt import linalg as linalg
from tdt import masked as masked
from tdt import multiprocessing as multiprocessing
from tdt import nn as nn
from tdt import onnx as onnx
from tdt import optim as optim
from tdt import profiler as profiler
from tdt import random as random
from tdt import serialization as serialization
from tdt import signal as signal
from tdt import sparse as sparse
from tdt import special as special
from tdt import storage as storage
from tdt import testing as testing
from tdt import train as train
from tdt import types as types
from tdt import utils as utils
from tdt import version as version
from tdt import vision as vision
from tdt.compat import fx as fx
from tdt.compat import futures as futures
from tdt.compat import hub as hub
from tdt.compat import jit as jit
from tdt.compat import library as library
from tdt.compat import ops as ops
from tdt.compat import overrides as overrides
from tdt._about import __version__ as __version__
from tdt._backend._gpu_memory import OutOfMemoryError as OutOfMemoryError
from tdt._core.tensor import Tensor as Tensor
from tdt.amp._mode import autocast as autocast
from tdt._backend.device import device as device
from tdt._core.dtype import dtype as dtype
from tdt._core.mode import enable_grad as enable_grad
from tdt._core.dtype import finfo as finfo
from tdt._core.dtype import iinfo as iinfo
from tdt._core.mode import inference_mode as inference_mode
from tdt._core.layout import layout as layout
from tdt._core.memory_format import memory_format as memory_format
from tdt._core.mode import no_grad as no_grad
from tdt._core.mode import set_grad_enabled as set_grad_enabled
from tdt._function_transforms import vmap as vmap
from tdt._core.tensor import _aminmax_result as _aminmax_result, _cummax_result as _cummax_result, _cummin_result as _cummin_result, _frexp_result as _frexp_result, _geqrf_result as _geqrf_result, _histogram_result as _histogram_result, _kthvalue_result as _kthvalue_result, _lu_unpack_result as _lu_unpack_result, _max_result as _max_result, _median_result as _median_result, _min_result as _min_result, _mode_result as _mode_result, _nanmedian_result as _nanmedian_result, _qr_result as _qr_result, _slogdet_result as _slogdet_result, _sort_result as _sort_result, _svd_result as _svd_result, _topk_result as _topk_result, _triangular_solve_result as _triangular_solve_result
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

class BFloat16Storage(TypedStorage): ...
class BFloat16Tensor(Tensor): ...
class BoolStorage(TypedStorage): ...
class BoolTensor(Tensor): ...
class ByteStorage(TypedStorage): ...
class ByteTensor(Tensor): ...
class CharStorage(TypedStorage): ...
class CharTensor(Tensor): ...
class ComplexDoubleStorage(TypedStorage): ...
class ComplexFloatStorage(TypedStorage): ...
class DoubleStorage(TypedStorage): ...
class DoubleTensor(Tensor): ...
class FloatStorage(TypedStorage): ...
class FloatTensor(Tensor): ...
class HalfStorage(TypedStorage): ...
class HalfTensor(Tensor): ...
class IntStorage(TypedStorage): ...
class IntTensor(Tensor): ...
class LongStorage(TypedStorage): ...
class LongTensor(Tensor): ...
class ShortStorage(TypedStorage): ...
class ShortTensor(Tensor): ...
def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """The absolute value of each element; of complex numbers the modulus, in the real dtype."""
def abs_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """In-place version of `abs`."""
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """The absolute value of each element; of complex numbers the modulus, in the real dtype."""
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The inverse cosine of each element, in radians in [0, π]; nan outside [-1, 1]."""
def acos_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `acos`."""
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The inverse hyperbolic cosine of each element; nan below 1."""
def acosh_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `acosh`."""
def adaptive_avg_pool1d(input: Tensor, output_size: _Ints) -> Tensor:  # tdt/_ops/nn/pool_average.py
    """Mean over `output_size` windows that cover the input evenly."""
def adaptive_max_pool1d(input: Tensor, output_size: _Ints) -> tuple[Tensor, Tensor]:  # tdt/_ops/nn/pool_uneven.py
    """Maximum over `output_size` windows that cover the input evenly, and the position of each."""
def add(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The sum input + alpha · other."""
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/add_products.py
    """Sum of a tensor and the matrix products of a batch: beta · input + alpha · (batch1 @ batch2).sum(0)."""
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
    """The sum input + value · tensor1 / tensor2."""
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
    """The sum input + value · tensor1 · tensor2."""
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/add_products.py
    """Sum of a tensor and a matrix product: beta · input + alpha · (mat1 @ mat2)."""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/add_products.py
    """Sum of a tensor and a matrix-vector product: beta · input + alpha · (mat @ vec)."""
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:  # tdt/_ops/linalg/add_products.py
    """In-place version of `addmv`."""
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/add_products.py
    """Sum of a tensor and an outer product: beta · input + alpha · outer(vec1, vec2)."""
def adjoint(input: Tensor) -> Tensor:  # tdt/_ops/shape/dimensions.py
    """The conjugate transpose of a matrix or of each matrix in a batch."""
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """The elements of `input` in memory of their own."""
def all(input: Tensor, dim: _Dims = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/truth.py
    """Whether all elements over `dim` are non-zero: bool, but uint8 for uint8 input."""
def allclose(input: Tensor, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:  # tdt/_ops/elementwise/compare.py
    """Whether `isclose` is True for every pair of elements."""
def alpha_dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:  # tdt/_ops/nn/dropout.py
    """Replace each element with probability `p` by SELU's negative limit; mean 0 and variance 1 are mask."""
def alpha_dropout_(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:  # tdt/_ops/nn/dropout.py
    """In-place version of `alpha_dropout`."""
def amax(input: Tensor, dim: _Dims = (), keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/extremes.py
    """Largest element over `dim`; the gradient is divided equally among ties."""
def amin(input: Tensor, dim: _Dims = (), keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/extremes.py
    """Smallest element over `dim`; the gradient is divided equally among ties."""
def aminmax(input: Tensor, *, dim: builtins.int | None = None, keepdim: builtins.bool = False, out: tuple[Tensor, Tensor] | None = None) -> _aminmax_result:  # tdt/_ops/reduce/extremes.py
    """Smallest and largest element along `dim`, or of the whole tensor."""
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """The argument of each complex number, in radians in (-π, π]; of real numbers 0, or π below 0."""
def any(input: Tensor, dim: _Dims = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/truth.py
    """Whether at least one element over `dim` is non-zero: bool, but uint8 for uint8 input."""
def arange(start: _Number | Tensor | None = None, end: _Number | Tensor | None = None, step: _Number | Tensor = 1, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/ranges.py
    """The numbers start, start + step, … below `end` (above it for a negative step)."""
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The inverse cosine of each element, in radians in [0, π]; nan outside [-1, 1]."""
def arccos_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `acos`."""
def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The inverse hyperbolic cosine of each element; nan below 1."""
def arccosh_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `acosh`."""
def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The inverse sine of each element, in radians in [-π/2, π/2]; nan outside [-1, 1]."""
def arcsin_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `asin`."""
def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The inverse hyperbolic sine of each element."""
def arcsinh_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `asinh`."""
def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The inverse tangent of each element, in radians in (-π/2, π/2)."""
def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
    """The angle of the point (x, y) = (other, input), in radians in (-π, π]."""
def arctan_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `atan`."""
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The inverse hyperbolic tangent of each element; nan outside [-1, 1]."""
def arctanh_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `atanh`."""
def are_deterministic_algorithms_enabled() -> builtins.bool:  # tdt/compat/_switches.py
    """Whether `use_deterministic_algorithms(True)` was called last."""
def argmax(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/extremes.py
    """Index of the largest element, of equal ones the first."""
def argmin(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/extremes.py
    """Index of the smallest element, of equal ones the first."""
def argsort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/sort.py
    """Indices that put the elements in order along `dim`; nan counts as larger than all numbers."""
def argwhere(input: Tensor) -> Tensor:  # tdt/_ops/index/nonzero.py
    """Indices of the elements that are not 0, a row each."""
def as_strided(input: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor:  # tdt/_ops/shape/split.py
    """A view of the memory of `input` with any sizes and strides."""
def as_strided_(input: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor:  # tdt/_ops/shape/split.py
    """In-place version of `as_strided`."""
def as_strided_copy(input: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy of what `as_strided` returns."""
def as_strided_scatter(input: Tensor, src: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor:  # tdt/_ops/shape/view_scatter.py
    """A copy of `input` with `src` in the view that `as_strided` returns."""
def as_tensor(data: Any, dtype: _dtype | None = None, device: _Device | None = None) -> Tensor:  # tdt/_core/creation.py
    """`data` as a tensor, sharing memory with an array or tensor of the same dtype and device; else as `tensor`."""
def asarray(obj: Any, *, dtype: _dtype | None = None, device: _Device | None = None, copy: builtins.bool | None = None, requires_grad: builtins.bool | None = None) -> Tensor:  # tdt/_core/sharing.py
    """`obj` as a tensor that shares its memory where possible."""
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The inverse sine of each element, in radians in [-π/2, π/2]; nan outside [-1, 1]."""
def asin_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `asin`."""
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The inverse hyperbolic sine of each element."""
def asinh_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `asinh`."""
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The inverse tangent of each element, in radians in (-π/2, π/2)."""
def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
    """The angle of the point (x, y) = (other, input), in radians in (-π, π]."""
def atan_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `atan`."""
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The inverse hyperbolic tangent of each element; nan outside [-1, 1]."""
def atanh_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `atanh`."""
@overload
def atleast_1d(tensor: Tensor, /) -> Tensor:
    """Views of tensors with at least 1 dimension; a tensor that has them is returned unchanged."""
@overload
def atleast_1d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]:
    """Views of tensors with at least 1 dimension; a tensor that has them is returned unchanged."""
@overload
def atleast_1d(tensor: Tensor, second: Tensor, /, *tensors: Tensor) -> tuple[Tensor, ...]:  # tdt/_ops/shape/join.py
    """Views of tensors with at least 1 dimension; a tensor that has them is returned unchanged."""
@overload
def atleast_2d(tensor: Tensor, /) -> Tensor:
    """Views of tensors with at least 2 dimensions; a tensor that has them is returned unchanged."""
@overload
def atleast_2d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]:
    """Views of tensors with at least 2 dimensions; a tensor that has them is returned unchanged."""
@overload
def atleast_2d(tensor: Tensor, second: Tensor, /, *tensors: Tensor) -> tuple[Tensor, ...]:  # tdt/_ops/shape/join.py
    """Views of tensors with at least 2 dimensions; a tensor that has them is returned unchanged."""
@overload
def atleast_3d(tensor: Tensor, /) -> Tensor:
    """Views of tensors with at least 3 dimensions; a tensor that has them is returned unchanged."""
@overload
def atleast_3d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]:
    """Views of tensors with at least 3 dimensions; a tensor that has them is returned unchanged."""
@overload
def atleast_3d(tensor: Tensor, second: Tensor, /, *tensors: Tensor) -> tuple[Tensor, ...]:  # tdt/_ops/shape/join.py
    """Views of tensors with at least 3 dimensions; a tensor that has them is returned unchanged."""
def avg_pool1d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True) -> Tensor:  # tdt/_ops/nn/pool_average.py
    """Mean of each window of a 1-D signal."""
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/add_products.py
    """Sum of a tensor and batched matrix products: beta · input + alpha · (batch1 @ batch2)."""
def bartlett_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:  # tdt/_ops/spectral/window_functions.py
    """Bartlett window: a triangle from 0 to 1 and back to 0."""
def batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: builtins.bool, momentum: builtins.float, eps: builtins.float, cudnn_enabled: builtins.bool) -> Tensor:  # tdt/_ops/nn/norm_by_position.py
    """Normalise each channel over the batch to mean 0 and variance 1, then scale it by `weight` and shift it by `bias`."""
def bernoulli(input: Tensor, p: builtins.float | None = None, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/random/creation.py
    """Ones and zeros: 1 with the probability in `input`, or `p` if it is given. The gradient is zero."""
bfloat16: _dtype
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # tdt/_ops/nn/linear.py
    """input1ᵀ · weight[o] · input2 + bias[o] for each output feature o."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: builtins.int = 0) -> Tensor:  # tdt/_ops/nn/loss/native.py
    """Binary cross-entropy of sigmoid(input), as `nn.functional.binary_cross_entropy_with_logits`."""
def bincount(input: Tensor, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:  # tdt/_ops/reduce/counting.py
    """Number of occurrences of each integer 0, 1, … in a vector, or the sum of the weights of its occurrences."""
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:  # tdt/_ops/random/creation.py
    """Random number of successes in `count` trials of probability `prob`, for each element; gradients are zero."""
def bitwise_and(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """The bitwise AND of two integers; the logical AND of two bools."""
def bitwise_left_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Integers shifted left by `other` bits: input · 2^other, without the bits that leave the type."""
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """The bitwise NOT of each integer; the logical NOT of each bool."""
def bitwise_or(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """The bitwise OR of two integers; the logical OR of two bools."""
def bitwise_right_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Integers shifted right by `other` bits: input / 2^other, rounded down."""
def bitwise_xor(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """The bitwise exclusive OR of two integers; the logical one of two bools."""
def blackman_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:  # tdt/_ops/spectral/window_functions.py
    """Blackman window: 0.42 - 0.5 cos(2πn/N) + 0.08 cos(4πn/N)."""
def block_diag(*tensors: Tensor) -> Tensor:  # tdt/_ops/shape/diagonals.py
    """The matrix with the given matrices along its diagonal, zeros elsewhere."""
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
    """Products of the matrices of two batches."""
bool: _dtype
def broadcast_shapes(*shapes: builtins.int | Sequence[builtins.int]) -> Size:  # tdt/_ops/shape/views.py
    """The shape to which several shapes broadcast."""
def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:  # tdt/_ops/shape/views.py
    """Views of all tensors, expanded to the shape to which they broadcast."""
def broadcast_to(input: Tensor, size: Sequence[builtins.int]) -> Tensor:  # tdt/_ops/shape/views.py
    """A view of `input` broadcast to a shape."""
def bucketize(input: Tensor | _Number, boundaries: Tensor, *, out_int32: builtins.bool = False, right: builtins.bool = False, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/search.py
    """Index of the bucket of each value: the number of boundaries below it."""
def can_cast(from_: _dtype, to: _dtype) -> builtins.bool:  # tdt/_core/dtype.py
    """Whether a result of type `from_` may be stored in `to`: never down a category (complex, float, integer, bool)."""
def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor:  # tdt/_ops/shape/combine.py
    """Every combination of one element from each vector, a row each; the last vector varies fastest."""
def cat(tensors: Sequence[Tensor], dim: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/join.py
    """The tensors one after another along `dim`."""
def cdist(x1: Tensor, x2: Tensor, p: builtins.float = 2.0, compute_mode: str = 'use_mm_for_euclid_dist_if_necessary') -> Tensor:  # tdt/_ops/linalg/distance.py
    """Distances, in the p-norm, between each row of x1 and each row of x2."""
cdouble: _dtype
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """The smallest integer that is at least x, for each element."""
def ceil_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """In-place version of `ceil`."""
def celu(input: Tensor, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:  # tdt/_ops/elementwise/activation.py
    """Continuously differentiable exponential linear unit: x where x > 0, else alpha · (exp(x / alpha) - 1)."""
def celu_(input: Tensor, alpha: builtins.float = 1.0) -> Tensor:  # tdt/_ops/elementwise/activation.py
    """In-place version of `celu`."""
cfloat: _dtype
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/matrix_functions.py
    """Product of several matrices; deprecated in favour of `linalg.multi_dot`."""
def channel_shuffle(input: Tensor, groups: builtins.int) -> Tensor:  # tdt/_ops/nn/shuffle.py
    """Reorder channels so that neighbours come from different groups: (groups, C / groups) is transposed."""
channels_last: _memory_format
channels_last_3d: _memory_format
def cholesky(input: Tensor, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/root_namespace.py
    """Cholesky decomposition input = L Lᴴ: the lower triangular L; `linalg.cholesky` is the newer form."""
def cholesky_inverse(input: Tensor, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/triangular.py
    """Inverse of A from its Cholesky factor: A = L Lᴴ with L = input."""
def cholesky_solve(input: Tensor, input2: Tensor, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/triangular.py
    """Solution X of A X = input from the Cholesky factor of A: A = L Lᴴ with L = input2."""
def chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
    """At most `chunks` views of equal size along `dim`, the last possibly smaller."""
def clamp(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
    """Each element limited to the interval [min, max]; where min > max the result is max."""
def clamp_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
    """In-place version of `clamp`."""
def clamp_max(input: Tensor, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
    """The smaller of each element and `max`."""
def clamp_max_(input: Tensor, max: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/select.py
    """In-place version of `clamp_max`."""
def clamp_min(input: Tensor, min: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
    """The larger of each element and `min`."""
def clamp_min_(input: Tensor, min: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/select.py
    """In-place version of `clamp_min`."""
def clear_autocast_cache() -> None:  # tdt/amp/_mode.py
    """Forget the parameters that the active autocast block has cast."""
def clip(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
    """Each element limited to the interval [min, max]; where min > max the result is max."""
def clip_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
    """In-place version of `clamp`."""
def clone(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_ops/shape/memory.py
    """A copy in new memory, through which gradients flow."""
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/join.py
    """The tensors joined along dimension 1; a vector counts as a column."""
def combinations(input: Tensor, r: builtins.int = 2, with_replacement: builtins.bool = False) -> Tensor:  # tdt/_ops/shape/combine.py
    """Every combination of `r` elements of a vector, a row each, in the order of the vector."""
def compile(model: Callable[..., Any] | None = None, *, fullgraph: builtins.bool = False, dynamic: builtins.bool | None = None, backend: str | Callable[..., Any] | None = None, mode: str | None = None, options: dict[str, Any] | None = None, name: str | None = None, disable: builtins.bool = False, recompile_limit: builtins.int | None = None, isolate_recompiles: builtins.bool = False, shapes_spec: Any = None) -> Any:  # tdt/_compiled/__init__.py
    """`model` compiled: its ops are recorded in a first call, and further calls of the same kind compute the same bits."""
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
    """The complex numbers real + i · imag."""
complex128: _dtype
complex64: _dtype
def concat(tensors: Sequence[Tensor], dim: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/join.py
    """The tensors one after another along `dim`."""
def concatenate(tensors: Sequence[Tensor], dim: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/join.py
    """The tensors one after another along `dim`."""
def conj(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
    """The complex conjugate of each element; a real tensor is returned itself."""
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
    """The complex conjugate of each element, computed at once, which `conj` does here, too."""
def conj_physical_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
    """In-place version of `conj_physical`."""
def constant_pad_nd(input: Tensor, pad: Sequence[builtins.int], value: builtins.float = 0) -> Tensor:  # tdt/_ops/nn/pad.py
    """`input` with cells of `value` added at the ends of its last dimensions; negative numbers crop."""
contiguous_format: _memory_format
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints | str = 0, dilation: _Ints = 1, groups: builtins.int = 1) -> Tensor:  # tdt/_ops/nn/conv.py
    """Cross-correlation of a 1-D signal with `weight`, plus `bias`."""
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints | str = 0, dilation: _Ints = 1, groups: builtins.int = 1) -> Tensor:  # tdt/_ops/nn/conv.py
    """Cross-correlation of images with `weight`, plus `bias`."""
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints | str = 0, dilation: _Ints = 1, groups: builtins.int = 1) -> Tensor:  # tdt/_ops/nn/conv.py
    """Cross-correlation of volumes with `weight`, plus `bias`."""
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: builtins.int = 0) -> Tensor:  # tdt/_ops/nn/conv_transpose.py
    """`conv1d` with stride 1 of time-first sequences with channels last."""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints = 0, output_padding: _Ints = 0, groups: builtins.int = 1, dilation: _Ints = 1) -> Tensor:  # tdt/_ops/nn/conv_transpose.py
    """Transposed convolution of a 1-D signal: the gradient of `conv1d` with respect to its input."""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints = 0, output_padding: _Ints = 0, groups: builtins.int = 1, dilation: _Ints = 1) -> Tensor:  # tdt/_ops/nn/conv_transpose.py
    """Transposed convolution of images: the gradient of `conv2d` with respect to its input."""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints = 0, output_padding: _Ints = 0, groups: builtins.int = 1, dilation: _Ints = 1) -> Tensor:  # tdt/_ops/nn/conv_transpose.py
    """Transposed convolution of volumes: the gradient of `conv3d` with respect to its input."""
def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[builtins.int], padding: Sequence[builtins.int], dilation: Sequence[builtins.int], transposed: builtins.bool, output_padding: Sequence[builtins.int], groups: builtins.int) -> Tensor:  # tdt/_ops/nn/conv_transpose.py
    """`conv1d` to `conv3d`, or `conv_transpose1d` to `conv_transpose3d`, by the number of the weight's dimensions."""
def copysign(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
    """The absolute value of `input` with the sign of `other`."""
def corrcoef(input: Tensor) -> Tensor:  # tdt/_ops/reduce/statistics.py
    """Matrix of the Pearson correlation coefficients of variables (rows) over observations (columns)."""
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The cosine of each element, an angle in radians."""
def cos_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `cos`."""
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The hyperbolic cosine of each element."""
def cosh_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `cosh`."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0.0, reduction: builtins.int = 0) -> Tensor:  # tdt/_ops/nn/loss/native.py
    """1 - cos of the angle between the inputs where `target` is 1, max(0, cos - margin) where it is -1."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: builtins.int = 1, eps: builtins.float = 1e-08) -> Tensor:  # tdt/_ops/linalg/distance.py
    """Cosine of the angle between vectors along `dim`."""
def count_nonzero(input: Tensor, dim: _Dims = None) -> Tensor:  # tdt/_ops/reduce/truth.py
    """Number of non-zero elements over `dim`, an int64."""
def cov(input: Tensor, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/statistics.py
    """Covariance matrix of variables (rows) over observations (columns)."""
def cross(input: Tensor, other: Tensor, dim: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/cross.py
    """Cross product of vectors of 3 elements along `dim`."""
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: _Lengths, target_lengths: _Lengths, blank: builtins.int = 0, reduction: builtins.int = 0, zero_infinity: builtins.bool = False) -> Tensor:  # tdt/_ops/nn/loss/native.py
    """Connectionist temporal classification loss, as `nn.functional.ctc_loss`."""
def cummax(input: Tensor, dim: builtins.int, *, out: tuple[Tensor, Tensor] | None = None) -> _cummax_result:  # tdt/_ops/reduce/cumulative.py
    """Largest element up to each position along `dim`, and its index, of equal elements the last; nan persists."""
def cummin(input: Tensor, dim: builtins.int, *, out: tuple[Tensor, Tensor] | None = None) -> _cummin_result:  # tdt/_ops/reduce/cumulative.py
    """Smallest element up to each position along `dim`, and its index, of equal elements the last; nan persists."""
def cumprod(input: Tensor, dim: builtins.int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/cumulative.py
    """Cumulative products along `dim`; of integers and bools as int64."""
def cumsum(input: Tensor, dim: builtins.int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/cumulative.py
    """Cumulative sums along `dim`; of integers and bools as int64."""
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: builtins.float = 1, dim: builtins.int = -1) -> Tensor:  # tdt/_ops/reduce/statistics.py
    """Cumulative integrals along `dim` by the trapezoidal rule, from the first point to each of the others."""
default_generator: Generator
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """Angles in degrees converted to radians."""
def deg2rad_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `deg2rad`."""
def det(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/root_namespace.py
    """Determinant of each square matrix."""
def detach(input: Tensor) -> Tensor:  # tdt/autograd/_variable.py
    """A tensor on the same memory that takes no part in the graph."""
def detach_(input: Tensor) -> Tensor:  # tdt/autograd/_variable.py
    """Take this tensor out of the graph, in place."""
def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy of `input` that takes no part in the graph."""
def diag(input: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/diagonals.py
    """The matrix with a vector on its diagonal, or a copy of the diagonal of a matrix."""
def diag_embed(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:  # tdt/_ops/shape/diagonals.py
    """Matrices with the last dimension of `input` on their diagonal, zeros elsewhere."""
def diagflat(input: Tensor, offset: builtins.int = 0) -> Tensor:  # tdt/_ops/shape/diagonals.py
    """The matrix with all elements of `input` on its diagonal."""
def diagonal(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:  # tdt/_ops/shape/diagonals.py
    """The view of a diagonal of each plane (`dim1`, `dim2`), as the last dimension."""
def diagonal_copy(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy of the diagonal that `diagonal` returns."""
def diagonal_scatter(input: Tensor, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:  # tdt/_ops/shape/view_scatter.py
    """A copy of `input` with `src` on the diagonal that `diagonal` returns."""
def diff(input: Tensor, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/cumulative.py
    """Differences of neighbouring elements along `dim`, taken n times; of bools, whether neighbours differ."""
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The derivative of lgamma, ψ(x) = Γ'(x) / Γ(x), of each element."""
def dist(input: Tensor, other: Tensor, p: builtins.float = 2) -> Tensor:  # tdt/_ops/linalg/norms.py
    """The p-norm of input - other."""
def div(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The quotient input / other, element by element."""
def divide(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The quotient input / other, element by element."""
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
    """Dot product of two vectors, without conjugation."""
double: _dtype
def dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:  # tdt/_ops/nn/dropout.py
    """Zero each element with probability `p` and scale the rest by 1 / (1 - p)."""
def dropout_(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:  # tdt/_ops/nn/dropout.py
    """In-place version of `dropout`."""
def dsmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
    """Product of two matrices."""
def dsplit(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
    """Views along dimension 2: a number of them of equal size, or split before the given indices."""
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/join.py
    """The tensors joined along dimension 2, after `atleast_3d`."""
e: builtins.float
def einsum(*args: Any) -> Tensor:  # tdt/_ops/linalg/einsum.py
    """Sums of products in Einstein's notation: `einsum("bij,bjk->bik", x, y)`, or `einsum(x, [0, 1], y, [1], [0])`."""
def embedding(weight: Tensor, indices: Tensor, padding_idx: builtins.int = -1, scale_grad_by_freq: builtins.bool = False, sparse: builtins.bool = False) -> Tensor:  # tdt/_ops/nn/embedding.py
    """Rows of the embedding table `weight` at `indices`."""
def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: builtins.bool = False, mode: builtins.int = 0, sparse: builtins.bool = False, per_sample_weights: Tensor | None = None, include_last_offset: builtins.bool = False, padding_idx: builtins.int | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # tdt/_ops/nn/embedding_bag.py
    """Sum, mean or maximum of the rows of `weight` in each bag of indices; 0 for an empty bag."""
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: builtins.float, norm_type: builtins.float) -> Tensor:  # tdt/_ops/nn/embedding.py
    """Scale the rows of `input` at `indices` down to the norm `max_norm`, in place; the other rows stay."""
def empty(*sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_core/creation.py
    """A tensor of the given size, not initialized."""
def empty_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_core/creation.py
    """A tensor with the shape, dtype and device of `input`, not initialized."""
def empty_permuted(size: Sequence[builtins.int], physical_layout: Sequence[builtins.int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/strided_creation.py
    """An uninitialized tensor whose dimensions lie in memory in the order `physical_layout`, without gaps."""
def empty_strided(size: Sequence[builtins.int], stride: Sequence[builtins.int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/strided_creation.py
    """An uninitialized tensor of the given size and strides."""
def eq(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether input == other, element by element; a bool tensor."""
def equal(input: Tensor, other: Tensor) -> builtins.bool:  # tdt/_ops/elementwise/compare.py
    """Whether two tensors have the same shape and equal elements."""
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The error function of each element, 2 / √π · ∫₀^x exp(-t²) dt."""
def erf_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `erf`."""
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The complementary error function of each element, 1 - erf(x), accurate for large x."""
def erfc_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `erfc`."""
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The inverse error function of each element; nan outside [-1, 1]."""
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The exponential function of each element, e^x."""
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """2 to the power of each element, 2^x."""
def exp2_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `exp2`."""
def exp_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `exp`."""
def expand_copy(input: Tensor, size: Sequence[builtins.int], *, implicit: builtins.bool = False, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy of `input` expanded to `size`."""
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """exp(x) - 1 of each element, accurate near 0."""
def expm1_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `expm1`."""
def eye(n: builtins.int, m: builtins.int | None = None, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/ranges.py
    """The matrix with ones on the diagonal and zeros elsewhere."""
def feature_alpha_dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:  # tdt/_ops/nn/dropout.py
    """Replace each channel with probability `p` by SELU's negative limit; mean 0 and variance 1 are mask."""
def feature_alpha_dropout_(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:  # tdt/_ops/nn/dropout.py
    """In-place version of `feature_alpha_dropout`."""
def feature_dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:  # tdt/_ops/nn/dropout.py
    """Zero each channel with probability `p` and scale the rest by 1 / (1 - p)."""
def feature_dropout_(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor:  # tdt/_ops/nn/dropout.py
    """In-place version of `feature_dropout`."""
def fill(input: Tensor, value: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/fills.py
    """A tensor of the shape and dtype of `input` with every element `value`."""
def fill_(input: Tensor, value: Tensor | _Number) -> Tensor:  # tdt/_ops/shape/memory.py
    """Overwrite every element with `value`, a number or a 0-d tensor."""
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """Each element rounded towards 0."""
def fix_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """In-place version of `trunc`."""
def flatten(input: Tensor, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:  # tdt/_ops/shape/views.py
    """The dimensions `start_dim` to `end_dim` as one: a view where possible, else a copy."""
def flip(input: Tensor, dims: builtins.int | Sequence[builtins.int]) -> Tensor:  # tdt/_ops/shape/reorder.py
    """A copy with the entries along each of `dims` in reverse order."""
def fliplr(input: Tensor) -> Tensor:  # tdt/_ops/shape/reorder.py
    """A copy with the entries along dimension 1 in reverse order."""
def flipud(input: Tensor) -> Tensor:  # tdt/_ops/shape/reorder.py
    """A copy with the entries along dimension 0 in reverse order."""
float: _dtype
float16: _dtype
float32: _dtype
float64: _dtype
float8_e4m3fn: _dtype
float8_e4m3fnuz: _dtype
float8_e5m2: _dtype
float8_e5m2fnuz: _dtype
float8_e8m0fnu: _dtype
def float_power(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/powers.py
    """Each element of `input` to the power of `exponent`, computed in float64, or complex128 for complex numbers."""
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """The largest integer that is at most x, for each element."""
def floor_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """In-place version of `floor`."""
def floor_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The quotient input / other rounded down, element by element. It has no gradient; `div(rounding_mode="floor")` has."""
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The larger element of each pair; where one is nan, the other."""
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The smaller element of each pair; where one is nan, the other."""
def fmod(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The remainder of input / other, with the sign of `input`, as C's `fmod`."""
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """The fractional part x - trunc(x) of each element."""
def frac_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """In-place version of `frac`."""
def frexp(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> _frexp_result:  # tdt/_ops/elementwise/rounding.py
    """Mantissa and exponent of each element: input = mantissa · 2^exponent where |mantissa| is 0 or in [0.5, 1)."""
def frobenius_norm(input: Tensor, dim: _Dims, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/norms.py
    """Square root of the sum of squared absolute values over `dim`; `linalg.matrix_norm` is the newer form."""
def from_dlpack(ext_tensor: Any, *, device: _Device | None = None, copy: builtins.bool | None = None) -> Tensor:  # tdt/_core/sharing.py
    """A tensor on the memory of another library's tensor, through DLPack."""
def from_file(filename: str | PathLike[str], shared: builtins.bool | None = None, size: builtins.int = 0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/sharing.py
    """A 1-d tensor mapped from a file."""
def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:  # tdt/_core/creation.py
    """A tensor that shares memory with a NumPy array."""
def frombuffer(buffer: Any, *, dtype: _dtype, count: builtins.int = -1, offset: builtins.int = 0, requires_grad: builtins.bool = False) -> Tensor:  # tdt/_core/sharing.py
    """A 1-d tensor on the memory of a bytes-like object."""
def full(size: Sequence[builtins.int], fill_value: _Number, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/creation.py
    """A tensor of the given size with every element equal to `fill_value`."""
def full_like(input: Tensor, fill_value: _Number, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_core/creation.py
    """A tensor with the shape, dtype and device of `input`, every element equal to `fill_value`."""
def gather(input: Tensor, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/scatter.py
    """Elements of `input` along `dim`: result[i][j] = input[index[i][j]][j] for dim 0, and so on."""
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The greatest common divisor of each pair of integers."""
def gcd_(input: Tensor, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """In-place version of `gcd`."""
def ge(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether input >= other, element by element; a bool tensor."""
def geqrf(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> _geqrf_result:  # tdt/_ops/linalg/householder.py
    """QR decomposition in packed form: R in the upper triangle, the Householder reflections whose product is Q below it."""
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
    """Outer product of two vectors: input[i] · vec2[j]."""
def get_autocast_cpu_dtype() -> _dtype:  # tdt/amp/_mode.py
    """The autocast dtype of the CPU: `get_autocast_dtype("cpu")`."""
def get_autocast_dtype(device_type: str) -> _dtype:  # tdt/amp/_mode.py
    """The dtype of the active block for a device type, or else the default dtype of such blocks."""
def get_autocast_gpu_dtype() -> _dtype:  # tdt/amp/_mode.py
    """The autocast dtype of GPUs: `get_autocast_dtype("cuda")`."""
def get_default_device() -> _device:  # tdt/_backend/device.py
    """The default device of tensor factories."""
def get_default_dtype() -> _dtype:  # tdt/_core/dtype.py
    """The dtype of `tensor(1.5)` and of layers: float32 unless `set_default_dtype` changed it."""
def get_deterministic_debug_mode() -> builtins.int:  # tdt/compat/_switches.py
    """How `use_deterministic_algorithms` is set, as a number."""
def get_device(input: Tensor) -> builtins.int:  # tdt/_core/layout.py
    """Index of the GPU that holds the elements; -1 on the CPU."""
def get_float32_matmul_precision() -> str:  # tdt/compat/_switches.py
    """The precision that `set_float32_matmul_precision` set."""
def get_num_interop_threads() -> builtins.int:  # tdt/compat/_switches.py
    """The number stored by `set_num_interop_threads`; by default the number of threads of an operation."""
def get_num_threads() -> builtins.int:  # tdt/_kernels/_pool.py
    """How many threads a kernel or a matrix product may use."""
def get_rng_state() -> Tensor:  # tdt/_random/_generator.py
    """The state of the default CPU generator, as bytes in PyTorch's layout."""
def gradient(input: Tensor, *, spacing: builtins.float | Tensor | Sequence[builtins.float | Tensor] | None = 1, dim: builtins.int | Sequence[builtins.int] | None = None, edge_order: Literal[1, 2] = 1) -> tuple[Tensor, ...]:  # tdt/_ops/reduce/statistics.py
    """Numerical gradient by second-order central differences, and one-sided differences at the ends."""
def greater(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether input > other, element by element; a bool tensor."""
def greater_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether input >= other, element by element; a bool tensor."""
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool) -> Tensor:  # tdt/_ops/nn/grid_sample.py
    """`nn.functional.grid_sample` with numbers for the modes."""
def grid_sampler_2d(input: Tensor, grid: Tensor, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool) -> Tensor:  # tdt/_ops/nn/grid_sample.py
    """`nn.functional.grid_sample` with numbers for the modes."""
def grid_sampler_3d(input: Tensor, grid: Tensor, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool) -> Tensor:  # tdt/_ops/nn/grid_sample.py
    """`nn.functional.grid_sample` with numbers for the modes."""
def group_norm(input: Tensor, num_groups: builtins.int, weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05, cudnn_enabled: builtins.bool = True) -> Tensor:  # tdt/_ops/nn/norm_by_position.py
    """Normalise each group of channels of each sample as `nn.functional.group_norm`, also groups of a single value."""
def gru(*args: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float, **kwargs: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float) -> tuple[Tensor, Tensor]:  # tdt/_ops/nn/rnn/_layers.py
    """Stack of GRU layers over a padded or a packed batch of sequences; arguments as `lstm`, except:"""
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:  # tdt/_ops/nn/rnn/_layers.py
    """One step of a GRU: the next h."""
def gt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether input > other, element by element; a bool tensor."""
half: _dtype
def hamming_window(window_length: builtins.int, periodic: builtins.bool = True, alpha: builtins.float = 0.54, beta: builtins.float = 0.46, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:  # tdt/_ops/spectral/window_functions.py
    """Hamming window: alpha - beta · cos(2πn/N)."""
def hann_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:  # tdt/_ops/spectral/window_functions.py
    """Hann window: 0.5 - 0.5 cos(2πn/N)."""
def hardshrink(input: Tensor, lambd: builtins.float = 0.5, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/piecewise.py
    """Hard thresholding: 0 where |x| ≤ lambd, else x."""
def hash_tensor(input: Tensor, dim: _Dims = (), *, keepdim: builtins.bool = False, mode: builtins.int = 0, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/reductions.py
    """Hash over `dim`: the exclusive or of the bits of the elements, as uint64."""
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
    """The Heaviside step function: 0 where input < 0, 1 where input > 0, `values` where it is 0."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: builtins.float = 1.0, reduction: builtins.int = 0) -> Tensor:  # tdt/_ops/nn/loss/native.py
    """`input` where `target` is 1, max(0, margin - input) where it is -1."""
def histc(input: Tensor, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/counting.py
    """Histogram of all elements with `bins` bins of equal width between min and max; elements outside are not counted."""
def histogram(input: Tensor, bins: builtins.int | Tensor = 100, *, range: Sequence[builtins.float] | None = None, weight: Tensor | None = None, density: builtins.bool = False, out: tuple[Tensor, Tensor] | None = None) -> _histogram_result:  # tdt/_ops/reduce/counting.py
    """Histogram of all elements; a bin contains its left edge, the last one also its right edge."""
def histogramdd(input: Tensor, bins: builtins.int | Sequence[builtins.int] | Sequence[Tensor], range: Sequence[builtins.float] | None = None, weight: Tensor | None = None, density: builtins.bool = False, out: None = None) -> tuple[Tensor, tuple[Tensor, ...]]:  # tdt/_ops/reduce/counting.py
    """Histogram of points in D dimensions, whose coordinates lie along the last dimension of input."""
def hsmm(mat1: Tensor, mat2: Tensor) -> Tensor:  # tdt/sparse/_functions.py
    """Product of a sparse and a dense matrix, as a sparse tensor of those rows in which mat1 has entries."""
def hsplit(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
    """Views along dimension 1; of a vector along dimension 0: a number of them of equal size, or split before the given indices."""
def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:  # tdt/sparse/_functions.py
    """Product of a sparse and a dense matrix, as a sparse tensor of those rows in which mat1 has entries."""
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/join.py
    """The tensors joined along dimension 1; vectors along dimension 0."""
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
    """The hypotenuse sqrt(input² + other²), without overflow."""
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/special.py
    """The modified Bessel function of the first kind of order 0."""
def i0_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/special.py
    """In-place version of `i0`."""
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/special.py
    """The regularized lower incomplete gamma function: ∫₀^other t^(input - 1) e^(-t) dt / Γ(input)."""
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/special.py
    """The regularized upper incomplete gamma function: ∫_other^∞ t^(input - 1) e^(-t) dt / Γ(input)."""
def imag(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
    """The imaginary part of each element: a view of a complex tensor."""
def index_add(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/pick.py
    """A copy of `input` with alpha · source added to the entries `index` along `dim`; repeated indices add up."""
def index_copy(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/pick.py
    """A copy of `input` with the entries `index` along `dim` replaced by those of `source`."""
def index_fill(input: Tensor, dim: builtins.int, index: Tensor, value: Tensor | _Number) -> Tensor:  # tdt/_ops/index/pick.py
    """A copy of `input` with the entries `index` along `dim` set to `value`."""
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False) -> Tensor:  # tdt/_ops/index/by_tensors.py
    """A copy of `input` with input[indices] set to `values`, or increased by them."""
def index_put_(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False) -> Tensor:  # tdt/_ops/index/by_tensors.py
    """In-place version of `index_put`."""
def index_reduce(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, reduce: Literal['prod', 'mean', 'amax', 'amin'], *, include_self: builtins.bool = True, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/pick.py
    """A copy of `input` in which the entries `index` along `dim` are reduced with those of `source`."""
def index_select(input: Tensor, dim: builtins.int, index: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/pick.py
    """A copy of the entries `index` along `dim`."""
inf: builtins.float
def initial_seed() -> builtins.int:  # tdt/_random/_generator.py
    """The seed from which the default CPU generator started."""
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
    """Sums of products over the last dimension of both tensors; the product if one of them has no dimensions."""
def instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, use_input_stats: builtins.bool, momentum: builtins.float, eps: builtins.float, cudnn_enabled: builtins.bool) -> Tensor:  # tdt/_ops/nn/norm_by_position.py
    """Normalise each channel of each sample to mean 0 and variance 1, then scale it by `weight` and shift it by `bias`."""
int: _dtype
int16: _dtype
int32: _dtype
int64: _dtype
int8: _dtype
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/solve.py
    """Inverse of each square matrix."""
def is_anomaly_check_nan_enabled() -> builtins.bool:  # tdt/autograd/_anomaly.py
    """Whether anomaly mode checks gradients for NaN."""
def is_anomaly_enabled() -> builtins.bool:  # tdt/autograd/_anomaly.py
    """Whether anomaly mode is on in this thread."""
def is_autocast_cache_enabled() -> builtins.bool:  # tdt/amp/_mode.py
    """Whether autocast blocks cast a parameter once for all its uses, unless they say otherwise."""
def is_autocast_cpu_enabled() -> builtins.bool:  # tdt/amp/_mode.py
    """Whether an `autocast("cpu")` block is active."""
def is_autocast_enabled(device_type: str = 'cuda') -> builtins.bool:  # tdt/amp/_mode.py
    """Whether an `autocast` block for a device type is active."""
def is_complex(input: Tensor) -> builtins.bool:  # tdt/_core/layout.py
    """Whether the elements are complex numbers."""
def is_conj(input: Tensor) -> builtins.bool:  # tdt/_core/layout.py
    """Always False: tdt conjugates at once, not when the elements are read."""
def is_deterministic_algorithms_warn_only_enabled() -> builtins.bool:  # tdt/compat/_switches.py
    """Whether `use_deterministic_algorithms` was called with warn_only=True."""
def is_distributed(input: Tensor) -> builtins.bool:  # tdt/_core/layout.py
    """Always False: the elements of a tensor lie on one device."""
def is_floating_point(input: Tensor) -> builtins.bool:  # tdt/_core/layout.py
    """Whether the elements are real floating-point numbers."""
def is_grad_enabled() -> builtins.bool:  # tdt/_core/mode.py
    """Whether ops of this thread record."""
def is_inference(input: Tensor) -> builtins.bool:  # tdt/_core/layout.py
    """Whether the tensor was created in inference mode."""
def is_inference_mode_enabled() -> builtins.bool:  # tdt/_core/mode.py
    """Whether this thread is inside `inference_mode`."""
def is_neg(input: Tensor) -> builtins.bool:  # tdt/_core/layout.py
    """Always False: tdt negates at once, not when the elements are read."""
def is_nonzero(input: Tensor) -> builtins.bool:  # tdt/_core/layout.py
    """Whether the only element of the tensor is not 0."""
def is_same_size(input: Tensor, other: Tensor) -> builtins.bool:  # tdt/_core/layout.py
    """Whether two tensors have the same shape."""
def is_signed(input: Tensor) -> builtins.bool:  # tdt/_core/layout.py
    """Whether the dtype can represent negative numbers."""
def is_storage(obj: Any) -> builtins.bool:  # tdt/_core/storage.py
    """Whether `obj` is a storage."""
def is_tensor(obj: Any) -> builtins.bool:  # tdt/_core/layout.py
    """Whether `obj` is a tensor."""
def isclose(input: Tensor, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether |input - other| ≤ atol + rtol · |other|, element by element; a bool tensor."""
def isfinite(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether each element is neither infinite nor nan; a bool tensor."""
def isin(elements: Tensor | _Number, test_elements: Tensor | _Number, *, assume_unique: builtins.bool = False, invert: builtins.bool = False, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/search.py
    """Whether each element of `elements` is one of `test_elements`."""
def isinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether each element is infinite; a bool tensor."""
def isnan(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether each element is nan; a bool tensor."""
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether each element is -inf; a bool tensor."""
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether each element is +inf; a bool tensor."""
def isreal(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether each element has imaginary part 0; a bool tensor."""
def istft(input: Tensor, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Tensor | None = None, center: builtins.bool = True, normalized: builtins.bool = False, onesided: builtins.bool | None = None, length: builtins.int | None = None, return_complex: builtins.bool = False) -> Tensor:  # tdt/_ops/spectral/stft.py
    """Signal whose `stft` with the same arguments is closest to `input` in the least-squares sense."""
def kaiser_window(window_length: builtins.int, periodic: builtins.bool = True, beta: builtins.float = 12.0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:  # tdt/_ops/spectral/window_functions.py
    """Kaiser window: I₀(beta · √(1 - (2n/N - 1)²)) / I₀(beta)."""
def kl_div(input: Tensor, target: Tensor, reduction: builtins.int = 0, *, log_target: builtins.bool = False) -> Tensor:  # tdt/_ops/nn/loss/native.py
    """Pointwise Kullback-Leibler divergence of the distribution `target` from log-probabilities `input`."""
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
    """Kronecker product: the blocks input[i, …] · other."""
def kthvalue(input: Tensor, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _kthvalue_result:  # tdt/_ops/reduce/order.py
    """The k-th smallest element along `dim`, and its index."""
def layer_norm(input: Tensor, normalized_shape: Sequence[builtins.int], weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05, cudnn_enable: builtins.bool = True) -> Tensor:  # tdt/_ops/nn/norm_by_position.py
    """Normalise the last dimensions to mean 0 and variance 1, as `nn.functional.layer_norm`."""
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The least common multiple of each pair of integers; 0 where either is 0."""
def lcm_(input: Tensor, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """In-place version of `lcm`."""
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
    """The product input · 2^other, where `other` may be a tensor of integers or of floating-point numbers."""
def ldexp_(input: Tensor, other: Tensor) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
    """In-place version of `ldexp`."""
def le(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether input <= other, element by element; a bool tensor."""
legacy_contiguous_format: _memory_format
def lerp(input: Tensor, end: Tensor, weight: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
    """Linear interpolation from `input` to `end`: input + weight · (end - input)."""
def less(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether input < other, element by element; a bool tensor."""
def less_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether input <= other, element by element; a bool tensor."""
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The natural logarithm of |Γ(x)| of each element, where Γ is the gamma function."""
def linspace(start: _Number | Tensor, end: _Number | Tensor, steps: builtins.int, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/ranges.py
    """`steps` evenly spaced numbers from `start` to `end`, both included."""
def load(f: str | PathLike[str] | IO[bytes], map_location: Any = None, pickle_module: Any = None, *, weights_only: builtins.bool | None = None, mmap: builtins.bool | None = None, **pickle_load_args: Any) -> Any:  # tdt/serialization/__init__.py
    """Load an object from a file written by `save` or PyTorch's `torch.save`, also in the format before PyTorch 1.6."""
def lobpcg(A: Tensor, k: builtins.int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: builtins.int | None = None, iK: Tensor | None = None, niter: builtins.int | None = None, tol: builtins.float | None = None, largest: builtins.bool | None = None, method: str | None = None, tracker: Callable[[Any], None] | None = None, ortho_iparams: dict[str, builtins.int] | None = None, ortho_fparams: dict[str, builtins.float] | None = None, ortho_bparams: dict[str, builtins.bool] | None = None) -> tuple[Tensor, Tensor]:  # tdt/_ops/linalg/lobpcg.py
    """The k largest or smallest eigenvalues, and their eigenvectors, of the generalized problem A x = e B x."""
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The natural logarithm of each element; nan below 0, -inf at 0."""
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The logarithm of each element to base 10; nan below 0, -inf at 0."""
def log10_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `log10`."""
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """log(1 + x) of each element, accurate near 0."""
def log1p_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `log1p`."""
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The logarithm of each element to base 2; nan below 0, -inf at 0."""
def log2_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `log2`."""
def log_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `log`."""
def log_softmax(input: Tensor, dim: builtins.int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/nn/softmax.py
    """Logarithm of `softmax` along `dim`, computed without its loss of precision."""
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
    """log(exp(input) + exp(other)), without overflow."""
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
    """log2(2^input + 2^other), without overflow."""
def logcumsumexp(input: Tensor, dim: builtins.int, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/cumulative.py
    """Logarithm of the cumulative sums of exp(x) along `dim`, computed without overflow."""
def logdet(input: Tensor) -> Tensor:  # tdt/_ops/linalg/solve.py
    """Logarithm of the determinant of each square matrix; nan where it is negative, -inf where it is 0."""
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether both elements of each pair are nonzero; a bool tensor."""
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether each element is zero; a bool tensor."""
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether at least one element of each pair is nonzero; a bool tensor."""
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether exactly one element of each pair is nonzero; a bool tensor."""
def logit(input: Tensor, eps: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The inverse of sigmoid, log(x / (1 - x)), of each element."""
def logit_(input: Tensor, eps: builtins.float | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `logit`."""
def logspace(start: _Number | Tensor, end: _Number | Tensor, steps: builtins.int, base: builtins.float = 10.0, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/ranges.py
    """`base` to the power of `steps` evenly spaced exponents from `start` to `end`."""
def logsumexp(input: Tensor, dim: builtins.int | Sequence[builtins.int], keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/reductions.py
    """Logarithm of the sum of exp(x) over `dim`, computed without overflow."""
long: _dtype
def lstm(*args: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float, **kwargs: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float) -> tuple[Tensor, Tensor, Tensor]:  # tdt/_ops/nn/rnn/_layers.py
    """Stack of LSTM layers over a padded or a packed batch of sequences."""
def lstm_cell(input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> tuple[Tensor, Tensor]:  # tdt/_ops/nn/rnn/_layers.py
    """One step of an LSTM."""
def lt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether input < other, element by element; a bool tensor."""
def lu(A: Tensor, pivot: builtins.bool = True, get_infos: builtins.bool = False, out: tuple[Tensor, ...] | None = None) -> tuple[Tensor, ...]:  # tdt/_ops/linalg/root_namespace.py
    """LU decomposition with partial pivoting in packed form; `linalg.lu_factor` is the newer form."""
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/root_namespace.py
    """Solution X of A X = input from the LU decomposition of A; `linalg.lu_solve` is the newer form."""
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: builtins.bool = True, unpack_pivots: builtins.bool = True, *, out: tuple[Tensor, Tensor, Tensor] | None = None) -> _lu_unpack_result:  # tdt/_ops/linalg/lu.py
    """P, L and U from the packed LU decomposition that `lu_factor` returns."""
def manual_seed(seed: builtins.int) -> Generator:  # tdt/_random/_generator.py
    """Seed the default generators of all devices; returns the CPU's."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0.0, reduction: builtins.int = 0) -> Tensor:  # tdt/_ops/nn/loss/native.py
    """max(0, margin - target · (input1 - input2)): `target` 1 ranks `input1` higher, -1 ranks `input2` higher."""
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/select.py
    """`input` with `value` where `mask` is True."""
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:  # tdt/_ops/index/masked.py
    """A copy of `input` in which the elements where `mask` is True are replaced, in order, by those of `source`."""
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/masked.py
    """The elements where `mask` is True, as a vector."""
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
    """Matrix product over the last two dimensions, with the other dimensions broadcast."""
def matrix_exp(input: Tensor) -> Tensor:  # tdt/_ops/linalg/matrix_functions.py
    """Exponential of square matrices: Σ Aᵏ / k!."""
def matrix_power(input: Tensor, n: builtins.int, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/matrix_functions.py
    """Power of square matrices; for negative n, of their inverses."""
@overload
def max(input: Tensor) -> Tensor:
    """Largest element; along a dimension also its index; or the elementwise maximum of two tensors."""
@overload
def max(input: Tensor, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _max_result:
    """Largest element; along a dimension also its index; or the elementwise maximum of two tensors."""
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/order.py
    """Largest element; along a dimension also its index; or the elementwise maximum of two tensors."""
@overload
def max_pool1d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: Literal[False] = False) -> Tensor:
    """Maximum of each window of a 1-D signal; NaN is larger than every number."""
@overload
def max_pool1d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """Maximum of each window of a 1-D signal; NaN is larger than every number."""
@overload
def max_pool1d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Tensor | tuple[Tensor, Tensor]:  # tdt/_ops/nn/pool_max.py
    """Maximum of each window of a 1-D signal; NaN is larger than every number."""
def max_pool1d_with_indices(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> tuple[Tensor, Tensor]:  # tdt/_ops/nn/pool_max.py
    """`max_pool1d` with the position of each maximum."""
@overload
def max_pool2d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: Literal[False] = False) -> Tensor:
    """Maximum of each window of images; NaN is larger than every number."""
@overload
def max_pool2d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """Maximum of each window of images; NaN is larger than every number."""
@overload
def max_pool2d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Tensor | tuple[Tensor, Tensor]:  # tdt/_ops/nn/pool_max.py
    """Maximum of each window of images; NaN is larger than every number."""
@overload
def max_pool3d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: Literal[False] = False) -> Tensor:
    """Maximum of each window of volumes; NaN is larger than every number."""
@overload
def max_pool3d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """Maximum of each window of volumes; NaN is larger than every number."""
@overload
def max_pool3d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Tensor | tuple[Tensor, Tensor]:  # tdt/_ops/nn/pool_max.py
    """Maximum of each window of volumes; NaN is larger than every number."""
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The larger element of each pair; nan where either is nan."""
def mean(input: Tensor, dim: _Dims = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/reductions.py
    """Mean of the elements over `dim`; nan of no elements."""
@overload
def median(input: Tensor) -> Tensor:
    """Median, of an even number of elements the lower one; nan if an element is nan."""
@overload
def median(input: Tensor, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _median_result:  # tdt/_ops/reduce/order.py
    """Median, of an even number of elements the lower one; nan if an element is nan."""
def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: Literal['ij', 'xy'] | None = None) -> tuple[Tensor, ...]:  # tdt/_ops/shape/repeat.py
    """The vectors expanded over the grid that they span."""
@overload
def min(input: Tensor) -> Tensor:
    """Smallest element; along a dimension also its index; or the elementwise minimum of two tensors."""
@overload
def min(input: Tensor, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _min_result:
    """Smallest element; along a dimension also its index; or the elementwise minimum of two tensors."""
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/order.py
    """Smallest element; along a dimension also its index; or the elementwise minimum of two tensors."""
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The smaller element of each pair; nan where either is nan."""
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
    """Product of two matrices."""
def mode(input: Tensor, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _mode_result:  # tdt/_ops/reduce/order.py
    """Most frequent value along `dim`, the smallest of equally frequent ones, and the last index at which it occurs."""
def moveaxis(input: Tensor, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:  # tdt/_ops/shape/dimensions.py
    """A view with the dimensions `source` moved to the positions `destination`, the others in their order."""
def movedim(input: Tensor, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:  # tdt/_ops/shape/dimensions.py
    """A view with the dimensions `source` moved to the positions `destination`, the others in their order."""
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/sort.py
    """Elements in ascending order along the first dimension."""
def mul(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The product input · other, element by element."""
def multinomial(input: Tensor, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/random/creation.py
    """Indices of `num_samples` categories, drawn in each row with probabilities proportional to the weights in `input`."""
def multiply(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The product input · other, element by element."""
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
    """Product of a matrix and a vector."""
def mvlgamma(input: Tensor, p: builtins.int, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/special.py
    """The natural logarithm of the multivariate gamma function of dimension `p`, valid where input > (p - 1) / 2."""
nan: builtins.float
def nan_to_num(input: Tensor, nan: builtins.float | None = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """Each element, with nan and infinities replaced by finite numbers."""
def nan_to_num_(input: Tensor, nan: builtins.float | None = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """In-place version of `nan_to_num`."""
def nanmean(input: Tensor, dim: _Dims = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/reductions.py
    """Mean over `dim` of the elements that are not nan; nan where there are none."""
@overload
def nanmedian(input: Tensor) -> Tensor:
    """Median of the elements that are not nan, of an even number of them the lower one."""
@overload
def nanmedian(input: Tensor, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _nanmedian_result:  # tdt/_ops/reduce/order.py
    """Median of the elements that are not nan, of an even number of them the lower one."""
def nanquantile(input: Tensor, q: builtins.float | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: Literal['linear', 'lower', 'higher', 'midpoint', 'nearest'] = 'linear', out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/statistics.py
    """Quantiles of the elements that are not nan: the values below which the fractions `q` of them lie."""
def nansum(input: Tensor, dim: _Dims = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/reductions.py
    """Sum over `dim` with nan counted as 0."""
def narrow(input: Tensor, dim: builtins.int, start: builtins.int | Tensor, length: builtins.int) -> Tensor:  # tdt/_ops/shape/views.py
    """The view of `length` entries along `dim`, from `start` on."""
def narrow_copy(input: Tensor, dim: builtins.int, start: builtins.int | Tensor, length: builtins.int, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy of `length` entries along `dim`, from `start` on."""
def native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: builtins.bool, momentum: builtins.float, eps: builtins.float, *, out: _Normed | None = None) -> _Normed:  # tdt/_ops/nn/norm_by_position.py
    """`batch_norm` with the statistics that it used."""
def native_channel_shuffle(input: Tensor, groups: builtins.int) -> Tensor:  # tdt/_ops/nn/shuffle.py
    """Reorder channels so that neighbours come from different groups: (groups, C / groups) is transposed."""
def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: builtins.int, C: builtins.int, HxW: builtins.int, group: builtins.int, eps: builtins.float) -> _Normed:  # tdt/_ops/nn/norm_by_position.py
    """`group_norm` with the statistics that it used."""
def native_layer_norm(input: Tensor, normalized_shape: Sequence[builtins.int], weight: Tensor | None, bias: Tensor | None, eps: builtins.float) -> _Normed:  # tdt/_ops/nn/norm_by_position.py
    """`layer_norm` with the statistics that it used."""
def ne(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether input != other, element by element; a bool tensor."""
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """The negative of each element, -x."""
def neg_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """In-place version of `neg`."""
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """The negative of each element, -x."""
def negative_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """In-place version of `neg`."""
newaxis: Any
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """The floating-point number next to each element of `input` in the direction of `other`."""
@overload
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: Literal[False] = False) -> Tensor:
    """Indices of the elements that are not 0."""
@overload
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: Literal[True]) -> tuple[Tensor, ...]:  # tdt/_ops/index/nonzero.py
    """Indices of the elements that are not 0."""
def nonzero_static(input: Tensor, *, size: builtins.int, fill_value: builtins.int = -1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/nonzero.py
    """The first `size` rows of `nonzero`, filled up with `fill_value`."""
def norm(input: Tensor, p: builtins.float | Literal['fro', 'nuc'] | None = 'fro', dim: _Dims = None, keepdim: builtins.bool = False, out: Tensor | None = None, dtype: _dtype | None = None) -> Tensor:  # tdt/_ops/linalg/norms.py
    """Norm of the elements over `dim`; `linalg.norm` is the newer form."""
def normal(mean: builtins.float | Tensor, std: builtins.float | Tensor = 1.0, size: _Ints | None = None, *, generator: Generator | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_ops/random/creation.py
    """Random numbers from normal distributions of the given means and standard deviations."""
def not_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether input != other, element by element; a bool tensor."""
def nuclear_norm(input: Tensor, dim: _Dims = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/norms.py
    """Sum of the singular values of matrices; `linalg.matrix_norm` is the newer form."""
def numel(input: Tensor) -> builtins.int:  # tdt/_core/layout.py
    """Number of elements."""
def ones(*sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_core/creation.py
    """A tensor of the given size, all 1."""
def ones_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_core/creation.py
    """A tensor with the shape, dtype and device of `input`, all 1."""
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/householder.py
    """Product of Householder reflections: `linalg.householder_product` under LAPACK's name."""
def ormqr(input: Tensor, input2: Tensor, input3: Tensor, left: builtins.bool = True, transpose: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/householder.py
    """Product of input3 and the square Q whose Householder reflections `geqrf` returned as (input, input2)."""
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
    """Outer product of two vectors: input[i] · vec2[j]."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: builtins.float = 2.0, eps: builtins.float = 1e-06, keepdim: builtins.bool = False) -> Tensor:  # tdt/_ops/linalg/distance.py
    """The p-norm of x1 - x2 + eps over the last dimension."""
def pca_lowrank(A: Tensor, q: builtins.int | None = None, center: builtins.bool = True, niter: builtins.int = 2) -> tuple[Tensor, Tensor, Tensor]:  # tdt/_ops/linalg/low_rank.py
    """Approximate principal component analysis of rows of samples, from random projections."""
def pdist(input: Tensor, p: builtins.float = 2.0) -> Tensor:  # tdt/_ops/linalg/distance.py
    """Distances, in the p-norm, of all pairs of rows, in the order of the elements above the diagonal of their matrix."""
def permute(input: Tensor, dims: Sequence[builtins.int]) -> Tensor:  # tdt/_ops/shape/dimensions.py
    """A view with the dimensions in the order `dims`."""
def permute_copy(input: Tensor, dims: Sequence[builtins.int], *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy with the dimensions in the order `dims`."""
pi: builtins.float
def pinverse(input: Tensor, rcond: builtins.float = 1e-15) -> Tensor:  # tdt/_ops/linalg/least_squares.py
    """Moore-Penrose pseudo-inverse; `linalg.pinv` is the newer form."""
def pixel_shuffle(input: Tensor, upscale_factor: builtins.int) -> Tensor:  # tdt/_ops/nn/shuffle.py
    """Rearrange groups of r² channels into patches of r × r pixels, r = `upscale_factor`."""
def pixel_unshuffle(input: Tensor, downscale_factor: builtins.int) -> Tensor:  # tdt/_ops/nn/shuffle.py
    """Rearrange patches of r × r pixels into r² channels, r = `downscale_factor`: the inverse of `pixel_shuffle`."""
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:  # tdt/_ops/random/creation.py
    """Random counts from Poisson distributions whose means are in `input`; the gradient is zero."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: builtins.bool, full: builtins.bool, eps: builtins.float, reduction: builtins.int) -> Tensor:  # tdt/_ops/nn/loss/native.py
    """Negative log-likelihood of counts `target` under Poisson distributions."""
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/combine.py
    """Complex numbers from absolute values and angles in radians."""
def polygamma(n: builtins.int, input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The n-th derivative of digamma at each element."""
def positive(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """`input` itself, as `+input` returns it."""
def pow(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/powers.py
    """Each element of `input` to the power of `exponent`."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:  # tdt/_ops/elementwise/piecewise.py
    """Parametric rectified linear unit: x where x > 0, else weight · x, with learned weights."""
preserve_format: _memory_format
def prod(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/product.py
    """Product of the elements over `dim`; of integers and bools an int64."""
def promote_types(type1: _dtype, type2: _dtype) -> _dtype:  # tdt/_core/dtype.py
    """The smallest dtype to which both can be converted."""
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:  # tdt/_ops/index/pick.py
    """A copy of `input` with the elements of the flattened tensor at `index` set to those of `source`, or increased by them."""
def qr(input: Tensor, some: builtins.bool = True, *, out: tuple[Tensor, Tensor] | None = None) -> _qr_result:  # tdt/_ops/linalg/root_namespace.py
    """QR decomposition input = Q R; `linalg.qr` is the newer form."""
def quantile(input: Tensor, q: builtins.float | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: Literal['linear', 'lower', 'higher', 'midpoint', 'nearest'] = 'linear', out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/statistics.py
    """Quantiles of the elements: the values below which the fractions `q` of them lie; nan if an element is nan."""
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """Angles in radians converted to degrees."""
def rad2deg_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `rad2deg`."""
def rand(*sizes: _Ints, size: _Ints | None = None, generator: Generator | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_ops/random/creation.py
    """Tensor of random numbers, uniform on [0, 1)."""
def rand_like(input: Tensor, *, generator: Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_ops/random/creation.py
    """Random numbers, uniform on [0, 1), with the shape, dtype, device and memory order of `input`."""
def randint(*ends: _Ints, low: builtins.int = 0, high: builtins.int | None = None, size: _Ints | None = None, generator: Generator | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_ops/random/creation.py
    """Tensor of random integers, uniform on [low, high): `randint(high, size)` or `randint(low, high, size)`."""
def randint_like(input: Tensor, *ends: builtins.int, low: builtins.int = 0, high: builtins.int | None = None, generator: Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_ops/random/creation.py
    """Random integers on [low, high) like `input`: `randint_like(input, high)` or `randint_like(input, low, high)`."""
def randn(*sizes: _Ints, size: _Ints | None = None, generator: Generator | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_ops/random/creation.py
    """Tensor of random numbers from the standard normal distribution."""
def randn_like(input: Tensor, *, generator: Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_ops/random/creation.py
    """Random numbers from the standard normal distribution, with the shape, dtype, device and memory order of `input`."""
def randperm(n: builtins.int, *, generator: Generator | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_ops/random/creation.py
    """Random permutation of the numbers 0 to n - 1."""
def range(start: builtins.float = 0, end: builtins.float | None = None, step: builtins.float = 1, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/ranges.py
    """The numbers start, start + step, … up to `end` included; deprecated in favour of `arange`."""
def ravel(input: Tensor) -> Tensor:  # tdt/_ops/shape/views.py
    """All elements in one dimension: a view where possible, else a copy."""
def real(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
    """The real part of each element: a view of a complex tensor; a real tensor is returned itself."""
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The reciprocal of each element, 1 / x."""
def reciprocal_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `reciprocal`."""
def relu(input: Tensor, inplace: builtins.bool = False) -> Tensor:  # tdt/_ops/elementwise/piecewise.py
    """Rectified linear unit: max(x, 0); nan stays nan."""
def relu_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/piecewise.py
    """In-place version of `relu`."""
def remainder(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The remainder of input / other, with the sign of `other`, as Python's `%`."""
def renorm(input: Tensor, p: builtins.float, dim: builtins.int, maxnorm: builtins.float, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/statistics.py
    """Slices along `dim` scaled down to the p-norm `maxnorm` where their norm is larger."""
def repeat_interleave(input: Tensor, repeats: Tensor | builtins.int | None = None, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor:  # tdt/_ops/shape/repeat.py
    """Each entry along `dim` repeated in place: the same number of times, or each its own number."""
def reshape(input: Tensor, shape: builtins.int | Sequence[builtins.int]) -> Tensor:  # tdt/_ops/shape/views.py
    """The elements in another shape: a view where possible, else a copy."""
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_ops/shape/resize.py
    """`resize_` to the shape of another tensor; `sparse_resize_` if both are sparse."""
def resolve_conj(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
    """`input` itself: `conj` computes at once, so there is no conjugation to resolve."""
def resolve_neg(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
    """`input` itself: `neg` and the imaginary part of `conj` are computed at once, so there is no negation to resolve."""
def result_type(tensor1: Tensor | _Number, tensor2: Tensor | _Number) -> _dtype:  # tdt/_core/layout.py
    """Dtype of the result of arithmetic on two tensors or numbers."""
def rms_norm(input: Tensor, normalized_shape: Sequence[builtins.int], weight: Tensor | None = None, eps: builtins.float | None = None) -> Tensor:  # tdt/_ops/nn/layer_norm.py
    """Divide by the root mean square over the last dimensions, then scale by `weight`."""
def rnn_relu(*args: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float, **kwargs: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float) -> tuple[Tensor, Tensor]:  # tdt/_ops/nn/rnn/_layers.py
    """Stack of layers h = relu(x W + h V + b) over a padded or a packed batch; arguments as `lstm`, except:"""
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:  # tdt/_ops/nn/rnn/_layers.py
    """One step of a plain recurrent layer: relu(input · w_ihᵀ + b_ih + hx · w_hhᵀ + b_hh)."""
def rnn_tanh(*args: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float, **kwargs: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float) -> tuple[Tensor, Tensor]:  # tdt/_ops/nn/rnn/_layers.py
    """Stack of layers h = tanh(x W + h V + b) over a padded or a packed batch; arguments as `lstm`, except:"""
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:  # tdt/_ops/nn/rnn/_layers.py
    """One step of a plain recurrent layer: tanh(input · w_ihᵀ + b_ih + hx · w_hhᵀ + b_hh)."""
def roll(input: Tensor, shifts: builtins.int | Sequence[builtins.int], dims: _Dims = None) -> Tensor:  # tdt/_ops/shape/reorder.py
    """A copy with the entries shifted along `dims`; those shifted past the end come in at the front."""
def rot90(input: Tensor, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1)) -> Tensor:  # tdt/_ops/shape/reorder.py
    """A copy with the plane `dims` rotated by k · 90°, from the first towards the second dimension."""
def round(input: Tensor, *, decimals: builtins.int | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """Each element rounded to `decimals` decimals; halves go to the even neighbour."""
def round_(input: Tensor, *, decimals: builtins.int | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """In-place version of `round`."""
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/join.py
    """The tensors joined along dimension 0; a vector counts as a row."""
def rrelu(input: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333, training: builtins.bool = False, inplace: builtins.bool = False, *, generator: Generator | None = None) -> Tensor:  # tdt/_ops/elementwise/piecewise.py
    """Randomized leaky rectified linear unit: x where x > 0, else x times a random slope."""
def rrelu_(input: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333, training: builtins.bool = False, *, generator: Generator | None = None) -> Tensor:  # tdt/_ops/elementwise/piecewise.py
    """In-place version of `rrelu`."""
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The reciprocal of the square root of each element, 1 / sqrt(x)."""
def rsqrt_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `rsqrt`."""
def rsub(input: Tensor, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The difference other - alpha · input: `sub` with its operands exchanged."""
def save(obj: Any, f: str | PathLike[str] | IO[bytes], pickle_module: Any = ..., pickle_protocol: builtins.int = 2, _use_new_zipfile_serialization: builtins.bool = True, _disable_byteorder_record: builtins.bool = False) -> None:  # tdt/serialization/__init__.py
    """Save `obj`, with all tensors in it, to a path or a binary file, in PyTorch's `.pt` format."""
def scalar_tensor(s: _Number, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/creation.py
    """A 0-d tensor of the default float dtype, or of `dtype`."""
def scatter(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor | _Number | None = None, *, value: _Number | None = None, reduce: Literal['add', 'multiply'] | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/scatter.py
    """A copy of `input` with result[index[i][j]][j] = src[i][j] for dim 0, and so on."""
def scatter_add(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/scatter.py
    """A copy of `input` with src[i][j] added to result[index[i][j]][j] for dim 0, and so on; repeated indices add up."""
def scatter_reduce(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor, reduce: Literal['sum', 'prod', 'mean', 'amax', 'amin'], *, include_self: builtins.bool = True, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/scatter.py
    """A copy of `input` in which the elements that `index` names along `dim` are reduced with those of `src`."""
def searchsorted(sorted_sequence: Tensor, input: Tensor | _Number, *, out_int32: builtins.bool = False, right: builtins.bool = False, side: Literal['left', 'right'] | None = None, sorter: Tensor | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/search.py
    """Index at which to insert each value so that the sorted sequence remains sorted."""
def seed() -> builtins.int:  # tdt/_random/_generator.py
    """Seed every default generator from the operating system's randomness and return that seed."""
def segment_reduce(data: Tensor, reduce: Literal['sum', 'mean', 'max', 'min', 'prod'], *, lengths: Tensor | None = None, indices: Tensor | None = None, offsets: Tensor | None = None, axis: builtins.int = 0, unsafe: builtins.bool = False, initial: builtins.float | None = None) -> Tensor:  # tdt/_ops/reduce/segments.py
    """Reduction of consecutive segments of `axis`, given by their lengths or by offsets."""
def select(input: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:  # tdt/_ops/shape/views.py
    """The view at `index` along `dim`."""
def select_copy(input: Tensor, dim: builtins.int, index: builtins.int, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy of the part at `index` along `dim`."""
def select_scatter(input: Tensor, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:  # tdt/_ops/shape/view_scatter.py
    """A copy of `input` with `src` at `index` along `dim`."""
def selu(input: Tensor, inplace: builtins.bool = False) -> Tensor:  # tdt/_ops/elementwise/activation.py
    """Scaled exponential linear unit: 1.0507 · elu(x, alpha=1.6733)."""
def selu_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/activation.py
    """In-place version of `selu`."""
def set_anomaly_enabled(mode: builtins.bool, check_nan: builtins.bool = True) -> None:  # tdt/autograd/_anomaly.py
    """Turn anomaly mode on or off for this thread. check_nan: look for NaN in gradients too."""
def set_autocast_cache_enabled(enabled: builtins.bool) -> None:  # tdt/amp/_mode.py
    """Set whether autocast blocks cast a parameter once for all its uses, unless they say otherwise."""
def set_autocast_dtype(device_type: str, dtype: _dtype) -> None:  # tdt/amp/_mode.py
    """Set the default dtype of `autocast` blocks for a device type."""
def set_default_device(device: _device | str | builtins.int | None) -> None:  # tdt/_backend/device.py
    """Set the default device of tensor factories in this thread; None resets it to the CPU."""
def set_default_dtype(d: _dtype) -> None:  # tdt/_core/dtype.py
    """Set the default floating-point dtype."""
def set_default_tensor_type(t: Any) -> None:  # tdt/compat/_old_types.py
    """Legacy form of `set_default_dtype`: takes a tensor type such as `tdt.DoubleTensor`, or its name."""
def set_deterministic_debug_mode(debug_mode: builtins.int | str) -> None:  # tdt/compat/_switches.py
    """Set `use_deterministic_algorithms` by number or name: 0 "default", 1 "warn", 2 "error"."""
def set_float32_matmul_precision(precision: str) -> None:  # tdt/compat/_switches.py
    """Set how products of float32 matrices are computed on a GPU: "highest" in float32, "high" and "medium" in TF32."""
def set_flush_denormal(mode: builtins.bool) -> builtins.bool:  # tdt/compat/_switches.py
    """Return False: tdt does not support flushing subnormal numbers to zero."""
def set_num_interop_threads(num: builtins.int) -> None:  # tdt/compat/_switches.py
    """Store the number that `get_num_interop_threads` returns; no other effect, as tdt runs one operation at a time."""
def set_num_threads(threads: builtins.int) -> None:  # tdt/_kernels/_pool.py
    """Set the number of threads of kernels and large matrix products, whose results do not depend on it."""
def set_printoptions(precision: builtins.int | None = None, threshold: builtins.int | None = None, edgeitems: builtins.int | None = None, linewidth: builtins.int | None = None, profile: Literal['default', 'short', 'full'] | None = None, sci_mode: builtins.bool | None = None) -> None:  # tdt/_core/printing.py
    """Set how tensors are printed."""
def set_rng_state(new_state: Tensor) -> None:  # tdt/_random/_generator.py
    """Continue the default CPU generator from a state of `get_rng_state()`."""
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """The sign of each element: x / |x|, and 0 at 0."""
short: _dtype
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The logistic function of each element, 1 / (1 + exp(-x))."""
def sigmoid_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `sigmoid`."""
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """The sign of each real element: -1, 0 or 1; nan has sign 0."""
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/compare.py
    """Whether the sign bit of each element is set, that of -0.0 included; a bool tensor."""
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The sine of each element, an angle in radians."""
def sin_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `sin`."""
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The normalized sinc function of each element, sin(πx) / (πx), and 1 at 0."""
def sinc_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `sinc`."""
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The hyperbolic sine of each element."""
def sinh_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `sinh`."""
def slice_copy(input: Tensor, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy of the entries start, start + step, … before `end` along `dim`."""
def slice_scatter(input: Tensor, src: Tensor, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_scatter.py
    """A copy of `input` with `src` at start, start + step, … before `end` along `dim`."""
def slogdet(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> _slogdet_result:  # tdt/_ops/linalg/root_namespace.py
    """Sign and logarithm of the absolute value of the determinant, computed without overflow."""
def smm(input: Tensor, mat2: Tensor) -> Tensor:  # tdt/sparse/_functions.py
    """Product of a sparse and a dense matrix, as a sparse matrix."""
def softmax(input: Tensor, dim: builtins.int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/nn/softmax.py
    """exp(x) / Σ exp(x) along `dim`; a slice of all -inf gives NaN."""
def sort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _sort_result:  # tdt/_ops/reduce/sort.py
    """Elements in ascending or descending order along `dim`; nan counts as larger than all numbers."""
sparse_bsc: _layout
sparse_bsr: _layout
sparse_coo: _layout
def sparse_coo_tensor(indices: Any = None, values: Any = None, size: Any = None, *, dtype: _dtype | None = None, device: Any = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, check_invariants: builtins.bool | None = None, is_coalesced: builtins.bool | None = None) -> Tensor:  # tdt/sparse/_methods.py
    """A sparse tensor with `values[k]` at `indices[:, k]`, and 0 elsewhere; values at one place add up."""
sparse_csc: _layout
sparse_csr: _layout
def sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: _dtype | None = None, device: Any = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, check_invariants: builtins.bool | None = None) -> Tensor:  # tdt/sparse/_methods.py
    """A sparse matrix by compressed rows: entries crow_indices[i] to crow_indices[i + 1] stand in row i, in order of columns."""
def split(tensor: Tensor, split_size_or_sections: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
    """Views of `split_size_or_sections` entries each along `dim`, the last possibly smaller; or of the sizes in a list."""
def split_copy(input: Tensor, split_size: builtins.int | Sequence[builtins.int], dim: builtins.int = 0, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...] | None:  # tdt/_ops/shape/view_copies.py
    """Copies of the parts that `split` returns."""
def split_with_sizes(input: Tensor, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
    """Views of the given sizes along `dim`."""
def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[builtins.int], dim: builtins.int = 0, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...] | None:  # tdt/_ops/shape/view_copies.py
    """Copies of the parts that `split_with_sizes` returns."""
def spmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
    """Product of two matrices."""
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The square root of each element; nan below 0."""
def sqrt_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `sqrt`."""
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/math.py
    """The square of each element, x · x."""
def square_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/math.py
    """In-place version of `square`."""
def squeeze(input: Tensor, dim: _Dims = None) -> Tensor:  # tdt/_ops/shape/dimensions.py
    """A view without the dimensions of size 1: all of them, or those among `dim`."""
def squeeze_copy(input: Tensor, dim: _Dims = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy without the dimensions of size 1: all of them, or those among `dim`."""
def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:  # tdt/sparse/_functions.py
    """Sum beta · input + alpha · (mat1 @ mat2) of sparse `input` and `mat1` and a dense `mat2`, as a sparse matrix."""
def stack(tensors: Sequence[Tensor], dim: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/join.py
    """The tensors along a new dimension `dim`."""
def std(input: Tensor, dim: _Dims | builtins.bool | None = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/variance.py
    """Standard deviation over `dim`: the square root of the variance."""
def std_mean(input: Tensor, dim: _Dims | builtins.bool | None = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> tuple[Tensor, Tensor]:  # tdt/_ops/reduce/variance.py
    """Standard deviation and mean over `dim`."""
def stft(input: Tensor, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Tensor | None = None, center: builtins.bool = True, pad_mode: str = 'reflect', normalized: builtins.bool = False, onesided: builtins.bool | None = None, return_complex: builtins.bool | None = None, align_to_window: builtins.bool | None = None) -> Tensor:  # tdt/_ops/spectral/stft.py
    """Short-time Fourier transform: the spectrum of each frame of a signal."""
strided: _layout
def sub(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The difference input - alpha · other."""
def subtract(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The difference input - alpha · other."""
def sum(input: Tensor, dim: _Dims = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/reductions.py
    """Sum of the elements over `dim`; of integers and bools an int64."""
def svd(input: Tensor, some: builtins.bool = True, compute_uv: builtins.bool = True, *, out: tuple[Tensor, Tensor, Tensor] | None = None) -> _svd_result:  # tdt/_ops/linalg/root_namespace.py
    """Singular value decomposition input = U diag(S) Vᴴ; `linalg.svd`, which returns Vᴴ, is the newer form."""
def svd_lowrank(A: Tensor, q: builtins.int | None = 6, niter: builtins.int | None = 2, M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:  # tdt/_ops/linalg/low_rank.py
    """Approximate leading singular values and vectors of A, or of A - M, from random projections."""
def swapaxes(input: Tensor, axis0: builtins.int, axis1: builtins.int) -> Tensor:  # tdt/_ops/shape/dimensions.py
    """A view with two dimensions swapped: `transpose` under NumPy's name."""
def swapdims(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:  # tdt/_ops/shape/dimensions.py
    """A view with dimensions `dim0` and `dim1` swapped."""
def t(input: Tensor) -> Tensor:  # tdt/_ops/shape/dimensions.py
    """A view of a matrix with its dimensions swapped; a vector or 0-d tensor is returned unchanged."""
def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy of a matrix with its dimensions swapped."""
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/pick.py
    """The elements of the flattened tensor at `index`."""
def take_along_dim(input: Tensor, indices: Tensor, dim: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/index/pick.py
    """The elements at `indices` along `dim`, where `input` and `indices` broadcast along the other dimensions."""
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The tangent of each element, an angle in radians."""
def tan_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `tan`."""
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """The hyperbolic tangent of each element."""
def tanh_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/trigonometry.py
    """In-place version of `tanh`."""
def tensor(data: Any, *, dtype: _dtype | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/creation.py
    """A new tensor that holds a copy of `data`."""
def tensor_split(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor, dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
    """Views along `dim`: a number of them of nearly equal size, or split before the given indices."""
def tensordot(a: Tensor, b: Tensor, dims: builtins.int | tuple[Sequence[builtins.int], Sequence[builtins.int]] | Tensor = 2, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
    """Sums of products over several dimensions of two tensors."""
def threshold(input: Tensor, threshold: builtins.float, value: builtins.float, inplace: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/piecewise.py
    """Each element that is greater than `threshold`; `value` in place of the others."""
def threshold_(input: Tensor, threshold: builtins.float, value: builtins.float) -> Tensor:  # tdt/_ops/elementwise/piecewise.py
    """In-place version of `threshold`."""
def tile(input: Tensor, dims: Sequence[builtins.int]) -> Tensor:  # tdt/_ops/shape/repeat.py
    """The tensor copied `dims[d]` times along each dimension, counted from the last."""
def to_dlpack(tensor: Tensor) -> Any:  # tdt/_core/sharing.py
    """A DLPack capsule on the memory of a tensor, for one call of `from_dlpack`."""
def topk(input: Tensor, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True, *, out: tuple[Tensor, Tensor] | None = None) -> _topk_result:  # tdt/_ops/reduce/sort.py
    """The k largest elements along `dim`, or the k smallest, in order, and their indices."""
def trace(input: Tensor) -> Tensor:  # tdt/_ops/linalg/products.py
    """Sum of the diagonal of a matrix."""
def transpose(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:  # tdt/_ops/shape/dimensions.py
    """A view with dimensions `dim0` and `dim1` swapped."""
def transpose_copy(input: Tensor, dim0: builtins.int, dim1: builtins.int, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy with dimensions `dim0` and `dim1` swapped."""
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: builtins.float = 1, dim: builtins.int = -1) -> Tensor:  # tdt/_ops/reduce/statistics.py
    """Integral along `dim` by the trapezoidal rule of the curve through the points y."""
def trapz(y: Tensor, x: Tensor | None = None, *, dx: builtins.float = 1, dim: builtins.int = -1) -> Tensor:  # tdt/_ops/reduce/statistics.py
    """Integral along `dim` by the trapezoidal rule of the curve through the points y."""
def triangular_solve(input: Tensor, A: Tensor, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _triangular_solve_result:  # tdt/_ops/linalg/triangular.py
    """Solution X of A X = input with a triangular A; `linalg.solve_triangular` is the newer form."""
def tril(input: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/diagonals.py
    """A copy of a matrix, or of each matrix in a batch, with zeros outside the lower triangle."""
def tril_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0, *, dtype: _dtype = ..., device: _Device | None = None, layout: _layout | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/ranges.py
    """Indices of the elements in the lower triangle of a matrix of `row` rows and `col` columns."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: builtins.float = 1.0, p: builtins.float = 2.0, eps: builtins.float = 1e-06, swap: builtins.bool = False, reduction: builtins.int = 0) -> Tensor:  # tdt/_ops/nn/loss/native.py
    """max(0, margin + ‖anchor - positive‖ₚ - ‖anchor - negative‖ₚ)."""
def triu(input: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/diagonals.py
    """A copy of a matrix, or of each matrix in a batch, with zeros outside the upper triangle."""
def triu_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0, *, dtype: _dtype = ..., device: _Device | None = None, layout: _layout | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:  # tdt/_core/ranges.py
    """Indices of the elements in the upper triangle of a matrix of `row` rows and `col` columns."""
def true_divide(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/arithmetic.py
    """The quotient input / other, element by element."""
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """Each element rounded towards 0."""
def trunc_(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/rounding.py
    """In-place version of `trunc`."""
def typename(obj: Any) -> str:  # tdt/compat/_old_types.py
    """The name of an object's type: 'torch.FloatTensor' for a tensor, the dotted name of a class otherwise."""
uint16: _dtype
uint32: _dtype
uint64: _dtype
uint8: _dtype
def unbind(input: Tensor, dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
    """A view for each index along `dim`."""
def unbind_copy(input: Tensor, dim: builtins.int = 0, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...] | None:  # tdt/_ops/shape/view_copies.py
    """A copy of the part at each index along `dim`."""
def unflatten(input: Tensor, dim: builtins.int, sizes: builtins.int | Sequence[builtins.int]) -> Tensor:  # tdt/_ops/shape/views.py
    """A view with dimension `dim` split into several."""
def unfold_copy(input: Tensor, dimension: builtins.int, size: builtins.int, step: builtins.int, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy of the windows of length `size` along `dimension`, `step` apart."""
@overload
def unique(input: Tensor, sorted: builtins.bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: builtins.int | None = None) -> Tensor:
    """Distinct elements of the tensor, or distinct slices along `dim`, in ascending order."""
@overload
def unique(input: Tensor, sorted: builtins.bool = True, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: builtins.int | None = None) -> tuple[Tensor, Tensor]:
    """Distinct elements of the tensor, or distinct slices along `dim`, in ascending order."""
@overload
def unique(input: Tensor, sorted: builtins.bool = True, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor]:
    """Distinct elements of the tensor, or distinct slices along `dim`, in ascending order."""
@overload
def unique(input: Tensor, sorted: builtins.bool = True, *, return_inverse: Literal[True], return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct elements of the tensor, or distinct slices along `dim`, in ascending order."""
@overload
def unique(input: Tensor, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Tensor | tuple[Tensor, ...]:  # tdt/_ops/reduce/unique.py
    """Distinct elements of the tensor, or distinct slices along `dim`, in ascending order."""
@overload
def unique_consecutive(input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: builtins.int | None = None) -> Tensor:
    """Elements, or slices along `dim`, without those that are equal to the one directly before them."""
@overload
def unique_consecutive(input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: builtins.int | None = None) -> tuple[Tensor, Tensor]:
    """Elements, or slices along `dim`, without those that are equal to the one directly before them."""
@overload
def unique_consecutive(input: Tensor, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor]:
    """Elements, or slices along `dim`, without those that are equal to the one directly before them."""
@overload
def unique_consecutive(input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Elements, or slices along `dim`, without those that are equal to the one directly before them."""
@overload
def unique_consecutive(input: Tensor, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Tensor | tuple[Tensor, ...]:  # tdt/_ops/reduce/unique.py
    """Elements, or slices along `dim`, without those that are equal to the one directly before them."""
def unravel_index(indices: Tensor, shape: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]:  # tdt/_ops/reduce/search.py
    """Coordinates, in a tensor of shape `shape`, of indices into that tensor flattened."""
def unsafe_chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
    """As `chunk`, but each view may be written to in place where autograd records."""
def unsafe_split(input: Tensor, split_size: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
    """As `split`, but each view may be written to in place where autograd records."""
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
    """As `split_with_sizes`, but each view may be written to in place where autograd records."""
def unsqueeze(input: Tensor, dim: builtins.int) -> Tensor:  # tdt/_ops/shape/dimensions.py
    """A view with a new dimension of size 1 at position `dim`."""
def unsqueeze_copy(input: Tensor, dim: builtins.int, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy with a new dimension of size 1 at position `dim`."""
def use_deterministic_algorithms(mode: builtins.bool, *, warn_only: builtins.bool = False) -> None:  # tdt/compat/_switches.py
    """Set whether operations must use deterministic algorithms. It changes no result: all operations of tdt are deterministic."""
def vander(x: Tensor, N: builtins.int | None = None, increasing: builtins.bool = False) -> Tensor:  # tdt/_ops/shape/combine.py
    """The Vandermonde matrix of a vector: row i holds the powers of x[i]."""
def var(input: Tensor, dim: _Dims | builtins.bool | None = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/reduce/variance.py
    """Variance over `dim`: sum of squared distances from the mean, divided by n - correction."""
def var_mean(input: Tensor, dim: _Dims | builtins.bool | None = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> tuple[Tensor, Tensor]:  # tdt/_ops/reduce/variance.py
    """Variance and mean over `dim`."""
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/linalg/products.py
    """Dot product of two vectors, the first of which is conjugated."""
def view_as_complex(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
    """A view of pairs (real, imaginary) in the last dimension as complex numbers."""
def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """Complex numbers from the pairs in the last dimension of a real tensor."""
def view_as_real(input: Tensor) -> Tensor:  # tdt/_ops/elementwise/complex_numbers.py
    """A view of a complex tensor as real numbers with a last dimension (real, imaginary)."""
def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """The real and imaginary parts of a complex tensor, in a new last dimension."""
def view_copy(input: Tensor, *sizes: builtins.int | Sequence[builtins.int] | _dtype, size: Sequence[builtins.int] | None = None, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/view_copies.py
    """A copy of `input` in another shape, or with its memory read as another dtype."""
def vsplit(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]:  # tdt/_ops/shape/split.py
    """Views along dimension 0: a number of them of equal size, or split before the given indices."""
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/shape/join.py
    """The tensors joined along dimension 0; a vector counts as a row."""
@overload
def where(condition: Tensor) -> tuple[Tensor, ...]:
    """Elements of `input` where `condition` is True, of `other` elsewhere."""
@overload
def where(condition: Tensor, input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/select.py
    """Elements of `input` where `condition` is True, of `other` elsewhere."""
def xlogy(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
    """The product input · log(other), and 0 where `input` is 0 and `other` is not nan."""
def xlogy_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:  # tdt/_ops/elementwise/binary_math.py
    """In-place version of `xlogy`."""
def zero_(input: Tensor) -> Tensor:  # tdt/_ops/shape/memory.py
    """Overwrite every element with 0."""
def zeros(*sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_core/creation.py
    """A tensor of the given size, all 0."""
def zeros_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: _memory_format | None = None) -> Tensor:  # tdt/_core/creation.py
    """A tensor with the shape, dtype and device of `input`, all 0."""
