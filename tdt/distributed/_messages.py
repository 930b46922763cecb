"""Messages from one process to another."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._core.aliases import Device
from tdt._core.tensor import Tensor
from tdt.distributed._group import ProcessGroup, get_global_rank, group_of
from tdt.distributed._work import (
    Work,
    begin,
    check_tensor,
    flat,
    outside,
    put,
)


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
    if outside("isend", group):
        return None
    to = _peer("destination", group, dst, group_dst)
    check_tensor("tensor", tensor)
    return begin("isend", group, True, lambda c: c.send(flat(tensor.cpu()), to, tag))


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
    if outside("irecv", group):
        return None
    found, anyone = group_of(group), src is None and group_src is None
    source = None if anyone and found.size() > 1 else _peer("source", group, src, group_src, RuntimeError)
    check_tensor("tensor", tensor)
    array, senders = flat(tensor.cpu()), list[int]()
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
        begin("send_object_list", group, False, lambda c, array=array: c.send(array, to, 0))  # type: ignore[misc]


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
    begin("recv_object_list", group, False, lambda c: c.receive(size, source, 0, senders))
    data = np.empty(int(size[0]), np.uint8)
    begin("recv_object_list", group, False, lambda c: c.receive(data, senders[0], 0, []))
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
