"""Calls of ops on a GPU, remembered by how their operands lie: programs compute results and gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tdt import _backend
from tdt._backend.waiting import CURRENT
from tdt._core.calls import TENSOR_TYPES
from tdt._kernels import UFUNCS
from tdt._kernels.programs_gpu import ALIGNED, MOST, OutdatedProgramError, Programs, Repeated

if TYPE_CHECKING:
    from tdt.autograd._node import Node
    from tdt.autograd._op import Op

NUMBERS = frozenset((int, float, bool, type(None)))


class LayoutCall:
    """Calls of an op with arrays of the same types, shapes, strides and alignment, and with the same attributes.

    Attributes:
        forward: the results, and the aux values, of a list of the operands.
        gradients: by the backward plan and the gradients of the results: those of the operands, of (gradients, saved, aux).
        plan, attributes: of the calls, once one was computed.
        kinds: of the results, see `_node.kind_of`, once a call was recorded.
        values: of the attributes, and the operands that are numbers.
        twice: whether the two operands are one array.
    """

    __slots__ = ("forward", "gradients", "plan", "attributes", "kinds", "values", "twice")

    def __init__(self, values: tuple, twice: bool) -> None:
        self.values, self.twice = values, twice
        self.forward = Repeated()
        self.gradients = Programs()
        self.plan: Any = None
        self.attributes: Any = None
        self.kinds: list | None = None


def run_by_program(node: Node, g: Any) -> Any:
    """What `Node.run` gives of a gradient on the only GPU by the program of such calls; None where it is to give it."""
    call, saved = node.call, node.saved
    if call.__class__ is not LayoutCall or saved.__class__ not in (list, tuple):
        return None
    arrays: list[Any] = []
    for array, storage, version in saved:
        if storage is not None and storage.version != version:
            return None
        arrays.append(array)
    gradient = call.gradients.of((node.backward_plan,), (g,))
    if gradient is None or gradient.program is None:
        return None
    try:
        return gradient.program(([g], arrays, node.aux))
    except OutdatedProgramError:
        return None


class Layouts:
    """The remembered calls of a function, as an op has them."""

    layouts: Any = None


def may_repeat() -> bool:
    """Whether programs may be noted and used: not while a CUDA graph is captured, nor while another call is noted."""
    return CURRENT.capture is None and CURRENT.notes is None


def call_of(function: Op | Layouts, operands: tuple, attributes: dict) -> tuple[LayoutCall | None, list]:  # noqa: C901  (called per op: helper calls cost time)
    """The remembered call of an op, or another function, with such tensors and numbers, all on the only GPU; and its arrays.

    The call is None where it may not be repeated.
    """
    calls = function.layouts
    arrays: list[Any] = []
    if calls is False or CURRENT.capture is not None or CURRENT.notes is not None:
        return None, arrays
    key: list[Any] = []
    values: Any = attributes.values()
    gpu: Any = _backend.GpuArray
    for x in operands:
        kind = x.__class__
        if kind in TENSOR_TYPES:
            a = x._a
            if a.__class__ is not gpu:
                return None, arrays
            arrays.append(a)
            key += a.dtype, a.shape, a.strides, a.data.ptr & ALIGNED
        elif kind in NUMBERS:
            arrays.append(x)
            key.append(x)
            values = (*values, x)
        else:
            return None, arrays
    if attributes:
        key += attributes
        key += attributes.values()
    if twice := len(arrays) == 2 and arrays[0] is arrays[1]:
        key.append(True)
    layout = tuple(key)
    try:
        found = None if calls is None else calls.get(layout)
        if found is None:
            hash(layout)
    except (TypeError, ValueError):  # a value that is not hashable, or an array
        return None, arrays
    if found is None:
        found = _new_call(function, layout, tuple(values), twice)
    elif values:
        for value, known in zip(values, found.values, strict=True):
            if value is not known and not _same(value, known):
                return None, arrays
    return found, arrays


def _new_call(function: Op | Layouts, key: tuple, values: tuple, twice: bool) -> LayoutCall | None:
    if _backend.several_gpus() or not TENSOR_TYPES.isdisjoint(map(type, values)):
        return None
    if function.layouts is None:
        function.layouts = {}
        UFUNCS.append(function.layouts)
    elif len(function.layouts) >= MOST:
        function.layouts.clear()
    found = function.layouts[key] = LayoutCall(values, twice)
    return found


def apart(arrays: list) -> list:
    """The operands' arrays, with a view in the place of one that comes again: a note of a launch says which operand it takes."""
    found: list[Any] = []
    for a in arrays:
        again = a.__class__ is _backend.GpuArray and any(a is other for other in found)
        found.append(a.view() if again else a)
    return found


def _same(value: Any, known: Any) -> bool:
    """Whether two values that are equal are alike: 1 == True == 1.0, and 0.0 == -0.0."""
    if value.__class__ is not known.__class__:
        return False
    if value.__class__ is tuple:
        return all(a is b or _same(a, b) for a, b in zip(value, known, strict=True))
    return value.__class__ is not float or bool(value) or repr(value) == repr(known)
