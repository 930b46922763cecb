"""Process groups: the processes that a launcher has started, or parts of them, or this process alone."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from tdt._about import install_hint
from tdt._backend import gpu_index
from tdt._backend.device import as_device
from tdt._backend.device import device as _device
from tdt._core.tensor import Tensor
from tdt._launched import launched, local_rank
from tdt.distributed._communicator import Communicator, Progress, Steps
from tdt.distributed._launch import LaunchError, load_mpi, world
from tdt.distributed._nccl import GpuCommunicator, nccl_is_missing
from tdt.distributed._store import DistBackendError, HashStore, PrefixStore, Store
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
    """Processes that call collectives together. Returned by `new_group`; `group.WORLD` is the default group, of all.

    ranks: the global rank of each member.
    """

    def __init__(
        self,
        store: Store,
        backend: str,
        name: str = "0",
        timeout: timedelta = default_pg_timeout,
        communicator: Communicator | None = None,
        ranks: Sequence[int] = (0,),
    ) -> None:
        self.group_name, self.group_desc, self._store, self._backend = name, "", store, backend
        self._timeout = timeout
        self.communicator = communicator or Communicator()
        self._gpus: GpuCommunicator | None = None  # connected by the first collective on a GPU's tensor
        self.ranks = list(ranks)

    def rank(self) -> int:
        """Rank of this process in the group."""
        return self.communicator.rank

    def size(self) -> int:
        """Number of processes."""
        return self.communicator.size

    def name(self) -> str:
        """Name of the backend of the group."""
        return self._backend

    def get_group_store(self) -> Store:
        """The group's store."""
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long a collective waits for the other processes."""
        self._timeout = timeout

    def transport(self, tensor: Tensor) -> Communicator:
        """What sends a tensor: NCCL from GPU to GPU if the backend is "nccl", else MPI from host to host.

        All processes call it together. RuntimeError if the tensor is on another GPU than those before.
        """
        if not tensor.is_cuda or "nccl" not in self._backend:
            return self.communicator
        return self.connect(tensor._a.device.id)

    def connect(self, index: int) -> GpuCommunicator:
        """Connect the GPUs of all processes: `index` is this one's."""
        if self._gpus is None:
            try:
                self._gpus = GpuCommunicator(self.communicator, index)
            except DistBackendError as error:
                raise DistBackendError(f"{error}; the backend mpi sends their tensors through the host") from error
        if self._gpus.device.index != index:
            raise RuntimeError(
                f"a collective on a tensor on cuda:{index}, but the group's tensors are on {self._gpus.device}; "
                "move it there: NCCL uses one GPU for each process"
            )
        return self._gpus

    def close(self) -> None:
        """Free what NCCL holds."""
        if self._gpus is not None:
            self._gpus.close()
            self._gpus = None

    def begin(self, steps: Steps, name: str, through: Communicator | None = None) -> Progress:
        """Begin a collective. through: what sends its arrays, by default MPI."""
        return (through or self.communicator).begin(steps, name, self._timeout.total_seconds())


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
    """Whether the distributed package is available: True."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return _Named._world is not None


def is_nccl_available() -> bool:
    """Whether the backend "nccl" is available: if CuPy finds a GPU and NCCL."""
    return nccl_is_missing() is None


def is_gloo_available() -> bool:
    """Whether the backend "gloo" is available: True; MPI takes its place for several processes."""
    return True


def is_mpi_available() -> bool:
    """Whether the backend "mpi" is available: if `mpi4py` and an MPI library are installed."""
    try:
        load_mpi()
    except LaunchError:
        return False
    return True


def is_ucc_available() -> bool:
    """Whether this backend is available: False."""
    return False


is_xccl_available = is_ucc_available


def is_torchelastic_launched() -> bool:
    """Whether torchelastic started this process: False."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether a backend is available: "gloo", "mpi" if it is installed, and "nccl" if CuPy finds a GPU and NCCL."""
    available = {"gloo": is_gloo_available, "mpi": is_mpi_available, "nccl": is_nccl_available}
    return available.get(backend.lower(), is_ucc_available)()


def _check_backend(backend: str) -> None:
    """Raises RuntimeError for a backend that is not available, AssertionError for an unknown one."""
    for part in backend.split(","):
        name = part.rpartition(":")[2]
        if name in ("nccl", "mpi", "xccl") and not is_backend_available(name):
            raise RuntimeError(
                f"Distributed package doesn't have {name.upper()} built in"
                + {"nccl": f": {nccl_is_missing()}", "mpi": f": {install_hint('mpi')}"}.get(name, "")
                + "; use the backend gloo"
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
    """Create the default process group: the processes that mpirun or srun has started, or this process alone.

    Args:
        backend: "mpi", "gloo", "nccl" if there is a GPU, or two of them ("cpu:gloo,cuda:nccl"); returned by `get_backend`.
            NCCL sends tensors from GPU to GPU; all else, and messages (`send`, `recv`), is sent through the host by MPI.
        timeout: how long a collective waits for the other processes.
        world_size, rank: those that the launcher has given, if they are passed at all.
        store: returned by `ProcessGroup.get_group_store`; default: a store in memory.
        device_id: the GPU of this process, which NCCL connects at once; default: that of the first tensor, when it is sent.
    Raises:
        LaunchError: when a launcher has started several processes, but MPI does not connect them.
        RuntimeError: when the backend is not available.
        DistBackendError: when NCCL cannot connect the GPUs, since two processes share one.
        AssertionError: when the backend is unknown.
        ValueError: when the group exists already, or rank or world_size are not the launcher's.
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    comm = world()
    _check_place("world_size", world_size, 1 if comm is None else comm.Get_size())
    _check_place("rank", rank, 0 if comm is None else comm.Get_rank())
    backend = backend or ("gloo" if comm is None else "mpi")
    _check_backend(Backend(backend))
    communicator = Communicator(load_mpi(), comm) if comm is not None else Communicator()
    prefixed = PrefixStore("default_pg", HashStore() if store is None else store)
    _Named._world = _create_group(
        prefixed, backend, timeout or default_pg_timeout, communicator, range(communicator.size)
    )
    if device_id is not None and "nccl" in _Named._world.name():
        _Named._world.connect(gpu_index(as_device(device_id)))


def _check_place(name: str, passed: int, known: int) -> None:
    if passed not in (-1, known):
        if launched() is None:
            begin = "start several by MPI: mpirun -n N python script.py"
            raise ValueError(
                f"init_process_group: {name} is {passed}, but this process is alone (world_size=1, rank=0); {begin}"
            )
        raise ValueError(f"init_process_group: {name} is {passed}, but the launcher's is {known}; leave it out")


def _create_group(
    store: Store, backend: str, timeout: timedelta, communicator: Communicator, ranks: Sequence[int]
) -> ProcessGroup:
    _Named._count += 1
    return ProcessGroup(store, Backend(backend), str(_Named._count - 1), timeout, communicator, ranks)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Delete the group (all groups, if `group` is None or `group.WORLD`)."""
    world = default_group()
    if isinstance(group or world, ProcessGroup):
        (group or world).close()
    if group in (None, world):
        _Named._world, _Named._count = None, 0
    else:
        _Named._count -= 1


def default_group() -> ProcessGroup:
    """The default process group. ValueError before `init_process_group`."""
    if _Named._world is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return _Named._world


def group_of(group: ProcessGroup | int | None) -> ProcessGroup:
    """`group`, or the default group for None. ValueError before `init_process_group`."""
    default = default_group()
    return group if isinstance(group, ProcessGroup) else default


def get_rank(group: ProcessGroup | None = None) -> int:
    """Rank of this process in the group; -1 if it is not in it."""
    default_group()
    return -1 if group == GroupMember.NON_GROUP_MEMBER else group_of(group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Number of processes in the group; -1 if this process is not in it."""
    default_group()
    return -1 if group == GroupMember.NON_GROUP_MEMBER else group_of(group).size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """Name of the backend of a group."""
    return (group or default_group()).name()


def get_pg_count() -> int:
    """Number of process groups, including the default group."""
    return _Named._count


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process among those on its machine. RuntimeError if it is unknown and `fallback_rank` is None."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if launched() is not None:
        return local_rank()
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment; set it or pass fallback_rank")
    return int(fallback_rank)


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """Global ranks of the processes of a group."""
    return list(group_of(group).ranks)


def get_group_rank(group: ProcessGroup | None, global_rank: int) -> int:
    """Rank within the group of the process `global_rank`. ValueError if it is not in the group."""
    ranks = group_of(group).ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_global_rank(group: ProcessGroup | None, group_rank: int) -> int:
    """Global rank of the process `group_rank` of the group. ValueError if there is none."""
    ranks = group_of(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    *args: Any,
    **kwargs: Any,
) -> ProcessGroup | int:
    """A new group of the processes `ranks`; GroupMember.NON_GROUP_MEMBER in a process that is not among them.

    All processes of the default group must call this, also those that are not in the new group.

    Raises:
        ValueError: when `ranks` contains duplicates, or numbers that are no ranks.
    """
    default = default_group()
    size = default.size()
    members = list(range(size)) if ranks is None else list(ranks)
    if len(members) > size and len(set(members)) == len(members):
        raise ValueError(
            f"the new group's world size must be {size} at most, that of init_process_group, got ranks {members}"
        )
    if len(set(members)) != len(members):
        raise ValueError(f"ranks list must not contain duplicate entries, got {members}")
    for rank in members:
        if not 0 <= rank < size:
            raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})")
    members.sort()
    communicator = _part(default.communicator, members)
    if communicator is None:
        return GroupMember.NON_GROUP_MEMBER
    return _create_group(
        default.get_group_store(), backend or default.name(), timeout or default._timeout, communicator, members
    )


def _part(communicator: Communicator, members: list[int]) -> Communicator | None:
    """The communicator of some of the processes, in the order of their ranks; None in the others."""
    mpi, comm = communicator.mpi, communicator.comm
    if comm is None:
        return communicator if members else None
    inside = communicator.rank in members
    part = comm.Split(0 if inside else mpi.UNDEFINED, communicator.rank)
    return Communicator(mpi, part) if inside else None
