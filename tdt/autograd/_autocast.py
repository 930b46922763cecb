"""Autocast: a dispatch handler that runs matrix products in bfloat16 or float16 and losses in float32.

The policy of each op is PyTorch's for the CPU, and is stated in the op's record, `@op(autocast=…)`: "lower" casts its
float32 operands to the block's dtype, "float32" its 16-bit operands to float32. Other ops run in the dtypes of their operands.

On processors without instructions for bfloat16, products are computed in float32: there the weights of linear, convolutional
and recurrent layers are not rounded first, nor are their gradients, which saves five conversions a step. Where there are
instructions, products with many rows round the weights of linear layers as they read them, and sum their gradients in float32.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.mode import state, uncast_record
from tdt._core.tensor import LEAF, Tensor, wrap
from tdt._core.wrapping import wraps
from tdt._kernels import astype, multiplies_bfloat16
from tdt.autograd._dispatch import apply, unary
from tdt.autograd._op_table import OPS
from tdt.autograd._record import record_results

F = TypeVar("F", bound=Callable[..., Any])
LOW = (_dtype.bfloat16.np, _dtype.float16.np)
FLOAT32 = _dtype.float32.np
CAST = frozenset((FLOAT32, *LOW))
FEW_ROWS = 128  # that meet the weights of a linear layer, which are cast once for all its calls then


class Casting:
    """The handler.

    Attributes:
        dtypes: target dtype by device type.
        below: the next handler, usually None.
        casts: by the number of a leaf that requires grad, and the grad mode: (the leaf, its version, the cast); None without a
            cache.
        alone: whether there is no other handler, so that ops without a policy need not come here.
        kind: the dtypes, as part of a key.
        lowers: whether float32 becomes bfloat16 on the CPU; pairs: whether that has instructions for its products.
    """

    def __init__(self, dtypes: dict[str, _dtype.dtype], below: Any, casts: dict[tuple, tuple] | None = None) -> None:
        self.dtypes, self.below, self.casts = dtypes, below, casts
        self.alone = below is None
        self.lowers = dtypes.get("cpu") is _dtype.bfloat16
        self.pairs = self.lowers and multiplies_bfloat16()
        self.kind = ("autocast", *sorted((device, dtype.name) for device, dtype in dtypes.items()))

    def over(self, below: Any) -> Casting:
        """The same above another handler."""
        return Casting(self.dtypes, below, self.casts)

    def __call__(self, op: Any, operands: tuple, attributes: dict, target: Any) -> Any:
        # A tensor that is written in place keeps its dtype.
        operands = self.operands_for(op, operands) if target is None else operands
        return self.without(apply, op, operands, attributes, target)

    def without(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """function(*args, **kwargs), whose ops are not cast."""
        handler, fast_record, uncast = state.handler, state.fast_record, state.uncast_record
        state.handler = self.below
        state.fast_record = None if state.inference or self.below is not None else state.grad
        try:
            return function(*args, **kwargs)
        finally:
            state.handler, state.fast_record, state.uncast_record = handler, fast_record, uncast

    def called(self, function: Callable[..., Any], op: Any, *operands: Any, mixed: Callable[..., Any]) -> Any:
        """`function` of the operands of its op, cast, or `mixed` where weights stay float32; None for operands of other types."""
        if op.float32_weights and self._keeps(op, *operands):
            x = self._lowered(operands[0])
            fits = isinstance(x, Tensor) and x._a.__class__ is np.ndarray and x._a.dtype == _dtype.bfloat16.np
            return self.without(mixed, x, *operands[1:]) if fits else None
        operands = tuple(map(self._lowered, operands))
        kinds = {x._a.dtype if isinstance(x, Tensor) else x for x in operands if x is not None}
        return self.without(function, *operands) if len(kinds) == 1 else None

    def operands_for(self, op: Any, operands: tuple) -> tuple:
        """The operands of an op, cast as its record says."""
        kind = op.autocast if op.autocast.__class__ is str else op.autocast(operands)
        if not kind:
            return operands
        if kind == "lower" and op.float32_weights and self._keeps(op, *operands):
            return self._lowered(operands[0]), *operands[1:]
        cast = self.caster(kind)
        return tuple([cast(x) for x in operands])

    def _keeps(self, op: Any, x: Any, *weights: Any) -> bool:
        """Whether weights stay float32: a processor without instructions for bfloat16 would convert them back, and one that
        has them rounds the weights of many rows when it packs them."""
        if not self.lowers:
            return False
        if self.pairs:
            shape = x._a.shape if op.float32_weights == "packed" and isinstance(x, Tensor) else ()
            if math.prod(shape[:-1]) <= FEW_ROWS:
                return False
        for w in weights:  # all() would take twice the time
            if w is not None and ((a := getattr(w, "_a", w)).__class__ is not np.ndarray or a.dtype != FLOAT32):
                return False
        return True

    def caster(self, kind: str) -> Callable[[Any], Any]:
        """The cast of the operands: "lower", "float32", or "" for none."""
        return self._lowered if kind == "lower" else self._widened if kind == "float32" else lambda x: x

    def _lowered(self, x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        a = x._a
        dtype = self.dtypes.get("cpu" if a.__class__ is np.ndarray else x.device.type)
        if dtype is None or a.dtype not in CAST or a.dtype == dtype.np:
            return x
        if self.casts is None or x._edge is not LEAF or x._view is not None or state.inference or a.dtype in LOW:
            return self._converted(x, dtype)
        key = id(x), state.grad
        leaf, version, cast = self.casts.get(key, (None, 0, None))
        if leaf is not x or version != x._st.version or cast.dtype is not dtype:
            cast = self._converted(x, dtype)
            self.casts[key] = x, x._st.version, cast
        return cast

    def _widened(self, x: Any) -> Any:
        low = isinstance(x, Tensor) and x._a.dtype in LOW and x.device.type in self.dtypes
        return self._converted(x, _dtype.float32) if low else x

    def _converted(self, x: Tensor, dtype: Any) -> Any:
        a = x._a
        if self.below is None and not state.inference and a.__class__ is np.ndarray and a.flags.c_contiguous:
            if not state.grad or (x._edge is None and x._view is None):
                return wrap(astype(a, dtype.np))
            if uncast_record():
                return record_results(OPS["convert"], (x,), (a,), {"dtype": dtype}, (astype(a, dtype.np),))[0]
        return self.without(unary, OPS["convert"], x, {"dtype": dtype})


def cast_for(kind: str, *operands: Any) -> tuple:
    """The operands, cast by the active autocast block ("lower" or "float32"); unchanged without one."""
    handler = state.handler
    return tuple(map(handler.caster(kind), operands)) if handler.__class__ is Casting else operands


def called_below_autocast(function: Callable[..., Any], op: Any, *operands: Any, mixed: Callable[..., Any]) -> Any:
    """`function` of the operands of its op, cast by the active autocast block, without this block.

    Where the weights stay float32, `mixed` is called instead. None where there is no block, or types differ otherwise.
    """
    handler = state.handler
    return handler.called(function, op, *operands, mixed=mixed) if handler.__class__ is Casting else None


def cast_operands(op: Any, *operands: Any) -> tuple:
    """The operands of an op, cast by the active autocast block; unchanged without one."""
    handler = state.handler
    return handler.operands_for(op, operands) if handler.__class__ is Casting else operands


def casts_on(device_type: str) -> bool:
    """Whether an autocast block is active for a device type."""
    return state.handler.__class__ is Casting and device_type in state.handler.dtypes


def autocast(kind: str) -> Callable[[F], F]:
    """Make autocast treat a composite function as one op: it casts the arguments, and not the ops inside.

    kind: "lower" or "float32" as for an op; "keep" casts nothing, and nor does any kind in a call with `out=`.
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def front(*args: Any, **kwargs: Any) -> Any:
            handler = state.handler
            if handler.__class__ is not Casting:
                return function(*args, **kwargs)
            cast = handler.caster(kind if kwargs.get("out") is None else "keep")
            named = {key: cast(value) for key, value in kwargs.items()}
            return handler.without(function, *map(cast, args), **named)

        return typing.cast("F", front)

    return decorate


def by_rank_of_pool(operands: tuple) -> str:
    """Pooling in three dimensions runs in float32."""
    return "float32" if operands[0].ndim == 5 else ""
