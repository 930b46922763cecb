"""What ops and rules compute on a GPU: generated kernels, where each element depends on the operands' at its place alone.

Such a kernel may wait in a capture (`_kernels.chains_gpu`); all else launches first what waits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import _backend
from tdt._backend.layout import lies_in_order
from tdt._backend.waiting import CURRENT, constants_of, deferring, launch_waiting, refuse_program, stop_deferring
from tdt._core.sparse import SparseCOO
from tdt._kernels import UFUNCS
from tdt._kernels._registry import SWITCHES
from tdt._kernels.programs_gpu import Programs

if TYPE_CHECKING:
    from tdt.autograd._op import Op

# Of arrays and numbers, attributes and target; None if it has no kernel for them.
Form = Callable[[Sequence[Any], dict[str, Any], Any], Any]


def form_of(op: Op) -> Form | None:
    """The kernel of an op whose forward is CuPy's, though it is elementwise; None where there is none."""
    from tdt._kernels.formula_gpu import Elementwise

    if op.formula or op.kernels:
        return None
    if "forward" in op.traced:
        return Elementwise(op.name, op.traced["forward"], constants_of(op.traced["forward"]))
    if op.lower is not None:
        formula, _, _ = op.lower.formula  # type: ignore[attr-defined]
        return Elementwise(op.name, functools.partial(formula, **op.defaults))
    return None


def compute(
    op: Op, computes: Callable[..., Any], low: Any, xp: Any, arrays: list, attributes: dict, target: Any
) -> Any:
    """The result of an op's forward, with its aux values. computes: calls the forward."""
    form = None
    is_formula = op.formula or (low is not None and op.lower is not None)
    if low is None and not is_formula and SWITCHES.kernels:
        form = op.on_gpu
        if form is False:
            form = op.on_gpu = form_of(op)
    if (is_formula or form is not None) and op.sparse and SparseCOO in map(type, arrays):
        is_formula, form = False, None
    if form is not None:
        others = attributes
        if attributes:
            # An op may refuse True where 1 is the default.
            known = op.defaults
            others = {k: v for k, v in attributes.items() if v != known[k] or (v is True and known[k] is not True)}
        try:
            found = deferring(form, arrays, others, target)
        except (ValueError, OverflowError):
            found = None  # the forward's error is PyTorch's
        if found is not None:
            return found
    capture = CURRENT.capture
    if capture is None:
        return computes(op, xp, arrays, attributes, low, target)
    if is_formula:
        return deferring(computes, op, xp, arrays, attributes, low, target)
    if op.view is not True and not (op.view and arrays[0].flags.c_contiguous):
        launch_waiting()
    if hasattr(op.forward, "ends_by_formula"):
        return deferring(computes, op, xp, arrays, attributes, low, target)
    return computes(op, xp, arrays, attributes, low, target)


def in_layout(op: Op, xp: Any, result: Any, arrays: list) -> Any:
    """`op.lay` of a result, which may be copied."""
    if CURRENT.capture is not None and not lies_in_order(result, [a for a in arrays if hasattr(a, "strides")]):
        launch_waiting()
    return op.lay(xp, result, arrays)  # type: ignore[misc]


def rule_on_gpu(op: Op, name: str | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """The array-level rule `function` on a GPU, of the operand `name`; None: of several."""
    if hasattr(function, "gives_views"):
        return function
    if hasattr(function, "formula") or hasattr(function, "ends_by_formula"):
        return functools.partial(deferring, function)
    traced: Any = None if name is None else op.traced.get(name)
    if name is None or (traced is None and (op.lower is None or op.kernels)):
        return _launching(function)
    from tdt._kernels.formula_gpu import Elementwise

    constants = constants_of(function if traced is None else traced)
    takes_xp = op.rules[name].fast_params[:1] == ("xp",)  # type: ignore[index]
    if traced is None:
        traced = (lambda xp, *args: function(xp, *args)) if takes_xp else (lambda xp, *args: function(*args))
    kernel = Elementwise(f"{op.name}_{name}_gradient", traced, constants)

    def rule(*values: Any) -> Any:
        arrays = values[1:] if takes_xp else values
        found = None
        if SWITCHES.kernels and not any(a.__class__ is not _backend.GpuArray and hasattr(a, "dtype") for a in arrays):
            found = deferring(kernel, arrays, {}, None)
        if found is None:
            stop_deferring()
            found = function(*values)
        return found

    return rule


def _launching(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function before which what waits is launched, and of whose launches no program is made unless it is marked."""
    repeats = hasattr(function, "repeatable")

    def call(*args: Any) -> Any:
        launch_waiting()
        if not repeats:
            refuse_program()
        return function(*args)

    return call


def sum_of_two(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """`_kernels.add` or `add_to` of gradients, whose kernel may wait on a GPU."""
    if a.__class__ is np.ndarray:
        return function(a, b)
    return repeated(function, deferring, a, b)


def repeated(function: Callable[..., Any], call: Callable[..., Any], *arrays: Any) -> Any:
    """What a function gives of CuPy's arrays, by the program of such calls; where there may be none, call(function, *arrays)."""
    if _backend.several_gpus() or (found := _CALLS.of((function,), arrays)) is None:
        return call(function, *arrays)
    return found(functools.partial(function, *arrays), arrays)


_CALLS = Programs()
UFUNCS.append(_CALLS)
