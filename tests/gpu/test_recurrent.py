"""All steps of an LSTM by one kernel each way: against the CPU in float64, padded and packed, with all threads of a block."""

from __future__ import annotations

import pytest
from cupy import _raw

import tdt
from tdt import nn
from tdt._kernels import recurrent_gpu

LENGTHS = tdt.tensor([6, 4, 1])


def passes(device: str, layers: nn.LSTM, x: tdt.Tensor) -> list[tdt.Tensor]:
    """Results and gradients of a padded and a packed batch."""
    model = nn.LSTM(
        5, layers.hidden_size, layers.num_layers, bias=layers.bias, bidirectional=layers.bidirectional
    ).double()
    model.load_state_dict(layers.state_dict())
    model.to(device)
    leaf = x.detach().to(device).requires_grad_()
    out, (h, c) = model(leaf)
    packed, (ph, pc) = model(nn.utils.rnn.pack_padded_sequence(leaf, LENGTHS))
    results = [out, h, c, packed.data, ph, pc]
    sum((t * (k + 1)).square().sum() for k, t in enumerate(results)).backward()
    return [t.detach().cpu() for t in (*results, leaf.grad, *(p.grad for p in model.parameters()))]


@pytest.mark.parametrize("threads", [False, True], ids=["one thread", "all threads"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("size", [1, 37, 70])
def test_an_lstm_has_the_results_and_gradients_of_the_cpu(size: int, bias: bool, threads: bool, monkeypatch, counted):
    monkeypatch.setattr(_raw, "all_threads", threads)
    tdt.manual_seed(size)
    layers = nn.LSTM(5, size, 2, bias=bias, bidirectional=size != 70).double()
    x = tdt.randn(6, 3, 5, dtype=tdt.float64)
    with counted() as found:
        there = passes("cuda", layers, x)
    tdt.testing.assert_close(there, passes("cpu", layers, x), rtol=1e-12, atol=1e-12)
    names = [name for _, name, _ in found]
    sides = 2 * layers.num_layers * (2 if layers.bidirectional else 1)
    assert (names.count("lstm"), names.count("lstm_vjp")) == (sides, sides)


@pytest.mark.parametrize("changes", [{"proj_size": 3}, {}], ids=["projections", "many units"])
def test_what_the_kernel_does_not_take_goes_step_by_step(changes: dict, monkeypatch, counted):
    monkeypatch.setattr(recurrent_gpu, "LARGEST", 7)
    layers = nn.LSTM(5, 8, **changes)
    x = tdt.randn(4, 2, 5)
    with counted() as found:
        there = layers.cuda()(x.cuda())[0].cpu()
    assert "lstm" not in {name for _, name, _ in found}
    tdt.testing.assert_close(there, layers.cpu()(x)[0])
