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
from tdt.compat import onnx as onnx
from tdt.compat import ops as ops
from tdt.compat import overrides as overrides
from tdt._about import __version__ as __version__
from tdt._core.errors import OutOfMemoryError as OutOfMemoryError
from tdt._core.tensor import Tensor as Tensor
from tdt.amp._mode import autocast as autocast
from tdt._backend.device import device as device
from tdt._core.dtype import dtype as dtype
from tdt._core.mode import enable_grad as enable_grad
from tdt._core.dtype import finfo as finfo
from tdt._core.dtype import iinfo as iinfo
from tdt._core.mode import inference_mode as inference_mode
from tdt._core.layout import layout as layout
from tdt._ops.shape.memory import memory_format as memory_format
from tdt._core.mode import no_grad as no_grad
from tdt._core.mode import set_grad_enabled as set_grad_enabled
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
def abs(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def abs_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def absolute(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def acos(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def acos_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def acosh(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def acosh_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def adaptive_avg_pool1d(input: Tensor, output_size: _Ints) -> Tensor: ...  # tdt/_ops/nn/pool_average.py
def adaptive_max_pool1d(input: Tensor, output_size: _Ints) -> tuple[Tensor, Tensor]: ...  # tdt/_ops/nn/pool_uneven.py
def add(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = ..., alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _Number = ..., alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = ..., alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = ..., alpha: _Number = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _Number = ..., alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
def adjoint(input: Tensor) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
def alias_copy(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def all(input: Tensor, dim: _Dims = ..., keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
def allclose(input: Tensor, other: Tensor, rtol: builtins.float = ..., atol: builtins.float = ..., equal_nan: builtins.bool = ...) -> builtins.bool: ...  # tdt/_ops/elementwise/compare.py
def alpha_dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor: ...  # tdt/_ops/nn/dropout.py
def alpha_dropout_(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor: ...  # tdt/_ops/nn/dropout.py
def amax(input: Tensor, dim: _Dims = ..., keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
def amin(input: Tensor, dim: _Dims = ..., keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
def aminmax(input: Tensor, *, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., out: tuple[Tensor, Tensor] | None = ...) -> _aminmax_result: ...  # tdt/_ops/reduce/reductions.py
def angle(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def any(input: Tensor, dim: _Dims = ..., keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
def arange(start: _Number | Tensor | None = ..., end: _Number | Tensor | None = ..., step: _Number | Tensor = ..., *, out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/ranges.py
def arccos(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def arccos_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def arccosh(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def arccosh_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def arcsin(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def arcsin_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def arcsinh(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def arcsinh_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def arctan(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
def arctan_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def arctanh(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def arctanh_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def are_deterministic_algorithms_enabled() -> builtins.bool: ...  # tdt/compat/_switches.py
def argmax(input: Tensor, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
def argmin(input: Tensor, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
def argsort(input: Tensor, dim: builtins.int = ..., descending: builtins.bool = ..., stable: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/reduce/order.py
def argwhere(input: Tensor) -> Tensor: ...  # tdt/_ops/index/nonzero.py
def as_strided(input: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = ...) -> Tensor: ...  # tdt/_ops/shape/split.py
def as_strided_(input: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = ...) -> Tensor: ...  # tdt/_ops/shape/split.py
def as_strided_copy(input: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def as_strided_scatter(input: Tensor, src: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_scatter.py
def as_tensor(data: Any, dtype: _dtype | None = ..., device: _Device | None = ...) -> Tensor: ...  # tdt/_core/creation.py
def asarray(obj: Any, *, dtype: _dtype | None = ..., device: _Device | None = ..., copy: builtins.bool | None = ..., requires_grad: builtins.bool | None = ...) -> Tensor: ...  # tdt/_core/sharing.py
def asin(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def asin_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def asinh(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def asinh_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def atan(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
def atan_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def atanh(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def atanh_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]: ...  # tdt/_ops/shape/join.py
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]: ...  # tdt/_ops/shape/join.py
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]: ...  # tdt/_ops/shape/join.py
def avg_pool1d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = ..., padding: _Ints = ..., ceil_mode: builtins.bool = ..., count_include_pad: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/nn/pool_average.py
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = ..., alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/add_products.py
def bartlett_window(window_length: builtins.int, periodic: builtins.bool = ..., *, dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., pin_memory: builtins.bool = ..., requires_grad: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/spectral/window_functions.py
def batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: builtins.bool, momentum: builtins.float, eps: builtins.float, cudnn_enabled: builtins.bool) -> Tensor: ...  # tdt/_ops/nn/norm_by_position.py
def bernoulli(input: Tensor, p: builtins.float | None = ..., *, generator: Generator | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
bfloat16: _dtype
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/nn/linear.py
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = ..., pos_weight: Tensor | None = ..., reduction: builtins.int = ...) -> Tensor: ...  # tdt/_ops/nn/loss/native.py
def bincount(input: Tensor, weights: Tensor | None = ..., minlength: builtins.int = ...) -> Tensor: ...  # tdt/_ops/reduce/counting.py
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
def bitwise_and(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def bitwise_left_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def bitwise_not(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def bitwise_or(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def bitwise_right_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def bitwise_xor(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def blackman_window(window_length: builtins.int, periodic: builtins.bool = ..., *, dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., pin_memory: builtins.bool = ..., requires_grad: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/spectral/window_functions.py
def block_diag(*tensors: Tensor) -> Tensor: ...  # tdt/_ops/shape/diagonals.py
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
bool: _dtype
def broadcast_shapes(*shapes: builtins.int | Sequence[builtins.int]) -> Size: ...  # tdt/_ops/shape/views.py
def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/views.py
def broadcast_to(input: Tensor, size: Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/views.py
def bucketize(input: Tensor | _Number, boundaries: Tensor, *, out_int32: builtins.bool = ..., right: builtins.bool = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/search.py
def can_cast(from_: _dtype, to: _dtype) -> builtins.bool: ...  # tdt/_core/dtype.py
def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor: ...  # tdt/_ops/shape/combine.py
def cat(tensors: Sequence[Tensor], dim: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/join.py
def cdist(x1: Tensor, x2: Tensor, p: builtins.float = ..., compute_mode: str = ...) -> Tensor: ...  # tdt/_ops/linalg/distance.py
cdouble: _dtype
def ceil(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def ceil_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def celu(input: Tensor, alpha: builtins.float = ..., inplace: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/elementwise/activation.py
def celu_(input: Tensor, alpha: builtins.float = ...) -> Tensor: ...  # tdt/_ops/elementwise/activation.py
cfloat: _dtype
def chain_matmul(*matrices: Tensor, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/matrix_functions.py
def channel_shuffle(input: Tensor, groups: builtins.int) -> Tensor: ...  # tdt/_ops/nn/shuffle.py
channels_last: _memory_format
channels_last_3d: _memory_format
def cholesky(input: Tensor, upper: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/root_namespace.py
def cholesky_inverse(input: Tensor, upper: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/triangular.py
def cholesky_solve(input: Tensor, input2: Tensor, upper: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/triangular.py
def chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
def clamp(input: Tensor, min: Tensor | _Number | None = ..., max: Tensor | _Number | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def clamp_(input: Tensor, min: Tensor | _Number | None = ..., max: Tensor | _Number | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def clamp_max(input: Tensor, max: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def clamp_max_(input: Tensor, max: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def clamp_min(input: Tensor, min: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def clamp_min_(input: Tensor, min: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def clear_autocast_cache() -> None: ...  # tdt/amp/_mode.py
def clip(input: Tensor, min: Tensor | _Number | None = ..., max: Tensor | _Number | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def clip_(input: Tensor, min: Tensor | _Number | None = ..., max: Tensor | _Number | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def clone(input: Tensor, *, memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_ops/shape/memory.py
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/join.py
def combinations(input: Tensor, r: builtins.int = ..., with_replacement: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/shape/combine.py
def compile(model: Callable[..., Any] | None = ..., *, fullgraph: builtins.bool = ..., dynamic: builtins.bool | None = ..., backend: str | Callable[..., Any] | None = ..., mode: str | None = ..., options: dict[str, Any] | None = ..., name: str | None = ..., disable: builtins.bool = ..., recompile_limit: builtins.int | None = ..., isolate_recompiles: builtins.bool = ..., shapes_spec: Any = ...) -> Any: ...  # tdt/compat/_switches.py
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
complex128: _dtype
complex64: _dtype
def concat(tensors: Sequence[Tensor], dim: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/join.py
def concatenate(tensors: Sequence[Tensor], dim: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/join.py
def conj(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
def conj_physical(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
def conj_physical_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
def constant_pad_nd(input: Tensor, pad: Sequence[builtins.int], value: builtins.float = ...) -> Tensor: ...  # tdt/_ops/nn/pad.py
contiguous_format: _memory_format
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: _Ints = ..., padding: _Ints | str = ..., dilation: _Ints = ..., groups: builtins.int = ...) -> Tensor: ...  # tdt/_ops/nn/conv.py
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: _Ints = ..., padding: _Ints | str = ..., dilation: _Ints = ..., groups: builtins.int = ...) -> Tensor: ...  # tdt/_ops/nn/conv.py
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: _Ints = ..., padding: _Ints | str = ..., dilation: _Ints = ..., groups: builtins.int = ...) -> Tensor: ...  # tdt/_ops/nn/conv.py
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: builtins.int = ...) -> Tensor: ...  # tdt/_ops/nn/conv_transpose.py
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: _Ints = ..., padding: _Ints = ..., output_padding: _Ints = ..., groups: builtins.int = ..., dilation: _Ints = ...) -> Tensor: ...  # tdt/_ops/nn/conv_transpose.py
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: _Ints = ..., padding: _Ints = ..., output_padding: _Ints = ..., groups: builtins.int = ..., dilation: _Ints = ...) -> Tensor: ...  # tdt/_ops/nn/conv_transpose.py
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: _Ints = ..., padding: _Ints = ..., output_padding: _Ints = ..., groups: builtins.int = ..., dilation: _Ints = ...) -> Tensor: ...  # tdt/_ops/nn/conv_transpose.py
def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[builtins.int], padding: Sequence[builtins.int], dilation: Sequence[builtins.int], transposed: builtins.bool, output_padding: Sequence[builtins.int], groups: builtins.int) -> Tensor: ...  # tdt/_ops/nn/conv_transpose.py
def copysign(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
def corrcoef(input: Tensor) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
def cos(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def cos_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def cosh(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def cosh_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = ..., reduction: builtins.int = ...) -> Tensor: ...  # tdt/_ops/nn/loss/native.py
def cosine_similarity(x1: Tensor, x2: Tensor, dim: builtins.int = ..., eps: builtins.float = ...) -> Tensor: ...  # tdt/_ops/linalg/distance.py
def count_nonzero(input: Tensor, dim: _Dims = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
def cov(input: Tensor, *, correction: builtins.int = ..., fweights: Tensor | None = ..., aweights: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
def cross(input: Tensor, other: Tensor, dim: builtins.int | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: _Lengths, target_lengths: _Lengths, blank: builtins.int = ..., reduction: builtins.int = ..., zero_infinity: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/nn/loss/native.py
def cummax(input: Tensor, dim: builtins.int, *, out: tuple[Tensor, Tensor] | None = ...) -> _cummax_result: ...  # tdt/_ops/reduce/cumulative.py
def cummin(input: Tensor, dim: builtins.int, *, out: tuple[Tensor, Tensor] | None = ...) -> _cummin_result: ...  # tdt/_ops/reduce/cumulative.py
def cumprod(input: Tensor, dim: builtins.int, *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/cumulative.py
def cumsum(input: Tensor, dim: builtins.int, *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/cumulative.py
def cumulative_trapezoid(y: Tensor, x: Tensor | None = ..., *, dx: builtins.float = ..., dim: builtins.int = ...) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
default_generator: Generator
def deg2rad(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def deg2rad_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def det(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/root_namespace.py
def detach(self: Tensor) -> Tensor: ...  # tdt/autograd/_variable.py
def detach_(self: Tensor) -> Tensor: ...  # tdt/autograd/_variable.py
def detach_copy(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def diag(input: Tensor, diagonal: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/diagonals.py
def diag_embed(input: Tensor, offset: builtins.int = ..., dim1: builtins.int = ..., dim2: builtins.int = ...) -> Tensor: ...  # tdt/_ops/shape/diagonals.py
def diagflat(input: Tensor, offset: builtins.int = ...) -> Tensor: ...  # tdt/_ops/shape/diagonals.py
def diagonal(input: Tensor, offset: builtins.int = ..., dim1: builtins.int = ..., dim2: builtins.int = ...) -> Tensor: ...  # tdt/_ops/shape/views.py
def diagonal_copy(input: Tensor, offset: builtins.int = ..., dim1: builtins.int = ..., dim2: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def diagonal_scatter(input: Tensor, src: Tensor, offset: builtins.int = ..., dim1: builtins.int = ..., dim2: builtins.int = ...) -> Tensor: ...  # tdt/_ops/shape/view_scatter.py
def diff(input: Tensor, n: builtins.int = ..., dim: builtins.int = ..., prepend: Tensor | None = ..., append: Tensor | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/cumulative.py
def digamma(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def dist(input: Tensor, other: Tensor, p: builtins.float = ...) -> Tensor: ...  # tdt/_ops/linalg/norms.py
def div(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: str | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def divide(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: str | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
double: _dtype
def dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor: ...  # tdt/_ops/nn/dropout.py
def dropout_(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor: ...  # tdt/_ops/nn/dropout.py
def dsmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
def dsplit(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/join.py
e: builtins.float
def einsum(*args: Any) -> Tensor: ...  # tdt/_ops/linalg/einsum.py
def embedding(weight: Tensor, indices: Tensor, padding_idx: builtins.int = ..., scale_grad_by_freq: builtins.bool = ..., sparse: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/nn/embedding.py
def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: builtins.bool = ..., mode: builtins.int = ..., sparse: builtins.bool = ..., per_sample_weights: Tensor | None = ..., include_last_offset: builtins.bool = ..., padding_idx: builtins.int | None = ...) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...  # tdt/_ops/nn/embedding_bag.py
def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: builtins.float, norm_type: builtins.float) -> Tensor: ...  # tdt/_ops/nn/embedding.py
def empty(*sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = ..., out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ..., memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_core/creation.py
def empty_like(input: Tensor, *, dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_core/creation.py
def empty_permuted(size: Sequence[builtins.int], physical_layout: Sequence[builtins.int], *, dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/creation.py
def empty_strided(size: Sequence[builtins.int], stride: Sequence[builtins.int], *, dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/creation.py
def eq(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def equal(input: Tensor, other: Tensor) -> builtins.bool: ...  # tdt/_ops/elementwise/compare.py
def erf(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def erf_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def erfc(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def erfc_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def erfinv(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def exp(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def exp2(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def exp2_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def exp_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def expand_copy(input: Tensor, size: Sequence[builtins.int], *, implicit: builtins.bool = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def expm1(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def expm1_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def eye(n: builtins.int, m: builtins.int | None = ..., *, out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/ranges.py
def feature_alpha_dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor: ...  # tdt/_ops/nn/dropout.py
def feature_alpha_dropout_(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor: ...  # tdt/_ops/nn/dropout.py
def feature_dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor: ...  # tdt/_ops/nn/dropout.py
def feature_dropout_(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor: ...  # tdt/_ops/nn/dropout.py
def fill(input: Tensor, value: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def fill_(input: Tensor, value: Tensor | _Number) -> Tensor: ...  # tdt/_ops/shape/memory.py
def fix(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def fix_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def flatten(input: Tensor, start_dim: builtins.int = ..., end_dim: builtins.int = ...) -> Tensor: ...  # tdt/_ops/shape/views.py
def flip(input: Tensor, dims: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/reorder.py
def fliplr(input: Tensor) -> Tensor: ...  # tdt/_ops/shape/reorder.py
def flipud(input: Tensor) -> Tensor: ...  # tdt/_ops/shape/reorder.py
float: _dtype
float16: _dtype
float32: _dtype
float64: _dtype
float8_e4m3fn: _dtype
float8_e4m3fnuz: _dtype
float8_e5m2: _dtype
float8_e5m2fnuz: _dtype
float8_e8m0fnu: _dtype
def float_power(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def floor(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def floor_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def floor_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def fmod(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def frac(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def frac_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def frexp(input: Tensor, *, out: tuple[Tensor, Tensor] | None = ...) -> _frexp_result: ...  # tdt/_ops/elementwise/rounding.py
def frobenius_norm(input: Tensor, dim: _Dims, keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/norms.py
def from_dlpack(ext_tensor: Any, *, device: _Device | None = ..., copy: builtins.bool | None = ...) -> Tensor: ...  # tdt/_core/sharing.py
def from_file(filename: str | PathLike[str], shared: builtins.bool | None = ..., size: builtins.int = ..., *, dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/sharing.py
def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor: ...  # tdt/_core/creation.py
def frombuffer(buffer: Any, *, dtype: _dtype, count: builtins.int = ..., offset: builtins.int = ..., requires_grad: builtins.bool = ...) -> Tensor: ...  # tdt/_core/sharing.py
def full(size: Sequence[builtins.int], fill_value: _Number, *, out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/creation.py
def full_like(input: Tensor, fill_value: _Number, *, dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_core/creation.py
def gather(input: Tensor, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/scatter.py
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def gcd_(input: Tensor, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def ge(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def geqrf(input: Tensor, *, out: tuple[Tensor, Tensor] | None = ...) -> _geqrf_result: ...  # tdt/_ops/linalg/householder.py
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
def get_autocast_cpu_dtype() -> _dtype: ...  # tdt/amp/_mode.py
def get_autocast_dtype(device_type: str) -> _dtype: ...  # tdt/amp/_mode.py
def get_autocast_gpu_dtype() -> _dtype: ...  # tdt/amp/_mode.py
def get_default_device() -> _device: ...  # tdt/_backend/device.py
def get_default_dtype() -> _dtype: ...  # tdt/_core/dtype.py
def get_deterministic_debug_mode() -> builtins.int: ...  # tdt/compat/_switches.py
def get_device(input: Tensor) -> builtins.int: ...  # tdt/_core/layout.py
def get_float32_matmul_precision() -> str: ...  # tdt/compat/_switches.py
def get_num_interop_threads() -> builtins.int: ...  # tdt/compat/_switches.py
def get_num_threads() -> builtins.int: ...  # tdt/_kernels/_pool.py
def get_rng_state() -> Tensor: ...  # tdt/_random/_generator.py
def gradient(input: Tensor, *, spacing: builtins.float | Tensor | Sequence[builtins.float | Tensor] | None = ..., dim: builtins.int | Sequence[builtins.int] | None = ..., edge_order: Literal[1, 2] = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/reduce/statistics.py
def greater(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def greater_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool) -> Tensor: ...  # tdt/_ops/nn/grid_sample.py
def grid_sampler_2d(input: Tensor, grid: Tensor, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool) -> Tensor: ...  # tdt/_ops/nn/grid_sample.py
def grid_sampler_3d(input: Tensor, grid: Tensor, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool) -> Tensor: ...  # tdt/_ops/nn/grid_sample.py
def group_norm(input: Tensor, num_groups: builtins.int, weight: Tensor | None = ..., bias: Tensor | None = ..., eps: builtins.float = ..., cudnn_enabled: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/nn/norm_by_position.py
def gru(*args: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float, **kwargs: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float) -> tuple[Tensor, Tensor]: ...  # tdt/_ops/nn/rnn/_layers.py
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = ..., b_hh: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/nn/rnn/_layers.py
def gt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
half: _dtype
def hamming_window(window_length: builtins.int, periodic: builtins.bool = ..., alpha: builtins.float = ..., beta: builtins.float = ..., *, dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., pin_memory: builtins.bool = ..., requires_grad: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/spectral/window_functions.py
def hann_window(window_length: builtins.int, periodic: builtins.bool = ..., *, dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., pin_memory: builtins.bool = ..., requires_grad: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/spectral/window_functions.py
def hardshrink(input: Tensor, lambd: builtins.float = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/piecewise.py
def hash_tensor(input: Tensor, dim: _Dims = ..., *, keepdim: builtins.bool = ..., mode: builtins.int = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: builtins.float = ..., reduction: builtins.int = ...) -> Tensor: ...  # tdt/_ops/nn/loss/native.py
def histc(input: Tensor, bins: builtins.int = ..., min: builtins.float = ..., max: builtins.float = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/counting.py
def histogram(input: Tensor, bins: builtins.int | Tensor = ..., *, range: Sequence[builtins.float] | None = ..., weight: Tensor | None = ..., density: builtins.bool = ..., out: tuple[Tensor, Tensor] | None = ...) -> _histogram_result: ...  # tdt/_ops/reduce/counting.py
def histogramdd(input: Tensor, bins: builtins.int | Sequence[builtins.int] | Sequence[Tensor], range: Sequence[builtins.float] | None = ..., weight: Tensor | None = ..., density: builtins.bool = ..., out: None = ...) -> tuple[Tensor, tuple[Tensor, ...]]: ...  # tdt/_ops/reduce/counting.py
def hsmm(mat1: Tensor, mat2: Tensor) -> Tensor: ...  # tdt/sparse/_functions.py
def hsplit(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor: ...  # tdt/sparse/_functions.py
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/join.py
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
def i0(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/special.py
def i0_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/special.py
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/special.py
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/special.py
def imag(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
def index_add(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
def index_copy(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
def index_fill(input: Tensor, dim: builtins.int, index: Tensor, value: Tensor | _Number) -> Tensor: ...  # tdt/_ops/index/pick.py
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/index/getitem.py
def index_put_(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/index/getitem.py
def index_reduce(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, reduce: Literal['prod', 'mean', 'amax', 'amin'], *, include_self: builtins.bool = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
def index_select(input: Tensor, dim: builtins.int, index: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
inf: builtins.float
def initial_seed() -> builtins.int: ...  # tdt/_random/_generator.py
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
def instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, use_input_stats: builtins.bool, momentum: builtins.float, eps: builtins.float, cudnn_enabled: builtins.bool) -> Tensor: ...  # tdt/_ops/nn/norm_by_position.py
int: _dtype
int16: _dtype
int32: _dtype
int64: _dtype
int8: _dtype
def inverse(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/solve.py
def is_anomaly_check_nan_enabled() -> builtins.bool: ...  # tdt/autograd/_anomaly.py
def is_anomaly_enabled() -> builtins.bool: ...  # tdt/autograd/_anomaly.py
def is_autocast_cache_enabled() -> builtins.bool: ...  # tdt/amp/_mode.py
def is_autocast_cpu_enabled() -> builtins.bool: ...  # tdt/amp/_mode.py
def is_autocast_enabled(device_type: str = ...) -> builtins.bool: ...  # tdt/amp/_mode.py
def is_complex(input: Tensor) -> builtins.bool: ...  # tdt/_core/layout.py
def is_conj(input: Tensor) -> builtins.bool: ...  # tdt/_core/layout.py
def is_deterministic_algorithms_warn_only_enabled() -> builtins.bool: ...  # tdt/compat/_switches.py
def is_distributed(input: Tensor) -> builtins.bool: ...  # tdt/_core/layout.py
def is_floating_point(input: Tensor) -> builtins.bool: ...  # tdt/_core/layout.py
def is_grad_enabled() -> builtins.bool: ...  # tdt/_core/mode.py
def is_inference(input: Tensor) -> builtins.bool: ...  # tdt/_core/layout.py
def is_inference_mode_enabled() -> builtins.bool: ...  # tdt/_core/mode.py
def is_neg(input: Tensor) -> builtins.bool: ...  # tdt/_core/layout.py
def is_nonzero(input: Tensor) -> builtins.bool: ...  # tdt/_core/layout.py
def is_same_size(input: Tensor, other: Tensor) -> builtins.bool: ...  # tdt/_core/layout.py
def is_signed(input: Tensor) -> builtins.bool: ...  # tdt/_core/layout.py
def is_storage(obj: Any) -> builtins.bool: ...  # tdt/_core/storage.py
def is_tensor(obj: Any) -> builtins.bool: ...  # tdt/_core/layout.py
def isclose(input: Tensor, other: Tensor, rtol: builtins.float = ..., atol: builtins.float = ..., equal_nan: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def isfinite(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def isin(elements: Tensor | _Number, test_elements: Tensor | _Number, *, assume_unique: builtins.bool = ..., invert: builtins.bool = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/search.py
def isinf(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def isnan(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def isneginf(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def isposinf(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def isreal(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def istft(input: Tensor, n_fft: builtins.int, hop_length: builtins.int | None = ..., win_length: builtins.int | None = ..., window: Tensor | None = ..., center: builtins.bool = ..., normalized: builtins.bool = ..., onesided: builtins.bool | None = ..., length: builtins.int | None = ..., return_complex: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/spectral/stft.py
def kaiser_window(window_length: builtins.int, periodic: builtins.bool = ..., beta: builtins.float = ..., *, dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., pin_memory: builtins.bool = ..., requires_grad: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/spectral/window_functions.py
def kl_div(input: Tensor, target: Tensor, reduction: builtins.int = ..., *, log_target: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/nn/loss/native.py
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
def kthvalue(input: Tensor, k: builtins.int, dim: builtins.int = ..., keepdim: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _kthvalue_result: ...  # tdt/_ops/reduce/order.py
def layer_norm(input: Tensor, normalized_shape: Sequence[builtins.int], weight: Tensor | None = ..., bias: Tensor | None = ..., eps: builtins.float = ..., cudnn_enable: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/nn/norm_by_position.py
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def lcm_(input: Tensor, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
def ldexp_(input: Tensor, other: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
def le(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
legacy_contiguous_format: _memory_format
def lerp(input: Tensor, end: Tensor, weight: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def less(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def less_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def lgamma(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def linspace(start: _Number | Tensor, end: _Number | Tensor, steps: builtins.int, *, out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/ranges.py
def load(f: str | PathLike[str] | IO[bytes], map_location: Any = ..., pickle_module: Any = ..., *, weights_only: builtins.bool | None = ..., mmap: builtins.bool | None = ..., **pickle_load_args: Any) -> Any: ...  # tdt/serialization/__init__.py
def lobpcg(A: Tensor, k: builtins.int | None = ..., B: Tensor | None = ..., X: Tensor | None = ..., n: builtins.int | None = ..., iK: Tensor | None = ..., niter: builtins.int | None = ..., tol: builtins.float | None = ..., largest: builtins.bool | None = ..., method: str | None = ..., tracker: Callable[[Any], None] | None = ..., ortho_iparams: dict[str, builtins.int] | None = ..., ortho_fparams: dict[str, builtins.float] | None = ..., ortho_bparams: dict[str, builtins.bool] | None = ...) -> tuple[Tensor, Tensor]: ...  # tdt/_ops/linalg/lobpcg.py
def log(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def log10(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def log10_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def log1p(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def log1p_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def log2(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def log2_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def log_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def log_softmax(input: Tensor, dim: builtins.int, dtype: _dtype | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/nn/softmax.py
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
def logcumsumexp(input: Tensor, dim: builtins.int, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/cumulative.py
def logdet(input: Tensor) -> Tensor: ...  # tdt/_ops/linalg/solve.py
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def logical_not(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def logit(input: Tensor, eps: builtins.float | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def logit_(input: Tensor, eps: builtins.float | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def logspace(start: _Number | Tensor, end: _Number | Tensor, steps: builtins.int, base: builtins.float = ..., *, out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/ranges.py
def logsumexp(input: Tensor, dim: _Dims, keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
long: _dtype
def lstm(*args: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float, **kwargs: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float) -> tuple[Tensor, Tensor, Tensor]: ...  # tdt/_ops/nn/rnn/_layers.py
def lstm_cell(input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = ..., b_hh: Tensor | None = ...) -> tuple[Tensor, Tensor]: ...  # tdt/_ops/nn/rnn/_layers.py
def lt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def lu(A: Tensor, pivot: builtins.bool = ..., get_infos: builtins.bool = ..., out: tuple[Tensor, ...] | None = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/linalg/root_namespace.py
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/root_namespace.py
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: builtins.bool = ..., unpack_pivots: builtins.bool = ..., *, out: tuple[Tensor, Tensor, Tensor] | None = ...) -> _lu_unpack_result: ...  # tdt/_ops/linalg/lu.py
def manual_seed(seed: builtins.int) -> Generator: ...  # tdt/_random/_generator.py
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = ..., reduction: builtins.int = ...) -> Tensor: ...  # tdt/_ops/nn/loss/native.py
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor: ...  # tdt/_ops/index/pick.py
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
def matrix_exp(input: Tensor) -> Tensor: ...  # tdt/_ops/linalg/matrix_functions.py
def matrix_power(input: Tensor, n: builtins.int, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/matrix_functions.py
@overload
def max(input: Tensor) -> Tensor: ...
@overload
def max(input: Tensor, dim: builtins.int, keepdim: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _max_result: ...
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/order.py
def max_pool1d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = ..., padding: _Ints = ..., dilation: _Ints = ..., ceil_mode: builtins.bool = ..., return_indices: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/nn/pool_max.py
def max_pool1d_with_indices(input: Tensor, kernel_size: _Ints, stride: _Ints | None = ..., padding: _Ints = ..., dilation: _Ints = ..., ceil_mode: builtins.bool = ..., return_indices: builtins.bool = ...) -> tuple[Tensor, Tensor]: ...  # tdt/_ops/nn/pool_max.py
def max_pool2d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = ..., padding: _Ints = ..., dilation: _Ints = ..., ceil_mode: builtins.bool = ..., return_indices: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/nn/pool_max.py
def max_pool3d(input: Tensor, kernel_size: _Ints, stride: _Ints | None = ..., padding: _Ints = ..., dilation: _Ints = ..., ceil_mode: builtins.bool = ..., return_indices: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/nn/pool_max.py
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def mean(input: Tensor, dim: _Dims = ..., keepdim: builtins.bool = ..., *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
@overload
def median(input: Tensor) -> Tensor: ...
@overload
def median(input: Tensor, dim: builtins.int, keepdim: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _median_result: ...  # tdt/_ops/reduce/order.py
def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: Literal['ij', 'xy'] | None = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/join.py
@overload
def min(input: Tensor) -> Tensor: ...
@overload
def min(input: Tensor, dim: builtins.int, keepdim: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _min_result: ...
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/order.py
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
def mode(input: Tensor, dim: builtins.int = ..., keepdim: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _mode_result: ...  # tdt/_ops/reduce/order.py
def moveaxis(input: Tensor, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
def movedim(input: Tensor, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
def msort(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/order.py
def mul(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def multinomial(input: Tensor, num_samples: builtins.int, replacement: builtins.bool = ..., *, generator: Generator | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
def multiply(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
def mvlgamma(input: Tensor, p: builtins.int, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/special.py
nan: builtins.float
def nan_to_num(input: Tensor, nan: builtins.float | None = ..., posinf: builtins.float | None = ..., neginf: builtins.float | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def nan_to_num_(input: Tensor, nan: builtins.float | None = ..., posinf: builtins.float | None = ..., neginf: builtins.float | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def nanmean(input: Tensor, dim: _Dims = ..., keepdim: builtins.bool = ..., *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
@overload
def nanmedian(input: Tensor) -> Tensor: ...
@overload
def nanmedian(input: Tensor, dim: builtins.int, keepdim: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _nanmedian_result: ...  # tdt/_ops/reduce/order.py
def nanquantile(input: Tensor, q: builtins.float | Tensor, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., *, interpolation: Literal['linear', 'lower', 'higher', 'midpoint', 'nearest'] = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
def nansum(input: Tensor, dim: _Dims = ..., keepdim: builtins.bool = ..., *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
def narrow(input: Tensor, dim: builtins.int, start: builtins.int | Tensor, length: builtins.int) -> Tensor: ...  # tdt/_ops/shape/views.py
def narrow_copy(input: Tensor, dim: builtins.int, start: builtins.int | Tensor, length: builtins.int, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: builtins.bool, momentum: builtins.float, eps: builtins.float, *, out: _Normed | None = ...) -> _Normed: ...  # tdt/_ops/nn/norm_by_position.py
def native_channel_shuffle(input: Tensor, groups: builtins.int) -> Tensor: ...  # tdt/_ops/nn/shuffle.py
def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: builtins.int, C: builtins.int, HxW: builtins.int, group: builtins.int, eps: builtins.float) -> _Normed: ...  # tdt/_ops/nn/norm_by_position.py
def native_layer_norm(input: Tensor, normalized_shape: Sequence[builtins.int], weight: Tensor | None, bias: Tensor | None, eps: builtins.float) -> _Normed: ...  # tdt/_ops/nn/norm_by_position.py
def ne(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def neg(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def neg_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def negative(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def negative_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
newaxis: Any
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def nonzero(input: Tensor, *, out: Tensor | None = ..., as_tuple: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/index/nonzero.py
def nonzero_static(input: Tensor, *, size: builtins.int, fill_value: builtins.int = ...) -> Tensor: ...  # tdt/_ops/index/nonzero.py
def norm(input: Tensor, p: builtins.float | Literal['fro', 'nuc'] | None = ..., dim: _Dims = ..., keepdim: builtins.bool = ..., out: Tensor | None = ..., dtype: _dtype | None = ...) -> Tensor: ...  # tdt/_ops/linalg/norms.py
def normal(mean: builtins.float | Tensor, std: builtins.float | Tensor = ..., size: _Ints | None = ..., *, generator: Generator | None = ..., out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
def not_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def nuclear_norm(input: Tensor, dim: _Dims = ..., keepdim: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/norms.py
def numel(input: Tensor) -> builtins.int: ...  # tdt/_core/layout.py
def ones(*sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = ..., out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ..., memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_core/creation.py
def ones_like(input: Tensor, *, dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_core/creation.py
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/householder.py
def ormqr(input: Tensor, input2: Tensor, input3: Tensor, left: builtins.bool = ..., transpose: builtins.bool = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/householder.py
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
def pairwise_distance(x1: Tensor, x2: Tensor, p: builtins.float = ..., eps: builtins.float = ..., keepdim: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/linalg/distance.py
def pca_lowrank(A: Tensor, q: builtins.int | None = ..., center: builtins.bool = ..., niter: builtins.int = ...) -> tuple[Tensor, Tensor, Tensor]: ...  # tdt/_ops/linalg/low_rank.py
def pdist(input: Tensor, p: builtins.float = ...) -> Tensor: ...  # tdt/_ops/linalg/distance.py
def permute(input: Tensor, dims: Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
def permute_copy(input: Tensor, dims: Sequence[builtins.int], *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
pi: builtins.float
def pinverse(input: Tensor, rcond: builtins.float = ...) -> Tensor: ...  # tdt/_ops/linalg/least_squares.py
def pixel_shuffle(input: Tensor, upscale_factor: builtins.int) -> Tensor: ...  # tdt/_ops/nn/shuffle.py
def pixel_unshuffle(input: Tensor, downscale_factor: builtins.int) -> Tensor: ...  # tdt/_ops/nn/shuffle.py
def poisson(input: Tensor, generator: Generator | None = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: builtins.bool, full: builtins.bool, eps: builtins.float, reduction: builtins.int) -> Tensor: ...  # tdt/_ops/nn/loss/native.py
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/combine.py
def polygamma(n: builtins.int, input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def positive(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def pow(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def prelu(input: Tensor, weight: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/piecewise.py
preserve_format: _memory_format
def prod(input: Tensor, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
def promote_types(type1: _dtype, type2: _dtype) -> _dtype: ...  # tdt/_core/dtype.py
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
def qr(input: Tensor, some: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _qr_result: ...  # tdt/_ops/linalg/root_namespace.py
def quantile(input: Tensor, q: builtins.float | Tensor, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., *, interpolation: Literal['linear', 'lower', 'higher', 'midpoint', 'nearest'] = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
def rad2deg(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def rad2deg_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def rand(*sizes: _Ints, size: _Ints | None = ..., generator: Generator | None = ..., out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
def rand_like(input: Tensor, *, generator: Generator | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
def randint(*ends: _Ints, low: builtins.int = ..., high: builtins.int | None = ..., size: _Ints | None = ..., generator: Generator | None = ..., out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
def randint_like(input: Tensor, *ends: builtins.int, low: builtins.int = ..., high: builtins.int | None = ..., generator: Generator | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
def randn(*sizes: _Ints, size: _Ints | None = ..., generator: Generator | None = ..., out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
def randn_like(input: Tensor, *, generator: Generator | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
def randperm(n: builtins.int, *, generator: Generator | None = ..., out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/random/creation.py
def range(start: builtins.float = ..., end: builtins.float | None = ..., step: builtins.float = ..., *, out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/ranges.py
def ravel(input: Tensor) -> Tensor: ...  # tdt/_ops/shape/views.py
def real(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
def reciprocal(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def reciprocal_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def relu(input: Tensor, inplace: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/elementwise/piecewise.py
def relu_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/piecewise.py
def remainder(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def renorm(input: Tensor, p: builtins.float, dim: builtins.int, maxnorm: builtins.float, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
def repeat_interleave(input: Tensor, repeats: Tensor | builtins.int | None = ..., dim: builtins.int | None = ..., *, output_size: builtins.int | None = ...) -> Tensor: ...  # tdt/_ops/shape/join.py
def reshape(input: Tensor, shape: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/views.py
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_ops/shape/resize.py
def resolve_conj(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
def resolve_neg(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
def result_type(tensor1: Tensor | _Number, tensor2: Tensor | _Number) -> _dtype: ...  # tdt/_core/layout.py
def rms_norm(input: Tensor, normalized_shape: Sequence[builtins.int], weight: Tensor | None = ..., eps: builtins.float | None = ...) -> Tensor: ...  # tdt/_ops/nn/layer_norm.py
def rnn_relu(*args: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float, **kwargs: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float) -> tuple[Tensor, Tensor]: ...  # tdt/_ops/nn/rnn/_layers.py
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = ..., b_hh: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/nn/rnn/_layers.py
def rnn_tanh(*args: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float, **kwargs: Tensor | Sequence[Tensor] | builtins.bool | builtins.int | builtins.float) -> tuple[Tensor, Tensor]: ...  # tdt/_ops/nn/rnn/_layers.py
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = ..., b_hh: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/nn/rnn/_layers.py
def roll(input: Tensor, shifts: builtins.int | Sequence[builtins.int], dims: _Dims = ...) -> Tensor: ...  # tdt/_ops/shape/reorder.py
def rot90(input: Tensor, k: builtins.int = ..., dims: Sequence[builtins.int] = ...) -> Tensor: ...  # tdt/_ops/shape/reorder.py
def round(input: Tensor, *, decimals: builtins.int | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def round_(input: Tensor, *, decimals: builtins.int | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/join.py
def rrelu(input: Tensor, lower: builtins.float = ..., upper: builtins.float = ..., training: builtins.bool = ..., inplace: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/elementwise/piecewise.py
def rrelu_(input: Tensor, lower: builtins.float = ..., upper: builtins.float = ..., training: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/elementwise/piecewise.py
def rsqrt(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def rsqrt_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def rsub(input: Tensor, other: Tensor | _Number, *, alpha: _Number = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def save(obj: Any, f: str | PathLike[str] | IO[bytes], pickle_module: Any = ..., pickle_protocol: builtins.int = ..., _use_new_zipfile_serialization: builtins.bool = ..., _disable_byteorder_record: builtins.bool = ...) -> None: ...  # tdt/serialization/__init__.py
def scalar_tensor(s: _Number, *, dtype: _dtype | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ...) -> Tensor: ...  # tdt/_core/creation.py
def scatter(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor | _Number | None = ..., *, value: _Number | None = ..., reduce: Literal['add', 'multiply'] | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/scatter.py
def scatter_add(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/scatter.py
def scatter_reduce(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor, reduce: Literal['sum', 'prod', 'mean', 'amax', 'amin'], *, include_self: builtins.bool = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/scatter.py
def searchsorted(sorted_sequence: Tensor, input: Tensor | _Number, *, out_int32: builtins.bool = ..., right: builtins.bool = ..., side: Literal['left', 'right'] | None = ..., sorter: Tensor | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/search.py
def seed() -> builtins.int: ...  # tdt/_random/_generator.py
def segment_reduce(data: Tensor, reduce: Literal['sum', 'mean', 'max', 'min', 'prod'], *, lengths: Tensor | None = ..., indices: Tensor | None = ..., offsets: Tensor | None = ..., axis: builtins.int = ..., unsafe: builtins.bool = ..., initial: builtins.float | None = ...) -> Tensor: ...  # tdt/_ops/reduce/segments.py
def select(input: Tensor, dim: builtins.int, index: builtins.int) -> Tensor: ...  # tdt/_ops/shape/views.py
def select_copy(input: Tensor, dim: builtins.int, index: builtins.int, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def select_scatter(input: Tensor, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor: ...  # tdt/_ops/shape/view_scatter.py
def selu(input: Tensor, inplace: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/elementwise/activation.py
def selu_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/activation.py
def set_anomaly_enabled(mode: builtins.bool, check_nan: builtins.bool = ...) -> None: ...  # tdt/autograd/_anomaly.py
def set_autocast_cache_enabled(enabled: builtins.bool) -> None: ...  # tdt/amp/_mode.py
def set_autocast_dtype(device_type: str, dtype: _dtype) -> None: ...  # tdt/amp/_mode.py
def set_default_device(device: _device | str | builtins.int | None) -> None: ...  # tdt/_backend/device.py
def set_default_dtype(d: _dtype) -> None: ...  # tdt/_core/dtype.py
def set_default_tensor_type(t: Any) -> None: ...  # tdt/compat/_old_types.py
def set_deterministic_debug_mode(debug_mode: builtins.int | str) -> None: ...  # tdt/compat/_switches.py
def set_float32_matmul_precision(precision: str) -> None: ...  # tdt/compat/_switches.py
def set_flush_denormal(mode: builtins.bool) -> builtins.bool: ...  # tdt/compat/_switches.py
def set_num_interop_threads(num: builtins.int) -> None: ...  # tdt/compat/_switches.py
def set_num_threads(threads: builtins.int) -> None: ...  # tdt/_kernels/_pool.py
def set_printoptions(precision: builtins.int | None = ..., threshold: builtins.int | None = ..., edgeitems: builtins.int | None = ..., linewidth: builtins.int | None = ..., profile: Literal['default', 'short', 'full'] | None = ..., sci_mode: builtins.bool | None = ...) -> None: ...  # tdt/_core/printing.py
def set_rng_state(new_state: Tensor) -> None: ...  # tdt/_random/_generator.py
def sgn(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
short: _dtype
def sigmoid(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def sigmoid_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def sign(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def signbit(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/compare.py
def sin(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def sin_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def sinc(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def sinc_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def sinh(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def sinh_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def slice_copy(input: Tensor, dim: builtins.int = ..., start: builtins.int | None = ..., end: builtins.int | None = ..., step: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def slice_scatter(input: Tensor, src: Tensor, dim: builtins.int = ..., start: builtins.int | None = ..., end: builtins.int | None = ..., step: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_scatter.py
def slogdet(input: Tensor, *, out: tuple[Tensor, Tensor] | None = ...) -> _slogdet_result: ...  # tdt/_ops/linalg/root_namespace.py
def smm(input: Tensor, mat: Tensor) -> Tensor: ...  # tdt/sparse/_functions.py
def softmax(input: Tensor, dim: builtins.int, dtype: _dtype | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/nn/softmax.py
def sort(input: Tensor, dim: builtins.int = ..., descending: builtins.bool = ..., stable: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _sort_result: ...  # tdt/_ops/reduce/order.py
sparse_bsc: _layout
sparse_bsr: _layout
sparse_coo: _layout
def sparse_coo_tensor(indices: Any = ..., values: Any = ..., size: Any = ..., *, dtype: _dtype | None = ..., device: Any = ..., pin_memory: builtins.bool = ..., requires_grad: builtins.bool = ..., check_invariants: builtins.bool | None = ..., is_coalesced: builtins.bool | None = ...) -> Tensor: ...  # tdt/sparse/_methods.py
sparse_csc: _layout
sparse_csr: _layout
def sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Any = ..., *, dtype: _dtype | None = ..., device: Any = ..., pin_memory: builtins.bool = ..., requires_grad: builtins.bool = ..., check_invariants: builtins.bool | None = ...) -> Tensor: ...  # tdt/sparse/_methods.py
def split(tensor: Tensor, split_size_or_sections: builtins.int | Sequence[builtins.int], dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
def split_copy(input: Tensor, split_size: builtins.int | Sequence[builtins.int], dim: builtins.int = ..., *, out: Sequence[Tensor] | None = ...) -> tuple[Tensor, ...] | None: ...  # tdt/_ops/shape/view_copies.py
def split_with_sizes(input: Tensor, split_sizes: Sequence[builtins.int], dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[builtins.int], dim: builtins.int = ..., *, out: Sequence[Tensor] | None = ...) -> tuple[Tensor, ...] | None: ...  # tdt/_ops/shape/view_copies.py
def spmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
def sqrt(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def sqrt_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def square(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def square_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def squeeze(input: Tensor, dim: _Dims = ...) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
def squeeze_copy(input: Tensor, dim: _Dims = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: builtins.float = ..., alpha: builtins.float = ...) -> Tensor: ...  # tdt/sparse/_functions.py
def stack(tensors: Sequence[Tensor], dim: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/join.py
def std(input: Tensor, dim: _Dims | builtins.bool | None = ..., unbiased: builtins.bool | None = ..., keepdim: builtins.bool = ..., *, correction: builtins.float | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/variance.py
def std_mean(input: Tensor, dim: _Dims | builtins.bool | None = ..., unbiased: builtins.bool | None = ..., keepdim: builtins.bool = ..., *, correction: builtins.float | None = ...) -> tuple[Tensor, Tensor]: ...  # tdt/_ops/reduce/variance.py
def stft(input: Tensor, n_fft: builtins.int, hop_length: builtins.int | None = ..., win_length: builtins.int | None = ..., window: Tensor | None = ..., center: builtins.bool = ..., pad_mode: str = ..., normalized: builtins.bool = ..., onesided: builtins.bool | None = ..., return_complex: builtins.bool | None = ..., align_to_window: builtins.bool | None = ...) -> Tensor: ...  # tdt/_ops/spectral/stft.py
strided: _layout
def sub(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def subtract(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def sum(input: Tensor, dim: _Dims = ..., keepdim: builtins.bool = ..., *, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/reductions.py
def svd(input: Tensor, some: builtins.bool = ..., compute_uv: builtins.bool = ..., *, out: tuple[Tensor, Tensor, Tensor] | None = ...) -> _svd_result: ...  # tdt/_ops/linalg/root_namespace.py
def svd_lowrank(A: Tensor, q: builtins.int | None = ..., niter: builtins.int | None = ..., M: Tensor | None = ...) -> tuple[Tensor, Tensor, Tensor]: ...  # tdt/_ops/linalg/low_rank.py
def swapaxes(input: Tensor, axis0: builtins.int, axis1: builtins.int) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
def swapdims(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
def t(input: Tensor) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
def t_copy(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def take(input: Tensor, index: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
def take_along_dim(input: Tensor, indices: Tensor, dim: builtins.int | None = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/index/pick.py
def tan(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def tan_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def tanh(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def tanh_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/math.py
def tensor(data: Any, *, dtype: _dtype | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ...) -> Tensor: ...  # tdt/_core/creation.py
def tensor_split(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor, dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
def tensordot(a: Tensor, b: Tensor, dims: builtins.int | tuple[Sequence[builtins.int], Sequence[builtins.int]] | Tensor = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
def threshold(input: Tensor, threshold: builtins.float, value: builtins.float, inplace: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/elementwise/piecewise.py
def threshold_(input: Tensor, threshold: builtins.float, value: builtins.float) -> Tensor: ...  # tdt/_ops/elementwise/piecewise.py
def tile(input: Tensor, dims: Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/join.py
def to_dlpack(tensor: Tensor) -> Any: ...  # tdt/_core/sharing.py
def topk(input: Tensor, k: builtins.int, dim: builtins.int = ..., largest: builtins.bool = ..., sorted: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _topk_result: ...  # tdt/_ops/reduce/order.py
def trace(input: Tensor) -> Tensor: ...  # tdt/_ops/linalg/products.py
def transpose(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
def transpose_copy(input: Tensor, dim0: builtins.int, dim1: builtins.int, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def trapezoid(y: Tensor, x: Tensor | None = ..., *, dx: builtins.float = ..., dim: builtins.int = ...) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
def trapz(y: Tensor, x: Tensor | None = ..., *, dx: builtins.float = ..., dim: builtins.int = ...) -> Tensor: ...  # tdt/_ops/reduce/statistics.py
def triangular_solve(input: Tensor, A: Tensor, upper: builtins.bool = ..., transpose: builtins.bool = ..., unitriangular: builtins.bool = ..., *, out: tuple[Tensor, Tensor] | None = ...) -> _triangular_solve_result: ...  # tdt/_ops/linalg/triangular.py
def tril(input: Tensor, diagonal: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/diagonals.py
def tril_indices(row: builtins.int, col: builtins.int, offset: builtins.int = ..., *, dtype: _dtype = ..., device: _Device | None = ..., layout: _layout | None = ...) -> Tensor: ...  # tdt/_core/ranges.py
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: builtins.float = ..., p: builtins.float = ..., eps: builtins.float = ..., swap: builtins.bool = ..., reduction: builtins.int = ...) -> Tensor: ...  # tdt/_ops/nn/loss/native.py
def triu(input: Tensor, diagonal: builtins.int = ..., *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/diagonals.py
def triu_indices(row: builtins.int, col: builtins.int, offset: builtins.int = ..., *, dtype: _dtype = ..., device: _Device | None = ..., layout: _layout | None = ...) -> Tensor: ...  # tdt/_core/ranges.py
def true_divide(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: str | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/arithmetic.py
def trunc(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def trunc_(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/rounding.py
def typename(obj: Any) -> str: ...  # tdt/compat/_old_types.py
uint16: _dtype
uint32: _dtype
uint64: _dtype
uint8: _dtype
def unbind(input: Tensor, dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
def unbind_copy(input: Tensor, dim: builtins.int = ..., *, out: Sequence[Tensor] | None = ...) -> tuple[Tensor, ...] | None: ...  # tdt/_ops/shape/view_copies.py
def unflatten(input: Tensor, dim: builtins.int, sizes: builtins.int | Sequence[builtins.int]) -> Tensor: ...  # tdt/_ops/shape/views.py
def unfold_copy(input: Tensor, dimension: builtins.int, size: builtins.int, step: builtins.int, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def unique(input: Tensor, sorted: builtins.bool = ..., return_inverse: builtins.bool = ..., return_counts: builtins.bool = ..., dim: builtins.int | None = ...) -> Any: ...  # tdt/_ops/reduce/unique.py
def unique_consecutive(input: Tensor, return_inverse: builtins.bool = ..., return_counts: builtins.bool = ..., dim: builtins.int | None = ...) -> Tensor | tuple[Tensor, ...]: ...  # tdt/_ops/reduce/unique.py
def unravel_index(indices: Tensor, shape: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]: ...  # tdt/_ops/reduce/search.py
def unsafe_chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
def unsafe_split(input: Tensor, split_size: builtins.int | Sequence[builtins.int], dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[builtins.int], dim: builtins.int = ...) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
def unsqueeze(input: Tensor, dim: builtins.int) -> Tensor: ...  # tdt/_ops/shape/dimensions.py
def unsqueeze_copy(input: Tensor, dim: builtins.int, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def use_deterministic_algorithms(mode: builtins.bool, *, warn_only: builtins.bool = ...) -> None: ...  # tdt/compat/_switches.py
def vander(x: Tensor, N: builtins.int | None = ..., increasing: builtins.bool = ...) -> Tensor: ...  # tdt/_ops/shape/combine.py
def var(input: Tensor, dim: _Dims | builtins.bool | None = ..., unbiased: builtins.bool | None = ..., keepdim: builtins.bool = ..., *, correction: builtins.float | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/reduce/variance.py
def var_mean(input: Tensor, dim: _Dims | builtins.bool | None = ..., unbiased: builtins.bool | None = ..., keepdim: builtins.bool = ..., *, correction: builtins.float | None = ...) -> tuple[Tensor, Tensor]: ...  # tdt/_ops/reduce/variance.py
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/linalg/products.py
def view_as_complex(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
def view_as_complex_copy(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def view_as_real(input: Tensor) -> Tensor: ...  # tdt/_ops/elementwise/complex_numbers.py
def view_as_real_copy(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def view_copy(input: Tensor, *shape: builtins.int | Sequence[builtins.int] | _dtype, dtype: _dtype | None = ..., out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/view_copies.py
def vmap(func: Any, in_dims: builtins.int | tuple | dict | None = ..., out_dims: builtins.int | tuple | None = ..., randomness: Literal['error', 'same', 'different'] = ..., *, chunk_size: builtins.int | None = ...) -> Any: ...  # tdt/_function_transforms.py
def vsplit(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int]) -> tuple[Tensor, ...]: ...  # tdt/_ops/shape/split.py
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/shape/join.py
@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: _Operand, other: _Operand, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/select.py
def xlogy(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = ...) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
def xlogy_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor: ...  # tdt/_ops/elementwise/binary_math.py
def zero_(input: Tensor) -> Tensor: ...  # tdt/_ops/shape/memory.py
def zeros(*sizes: builtins.int | Sequence[builtins.int], size: Sequence[builtins.int] | None = ..., out: Tensor | None = ..., dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., pin_memory: builtins.bool = ..., memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_core/creation.py
def zeros_like(input: Tensor, *, dtype: _dtype | None = ..., layout: _layout | None = ..., device: _Device | None = ..., requires_grad: builtins.bool = ..., memory_format: _memory_format | None = ...) -> Tensor: ...  # tdt/_core/creation.py
