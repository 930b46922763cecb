"""Process groups of one process."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from tdt._backend import cuda_device_count
from tdt._backend.device import device as _device
from tdt.distributed._store import HashStore, PrefixStore, Store
from tdt.distributed.constants import default_pg_timeout

BACKENDS = ("undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake")


class Backend(str):
    """Name of a backend, in lower case. ValueError if it is not a string.

    >>> import tdt
    >>> tdt.distributed.Backend("GLOO"), tdt.distributed.Backend.NCCL
    ('gloo', 'nccl')
    """

    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE = BACKENDS
    backend_list: ClassVar[list[str]] = list(BACKENDS)
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl", "mps": "gloo"}

    def __new__(cls, name: str) -> str:  # type: ignore[misc]  # PyTorch returns a plain string too
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, not {type(name).__name__}")
        return name.lower()

    @classmethod
    def register_backend(cls, name: str, func: Any, *args: Any, **kwargs: Any) -> None:
        """Not supported: raises NotImplementedError."""
        raise NotImplementedError(
            f"Backend.register_backend('{name}'): not supported, because tdt trains in one process without a backend"
        )


class _Meta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, ReduceOp.RedOpType) or super().__instancecheck__(instance)


class ReduceOp(metaclass=_Meta):
    """Reductions of collectives; `ReduceOp.SUM` and the others are instances of `ReduceOp.RedOpType`.

    >>> import tdt
    >>> tdt.distributed.ReduceOp.SUM, isinstance(tdt.distributed.ReduceOp.MAX, tdt.distributed.ReduceOp)
    (<RedOpType.SUM: 0>, True)
    """

    class RedOpType(enum.Enum):
        """The reductions."""

        SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = RedOpType

    def __init__(self, op: RedOpType) -> None:
        self.op = op

    def __eq__(self, other: object) -> bool:
        return self.op == (other.op if type(other) is ReduceOp else other)

    def __hash__(self) -> int:
        return hash(self.op)


class ProcessGroup:
    """A group that contains only this process. Returned by `new_group`; `group.WORLD` is the default group."""

    def __init__(self, store: Store, backend: str, name: str = "0", timeout: timedelta = default_pg_timeout) -> None:
        self.group_name, self.group_desc, self._store, self._backend = name, "", store, backend
        self._timeout = timeout

    def rank(self) -> int:
        """Rank of this process: 0."""
        return 0

    def size(self) -> int:
        """Number of processes: 1."""
        return 1

    def name(self) -> str:
        """Name of the backend of the group."""
        return self._backend

    def get_group_store(self) -> Store:
        """The group's store."""
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the timeout of collectives; with one process they never wait."""
        self._timeout = timeout


class _Named(type):
    _world: ProcessGroup | None = None
    _count: int = 0  # groups created since init_process_group

    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes; None before `init_process_group`."""
        return _Named._world


class group(metaclass=_Named):
    """`group.WORLD` is the default process group, or None before `init_process_group`."""


class GroupMember(metaclass=_Named):
    """`GroupMember.WORLD` is `group.WORLD`; `new_group` returns NON_GROUP_MEMBER if this process is not in the group."""

    NON_GROUP_MEMBER = -100


def is_available() -> bool:
    """Whether the distributed package is available: True, for one process."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return _Named._world is not None


def is_nccl_available() -> bool:
    """Whether the backend "nccl" is available: if there is a GPU."""
    return cuda_device_count() > 0


def is_gloo_available() -> bool:
    """Whether the backend "gloo" is available: True, for a group of one process."""
    return True


def is_mpi_available() -> bool:
    """Whether this backend is available: False."""
    return False


is_ucc_available = is_xccl_available = is_mpi_available


def is_torchelastic_launched() -> bool:
    """Whether torchelastic started this process: False."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether a backend is available: "gloo", and "nccl" if there is a GPU."""
    return backend.lower() == "gloo" or (backend.lower() == "nccl" and is_nccl_available())


def _check_backend(backend: str) -> None:
    """Raises RuntimeError for a backend that is not available, AssertionError for an unknown one."""
    for part in backend.split(","):
        name = part.rpartition(":")[2]
        if name in ("nccl", "mpi", "xccl") and not is_backend_available(name):
            raise RuntimeError(
                f"Distributed package doesn't have {name.upper()} built in"
                + (": CuPy sees no GPU; use the backend gloo" if name == "nccl" else "; use the backend gloo")
            )
        if name != "undefined" and not is_backend_available(name):
            raise AssertionError(f"Unknown c10d backend type {name.upper()}; use the backend gloo")


def get_default_backend_for_device(device: _device | str | int) -> str:
    """Name of the backend that PyTorch uses for `device`.

    >>> import tdt
    >>> tdt.distributed.get_default_backend_for_device("cpu")
    'gloo'
    """
    return Backend.default_device_backend_map.get(str(device).partition(":")[0], "gloo")


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Create the default process group, which contains only this process.

    Args:
        backend: "gloo", "nccl" if there is a GPU, or both ("cpu:gloo,cuda:nccl"); returned by `get_backend`.
        world_size, rank: default: the environment variables WORLD_SIZE and RANK, or else 1 and 0.
        store: returned by `ProcessGroup.get_group_store`; default: a store in memory.
    Raises:
        NotImplementedError: when world_size is not 1.
        RuntimeError: when the backend is not available.
        AssertionError: when the backend is unknown.
        ValueError: when the group exists already, or rank is not 0.
    """
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
    _check_backend(Backend(backend or "gloo"))
    prefixed = PrefixStore("default_pg", HashStore() if store is None else store)
    _Named._world = _create_group(prefixed, backend or "gloo", timeout or default_pg_timeout)


def _create_group(store: Store, backend: str, timeout: timedelta) -> ProcessGroup:
    _Named._count += 1
    return ProcessGroup(store, Backend(backend), str(_Named._count - 1), timeout)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Delete the group (all groups, if `group` is None or `group.WORLD`)."""
    world = default_group()
    if group in (None, world):
        _Named._world, _Named._count = None, 0
    else:
        _Named._count -= 1


def default_group() -> ProcessGroup:
    """The default process group. ValueError before `init_process_group`."""
    if _Named._world is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return _Named._world


def get_rank(group: ProcessGroup | None = None) -> int:
    """Rank of this process: 0; -1 for GroupMember.NON_GROUP_MEMBER."""
    default_group()
    return -1 if group == GroupMember.NON_GROUP_MEMBER else 0


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Number of processes: 1; -1 for GroupMember.NON_GROUP_MEMBER."""
    default_group()
    return -1 if group == GroupMember.NON_GROUP_MEMBER else 1


def get_backend(group: ProcessGroup | None = None) -> str:
    """Name of the backend of a group."""
    return (group or default_group()).name()


def get_pg_count() -> int:
    """Number of process groups, including the default group."""
    return _Named._count


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The environment variable LOCAL_RANK, or else `fallback_rank`. RuntimeError if both are missing."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment; set it or pass fallback_rank")
    return int(fallback_rank)


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """Ranks of the processes of a group: [0]."""
    default_group()
    return [0]


def get_group_rank(group: ProcessGroup | None, global_rank: int) -> int:
    """Rank within the group of the process `global_rank`. ValueError if it is not in the group."""
    return _check_rank(group, global_rank, "Global")


def get_global_rank(group: ProcessGroup | None, group_rank: int) -> int:
    """Global rank of the process `group_rank` of the group. ValueError if there is none."""
    return _check_rank(group, group_rank, "Group")


def _check_rank(group: ProcessGroup | None, rank: int, kind: str) -> int:
    default_group()
    if rank != 0:
        raise ValueError(f"{kind} rank {rank} is not part of group {group}")
    return 0


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    *args: Any,
    **kwargs: Any,
) -> ProcessGroup | int:
    """A new group of the processes `ranks`; GroupMember.NON_GROUP_MEMBER if `ranks` is empty.

    Raises:
        ValueError: when `ranks` contains duplicates, or ranks other than 0.
    """
    world = default_group()
    members = [0] if ranks is None else list(ranks)
    if len(members) > 1 and len(set(members)) == len(members):
        raise ValueError(
            f"the new group's world size must be 1 at most, that of init_process_group, got ranks {members}"
        )
    if len(set(members)) != len(members):
        raise ValueError(f"ranks list must not contain duplicate entries, got {members}")
    for rank in members:
        if rank != 0:
            raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to 0 (world_size=1)")
    if not members:
        return GroupMember.NON_GROUP_MEMBER
    return _create_group(world.get_group_store(), backend or world.name(), timeout or world._timeout)
