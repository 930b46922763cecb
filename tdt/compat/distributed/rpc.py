"""`torch.distributed.rpc`: functions that call other processes, which tdt does not offer; they can be imported."""

from __future__ import annotations

from tdt.compat._refusal import refused, refused_class

_REASON = "tdt's processes exchange tensors by the collectives of tdt.distributed; they do not call each other"

init_rpc, shutdown, rpc_sync, rpc_async, remote, get_worker_info = (
    refused(f"distributed.rpc.{name}", _REASON)
    for name in ("init_rpc", "shutdown", "rpc_sync", "rpc_async", "remote", "get_worker_info")
)
RRef, WorkerInfo, RpcBackendOptions, TensorPipeRpcBackendOptions = (
    refused_class(f"distributed.rpc.{name}", _REASON)
    for name in ("RRef", "WorkerInfo", "RpcBackendOptions", "TensorPipeRpcBackendOptions")
)


def is_available() -> bool:
    """Whether processes can call each other: never."""
    return False
