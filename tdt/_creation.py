"""Making tensors: from data, filled, counted, and like others."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt import _backend, _dtype
from tdt._backend import on
from tdt._device import as_device, device
from tdt._dtype import dtype as Dtype
from tdt._tensor import LEAF, Tensor, wrap

__all__ = [
    "arange", "as_tensor", "asarray", "empty", "empty_like", "empty_strided", "eye", "from_numpy", "full", "full_like",
    "linspace", "logspace", "ones", "ones_like", "scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros",
    "zeros_like",
]  # fmt: skip


def _finished(array: Any, requires_grad: bool) -> Tensor:
    made = wrap(array)
    if requires_grad:
        if made.dtype.category < _dtype.FLOAT:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        made._edge = LEAF
    return made


def infer_dtype(data: Any) -> Dtype | None:
    """The dtype of nested sequences of numbers and tensors; None where there is no element."""
    if isinstance(data, Tensor):
        return data.dtype
    if isinstance(data, (np.ndarray, np.generic)):
        return _dtype.of(data.dtype)
    if isinstance(data, (bool, np.bool_)):
        return _dtype.bool
    if isinstance(data, (list, tuple)):
        found = None
        for item in data:
            kind = infer_dtype(item)
            if kind is not None:
                found = kind if found is None else _dtype.promote_types(found, kind)
        return found
    if isinstance(data, int):
        return _dtype.int64
    if isinstance(data, float):
        return _dtype.get_default_dtype()
    if isinstance(data, complex):
        return _dtype.get_default_dtype().to_complex()
    return None


def _plain(data: Any) -> Any:
    """Nested sequences with tensors in them as nested lists of numbers."""
    if isinstance(data, Tensor):
        return data.tolist()
    if isinstance(data, (list, tuple)):
        return [_plain(item) for item in data]
    return data


def _array_of(data: Any, dtype: Dtype | None, where: device | None) -> Any:
    """New memory that holds `data`."""
    if isinstance(data, Tensor):
        array = _backend.to_device(data._a, where) if where else data._a
        return array.astype(dtype.np if dtype else array.dtype, copy=True)
    if isinstance(data, str):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if not isinstance(data, (np.ndarray, np.generic)) and hasattr(data, "__cuda_array_interface__"):
        return data.astype(dtype.np) if dtype else data.copy()
    if isinstance(data, (np.ndarray, np.generic)):
        source = np.asarray(data)
        array = np.array(source, dtype=dtype.np if dtype else _dtype.of(source.dtype).np, order="C")
        return _backend.to_device(array, as_device(where))
    data = list(data) if isinstance(data, range) else data
    if dtype is None:
        dtype = infer_dtype(data) or _dtype.get_default_dtype()
    return _backend.to_device(_from_numbers(_plain(data), dtype), as_device(where))


def _from_numbers(data: Any, dtype: Dtype) -> np.ndarray:
    if isinstance(data, (list, tuple)) or not isinstance(data, (int, float, complex)):
        _check_regular(data)
    try:
        if dtype.category == _dtype.INT:
            array = np.array(data)
            if array.dtype.kind == "f" or (array.dtype.kind in "iub" and array.dtype != dtype.np):
                if array.dtype.kind != "f" and array.size and not _fits(array, dtype):
                    raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
                array = array.astype(dtype.np)
            return np.array(array, dtype=dtype.np)
        return np.array(data, dtype=dtype.np)
    except OverflowError:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow") from None
    except (ValueError, TypeError) as error:
        raise _explained(data, dtype, error) from None


def _fits(array: np.ndarray, dtype: Dtype) -> bool:
    """Whether whole numbers fit the type; as in PyTorch, negative ones wrap into unsigned types."""
    info = np.iinfo(dtype.np)
    low = -info.max if info.min == 0 else info.min
    return bool(array.min() >= low and array.max() <= info.max)


def _explained(data: Any, dtype: Dtype, error: Exception) -> Exception:
    if "complex" in str(error):
        return RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    if isinstance(error, TypeError):
        return TypeError(f"tensor() cannot hold this data: {error}")
    return ValueError(str(error))


def _check_regular(data: Any) -> None:
    """ValueError in PyTorch's words for nested lists of unequal length; TypeError for what is no number."""

    def shape_of(item: Any) -> tuple[int, ...]:
        shape = []
        while isinstance(item, (list, tuple)):
            shape.append(len(item))
            if not item:
                break
            item = item[0]
        return tuple(shape)

    def check(item: Any, shape: tuple[int, ...], depth: int) -> None:
        if not shape:
            if isinstance(item, (list, tuple)):
                raise ValueError(f"too many dimensions at depth {depth}: a number was expected next to numbers")
            if not isinstance(item, (bool, int, float, complex, np.generic)):
                raise TypeError(f"new(): invalid data type '{type(item).__name__}'" if isinstance(item, str) else
                                f"must be real number, not {type(item).__name__}")  # fmt: skip
            return
        if not isinstance(item, (list, tuple)):
            raise TypeError("not a sequence")
        if len(item) != shape[0]:
            raise ValueError(f"expected sequence of length {shape[0]} at dim {depth} (got {len(item)})")
        for sub in item:
            check(sub, shape[1:], depth + 1)

    check(data, shape_of(data), 0)


def tensor(
    data: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new tensor that holds a copy of `data`: a number, nested sequences, an array or a tensor.

    Without `dtype`: bool, int64, the default float type, or the array's own. ValueError for ragged sequences.

    >>> import tdt
    >>> tdt.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    return _finished(
        _array_of(
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


def asarray(
    obj: Any, *, dtype: Dtype | None = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of `obj` that shares its memory where it can; copy=True never shares, copy=False raises where it must not.

    >>> import tdt
    >>> tdt.asarray([1, 2])
    tensor([1, 2])
    """
    shares = isinstance(obj, Tensor) or _backend.is_array(obj)
    made = tensor(obj, dtype=dtype, device=device) if copy or not shares else as_tensor(obj, dtype, device)
    if copy is False and not (shares and _backend.may_overlap(made._a, obj._a if isinstance(obj, Tensor) else obj)):
        raise ValueError(
            "can't alias arbitrary sequence with copy=False"
            if not shares
            else "can't convert without a copy; leave copy unset"
        )
    return made.requires_grad_(True) if requires_grad else made


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
    return wrap(ndarray)


def _shape_of(size: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes given as f(2, 3) or f((2, 3)); RuntimeError for a negative one."""
    if len(size) == 1 and not hasattr(size[0], "__index__"):
        size = tuple(size[0])
    shape = tuple([operator.index(n) for n in size])
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    return shape


def make(
    kind: str, shape: tuple[int, ...], value: Any, dtype: Dtype | None, where: Any, requires_grad: bool = False
) -> Tensor:
    """A tensor filled by the array library's `kind`: zeros, ones, empty or full."""
    target = as_device(where)
    np_dtype = (_dtype.get_default_dtype() if dtype is None else _dtype.as_dtype(dtype)).np
    if target.type == "meta":
        return _finished(_backend.stand_in(shape, np_dtype), requires_grad)
    xp = on(target)
    if kind == "full" and np_dtype.kind == "u" and isinstance(value, int):
        value %= 2 ** (8 * np_dtype.itemsize)  # wraps round, as C converts
    made = xp.full(shape, value, np_dtype) if kind == "full" else getattr(xp, kind)(shape, np_dtype)
    return _finished(made, requires_grad)


def _filled(kind: str, words: str, example: str) -> Any:
    def function(
        *size: Any, out: Tensor | None = None, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None,
    ) -> Tensor:  # fmt: skip
        made = make(kind, _shape_of(size or ((),)) if size else (), None, dtype, device, requires_grad)
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
        return _like(kind, input, None, dtype, device, requires_grad, memory_format)

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
    from tdt.autograd._inplace import store

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
    """As `make`, in the order of memory that x has (or that a memory format asks for)."""
    wanted = getattr(layout, "order", None)
    order = (
        tuple(wanted)
        if wanted
        else tuple(sorted(range(x.ndim), key=lambda d: (-x._a.strides[d], d)))
        if not x._a.flags.c_contiguous
        else None
    )
    dtype = x.dtype if dtype is None else dtype
    where = x.device if where is None else where
    if order is None or (layout is not None and layout.name == "contiguous_format"):
        return make(kind, x._a.shape, value, dtype, where, requires_grad)
    made = make(kind, tuple([x._a.shape[d] for d in order]), value, dtype, where, requires_grad)
    made._a = made._a.transpose(sorted(range(x.ndim), key=order.__getitem__))
    return made


zeros, zeros_like = _filled("zeros", "all 0", "\n    tensor([0., 0.])")
ones, ones_like = _filled("ones", "all 1", "\n    tensor([1., 1.])")
empty, empty_like = _filled("empty", "holding whatever its memory held", ".shape\n    tdt.Size([2])")


def full(
    size: Any, fill_value: Any, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of the given size with every element `fill_value`, whose type decides the dtype.

    >>> import tdt
    >>> tdt.full((2,), 7)
    tensor([7, 7])
    """
    fill_value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    made = make("full", _shape_of((size,)), fill_value, dtype or infer_dtype(fill_value), device, requires_grad)
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
    fill_value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return _like("full", input, fill_value, dtype, device, requires_grad, memory_format)


def scalar_tensor(s: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor of the default float type, or of `dtype`.

    >>> import tdt
    >>> tdt.scalar_tensor(2)
    tensor(2.)
    """
    return make("full", (), s, dtype, device, requires_grad)


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
    size, stride = tuple(size), tuple(stride)
    extent = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
    memory = make("empty", (extent,), None, dtype, device)._a
    xp = _backend.namespace(memory)
    return _finished(
        xp.lib.stride_tricks.as_strided(memory, size, [s * memory.itemsize for s in stride]), requires_grad
    )


def arange(
    start: Any, end: Any = None, step: Any = 1, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """start, start + step, … up to but without end; int64 for integers, else the default float type.

    >>> import tdt
    >>> tdt.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    start, end = (0, start) if end is None else (start, end)
    start, end, step = (v.item() if isinstance(v, Tensor) else v for v in (start, end, step))
    dtype = out.dtype if dtype is None and out is not None else dtype
    if dtype is None:
        dtype = _dtype.int64 if all(isinstance(v, int) for v in (start, end, step)) else _dtype.get_default_dtype()
    _dtype.check_category("arange", _dtype.REAL_NUMBERS, dtype)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if dtype.category == _dtype.INT and int(step) == 0:
        raise ValueError("step must be nonzero")
    if any(isinstance(v, float) and not math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype.category == _dtype.INT:
        start, end, step = int(start), int(end), int(step)
        count = -((start - end) // step)
    else:
        count = math.ceil((end - start) / step)
    xp = on(as_device(device))
    wide = xp.arange(count, dtype=np.int64 if dtype.category == _dtype.INT else np.float64) * step + start
    made = _finished(wide.astype(dtype.np), requires_grad)
    return made if out is None else _into(out, made)


def linspace(
    start: Any, end: Any, steps: int, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` evenly spaced numbers from start to end, both included.

    >>> import tdt
    >>> tdt.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = (v.item() if isinstance(v, Tensor) else v for v in (start, end))
    dtype = out.dtype if dtype is None and out is not None else dtype
    if dtype is None:
        has_complex = isinstance(start, complex) or isinstance(end, complex)
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
    made = _finished(values.astype(dtype.np), requires_grad)
    return made if out is None else _into(out, made)


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
    exponents = linspace(
        start, end, steps, dtype=_dtype.complex128 if target.is_complex else _dtype.float64, device=device
    )._a
    made = _finished((base**exponents).astype(target.np), requires_grad)
    return made if out is None else _into(out, made)


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


def new_tensor(
    self: Tensor, data: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of `data` on this tensor's device; its dtype too, unless data is a tensor."""
    if dtype is None:
        dtype = data.dtype if isinstance(data, Tensor) else self.dtype
    return tensor(data, dtype=dtype, device=self.device if device is None else device, requires_grad=requires_grad)


def new_full(
    self: Tensor, size: Sequence[int], fill_value: Any, *, dtype: Dtype | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of this tensor's dtype and device, every element `fill_value`."""
    fill_value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return make(
        "full",
        _shape_of((size,)),
        fill_value,
        dtype or self.dtype,
        self.device if device is None else device,
        requires_grad,
    )


def _new(kind: str) -> Any:
    def function(
        self: Tensor, *size: Any, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:  # fmt: skip
        target = self.device if device is None else device
        return make(kind, _shape_of(size) if size else (), None, dtype or self.dtype, target, requires_grad)

    function.__name__ = function.__qualname__ = f"new_{kind}"
    function.__doc__ = f"`tdt.{kind}` with this tensor's dtype and device."
    return function


new_zeros, new_ones, new_empty = _new("zeros"), _new("ones"), _new("empty")


def new_empty_strided(
    self: Tensor, size: Any, stride: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`tdt.empty_strided` with this tensor's dtype and device."""
    return empty_strided(
        size,
        stride,
        dtype=dtype or self.dtype,
        device=self.device if device is None else device,
        requires_grad=requires_grad,
    )
