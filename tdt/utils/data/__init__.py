"""Datasets, samplers and the DataLoader, under PyTorch's names."""

from tdt import Tensor as _Tensor  # noqa: F401  (loads the core: from here on tensors have their methods)
from tdt._random import default_generator
from tdt.utils.data._worker import get_worker_info
from tdt.utils.data.collate import collate, default_collate, default_collate_fn_map, default_convert
from tdt.utils.data.dataloader import DataLoader
from tdt.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from tdt.utils.data.distributed import DistributedSampler
from tdt.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "collate",
    "default_collate",
    "default_collate_fn_map",
    "default_convert",
    "default_generator",
    "get_worker_info",
    "random_split",
]
