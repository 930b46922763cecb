"""`tdt.multiprocessing`: Python's own names, and `spawn` with its errors."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.reduction import ForkingPickler

import numpy
import pytest

import tdt
from tdt import multiprocessing as mp
from tests.helpers import require_torch


def write(number: int, folder: str) -> None:
    with open(f"{folder}/{number}", "w") as file:
        file.write(str(float(tdt.ones(number + 1).sum())))


def fail(number: int) -> None:
    if number == 1:
        raise ValueError("process one")


def leave(number: int) -> None:
    os._exit(7)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_function_runs_in_numbered_processes(method: str, tmp_path):
    assert mp.start_processes(write, (str(tmp_path),), nprocs=2, start_method=method) is None
    assert sorted(path.name + path.read_text() for path in tmp_path.iterdir()) == ["01.0", "12.0"]


def test_the_error_of_a_process_is_raised_with_its_traceback():
    with pytest.raises(mp.ProcessRaisedException, match="Process 1 ended(?s:.*)in fail(?s:.*)ValueError: process one"):
        mp.start_processes(fail, nprocs=2, start_method="fork")
    with pytest.raises(mp.ProcessExitedException, match="process 0 ended with exit code 7"):
        mp.start_processes(leave, start_method="fork")


def test_processes_can_be_waited_for_later(tmp_path):
    started = mp.start_processes(write, (str(tmp_path),), nprocs=2, join=False, start_method="fork")
    assert started is not None
    assert len(started.pids()) == 2
    while not started.join(timeout=5):
        pass
    assert len(list(tmp_path.iterdir())) == 2


def test_the_rest_is_pythons_own():
    assert mp.Process is multiprocessing.Process
    assert mp.cpu_count() == multiprocessing.cpu_count()
    queue = mp.get_context("fork").SimpleQueue()
    queue.put(tdt.arange(3))
    assert queue.get().tolist() == [0, 1, 2]
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    with pytest.raises(AssertionError, match="invalid sharing strategy 'x'"):
        mp.set_sharing_strategy("x")


def write_to(model: tdt.nn.Module, column: tdt.Tensor, answers, received) -> None:
    model.weight.grad = tdt.ones(2, 3)
    tdt.optim.SGD(model.parameters(), lr=0.5, momentum=0.9).step()
    column += 10
    model.steps += 1
    answers.put((column.is_shared(), type(model.weight).__name__, model.weight.requires_grad, column.stride()))
    answers.put(tdt.full((2,), 3.0).share_memory_())
    received.wait(30)  # memory is sent while the process that made it lives


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_see_what_others_write_to_shared_memory_however_they_were_started(method: str):
    model = tdt.nn.Linear(3, 2, bias=False)
    model.register_buffer("steps", tdt.zeros((), dtype=tdt.int64))
    model.share_memory()
    table = tdt.arange(6.0).reshape(2, 3).share_memory_()
    before = model.weight.detach().clone()
    context = mp.get_context(method)
    answers, received = context.Queue(), context.Event()
    process = context.Process(target=write_to, args=(model, table[:, 1], answers, received))
    process.start()
    assert answers.get(timeout=30) == (True, "Parameter", True, (3,))
    assert answers.get(timeout=30).tolist() == [3.0, 3.0]
    received.set()
    process.join()
    assert process.exitcode == 0
    assert table.tolist() == [[0, 11, 2], [3, 14, 5]]
    assert (model.weight.detach() - before).numpy() == pytest.approx(-0.5)
    assert model.steps.item() == 1


def test_tensors_of_one_memory_share_it_after_a_queue_and_others_go_by_value():
    queue = mp.get_context("fork").Queue()
    shared, own = tdt.zeros(4).share_memory_(), tdt.zeros(2)
    queue.put((shared, shared[2:], own))
    whole, part, copy = queue.get(timeout=30)
    part += 1
    copy += 1
    assert shared.tolist() == whole.tolist() == [0, 0, 1, 1]
    assert own.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="refusing to serialize non-leaf tensor which requires_grad"):
        ForkingPickler.dumps(tdt.nn.Parameter(shared)[1:])


def test_shared_memory_stays_where_it_is_and_closes_its_descriptor():
    model = tdt.nn.Linear(3, 2).share_memory()
    places = [p.data_ptr() for p in model.parameters()]
    assert [p.data_ptr() for p in model.share_memory().parameters()] == places
    assert all(p.is_shared() for p in model.parameters())
    if os.path.isdir("/proc/self/fd"):
        descriptors = len(os.listdir("/proc/self/fd"))
        del model
        for _ in range(3):
            tdt.ones(2).share_memory_()
        assert len(os.listdir("/proc/self/fd")) < descriptors


def shared_aliases(torch) -> list:
    """Which tensors are shared after one of them was moved, and what they hold once it was written to."""
    x = torch.arange(12.0).reshape(3, 4)
    others = [x[1], x[1][1:3], x.data, x.detach(), x.t(), x[2:], x[:1].expand(5, 4), x.view(torch.int32)]
    storage, apart = x.untyped_storage(), x.clone()
    x.share_memory_()
    x += 1
    others[4].mul_(2)
    states = [(t.is_shared(), t.tolist(), t.storage_offset(), t.stride(), t._version) for t in (x, *others, apart)]
    y = torch.zeros(6)
    part = y[2:4].share_memory_()
    y[3] = 7
    own = torch.zeros(4).untyped_storage()
    on_it = torch.empty(0).set_(own, 1, (3,))
    own.share_memory_()
    on_it.fill_(1)
    array = torch.from_numpy(numpy.arange(8.0)[2:6])
    end = array[1:]
    array.share_memory_()
    array[1] = 9
    return [*states, storage.is_shared(), storage.tolist(), y.is_shared(), part.tolist(), own.is_shared(), own.tolist(),
            on_it.is_shared(), end.is_shared(), end.tolist(), torch.empty(0).share_memory_().is_shared()]  # fmt: skip


def shared_module(torch) -> list:
    """The same of a module with a tied parameter, a gradient, and views that autograd has recorded."""
    model, tied = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    tied.weight, weight = model.weight, model.weight
    model.register_buffer("steps", torch.ones(2))
    row, data, steps = weight[0], weight.data, model.steps
    weight.grad = grad = torch.ones(3, 3)
    weight.share_memory_()
    tensors = [tied.weight, row, data, grad, model.bias, steps]
    after_one = [t.is_shared() for t in tensors]
    model.share_memory()
    with torch.no_grad():
        weight.fill_(3.0)
    (row * 2).sum().backward()
    return [
        after_one,
        [t.is_shared() for t in (*tensors, tied.bias)],
        row.tolist(),
        data.tolist(),
        weight.grad.tolist(),
    ]


@pytest.mark.parametrize("program", [shared_aliases, shared_module])
def test_views_aliases_and_storages_move_to_shared_memory_together_as_in_pytorch(program):
    assert program(tdt) == program(require_torch())
