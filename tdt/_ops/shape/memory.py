"""Copies and conversions: clone, contiguous, to and its short forms, memory formats, in-place copy_, fill_, zero_."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.device import as_device, device
from tdt._backend.layout import in_order, is_channels_last
from tdt._backend.waiting import gives_views, repeatable
from tdt._core import dtype as _dtype
from tdt._core.aliases import Device, Number
from tdt._core.dtype import FLOAT8S
from tdt._core.float8 import KINDS
from tdt._core.from_data import LARGE, check_numbers
from tdt._core.memory_format import channels_last, channels_last_3d, contiguous_format, memory_format, preserve_format
from tdt._core.methods import method
from tdt._core.mode import state
from tdt._core.tensor import Tensor, alias
from tdt._core.writing import is_same_data
from tdt._kernels import CONVERSIONS, contiguous_copy, convert_into, copy_to, fill
from tdt._kernels._threads import THREADS
from tdt._ops._common import tensor_argument
from tdt._ops.elementwise.fills import _copy, _fill, value_of_fill
from tdt.autograd._dispatch import converted, unary
from tdt.autograd._inplace import is_plain, is_unrecorded, write
from tdt.autograd._node_names import label
from tdt.autograd._op import op
from tdt.autograd._writes_on_gpu import may_write

__all__ = [
    "clone",
    "fill_",
    "zero_",
]
FLOATS = frozenset(each.np for each in (_dtype.float32, _dtype.float64, _dtype.float16, _dtype.bfloat16))


def output_format(input: Tensor) -> memory_format:
    """The memory format of results that have that of their input: channels-last, or contiguous."""
    if not is_channels_last(input._a):
        return contiguous_format
    return channels_last if input.ndim == 4 else channels_last_3d


def in_output_format(input: Tensor) -> Tensor:
    """`input` if it is channels-last, else contiguous."""
    a = input._a
    return input if a.flags.c_contiguous or is_channels_last(a) else contiguous(input)


def in_format(xp: ModuleType, x: Any, layout: memory_format) -> Any:
    """A copy of x in a memory format; `preserve_format` keeps the order x has."""
    if layout is preserve_format and not x.flags.c_contiguous:
        return in_order(xp, x.copy(order="K"), [x]) if 0 in x.strides else x.copy(order="K")
    if not layout.order:
        return contiguous_copy(x)
    if x.ndim != len(layout.order):
        raise RuntimeError(f"required rank {len(layout.order)} tensor to use {layout.name} format")
    back = sorted(range(x.ndim), key=layout.order.__getitem__)
    return contiguous_copy(x.transpose(layout.order)).transpose(back)


@op(promote=(), computes=False, same_shape=True, float8=FLOAT8S, sparse_gradients=True)
@repeatable
def _clone(xp: ModuleType, x: Any, *, layout: memory_format = preserve_format) -> Any:
    return in_format(xp, x, layout)


_clone.vjp("x")(lambda g: g)
_clone.fast_vjp("x")(gives_views(lambda g: g))


@method()
def clone(input: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """A copy in new memory, through which gradients flow.

    Args:
        memory_format: of the copy; by default that of `input`.
    Shape: input (*); result the same.

    >>> import tdt
    >>> x = tdt.zeros(2)
    >>> tdt.clone(x).add_(1), x
    (tensor([1., 1.]), tensor([0., 0.]))
    """
    return unary(_clone, input, {"layout": memory_format or preserve_format})


@method()
def is_contiguous(input: Tensor, memory_format: memory_format = contiguous_format) -> bool:
    """Whether the elements lie in memory in the order of the format, without gaps.

    Shape: input (*); result a bool.

    >>> import tdt
    >>> tdt.ones(2, 3).is_contiguous(), tdt.ones(2, 3).t().is_contiguous()
    (True, False)
    """
    x = input._a
    if memory_format.order:
        return x.ndim == len(memory_format.order) and bool(x.transpose(memory_format.order).flags.c_contiguous)
    return bool(x.flags.c_contiguous)


@method()
def contiguous(input: Tensor, memory_format: memory_format = contiguous_format) -> Tensor:
    """The tensor itself if its memory has the given format, else a copy that has it.

    Shape: input (*); result the same.

    >>> import tdt
    >>> x = tdt.ones(2, 3).t()
    >>> x.contiguous().stride()
    (2, 1)
    """
    return input if is_contiguous(input, memory_format) else unary(_clone, input, {"layout": memory_format})


@op(promote=(), computes=False, float8=FLOAT8S, sparse_gradients=True)
def _to_device(xp: ModuleType, x: Any, *, target: device, source: device) -> Any:
    moved = _backend.to_device(x, target)
    return x.copy() if moved is x else moved


_to_device.vjp("x")(lambda g, target, source: _to_device(g, target=source, source=target))


@method()
def to(input: Tensor, *args: Any, **options: Any) -> Tensor:
    """The tensor with another dtype, device or memory format; the tensor itself if nothing changes.

    Args:
        args: a dtype; a device; a device and a dtype; or a tensor whose dtype and device are taken.
        options: `dtype`, `device`, `other`, `copy` (True: always copy), `memory_format`; `non_blocking` has no effect.
    Shape: input (*); result the same.
    Raises:
        TypeError: when an argument is none of these.

    >>> import tdt
    >>> tdt.tensor([1.7]).to(tdt.int64)
    tensor([1])
    """
    if not options and len(args) == 1:
        target = args[0]
        if target.__class__ is _dtype.dtype:
            return converted(input, target)
        if target.__class__ is device and _same_device(target, input):
            return input
    where, dtype, copy, layout = _parse_to(args, options)
    result = input
    if where is not None and not _same_device(where, input):
        if "meta" in (where.type, input.device.type):  # nothing to record: there are no values
            result = alias(_backend.to_device(input._a, where), None)
        else:
            result = _to_device(result, target=where, source=input.device)
    if dtype is not None:
        result = converted(result, dtype)
    # Convolutions check the strides for channels-last: with one channel the strides differ, though the memory is equal.
    fits = is_channels_last(result._a) if layout.order else is_contiguous(result, layout)
    if layout is not preserve_format and not fits:
        return _clone(result, layout=layout)
    return clone(result) if copy and result is input else result


def _same_device(where: device, x: Tensor) -> bool:
    here = x.device
    return where.type == here.type and (where.index is None or where.index == here.index or here.type == "cpu")


def _parse_to(args: tuple, options: dict[str, Any]) -> tuple[device | None, Any, bool, memory_format]:
    """(device, dtype, copy, memory format) from any of the signatures of `to`."""
    where, dtype, flags = options.pop("device", None), options.pop("dtype", None), []
    other = options.pop("other", None)
    copy, layout = options.pop("copy", False), options.pop("memory_format", None) or preserve_format
    options.pop("non_blocking", None)
    for value in args:
        if isinstance(value, Tensor):
            other = value
        elif isinstance(value, _dtype.dtype) or value in (float, int, complex) or value is bool:
            dtype = value
        elif isinstance(value, bool):
            flags.append(value)
        elif isinstance(value, (str, device, int)):
            where = value
        elif value is not None:
            raise TypeError(
                f"to() received an invalid combination of arguments - got {type(value).__name__} {value!r}; "
                "expected a device, a dtype or a Tensor"
            )
    if options:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(options))}'")
    if other is not None:
        where, dtype = other.device, other.dtype
    if len(flags) > 1:
        copy = flags[1]
    return (
        (None if where is None else as_device(where)),
        (None if dtype is None else _dtype.as_dtype(dtype)),
        copy,
        layout,
    )


@method()
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor with the dtype and device of another.

    Shape: input (*), other (*); result the shape of `input`.

    >>> import tdt
    >>> tdt.ones(1).type_as(tdt.tensor(1))
    tensor([1])
    """
    return to(input, tensor_argument("type_as", other, "other", 2))


@method()
def cpu(input: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor in main memory; the tensor itself if it is there.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.ones(1).cpu().device
    device(type='cpu')
    """
    return to(input, "cpu", memory_format=memory_format)


@method()
def cuda(
    input: Tensor, device: Device = None, non_blocking: bool = False, memory_format: memory_format = preserve_format
) -> Tensor:
    """The tensor on a GPU, by default the current one; the tensor itself if it is there.

    Args:
        non_blocking: has no effect.
    Shape: input (*); result the same.
    Raises:
        RuntimeError: when there is no GPU.

    >>> import tdt
    >>> tdt.ones(1).cuda().device if tdt.cuda.is_available() else tdt.device("cuda", 0)
    device(type='cuda', index=0)
    """
    return to(input, "cuda" if device is None else device, memory_format=memory_format)


def _share(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors of one storage may have the same elements."""
    return x._st is y._st and bool(_backend.may_overlap(x._a, y._a))


def _is_plain_part(x: Tensor) -> bool:
    """As `is_plain`, of a tensor whose elements may lie apart, each in a place of its own."""
    if not is_unrecorded(x) or x._a.__class__ is not np.ndarray or (x._st.inference and not state.inference):
        return False
    return not _backend.overlaps_itself(x._a)


def _copied(a: np.ndarray, b: Any) -> bool:
    """Whether `b` was copied to the array `a`: in the simplest cases, which take the least time."""
    if b.__class__ is not np.ndarray or (a.size >= THREADS.rows and not b.flags.c_contiguous):
        return False
    if a.dtype is b.dtype and a.shape == b.shape:
        copy_to(a, b)
        return True
    if (b.dtype, a.dtype) not in CONVERSIONS or b.ndim > a.ndim:
        return False
    try:
        convert_into(a, b)
    except ValueError:  # shapes that do not broadcast
        return False
    return True


@method()
def copy_(input: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """Overwrite the elements with those of `other`, broadcast and converted to the dtype and device of this tensor.

    Args:
        other: a tensor, or a number.
        non_blocking: has no effect.
    Shape: input (*); other broadcastable to it; result `input`.
    Raises:
        TypeError: when `other` is neither.
        RuntimeError: when the shape of `other` does not broadcast.

    >>> import tdt
    >>> tdt.zeros(2).copy_(tdt.tensor([1, 2]))
    tensor([1., 2.])
    """
    if (
        (is_plain(input) or _is_plain_part(input))
        and is_unrecorded(other)
        and not _share(input, other)
        and _copied(input._a, other._a)
    ):
        input._st.bump_version()
        return input
    if isinstance(other, (bool, int, float, complex)):
        check_numbers((other,))
        other = alias(np.asarray(other), None)
    if not isinstance(other, Tensor):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
    if not _same_device(input.device, other):
        other = to(other, input.device)
    shape, target = other._a.shape, input._a.shape
    if shape != target:
        extra = len(target) - len(shape)
        for d, n in enumerate(shape, extra):
            if d < 0 or n not in (1, target[d]):
                raise RuntimeError(
                    f"The size of tensor a ({target[d] if d >= 0 else ''}) must match the size of tensor b ({n}) at "
                    f"non-singleton dimension {d}; shapes are {list(target)} and {list(shape)}"
                )
    return write(_copy, input, (other,), {}, repeats=is_same_data(input, other))


def _is_unrecorded_array(x: Tensor) -> bool:
    """Whether nothing records a number that is written to all elements, which may share memory."""
    return is_unrecorded(x) and x._a.__class__ is np.ndarray and (not x._st.inference or state.inference)


def _fits(number: Any, dtype: Any) -> bool:
    """Whether a value is a number of Python's that a type can surely hold."""
    kind = number.__class__
    if dtype in FLOATS:
        return kind in (float, int) and -LARGE < number < LARGE
    return 0 <= number < 128 if kind is int and dtype.kind in "iub" else kind is bool and dtype.kind == "b"


@method()
def fill_(input: Tensor, value: Tensor | Number) -> Tensor:
    """Overwrite every element with `value`, a number or a 0-d tensor.

    Shape: input (*); value a number or (); result `input`.

    >>> import tdt
    >>> tdt.zeros(2).fill_(3)
    tensor([3., 3.])
    """
    number: Any = value
    if _is_unrecorded_array(input) and _fits(number, input._a.dtype):
        fill(input._a, number)
        input._st.bump_version()
        return input
    # A tensor may not be copied into elements that share memory; a number may, as all elements get the same value.
    return write(_fill, input, (value_of_fill(value),), {}, repeats=not isinstance(value, Tensor))


@method()
def zero_(input: Tensor) -> Tensor:
    """Overwrite every element with 0.

    Shape: input (*); result `input`.

    >>> import tdt
    >>> tdt.ones(2).zero_()
    tensor([0., 0.])
    """
    if _is_unrecorded_array(input) and input._a.dtype not in KINDS:
        fill(input._a, 0)
        input._st.bump_version()
        return input
    if may_write(input) and input._a.flags.c_contiguous:
        input._a.fill(0)
        input._st.bump_version()
        return input
    edge = input._edge
    filled = _fill.inplace(input, 0)
    return filled if filled._edge is edge else label(filled, "ZeroBackward0")
