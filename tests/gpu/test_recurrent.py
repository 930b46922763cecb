"""All steps of an LSTM or GRU by one kernel each way: against float64 on the CPU, padded and packed, with all threads."""

from __future__ import annotations

import pytest
from cupy import _raw

import tdt
from tdt import nn
from tdt._kernels import recurrent_gpu
from tdt._ops.nn.rnn import _shared

LENGTHS = tdt.tensor([6, 4, 1])


def passes(device: str, layers: nn.LSTM | nn.GRU, x: tdt.Tensor) -> list[tdt.Tensor]:
    """Results and gradients of a padded and a packed batch."""
    model = type(layers)(
        5, layers.hidden_size, layers.num_layers, bias=layers.bias, bidirectional=layers.bidirectional
    ).double()
    model.load_state_dict(layers.state_dict())
    model.to(device)
    leaf = x.detach().to(device).requires_grad_()
    results = []
    for batch in (leaf, nn.utils.rnn.pack_padded_sequence(leaf, LENGTHS)):
        out, states = model(batch)
        results += [getattr(out, "data", out) if batch is not leaf else out]
        results += [states] if isinstance(states, tdt.Tensor) else states
    sum((t * (k + 1)).square().sum() for k, t in enumerate(results)).backward()
    return [t.detach().cpu() for t in (*results, leaf.grad, *(p.grad for p in model.parameters()))]


@pytest.mark.parametrize("threads", [False, True], ids=["one thread", "all threads"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("size", [1, 37, 70])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_layers_have_the_results_and_gradients_of_the_cpu(
    kind: type, size: int, bias: bool, threads: bool, monkeypatch, counted
):
    monkeypatch.setattr(_raw, "all_threads", threads)
    tdt.manual_seed(size)
    layers = kind(5, size, 2, bias=bias, bidirectional=size != 70).double()
    x = tdt.randn(6, 3, 5, dtype=tdt.float64)
    with counted() as found:
        there = passes("cuda", layers, x)
    tdt.testing.assert_close(there, passes("cpu", layers, x), rtol=1e-12, atol=1e-12)
    names = [name for _, name, _ in found]
    sides = 2 * layers.num_layers * (2 if layers.bidirectional else 1)
    name = kind.__name__.lower()
    assert (names.count(name), names.count(f"{name}_vjp")) == (sides, sides)


def test_a_gru_goes_through_its_steps_in_one_launch_each_way(counted):
    layer, x = nn.GRU(5, 8).cuda(), tdt.randn(9, 3, 5).cuda().requires_grad_()
    with counted() as found:
        out, _ = layer(x)
    assert [name for _, name, _ in found] == ["fill", "cublasLtMatmul", "copy", "gru", "join"]
    g = tdt.ones_like(out)
    with counted() as found:
        out.backward(g)
    assert [name for _, name, _ in found] == ["gru_vjp", *["cublasLtMatmul"] * 3]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_batches_of_no_sequences_have_gradients(kind: type):
    layers, x = kind(5, 8).cuda(), tdt.ones(3, 0, 5).cuda().requires_grad_()
    out = layers(x)[0]
    out.sum().backward()
    assert out.shape == (3, 0, 8) and x.grad.shape == x.shape
    assert [p.grad.count_nonzero().item() for p in layers.parameters()] == [0] * 4


def test_gradients_of_the_first_state_and_second_derivatives_of_a_gru():
    results = []
    layer = nn.GRU(3, 4).double()
    x, h = tdt.randn(5, 2, 3, dtype=tdt.float64), tdt.randn(1, 2, 4, dtype=tdt.float64)
    for device in ("cuda", "cpu"):
        model = nn.GRU(3, 4).double()
        model.load_state_dict(layer.state_dict())
        leaves = [t.detach().to(device).requires_grad_() for t in (x, h)]
        last = model.to(device)(*leaves)[1]
        first = tdt.autograd.grad(last.square().sum(), leaves, create_graph=True)
        second = tdt.autograd.grad(sum(g.square().sum() for g in first), leaves)
        results.append([t.detach().cpu() for t in (*first, *second)])
    tdt.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [(nn.LSTM, {"proj_size": 3}), (nn.LSTM, {}), (nn.GRU, {})],
    ids=["projections", "many units", "GRU"],
)
def test_what_the_kernel_does_not_take_goes_step_by_step(kind: type, changes: dict, monkeypatch, counted):
    monkeypatch.setattr(recurrent_gpu, "LARGEST", 7)
    layers = kind(5, 8, **changes)
    x, results = tdt.randn(4, 2, 5), []
    for device in ("cuda", "cpu"):
        leaf = x.to(device).requires_grad_()
        with counted() as found:
            out = layers.to(device)(leaf)[0]
            out.square().sum().backward()
        assert not {"lstm", "gru"} & {name for _, name, _ in found}
        results.append([out.detach().cpu(), leaf.grad.cpu()])
    tdt.testing.assert_close(*results)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_what_one_stream_has_uploaded_is_read_by_others(kind: type):
    tdt.manual_seed(3)
    layer, x = kind(5, 8), tdt.randn(6, 3, 5)
    right = layer(nn.utils.rnn.pack_padded_sequence(x, LENGTHS))[0].data.detach()
    layer.cuda()
    there = nn.utils.rnn.pack_padded_sequence(x.cuda(), LENGTHS)
    tdt.cuda.synchronize()
    _shared._uploaded.cache_clear()
    with tdt.cuda.stream(tdt.cuda.Stream()):
        first = layer(there)[0].data.detach()
    with tdt.cuda.stream(tdt.cuda.Stream()):  # which waits for nothing of the other one
        tdt.testing.assert_close(layer(there)[0].data.detach().cpu(), right)
    tdt.cuda.synchronize()
    tdt.testing.assert_close(first.cpu(), right)
