"""Data parallelism: its parts on two devices, which here are the CPU twice, do together what the module does alone."""

from collections import namedtuple

import numpy as np
import pytest

import tdt
from tdt.nn.parallel import DataParallel, data_parallel, gather, parallel_apply, replicate, scatter
from tests.nn._compare import numbers, torch

TWO = ["cpu", "cpu"]
Pair = namedtuple("Pair", "a b")


def as_plain(value):
    if isinstance(value, tdt.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: as_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(as_plain(v) for v in value) if not hasattr(value, "_fields") else Pair(*map(as_plain, value))
    return value


def net():
    tdt.manual_seed(0)
    return tdt.nn.Sequential(tdt.nn.Linear(3, 4), tdt.nn.Tanh(), tdt.nn.Linear(4, 2, bias=False))


def test_arguments_are_split_along_the_batch():
    x = tdt.arange(5.0)
    assert as_plain(scatter(x, TWO)) == ([0, 1, 2], [3, 4])
    assert as_plain(scatter((x, "s"), TWO)) == [([0, 1, 2], "s"), ([3, 4], "s")]
    assert as_plain(scatter([x, [x, 1]], TWO)) == [[[0, 1, 2], [[0, 1, 2], 1]], [[3, 4], [[3, 4], 1]]]
    assert as_plain(scatter({"x": x, "n": None}, TWO)) == [{"x": [0, 1, 2], "n": None}, {"x": [3, 4], "n": None}]
    assert as_plain(scatter(Pair(x, 2), TWO)) == [Pair([0, 1, 2], 2), Pair([3, 4], 2)]
    assert as_plain(scatter(tdt.ones(2, 3), TWO, dim=1)) == ([[1, 1], [1, 1]], [[1], [1]])
    assert as_plain(scatter((tdt.ones(1), 3), TWO)) == [([1.0], 3)], "one sample keeps one device at work"


def test_results_are_joined():
    a, b = tdt.tensor([0.0]), tdt.tensor([1.0, 2.0])
    assert as_plain(gather([a, b], "cpu")) == [0, 1, 2]
    assert as_plain(gather([{"x": a, "y": None}, {"x": b, "y": None}], "cpu")) == {"x": [0, 1, 2], "y": None}
    assert as_plain(gather([Pair(a, [a]), Pair(b, [b])], "cpu")) == Pair([0, 1, 2], [[0, 1, 2]])
    assert as_plain(gather([tdt.tensor(1.0), tdt.tensor(2.0)], "cpu")) == [1, 2]
    with pytest.raises(ValueError, match="All dicts must have the same number of keys"):
        gather([{"x": a}, {}], "cpu")


def test_copies_compute_separately_and_their_gradients_are_summed():
    model, x = net(), tdt.from_numpy(numbers(5, 3))
    alone = model(x)
    alone.square().sum().backward()
    expected = [p.grad.numpy() for p in model.parameters()]
    model.zero_grad()
    copies = replicate(model, TWO)
    together = gather(parallel_apply(copies, scatter((x,), TWO)), "cpu")
    assert together.tolist() == alone.tolist()
    together.square().sum().backward()
    for p, gradient in zip(model.parameters(), expected, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), gradient, rtol=1e-5, atol=1e-6)
    assert [list(copied.parameters()) for copied in copies] == [[], []]
    assert repr(copies[0]) == repr(model)
    assert not replicate(model, ["cpu"], detach=True)[0](x).requires_grad


def test_copies_keep_the_shape_of_the_tree():
    model = tdt.nn.Sequential(tdt.nn.BatchNorm1d(2), tdt.nn.utils.parametrizations.weight_norm(tdt.nn.Linear(2, 2)))
    model.again = model[0]
    (copied,) = replicate(model.eval(), ["cpu"])
    assert copied.again is copied[0]
    assert not copied.training
    assert copied[0] is not model[0]
    assert [name for name, _ in copied.named_buffers()] == [name for name, _ in model.named_buffers()]
    x = tdt.ones(1, 2)
    assert copied[1](x).tolist() == model[1](x).tolist()


def test_calls_need_as_many_arguments_as_modules():
    for lib in (tdt, torch):
        with pytest.raises(AssertionError, match="The number of modules 1 is not equal to the number of inputs 2"):
            lib.nn.parallel.parallel_apply([lib.nn.ReLU()], [1, 2])


def test_without_a_gpu_the_module_is_called_as_it_is():
    results = []
    for lib in (tdt, torch):
        lib.manual_seed(0)
        model = lib.nn.DataParallel(lib.nn.Linear(2, 3), device_ids=[0], dim=1)
        assert model.device_ids == []
        assert list(model.state_dict()) == ["module.weight", "module.bias"]
        results.append((repr(model), model(lib.ones(4, 2)).tolist()))
    assert results[0][0] == results[1][0]
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-5)
    assert data_parallel(tdt.nn.ReLU(), (tdt.ones(2),), module_kwargs={}).tolist() == [1, 1]


def test_a_batch_is_scattered_to_at_most_as_many_devices_as_it_has_samples():
    model = DataParallel(net())
    args, named = model.scatter((tdt.ones(3, 3),), {"k": tdt.ones(3)}, TWO)
    assert as_plain(args) == (([[1] * 3] * 2,), ([[1] * 3],))
    assert as_plain(named) == ({"k": [1, 1]}, {"k": [1]})
    assert model.scatter((), {}, TWO) == (((),), ({},))
    assert as_plain(model.scatter((tdt.ones(1),), None, TWO)) == ((([1.0],),), ({},))


def test_on_several_devices_the_model_does_what_its_module_does(monkeypatch):
    model, x = DataParallel(net()), tdt.from_numpy(numbers(5, 3))
    monkeypatch.setattr(model, "device_ids", [tdt.device("cpu")] * 2)
    model.output_device = tdt.device("cpu")
    assert model(x).tolist() == model.module(x).tolist()
    monkeypatch.setattr(model, "device_ids", [tdt.device("cuda:0"), tdt.device("cuda:1")])
    with pytest.raises(RuntimeError, match="module must have its parameters and buffers on device cuda:0"):
        model(x)
