"""Create tensors: from data, filled, and like other tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from tdt import _backend
from tdt._backend import current, on
from tdt._backend.device import CPU, META, as_device
from tdt._backend.layout import is_descending, outermost_first
from tdt._backend.waiting import launch_waiting
from tdt._core import dtype as _dtype
from tdt._core.aliases import Device, Number
from tdt._core.calls import as_shape
from tdt._core.dtype import dtype as Dtype
from tdt._core.float8 import KINDS, astype
from tdt._core.from_data import array_of, fill_number
from tdt._core.methods import named_like
from tdt._core.mode import state
from tdt._core.remembered_creation import creates
from tdt._core.sparse import SparseCOO
from tdt._core.storage import TypedStorage, UntypedStorage, tensor_on
from tdt._core.tensor import LEAF, Tensor, wrap, wrap_new
from tdt._core.writing import store
from tdt._kernels import UFUNCS, chosen, fill, gpu_kernel, gpu_words
from tdt._kernels.programs_gpu import MEMORY, Programs

if TYPE_CHECKING:
    from tdt._core.layout import layout as Layout
    from tdt._core.memory_format import memory_format as MemoryFormat

F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "as_tensor", "empty", "empty_like", "from_numpy", "full", "full_like", "ones", "ones_like", "scalar_tensor", "tensor",
    "zeros", "zeros_like",
]  # fmt: skip


def _finished(array: Any, requires_grad: bool, where: Any = CPU) -> Tensor:
    """Wrap a new array in a tensor; `where`: the requested device, moves the array if it is "meta"."""
    created = wrap(array if where is CPU or as_device(where) != META else _backend.to_device(array, META))
    if state.inference:
        created._st.inference = True
    if requires_grad:
        if created.dtype.category < _dtype.FLOAT:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        created._edge = LEAF
    return created


def tensor(
    data: Any,
    *,
    dtype: Dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor that holds a copy of `data`.

    Args:
        data: a number, nested sequences of numbers, an array or a tensor; a storage is not copied but shared.
        dtype: by default bool, int64, the default float dtype, or the dtype of the array.
        pin_memory: has no effect.
    Shape: result the shape of `data`.
    Raises:
        ValueError: when the sequences differ in length.
        RuntimeError: when `requires_grad` is set and the dtype is neither floating-point nor complex.

    >>> import tdt
    >>> tdt.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, UntypedStorage | TypedStorage):
        return tensor_on(data, dtype).requires_grad_(requires_grad)
    created = _finished(
        array_of(
            data, None if dtype is None else _dtype.as_dtype(dtype), None if device is None else as_device(device)
        ),
        requires_grad,
    )
    return _recorded(created) if state.recording is not None and _is_of_numbers(data) else created


def _is_of_numbers(data: Any) -> bool:
    """Whether data are Python numbers, in lists or tuples or alone."""
    if isinstance(data, (list, tuple)):
        return all(map(_is_of_numbers, data))
    return isinstance(data, (bool, int, float, complex))


def as_tensor(data: Any, dtype: Dtype | None = None, device: Device = None) -> Tensor:
    """`data` as a tensor, sharing memory with an array or tensor of the same dtype and device; else as `tensor`.

    Shape: result the shape of `data`.

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
        created = wrap(data) if not isinstance(data, np.ndarray) else from_numpy(data)
        return (
            created
            if dtype is None and device is None
            else created.to(device or created.device, dtype or created.dtype)
        )
    return tensor(data, dtype=dtype, device=device)


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor that shares memory with a NumPy array.

    Shape: ndarray (*); result the same.
    Raises:
        TypeError: when `ndarray` is not an array, or has a dtype that tensors do not have.
        ValueError: when a stride is negative, or the byte order is not the machine's.

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
    if ndarray.__class__ is not np.ndarray and not isinstance(ndarray, _backend.MetaArray):
        ndarray = ndarray.view(np.ndarray)  # a subclass, such as a memory map, has operators of its own
    created = _finished(ndarray, False)
    created._st.whole = ndarray  # the rest of the enclosing array does not belong to the tensor's storage
    return created


def _shape_of(size: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape from f(2, 3) or f((2, 3)); RuntimeError for a negative size."""
    shape = as_shape(size)
    if shape and min(shape) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    return shape


def _ones(shape: tuple[int, ...], np_dtype: Any, value: float = 1) -> np.ndarray:
    """As `np.ones`, or `np.full` of another number that the dtype holds, in half the time."""
    created = np.empty(shape, np_dtype)
    fill(created, value)
    return created


MAKERS: dict[str, Callable[..., np.ndarray]] = {"zeros": np.zeros, "empty": np.empty, "ones": _ones}


def make(
    kind: str, shape: tuple[int, ...], value: Any, dtype: Dtype | None, where: Any, requires_grad: bool = False
) -> Tensor:
    """A tensor created by the array library's function `kind`: zeros, ones, empty or full."""
    if state.handler is None and not requires_grad:  # nothing records it
        np_dtype = (_dtype.get_default_dtype() if dtype is None else _dtype.as_dtype(dtype)).np
        target = as_device(where)
        if target is CPU:
            array = _on_cpu(kind, shape, value, np_dtype)
        elif target.type == "cuda" and not _backend.several_gpus() and not target.index:
            array = _on_gpu(kind, shape, value, np_dtype)
        else:
            array = None
        if array is not None:
            return _recorded(wrap_new(array)) if target is not CPU else wrap_new(array)
    return _recorded(_built(kind, shape, value, dtype, where, requires_grad))


def _on_cpu(kind: str, shape: tuple[int, ...], value: Any, np_dtype: Any) -> np.ndarray | None:
    """The array for the CPU; None for types of which NumPy knows little, and other numbers than floats."""
    if np_dtype in KINDS:
        return None
    if kind != "full":
        return MAKERS[kind](shape, np_dtype)
    fits = np_dtype.kind in FILLED.get(value.__class__, "") or (
        np_dtype == BFLOAT16 and value.__class__ in (int, float)
    )
    return _ones(shape, np_dtype, value) if fits else None


_GPU_FILLED = (gpu_kernel("move_gpu:filled", gpu_words),)


def _on_gpu(kind: str, shape: tuple[int, ...], value: Any, np_dtype: Any) -> Any:
    """The array for the only GPU, or None, as of `_on_cpu`."""
    cupy = _backend.gpu()
    launch_waiting()
    if kind == "zeros":
        return cupy.zeros(shape, np_dtype)
    if kind == "empty":
        return cupy.ndarray(shape, np_dtype)
    value = 1 if kind == "ones" else value
    if np_dtype.kind not in FILLED.get(value.__class__, ""):
        return None
    found = _filled_on_gpu.of((shape, np_dtype, value.__class__, value or repr(value)), ())
    fill = functools.partial(_filled_array_on_gpu, shape, np_dtype, np_dtype.type(value))
    return fill() if found is None else found(fill, ())


def _filled_array_on_gpu(shape: tuple[int, ...], np_dtype: Any, value: Any) -> Any:
    """A new array, each element of which is a number of its dtype; None for one without elements or of many dimensions."""
    array = MEMORY.empty(shape, np_dtype)
    fast = chosen(_GPU_FILLED, _backend.gpu(), array)
    return fast and fast(array, value)


_filled_on_gpu = Programs()
UFUNCS.append(_filled_on_gpu)


BFLOAT16 = _dtype.bfloat16.np
FILLED = {float: "f", int: "fi", bool: "b"}  # kinds of arrays that numbers of a class fill as NumPy does


def _recorded(created: Tensor) -> Tensor:
    if state.recording is not None:
        state.recording.constant(created)
    return created


def _built(
    kind: str, shape: tuple[int, ...], value: Any, dtype: Dtype | None, where: Any, requires_grad: bool
) -> Tensor:
    target = as_device(where)
    np_dtype = (_dtype.get_default_dtype() if dtype is None else _dtype.as_dtype(dtype)).np
    array = _on_cpu(kind, shape, value, np_dtype) if target.type == "cpu" else None
    if array is not None:
        return _finished(array, requires_grad)
    if target.type == "meta":
        return _finished(_backend.to_device(_backend.stand_in(shape, np_dtype), target), requires_grad)
    xp = on(target)
    if kind != "full":
        return _finished(getattr(xp, kind)(shape, np_dtype), requires_grad)
    if np_dtype.kind == "u" and isinstance(value, int):
        value %= 2 ** (8 * np_dtype.itemsize)  # wraps round, as C converts
    created = xp.full(shape, value, np.float64 if np_dtype in KINDS else np_dtype)
    with current(target):
        return _finished(astype(created, np_dtype) if np_dtype in KINDS else created, requires_grad)


def _filled(definition: F) -> F:
    """Give `zeros`, `ones` or `empty`, each a `def` with an empty body, the body that they share."""
    kind = definition.__name__

    def function(
        *sizes: Any, size: Any = None, out: Tensor | None = None, dtype: Dtype | None = None, layout: Any = None,
        device: Any = None, requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None,
    ) -> Tensor:  # fmt: skip
        shape = _shape_of(_sizes(kind, sizes, size))
        if layout is None and memory_format is None and out is None:
            return make(kind, shape, None, dtype, device, requires_grad)
        if (name := getattr(layout, "name", "strided")) != "strided":
            if name != "sparse_coo" or kind == "ones":
                raise NotImplementedError(f"{kind}: tensors are created in layout tdt.strided, not {layout}")
            return _finished(no_entries(shape, len(shape), dtype, device), requires_grad)
        if getattr(memory_format, "order", None):
            if len(shape) != len(memory_format.order):
                name = str(memory_format).rpartition(".")[2]
                raise RuntimeError(f"required rank {len(memory_format.order)} tensor to use {name} format")
            return _make_with_order(kind, shape, None, dtype, device, requires_grad, memory_format.order)
        created = make(kind, shape, None, dtype, device, requires_grad)
        return created if out is None else _into(out, created)

    return cast("F", named_like(function, definition))


def _filled_like(definition: F) -> F:
    """As `_filled`, for `zeros_like`, `ones_like` and `empty_like`."""
    name = definition.__name__
    kind = name.removesuffix("_like")

    def function(
        input: Tensor, *, dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
        requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None,
    ) -> Tensor:  # fmt: skip
        _tensor_to_be_like(name, input)
        return _like(kind, input, None, dtype, device, requires_grad, layout or memory_format)

    return cast("F", named_like(function, definition))


def _into(out: Tensor, created: Tensor) -> Tensor:
    if out.requires_grad:
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    if out.dtype is not created.dtype:
        raise RuntimeError(
            f"dtype {_dtype.SCALAR_NAMES[created.dtype]} does not match dtype of out parameter "
            f"({_dtype.SCALAR_NAMES[out.dtype]})"
        )
    store(out, created)
    return out


def _like(
    kind: str, x: Tensor, value: Any, dtype: Any, where: Any, requires_grad: bool = False, layout: Any = None
) -> Tensor:
    """As `make`, with the strides of x, a memory format or a layout; zeros like sparse x are sparse."""
    a = x._a
    if (
        a.__class__ is np.ndarray
        and layout is None
        and where is None
        and (a.flags.c_contiguous or is_descending(a.strides))
    ):
        return make(kind, a.shape, value, x.dtype if dtype is None else dtype, CPU, requires_grad)
    sparse = isinstance(x._a, SparseCOO)
    if getattr(layout, "name", "") == "sparse_coo" or (sparse and layout is None):
        if kind not in ("zeros", "empty"):
            raise NotImplementedError(f"{kind}_like: a sparse tensor cannot be filled; call .to_dense() first")
        created = no_entries(x._a.shape, len(x._a.indices) if sparse else x.ndim, dtype or x.dtype, where or x.device)
        return _finished(created, requires_grad)
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
    created = _built(kind, tuple([shape[d] for d in order]), value, dtype, where, requires_grad)
    created._a = created._a.transpose(sorted(range(len(shape)), key=order.__getitem__))
    return _recorded(created)


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


@_filled
def zeros(
    *sizes: int | Sequence[int], size: Sequence[int] | None = None, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None, requires_grad: bool = False,
    pin_memory: bool = False, memory_format: MemoryFormat | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of the given size, all 0.

    Args:
        sizes: one by one, or as one sequence; or the sequence as `size`.
        pin_memory: has no effect.
    Shape: result of shape `size`.
    Raises:
        RuntimeError: when a size is negative, `memory_format` has another number of dimensions, or `out` another dtype.
        NotImplementedError: when `layout` is another layout than strided and sparse_coo.
        TypeError: when no size is given, or two.

    >>> import tdt
    >>> tdt.zeros(2)
    tensor([0., 0.])
    """


@_filled_like
def zeros_like(
    input: Tensor, *, dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False, memory_format: MemoryFormat | None = None,
) -> Tensor:  # fmt: skip
    """A tensor with the shape, dtype and device of `input`, all 0.

    Shape: input (*); result the same.
    Raises:
        TypeError: when `input` is not a tensor.

    >>> import tdt
    >>> tdt.zeros_like(tdt.tensor([1.5, 2.5]))
    tensor([0., 0.])
    """


@_filled
def ones(
    *sizes: int | Sequence[int], size: Sequence[int] | None = None, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None, requires_grad: bool = False,
    pin_memory: bool = False, memory_format: MemoryFormat | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of the given size, all 1.

    Args:
        sizes: one by one, or as one sequence; or the sequence as `size`.
        pin_memory: has no effect.
    Shape: result of shape `size`.
    Raises:
        RuntimeError: when a size is negative, `memory_format` has another number of dimensions, or `out` another dtype.
        NotImplementedError: when `layout` is another layout than strided.
        TypeError: when no size is given, or two.

    >>> import tdt
    >>> tdt.ones(2)
    tensor([1., 1.])
    """


@_filled_like
def ones_like(
    input: Tensor, *, dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False, memory_format: MemoryFormat | None = None,
) -> Tensor:  # fmt: skip
    """A tensor with the shape, dtype and device of `input`, all 1.

    Shape: input (*); result the same.
    Raises:
        TypeError: when `input` is not a tensor.

    >>> import tdt
    >>> tdt.ones_like(tdt.tensor([1.5, 2.5]))
    tensor([1., 1.])
    """


@_filled
def empty(
    *sizes: int | Sequence[int], size: Sequence[int] | None = None, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None, requires_grad: bool = False,
    pin_memory: bool = False, memory_format: MemoryFormat | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of the given size, not initialized.

    Args:
        sizes: one by one, or as one sequence; or the sequence as `size`.
        pin_memory: has no effect.
    Shape: result of shape `size`.
    Raises:
        RuntimeError: when a size is negative, `memory_format` has another number of dimensions, or `out` another dtype.
        NotImplementedError: when `layout` is another layout than strided and sparse_coo.
        TypeError: when no size is given, or two.

    >>> import tdt
    >>> tdt.empty(2).shape
    tdt.Size([2])
    """


@_filled_like
def empty_like(
    input: Tensor, *, dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False, memory_format: MemoryFormat | None = None,
) -> Tensor:  # fmt: skip
    """A tensor with the shape, dtype and device of `input`, not initialized.

    Shape: input (*); result the same.
    Raises:
        TypeError: when `input` is not a tensor.

    >>> import tdt
    >>> tdt.empty_like(tdt.tensor([1.5, 2.5])).shape
    tdt.Size([2])
    """


def _filled_array(size: Any, fill_value: Any) -> Callable[[], np.ndarray] | None:
    """What creates the array of `full` on the CPU; None for sizes and numbers that are to be checked."""
    if size.__class__ is not tuple or min(size, default=0) < 0 or fill_value.__class__ not in FILLED:
        return None
    value, dtype = fill_number(fill_value, None, "full(): argument 'fill_value' (position 2)")
    if dtype.np in KINDS or dtype.np.kind not in FILLED[value.__class__]:
        return None
    return lambda: _ones(size, dtype.np, value)


@creates(_filled_array)
def full(
    size: Sequence[int], fill_value: Number, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of the given size with every element equal to `fill_value`.

    Args:
        dtype: by default that of `fill_value`: bool, int64, or the default float or complex dtype.
        pin_memory: has no effect.
    Shape: result of shape `size`.
    Raises:
        TypeError: when `size` is an int.
        RuntimeError: when a size is negative, `fill_value` does not fit the dtype, or `out` has another dtype.

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
    created = make("full", _shape_of((size,)), value, dtype, device, requires_grad)
    return created if out is None else _into(out, created)


def full_like(
    input: Tensor, fill_value: Number, *, dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False, memory_format: MemoryFormat | None = None,
) -> Tensor:  # fmt: skip
    """A tensor with the shape, dtype and device of `input`, every element equal to `fill_value`.

    Shape: input (*); result the same.
    Raises:
        TypeError: when `input` is not a tensor.
        RuntimeError: when `fill_value` does not fit the dtype.

    >>> import tdt
    >>> tdt.full_like(tdt.zeros(2), 7)
    tensor([7., 7.])
    """
    _tensor_to_be_like("full_like", input)
    result_dtype = input.dtype if dtype is None else _dtype.as_dtype(dtype)
    value, result_dtype = fill_number(fill_value, result_dtype, "full_like(): argument 'fill_value' (position 2)")
    return _like("full", input, value, result_dtype, device, requires_grad, memory_format)


def scalar_tensor(
    s: Number, *, dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A 0-d tensor of the default float dtype, or of `dtype`.

    Args:
        layout, pin_memory: have no effect.
    Shape: result ().

    >>> import tdt
    >>> tdt.scalar_tensor(2)
    tensor(2.)
    """
    dtype = _dtype.get_default_dtype() if dtype is None else _dtype.as_dtype(dtype)
    value, dtype = fill_number(s, dtype, "scalar_tensor(): argument 's' (position 1)")
    return make("full", (), value, dtype, device, requires_grad)
