"""Collectives on tensors: every process of the group calls the same ones in the same order."""

from __future__ import annotations

import itertools
import pickle
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from tdt._core.aliases import Device
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


def _begin(
    name: str,
    group: ProcessGroup | int | None,
    async_op: bool,
    steps: Callable[[Communicator], Steps],
    finish: Finish = lambda: None,
) -> Work | None:
    """Begin a collective of `group`; wait for its end unless async_op. finish: puts its results where they belong."""
    found = group_of(group)
    work = Work(found.begin(steps(found.communicator), name), finish)
    if async_op:
        return work
    work.wait()
    return None


def _outside(name: str, group: ProcessGroup | int | None) -> bool:
    """Whether this process is not in the group; then a collective does nothing, and warns."""
    default_group()
    if group != GroupMember.NON_GROUP_MEMBER:
        return False
    warnings.warn(f"{name}: global rank {get_rank()} does not belong to the given group", stacklevel=3)
    return True


def _check_tensor(name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type Tensor but got {type(value)} instead."
        )


def flat(tensor: Tensor) -> Array:
    """A copy of a tensor's elements, on the host, in one dimension."""
    return np.array(tensor.detach().cpu()._a, order="C").reshape(-1)


def put(tensor: Tensor, array: Array) -> None:
    """Write elements into a tensor of any layout and device."""
    with no_grad():
        tensor.detach().copy_(wrap(array.reshape(tensor.shape)))


def _root(collective: str, group: ProcessGroup | int | None, rank: int | None, group_rank: int | None) -> int:
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


def _root_with_list(
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
    return _root(name, group, rank, group_rank)


def _listed(name: str, values: Any, size: int) -> list[Any]:
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


def _check_same(targets: Sequence[Any], source: Any) -> None:
    """ValueError for tensors of another dtype than `source`, RuntimeError for another shape."""
    _check_tensor("tensor", source)
    for target in targets:
        _check_tensor("tensor", target)
        if target.dtype is not source.dtype:
            raise ValueError(f"Invalid usage of tensors with different dtypes: found {target.dtype} and {source.dtype}")
        if target.shape != source.shape:
            raise RuntimeError(f"invalid tensor size: expected {tuple(source.shape)}, got {tuple(target.shape)}")


def _check_sizes(output: Any, input: Any, outputs: int, inputs: int) -> None:
    """RuntimeError unless `outputs` times the elements of `input` are `inputs` times those of `output`."""
    _check_tensor("input", input)
    _check_tensor("output", output)
    if output.dtype is not input.dtype:
        raise ValueError(f"Invalid usage of tensors with different dtypes: found {output.dtype} and {input.dtype}")
    if input.numel() * outputs != output.numel() * inputs:
        raise RuntimeError(
            f"output of shape {tuple(output.shape)} does not fit input of shape {tuple(input.shape)} in a group of "
            f"{max(outputs, inputs)}"
        )


def _combine(op: Reduction, tensor: Tensor) -> Callable[[Array, Array], Array]:
    """How two arrays are reduced. RuntimeError if the tensor's dtype has no such reduction."""
    kind = op.op if isinstance(op, ReduceOp) and not isinstance(op, R) else op
    if kind not in _COMBINE:
        raise RuntimeError(f"Cannot use ReduceOp.{getattr(kind, 'name', kind)}: scale the tensor before the reduction")
    if kind in (R.BAND, R.BOR, R.BXOR) and (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with non-integral dtype")
    if kind in (R.MIN, R.MAX) and tensor.is_complex():
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with complex dtype")
    return _COMBINE[kind]


def _averaged(op: Reduction, array: Array, size: int) -> Array:
    """The reduced array, divided by the number of processes if `op` is the mean."""
    if op != R.AVG or size == 1:
        return array
    return np.asarray(array / size if array.dtype.kind in "fcV" else array // size, array.dtype)


def barrier(
    group: ProcessGroup | None = None, async_op: bool = False, device_ids: Sequence[int] | None = None
) -> Work | None:
    """Wait until all processes have called this."""
    return None if _outside("barrier", group) else _begin("barrier", group, async_op, lambda c: c.barrier())


def monitored_barrier(
    group: ProcessGroup | None = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all processes have called this. RuntimeError after `timeout`."""
    work = barrier(group, async_op=True)
    if work is not None:
        work.wait(timeout)


def all_reduce(
    tensor: Tensor,
    op: Reduction = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce `tensor` over all processes, in place; all get the same bits."""
    _check_tensor("tensor", tensor)
    return all_reduce_coalesced([tensor], op, group, async_op)


def all_reduce_coalesced(
    tensors: list[Tensor],
    op: Reduction = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`all_reduce` of several tensors of one dtype."""
    if _outside("all_reduce", group):
        return None
    size = group_of(group).size()
    combine, arrays = _combine(op, tensors[0]), [flat(t) for t in tensors]
    array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def finish() -> None:
        reduced, start = _averaged(op, array, size), 0
        for t in tensors:
            put(t, reduced[start : start + t.numel()])
            start += t.numel()

    return _begin(
        "all_reduce", group, async_op, lambda c: c.all_reduce(array, combine), finish if size > 1 else _nothing
    )


def _nothing() -> None:
    """What is left to do after a collective whose tensors do not change."""


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Reduction = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce `tensor` over all processes, into that of the process `dst`; the others keep theirs."""
    _check_tensor("tensor", tensor)
    if _outside("reduce", group):
        return None
    root, found = _root("reduce", group, dst, group_dst), group_of(group)
    combine, array = _combine(op, tensor), flat(tensor)
    here = found.rank() == root and found.size() > 1
    finish = (lambda: put(tensor, _averaged(op, array, found.size()))) if here else _nothing
    return _begin("reduce", group, async_op, lambda c: c.all_reduce(array, combine), finish)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy `tensor` from the process `src` into that of all others."""
    _check_tensor("tensor", tensor)
    if _outside("broadcast", group):
        return None
    root, array = _root("broadcast", group, src, group_src), flat(tensor)
    finish = _nothing if group_of(group).rank() == root else lambda: put(tensor, array)
    return _begin("broadcast", group, async_op, lambda c: c.broadcast(array, root), finish)


def broadcast_tensors(tensors: Sequence[Tensor], group: ProcessGroup) -> None:
    """Copy tensors of the group's rank 0 into those of all others, all of one dtype at once."""
    kinds: dict[Any, list[Tensor]] = {}
    for t in tensors:
        kinds.setdefault(t.dtype, []).append(t)
    for same in kinds.values():
        array, start = np.concatenate([flat(t) for t in same]), 0
        _begin("broadcast", group, False, lambda c, array=array: c.broadcast(array, 0))  # type: ignore[misc]
        for t in same if group.rank() else ():
            put(t, array[start : start + t.numel()])
            start += t.numel()


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Gather the tensors of all processes, of one shape, into the tensors of the list."""
    if _outside("all_gather", group):
        return None
    targets = _listed("tensor_list", tensor_list, group_of(group).size())
    _check_same(targets, tensor)
    into = np.empty((len(targets), tensor.numel()), tensor.detach().cpu()._a.dtype)

    def finish() -> None:
        for target, row in zip(targets, into, strict=True):
            put(target, row)

    return _begin("all_gather", group, async_op, lambda c: c.all_gather(flat(tensor), into.reshape(-1)), finish)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Gather the tensors of all processes, concatenated, into one tensor."""
    if _outside("all_gather_into_tensor", group):
        return None
    _check_sizes(output_tensor, input_tensor, group_of(group).size(), 1)
    into = flat(output_tensor)
    return _begin(
        "all_gather_into_tensor", group, async_op, lambda c: c.all_gather(flat(input_tensor), into),
        lambda: put(output_tensor, into),
    )  # fmt: skip


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`all_gather` of several tensors; the list has a list of them for each process."""
    lists = _listed("output_tensor_lists", output_tensor_lists, group_of(group).size())
    works = [
        all_gather([targets[i] for targets in lists], source, group, async_op=True)
        for i, source in enumerate(input_tensor_list)
    ]
    if async_op:
        return works[-1] if works else barrier(group, async_op=True)
    for work in works:
        if work is not None:
            work.wait()
    return None


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: ProcessGroup | None = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Gather the tensors of all processes into a list on the process `dst` (default: rank 0)."""
    if _outside("gather", group):
        return None
    root, found = _root_with_list("gather_list", gather_list, group, dst, group_dst), group_of(group)
    if found.rank() != root:
        return _begin("gather", group, async_op, lambda c: c.gather(flat(tensor), None, root))
    targets = _listed("gather_list", gather_list, found.size())
    _check_same(targets, tensor)
    into = np.empty((len(targets), tensor.numel()), tensor.detach().cpu()._a.dtype)

    def finish() -> None:
        for target, row in zip(targets, into, strict=True):
            put(target, row)

    return _begin("gather", group, async_op, lambda c: c.gather(flat(tensor), into.reshape(-1), root), finish)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: ProcessGroup | None = None,
    async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Distribute the tensors of a list on the process `src` (default: rank 0), one to each process."""
    if _outside("scatter", group):
        return None
    root, found = _root_with_list("scatter_list", scatter_list, group, src, group_src), group_of(group)
    into, parts = flat(tensor), None
    if found.rank() == root:
        sources = _listed("scatter_list", scatter_list, found.size())
        _check_same(sources, tensor)
        parts = np.concatenate([flat(source) for source in sources])
    return _begin("scatter", group, async_op, lambda c: c.scatter(parts, into, root), lambda: put(tensor, into))


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Reduction = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the tensors of a list over the processes, and send each process one of the results."""
    if _outside("reduce_scatter", group):
        return None
    _check_same(sources := _listed("input_list", input_list, group_of(group).size()), output)
    return _reduce_scatter(output, np.concatenate([flat(source) for source in sources]), op, group, async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Reduction = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the tensors of all processes, and send each process an equal part of the result."""
    if _outside("reduce_scatter_tensor", group):
        return None
    _check_sizes(output, input, 1, group_of(group).size())
    return _reduce_scatter(output, flat(input), op, group, async_op)


def _reduce_scatter(
    output: Tensor, array: Array, op: Reduction, group: ProcessGroup | None, async_op: bool
) -> Work | None:
    combine, out, size = _combine(op, output), flat(output), group_of(group).size()
    bounds = [out.size * i for i in range(size + 1)]
    return _begin(
        "reduce_scatter", group, async_op, lambda c: c.reduce_scatter(array, bounds, out, combine),
        lambda: put(output, _averaged(op, out, size)),
    )  # fmt: skip


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send a tensor of the list to each process, and receive one from each."""
    if _outside("all_to_all", group):
        return None
    size = group_of(group).size()
    outputs = _listed("output_tensor_list", output_tensor_list, size)
    inputs = _listed("input_tensor_list", input_tensor_list, size)
    rank = group_of(group).rank()
    _check_same([outputs[rank]], inputs[rank])
    array, into = (np.concatenate([flat(t) for t in tensors]) for tensors in (inputs, outputs))
    bounds, into_bounds = (_bounds([t.numel() for t in tensors]) for tensors in (inputs, outputs))

    def finish() -> None:
        for t, start, end in zip(outputs, into_bounds[:-1], into_bounds[1:], strict=True):
            put(t, into[start:end])

    return _begin("all_to_all", group, async_op, lambda c: c.all_to_all(array, bounds, into, into_bounds), finish)


def _bounds(sizes: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(sizes).tolist()]


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send a part of the tensor, along its first dimension, to each process, and receive one from each.

    The split sizes are rows for each process; None: equal parts.
    """
    if _outside("all_to_all_single", group):
        return None
    size = group_of(group).size()
    if size == 1 or (output_split_sizes is None and input_split_sizes is None):
        _check_sizes(output, input, 1, 1)
    into, bounds, into_bounds = (
        flat(output),
        _rows(input, input_split_sizes, size),
        _rows(output, output_split_sizes, size),
    )
    return _begin(
        "all_to_all_single", group, async_op, lambda c: c.all_to_all(flat(input), bounds, into, into_bounds),
        lambda: put(output, into),
    )  # fmt: skip


def _rows(tensor: Tensor, sizes: Sequence[int] | None, count: int) -> list[int]:
    """The bounds, in elements, of the rows of `tensor` for each process. RuntimeError if they do not divide it."""
    rows = tensor.shape[0] if tensor.ndim else 1
    if not sizes:
        if rows % count:
            raise RuntimeError(
                f"Tensor's dim 0 does not divide equally across group size: {rows} rows, {count} processes"
            )
        sizes = [rows // count] * count
    if len(sizes) != count or sum(sizes) != rows:
        raise RuntimeError(f"Split sizes {list(sizes)} do not add up to the {rows} rows for {count} processes")
    return _bounds([n * (tensor.numel() // max(rows, 1)) for n in sizes])


def _exchange(obj: Any, group: ProcessGroup | None) -> list[Any]:
    """The objects of all processes, by rank."""
    own = np.frombuffer(pickle.dumps(obj), np.uint8)
    sizes = np.empty(group_of(group).size(), np.int64)
    _begin("all_gather_object", group, False, lambda c: c.all_gather(np.array([own.size]), sizes))
    bounds = _bounds(sizes.tolist())
    into = np.empty(bounds[-1], np.uint8)
    _begin("all_gather_object", group, False, lambda c: c.all_gather(own, into, bounds))
    return [pickle.loads(into[a:b].tobytes()) for a, b in itertools.pairwise(bounds)]


def all_gather_object(object_list: list, obj: Any, group: ProcessGroup | None = None) -> None:
    """Gather the objects of all processes, which are pickled, into the list."""
    if not _outside("all_gather_object", group):
        _listed("object_list", object_list, group_of(group).size())
        object_list[:] = [obj] if group_of(group).size() == 1 else _exchange(obj, group)


def gather_object(
    obj: Any,
    object_gather_list: list | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """`all_gather_object` for the process `dst` (default: rank 0) alone."""
    if _outside("gather_object", group):
        return
    root, found = _root_with_list("object_gather_list", object_gather_list, group, dst, group_dst), group_of(group)
    if found.rank() == root:
        _listed("object_gather_list", object_gather_list, found.size())
    objects = [obj] if found.size() == 1 else _exchange(obj, group)
    if found.rank() == root:
        object_gather_list[:] = objects  # type: ignore[index]


def broadcast_object_list(
    object_list: list,
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Device = None,
    group_src: int | None = None,
) -> None:
    """Copy the objects of the list, which are pickled, from the process `src` (default: rank 0) into that of all others."""
    if _outside("broadcast_object_list", group):
        return
    root = _root("broadcast", group, 0 if src is None and group_src is None else src, group_src)
    found = group_of(group)
    if found.size() > 1:
        object_list[:] = _exchange(object_list if found.rank() == root else None, group)[root]


def scatter_object_list(
    scatter_object_output_list: list,
    scatter_object_input_list: list | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Distribute the objects of a list on the process `src` (default: rank 0), one to the first place of each output list."""
    if _outside("scatter_object_list", group):
        return
    root, found = _root("scatter", group, 0 if src is None and group_src is None else src, group_src), group_of(group)
    objects = None
    if found.rank() == root:
        objects = _listed("scatter_object_input_list", scatter_object_input_list, found.size())
    if found.size() > 1:
        objects = _exchange(objects, group)[root]
    assert objects is not None
    scatter_object_output_list[0] = objects[found.rank()]


def _peer(
    kind: str, group: ProcessGroup | None, rank: int | None, in_group: int | None, own: type[Exception] = ValueError
) -> int:
    """The other process's rank in the group. ValueError if there is none, `own` if it is this process."""
    found = group_of(group)
    number = in_group if rank is None else rank
    if number is None:
        raise ValueError(f"Invalid {kind} rank: pass the rank of another process of the {found.size()} in the group")
    ranks = range(found.size()) if rank is None else found.ranks
    if number not in ranks:
        size = "one process" if found.size() == 1 else f"{found.size()} processes"
        raise ValueError(f"Invalid {kind} rank: there is no rank {number} in a group of {size}")
    place = number if rank is None else found.ranks.index(number)
    if place == found.rank():
        raise own(f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current process.")
    return place


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begin to send a tensor to another process. ValueError if there is none of this rank."""
    if _outside("isend", group):
        return None
    to = _peer("destination", group, dst, group_dst)
    _check_tensor("tensor", tensor)
    return _begin("isend", group, True, lambda c: c.send(flat(tensor), to, tag))


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to another process. ValueError if there is none of this rank."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


class _Received(Work):
    """The handle of a message that is received."""

    senders: list[int]

    def source_rank(self) -> int:
        """Global rank of the sender."""
        return self.senders[0]


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> _Received | None:
    """Begin to receive a tensor from another process, by default from any. ValueError if there is none of this rank."""
    if _outside("irecv", group):
        return None
    found, anyone = group_of(group), src is None and group_src is None
    source = None if anyone and found.size() > 1 else _peer("source", group, src, group_src, RuntimeError)
    _check_tensor("tensor", tensor)
    array, senders = flat(tensor), list[int]()
    progress = found.begin(found.communicator.receive(array, source, tag, senders), "irecv")
    work = _Received(progress, lambda: put(tensor, array))
    work.senders = senders
    return work


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor from another process, by default from any. Returns the sender's global rank.

    ValueError if there is no process of this rank.
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return get_global_rank(group_of(group), work.source_rank())


def send_object_list(
    object_list: list,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    device: Device = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects, which are pickled, to another process. ValueError if there is none of this rank."""
    to = _peer("destination", group, dst, group_dst)
    data = np.frombuffer(pickle.dumps(object_list), np.uint8)
    for array in (np.array([data.size]), data):
        _begin("send_object_list", group, False, lambda c, array=array: c.send(array, to, 0))  # type: ignore[misc]


def recv_object_list(
    object_list: list,
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Device = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects, by default from any process. Returns the sender's global rank. ValueError for an unknown rank."""
    found, anyone = group_of(group), src is None and group_src is None
    source = None if anyone and found.size() > 1 else _peer("source", group, src, group_src)
    size, senders = np.empty(1, np.int64), list[int]()
    _begin("recv_object_list", group, False, lambda c: c.receive(size, source, 0, senders))
    data = np.empty(int(size[0]), np.uint8)
    _begin("recv_object_list", group, False, lambda c: c.receive(data, senders[0], 0, []))
    object_list[:] = pickle.loads(data.tobytes())
    return get_global_rank(found, senders[0])


class P2POp:
    """A message for `batch_isend_irecv`: `op` is `isend` or `irecv`. ValueError if there is no such process."""

    def __init__(
        self, op: Callable[..., Any], tensor: Tensor, peer: int | None = None, group: ProcessGroup | None = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError("P2POp: op must be distributed.isend or distributed.irecv")
        if group_of(group).size() == 1:
            _peer("peer", group, peer, group_peer)
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = (
            op,
            tensor,
            peer,
            group,
            tag,
            group_peer,
        )


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several messages. ValueError unless the list has P2POp alone, IndexError if it is empty."""
    if not p2p_op_list:
        raise IndexError("batch_isend_irecv: the list is empty; pass at least one P2POp")
    if not all(isinstance(message, P2POp) for message in p2p_op_list):
        raise ValueError(f"batch_isend_irecv: expected a list of P2POp, got {p2p_op_list!r}")
    works = [m.op(m.tensor, m.peer, m.group, m.tag, m.group_peer) for m in p2p_op_list]
    return [work for work in works if work is not None]
