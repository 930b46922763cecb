"""`one_hot`."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.waiting import refuse_program, repeatable
from tdt._core.dtype import int64
from tdt._core.mode import check_values
from tdt._core.tensor import Tensor
from tdt._kernels import SWITCHES, always, chosen, gpu_kernel
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.index._checks import all_in_range
from tdt.autograd._dispatch import unary
from tdt.autograd._op import op

_ON_GPU = (gpu_kernel("move_gpu:one_hot", always),)
OUTSIDE = "Class values must be non-negative and smaller than num_classes ({limit}), but one is {value}"


@op(name="one_hot", dtypes=frozenset({int64}), shape=lambda x, *, classes: (*x, classes))
@repeatable
def _one_hot(xp: ModuleType, x: Any, *, classes: int) -> Any:
    if xp is not np:
        if on_gpu := chosen(_ON_GPU, xp, x):
            return on_gpu(x if x.flags.c_contiguous else x.copy("C"), count=classes, message=OUTSIDE)
        refuse_program()
    out = xp.zeros((*x.shape, classes), xp.int64)
    out.reshape(-1)[xp.arange(x.size) * classes + x.reshape(-1)] = 1
    return out


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """One-hot vectors of class indices: 1 at the position of the class, 0 elsewhere.

    Args:
        num_classes: length of the vectors; -1 for the largest index plus one.
    Shape: input (*), int64; result (*, num_classes), int64.
    Raises:
        RuntimeError: when the dtype is not int64, an index is negative or not below `num_classes`, or -1 meets an empty tensor.
        IndexError: at the next read from a GPU, if `num_classes` is given, for an index there that is negative or not below it.

    >>> import tdt
    >>> tdt.nn.functional.one_hot(tdt.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if tensor_argument("one_hot", input).dtype is not int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, but got {input.dtype}")
    if not input._a.size:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return input.new_zeros((*input.shape, num_classes))
    a = input._a
    if num_classes > 0 and a.__class__ is _backend.GpuArray and SWITCHES.kernels:
        return unary(_one_hot, input, {"classes": num_classes})  # classes are checked without a wait
    if num_classes > 0 and a.__class__ is np.ndarray:
        check_values(partial(_check_classes, num_classes), a)
        return unary(_one_hot, input, {"classes": num_classes})
    if num_classes == -1:
        num_classes = max(int(input.max()), 0) + 1
    _check_classes(num_classes, a)
    return _one_hot(input, classes=num_classes)


def _check_classes(count: int, a: Any) -> None:
    """RuntimeError unless all class numbers are among so many."""
    if a.__class__ is np.ndarray and all_in_range(a, count):
        return
    first, last = int(a.min()), int(a.max())
    if first < 0:
        raise RuntimeError(f"Class values must be non-negative, but one is {first}")
    if last >= count:
        raise RuntimeError(f"Class values must be smaller than num_classes ({count}), but one is {last}")


__all__: list[str] = []
