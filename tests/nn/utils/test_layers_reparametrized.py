"""Weights that are computed anew for each call reach every kind of layer: recurrent ones, attention, bags of embeddings."""

import importlib

import pytest

import tdt
from tests.nn._compare import agree_on_program, near, of, same_state, torch

LAYERS = {
    "LSTM": (lambda nn: nn.LSTM(4, 3, 2), "weight_hh_l0", lambda m, x: m(x)[0]),
    "GRU": (lambda nn: nn.GRU(4, 3), "weight_ih_l0", lambda m, x: m(x)[0]),
    "GRUCell": (lambda nn: nn.GRUCell(4, 3), "weight_hh", lambda m, x: m(x[0])),
    "attention": (lambda nn: nn.MultiheadAttention(4, 2), "in_proj_weight", lambda m, x: m(x, x, x)[0]),
    "conv": (lambda nn: nn.Conv1d(2, 3, 2), "weight", lambda m, x: m(x)),
    "transposed conv": (lambda nn: nn.ConvTranspose1d(2, 3, 2), "weight", lambda m, x: m(x)),
    "batch norm": (lambda nn: nn.BatchNorm1d(2), "weight", lambda m, x: m(x)),
    "bilinear": (lambda nn: nn.Bilinear(4, 4, 2), "weight", lambda m, x: m(x, x)),
}  # fmt: skip


def doubled(lib, module, name):
    kind = type("Doubled", (lib.nn.Module,), {"forward": lambda self, x: 2 * x})
    return lib.nn.utils.parametrize.register_parametrization(module, name, kind())


WAYS = {
    "doubled": doubled,
    "weight norm": lambda lib, module, name: lib.nn.utils.parametrizations.weight_norm(module, name),
    "pruned": lambda lib, module, name: importlib.import_module(f"{lib.__name__}.nn.utils.prune").l1_unstructured(
        module, name, 0.5),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LAYERS)
def test_a_recomputed_weight_takes_part_in_every_call(name, way):
    make, weight, call = LAYERS[name]
    x = (torch.arange(40.0).reshape(5, 2, 4) / 20 - 1).double().numpy()
    ours, theirs = (WAYS[way](lib, make(lib.nn).double(), weight) for lib in (tdt, torch))
    same_state(ours, theirs)
    for _ in range(2):
        results = [call(m, of(lib, x)) for lib, m in ((tdt, ours), (torch, theirs))]
        near(*results, "result")
        for result in results:
            result.square().sum().backward()
        for (n, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            near(p.grad, q.grad, f"gradient of {n}")
            p.data -= 0.1 * p.grad
            q.data -= 0.1 * q.grad


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_called_with_other_weights(name):
    make, _, call = LAYERS[name]

    def run(lib):
        func = importlib.import_module(f"{lib.__name__}.func")
        holder = lib.nn.Module()
        holder.layer = make(lib.nn).double()
        holder.forward = lambda x: call(holder.layer, x)
        weights = {n: lib.full_like(p, 0.1).requires_grad_() for n, p in holder.named_parameters()}
        x = lib.arange(40.0).reshape(5, 2, 4).double() / 20 - 1
        result = func.functional_call(holder, weights, x)
        result.square().sum().backward()
        return result, [p.grad for p in weights.values()], [p.grad for p in holder.parameters()]

    agree_on_program(run)
