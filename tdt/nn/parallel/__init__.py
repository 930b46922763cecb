"""One module on several GPUs of one process, and PyTorch's names for several processes."""

from tdt.nn.parallel.data_parallel import DataParallel as DataParallel
from tdt.nn.parallel.data_parallel import data_parallel as data_parallel
from tdt.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel
from tdt.nn.parallel.parallel_apply import parallel_apply as parallel_apply
from tdt.nn.parallel.replicate import replicate as replicate
from tdt.nn.parallel.scatter_gather import gather as gather
from tdt.nn.parallel.scatter_gather import scatter as scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]
