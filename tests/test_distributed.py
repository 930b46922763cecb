"""`tdt.distributed` in one process: a group of one behaves as PyTorch's of one. Several processes: tests/mpi."""

from __future__ import annotations

import importlib
import sys
import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest

import tdt
from tdt import distributed, nn
from tdt.utils.data import DistributedSampler
from tests.helpers import require_torch


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
    with pytest.raises(RuntimeError, match="gather_list must have one entry .* but has 2 entries"):
        distributed.gather(x, [x, x])
    with pytest.raises(ValueError, match="twice"):
        distributed.init_process_group("gloo")


def test_a_wrapped_module_learns_as_the_module(alone):
    plain = nn.Linear(3, 1)
    wrapped = nn.parallel.DistributedDataParallel(plain, find_unused_parameters=True)
    assert (wrapped.find_unused_parameters, wrapped.static_graph, wrapped.process_group) == (
        True,
        False,
        distributed.group.WORLD,
    )
    wrapped.reducer.prepare_for_backward([])
    with wrapped.no_sync():
        wrapped(tdt.ones(2, 3)).sum().backward()
    assert plain.weight.grad.tolist() == [[2, 2, 2]]
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    with pytest.raises(RuntimeError, match="not needed when a module doesn't have any parameter"):
        nn.parallel.DistributedDataParallel(nn.ReLU())


WRONG = """
d.broadcast(x, 3); d.broadcast(x, -1); d.broadcast(x); d.broadcast([x], 0); d.broadcast(x, 0, group_src=0); d.reduce(x, 2)
d.broadcast(x, "a"); d.reduce(x); d.all_reduce([x]); d.new_group([1]); d.new_group([0, 0]); d.new_group([0, 1])
d.reduce_scatter(x, [x, x]); d.reduce_scatter(x, [t.ones(3)]); d.reduce_scatter(x, x); d.all_gather([t.ones(3)], x)
d.all_gather([x, x], x); d.all_gather([], x); d.all_gather(x, x); d.all_gather([t.ones(2, dtype=t.int32)], x)
d.all_gather_into_tensor(t.ones(3), x); d.gather(x, [t.ones(3)]); d.gather(x, None); d.gather(x, [x], dst=1)
d.scatter(x, [t.ones(3)]); d.scatter(x, None); d.scatter(x, [x, x]); d.scatter(x, [x], src=4); d.all_to_all([x, x], [x])
d.all_to_all([x], [t.ones(3)]); d.all_to_all_single(x, t.ones(3)); d.broadcast_object_list([1], 3); d.gather_object(1, None)
"""


def errors(t, d) -> list[tuple[str, str]]:
    """The class of the error of each wrong call, in a group of one process."""
    d.init_process_group("gloo", store=d.HashStore(), rank=0, world_size=1)
    found, x = [], t.ones(2)
    for call in WRONG.replace("\n", ";").split(";"):
        if call.strip():
            with pytest.raises(Exception) as caught:  # noqa: PT011 (compared below)
                eval(call.strip(), {"t": t, "d": d, "x": x})
            found.append((call, caught.type.__name__))
    d.destroy_process_group()
    return found


def test_wrong_arguments_of_collectives_raise_pytorchs_classes_of_errors():
    torch = require_torch()
    assert errors(tdt, distributed) == errors(torch, torch.distributed)


@pytest.mark.parametrize(
    "backend, error",
    [
        ("nccl", RuntimeError),
        ("cpu:gloo,cuda:nccl", RuntimeError),
        ("mpi", RuntimeError),
        ("xccl", RuntimeError),
        ("ucc", AssertionError),
        ("edge_without_hooks", AssertionError),
    ],
)
def test_backends_that_are_not_available_are_refused_with_pytorchs_errors(
    backend, error, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tdt.distributed._nccl.cuda_device_count", lambda: 0)
    monkeypatch.setattr("tdt.distributed._group.is_mpi_available", lambda: False)
    with pytest.raises(error, match="use the backend gloo"):
        distributed.init_process_group(backend, rank=0, world_size=1)
    assert distributed.is_gloo_available() and distributed.is_backend_available("GLOO")
    assert not distributed.is_initialized()


def test_a_sampler_takes_rank_and_size_from_the_group(alone):
    assert sorted(DistributedSampler(range(5))) == [0, 1, 2, 3, 4]


def test_without_a_group_and_with_others_in_it(monkeypatch: pytest.MonkeyPatch):
    for ask in (distributed.get_rank, distributed.barrier, lambda: DistributedSampler(range(3)),
                lambda: nn.parallel.DistributedDataParallel(nn.Linear(1, 1))):  # fmt: skip
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            ask()
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(RuntimeError, match=r"WORLD_SIZE=4: torchrun .* started by MPI: start it with .*mpirun -n 4"):
        distributed.init_process_group("nccl")
    assert not distributed.is_initialized()


OPERATIONS = [
    lambda s: s.set("a", "b"), lambda s: s.get("a"), lambda s: s.add("n", 3), lambda s: s.get("n"), lambda s: s.num_keys(),
    lambda s: s.check(["a", "q"]), lambda s: s.get("q"), lambda s: s.wait(["a"]), lambda s: s.wait(["a", "q"]),
    lambda s: s.add("a", 1), lambda s: s.delete_key("a"), lambda s: s.delete_key("a"), lambda s: s.compare_set("c", "", "x"),
    lambda s: s.compare_set("c", "x", "y"), lambda s: s.compare_set("c", "x", "z"), lambda s: s.compare_set("e", "x", "z"),
    lambda s: s.append("c", "k"), lambda s: s.get("c"), lambda s: s.multi_set(["f", "g"], ["1", "2"]),
    lambda s: s.multi_get(["f", "g"]), lambda s: s.timeout, lambda s: s.set("b", b"\x00"), lambda s: s.get("b"),
    lambda s: sorted(s.list_keys()),
]  # fmt: skip


def result(operation, store):
    try:
        return operation(store)
    except (ValueError, RuntimeError) as error:
        return type(error).__name__


@pytest.mark.parametrize("make", [lambda d: d.HashStore(), lambda d: d.PrefixStore("run", d.HashStore())])
def test_a_store_behaves_like_pytorchs(make):
    theirs, ours = make(require_torch().distributed), make(distributed)
    for store in (theirs, ours):
        store.set_timeout(timedelta(milliseconds=20))
    for number, operation in enumerate(OPERATIONS):
        assert (number, result(operation, ours)) == (number, result(operation, theirs))


def test_a_store_waits_for_another_thread():
    store = distributed.TCPStore("localhost", 29500, 1, is_master=True, timeout=timedelta(seconds=20))
    thread = threading.Timer(0.01, store.set, ("ready", "yes"))
    thread.start()
    assert store.get("ready") == b"yes"
    thread.join()


def test_a_store_of_several_processes_is_refused():
    for make in (lambda: distributed.TCPStore("localhost", 29500, 2, is_master=True),
                 lambda: distributed.TCPStore("localhost", 29500), lambda: distributed.FileStore("store", 2)):  # fmt: skip
        with pytest.raises(NotImplementedError, match="tdt trains in one process"):
            make()


GROUP = [
    lambda d, g: (g.rank(), g.size(), d.get_backend(g), type(d.get_backend())), lambda d, g: d.get_process_group_ranks(g),
    lambda d, g: d.get_global_rank(g, 0), lambda d, g: d.get_global_rank(g, 1), lambda d, g: d.get_group_rank(g, 0),
    lambda d, g: d.new_group([1]), lambda d, g: d.new_group([0, 0]), lambda d, g: d.get_rank(d.GroupMember.NON_GROUP_MEMBER),
    lambda d, g: d.get_world_size(d.GroupMember.NON_GROUP_MEMBER), lambda d, g: d.send(g, 0), lambda d, g: d.Backend(3),
    lambda d, g: d.Backend("GLOO"), lambda d, g: d.ReduceOp.SUM, lambda d, g: d.ReduceOp(d.ReduceOp.MAX) == d.ReduceOp.MAX,
    lambda d, g: isinstance(d.ReduceOp.SUM, d.ReduceOp), lambda d, g: [str(op) for op in d.ReduceOp.RedOpType.__members__],
    lambda d, g: isinstance(d.group.WORLD, d.ProcessGroup) and d.GroupMember.WORLD is d.group.WORLD,
    lambda d, g: [d.get_default_backend_for_device(name) for name in ("cpu", "cuda:0")],
    lambda d, g: {name: d.Backend.default_device_backend_map[name] for name in ("cpu", "cuda")},
    lambda d, g: d.default_pg_timeout, lambda d, g: d.get_pg_count(),
]  # fmt: skip


def test_a_group_of_one_behaves_like_pytorchs():
    """Both groups at once: what each question is answered with, or the type of the error."""
    answers = []
    for module, library in ((distributed, tdt), (require_torch().distributed, require_torch())):
        assert module.group.WORLD is None
        module.init_process_group("gloo", store=module.HashStore(), rank=0, world_size=1)
        try:
            found = [result(lambda d: ask(d, d.new_group()), module) for ask in GROUP]  # noqa: B023
            output, objects = library.zeros(3), [None]
            module.all_to_all_single(output, library.arange(3.0))
            module.scatter_object_list(objects, [{"a": 1}])
        finally:
            module.destroy_process_group()
        answers.append([*map(repr, found), output.tolist(), objects])
        assert module.group.WORLD is None
    assert answers[0] == answers[1]


def test_messages_to_other_processes_are_refused(alone):
    for call in (distributed.isend, distributed.irecv, distributed.recv):
        with pytest.raises(ValueError, match="there is no rank 1 in a group of one process"):
            call(tdt.ones(1), 1)
    with pytest.raises(ValueError, match="there is no rank 1"):
        distributed.P2POp(distributed.isend, tdt.ones(1), 1)


def test_parallel_modules_are_importable_where_pytorchs_are():
    torch = require_torch()
    for name, module in (("data_parallel", "DataParallel"), ("distributed", "DistributedDataParallel"),
                         ("replicate", "replicate"), ("scatter_gather", "scatter"),
                         ("scatter_gather", "gather"), ("scatter_gather", "scatter_kwargs"),
                         ("parallel_apply", "parallel_apply")):  # fmt: skip
        assert hasattr(importlib.import_module(f"{torch.nn.parallel.__name__}.{name}"), module)
        found = getattr(importlib.import_module(f"tdt.nn.parallel.{name}"), module)
        assert getattr(nn.parallel, module, found) is found


REFUSED = {
    "fsdp": ["FullyShardedDataParallel", "MixedPrecision", "CPUOffload", "FSDPModule", "fully_shard"],
    "fsdp.fully_sharded_data_parallel": ["FullStateDictConfig"],
    "fsdp.wrap": ["ModuleWrapPolicy", "enable_wrap"],
    "tensor": ["DTensor", "distribute_module", "distribute_tensor"],
    "_tensor": ["DTensor"],
    "device_mesh": ["DeviceMesh", "init_device_mesh"],
    "algorithms.ddp_comm_hooks.default_hooks": ["fp16_compress_hook"],
    "algorithms.ddp_comm_hooks.post_localSGD_hook": ["PostLocalSGDState", "post_localSGD_hook"],
    "algorithms.ddp_comm_hooks.powerSGD_hook": ["PowerSGDState", "powerSGD_hook"],
    "algorithms.model_averaging.averagers": ["ModelAverager"],
    "fsdp.sharded_grad_scaler": ["ShardedGradScaler"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_several_processes_can_be_imported_and_is_refused_when_used(name: str):
    theirs = importlib.import_module(f"{require_torch().__name__}.distributed.{name}")
    ours = importlib.import_module(f"tdt.compat.distributed.{name}")
    for attribute in REFUSED[name]:
        value = getattr(ours, attribute)
        assert isinstance(value, type) == isinstance(getattr(theirs, attribute), type)
        assert not (isinstance(value, type) and isinstance(tdt.ones(1), value))
        with pytest.raises(
            NotImplementedError, match=f"^{attribute}: tdt (does not shard|has no meshes|averages|sends)"
        ):
            value(nn.Linear(1, 1))


def test_join_waits_for_nothing_in_one_process(alone):
    from tdt.compat.distributed.algorithms.join import Join

    model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
    with Join([model]):
        model(tdt.ones(1, 1)).sum().backward()
    assert model.module.weight.grad.tolist() == [[1]]


def test_join_is_refused_for_several_processes(alone, monkeypatch):
    from tdt.compat.distributed.algorithms import join

    monkeypatch.setattr(join, "get_world_size", lambda: 2)
    with pytest.raises(NotImplementedError, match="equally many batches"):
        join.Join([])
    join.Join([], enable=False)


@pytest.mark.parametrize("copied", [True, False])
def test_functional_collectives_of_one_process_return_copies_with_gradients(alone, monkeypatch, copied: bool):
    from tdt.compat.distributed import _functional_collectives as collectives

    if not copied:  # what several processes do
        monkeypatch.setattr(collectives, "_is_alone", lambda group: False)
    group = distributed.group.WORLD
    for call in (
        lambda x: collectives.all_reduce(x, "sum", group), lambda x: collectives.all_reduce(x, "avg", group),
        lambda x: collectives.all_gather_tensor(x, 1, group), lambda x: collectives.all_to_all_single(x, None, None, group),
        lambda x: collectives.all_to_all_single(x, [2], [2], group),
    ):  # fmt: skip
        x = tdt.arange(6.0).reshape(2, 3).requires_grad_()
        result = collectives.wait_tensor(call(x))
        (result**2).sum().backward()
        assert result is not x and tdt.equal(result.detach(), x.detach()) and tdt.equal(x.grad, 2 * x.detach())


PLACEMENTS = [lambda p: p.Replicate(), lambda p: p.Shard(1), lambda p: p.Partial(), lambda p: p.Partial("avg")]


@pytest.mark.parametrize("number", range(len(PLACEMENTS)))
def test_placements_describe_themselves_as_pytorchs(number: int):
    theirs = importlib.import_module(f"{require_torch().__name__}.distributed.tensor.placement_types")
    ours = importlib.import_module("tdt.compat.distributed.tensor.placement_types")
    answers = []
    for module in (ours, theirs):
        p = PLACEMENTS[number](module)
        answers.append([p.is_replicate(), p.is_shard(), p.is_shard(1), p.is_shard(0), p.is_partial(),
                        p.is_partial("sum"), p == PLACEMENTS[number](module), p == module.Shard(7)])  # fmt: skip
    assert answers[0] == answers[1]


def test_states_of_a_module_stay_in_a_group_of_one(alone):
    from tdt.compat.distributed.utils import _sync_module_states

    model = nn.Linear(2, 1)
    before = model.weight.tolist()
    _sync_module_states(model, distributed.group.WORLD, 250, 0, [])
    assert model.weight.tolist() == before


def test_several_processes_without_their_mpi_get_the_command_that_starts_them(monkeypatch: pytest.MonkeyPatch):
    from tdt.distributed import _launch

    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setenv("PMI_SIZE", "3")
    _launch.load_mpi.cache_clear()
    with pytest.raises(
        RuntimeError, match=r"^PMI_SIZE=3: .* started 3 processes, but MPI cannot be loaded .*\[mpi\].*-n 3 "
    ):
        distributed.init_process_group()
    monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace(rc=SimpleNamespace()))
    open_mpi = SimpleNamespace(Get_library_version=lambda: "Open MPI v5.0.11, package: x")
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", open_mpi)
    with pytest.raises(
        RuntimeError, match=r"MPICH's launcher has started 3 processes, but mpi4py uses Open MPI v5.0.11"
    ):
        distributed.init_process_group()
    assert not distributed.is_initialized()
    _launch.load_mpi.cache_clear()


def test_places_that_are_not_the_launchers_are_refused():
    for place in ({"world_size": 2}, {"rank": 1}, {"world_size": 0}):
        with pytest.raises(ValueError, match=r"this process is alone .* start several by MPI: mpirun -n N"):
            distributed.init_process_group(**place)


def test_collectives_with_gradients_of_one_process(alone):
    """In several processes: tests/mpi/collectives.py."""
    f = distributed.nn.functional
    x = tdt.arange(4.0, requires_grad=True)
    calls = [
        lambda: f.all_reduce(x), lambda: f.broadcast(x, 0), lambda: f.reduce(x, 0), lambda: f.all_gather(x)[0],
        lambda: f.gather(x, 0)[0], lambda: f.scatter([x * 1], 0), lambda: f.reduce_scatter(tdt.empty(4), [x * 1]),
        lambda: f.all_to_all([tdt.empty(4)], [x * 1])[0], lambda: f.all_to_all_single(tdt.empty(4), x * 1),
    ]  # fmt: skip
    for call in calls:
        result = call()
        assert tdt.equal(result.detach(), x.detach())
        (grad,) = tdt.autograd.grad((result**3).sum(), x, create_graph=True)
        assert tdt.allclose(grad, 3 * x.detach() ** 2)
        assert tdt.allclose(tdt.autograd.grad(grad.sum(), x)[0], 6 * x.detach())
    assert distributed.nn.all_reduce is f.all_reduce


def test_a_mesh_of_devices_is_refused():
    with pytest.raises(NotImplementedError, match="no meshes of devices"):
        distributed.init_device_mesh("cpu", (1,))
    assert not isinstance(None, distributed.DeviceMesh)
