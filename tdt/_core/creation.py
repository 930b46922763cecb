"""Create tensors: from data, filled, ranges, and like other tensors."""

from __future__ import annotations

import builtins
import math
import operator
import warnings
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend import on
from tdt._backend.device import CPU, META, as_device
from tdt._backend.layout import outermost_first
from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import dtype as Dtype
from tdt._core.float8 import KINDS, astype
from tdt._core.from_data import array_of, fill_number
from tdt._core.mode import state
from tdt._core.sparse import SparseCOO
from tdt._core.storage import TypedStorage, UntypedStorage, tensor_on
from tdt._core.tensor import LEAF, Tensor, wrap
from tdt._core.writing import store

__all__ = [
    "arange", "as_tensor", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "from_numpy", "full",
    "full_like", "linspace", "logspace", "ones", "ones_like", "range", "scalar_tensor", "tensor", "tril_indices",
    "triu_indices", "zeros", "zeros_like",
]  # fmt: skip


def _finished(array: Any, requires_grad: bool, where: Any = CPU) -> Tensor:
    """Wrap a new array in a tensor; `where`: the requested device, moves the array if it is "meta"."""
    made = wrap(_backend.to_device(array, META) if as_device(where) == META else array)
    if state.inference:
        made._st.inference = True
    if requires_grad:
        if made.dtype.category < _dtype.FLOAT:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        made._edge = LEAF
    return made


def tensor(
    data: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new tensor that holds a copy of `data`: a number, nested sequences, an array or a tensor; on a storage, its memory.

    Without `dtype`: bool, int64, the default float type, or the array's own. ValueError for ragged sequences.

    >>> import tdt
    >>> tdt.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, UntypedStorage | TypedStorage):
        return tensor_on(data, dtype).requires_grad_(requires_grad)  # type: ignore[attr-defined]
    return _finished(
        array_of(
            data, None if dtype is None else _dtype.as_dtype(dtype), None if device is None else as_device(device)
        ),
        requires_grad,
    )


def as_tensor(data: Any, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """As `tensor`, but shares memory with an array or tensor that has the wanted dtype and device already.

    >>> import tdt
    >>> x = tdt.ones(2)
    >>> tdt.as_tensor(x) is x
    True
    """
    if isinstance(data, Tensor):
        if dtype is None and device is None:
            return data
        return data.to(device or data.device, dtype or data.dtype)
    if isinstance(data, np.ndarray) or _backend.is_array(data):
        made = wrap(data) if not isinstance(data, np.ndarray) else from_numpy(data)
        return made if dtype is None and device is None else made.to(device or made.device, dtype or made.dtype)
    return tensor(data, dtype=dtype, device=device)


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor that shares memory with a NumPy array; TypeError for a dtype that tensors do not have.

    >>> import numpy, tdt
    >>> tdt.from_numpy(numpy.zeros(2))
    tensor([0., 0.], dtype=tdt.float64)
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    _dtype.of(ndarray.dtype)
    if any(s < 0 for s in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with "
            "array.copy().)"
        )
    if not ndarray.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders "
            "is currently not supported."
        )
    made = _finished(ndarray, False)
    made._st.whole = ndarray  # the rest of the enclosing array does not belong to the tensor's storage
    return made


def _shape_of(size: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape from f(2, 3) or f((2, 3)); RuntimeError for a negative size."""
    if len(size) == 1 and not hasattr(size[0], "__index__"):
        size = tuple(size[0])
    shape = tuple([operator.index(n) for n in size])
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    return shape


def make(
    kind: str, shape: tuple[int, ...], value: Any, dtype: Dtype | None, where: Any, requires_grad: bool = False
) -> Tensor:
    """A tensor created by the array library's function `kind`: zeros, ones, empty or full."""
    target = as_device(where)
    np_dtype = (_dtype.get_default_dtype() if dtype is None else _dtype.as_dtype(dtype)).np
    if target.type == "meta":
        return _finished(_backend.to_device(_backend.stand_in(shape, np_dtype), target), requires_grad)
    xp = on(target)
    if kind != "full":
        return _finished(getattr(xp, kind)(shape, np_dtype), requires_grad)
    if np_dtype.kind == "u" and isinstance(value, int):
        value %= 2 ** (8 * np_dtype.itemsize)  # wraps round, as C converts
    made = xp.full(shape, value, np.float64 if np_dtype in KINDS else np_dtype)
    return _finished(astype(made, np_dtype) if np_dtype in KINDS else made, requires_grad)


def _filled(kind: str, words: str, example: str) -> Any:
    def function(
        *sizes: Any, size: Any = None, out: Tensor | None = None, dtype: Dtype | None = None, layout: Any = None,
        device: Any = None, requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None,
    ) -> Tensor:  # fmt: skip
        shape = _shape_of(_sizes(kind, sizes, size))
        if (name := getattr(layout, "name", "strided")) != "strided":
            if name != "sparse_coo" or kind == "ones":
                raise NotImplementedError(f"{kind}: tensors are made in layout tdt.strided, not {layout}")
            return _finished(no_entries(shape, len(shape), dtype, device), requires_grad)
        if getattr(memory_format, "order", None):
            if len(shape) != len(memory_format.order):
                name = str(memory_format).rpartition(".")[2]
                raise RuntimeError(f"required rank {len(memory_format.order)} tensor to use {name} format")
            return _make_with_order(kind, shape, None, dtype, device, requires_grad, memory_format.order)
        made = make(kind, shape, None, dtype, device, requires_grad)
        return made if out is None else _into(out, made)

    def like(
        input: Tensor,
        *,
        dtype: Dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        _tensor_to_be_like(f"{kind}_like", input)
        return _like(kind, input, None, dtype, device, requires_grad, layout or memory_format)

    function.__name__ = function.__qualname__ = kind
    function.__doc__ = f"""A tensor of the given size, {words}.

    >>> import tdt
    >>> tdt.{kind}(2){example}
    """
    like.__name__ = like.__qualname__ = f"{kind}_like"
    like.__doc__ = f"""A tensor with the shape, dtype and device of `input`, {words}.

    >>> import tdt
    >>> tdt.{kind}_like(tdt.tensor([1.5, 2.5])){example}
    """
    return function, like


def _into(out: Tensor, made: Tensor) -> Tensor:
    if out.requires_grad:
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    if out.dtype is not made.dtype:
        raise RuntimeError(
            f"dtype {_dtype.SCALAR_NAMES[made.dtype]} does not match dtype of out parameter "
            f"({_dtype.SCALAR_NAMES[out.dtype]})"
        )
    store(out, made)
    return out


def _like(
    kind: str, x: Tensor, value: Any, dtype: Any, where: Any, requires_grad: bool = False, layout: Any = None
) -> Tensor:
    """As `make`, with the strides of x, a memory format or a layout; zeros like sparse x are sparse."""
    sparse = isinstance(x._a, SparseCOO)
    if getattr(layout, "name", "") == "sparse_coo" or (sparse and layout is None):
        if kind not in ("zeros", "empty"):
            raise NotImplementedError(f"{kind}_like: a sparse tensor cannot be filled; call .to_dense() first")
        made = no_entries(x._a.shape, len(x._a.indices) if sparse else x.ndim, dtype or x.dtype, where or x.device)
        return _finished(made, requires_grad)
    order = tuple(getattr(layout, "order", None) or ()) or None
    if order is None and not (sparse or x._a.flags.c_contiguous):
        order = tuple(outermost_first(x._a.shape, [x._a]))
    dtype = x.dtype if dtype is None else dtype
    where = x.device if where is None else where
    if order is None or (layout is not None and layout.name == "contiguous_format"):
        return make(kind, x._a.shape, value, dtype, where, requires_grad)
    return _make_with_order(kind, x._a.shape, value, dtype, where, requires_grad, order)


def no_entries(shape: tuple[int, ...], sparse_dim: int, dtype: Dtype | None, where: Any) -> Any:
    """A sparse array without entries; its first dimensions are sparse."""
    values = make("zeros", (0, *shape[sparse_dim:]), None, dtype, where)._a
    return SparseCOO(make("zeros", (sparse_dim, 0), None, _dtype.int64, where)._a, values, shape, True)


def _make_with_order(
    kind: str, shape: tuple[int, ...], value: Any, dtype: Any, where: Any, requires_grad: bool, order: tuple[int, ...]
) -> Tensor:
    """As `make`, with the dimensions in the given order in memory."""
    made = make(kind, tuple([shape[d] for d in order]), value, dtype, where, requires_grad)
    made._a = made._a.transpose(sorted(builtins.range(len(shape)), key=order.__getitem__))
    return made


def _tensor_to_be_like(name: str, input: Any) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")


def _sizes(name: str, sizes: tuple[Any, ...], size: Any) -> tuple[Any, ...]:
    """The sizes, from separate arguments, one sequence, or the keyword `size`."""
    if size is None and not sizes:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    if size is not None and sizes:
        raise TypeError(f"{name}() got multiple values for argument 'size'")
    return sizes or (size,)


zeros, zeros_like = _filled("zeros", "all 0", "\n    tensor([0., 0.])")
ones, ones_like = _filled("ones", "all 1", "\n    tensor([1., 1.])")
empty, empty_like = _filled("empty", "holding whatever its memory held", ".shape\n    tdt.Size([2])")


@front
def full(
    size: Any, fill_value: Any, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of the given size with every element `fill_value`, whose type decides the dtype.

    >>> import tdt
    >>> tdt.full((2,), 7)
    tensor([7, 7])
    """
    if isinstance(size, int):
        raise TypeError("full(): argument 'size' (position 1) must be tuple of ints, not int")
    dtype = out.dtype if dtype is None and out is not None else dtype
    value, dtype = fill_number(
        fill_value, dtype and _dtype.as_dtype(dtype), "full(): argument 'fill_value' (position 2)"
    )
    made = make("full", _shape_of((size,)), value, dtype, device, requires_grad)
    return made if out is None else _into(out, made)


def full_like(
    input: Tensor, fill_value: Any, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor like `input` with every element `fill_value`.

    >>> import tdt
    >>> tdt.full_like(tdt.zeros(2), 7)
    tensor([7., 7.])
    """
    _tensor_to_be_like("full_like", input)
    wanted = input.dtype if dtype is None else _dtype.as_dtype(dtype)
    value, wanted = fill_number(fill_value, wanted, "full_like(): argument 'fill_value' (position 2)")
    return _like("full", input, value, wanted, device, requires_grad, memory_format)


def scalar_tensor(s: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor of the default float type, or of `dtype`.

    >>> import tdt
    >>> tdt.scalar_tensor(2)
    tensor(2.)
    """
    dtype = _dtype.get_default_dtype() if dtype is None else _dtype.as_dtype(dtype)
    value, dtype = fill_number(s, dtype, "scalar_tensor(): argument 's' (position 1)")
    return make("full", (), value, dtype, device, requires_grad)


@front
def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of the given size and strides (in elements), holding whatever its memory held.

    >>> import tdt
    >>> tdt.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    size, stride = _shape_of((size,)), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    if any(s < 0 for s in stride):
        raise RuntimeError(f"strides must not be negative, but got sizes={list(size)} and strides={list(stride)}")
    extent = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
    memory = make("empty", (extent,), None, dtype, device)._a
    return _finished(_backend.as_strided(memory, size, [s * memory.itemsize for s in stride]), requires_grad)


def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor without gaps whose dimensions lie in memory in the order `physical_layout`, outermost first; not filled.

    >>> import tdt
    >>> tdt.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    shape, order = _shape_of((size,)), tuple(physical_layout)
    if len(shape) != len(order):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    for place, d in enumerate(order):
        if not 0 <= d < len(shape):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got {d} at index {place})"
            )
        if d in order[:place]:
            raise RuntimeError(f"Duplicate dim not allowed: {d} in {order}")
    return _make_with_order("empty", shape, None, dtype, device, requires_grad, order)


@front
def arange(
    start: Any = None, end: Any = None, step: Any = 1, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """start, start + step, … up to but without end; int64 for integers, else the default float type.

    >>> import tdt
    >>> tdt.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    if start is None and end is None:
        raise TypeError('arange() missing 1 required positional arguments: "end"')
    start, end = (0, start) if end is None else (start or 0, end)
    start, end, step = (_real(v.item() if isinstance(v, Tensor) else v) for v in (start, end, step))
    dtype = out.dtype if dtype is None and out is not None else dtype
    if dtype is None:
        dtype = _dtype.int64 if all(isinstance(v, int) for v in (start, end, step)) else _dtype.get_default_dtype()
    _dtype.check_category("arange", _dtype.REAL_NUMBERS, dtype)
    _dtype.check_category("arange", _dtype.ALL, dtype)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if dtype.category == _dtype.INT and int(step) == 0:
        raise ValueError("step must be nonzero")
    if any(isinstance(v, float) and not math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    # PyTorch computes the length before truncating to integers, except for int64, which floats cannot represent.
    count = math.ceil((end - start) / step)
    if dtype.category == _dtype.INT:
        start, end, step = int(start), int(end), int(step)
        count = -((start - end) // step) if dtype is _dtype.int64 else count
    if count >= 2**60:
        raise RuntimeError(f"invalid size, possible overflow? {start} to {end} by {step} are {count} elements")
    xp = on(as_device(device))
    wide = xp.arange(count, dtype=np.int64 if dtype.category == _dtype.INT else np.float64) * step + start
    made = _finished(wide.astype(dtype.np), requires_grad, device)
    return made if out is None else _into(out, made)


def range(
    start: float = 0, end: float | None = None, step: float = 1, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """The old `arange` that includes its end, of the default float type; use `arange`.

    >>> import tdt
    >>> tdt.range(1, 4)
    tensor([1., 2., 3., 4.])
    """
    warnings.warn("range is deprecated, as it is not Python's; use arange(start, end + step, step)", UserWarning, 2)
    start, end = (0, start) if end is None else (start, end)
    dtype = (_dtype.get_default_dtype() if out is None else out.dtype) if dtype is None else dtype
    _dtype.check_category("range", _dtype.ALL, dtype)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = math.floor((end - start) / step) + 1
    wide = on(as_device(device)).arange(count) * step + start
    made = _finished(wide.astype(dtype.np), requires_grad, device)
    return made if out is None else _into(out, made)


def _real(value: Any) -> Any:
    if isinstance(value, complex):
        raise RuntimeError(f"value cannot be converted to type double without overflow: {value}")
    return value


@front
def linspace(
    start: Any, end: Any, steps: int, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` evenly spaced numbers from start to end, both included.

    >>> import tdt
    >>> tdt.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    (start, end), steps = _ends("linspace", start, end, steps), operator.index(steps)
    dtype = out.dtype if dtype is None and out is not None else dtype
    has_complex = isinstance(start, complex) or isinstance(end, complex)
    if dtype is not None and has_complex and not dtype.is_complex:
        raise RuntimeError(f"linspace(): inferred a complex dtype, which can't be safely cast to passed dtype {dtype}")
    if dtype is None:
        dtype = _dtype.get_default_dtype().to_complex() if has_complex else _dtype.get_default_dtype()
    _dtype.check_category("linspace", _dtype.NUMBERS, dtype)
    xp = on(as_device(device))
    if dtype.category == _dtype.INT:
        start, end = int(start), int(end)
    # From both ends towards the middle, so that the numbers are symmetric.
    wide = np.complex128 if dtype.is_complex else np.float64
    i = xp.arange(steps)
    step = (end - start) / (steps - 1) if steps > 1 else 0
    values = (
        xp.where(i < steps // 2, start + step * i, end - step * (steps - 1 - i))
        if steps > 1
        else xp.full(steps, start, wide)
    )
    made = _finished(values.astype(dtype.np), requires_grad, device)
    return made if out is None else _into(out, made)


def _ends(name: str, start: Any, end: Any, steps: Any) -> tuple[Any, Any]:
    """The end points of `linspace` and `logspace` as Python numbers; PyTorch's errors for invalid ones."""
    if not hasattr(steps, "__index__"):
        got = ", ".join(type(v).__name__ for v in (start, end, steps))
        raise TypeError(f"{name}() received an invalid combination of arguments - got ({got}), but steps must be int")
    if operator.index(steps) < 0:
        raise RuntimeError("number of steps must be non-negative")
    if dims := [(w, v.ndim) for w, v in (("start", start), ("end", end)) if isinstance(v, Tensor) and v.ndim]:
        got = " and ".join(f"{which} with {n} dimension(s)" for which, n in dims)
        raise RuntimeError(f"linspace only supports 0-dimensional start and end tensors, but got {got}.")
    return tuple(v.item() if isinstance(v, Tensor) else v for v in (start, end))  # type: ignore[return-value]


@front
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """base to the power of `linspace(start, end, steps)`.

    >>> import tdt
    >>> tdt.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    target = (_dtype.get_default_dtype() if out is None else out.dtype) if dtype is None else dtype
    _dtype.check_category("logspace", _dtype.NUMBERS, target)
    start, end = _ends("logspace", start, end, steps)
    if target.category < _dtype.FLOAT:
        start, end = int(start), int(end)
    where = CPU if as_device(device) == META else device
    exponents = linspace(
        start, end, steps, dtype=_dtype.complex128 if target.is_complex else _dtype.float64, device=where
    )._a
    made = _finished((float(base) ** exponents).astype(target.np), requires_grad, device)
    return made if out is None else _into(out, made)


@front
def eye(
    n: int, m: int | None = None, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """The n × m matrix (n × n without m) with ones on the diagonal.

    >>> import tdt
    >>> tdt.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    m = n if m is None else m
    for name, size in (("n", n), ("m", m)):
        if size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    made = _finished(
        on(as_device(device)).eye(n, m, dtype=(_dtype.get_default_dtype() if dtype is None else dtype).np),
        requires_grad,
        device,
    )
    return made if out is None else _into(out, made)


def _triangle_indices(name: str) -> Any:
    def function(
        row: int, col: int, offset: int = 0, *, dtype: Dtype = _dtype.int64, device: Any = None, layout: Any = None
    ) -> Tensor:
        _dtype.check_category(name, frozenset((_dtype.int32, _dtype.int64)), dtype)
        if row < 0 or col < 0:
            which, n = ("row", row) if row < 0 else ("col", col)
            raise RuntimeError(f"{which} must be non-negative, got {n}")
        xp = on(as_device(device))
        return wrap(xp.stack(getattr(xp, name)(row, offset, col)).astype(dtype.np))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Rows and columns of the elements of the {"lower" if name == "tril_indices" else "upper"} triangle.

    The first row of the result has the row numbers, the second the columns.

    >>> import tdt
    >>> tdt.{name}(2, 2)
    tensor([[0, {"1, 1" if name == "tril_indices" else "0, 1"}],
            [0, {"0, 1" if name == "tril_indices" else "1, 1"}]])
    """
    return function


tril_indices, triu_indices = _triangle_indices("tril_indices"), _triangle_indices("triu_indices")


tril_indices, triu_indices = front(tril_indices), front(triu_indices)
