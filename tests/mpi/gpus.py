"""A program of several processes, each with a GPU of the stand-in for CuPy: what NCCL gives, held to what MPI gives the host.

PYTHONPATH=.:tests/gpu/standin CUPY_STANDIN_GPUS=2 mpirun -n 2 python -m mpi4py -m tests.mpi.gpus collectives
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest

import tdt
from tdt import distributed as d
from tdt.distributed._communicator import SMALL
from tdt.utils.checkpoint import checkpoint
from tests.mpi import collectives as program


def collectives() -> None:
    """All collectives; sums of every dtype and of sizes around those where the algorithm changes."""
    found = {}
    for backend, device in (("nccl", "cuda"), ("mpi", "cpu")):
        d.init_process_group(backend)
        rank, size = d.get_rank(), d.get_world_size()
        tdt.set_default_device(device)
        parts = (program.reductions, program.moves, program.objects, program.messages, program.groups)
        found[backend] = [program.plain(value) for part in parts for value in part(tdt, d, rank, size)]
        found[backend] += [*sums(rank, device), gradients(rank)]
        if backend == "nccl":
            through = d.group.WORLD.transport(tdt.ones(1))
            assert type(through).__name__ == "GpuCommunicator" and through.bytes > 100_000 and not through.begun
        d.destroy_process_group()
    assert found["nccl"] == found["mpi"]


def sums(rank: int, device: str) -> Any:
    for kind in (tdt.float32, tdt.float16, tdt.bfloat16, tdt.float64, tdt.complex64, tdt.int64, tdt.bool):
        works, size = [], SMALL // kind.itemsize
        for count in (1, size, size + 1, 5 * size + 3):
            values = np.random.default_rng([rank, count]).normal(size=count) * 100
            x = tdt.tensor(values, device="cpu").to(kind).to(device)
            works.append((d.all_reduce(x, async_op=True), x))
        for work, x in works:
            work.wait()
            yield tdt.view_as_real(x).tolist() if x.is_complex() else x.tolist()
    x = tdt.zeros(2 * d.get_world_size())
    work = d.all_to_all_single(x, tdt.arange(float(len(x))) + rank, async_op=True)  # what it sends, nobody else keeps
    work.wait()
    yield x.tolist()
    x = tdt.full((7,), rank + 1.0)
    d.all_reduce(x, d.ReduceOp.AVG)
    yield x.tolist()


def gradients(rank: int) -> Any:
    """Of DistributedDataParallel, whose bits are those of the sums: a gradient of ones is exact."""
    layer = tdt.nn.parallel.DistributedDataParallel(tdt.nn.Linear(3, 2, bias=False), bucket_cap_mb=1e-5)
    layer(tdt.full((4, 3), rank + 0.5)).sum().backward()
    weight = layer.module.weight
    assert weight.grad is not None and weight.grad.device == weight.device
    return weight.grad.tolist()


def refusals() -> None:
    """What the stand-in refuses, since NCCL would hang, crash or send something else."""
    import cupy
    from cupy.cuda import nccl

    d.init_process_group("nccl", device_id=tdt.cuda.current_device())
    to = d.group.WORLD.transport(tdt.ones(1, device="cuda"))
    x, stream, late = cupy.zeros(4, "f4"), cupy.cuda.Stream.null.ptr, to.stream
    wrong = [
        (lambda: to._nccl.send(np.zeros(4).ctypes.data, 16, nccl.NCCL_UINT8, 0, stream), "not memory of a GPU"),
        (lambda: to._nccl.send(x.data.ptr, 17, nccl.NCCL_UINT8, 0, stream), "not memory of a GPU"),
        (lambda: to._nccl.send(x.data.ptr, 16, nccl.NCCL_UINT8, 9, stream), "INVALID_ARGUMENT"),
        (lambda: to._nccl.send(x.data.ptr, 16, nccl.NCCL_UINT8, 0, late.ptr), "has not waited"),
        (nccl.groupEnd, "without groupStart"),
        (lambda: cupy.add(x, np.zeros(4)), "Unsupported type"),
        (lambda: np.asarray(x), "Implicit conversion"),
    ]
    for call, message in wrong:
        x += 1  # work that no other stream has waited for
        with pytest.raises((nccl.NcclError, TypeError), match=message):
            call()
    with late:
        y = x + 1
    assert not np.array_equal(np.array(y._h), x.get() + 1), "work of a stream is done before something waits for it"
    late.synchronize()
    assert np.array_equal(y.get(), x.get() + 1)
    d.destroy_process_group()


def checkpointing() -> None:
    """A recomputed dropout on a GPU has the mask of the first pass."""
    for use_reentrant in (False, True):
        x = tdt.ones(1000, device="cuda", requires_grad=True)
        y = checkpoint(tdt.nn.functional.dropout, x, use_reentrant=use_reentrant)
        following = tdt.rand(3, device="cuda")
        y.sum().backward()
        assert x.grad.tolist() == y.tolist() and 0 < y.count_nonzero() < 1000
        assert following.tolist() != tdt.rand(3, device="cuda").tolist()


def obstacles() -> None:
    """Why GPUs cannot be connected: in a script an error, in a run a note."""
    from tdt.train._ranks import Ranks

    found = {"note": Ranks.of_launch().connect(tdt.device("cuda", tdt.cuda.current_device()))}
    try:
        d.init_process_group("nccl")
        d.all_reduce(tdt.ones(1, device="cuda"))
    except RuntimeError as error:
        found["error"] = f"{type(error).__name__}: {error}"
    if Ranks.of_launch().first:
        print(json.dumps(found))


if __name__ == "__main__":
    from tdt._launched import local_rank

    tdt.cuda.set_device(local_rank() % tdt.cuda.device_count())
    programs = [collectives, refusals, checkpointing, obstacles]
    {function.__name__: function for function in programs}[sys.argv[1]]()
