"""`tdt.distributed` in one process: a group of one behaves as PyTorch's of one, more processes are refused."""

from __future__ import annotations

import pytest

import tdt
from tdt import distributed, nn
from tdt.utils.data import DistributedSampler


@pytest.fixture
def alone():
    distributed.init_process_group("gloo", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_collectives_of_one_process(alone):
    x, target = tdt.arange(3.0), tdt.zeros(3)
    assert distributed.all_reduce(x, op=distributed.ReduceOp.SUM, async_op=True).wait()
    assert distributed.broadcast(x, src=0) is None
    distributed.all_gather([target], x)
    assert target.equal(x)
    into = tdt.zeros(1, 3)
    distributed.all_gather_into_tensor(into, x)
    assert into[0].equal(x)
    distributed.scatter(target, [x + 1], src=0)
    assert target.tolist() == [1, 2, 3]
    distributed.reduce_scatter(target, [x])
    assert target.equal(x)
    objects = [None]
    distributed.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}]
    distributed.barrier()
    assert (distributed.get_rank(), distributed.get_world_size(), distributed.get_backend()) == (0, 1, "gloo")
    with pytest.raises(ValueError, match="gather_list must have one entry .* but has 2 entries"):
        distributed.gather(x, [x, x])
    with pytest.raises(ValueError, match="twice"):
        distributed.init_process_group("gloo")


def test_a_wrapped_module_learns_as_the_module(alone):
    plain = nn.Linear(3, 1)
    wrapped = nn.parallel.DistributedDataParallel(plain)
    with wrapped.no_sync():
        wrapped(tdt.ones(2, 3)).sum().backward()
    assert plain.weight.grad.tolist() == [[2, 2, 2]]
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    with pytest.raises(RuntimeError, match="not needed when a module doesn't have any parameter"):
        nn.parallel.DistributedDataParallel(nn.ReLU())


def test_a_sampler_asks_the_group(alone):
    assert sorted(DistributedSampler(range(5))) == [0, 1, 2, 3, 4]


def test_without_a_group_and_with_others_in_it(monkeypatch: pytest.MonkeyPatch):
    for ask in (distributed.get_rank, distributed.barrier, lambda: DistributedSampler(range(3)),
                lambda: nn.parallel.DistributedDataParallel(nn.Linear(1, 1))):  # fmt: skip
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            ask()
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(NotImplementedError, match=r"world_size is 4; start one process"):
        distributed.init_process_group("nccl")
    assert not distributed.is_initialized()
