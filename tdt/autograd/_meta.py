"""Meta mode: run a program on shapes alone. Tensors are zeros of stride 0; nothing is stored or computed.

Contractions state their result's shape (`shape=`) and multiply-adds (`flops=`); every other op runs its forward on the
stride-0 arrays, which costs little for what layers do to shapes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.device import META
from tdt._core.errors import DataDependentError
from tdt._core.mode import handling, real
from tdt._core.tensor import Tensor, wrap


def _of_no_device(x: Any) -> Any:
    """An operand in a meta pass, in which parameters on the device "meta" meet inputs that are not."""
    return wrap(x._a.view(np.ndarray)) if isinstance(x, Tensor) and x._a.__class__ is _backend.MetaArray else x


class meta(handling):
    """Ops in this block compute only shapes. `flops` is the sum of the multiply-adds of all ops that ran.

    >>> import tdt
    >>> from tdt.autograd._meta import meta, stand_in
    >>> with meta() as seen:
    ...     shape = (stand_in((2, 3)) @ stand_in((3, 5))).shape
    >>> shape, seen.flops
    (tdt.Size([2, 5]), 30)
    """

    def __init__(self) -> None:
        super().__init__(self._handle, meta=True)
        self.flops = 0

    def __enter__(self) -> meta:  # type: ignore[override]
        super().__enter__()
        return self

    def _handle(self, op: Any, operands: tuple, attributes: dict, target: Any) -> Any:
        if op.data_dependent:
            raise DataDependentError(
                f"the result's shape of {op.name} depends on values, which the meta pass does not have"
            )
        operands = tuple(map(_of_no_device, operands))
        shapes: list[Any] = [x._a.shape if isinstance(x, Tensor) else None for x in operands]
        full = {**op.defaults, **attributes}
        if op.flops is not None:
            self.flops += int(op.flops(*shapes, **full))
        with real():
            if op.random and op.shape is None:  # must not draw from the generator
                several, outputs = False, [stand_in(shapes[0], operands[0]._a.dtype)]
            elif op.same_shape and _is_large(shapes) and (shape := _broadcast(shapes)) is not None:
                tiny = [_first(x) if isinstance(x, Tensor) else x for x in operands]
                result = op(*tiny, **attributes)
                several = isinstance(result, tuple)
                outputs = [stand_in(shape, t._a.dtype) for t in (result if several else (result,))]
            elif op.shape is None:
                result = op(*operands, **attributes)
                several = isinstance(result, tuple)
                outputs = [stand_in(t._a.shape, t._a.dtype) for t in (result if several else (result,))]
            else:
                dtypes = [x._a.dtype for x in operands if isinstance(x, Tensor)]
                dtype = next((kind for kind in dtypes if kind.kind in "fcV"), dtypes[0])
                found = op.shape(*shapes, **full)
                several = bool(found) and isinstance(found[0], tuple)
                shaped = zip(found if several else (found,), op.outputs, strict=True)
                outputs = [stand_in(s, np.int64 if name == "indices" else dtype) for s, name in shaped]
        return tuple(outputs) if several else outputs[0]


LARGE = 1 << 16  # elements, from which on the forward of an elementwise op would take memory and time


def _is_large(shapes: list[tuple[int, ...] | None]) -> bool:
    return any(shape is not None and math.prod(shape) >= LARGE for shape in shapes)


def _broadcast(shapes: list[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    """The shape of an elementwise result; None if the operands cannot be broadcast: the op itself raises the error."""
    try:
        return np.broadcast_shapes(*(shape for shape in shapes if shape is not None))
    except ValueError:
        return None


def _first(x: Tensor) -> Tensor:
    """The first element as a tensor of the same number of dimensions, to determine the result's dtype."""
    return wrap(x._a[(slice(0, 1),) * x._a.ndim])


def stand_in(shape: tuple[int, ...], np_dtype: Any = np.float32) -> Tensor:
    """A tensor of that shape and type that occupies one element."""
    return wrap(_backend.stand_in(tuple(shape), np_dtype))


def on_meta(stand_ins: Any) -> Any:
    """Stand-ins, one or several, as tensors on the device "meta"."""
    if isinstance(stand_ins, tuple):
        return tuple(map(on_meta, stand_ins))
    return wrap(_backend.to_device(stand_ins._a, META))
