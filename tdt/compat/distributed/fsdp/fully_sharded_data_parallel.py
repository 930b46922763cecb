"""`FullyShardedDataParallel` and its settings: PyTorch's enumerations are defined, all else is not supported."""

from __future__ import annotations

import enum

from tdt.compat._refusal import refused_class
from tdt.compat.distributed._reasons import SHARDED

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig", "FullyShardedDataParallel",
    "LocalStateDictConfig", "MixedPrecision", "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig",
    "ShardingStrategy", "StateDictType",
]  # fmt: skip


class ShardingStrategy(enum.Enum):
    """Which tensors are sharded."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


class BackwardPrefetch(enum.Enum):
    """When the next parameters are fetched."""

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class StateDictType(enum.Enum):
    """Form of a state_dict."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3


class OptimStateKeyType(enum.Enum):
    """The keys of an optimizer's state: parameter names or numbers."""

    PARAM_NAME = 1
    PARAM_ID = 2


FullyShardedDataParallel = refused_class("FullyShardedDataParallel", SHARDED)
CPUOffload = refused_class("CPUOffload", SHARDED)
MixedPrecision = refused_class("MixedPrecision", SHARDED)
FullStateDictConfig = refused_class("FullStateDictConfig", SHARDED)
LocalStateDictConfig = refused_class("LocalStateDictConfig", SHARDED)
ShardedStateDictConfig = refused_class("ShardedStateDictConfig", SHARDED)
FullOptimStateDictConfig = refused_class("FullOptimStateDictConfig", SHARDED)
ShardedOptimStateDictConfig = refused_class("ShardedOptimStateDictConfig", SHARDED)
