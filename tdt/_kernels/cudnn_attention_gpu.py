"""Attention of float16 and bfloat16 on a GPU by cuDNN, on tensor cores: without a mask or with the causal one, no weight dropped.

Operands are read where they lie, unless elements of the last dimension are apart or rows do not begin at multiples of 16 bytes:
these are copied first. The kernels of `attention_gpu` compute all else, and what cuDNN has no deterministic engine for, or whose
workspace does not fit into memory. A gradient's workspace has a place for each weight, so some heads at a time are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tdt import _backend
from tdt._backend.waiting import refuse_program
from tdt._kernels import _cudnn, attention_gpu
from tdt._kernels._cuda import LETTERS
from tdt._kernels._cudnn import Plan, steps
from tdt._kernels._cudnn_attention import ALIGNED, OLDEST, Attention
from tdt._kernels._formulas import FLOAT32, LOWER
from tdt._kernels._gpu_conditions import gpu_attention
from tdt._kernels._registry import SWITCHES
from tdt._kernels.attention_gpu import in_heads, like, whole
from tdt._kernels.programs_gpu import MEMORY, launched

MOST_ELEMENTS = (1 << 31) - 1  # of a tensor
MOST_WEIGHTS = 1 << 28  # of several heads, that gradients are computed of at a time: half a GiB of workspace
MOST_WORKSPACE = (1 << 33) + (1 << 20)  # bytes: for one head of 65,536 tokens
MOST_PLANS = 4096
_plans: dict[tuple, Plan | None] = {}  # by how operands lie


def fits(arrays: Sequence[Any], attributes: dict) -> bool:
    """Queries, keys and values of half precision, with sizes of heads that engines read, no mask and no dropped weights."""
    q, k, v, mask, keep = arrays
    if (
        q.dtype not in LOWER
        or mask is not None
        or keep is not None
        or not SWITCHES.cudnn
        or not gpu_attention(arrays, {})
    ):
        return False
    if q.shape[-1] * q.itemsize % ALIGNED or v.shape[-1] * v.itemsize % ALIGNED or q.shape[-2] == 1:
        return False
    library = _cudnn.library()
    return library is not None and library.cudnnGetVersion() >= OLDEST and max(q.size, k.size, v.size) <= MOST_ELEMENTS


def vjp_fits(arrays: Sequence[Any], attributes: dict) -> bool:
    """What `attention` has computed by cuDNN: a row has one norm."""
    norms: Any = arrays[-1]
    return norms.shape[-1] == 1  # type: ignore[no-any-return]


def attention(q: Any, k: Any, v: Any, mask: Any = None, keep: Any = None, *, causal: bool, scale: float,
              dropped: float = 0.0) -> tuple[Any, Any]:  # fmt: skip
    """(softmax(scale q kᵀ) v; the logarithms of the rows' sums of exponentials, (*, L, 1)), or what `attention_gpu` gives."""
    q, k, v = map(_readable, (q, k, v))
    out = attention_gpu.room(q, v)
    plan = _planned(False, causal, scale, q, k, v, out)
    if plan is not None:
        norms = MEMORY.empty((*q.shape[:-1], 1), FLOAT32)
        try:
            launched(plan, q, k, v, out, norms)
        except _cudnn.NoRoomError:
            refuse_program()
        else:
            return out, norms
    return attention_gpu.attention(q, k, v, causal=causal, scale=scale, out=out)


def attention_vjp(g: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, out: Any, norms: Any, *, needs: tuple, causal: bool,
                  scale: float, dropped: float) -> tuple[Any, ...]:  # fmt: skip
    """The gradients of q, k and v that are needed."""
    g, q, k, v, out = map(_readable, (g, q, k, v, out))
    grads = [like(x) for x in (q, k, v)]
    try:
        for part in _parts(q, k):
            *tensors, rows = [x if part is None else in_heads(x)[part] for x in (q, k, v, out, g, *grads, norms)]
            plan = _planned(True, causal, scale, *tensors)
            if plan is None:
                break
            rows = rows if rows.data.ptr % ALIGNED == 0 else rows.copy()
            launched(plan, *tensors, rows, MEMORY.empty(rows.shape, FLOAT32))
        else:
            return tuple(x if need else None for x, need in zip(grads, needs, strict=True))
    except _cudnn.NoRoomError:
        pass
    refuse_program()
    norms = _backend.gpu().concatenate((norms, _backend.gpu().ones_like(norms)), -1)
    how = {"needs": needs, "causal": causal, "scale": scale, "dropped": dropped}
    return attention_gpu.attention_vjp(g, q, k, v, None, None, out, norms, **how)


def _parts(q: Any, k: Any) -> Iterator[tuple[slice, slice] | None]:
    """The parts of (N, H) that gradients are computed of at a time; None: all at once."""
    (n, h, rows, _), columns = in_heads(q).shape, k.shape[-2]
    most = max(1, MOST_WEIGHTS // (-(-rows // 128) * -(-columns // 128) * 128**2))
    if n * h <= most:
        yield None
        return
    images, heads = max(1, most // h), min(most, h)
    for first in range(0, n, images):
        for head in range(0, h, heads):
            yield slice(first, first + images), slice(head, head + heads)


def _readable(x: Any) -> Any:
    """x, or a copy of it that engines can read."""
    x = whole(x)
    apart = [s for n, s in zip(x.shape[:-1], x.strides, strict=False) if n > 1]
    fits = x.strides[-1] == x.itemsize and all(s > 0 and s % ALIGNED == 0 for s in apart) and x.data.ptr % ALIGNED == 0
    return x if fits else x.copy(order="C")


def _planned(backward: bool, causal: bool, scale: float, *arrays: Any) -> Plan | None:
    """What computes with the arrays of a problem, norms and slopes left out."""
    q, k, v = arrays[:3]
    key = backward, causal, scale, q.dtype, q.device.id, *[(x.shape, x.strides) for x in arrays]
    if key in _plans:
        return _plans[key]
    sizes = *in_heads(q).shape[:-1], k.shape[-2], q.shape[-1], v.shape[-1]
    problem = Attention(backward, LETTERS[q.dtype], causal, scale, sizes, tuple(map(_lie, arrays)))
    with q.device:
        plan, lasting = _cudnn.plan(q.device.id, problem, MOST_WORKSPACE)
    if not lasting:
        refuse_program()
        return plan
    if len(_plans) >= MOST_PLANS:
        _plans.clear()
    _plans[key] = plan
    return plan


def _lie(x: Any) -> tuple[int, ...]:
    """Elements between neighbours in each dimension of (N, H, L, E)."""
    x = in_heads(x)
    return tuple(
        [
            own if n == 1 else s // x.itemsize
            for n, s, own in zip(x.shape, x.strides, steps(x.shape, False), strict=True)
        ]
    )
