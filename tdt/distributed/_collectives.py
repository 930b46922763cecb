"""Collectives on tensors: every process of the group calls the same ones in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tdt._core.tensor import Tensor
from tdt.distributed._communicator import Array
from tdt.distributed._group import ProcessGroup, ReduceOp, group_of
from tdt.distributed._work import (
    Reduction,
    Work,
    averaged,
    begin,
    bounds_of,
    check_same,
    check_sizes,
    check_tensor,
    combination,
    flat,
    joined,
    listed,
    outside,
    put,
    root_of,
    root_with_list,
    rows_like,
)


def barrier(
    group: ProcessGroup | None = None, async_op: bool = False, device_ids: Sequence[int] | None = None
) -> Work | None:
    """Wait until all processes have called this."""
    return None if outside("barrier", group) else begin("barrier", group, async_op, lambda c: c.barrier())


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
    check_tensor("tensor", tensor)
    return all_reduce_coalesced([tensor], op, group, async_op)


def all_reduce_coalesced(
    tensors: list[Tensor],
    op: Reduction = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`all_reduce` of several tensors of one dtype."""
    if outside("all_reduce", group):
        return None
    size = group_of(group).size()
    combine, array = combination(op, tensors[0]), joined(tensors, group)

    def finish() -> None:
        reduced, start = averaged(op, array, size), 0
        for t in tensors:
            put(t, reduced[start : start + t.numel()])
            start += t.numel()

    return begin(
        "all_reduce", group, async_op, lambda c: c.all_reduce(array, combine), finish if size > 1 else _nothing,
        tensors[0],
    )  # fmt: skip


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
    check_tensor("tensor", tensor)
    if outside("reduce", group):
        return None
    root, found = root_of("reduce", group, dst, group_dst), group_of(group)
    combine, array = combination(op, tensor), flat(tensor, group)
    here = found.rank() == root and found.size() > 1
    finish = (lambda: put(tensor, averaged(op, array, found.size()))) if here else _nothing
    return begin("reduce", group, async_op, lambda c: c.all_reduce(array, combine), finish, tensor)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy `tensor` from the process `src` into that of all others."""
    check_tensor("tensor", tensor)
    if outside("broadcast", group):
        return None
    root, array = root_of("broadcast", group, src, group_src), flat(tensor, group)
    finish = _nothing if group_of(group).rank() == root else lambda: put(tensor, array)
    return begin("broadcast", group, async_op, lambda c: c.broadcast(array, root), finish, tensor)


def broadcast_tensors(tensors: Sequence[Tensor], group: ProcessGroup) -> None:
    """Copy tensors of the group's rank 0 into those of all others, all of one dtype at once."""
    kinds: dict[Any, list[Tensor]] = {}
    for t in tensors:
        kinds.setdefault((t.dtype, t.is_cuda), []).append(t)
    for same in kinds.values():
        array, start = joined(same, group), 0
        begin("broadcast", group, False, lambda c, array=array: c.broadcast(array, 0), tensor=same[0])  # type: ignore[misc]
        for t in same if group.rank() else ():
            put(t, array[start : start + t.numel()])
            start += t.numel()


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Gather the tensors of all processes, of one shape, into the tensors of the list."""
    if outside("all_gather", group):
        return None
    targets = listed("tensor_list", tensor_list, group_of(group).size())
    check_same(targets, tensor)
    array, into = flat(tensor, group), rows_like(tensor, len(targets), group)

    def finish() -> None:
        for target, row in zip(targets, into, strict=True):
            put(target, row)

    return begin("all_gather", group, async_op, lambda c: c.all_gather(array, into.reshape(-1)), finish, tensor)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Gather the tensors of all processes, concatenated, into one tensor."""
    if outside("all_gather_into_tensor", group):
        return None
    check_sizes(output_tensor, input_tensor, group_of(group).size(), 1)
    array, into = flat(input_tensor, group), flat(output_tensor, group)
    return begin(
        "all_gather_into_tensor", group, async_op, lambda c: c.all_gather(array, into),
        lambda: put(output_tensor, into), input_tensor,
    )  # fmt: skip


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`all_gather` of several tensors; the list has a list of them for each process."""
    lists = listed("output_tensor_lists", output_tensor_lists, group_of(group).size())
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
    if outside("gather", group):
        return None
    root, found = root_with_list("gather_list", gather_list, group, dst, group_dst), group_of(group)
    if found.rank() != root:
        own = flat(tensor, group)
        return begin("gather", group, async_op, lambda c: c.gather(own, None, root), tensor=tensor)
    targets = listed("gather_list", gather_list, found.size())
    check_same(targets, tensor)
    array, into = flat(tensor, group), rows_like(tensor, len(targets), group)

    def finish() -> None:
        for target, row in zip(targets, into, strict=True):
            put(target, row)

    return begin("gather", group, async_op, lambda c: c.gather(array, into.reshape(-1), root), finish, tensor)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: ProcessGroup | None = None,
    async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Distribute the tensors of a list on the process `src` (default: rank 0), one to each process."""
    if outside("scatter", group):
        return None
    root, found = root_with_list("scatter_list", scatter_list, group, src, group_src), group_of(group)
    into, parts = flat(tensor, group), None
    if found.rank() == root:
        sources = listed("scatter_list", scatter_list, found.size())
        check_same(sources, tensor)
        parts = joined(sources, group)
    finish = lambda: put(tensor, into)  # noqa: E731
    return begin("scatter", group, async_op, lambda c: c.scatter(parts, into, root), finish, tensor)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Reduction = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the tensors of a list over the processes, and send each process one of the results."""
    if outside("reduce_scatter", group):
        return None
    check_same(sources := listed("input_list", input_list, group_of(group).size()), output)
    return _reduce_scatter(output, joined(sources, group), op, group, async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Reduction = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the tensors of all processes, and send each process an equal part of the result."""
    if outside("reduce_scatter_tensor", group):
        return None
    check_sizes(output, input, 1, group_of(group).size())
    return _reduce_scatter(output, flat(input, group), op, group, async_op)


def _reduce_scatter(
    output: Tensor, array: Array, op: Reduction, group: ProcessGroup | None, async_op: bool
) -> Work | None:
    combine, out, size = combination(op, output), flat(output, group), group_of(group).size()
    bounds = [out.size * i for i in range(size + 1)]
    return begin(
        "reduce_scatter", group, async_op, lambda c: c.reduce_scatter(array, bounds, out, combine),
        lambda: put(output, averaged(op, out, size)), output,
    )  # fmt: skip


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send a tensor of the list to each process, and receive one from each."""
    if outside("all_to_all", group):
        return None
    size = group_of(group).size()
    outputs = listed("output_tensor_list", output_tensor_list, size)
    inputs = listed("input_tensor_list", input_tensor_list, size)
    rank = group_of(group).rank()
    check_same([outputs[rank]], inputs[rank])
    array, into = joined(inputs, group), joined(outputs, group)
    bounds, into_bounds = (bounds_of([t.numel() for t in tensors]) for tensors in (inputs, outputs))

    def finish() -> None:
        for t, start, end in zip(outputs, into_bounds[:-1], into_bounds[1:], strict=True):
            put(t, into[start:end])

    return begin(
        "all_to_all", group, async_op, lambda c: c.all_to_all(array, bounds, into, into_bounds), finish, inputs[0]
    )


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
    if outside("all_to_all_single", group):
        return None
    size = group_of(group).size()
    if size == 1 or (output_split_sizes is None and input_split_sizes is None):
        check_sizes(output, input, 1, 1)
    array, into = flat(input, group), flat(output, group)
    bounds, into_bounds = _rows(input, input_split_sizes, size), _rows(output, output_split_sizes, size)
    return begin(
        "all_to_all_single", group, async_op, lambda c: c.all_to_all(array, bounds, into, into_bounds),
        lambda: put(output, into), input,
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
    return bounds_of([n * (tensor.numel() // max(rows, 1)) for n in sizes])
