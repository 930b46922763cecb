"""Ops that write to a tensor on a GPU, repeated by programs where nothing is recorded and no other operand has its memory."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tdt import _backend
from tdt._core.calls import TENSOR_TYPES
from tdt._core.mode import state
from tdt._kernels.programs_gpu import OutdatedProgramError
from tdt.autograd._layouts import LayoutCall, Layouts, call_of, may_repeat
from tdt.autograd._views import may_require_grad

if TYPE_CHECKING:
    from tdt._core.tensor import Tensor
    from tdt.autograd._op import Op

_calls: defaultdict[Op, Layouts] = defaultdict(Layouts)  # of ops, with the array that they write to


def may_write(x: Tensor) -> bool:
    """Whether CuPy itself may write to a tensor on the only GPU: nothing of it is recorded, and CuPy knows its type."""
    a: Any = x._a
    record = state.fast_record
    if x._a.__class__ is not _backend.GpuArray or record is None or a.dtype.kind not in KINDS or x._st.inference:
        return False
    recorded = state.recording is not None or (record and may_require_grad(x))
    return not recorded and may_repeat() and not _backend.several_gpus()


KINDS = "biufc"  # of types


def written(op: Op, x: Tensor, rest: tuple, attributes: dict) -> tuple[bool, LayoutCall | None]:
    """Whether x = op(x, *rest) is computed by a program; and the remembered call, None for one that is not repeated."""
    record, storage = state.fast_record, x._st
    if record is None or op.layouts is False or storage.inference or state.recording is not None:
        return False, None
    if record and (x._edge is not None or (x._view is not None and x._view.base._edge is not None)):
        return False, None
    a = x._a
    for t in rest:
        kind = t.__class__
        if kind in TENSOR_TYPES:
            if record and (t._edge is not None or (t._view is not None and t._view.base._edge is not None)):
                return False, None
            if t is not x and (t._st is storage or t._a.__class__ is not a.__class__ or _backend.may_overlap(a, t._a)):
                return False, None
    call, arrays = call_of(_calls[op], (x, *rest), attributes)
    if call is None or (program := call.forward.program) is None:
        return False, call
    try:
        program(arrays)
    except OutdatedProgramError:
        call.forward.program = None
        return False, call
    storage.bump_version()
    return True, call
