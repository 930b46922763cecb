"""A program of several processes: trains small networks by DistributedDataParallel and writes losses and weights.

mpirun -n 2 python -m tests.mpi.training tdt FOLDER
RANK=0 WORLD_SIZE=2 python -m tests.mpi.training torch FOLDER
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.mpi.launching import leave

ROWS = 12  # of the batch of all processes


def batches(t: Any, rank: int, size: int, *shape: int) -> Iterator[tuple[Any, Any]]:
    """This process's part of four batches."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        x, y = rng.normal(size=(ROWS, *shape)).astype(np.float32), rng.integers(0, 3, ROWS)
        yield t.from_numpy(x[rank::size]), t.from_numpy(y[rank::size])


def initialize(t: Any, module: Any, rank: int) -> Any:
    """Weights that NumPy draws, another set in each process: the wrapper takes those of rank 0."""
    rng = np.random.default_rng(100 + rank)
    with t.no_grad():
        for parameter in module.parameters():
            parameter.copy_(t.from_numpy(rng.normal(size=tuple(parameter.shape)).astype(np.float32) * 0.3))
    return module


def train(t: Any, place: tuple[int, int], module: Any, shape: tuple[int, ...], **options: Any) -> Iterator[Any]:
    module = initialize(t, module, place[0])
    model = t.nn.parallel.DistributedDataParallel(module, **options)
    optimizer = t.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, y in batches(t, *place, *shape):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        yield loss
    yield from module.state_dict().values()


def dense(t: Any, place: tuple[int, int]) -> Iterator[Any]:
    module = t.nn.Sequential(t.nn.Linear(5, 400), t.nn.Tanh(), t.nn.Linear(400, 700), t.nn.Tanh(), t.nn.Linear(700, 3))
    yield from train(t, place, module, (5,), bucket_cap_mb=0.3)


def convolution(t: Any, place: tuple[int, int]) -> Iterator[Any]:
    nn = t.nn
    layers = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3)
    yield from train(t, place, nn.Sequential(*layers), (2, 6, 6))


def synchronized(t: Any, place: tuple[int, int]) -> Iterator[Any]:
    nn = t.nn
    layers = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3), nn.BatchNorm1d(3)
    if t.__name__ == "torch":  # whose SyncBatchNorm needs a GPU: the statistics of the whole batch, in one process
        rank, size = place
        module = initialize(t, nn.Sequential(*layers), 0)
        optimizer = t.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        rng = np.random.default_rng(0)
        for _ in range(4):
            x, y = rng.normal(size=(ROWS, 2, 6, 6)).astype(np.float32), t.from_numpy(rng.integers(0, 3, ROWS))
            optimizer.zero_grad()
            losses = nn.functional.cross_entropy(module(t.from_numpy(x)), y, reduction="none")
            losses.mean().backward()
            optimizer.step()
            yield losses[rank::size].mean()
        yield from module.state_dict().values()
        return
    yield from train(t, place, nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(*layers)), (2, 6, 6))


def sometimes_unused(t: Any, place: tuple[int, int]) -> Iterator[Any]:
    class Branches(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branches = t.nn.ModuleList([t.nn.Linear(5, 3) for _ in range(3)])
            self.calls = place[0]

        def forward(self, x: Any) -> dict[str, Any]:
            self.calls += 1
            return {"scores": self.branches[self.calls % 2](x)}  # the third is never used

    module = initialize(t, Branches(), place[0])
    model = t.nn.parallel.DistributedDataParallel(module, find_unused_parameters=True)
    optimizer = t.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(t, *place, 5):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x)["scores"], y)
        loss.backward()
        optimizer.step()
        yield loss
    yield t.tensor([p.grad is None for p in model.parameters()]).float()
    yield from module.state_dict().values()


def accumulated(t: Any, place: tuple[int, int]) -> Iterator[Any]:
    model = t.nn.parallel.DistributedDataParallel(initialize(t, t.nn.Linear(5, 3), place[0]))
    optimizer = t.optim.Adam(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(t, *place, 5)):
        if number % 2 == 0:
            with model.no_sync():
                t.nn.functional.cross_entropy(model(x), y).backward()
            continue
        t.nn.functional.cross_entropy(model(x), y).backward()
        yield from [p.grad.clone() for p in model.parameters()]
        optimizer.step()
        optimizer.zero_grad()
    yield from model.state_dict().values()


def forgotten(t: Any, place: tuple[int, int]) -> Iterator[Any]:
    """A parameter without gradient is an error in the next forward pass."""
    model = t.nn.parallel.DistributedDataParallel(t.nn.ModuleDict({"a": t.nn.Linear(1, 1), "b": t.nn.Linear(1, 1)}))
    model.module.forward = lambda x: model.module["a"](x)
    model(t.ones(1, 1)).sum().backward()
    try:
        model(t.ones(1, 1))
    except RuntimeError as error:
        yield t.tensor(float("Expected to have finished reduction in the prior iteration" in str(error)))


def main(library: str, folder: str) -> None:
    t = importlib.import_module(library)
    d = importlib.import_module(f"{library}.distributed")
    if library == "tdt":
        d.init_process_group("mpi")
    else:
        t.set_num_threads(1)
        d.init_process_group("gloo", init_method=f"file://{folder}/training-begin", rank=int(os.environ["RANK"]),
                             world_size=int(os.environ["WORLD_SIZE"]))  # fmt: skip
    place = d.get_rank(), d.get_world_size()
    programs = (dense, convolution, synchronized, sometimes_unused, accumulated, forgotten)
    found: dict[str, Any] = {}
    for program in programs:
        results: Iterator[Any] = program(t, place)
        found |= {f"{program.__name__}/{i}": value.detach().numpy() for i, value in enumerate(results)}
    np.savez(Path(folder, f"{library}{place[0]}.npz"), **found)
    if library == "torch":
        leave("training", folder, *place)
    else:
        d.barrier()
        d.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
