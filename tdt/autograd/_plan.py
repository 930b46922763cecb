"""What one call of an op will do, decided once per (op, operand dtypes): the cast of each operand, the type to compute in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.calls import check_call
from tdt._core.dtype import FLOAT, check_category
from tdt._kernels import LOWER

if TYPE_CHECKING:
    from tdt.autograd._op import Op

_PYTHON_CATEGORY = {bool: _dtype.bool, int: _dtype.int64, float: _dtype.float64, complex: _dtype.complex128}


NUMBER = object()  # the cast of a NumPy scalar: to a Python number, which does not widen its partners


class Plan:
    """`casts`: the NumPy dtype each operand must be converted to first, or None.
    `low`: the half-precision dtype to round results to after computing in float32, or None.
    `backward_plans`: what to keep for backward, by the set of operands that want gradients.
    `by_rank`: plans by which operands are 0-d, where that decides the promoted type.
    `direct`: nothing stands between the operands and the forward. `fast_path`: `unary` and `binary` will do.
    `function`: what `binary` calls with two arrays; None: the forward.
    """

    __slots__ = ("casts", "low", "backward_plans", "by_rank", "direct", "fast_path", "function")

    def __init__(self, casts: tuple | None, low: Any, direct: bool):
        self.casts, self.low, self.direct, self.fast_path = casts, low, direct, False
        self.function: Callable[..., Any] | None = None
        self.backward_plans: dict[Any, Any] = {}
        self.by_rank: dict[tuple, Plan] | None = None


def make_plan(op: Op, key: tuple, arrays: list) -> Plan:
    """The plan for operands of these types; it is cached by the caller. NotImplementedError for a type op refuses."""
    check_kinds(op, key)
    if op.check is not None:
        op.check(*key)
    names = op.names_for(len(arrays))
    part = [i for i, name in enumerate(names) if op.promote == "all" or name in op.promote]
    tensors = [(_dtype.of(key[i]), arrays[i].ndim == 0) for i in part if not isinstance(key[i], type)]
    scalars = [_PYTHON_CATEGORY[key[i]] for i in part if key[i] in _PYTHON_CATEGORY]
    first, casts = _dtype.of(next((k for k in key if not isinstance(k, type)), _dtype.get_default_dtype().np)), None
    if tensors or scalars:
        common = _dtype.result_of(tensors, scalars)
        if op.to_float and common.category < FLOAT:
            common = _dtype.get_default_dtype()
        check_category(op.name, op.dtypes, common, op.float8)
        targets = [
            common.np if i in part and not isinstance(key[i], type) and key[i] != common.np else None
            for i in range(len(key))
        ]
        wide = wide_scalar(op, common.np, key, arrays)
        if wide is not None:
            first, targets[wide] = common, None if key[wide] == _dtype.float32.np else _dtype.float32.np
        targets = [
            NUMBER if isinstance(k, type) and issubclass(k, np.generic) else w
            for k, w in zip(key, targets, strict=True)
        ]
        casts = tuple(targets) if any(w is not None for w in targets) else None
    check_category(op.name, _dtype.ALL if part else op.dtypes, first, op.float8)
    # NumPy would round after each step of a half-precision computation; like PyTorch, compute in float32 and round once.
    # Formulas do so themselves.
    low = first.np if casts is None and first.np in LOWER and op.computes and not op.formula else None
    plan = Plan(casts, low, casts is None and low is None and op.simple)
    plan.by_rank = {} if len({d for d, _ in tensors}) > 1 else None
    return plan


def ranks_of(arrays: list) -> tuple:
    """The key of `Plan.by_rank`: the classes of those that are 0-d."""
    return tuple([a.__class__ if getattr(a, "ndim", -1) == 0 else None for a in arrays])


def wide_scalar(op: Op, common: Any, key: tuple, arrays: list) -> int | None:
    """The place of the operand that is one of `op.wide_scalars` for these types."""
    for i, name in enumerate(op.operands) if op.wide_scalars and common in LOWER else ():
        is_wide = name in op.wide_scalars and key[i] != common == key[1 - i]
        if is_wide and arrays[i].__class__ is np.ndarray and not arrays[i].ndim and arrays[1 - i].ndim:
            return i
    return None


def check_kinds(op: Op, key: tuple) -> None:
    """TypeError for operands that are neither tensors nor numbers, and for a call without any tensor."""
    names = op.names_for(len(key))
    for name, (i, kind) in zip(names, enumerate(key), strict=True):
        number = not isinstance(kind, type) or issubclass(kind, (int, float, complex, np.generic))
        if not number and not (kind is type(None) and name in op.optional):
            check_call()
            raise TypeError(f"{op.name}(): argument '{name}' (position {i + 1}) must be Tensor, not {kind.__name__}")
    if all(isinstance(kind, type) for kind in key):
        check_call()
        kinds = ", ".join(kind.__name__ for kind in key)
        raise TypeError(
            f"{op.name}() received an invalid combination of arguments - got ({kinds}), but at least one must be a Tensor"
        )


def wrap_scalars(arrays: list) -> list:
    """Python integers outside the range of the arrays' integer type, wrapped round as PyTorch does."""
    dtype = next(a.dtype for a in arrays if hasattr(a, "dtype"))
    return [np.asarray(a).astype(dtype) if isinstance(a, int) and not isinstance(a, bool) else a for a in arrays]
