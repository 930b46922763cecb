"""`torch.distributed` for programs of one process: every collective is the answer of a group of one.

tdt trains in one process. A program started as one of several is refused when it asks for their group.

>>> import tdt
>>> init_process_group("gloo", rank=0, world_size=1)
>>> x = tdt.ones(2)
>>> all_reduce(x), x, get_rank(), get_world_size()
(None, tensor([1., 1.]), 0, 1)
>>> destroy_process_group()
"""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from typing import Any

from tdt._tensor import Tensor

__all__ = [
    "ReduceOp", "Work", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "barrier",
    "broadcast", "broadcast_object_list", "destroy_process_group", "gather", "gather_object", "get_backend", "get_rank",
    "get_world_size", "group", "init_process_group", "is_available", "is_gloo_available", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "monitored_barrier", "new_group", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "scatter",
]  # fmt: skip


class ReduceOp(enum.Enum):
    """How values of several processes become one."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = range(8)


class Work:
    """A collective that was started with async_op=True: it is done."""

    def wait(self, timeout: Any = None) -> bool:
        """True: there is nothing to wait for."""
        return True

    def is_completed(self) -> bool:
        """Whether it is done."""
        return True


class group:
    """The groups that programs name."""

    WORLD = "world"


_backend: str | None = None  # the name that the group was made with; None without a group


def is_available() -> bool:
    """Whether there is a distributed package: this one, for one process."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return _backend is not None


def _no() -> bool:
    """Whether there is this backend: no."""
    return False


is_nccl_available = is_mpi_available = is_gloo_available = is_torchelastic_launched = _no


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: Any = None, world_size: int = -1, rank: int = -1,
    store: Any = None, group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Make the group of this process alone; any backend's name will do.

    world_size, rank: by default those in the environment (WORLD_SIZE, RANK), else 1 and 0. NotImplementedError for more
    than one process, ValueError for a second group or another rank than 0.
    """
    global _backend
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    size = int(os.environ.get("WORLD_SIZE", 1)) if world_size < 0 else world_size
    number = int(os.environ.get("RANK", 0)) if rank < 0 else rank
    if size != 1:
        raise NotImplementedError(
            f"init_process_group: tdt trains in one process, but world_size is {size}; start one process (world_size=1), "
            "which uses all cores, or several GPUs through nn.DataParallel"
        )
    if number != 0:
        raise ValueError(f"init_process_group: rank must be 0 in a group of one, but is {number}")
    _backend = backend or "gloo"


def destroy_process_group(group: Any = None) -> None:
    """Let the group go."""
    global _backend
    _needs_group()
    _backend = None


def _needs_group() -> None:
    if not is_initialized():
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def get_rank(group: Any = None) -> int:
    """The number of this process: 0."""
    _needs_group()
    return 0


def get_world_size(group: Any = None) -> int:
    """How many processes there are: 1."""
    _needs_group()
    return 1


def get_backend(group: Any = None) -> str:
    """The name that the group was made with."""
    _needs_group()
    return str(_backend)


def new_group(ranks: Sequence[int] | None = None, *args: Any, **kwargs: Any) -> str:
    """A group of some processes, of which there is one."""
    _needs_group()
    return group.WORLD


def _done(async_op: bool) -> Work | None:
    _needs_group()
    return Work() if async_op else None


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait for all processes."""
    return _done(async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Wait for all processes."""
    _needs_group()


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """`tensor` becomes the sum (or what `op` says) over the processes: it stays."""
    return _done(async_op)


def reduce(
    tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """`all_reduce` for the process `dst`."""
    return _done(async_op)


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """`tensor` becomes that of the process `src`: it stays."""
    return _done(async_op)


def broadcast_object_list(object_list: list, src: int | None = None, *args: Any, **kwargs: Any) -> None:
    """The list becomes that of the process `src`: it stays."""
    _needs_group()


def _copied(work: Work | None, target: Tensor, source: Tensor) -> Work | None:
    target.detach().copy_(source.detach().reshape(target.shape))
    return work


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """The tensors of all processes, into the list's."""
    return _copied(_done(async_op), _only("tensor_list", tensor_list), tensor)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """The tensors of all processes, one after the other."""
    return _copied(_done(async_op), output_tensor, input_tensor)


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """`all_gather` for the process `dst`."""
    return _copied(_done(async_op), _only("gather_list", gather_list), tensor)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: Any = None,
    async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """The tensors of a list on the process `src`, one for each process."""
    return _copied(_done(async_op), tensor, _only("scatter_list", scatter_list))


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The sums over the processes of a list's tensors, one for each process."""
    return _copied(_done(async_op), output, _only("input_list", input_list))


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The sum over the processes of the tensors, a part of it for each process."""
    return _copied(_done(async_op), output, input)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """A tensor from each process to each."""
    outputs, inputs = _only("output_tensor_list", output_tensor_list), _only("input_tensor_list", input_tensor_list)
    return _copied(_done(async_op), outputs, inputs)


def all_gather_object(object_list: list, obj: Any, group: Any = None) -> None:
    """The objects of all processes, into the list."""
    _needs_group()
    _only("object_list", object_list)
    object_list[0] = obj


def gather_object(
    obj: Any, object_gather_list: list | None = None, dst: int | None = None, *args: Any, **kwargs: Any
) -> None:  # fmt: skip
    """`all_gather_object` for the process `dst`."""
    _needs_group()
    _only("object_gather_list", object_gather_list)
    object_gather_list[0] = obj  # type: ignore[index]


def _only(name: str, values: list | None) -> Any:
    """The one entry of a list that has one for each process."""
    if values is None or len(values) != 1:
        got = "None" if values is None else f"{len(values)} entries"
        raise ValueError(f"{name} must have one entry for each of the 1 processes, but has {got}")
    return values[0]
