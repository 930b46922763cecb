"""A program of several processes: calls every collective and writes what each process got. The library is tdt or PyTorch.

mpirun -n 2 python -m tests.mpi.collectives tdt FOLDER
RANK=0 WORLD_SIZE=2 python -m tests.mpi.collectives torch FOLDER
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.mpi.launching import leave


def reductions(t: Any, d: Any, rank: int, size: int) -> Any:
    for op in ("SUM", "PRODUCT", "MIN", "MAX"):
        x = (t.arange(24.0).reshape(4, 6) + 1).t() * (rank + 1)  # not contiguous
        d.all_reduce(x, getattr(d.ReduceOp, op))
        yield x
    for op in ("BAND", "BOR", "BXOR"):
        x = t.arange(5) + rank
        d.all_reduce(x, op=getattr(d.ReduceOp, op))
        yield x
    for dtype in (t.float64, t.int32, t.uint8, t.complex64):
        x = t.ones(3, dtype=dtype) * (rank + 1)
        d.all_reduce(x)
        yield x
    x = t.ones(2) * rank
    d.reduce(x, 0)
    yield x if rank == 0 else None
    x = t.ones(100_003) * (rank + 0.5)
    work = d.all_reduce(x, async_op=True)
    yield work.wait()
    yield [x[0], x[-1], work.is_completed()]


def moves(t: Any, d: Any, rank: int, size: int) -> Any:
    x = t.arange(3) + 10 * rank
    d.broadcast(x, size - 1)
    yield x
    got = [t.zeros(2, 2) for _ in range(size)]
    d.all_gather(got, t.full((2, 2), float(rank)))
    yield got
    into = t.zeros(size * 2, 3)
    d.all_gather_into_tensor(into, t.full((2, 3), float(rank)))
    yield into
    at_root = [t.zeros(2) for _ in range(size)] if rank == 0 else None
    d.gather(t.full((2,), rank + 0.5), at_root, dst=0)
    yield at_root
    x = t.zeros(2)
    d.scatter(x, [t.full((2,), i + 0.25) for i in range(size)] if rank == 1 else None, src=1)
    yield x
    x = t.zeros(2)
    d.reduce_scatter(x, [t.full((2,), float(i * (rank + 1))) for i in range(size)])
    yield x
    x = t.zeros(2)
    d.reduce_scatter_tensor(x, t.arange(2.0 * size) * (rank + 1))
    yield x
    x = t.zeros(size)
    d.all_to_all_single(x, t.arange(float(size)) + 10 * rank)
    yield x
    sizes = [i + 1 for i in range(size)]
    x = t.zeros(size * (rank + 1), 2)
    d.all_to_all_single(x, t.full((sum(sizes), 2), float(rank)), [rank + 1] * size, sizes)
    yield x
    x = [t.zeros(2) for _ in range(size)]
    d.all_to_all(x, [t.full((2,), 10.0 * rank + i) for i in range(size)])
    yield x


def gradients(t: Any, d: Any, rank: int, size: int) -> Any:
    """The collectives of `distributed.nn.functional`: results, and gradients of the sum of all processes' losses."""
    f = importlib.import_module(f"{d.__name__}.nn.functional")
    parts = [t.full((2,), 1.0 + i) for i in range(size)]
    calls = [
        lambda x: f.all_reduce(x), lambda x: f.broadcast(x, 1), lambda x: f.reduce(x, 0), lambda x: f.all_gather(x),
        lambda x: f.gather(x, 1), lambda x: f.scatter([x * (i + 1) for i in range(size)], 1),
        lambda x: f.reduce_scatter(t.empty(2), [x * part for part in parts]),
        lambda x: f.all_to_all([t.empty(2) for _ in parts], [x * part for part in parts]),
        lambda x: f.all_to_all_single(t.empty(2 * size), t.cat([x * part for part in parts])),
    ]  # fmt: skip
    for number, call in enumerate(calls):
        x = (t.arange(2.0) + rank + 1).requires_grad_()
        results = call(x)
        results = results if isinstance(results, tuple) else (results,)
        sum(((rank + 2) * result**2).sum() for result in results).backward()
        unspecified = number == 2 and rank > 0  # what reduce leaves in processes that are not the root
        yield [None if unspecified else [result.detach() for result in results], x.grad]


def objects(t: Any, d: Any, rank: int, size: int) -> Any:
    got: list[Any] = [None] * size
    d.all_gather_object(got, {"rank": rank, "text": "x" * rank * 1000})
    yield [[one["rank"], len(one["text"])] for one in got]
    at_root = [None] * size if rank == 1 else None
    d.gather_object(rank, at_root, dst=1)
    yield at_root
    x = [rank, None]
    d.broadcast_object_list(x, src=1)
    yield x
    x = [None]
    d.scatter_object_list(x, [f"to {i}" for i in range(size)] if rank == 0 else None, src=0)
    yield x
    d.barrier()


def messages(t: Any, d: Any, rank: int, size: int) -> Any:
    after, before = (rank + 1) % size, (rank - 1) % size
    x = t.zeros(4)
    works = [d.isend(t.arange(4.0) + rank, after), d.irecv(x, before)]
    yield [work.wait() for work in works]
    yield x
    x = t.zeros(2, 2)
    if rank == 0:
        d.send(t.arange(4.0).reshape(2, 2), 1, tag=3)
    elif rank == 1:
        yield d.recv(x, 0, tag=3)
    yield x
    if rank == 0:
        yield d.recv(x, group=d.group.WORLD, tag=5)
    elif rank == 1:
        d.send(t.ones(2, 2), dst=0, tag=5)
    yield x
    y = t.zeros(3)
    for work in d.batch_isend_irecv([d.P2POp(d.isend, t.full((3,), float(rank)), after), d.P2POp(d.irecv, y, before)]):
        work.wait()
    yield y
    got = [None, None]
    if rank == 0:
        d.send_object_list([{"a": 1}, "b"], 1)
    elif rank == 1:
        yield d.recv_object_list(got, 0)
    yield got


def groups(t: Any, d: Any, rank: int, size: int) -> Any:
    last = d.new_group([size - 1, 0])  # ranks are sorted in it
    yield [d.get_world_size(last), d.get_rank(last)]
    if d.get_rank(last) >= 0:
        x = t.ones(2) * (rank + 1)
        d.all_reduce(x, group=last)
        yield x
        d.broadcast(x, src=size - 1, group=last)
        yield [x, d.get_process_group_ranks(last), d.get_group_rank(last, rank), d.get_global_rank(last, 1)]
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield d.all_reduce(t.ones(1), group=last)
        yield len(caught)
    alone = [d.new_group([i]) for i in range(size)][rank]
    yield [d.get_world_size(alone), d.get_rank(alone)]
    d.monitored_barrier(timeout=timedelta(seconds=20))


WRONG = """
d.broadcast(x, size); d.broadcast(x, -1); d.send(x, rank); d.recv(x, rank); d.all_gather([x], x)
d.all_gather([t.ones(2)] * size, x); d.all_gather([t.ones(1, dtype=t.int32)] * size, x); d.new_group([size])
d.new_group([0, 0]); d.new_group(list(range(size + 1))); d.scatter(x, [x], src=1 - rank); d.reduce_scatter(x, [x])
d.all_reduce(x, d.ReduceOp.BOR); d.init_process_group(); d.get_global_rank(None, size);
d.batch_isend_irecv([]); d.all_to_all_single(x, t.ones(2)); d.broadcast([x], 0); d.gather(x, None, dst=rank)
"""


def errors(t: Any, d: Any, rank: int, size: int) -> Any:
    x = t.ones(1)
    for call in WRONG.replace("\n", ";").split(";"):
        if call.strip():
            try:
                yield [call.strip(), str(eval(call.strip(), {"t": t, "d": d, "x": x, "rank": rank, "size": size}))]
            except Exception as error:  # noqa: BLE001 (its class is compared)
                yield [call.strip(), type(error).__name__]


def plain(value: Any) -> Any:
    """Tensors as nested lists."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return repr(value) if isinstance(value, complex) else value


def main(library: str, folder: str) -> None:
    t = importlib.import_module(library)
    d = importlib.import_module(f"{library}.distributed")
    if library == "tdt":
        d.init_process_group()
    else:
        d.init_process_group("gloo", init_method=f"file://{folder}/collectives-begin", rank=int(os.environ["RANK"]),
                             world_size=int(os.environ["WORLD_SIZE"]))  # fmt: skip
    rank, size = d.get_rank(), d.get_world_size()
    parts = (reductions, moves, gradients, objects, messages, groups, errors)
    found = {part.__name__: [plain(value) for value in part(t, d, rank, size)] for part in parts}
    Path(folder, f"{library}{rank}.json").write_text(json.dumps(found))
    if library == "torch":
        leave("collectives", folder, rank, size)
    else:
        d.barrier()
    d.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
