"""Names that libraries import from PyTorch's modules: each is there, in PyTorch and under the same name in tdt."""

from __future__ import annotations

import importlib

import pytest

from tdt.compat._find import find_module
from tests.helpers import require_torch

NAMES = {
    "autograd.profiler": ["EventList", "emit_nvtx", "profile", "record_function"],
    "distributed": ["Backend", "FileStore", "GroupMember", "ProcessGroup", "ReduceOp", "TCPStore", "recv", "send"],
    "distributed._composable.fsdp": ["fully_shard"],
    "distributed._functional_collectives": ["all_to_all_single_autograd", "wait_tensor"],
    "distributed.algorithms.join": ["Join", "JoinHook", "Joinable"],
    "distributed.checkpoint.hf_storage": ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"],
    "distributed.constants": ["default_pg_timeout"],
    "distributed.distributed_c10d": ["ProcessGroup", "_get_default_group"],
    "distributed.fsdp.api": ["ShardingStrategy", "StateDictType"],
    "distributed.tensor._utils": ["compute_local_shape_and_global_offset"],
    "distributed.tensor.placement_types": ["Shard", "_StridedShard"],
    "hub": ["HASH_REGEX", "download_url_to_file", "urlparse"],
    "nn.attention.flex_attention": ["BlockMask", "_DEFAULT_SPARSE_BLOCK_SIZE", "create_block_mask", "flex_attention"],
    "nn.modules.module": ["_EXTRA_STATE_KEY_SUFFIX", "_IncompatibleKeys"],
    "nn.modules.transformer": ["_get_activation_fn"],
    "nn.parallel.distributed": ["DistributedDataParallel"],
    "nn.parallel.scatter_gather": ["gather", "scatter", "scatter_kwargs"],
    "optim.optimizer": [
        "Optimizer",
        "ParamsT",
        "_default_to_fused_or_foreach",
        "_get_value",
        "_use_grad_for_differentiable",
    ],
    "overrides": ["TorchFunctionMode", "handle_torch_function", "has_torch_function"],
    "profiler": ["kineto_available"],
    "serialization": ["FileLike", "MAP_LOCATION"],
    "utils._foreach_utils": ["_get_foreach_kernels_supported_devices", "_group_tensors_by_device_and_dtype"],
    "utils.data.dataloader": ["_BaseDataLoaderIter", "_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter"],
    "utils.flop_counter": ["FlopCounterMode"],
}


@pytest.mark.parametrize("module", NAMES)
def test_names_that_libraries_import_are_there(module: str):
    ours = importlib.import_module(str(find_module(module)))
    theirs = importlib.import_module(f"{require_torch().__name__}.{module}")
    for name in NAMES[module]:
        assert hasattr(theirs, name)
        assert hasattr(ours, name)
        assert isinstance(getattr(ours, name), type) == isinstance(getattr(theirs, name), type), name
