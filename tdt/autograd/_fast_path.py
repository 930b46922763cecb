"""A short way for public functions of one tensor along a dimension, where the call costs much beside the work."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.layout import is_descending
from tdt._core.calls import refusing_bools, renamed_keywords
from tdt._core.mode import INFERENCE, state
from tdt._core.tensor import Tensor
from tdt._core.wrapping import wraps
from tdt._kernels._threads import THREADS
from tdt.autograd._call_counts import CallCounts
from tdt.autograd._inplace import copy_into, takes_result, write_array
from tdt.autograd._plan import _has_kernels
from tdt.autograd._record import FINISH
from tdt.autograd._remembered import Watch
from tdt.autograd._remembered_on_gpu import CallsOnGpu
from tdt.autograd._views import edge_of

if TYPE_CHECKING:
    from tdt.autograd._op import Op

MOST_SAVED = 1000
NAMED = object()  # in the keys of calls, before the keyword arguments
PIECE = _kernels.PIECE
ndarray = np.ndarray

F = TypeVar("F", bound=Callable[..., Any])
Compute = Callable[[np.ndarray], Any]


class FastPath:
    """Calls of an op on a contiguous NumPy tensor of up to `most` elements, by a function saved for types and arguments.

    Args:
        op: with one operand.
        prepare: `prepare(dtype, shape, dim, option)`, with the two arguments of a call, gives a function of arrays, which
            returns the op's results, and the op's attributes; None if such a call has no short way. The function returns
            None for an array that is left to `apply`.
        copies: whether vectors with gaps are copied first: of an op whose results are elements and places. Arrays with gaps are
            copied by those whose results lie in the order of the dimensions then, and by an op that is `packed` in any case.
        other_order: what is done with an array without gaps whose dimensions lie in another order in memory: "turned" where
            it is folded in the order of memory, "copied" where each element is computed in the order of `dim`; "" for `apply`.
        shares: whether the function computes large arrays, too, as one does that has threads share them; else the op's forward
            takes its place where there are several threads.
    """

    __slots__ = ("op", "prepare", "most", "copies", "other_order", "shares", "saved", "counts")

    def __init__(
        self,
        op: Op,
        prepare: Callable[..., tuple[Compute, dict[str, Any]] | None],
        most: int = PIECE,
        copies: bool = False,
        other_order: str = "",
        shares: bool = False,
    ):
        self.op, self.prepare, self.most, self.copies = op, prepare, most, copies
        self.other_order, self.shares = other_order, shares
        self.saved: dict[tuple, Any] = {}
        self.counts = CallCounts()
        _kernels.UFUNCS.append(self.saved)

    def __call__(self, x: Any, dim: Any, option: Any) -> Any:
        """The result, or a tuple of several; None where `apply` is to take the call."""
        try:
            a = x._a
            key: tuple = (a.dtype, a.shape, dim, option)
            if a.__class__ is not ndarray:
                return None
            if not a.flags.c_contiguous:
                key = *key, a.strides
            found = self.saved.get(key)
        except (AttributeError, TypeError):
            return None
        record = state.fast_record
        if record is None and (not self.op.autocast or state.inference):
            record = state.uncast_record
        if record is None:
            return None
        if found is None:
            # A tensor in the place of `dim` would be kept, with its graph.
            if not (_plain(dim) and _plain(option) and self.counts.often(key)):
                return None
            found = self._find(a, dim, option, key)
        compute, plan, attributes, dim_kind, option_kind = found
        # 1 == True == 1.0, so that a key does not tell them apart.
        if compute is None or dim.__class__ is not dim_kind or option.__class__ is not option_kind:
            return None
        if dim_kind is tuple and dim and not _plain(dim):
            return None
        edge = (x._edge if x._view is None else edge_of(x)) if record else None
        result = compute(a)
        if result is None:
            return None
        recorded = None if edge is None else plan
        out = FINISH.call(self.op, recorded, (x,), (a,), attributes, result, None, None)
        return _marked(out) if record is INFERENCE else out

    def _find(self, a: np.ndarray, dim: Any, option: Any, key: tuple) -> tuple:
        """What to do with such a call: the function (None for `apply`), the plan, the attributes, the arguments' types."""
        plan = self.op.plans.get((a.dtype,))
        if plan is None:  # until `apply` has made it
            return None, None, None, None, None
        found, order = None, _kernels.memory_order(a)
        wide = plan.low is not None and _computes_wide(self.op)
        usual, kind = wide or (plan.direct and plan.low is None), _kernels.FLOAT32 if wide else a.dtype
        if 0 < a.size <= self.most and usual and plan.by_rank is None:
            turns = a.size <= PIECE and (self.other_order if order is not None else self._copies(a))
            if a.flags.c_contiguous or turns:
                found = self.prepare(kind, a.shape, dim, option)
        if len(self.saved) > MOST_SAVED:
            self.saved.clear()
        compute, attributes = found or (None, None)
        if compute is not None and a.size >= THREADS.rows and not self.shares:
            every = {**self.op.defaults, **(attributes or {})}
            compute = functools.partial(self.op.forward, np, **every) if a.flags.c_contiguous else None
        elif compute is not None and not a.flags.c_contiguous:
            if order is not None and self.other_order == "turned":
                compute = self._turned(kind, a, order, dim, option)
            else:
                compute = _copying(compute)
        if compute is not None and wide:
            compute = _rounding(compute, plan.low)
        attributes = {**self.op.defaults, **attributes} if attributes else self.op.defaults
        saved = self.saved[key] = compute, plan, attributes, dim.__class__, option.__class__
        return saved

    def _copies(self, a: np.ndarray) -> bool:
        """Whether an array with gaps is copied."""
        return self.op.packed or (self.copies and (a.ndim == 1 or is_descending(a.strides)))

    def _turned(self, kind: Any, a: np.ndarray, order: list[int], dim: Any, option: Any) -> Compute | None:
        """What folds arrays whose dimensions lie in another order in memory, in that order."""
        places = {d: place for place, d in enumerate(order)}
        dims = dim if dim.__class__ is tuple else () if dim is None else (dim,)
        there = tuple([places[d % a.ndim] for d in dims])
        found = self.prepare(kind, a.transpose(order).shape, there or None, option)
        if found is None:
            return None
        fold = found[0]
        left = [d for d in order if option or d not in {d % a.ndim for d in dims}] if dims else []
        back = sorted(range(len(left)), key=left.__getitem__)
        if back == [*range(len(left))]:
            return lambda a: fold(a.transpose(order))
        return lambda a: fold(a.transpose(order)).transpose(back).copy()


def _copying(compute: Compute) -> Compute:
    """`compute` of contiguous copies."""
    return lambda a: compute(a.copy())


def _computes_wide(op: Op) -> bool:
    """Whether the forward of an op computes half precision in float32 and nothing else belongs to it."""
    return op.simple and not (op.half or op.lower or op.aux or op.wide_scalars or _has_kernels(op))


def _rounding(compute: Compute, low: Any) -> Compute:
    """`compute` in float32, with results rounded to `low`."""

    def rounding(a: np.ndarray) -> Any:
        results = compute(_kernels.astype(a, _kernels.FLOAT32))
        return None if results is None else _kernels.narrow(results, low)

    return rounding


class Both:
    """The short ways of two ops with the same arguments, for a function that gives the results of both."""

    __slots__ = ("op", "paths", "saved")

    def __init__(self, first: FastPath, second: FastPath):
        self.op, self.paths = first.op, (first, second)
        self.saved: dict[tuple, Any] = {}
        _kernels.UFUNCS.append(self.saved)

    def __call__(self, x: Any, dim: Any, option: Any) -> tuple[Tensor, ...] | None:
        """The results; None where `apply` is to take the calls."""
        one, other = [path(x, dim, option) for path in self.paths]
        if one is None or other is None:
            return None
        key = x._a.dtype, x._a.shape, dim, option
        if key not in self.saved and x._a.flags.c_contiguous:
            first, second = [path.saved.get(key, (None,))[0] for path in self.paths]
            if first is None or second is None:  # another thread has switched kernels meanwhile
                return one, other
            if len(self.saved) > MOST_SAVED:
                self.saved.clear()
            self.saved[key] = (lambda a: (first(a), second(a)),)
        return one, other


Choice = tuple[FastPath | Both, Any, Any]  # a path and its two arguments


def _plain(value: Any) -> bool:
    """Whether a value is an int, a bool, None or a tuple of ints."""
    kind = value.__class__
    return kind is int or kind is bool or value is None or (kind is tuple and all(v.__class__ is int for v in value))


def takes(choose: Callable[..., Choice | None], finish: Callable[[Any], Any] | None = None) -> Callable[[F], F]:
    """`front` for a function of a tensor and further arguments whose calls a `FastPath` may compute.

    What is not recorded is computed without a call of `choose`, the path or the function from the second time on.

    Args:
        choose: gives the path and its two arguments for the arguments after the tensor, None for those that no path takes.
            It has the parameters that a path can take; calls with others are left to the function.
        finish: makes the function's result of one that is recorded, or of several.
    """
    return functools.partial(_with_fast_path, choose=choose, finish=finish)


def _with_fast_path(  # noqa: C901  (one frame: helper calls cost time)
    function: F, choose: Callable[..., Choice | None], finish: Callable[[Any], Any] | None
) -> F:
    function = refusing_bools(function)
    saved: dict[tuple, tuple] = {}  # see `_by_path`
    _kernels.UFUNCS.append(saved)
    on_gpu = CallsOnGpu(function, Watch, finish)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: C901
        try:
            x: Any = None
            values, found, target, rest = args[1:], None, None, kwargs
            if kwargs:
                if (target := kwargs.get("out")) is not None:
                    rest = {**kwargs}
                    del rest["out"]
                if rest:
                    values += (NAMED, *rest, *rest.values())
            try:
                a = args[0]._a
                if a.__class__ is ndarray:
                    found = saved.get((a.dtype, a.shape, values))
                x = args[0]
            except (AttributeError, IndexError, TypeError):  # no tensor, or a list of dimensions
                pass
            if found is not None and (not values or _same_kinds(values, found[2])):
                record = state.fast_record
                if record is None and (not found[1].autocast or state.inference):
                    record = state.uncast_record
                recorded = record and (x._edge is not None or (x._view is not None and x._view.base._edge is not None))
                if record is not None and not recorded and a.flags.c_contiguous:
                    if target is None:
                        if (result := found[0](a)) is None:
                            return function(*args, **kwargs)
                        outs = FINISH.call(found[1], None, (), (), None, result, None, None)
                        if record is INFERENCE:
                            _marked(outs)
                        return outs if finish is None or outs.__class__ is not tuple else finish(outs)
                    if takes_result(target, x) and write_array(target, found[0](a)):
                        return target
            else:
                found = None
            if target is not None:
                copied = copy_into(target, called, args, rest)
                return function(*args, **kwargs) if copied is None else copied
            if x is not None and a.__class__ is _backend.GpuArray and state.fast_record is not None:
                return on_gpu(args, kwargs)
            outs = found[3](x, found[4], found[5]) if found else _by_path(choose, saved, x, args, kwargs, values)
            if outs is None:
                return function(*args, **kwargs)
            return outs if finish is None else finish(outs)
        except Exception as error:
            renamed = renamed_keywords(function, args, kwargs, error, sys._getframe().f_code)
            if renamed is None:
                raise
        return called(*args, **renamed)

    return cast("F", called)


def _by_path(
    choose: Callable[..., Choice | None], saved: dict, x: Any, args: tuple, kwargs: dict[str, Any], values: tuple
) -> Any:
    """What the path gives that `choose` names for the arguments after the tensor `x`; None where none takes the call.

    Args:
        saved: keeps what the path computes with: (function of arrays, op, types of the values, path, its two arguments).
        values: the arguments after the tensor, as a part of a key.
    """
    try:
        choice = None if x is None else choose(*args[1:], **kwargs)
    except TypeError:  # another argument
        return None
    if choice is None:
        return None
    path, dim, option = choice
    outs, kind = path(x, dim, option), (x._a.dtype, x._a.shape)
    found = None if outs is None else path.saved.get((*kind, dim, option))
    if found is not None and found[0] is not None:  # else another thread has switched kernels meanwhile
        if len(saved) > MOST_SAVED:
            saved.clear()
        saved[*kind, values] = found[0], path.op, _kinds(values), path, dim, option
    return outs


def _kinds(values: tuple) -> tuple:
    """The types of values, and of those in tuples among them."""
    return tuple([tuple(map(type, v)) if v.__class__ is tuple else v.__class__ for v in values])


def _same_kinds(values: tuple, kinds: tuple) -> bool:
    """Whether `kinds` are the types of `values`: 1 == True == 1.0, so that a key does not tell them apart."""
    for v, kind in zip(values, kinds, strict=True):
        if v.__class__ is not kind and (v.__class__ is not tuple or tuple(map(type, v)) != kind):
            return False
    return True


def _marked(outs: Any) -> Any:
    """A tensor or a tuple of them, noted as created in inference mode."""
    for t in outs if outs.__class__ is tuple else (outs,):
        t._st.inference = True
    return outs
