"""Modules as functions of their parameters, against PyTorch's."""

import importlib

import pytest

import tdt
from tests.nn._compare import agree_error, agree_on_program, torch


def func(lib):
    return importlib.import_module(f"{lib.__name__}.func")


def net(lib, seed=0):
    lib.manual_seed(seed)
    return lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3), lib.nn.Linear(3, 1, bias=False))


def tied(lib):
    model = net(lib)
    model.extra = lib.nn.Linear(2, 3)
    model.extra.weight = model[0].weight
    return model


def x(lib):
    return lib.tensor([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0]])


PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def other_parameters_take_part_and_get_the_gradients(lib):
    model = net(lib)
    replacements = {name: lib.full_like(p, 0.5).requires_grad_() for name, p in model.named_parameters()}
    func(lib).functional_call(model, replacements, (x(lib),)).square().sum().backward()
    own = [p.grad for p in model.parameters()]
    return own, {name: p.grad for name, p in replacements.items()}, model.state_dict()["0.weight"]


@program
def buffers_are_replaced_too_and_change_in_the_dictionary(lib):
    model = net(lib)
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    result = func(lib).functional_call(model, buffers, x(lib))
    return result, buffers, dict(model.named_buffers())


@program
def several_dictionaries_are_one(lib):
    model = net(lib)
    parts = [{"0.weight": lib.ones(3, 2)}, {"0.bias": lib.zeros(3)}]
    return func(lib).functional_call(model.eval(), parts, x(lib))


@program
def tied_names_are_replaced_together(lib):
    model, zero = tied(lib), lib.zeros(3, 2)
    alone = func(lib).functional_call(model[0], {"weight": zero}, (), {"input": x(lib)})
    model.forward = lambda x: (model[0](x), model.extra(x))
    both = func(lib).functional_call(model, {"0.weight": zero}, x(lib))
    one = func(lib).functional_call(model, {"0.weight": zero}, x(lib), tie_weights=False)
    same = func(lib).functional_call(model, {"0.weight": zero, "extra.weight": zero}, x(lib))
    return alone, both, one, same


@program
def a_new_name_is_there_for_the_call_alone(lib):
    model = lib.nn.Identity()
    model.forward = lambda x: x * model.scale
    return func(lib).functional_call(model, {"scale": lib.tensor(3.0)}, lib.ones(2)), hasattr(model, "scale")


@program
def parametrized_tensors_are_replaced(lib):
    model = lib.nn.utils.parametrizations.weight_norm(net(lib)[0])
    original = model.parametrizations.weight.original1
    replacements = {"parametrizations.weight.original1": lib.ones(3, 2)}
    return func(lib).functional_call(model, replacements, x(lib)), model.parametrizations.weight.original1 is original


@program
def an_error_leaves_the_module_as_it_was(lib):
    model = net(lib)
    own = dict(model.named_parameters())
    with pytest.raises(RuntimeError):
        func(lib).functional_call(model, {"0.weight": lib.ones(5, 5)}, x(lib))
    return all(own[name] is p for name, p in model.named_parameters())


@program
def strict_takes_every_name(lib):
    model = net(lib).eval()
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return func(lib).functional_call(model, state, x(lib), strict=True)


@program
def states_are_stacked(lib):
    parameters, buffers = func(lib).stack_module_state([net(lib, seed) for seed in range(3)])
    return parameters, buffers, [(p.requires_grad, p.is_leaf) for p in [*parameters.values(), *buffers.values()]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_module_called_as_a_function_does_as_in_pytorch(name):
    agree_on_program(PROGRAMS[name])


REFUSED = {
    "shared names": lambda lib: func(lib).functional_call(net(lib), [{"a": x(lib)}, {"a": x(lib)}], x(lib)),
    "no dictionaries": lambda lib: func(lib).functional_call(net(lib), [3], x(lib)),
    "no dictionary": lambda lib: func(lib).functional_call(net(lib), 3, x(lib)),
    "not every name": lambda lib: func(lib).functional_call(net(lib), {"0.weight": x(lib), "b": x(lib)}, x(lib), strict=True),
    "tied values": lambda lib: func(lib).functional_call(
        tied(lib), {"0.weight": lib.ones(3, 2), "extra.weight": lib.zeros(3, 2)}, x(lib)),
    "no tensor": lambda lib: func(lib).functional_call(net(lib), {"0.weight": 3}, x(lib)),
    "no such module": lambda lib: func(lib).functional_call(net(lib), {"9.weight": x(lib)}, x(lib)),
    "another attribute": lambda lib: func(lib).functional_call(net(lib), {"0.in_features": x(lib)}, x(lib)),
    "data parallel": lambda lib: func(lib).functional_call(lib.nn.DataParallel(net(lib)), {}, x(lib)),
    "no model": lambda lib: func(lib).stack_module_state([]),
    "two modes": lambda lib: func(lib).stack_module_state([net(lib), net(lib).eval()]),
    "two classes": lambda lib: func(lib).stack_module_state([net(lib), net(lib)[0]]),
    "half frozen": lambda lib: func(lib).stack_module_state([net(lib), net(lib).requires_grad_(False)]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_non_callable_is_refused_as_in_pytorch(name):
    agree_error(REFUSED[name], "but got <class 'int'>" if name == "no dictionary" else "")


def test_the_old_name_warns_and_calls():
    for lib in (tdt, torch):
        with pytest.warns(FutureWarning, match="stateless.functional_call` is deprecated as of PyTorch 2.0"):
            out = lib.nn.utils.stateless.functional_call(net(lib)[2], {"weight": lib.ones(1, 3)}, lib.ones(1, 3))
        assert out.tolist() == [[3.0]]
