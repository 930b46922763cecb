"""What an op's forward gives of arrays: by a kernel if one applies, in float32 for half precision, with PyTorch's errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import _backend
from tdt._backend.waiting import refuse_program
from tdt._core.broadcasting import check_broadcast
from tdt._core.sparse import SparseCOO
from tdt._kernels import chosen, chosen_for, chosen_on_gpu, narrow, rounded, widen
from tdt.autograd._on_gpu import compute as on_gpu
from tdt.autograd._on_gpu import in_layout
from tdt.autograd._plan import Plan, wrap_scalars
from tdt.autograd._record import edges_of

if TYPE_CHECKING:
    from tdt.autograd._op import Op

ndarray = np.ndarray


def computed_on_gpu(op: Op, plan: Plan, xp: Any, arrays: list, attributes: dict, target: Any) -> Any:
    """What the forward gives of CuPy's arrays, results where PyTorch has them in memory."""
    if op.view is True and plan.low is None and not op.kernels:
        try:
            return op.forward(xp, *arrays, **attributes)
        except (ValueError, OverflowError) as error:
            return recover(op, xp, arrays, attributes, error)
    result = on_gpu(op, run_forward, plan.low, xp, arrays, attributes, target)
    if op.lay is None or target is not None:
        return result
    if op.aux:
        return in_layout(op, xp, result[0], arrays), *result[1:]
    return in_layout(op, xp, result, arrays)


def run_forward(op: Op, xp: Any, arrays: list, attributes: dict, low: Any, target: Any) -> Any:
    """Run the forward: by a kernel if one applies, in float32 for half precision, into `target` if the op supports it."""
    try:
        if low is not None:
            if op.wide_scalars and (x := arrays[0]).__class__ is ndarray and x.dtype != low:
                arrays = [x.astype(low), *arrays[1:]]
            if op.lower is not None and SparseCOO not in map(type, arrays):
                return op.lower(xp, *arrays, **attributes)
            if not (op.half and (xp is np or op.half == "everywhere")):
                return _compute_wide(op, xp, widen(arrays), attributes, low)
        if op.kernels and (
            kernel := chosen_for(op.kernels, arrays, attributes)
            if xp is np
            else chosen_on_gpu(op.kernels, xp, arrays, attributes)
        ):
            return kernel(*arrays, **attributes)
        if xp is not np and not (op.formula or hasattr(op.forward, "repeatable")):
            refuse_program()
        if target is not None and op.writes_out:
            return op.forward(xp, *arrays, **attributes, out=target)
        return op.forward(xp, *arrays, **attributes)
    except (ValueError, OverflowError) as error:
        return recover(op, xp, arrays, attributes, error)


def _compute_wide(op: Op, xp: Any, arrays: list, attributes: dict, low: Any) -> Any:
    """The forward of half-precision arrays that were converted to float32; its results but `aux` are rounded to `low`."""
    refuse_program()
    if op.rounds_numbers:
        arrays = [rounded(a, low) for a in arrays]
    kernel = chosen(op.kernels, xp, *arrays, **attributes) if op.kernels else None
    results = kernel(*arrays, **attributes) if kernel else op.forward(xp, *arrays, **attributes)
    if not op.aux:
        return narrow(results, low)
    count = len(op.outputs)
    return *narrow(results[:count], low), *results[count:]


def recover(op: Op, xp: Any, arrays: list, attributes: dict, error: Exception, recorded: tuple = ()) -> Any:
    """Raise PyTorch's error for an error of NumPy's, or retry with a Python integer that was out of range wrapped around."""
    edges_of(recorded)  # raises for a view that cannot follow its base, before shapes that do not fit
    if isinstance(error, OverflowError) and any(isinstance(a, int) for a in arrays):
        try:
            return op.forward(xp, *wrap_scalars(arrays), **attributes)
        except OverflowError:
            raise OverflowError("int too big to convert") from None
    shapes = [a.shape for a in arrays if _backend.is_array(a)]
    if op.broadcasts and len(shapes) > 1:
        check_broadcast(*shapes)
    raise error
