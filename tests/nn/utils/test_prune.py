"""Pruning: masks, states and values are PyTorch's."""

import importlib

import pytest

import tdt
from tests.nn._compare import agree_error, agree_on_program, torch


def prune(lib):
    return importlib.import_module(f"{lib.__name__}.nn.utils.prune")


def layer(lib):
    lib.manual_seed(3)
    return lib.nn.Conv2d(3, 4, 2)


def scores(lib, *shape):
    lib.manual_seed(9)
    return lib.rand(*shape)


ONE = {
    "identity": lambda p, m, lib: p.identity(m, "weight"),
    "random": lambda p, m, lib: p.random_unstructured(m, "weight", 0.3),
    "random bias": lambda p, m, lib: p.random_unstructured(m, "bias", 2),
    "l1": lambda p, m, lib: p.l1_unstructured(m, "weight", amount=0.4),
    "l1 none": lambda p, m, lib: p.l1_unstructured(m, "weight", amount=0),
    "l1 all": lambda p, m, lib: p.l1_unstructured(m, "weight", amount=1.0),
    "l1 scores": lambda p, m, lib: p.l1_unstructured(m, "weight", 5, importance_scores=scores(lib, 4, 3, 2, 2)),
    "random slices": lambda p, m, lib: p.random_structured(m, "weight", amount=2, dim=0),
    "random slices from the end": lambda p, m, lib: p.random_structured(m, "weight", amount=0.5, dim=-1),
    "no random slices": lambda p, m, lib: p.random_structured(m, "weight", amount=0, dim=1),
    "l2 slices": lambda p, m, lib: p.ln_structured(m, "weight", amount=1, n=2, dim=1),
    "l1 slices": lambda p, m, lib: p.ln_structured(m, "weight", amount=0.5, n=1, dim=-2),
    "max slices": lambda p, m, lib: p.ln_structured(m, "weight", 1, float("inf"), 0, scores(lib, 4, 3, 2, 2)),
    "mask": lambda p, m, lib: p.custom_from_mask(m, "bias", mask=lib.tensor([0, 1, 0, 1])),
}
MANY = {
    "l1 after random": ["random", "l1"],
    "slices after entries": ["l1", "l2 slices"],
    "entries after slices": ["l2 slices", "random slices", "l1"],
    "mask after random": ["random bias", "mask"],
}


def pruned(names, lib):
    module = layer(lib)
    for name in names:
        lib.manual_seed(5)
        assert ONE[name](prune(lib), module, lib) is module
    return module


@pytest.mark.parametrize("name", [*ONE, *MANY])
def test_a_pruned_layer_is_pytorchs(name):
    def run(lib):
        module, x = pruned(MANY.get(name, [name]), lib), lib.ones(1, 3, 4, 4)
        module(x).square().sum().backward()
        gradients = {n: p.grad for n, p in module.named_parameters()}
        results = [dict(module.state_dict()), gradients, module.weight, prune(lib).is_pruned(lib.nn.Sequential(module))]
        which = "bias" if "bias" in name or "mask" in name else "weight"
        hook = next(iter(module._forward_pre_hooks.values()))
        results += [type(hook.call if lib is tdt else hook).__name__, len(module._forward_pre_hooks)]
        original = getattr(module, which + "_orig")
        prune(lib).remove(module, which)
        assert getattr(module, which) is original
        return [*results, dict(module.state_dict()), prune(lib).is_pruned(module), len(module._forward_pre_hooks)]

    agree_on_program(run)


def test_several_parameters_are_pruned_as_one():
    def run(lib):
        p, net = prune(lib), lib.nn.Sequential(layer(lib), lib.nn.Flatten(), lib.nn.Linear(4, 3))
        lib.manual_seed(4)
        lib.nn.init.uniform_(net[2].weight)
        p.l1_unstructured(net[0], "weight", 3)
        which = [(net[0], "weight"), (net[2], "weight"), (net[2], "bias")]
        p.global_unstructured(which, pruning_method=p.L1Unstructured, amount=0.25)
        p.global_unstructured(which[1:], p.L1Unstructured, {(net[2], "bias"): 10 * lib.ones(3)}, amount=3)
        return dict(net.state_dict())

    agree_on_program(run)


def test_a_method_prunes_a_tensor_too():
    def run(lib):
        p, t = prune(lib), lib.tensor([[1.0, -2.0], [0.5, 4.0]])
        mask = lib.tensor([[1.0, 1.0], [0.0, 1.0]])
        return [p.L1Unstructured(2).prune(t), p.L1Unstructured(1).prune(t, importance_scores=-t),
                p.LnStructured(1, 2, 0).prune(t, default_mask=mask), p.Identity().prune(t)]  # fmt: skip

    agree_on_program(run)


def test_a_users_method_is_called():
    def run(lib):
        p = prune(lib)

        class EverySecond(p.BasePruningMethod):
            PRUNING_TYPE = "unstructured"

            def compute_mask(self, t, default_mask):
                mask = default_mask.clone()
                mask.view(-1)[::2] = 0
                return mask

        module = layer(lib)
        EverySecond.apply(module, "bias")
        method = EverySecond.apply(module, "bias")
        return dict(module.state_dict()), type(method).__name__, len(method), [type(m).__name__ for m in method], type(
            method[0]).__name__  # fmt: skip

    agree_on_program(run)


def container(lib, *names):
    p = prune(lib)
    methods = []
    for name in names:
        methods.append(p.Identity())
        methods[-1]._tensor_name = name
    built = p.PruningContainer(methods[0])
    for method in methods[1:]:
        built.add_pruning_method(method)
    return built


REFUSED = {
    "amount": (lambda lib: prune(lib).l1_unstructured(layer(lib), "weight", 1.5), ""),
    "negative amount": (lambda lib: prune(lib).l1_unstructured(layer(lib), "weight", -1), ""),
    "text": (lambda lib: prune(lib).l1_unstructured(layer(lib), "weight", "half"), ""),
    "too many": (lambda lib: prune(lib).l1_unstructured(layer(lib), "bias", 5), ""),
    "too many again": (lambda lib: prune(lib).l1_unstructured(pruned(["random bias"], lib), "bias", 3), ""),
    "slices of a vector": (lambda lib: prune(lib).random_structured(layer(lib), "bias", 1, 0), "Structured pruning can only"),
    "no such dimension": (lambda lib: prune(lib).random_structured(layer(lib), "weight", 1, 4), "Invalid index 4 for tensor of"),
    "scores": (lambda lib: prune(lib).l1_unstructured(layer(lib), "bias", 1, lib.ones(3)), ""),
    "scores of a tensor": (lambda lib: prune(lib).Identity().prune(lib.ones(2), importance_scores=lib.ones(3)), ""),
    "mask": (lambda lib: prune(lib).custom_from_mask(layer(lib), "bias", lib.ones(3)), ""),
    "nothing to remove": (lambda lib: prune(lib).remove(layer(lib), "weight"), ""),
    "other name": (lambda lib: container(lib, "a", "b"), "Can only add pruning methods acting on the parameter named 'a'"),
    "no method": (lambda lib: container(lib, "a").add_pruning_method(3), ""),
    "no parameters": (lambda lib: prune(lib).global_unstructured(3, prune(lib).L1Unstructured, amount=1), ""),
    "scores in a list": (lambda lib: prune(lib).global_unstructured([], prune(lib).L1Unstructured, [1], amount=1), ""),
    "global slices": (
        lambda lib: prune(lib).global_unstructured([(layer(lib), "bias")], prune(lib).RandomStructured, amount=1),
        'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`'),
    "abstract": (lambda lib: prune(lib).BasePruningMethod(), "BasePruningMethod"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_to_prune_is_refused(name):
    call, clause = REFUSED[name]
    agree_error(call, clause)


@pytest.mark.parametrize("before", [[], ["random bias"]])
def test_a_pruning_that_fails_changes_nothing(before):
    module = pruned(before, tdt)
    state, hooks = list(module.state_dict()), list(module._forward_pre_hooks)
    with pytest.raises(ValueError, match="amount=9 should be smaller"):
        prune(tdt).l1_unstructured(module, "bias", 9)
    assert list(module.state_dict()) == state
    assert list(module._forward_pre_hooks) == hooks
    assert repr(module) == repr(layer(torch))
