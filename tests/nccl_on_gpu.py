"""What `scripts/gpu_check` checks of NCCL: a group of one process on one GPU, and of several where there are several GPUs."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator

import tdt
from tdt import distributed
from tdt.distributed._nccl import nccl_is_missing
from tests.mpi.launching import MPIRUN, mpirun

SIZES = (1, 1000, 3_000_001)
DTYPES = ("float32", "float16", "bfloat16", "float64", "complex64", "int64", "uint8", "bool")


def check_nccl(target: str) -> Iterator[tuple[str, str | None]]:
    """Names of checks, each with what is wrong, or None."""
    if (missing := nccl_is_missing()) is not None:
        yield "NCCL", missing
        return
    tdt.cuda.set_device(target)
    distributed.init_process_group("nccl", rank=0, world_size=1, device_id=target)
    try:
        for name in DTYPES:
            yield f"alone {name}", next(filter(None, (_alone(target, name, size) for size in SIZES)), None)
        yield "streams", _streams(target)
    finally:
        distributed.destroy_process_group()
    yield from _several(tdt.cuda.device_count())


def _alone(target: str, name: str, size: int) -> str | None:
    """What a collective has changed that should not; sends and receives go from the process to itself, through NCCL."""
    x = (tdt.arange(size, device=target) % 97).to(getattr(tdt, name))
    through, before = distributed.group.WORLD.transport(x), x.clone()
    distributed.all_reduce(x)
    distributed.broadcast(x, 0)
    gathered, swapped, scattered = (tdt.zeros_like(x) for _ in range(3))
    distributed.all_gather([gathered], x)
    distributed.all_to_all_single(swapped, x)
    distributed.reduce_scatter_tensor(scattered, x)
    for what, got in (
        ("all_reduce", x),
        ("all_gather", gathered),
        ("all_to_all", swapped),
        ("reduce_scatter", scattered),
    ):
        if not got.equal(before):
            return f"{what} of {size} elements changed them"
    return None if through.bytes else "nothing was sent by NCCL"


def _streams(target: str) -> str | None:
    """Sums begin behind the work of the current stream, and work after `wait` comes behind them."""
    size = (
        64 if tdt.cuda.get_device_name(target) == "stand-in" else 2048
    )  # which computes on the host, element by element
    a = tdt.ones(size, size, device=target) / size
    for _ in range(20):
        x = a @ a @ a  # is not done when the sum begins
        work = distributed.all_reduce(x, async_op=True)
        a @ a  # goes on meanwhile
        work.wait()
        total = (x * size).double().mean().item()
        if abs(total - 1) > 1e-3:
            return f"the mean is {total}, and should be 1"
    return None


def _several(gpus: int) -> Iterator[tuple[str, str | None]]:
    """Processes with a GPU each: collectives held to MPI's, and training to one process's."""
    if gpus < 2 or not MPIRUN.exists():
        reason = "there is one GPU" if gpus < 2 else f"there is no {MPIRUN}: pip install mpi4py mpich"
        print(f"several processes: not run, {reason}")
        return
    count = 4 if gpus >= 4 else 2
    yield f"collectives of {count}", _failure(mpirun(count, "-m", "mpi4py", "-m", "tests.mpi.gpus", "collectives"))
    with tempfile.TemporaryDirectory() as folder:
        runs = [mpirun(n, "-m", "mpi4py", "-m", "tests.mpi.shards", folder, "gpus") for n in (1, count)]
    failed = next(filter(None, map(_failure, runs)), None)
    same = runs[0].stdout == runs[1].stdout
    yield f"training on {count}", failed or (None if same else "the bits differ from those of one process")


def _failure(done: subprocess.CompletedProcess[str]) -> str | None:
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no message"])[-1]
