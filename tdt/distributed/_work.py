"""What collectives share: their handle, how they begin, and the checks of their arguments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from tdt._backend import namespace
from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor, wrap
from tdt.distributed._communicator import Array, Communicator, Progress, Steps
from tdt.distributed._group import (
    GroupMember,
    ProcessGroup,
    ReduceOp,
    default_group,
    get_global_rank,
    get_group_rank,
    get_rank,
    group_of,
)

Reduction = ReduceOp | ReduceOp.RedOpType
Finish = Callable[[], None]
R = ReduceOp.RedOpType
_COMBINE: dict[Any, Callable[[Array, Array], Array]] = {
    R.SUM: np.add, R.AVG: np.add, R.PRODUCT: np.multiply, R.MIN: np.minimum, R.MAX: np.maximum,
    R.BAND: np.bitwise_and, R.BOR: np.bitwise_or, R.BXOR: np.bitwise_xor,
}  # fmt: skip


class Work:
    """The handle of a collective with async_op=True: tensors have their new values after `wait`.

    The collective goes on while this process is in `wait` or `is_completed`.
    """

    def __init__(self, progress: Progress, finish: Finish = lambda: None) -> None:
        self._progress, self._finish = progress, finish
        self._finished = False
        self._finish_once()

    def _finish_once(self) -> bool:
        if self._progress.done and not self._finished:
            self._finished = True
            self._finish()
        return self._finished

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the collective is complete. Returns True. RuntimeError after `timeout` (default: the group's)."""
        try:
            self._progress.wait(None if timeout is None else timeout.total_seconds())
        except TimeoutError as error:
            raise RuntimeError(str(error)) from error
        return self._finish_once()

    def is_completed(self) -> bool:
        """Whether the collective is complete."""
        self._progress.poll()
        return self._finish_once()

    def is_success(self) -> bool:
        """Whether the collective is complete, and has not failed."""
        return self.is_completed()


def begin(
    name: str,
    group: ProcessGroup | int | None,
    async_op: bool,
    steps: Callable[[Communicator], Steps],
    finish: Finish = lambda: None,
    tensor: Tensor | None = None,
) -> Work | None:
    """Begin a collective of `group`; wait for its end unless async_op. finish: puts its results where they belong.

    tensor: one of those that it sends; None: what it sends is on the host.
    """
    found = group_of(group)
    through = found.communicator if tensor is None else found.transport(tensor)
    work = Work(found.begin(steps(through), name, through), finish)
    if async_op:
        return work
    work.wait()
    return None


def outside(name: str, group: ProcessGroup | int | None) -> bool:
    """Whether this process is not in the group; then a collective does nothing, and warns."""
    default_group()
    if group != GroupMember.NON_GROUP_MEMBER:
        return False
    warnings.warn(f"{name}: global rank {get_rank()} does not belong to the given group", stacklevel=3)
    return True


def check_tensor(name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type Tensor but got {type(value)} instead."
        )


def flat(tensor: Tensor, group: ProcessGroup | int | None = None) -> Array:
    """A copy of a tensor's elements where `group` sends them from, in one dimension."""
    array = group_of(group).transport(tensor).local(tensor.detach()._a)
    return namespace(array).array(array, order="C").reshape(-1)


def joined(tensors: Sequence[Tensor], group: ProcessGroup | int | None) -> Array:
    """Copies of the elements of several tensors, one after the other."""
    arrays = [flat(t, group) for t in tensors]
    return arrays[0] if len(arrays) == 1 else namespace(arrays[0]).concatenate(arrays)


def rows_like(tensor: Tensor, count: int, group: ProcessGroup | int | None) -> Array:
    """Memory for `count` tensors of this size, a row for each, where `group` receives them."""
    through = group_of(group).transport(tensor)
    return through.empty((count, tensor.numel()), tensor.detach()._a.dtype)


def put(tensor: Tensor, array: Array) -> None:
    """Write elements into a tensor of any layout and device."""
    with no_grad():
        tensor.detach().copy_(wrap(array.reshape(tensor.shape)))


def root_of(collective: str, group: ProcessGroup | int | None, rank: int | None, group_rank: int | None) -> int:
    """The root's rank in the group.

    ValueError unless exactly one rank is passed, or if it is not in the group; TypeError if it is not an integer, RuntimeError
    if there is no such rank.
    """
    if rank is None and group_rank is None:
        raise ValueError(f"{collective}: Must specify global_rank or group_rank")
    if rank is not None and group_rank is not None:
        raise ValueError(f"{collective}: Can't specify both group_rank and global_rank")
    number = group_rank if rank is None else rank
    if not isinstance(number, int):
        raise TypeError(f"{collective}: a rank must be an integer, not {type(number).__name__}")
    found = group_of(group)
    if rank is not None and found is not default_group():
        return get_group_rank(found, number)
    if not 0 <= number < found.size():
        raise RuntimeError(f"{collective}: invalid root rank: {number}; the group has {_processes(found.size())}")
    return number


def _processes(count: int) -> str:
    return "one process, of rank 0" if count == 1 else f"{count} processes, of rank 0 to {count - 1}"


def root_with_list(
    name: str, values: list | None, group: ProcessGroup | int | None, rank: int | None, group_rank: int | None
) -> int:
    """The root's rank, 0 by default. ValueError if the list argument `name` is passed in another process than the root."""
    found = group_of(group)
    rank = get_global_rank(found, 0) if rank is None and group_rank is None else rank
    here = get_rank() if rank is not None else found.rank()
    number = group_rank if rank is None else rank
    if number != here and values is not None:
        raise ValueError(
            f"Argument {name} must NOT be specified on a rank that is not the root: rank {here}, root {number}."
        )
    return root_of(name, group, rank, group_rank)


def listed(name: str, values: Any, size: int) -> list[Any]:
    """A list with one entry for each process.

    Raises ValueError for None, TypeError if `values` is not a list, RuntimeError for another number of entries.
    """
    if values is None:
        raise ValueError(f"Argument {name} must be specified on the root, which is this process.")
    if not isinstance(values, list | tuple):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type list but got {type(values)} instead."
        )
    if len(values) != size:
        raise RuntimeError(
            f"{name} must have one entry for each of the {size} processes, but has {len(values)} entries"
        )
    return list(values)


def check_same(targets: Sequence[Any], source: Any) -> None:
    """ValueError for tensors of another dtype than `source`, RuntimeError for another shape."""
    check_tensor("tensor", source)
    for target in targets:
        check_tensor("tensor", target)
        if target.dtype is not source.dtype:
            raise ValueError(f"Invalid usage of tensors with different dtypes: found {target.dtype} and {source.dtype}")
        if target.shape != source.shape:
            raise RuntimeError(f"invalid tensor size: expected {tuple(source.shape)}, got {tuple(target.shape)}")


def check_sizes(output: Any, input: Any, outputs: int, inputs: int) -> None:
    """RuntimeError unless `outputs` times the elements of `input` are `inputs` times those of `output`."""
    check_tensor("input", input)
    check_tensor("output", output)
    if output.dtype is not input.dtype:
        raise ValueError(f"Invalid usage of tensors with different dtypes: found {output.dtype} and {input.dtype}")
    if input.numel() * outputs != output.numel() * inputs:
        raise RuntimeError(
            f"output of shape {tuple(output.shape)} does not fit input of shape {tuple(input.shape)} in a group of "
            f"{max(outputs, inputs)}"
        )


def combination(op: Reduction, tensor: Tensor) -> Callable[[Array, Array], Array]:
    """How two arrays are reduced. RuntimeError if the tensor's dtype has no such reduction."""
    kind = op.op if isinstance(op, ReduceOp) and not isinstance(op, R) else op
    if kind not in _COMBINE:
        raise RuntimeError(f"Cannot use ReduceOp.{getattr(kind, 'name', kind)}: scale the tensor before the reduction")
    if kind in (R.BAND, R.BOR, R.BXOR) and (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with non-integral dtype")
    if kind in (R.MIN, R.MAX) and tensor.is_complex():
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with complex dtype")
    return _COMBINE[kind]


def averaged(op: Reduction, array: Array, size: int) -> Array:
    """The reduced array, divided by the number of processes if `op` is the mean."""
    if op != R.AVG or size == 1:
        return array
    return (array / size if array.dtype.kind in "fcV" else array // size).astype(array.dtype, copy=False)


def bounds_of(sizes: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(sizes).tolist()]
