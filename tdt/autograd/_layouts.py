"""Calls of ops on a GPU, remembered by how their operands lie: programs compute results and gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tdt import _backend
from tdt._backend.waiting import CURRENT
from tdt._kernels import SWITCHES, UFUNCS
from tdt._kernels.programs_gpu import Repeated

if TYPE_CHECKING:
    from tdt.autograd._op import Op

MOST = 2000  # calls of an op that are remembered
ALIGNED = 255  # the bits of an address that plans of libraries depend on
NUMBERS = frozenset((int, float, bool, type(None)))


class LayoutCall:
    """Calls of an op with arrays of the same types, shapes, strides and alignment, and with the same attributes.

    Attributes:
        forward: the results, and the aux values, of a list of the operands.
        gradients: by the backward plan and how the gradients lie: those of the operands, of (gradients, saved values, aux).
        plan, attributes: of the calls, once one was computed.
        kinds: of the results, see `_node.kind_of`, once a call was recorded.
    """

    __slots__ = ("forward", "gradients", "plan", "attributes", "kinds")

    def __init__(self) -> None:
        self.forward = Repeated()
        self.gradients: dict[tuple, Repeated] = {}
        self.plan: Any = None
        self.attributes: Any = None
        self.kinds: list | None = None

    def gradient(self, back: Any, grads: list) -> Repeated | None:
        """The gradients of the operands, for those of the outputs that lie so; None where they are not remembered."""
        key: list[Any] = [back, SWITCHES.changes]  # nodes keep calls that ops have forgotten
        gpu: Any = _backend.GpuArray
        for g in grads:
            if g.__class__ is gpu:
                key += g.dtype, g.shape, g.strides, g.data.ptr & ALIGNED
            elif g is None:
                key.append(None)
            else:
                return None
        found = self.gradients.get(layout := tuple(key))
        if found is None and len(self.gradients) < MOST:
            found = self.gradients[layout] = Repeated()
        return found


class Layouts:
    """The remembered calls of a function, as an op has them."""

    layouts: Any = None


def may_repeat() -> bool:
    """Whether programs may be noted and used: not while a CUDA graph is captured, nor while another call is noted."""
    return CURRENT.capture is None and CURRENT.notes is None


def call_of(op: Op | Layouts, operands: list, types: list, attributes: dict) -> LayoutCall | None:
    """The remembered call of an op with such arrays and numbers, all on the only GPU; None where it may not be repeated."""
    calls = op.layouts
    if calls is False or CURRENT.capture is not None or CURRENT.notes is not None:
        return None
    key: list[Any] = [*types]
    gpu: Any = _backend.GpuArray
    for a in operands:
        if a.__class__ is gpu:
            key += a.shape, a.strides, a.data.ptr & ALIGNED
        elif a.__class__ in NUMBERS:
            key.append(a or repr(a))  # 0.0 and -0.0 are equal
        else:
            return None
    try:
        if attributes:
            key += attributes
            for value in attributes.values():
                key += value.__class__, value or repr(value)
        layout = tuple(key)
        if _backend.several_gpus():
            return None
        if calls is None:
            calls = op.layouts = {}
            UFUNCS.append(calls)
        found = calls.get(layout)
    except (TypeError, ValueError):  # a value that is not hashable, or an array
        return None
    if found is None:
        if len(calls) >= MOST:
            calls.clear()
        found = calls[layout] = LayoutCall()
    return found
