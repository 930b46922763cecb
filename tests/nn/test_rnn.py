"""Recurrent layers where PyTorch's module database does not ask: packed batches, dropout, projections, functions, copies."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, numbers, same_state

torch = require_torch()
LENGTHS = [3, 6, 1, 3]


def packed(lib, x, sort=True):
    """Sequences of x (N, T, I) of the lengths above."""
    return lib.nn.utils.rnn.pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=not sort)


def pair(kind, *args, **options):
    """The layer in both libraries, with the same float64 parameters."""
    ours, theirs = (getattr(lib.nn, kind)(*args, **options).double() for lib in (tdt, torch))
    same_state(ours, theirs)
    return ours, theirs


def flat(result):
    return tuple(t for r in result for t in (flat(r) if isinstance(r, tuple) else (r,)) if t is not None)


@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True}, {"proj_size": 2, "bias": False}], ids=str
)
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_packed_batches_in_any_order_are_pytorchs(kind, options):
    if kind != "LSTM" and "proj_size" in options:
        options = {"bias": False, "nonlinearity": "relu"} if kind == "RNN" else {"bias": False}
    ours, theirs = pair(kind, 3, 4, **options)
    sides = (2 if options.get("bidirectional") else 1) * options.get("num_layers", 1)
    states = [numbers(sides, 4, options.get("proj_size", 4), dtype="float64", seed=1)]
    states += [numbers(sides, 4, 4, dtype="float64", seed=2)] if kind == "LSTM" else []

    def run(lib, x, *hx):
        layer = ours if lib is tdt else theirs
        out, last = layer(packed(lib, x), hx if kind == "LSTM" else hx[0])
        alone, _ = layer(packed(lib, x))
        return (*flat(out), *(last if kind == "LSTM" else (last,)), alone.data)

    agree(run, numbers(4, 6, 3, dtype="float64"), *states)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bidirectional": True}], ids=str)
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_dropout_between_layers_draws_pytorchs_mask(kind, options):
    outs = []
    ours, theirs = (getattr(lib.nn, kind)(3, 4, 3, dropout=0.5, **options) for lib in (tdt, torch))
    same_state(ours, theirs)
    for lib, layer in ((tdt, ours), (torch, theirs)):
        lib.manual_seed(1)
        x = lib.from_numpy(numbers(5, 2, 3))
        outs.append((layer(x)[0], layer(packed(lib, lib.from_numpy(numbers(4, 6, 3))))[0].data, layer.eval()(x)[0]))
    for a, b in zip(*outs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_the_functions_take_padded_and_packed_batches(kind, batch_first):
    layer = torch.nn.RNNBase(kind.upper(), 3, 4, 2, bidirectional=True).double()
    params = [p.detach().numpy() for p in layer.parameters()]
    states = [numbers(4, 2, 4, dtype="float64", seed=s) for s in range(2 if kind == "lstm" else 1)]

    def run(lib, x, *rest):
        hx, params = rest[: len(states)], list(rest[len(states) :])
        hx = hx if kind == "lstm" else hx[0]
        settings = True, 2, 0.0, False, True
        if x.ndim == 3:
            return getattr(lib, kind)(x, hx, params, *settings, batch_first)
        return getattr(lib, kind)(x, lib.tensor([2, 2, 1]), hx, params, *settings)

    agree(
        run, numbers(2, 5, 3, dtype="float64") if batch_first else numbers(5, 2, 3, dtype="float64"), *states, *params
    )
    agree(run, numbers(5, 3, dtype="float64"), *states, *params)


@pytest.mark.parametrize("kind", ["lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"])
@pytest.mark.parametrize("biases", [True, False])
def test_cells_are_pytorchs(kind, biases):
    rows = {"lstm_cell": 16, "gru_cell": 12}.get(kind, 4)
    states = [numbers(2, 4, seed=s) for s in range(2 if kind == "lstm_cell" else 1)]
    weights = [numbers(rows, 3), numbers(rows, 4, seed=1), *([numbers(rows), numbers(rows, seed=1)] if biases else [])]

    def run(lib, x, *rest):
        hx = rest[: len(states)]
        return getattr(lib, kind)(x, hx if kind == "lstm_cell" else hx[0], *rest[len(states) :])

    agree(run, numbers(2, 3), *states, *weights)


def test_a_cell_refuses_what_does_not_fit_as_pytorch_does():
    def cell(lib, x=(2, 3), h=(2, 4), c=(2, 4), w=16):
        z = lib.zeros
        return lib.lstm_cell(z(x), (z(h), z(c)), z(w, 3), z(w, 4), z(w), z(w))

    for sizes in ({"x": (2, 2)}, {"h": (2, 5)}, {"c": (2, 5)}, {"h": (3, 4)}):
        agree_error(lambda lib, sizes=sizes: cell(lib, **sizes))
    agree_error(lambda lib: cell(lib, w=15))
    agree_error(lambda lib: lib.lstm_cell(lib.zeros(2, 3), (lib.zeros(2, 4),), lib.zeros(16, 3), lib.zeros(16, 4)))


def test_functions_refuse_empty_sequences_missing_parameters_and_states():
    def lstm(lib, steps=5, states=2, params=4):
        z = lib.zeros
        parameters = [z(16, 3), z(16, 4), z(16), z(16)][:params]
        return lib.lstm(z(steps, 2, 3), (z(1, 2, 4),) * states, parameters, True, 1, 0.0, False, False, False)

    agree_error(lambda lib: lstm(lib, steps=0))
    agree_error(lambda lib: lstm(lib, states=1))
    with pytest.raises(RuntimeError, match="incorrect number of RNN parameters"):
        lstm(tdt, params=3)
    with pytest.raises(RuntimeError, match="must not grow"):
        tdt.gru(tdt.zeros(3, 3), tdt.tensor([1, 2]), tdt.zeros(1, 1, 4), [], True, 1, 0.0, False, False)
    with pytest.raises(RuntimeError, match=r"w_hh of layer 0 to have the input's dtype tdt.float64, got tdt.float32"):
        tdt.rnn_tanh(tdt.zeros(1, 1, 1).double(), tdt.zeros(1, 1, 1).double(), [tdt.zeros(1, 1).double(), tdt.zeros(1, 1)],
                     False, 1, 0.0, False, False, False)  # fmt: skip


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_layers_refuse_states_and_inputs_as_pytorch_does(kind):
    def call(lib, x, h):
        z = lib.zeros
        layer = getattr(lib.nn, kind)(3, 4)
        hx = None if h is None else (z(h), z(h)) if kind == "LSTM" else z(h)
        return layer(z(x), hx)

    for x, h in (
        ((1, 2, 3, 4), None),
        ((1, 2, 4), None),
        ((1, 2, 3), (1, 4)),
        ((2, 3), (1, 1, 4)),
        ((2, 2, 3), (1, 1, 4)),
    ):
        agree_error(lambda lib, x=x, h=h: call(lib, x, h))
    agree_error(lambda lib: getattr(lib.nn, kind)(3, 4)(packed(lib, lib.zeros(4, 6, 2))), "Expected 3, got 2")
    agree_error(lambda lib: getattr(lib.nn, kind)(3, 4)(lib.zeros(2, 2, 3).double()))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_batches_of_no_sequences_are_pytorchs(kind):
    def call(lib, model):
        x = lib.ones(3, 0, 2, dtype=lib.float64, requires_grad=True)
        out, states = model(x)
        out.sum().backward()
        return *flat((out, states)), x.grad, *(p.grad for p in model.parameters())

    ours, theirs = pair(kind, 2, 3)
    for found, expected in zip(call(tdt, ours), call(torch, theirs), strict=True):
        assert tuple(found.shape) == tuple(expected.shape) and found.tolist() == expected.tolist()


def test_dropout_of_a_single_layer_warns():
    for lib in (tdt, torch):
        with pytest.warns(UserWarning, match="dropout option adds dropout after all but last recurrent layer"):
            lib.nn.GRU(2, 3, dropout=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tdt.nn.GRU(2, 3, 2, dropout=0.5)


def test_copies_pickles_and_replaced_parameters_are_used():
    layer = tdt.nn.LSTM(2, 3, 2, proj_size=1)
    x = tdt.from_numpy(numbers(4, 2, 2))
    expected = layer(x)[0]
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert (other(x)[0] == expected).all()
        other.weight_hr_l0.data.fill_(0)
        assert not (other(x)[0] == expected).all()
    assert (layer(x)[0] == expected).all()
    layer.weight_ih_l0 = tdt.nn.Parameter(tdt.zeros(12, 2))
    assert layer.all_weights[0][0] is layer.weight_ih_l0
    assert not (layer(x)[0] == expected).all()
    layer.flatten_parameters()
    assert [p.dtype for p in layer.double()._flat_weights] == [tdt.float64] * 10


def test_writing_into_the_output_before_backward_is_noticed():
    for kind in ("RNN", "LSTM", "GRU"):
        out, _ = getattr(tdt.nn, kind)(2, 3)(tdt.ones(4, 1, 2))
        out.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def test_results_may_be_detached_in_place():
    for lib in (tdt, torch):
        for kind in ("RNN", "GRU"):
            for t in getattr(lib.nn, kind)(2, 3)(lib.ones(4, 1, 2)):
                assert not t.detach_().requires_grad


def test_second_derivatives_of_layers_are_pytorchs():
    for kind in ("RNN", "LSTM", "GRU"):
        ours, theirs = pair(kind, 2, 3, 2, bidirectional=True)

        def run(lib, x, ours=ours, theirs=theirs):
            out, _ = (ours if lib is tdt else theirs)(x)
            (g,) = lib.autograd.grad((out * out).sum(), x, create_graph=True)
            return (g * g).sum()

        agree(run, numbers(3, 2, 2, dtype="float64"))


def test_the_meta_pass_computes_shapes_and_flops():
    from tdt.autograd._meta import meta, stand_in

    with meta() as counts:
        out, (h, c) = tdt.nn.LSTM(3, 8, 2, bidirectional=True, proj_size=5)(stand_in((4, 2, 3)))
    assert (out.shape, h.shape, c.shape) == ((4, 2, 10), (4, 2, 5), (4, 2, 8))
    assert counts.flops == 8 * 2 * ((32 * 3 + 32 * 5 + 5 * 8) + (32 * 10 + 32 * 5 + 5 * 8))
