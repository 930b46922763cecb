"""Collectives for a group of one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from tdt._core.aliases import Device
from tdt._core.tensor import Tensor
from tdt.distributed._group import ProcessGroup, ReduceOp, default_group, get_rank


class Work:
    """The handle of a collective with async_op=True, which is already complete."""

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the collective is complete: returns True immediately."""
        return True

    def is_completed(self) -> bool:
        """Whether the collective is complete: True."""
        return True

    def is_success(self) -> bool:
        """Whether the collective succeeded: True."""
        return True


def _done(async_op: bool) -> Work | None:
    default_group()
    return Work() if async_op else None


def barrier(
    group: ProcessGroup | None = None, async_op: bool = False, device_ids: Sequence[int] | None = None
) -> Work | None:
    """Wait for all processes: returns immediately."""
    return _done(async_op)


def monitored_barrier(
    group: ProcessGroup | None = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait for all processes: returns immediately."""
    default_group()


def all_reduce(
    tensor: Tensor,
    op: ReduceOp | ReduceOp.RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce `tensor` over all processes, in place: with one process it does not change."""
    _check_tensor("tensor", tensor)
    return _done(async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp | ReduceOp.RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce `tensor` over all processes to the process `dst`: with one process it does not change."""
    _check_tensor("tensor", tensor)
    _check_root("reduce", dst, group_dst)
    return _done(async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Send `tensor` from the process `src` to all: with one process it does not change."""
    _check_tensor("tensor", tensor)
    _check_root("broadcast", src, group_src)
    return _done(async_op)


def broadcast_object_list(object_list: list, src: int | None = None, *args: Any, **kwargs: Any) -> None:
    """Send the objects of the list from the process `src` to all: with one process the list does not change."""
    default_group()
    _check_root("broadcast", 0 if src is None and "group_src" not in kwargs else src, kwargs.get("group_src"))


def _check_tensor(name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type Tensor but got {type(value)} instead."
        )


def _check_root(collective: str, rank: int | None, group_rank: int | None) -> None:
    """ValueError unless exactly one rank is passed, TypeError if it is not an integer, RuntimeError if it is not 0."""
    if rank is None and group_rank is None:
        raise ValueError(f"{collective}: Must specify global_rank or group_rank")
    if rank is not None and group_rank is not None:
        raise ValueError(f"{collective}: Can't specify both group_rank and global_rank")
    number = group_rank if rank is None else rank
    if not isinstance(number, int):
        raise TypeError(f"{collective}: a rank must be an integer, not {type(number).__name__}")
    if number != 0:
        raise RuntimeError(f"{collective}: invalid root rank: {number}; the group has one process, of rank 0")


def _is_root(name: str, values: list | None, rank: int | None, group_rank: int | None) -> None:
    """ValueError if the list argument `name` is passed although this process is not the root."""
    number = (group_rank or 0) if rank is None else rank
    if number != get_rank() and values is not None:
        raise ValueError(
            f"Argument {name} must NOT be specified on a rank that is not the root: rank 0, root {number}."
        )
    _check_root(name, number, None)


def _same(work: Work | None, target: Tensor, source: Tensor) -> Work | None:
    """`_copied` for tensors of equal dtype (else ValueError) and shape (else RuntimeError)."""
    _check_tensor("tensor", source)
    _check_tensor("tensor", target)
    if target.dtype is not source.dtype:
        raise ValueError(f"Invalid usage of tensors with different dtypes: found {target.dtype} and {source.dtype}")
    if target.shape != source.shape:
        raise RuntimeError(f"invalid tensor size: expected {tuple(source.shape)}, got {tuple(target.shape)}")
    return _copied(work, target, source)


def _copied(work: Work | None, target: Tensor, source: Tensor) -> Work | None:
    _check_tensor("input", source)
    _check_tensor("output", target)
    target.detach().copy_(source.detach().reshape(target.shape))
    return work


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Gather the tensors of all processes into the tensors of the list."""
    return _same(_done(async_op), _only("tensor_list", tensor_list), tensor)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Gather the tensors of all processes, concatenated, into one tensor."""
    return _copied(_done(async_op), output_tensor, input_tensor)


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: ProcessGroup | None = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Gather the tensors of all processes into a list on the process `dst`."""
    _is_root("gather_list", gather_list, dst, group_dst)
    return _same(_done(async_op), _only("gather_list", gather_list), tensor)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: ProcessGroup | None = None,
    async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Distribute the tensors of a list on the process `src`, one to each process."""
    _is_root("scatter_list", scatter_list, src, group_src)
    return _same(_done(async_op), tensor, _only("scatter_list", scatter_list))


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: ReduceOp | ReduceOp.RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Sum the tensors of a list over the processes, and send each process one of the sums."""
    return _same(_done(async_op), output, _only("input_list", input_list))


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: ReduceOp | ReduceOp.RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Sum the tensors of all processes, and send each process a part of the sum."""
    return _copied(_done(async_op), output, input)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send a tensor of the list to each process, and receive one from each."""
    outputs, inputs = _only("output_tensor_list", output_tensor_list), _only("input_tensor_list", input_tensor_list)
    return _same(_done(async_op), outputs, inputs)


def all_gather_object(object_list: list, obj: Any, group: ProcessGroup | None = None) -> None:
    """Gather the objects of all processes into the list."""
    default_group()
    _only("object_list", object_list)
    object_list[0] = obj


def gather_object(
    obj: Any, object_gather_list: list | None = None, dst: int | None = None, *args: Any, **kwargs: Any
) -> None:  # fmt: skip
    """`all_gather_object` for the process `dst`."""
    default_group()
    _is_root("object_gather_list", object_gather_list, dst, kwargs.get("group_dst"))
    _only("object_gather_list", object_gather_list)
    object_gather_list[0] = obj  # type: ignore[index]


def _only(name: str, values: list | None) -> Any:
    """The only entry of a list with one entry per process.

    Raises ValueError for None, TypeError if `values` is not a list, RuntimeError for another number of entries.
    """
    if values is None:
        raise ValueError(f"Argument {name} must be specified on the root, which is this process.")
    if not isinstance(values, list | tuple):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type list but got {type(values)} instead."
        )
    if len(values) != 1:
        raise RuntimeError(f"{name} must have one entry for each of the 1 processes, but has {len(values)} entries")
    return values[0]


def all_reduce_coalesced(
    tensors: list[Tensor],
    op: ReduceOp | ReduceOp.RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`all_reduce` of several tensors: with one process they do not change."""
    return _done(async_op)


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`all_gather` of several tensors."""
    work, lists = _done(async_op), _only("output_tensor_lists", output_tensor_lists)
    for target, source in zip(lists, input_tensor_list, strict=True):
        _copied(work, target, source)
    return work


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send a part of the tensor to each process: with one process the result is a copy."""
    return _copied(_done(async_op), output, input)


def scatter_object_list(
    scatter_object_output_list: list, scatter_object_input_list: list | None = None, *args: Any, **kwargs: Any
) -> None:
    """Distribute the objects of a list on the process `src`, one to the first place of each process's output list."""
    default_group()
    scatter_object_output_list[0] = _only("scatter_object_input_list", scatter_object_input_list)


def _other(kind: str, world_rank: int | None, in_group: int | None) -> None:
    """Raise the ValueError of point-to-point functions: a group of one process has no other process."""
    rank = get_rank()
    number = in_group if world_rank is None else world_rank
    if number == rank:
        raise ValueError(f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current process.")
    which = "any other process" if number is None else f"rank {number}"
    raise ValueError(f"Invalid {kind} rank: there is no {which} in a group of one process")


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to another process. ValueError, as a group of one process has no other process."""
    _other("destination", dst, group_dst)


isend = send


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> None:
    """Receive a tensor from another process. ValueError, as a group of one process has no other process."""
    _other("source", src, group_src)


irecv = recv


def send_object_list(
    object_list: list,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    device: Device = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to another process. ValueError, as a group of one process has no other process."""
    _other("destination", dst, group_dst)


def recv_object_list(
    object_list: list,
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Device = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> None:
    """Receive objects from another process. ValueError, as a group of one process has no other process."""
    _other("source", src, group_src)


class P2POp:
    """A message for `batch_isend_irecv`: `op` is `isend` or `irecv`. ValueError, as there is no other process."""

    def __init__(
        self, op: Callable[..., Any], tensor: Tensor, peer: int | None = None, group: ProcessGroup | None = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError("P2POp: op must be distributed.isend or distributed.irecv")
        op(tensor, peer, group, tag, group_peer)


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Start several messages. ValueError for any list, as no P2POp can be created in a group of one process."""
    raise ValueError(f"batch_isend_irecv: expected a list of P2POp, got {p2p_op_list!r}")
