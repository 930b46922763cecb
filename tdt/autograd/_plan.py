"""What one call of an op will do, decided once per (op, operand dtypes): the cast of each operand, the type to compute in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import _backend
from tdt._core import dtype as _dtype
from tdt._core.calls import check_call
from tdt._core.dtype import FLOAT, check_category
from tdt._kernels import FEW_CALLS, LARGE_ARITHMETIC, LOWER, for_small_arrays, quick_arithmetic
from tdt._kernels._registry import GpuKernel

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
    direct = low is None or (op.half and op.lower is None and not op.wide_scalars)
    plan = Plan(casts, low, bool(casts is None and direct and op.simple))
    plan.by_rank = {} if len({d for d, _ in tensors}) > 1 else None
    return plan


def plan_for(op: Op, key: tuple, arrays: list) -> tuple[Any, Plan]:
    """The array library and the plan of a call, where the types are new, mixed in rank, or not all NumPy's."""
    xp = _home(op, arrays)
    plan = op.plans.get(key)
    if plan is None:
        plan = make_plan(op, key, arrays)
        plan.direct = plan.direct and not _has_kernels(op)
        plan.function = op.direct
        if (ufunc := op.ufunc or getattr(op.forward, "ufunc", "")) and len(key) == 2:
            if key[0].__class__ is key[1].__class__ and key[0] == key[1]:
                plan.function = _often(plan, ufunc, key[0])
            elif key[1] is int and key[0].kind in "iu" and not op.to_float:
                plan.function = _with_integer(ufunc, key[0])
        plan.fast_path = plan.direct and op.fast_path and plan.by_rank is None
        if plan.low is not None and op.lower is not None and plan.by_rank is None:
            plan.function, plan.fast_path = for_small_arrays(op.lower, op.defaults), len(key) == 2
        op.plans[key] = plan
        # Pickled arrays have dtypes of their own, equal to NumPy's; a dtype also equals some Python types.
        if len(key) == op.fixed < 3 and key[0].__class__ is key[-1].__class__ and key[0] == key[-1] and not op.optional:
            op.plans[key[0]] = plan  # the key that `unary` and `binary` look up
    if plan.by_rank is not None:
        ranks = ranks_of(arrays)
        if ranks not in plan.by_rank:
            ranked = plan.by_rank[ranks] = make_plan(op, key, arrays)
            ranked.direct = ranked.direct and not _has_kernels(op)
        plan = plan.by_rank[ranks]
    return xp, plan


def _has_kernels(op: Op) -> bool:
    """Whether the forward has kernels for NumPy's arrays."""
    return any(not isinstance(kernel, GpuKernel) for kernel in op.kernels)


def _often(plan: Plan, ufunc: str, dtype: Any) -> Any:
    """NumPy's ufunc for two arrays, which becomes the plan's quick form, loaded or compiled, when it is often called, or when two
    small arrays have a large result."""
    function, left = getattr(np, ufunc), FEW_CALLS

    def call(a: Any, b: Any, *out: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or (a.size * b.size >= LARGE_ARITHMETIC and np.broadcast(a, b).size >= LARGE_ARITHMETIC):
            plan.function = quick_arithmetic(ufunc, dtype) or function
            return plan.function(a, b, *out)
        return function(a, b, *out)

    return call


def _home(op: Op, arrays: list) -> Any:
    """The array library of all arrays; 0-d arrays may be on the CPU, RuntimeError for other mixtures."""
    on_gpu = [a for a in arrays if _backend.is_array(a) and not isinstance(a, np.ndarray)]
    if not on_gpu:
        return np
    home = _backend.device_of(on_gpu[0])
    for i, a in enumerate(arrays):
        if _backend.is_array(a) and _backend.device_of(a) != home:
            if a.ndim or a.__class__ is not np.ndarray:
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but found at least two devices, {home} and "
                    f"{_backend.device_of(a)}! (operand {op.names_for(len(arrays))[i]} of {op.name}); move it with .to()"
                )
            arrays[i] = _backend.to_device(a, home)
    return _backend.namespace(on_gpu[0])


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


class Integers(dict):
    """Arrays of one element, of an integer type, by Python's integers: NumPy takes them sooner than these."""

    def __init__(self, dtype: np.dtype):
        super().__init__()
        self.dtype, self.count = dtype, 2 ** (8 * dtype.itemsize)

    def __missing__(self, number: int) -> np.ndarray:
        """The number reduced modulo 2^bits to the type's range, as in PyTorch."""
        rest = number % self.count
        found = np.array(rest - self.count if self.dtype.kind == "i" and rest >= self.count // 2 else rest, self.dtype)
        found.flags.writeable = False
        if len(self) < MOST_INTEGERS:
            self[number] = found
        return found


MOST_INTEGERS = 1000
integers = functools.cache(Integers)  # of a type


def _with_integer(ufunc: str, dtype: np.dtype) -> Any:
    """NumPy's ufunc of an array and a Python integer."""
    function, arrays, left = getattr(np, ufunc), integers(dtype), FEW_CALLS

    def call(a: Any, b: Any, *out: Any) -> Any:
        nonlocal function, left
        left -= 1
        if not left:
            function = quick_arithmetic(ufunc, dtype) or function
        return function(a, arrays[b], *out)

    return call


def wrap_scalars(arrays: list) -> list:
    """Python integers outside the range of the arrays' integer type, wrapped round as PyTorch does."""
    dtype = next(a.dtype for a in arrays if hasattr(a, "dtype"))
    numbers = [isinstance(a, int) and not isinstance(a, bool) for a in arrays]
    # CuPy takes NumPy's scalars, and no array of NumPy's.
    return [np.asarray(a).astype(dtype)[()] if wraps else a for a, wraps in zip(arrays, numbers, strict=True)]
