"""Convolutions and their gradients on a GPU, by cuDNN: in one to three dimensions, in float32, float16 and bfloat16.

Operands are contiguous or channels-last, as their result will be; one that lies otherwise is copied first. A bias is added in a
launch of its own. The kernels of `conv_gpu` compute float64, and all else where cuDNN is not installed or is switched off, or
where no workspace of its engines fits into memory. They compute small weight gradients of long sums in float32 without TF32 as
well: no deterministic engine of cuDNN's cuts such a sum into parts, so that a few blocks of threads would do all the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tdt import _backend
from tdt._backend.layout import empty_as, output_is_channels_last, to_front, to_last
from tdt._backend.waiting import CURRENT, deferring, refuse_program
from tdt._backend.windows import output_sizes
from tdt._kernels import _cudnn, conv_gpu
from tdt._kernels._arithmetic import add, add_to
from tdt._kernels._cuda import LETTERS
from tdt._kernels._cudnn import DATA_TYPES, FORWARD, INPUT_GRAD, WEIGHT_GRAD, Plan, Problem
from tdt._kernels._formulas import narrow, widen
from tdt._kernels._gpu_conditions import gpu_convolution
from tdt._kernels._registry import SWITCHES
from tdt._kernels.programs_gpu import MEMORY, launched

ALIGNED = 16  # bytes: the most that an engine asks for
MOST_PLANS = 4096
MOST_DEPTHWISE = (1 << 31) - 1  # elements of a tensor for which cuDNN's engines of depthwise convolutions are made
Found = tuple[Plan | None, tuple[int, ...], bool]  # a plan, the shape of its result, and whether that is channels-last
_plans: dict[tuple, Found] = {}  # by how operands lie


def fits(arrays: Sequence[Any], attributes: dict) -> bool:
    """Lines, images or volumes and weights of one type, for which cuDNN has a plan; then a bias of this type or none."""
    first = arrays[0]
    if not SWITCHES.cudnn or LETTERS.get(first.dtype) not in DATA_TYPES or not 3 <= first.ndim <= 5:
        return False
    if any(a is not None and (a.dtype != first.dtype or not a.size) for a in arrays):
        return False
    return _cudnn.library() is not None and _planned(arrays[0], arrays[1], attributes)[0] is not None


def both_fit(arrays: Sequence[Any], attributes: dict) -> bool:
    """What both gradients take: the gradient of the result, images and weights."""
    y, x, w = arrays
    of_weights = {"kernel": w.shape[2:], **attributes}
    return fits((y, w), {"size": x.shape[2:], **attributes}) and (
        fits((y, x), of_weights) or gpu_convolution((y, x), of_weights)
    )


def conv(x: Any, w: Any, b: Any = None, **how: Any) -> Any:
    """The convolution of (N, C, *spatial), with a bias of each channel."""
    return _with_bias(_computed(x, w, how), b)


def conv_input_grad(y: Any, w: Any, b: Any = None, **how: Any) -> Any:
    """The gradient of images of a spatial size; or a transposed convolution, with a bias of each channel."""
    return _with_bias(_computed(y, w, how), b)


def conv_weight_grad(y: Any, x: Any, **how: Any) -> Any:
    """The gradient of weights whose kernels have a size."""
    return _computed(y, x, how)


def conv_grads(y: Any, x: Any, w: Any, **how: Any) -> tuple[Any, Any]:
    """The gradients of images x and of weights w, for that of the result, y."""
    return _computed(y, w, {"size": x.shape[2:], **how}), _computed(y, x, {"kernel": w.shape[2:], **how})


def _with_bias(out: Any, b: Any) -> Any:
    """`out` and a bias of each channel. In a CUDA graph the sum may wait, for an activation of it."""
    if b is None:
        return out
    b = b.reshape(-1, *(1,) * (out.ndim - 2))
    if CURRENT.capture is not None and CURRENT.capture.chains is not None:
        return deferring(add, out, b)
    add_to(out, b)
    return out


def _computed(a: Any, b: Any, how: dict[str, Any]) -> Any:
    plan, shape, last = _planned(a, b, how)
    while plan is not None:
        try:
            return _launched(plan, a, b, how, shape, last)
        except _cudnn.NoRoomError as error:
            with a.device:
                smaller, _ = _cudnn.plan(plan.gpu, plan.problem, plan.workspace_size - 1)
            if smaller is None and a.ndim == 5:  # tdt's kernels compute no volumes
                raise error.__cause__ or error from None
            _plans[_key(a, b, how)] = smaller, shape, last
            plan = smaller
    compute = (
        conv_gpu.conv_input_grad if "size" in how else conv_gpu.conv_weight_grad if "kernel" in how else conv_gpu.conv
    )
    out = compute(*widen((a, b)), **how)
    return out if out.dtype == a.dtype else narrow(out, a.dtype)


def _launched(plan: Plan, a: Any, b: Any, how: dict[str, Any], shape: tuple[int, ...], last: bool) -> Any:
    a, b, out = _in_format(a, last), _in_format(b, last), empty_as(MEMORY, shape, a.dtype, last)
    x, w, y = (out, b, a) if "size" in how else (b, out, a) if "kernel" in how else (a, b, out)
    launched(plan, x, w, y)
    return out


def _in_format(a: Any, last: bool) -> Any:
    """`a`, or a copy that is contiguous, or channels-last if `last`."""
    xp = _backend.gpu()
    return to_front(xp.ascontiguousarray(to_last(a))) if last else xp.ascontiguousarray(a)


def _planned(a: Any, b: Any, how: dict[str, Any]) -> Found:
    """What computes with a and b; it is kept for arrays that lie in the same way."""
    key = _key(a, b, how)
    found = _plans.get(key)
    if found is None:
        found, lasting = _plan(a, b, how, ALIGNED if _aligned(a, b) else a.itemsize)
        if lasting:
            if len(_plans) >= MOST_PLANS:
                _plans.clear()
            _plans[key] = found
        else:
            refuse_program()
    return found


def _aligned(a: Any, b: Any) -> bool:
    return not (a.data.ptr | b.data.ptr) % ALIGNED


def _key(a: Any, b: Any, how: dict[str, Any]) -> tuple:
    switch = SWITCHES.conv_tf32
    return a.shape, a.strides, b.shape, b.strides, a.dtype, _aligned(a, b), a.device.id, switch, *how.items()


def _plan(a: Any, b: Any, how: dict[str, Any], alignment: int) -> tuple[Found, bool]:
    """What computes with a and b, and whether that stays so."""
    stride, padding, dilation, groups = (how[name] for name in ("stride", "padding", "dilation", "groups"))
    if "size" in how:
        operation, y, w = INPUT_GRAD, a.shape, b.shape
        shape = x = (y[0], w[1] * groups, *how["size"])
    elif "kernel" in how:
        operation, y, x = WEIGHT_GRAD, a.shape, b.shape
        shape = w = (y[1], x[1] // groups, *how["kernel"])
    else:
        operation, x, w = FORWARD, a.shape, b.shape
        shape = y = (x[0], w[0], *output_sizes(x[2:], w[2:], stride, padding, dilation))
    last = output_is_channels_last(a, b)
    # A transposed convolution may have more windows than there are gradients.
    if 0 in shape or y[2:] != output_sizes(x[2:], w[2:], stride, padding, dilation):
        return (None, shape, last), True
    if groups == x[1] > 1 and max(map(prod, (x, y))) > MOST_DEPTHWISE:
        return (None, shape, last), True
    letter = LETTERS[a.dtype]
    tf32 = SWITCHES.conv_tf32 and letter == "f"
    if operation == WEIGHT_GRAD and letter == "f" and not (tf32 or last) and a.ndim < 5:
        if conv_gpu.cut(w, prod(y) // y[1], groups, a.dtype)[2] > 1:
            return (None, shape, last), True
    sizes, pairs = [x, w, y], [stride, padding, dilation]
    if a.ndim == 3:  # lines, as images of one row
        sizes = [(*size[:2], 1, size[2]) for size in sizes]
        pairs = [(fill, *pair) for fill, pair in zip((1, 0, 1), pairs, strict=True)]
    problem = Problem(operation, letter, tf32, alignment, last, *sizes, *pairs)
    with a.device:
        plan, lasting = _cudnn.plan(a.device.id, problem)
    return (plan, shape, last), lasting
