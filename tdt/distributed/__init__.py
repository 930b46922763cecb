"""`torch.distributed` over MPI: for the processes that mpirun or srun has started, or for one process alone.

Sums have the same bits on every process; only the main thread calls collectives.

>>> import tdt
>>> tdt.distributed.init_process_group("gloo", rank=0, world_size=1)
>>> x = tdt.ones(2)
>>> tdt.distributed.all_reduce(x), x, tdt.distributed.get_rank(), tdt.distributed.get_world_size()
(None, tensor([1., 1.]), 0, 1)
>>> tdt.distributed.destroy_process_group()
"""

from __future__ import annotations

from typing import Any

from tdt.compat._find import module_getattr
from tdt.distributed import distributed_c10d
from tdt.distributed._group import is_available
from tdt.distributed._store import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    FileStore,
    HashStore,
    PrefixStore,
    Store,
    TCPStore,
    rendezvous,
)  # fmt: skip
from tdt.distributed.distributed_c10d import *  # noqa: F403

__all__ = [*distributed_c10d.__all__]  # noqa: PLE0604
__all__ += ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "HashStore", "PrefixStore",
            "Store", "TCPStore", "is_available", "rendezvous"]  # fmt: skip

_find = module_getattr("tdt.distributed")


def __getattr__(name: str) -> Any:
    if name in ("DeviceMesh", "init_device_mesh"):  # importable; a mesh is refused
        return getattr(_find("device_mesh"), name)
    return _find(name)
