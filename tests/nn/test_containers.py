"""Containers of parameters and the corners of the other containers: each program goes as in PyTorch."""

import copy
import pickle
from collections import OrderedDict

import pytest

import tdt
from tests.nn._compare import agree_error, agree_on_program, torch

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def kinds(values):
    return [type(value).__name__ for value in values]


def layers(lib, names="abc"):
    return lib.nn.Sequential(OrderedDict((name, lib.nn.Linear(1, i)) for i, name in enumerate(names, 1)))


def parameters(lib):
    return lib.nn.ParameterList([lib.ones(1), lib.nn.Parameter(lib.zeros(2)), "text", None])


def table(lib):
    return lib.nn.ParameterDict({"b": lib.ones(1), "a": lib.nn.Parameter(lib.zeros(2)), "c": 3})


@program
def a_parameter_list_is_a_list_of_parameters(lib):
    values = parameters(lib)
    values.append(lib.ones(3)).extend([lib.ones(4), 5])
    values += [lib.ones(6)]
    values[-1] = lib.ones(7)
    values[0] = lib.nn.Parameter(lib.ones(8))
    part = values[1:7:2]
    return (kinds(values), kinds([part]), len(part), values[-1], values[2], [n for n, _ in values.named_parameters()],
            list(values.state_dict()), "0" in dir(values))  # fmt: skip


@program
def a_parameter_list_copies_and_pickles(lib):
    values = parameters(lib)
    return [(kinds(v), v[0], list(v.state_dict())) for v in (copy.deepcopy(values), pickle.loads(pickle.dumps(values)))]


@program
def a_parameter_dict_is_a_dict_of_parameters(lib):
    values = table(lib)
    values["d"] = lib.ones(4)
    values.update([("e", lib.ones(5)), ("b", lib.zeros(1))])
    values.update(OrderedDict(z=1, y=2))
    values.update(lib.nn.ParameterDict({"x": lib.ones(2)}))
    results = [list(values), list(reversed(values)), len(values), "d" in values, values.get("none", 7), values["b"]]
    results += [values.setdefault("f", lib.ones(1)), values.setdefault("a", 0), values.pop("c"), values.popitem()[0]]
    del values["e"]
    results += [list(values.keys()), kinds(values.values()), [k for k, _ in values.items()], list(values.state_dict())]
    results += [list(values.fromkeys(["p", "q"], 2).items()), list(values.copy())]
    values.clear()
    return [*results, len(values), list(values.parameters())]


@program
def parameter_dicts_are_joined(lib):
    one, two = lib.nn.ParameterDict({"a": 1, "b": 2}), lib.nn.ParameterDict({"b": 3, "c": lib.ones(1)})
    joined = one | two
    one |= two
    return list(joined.items()), list(one.items()), kinds([joined])


@program
def a_copied_parameter_dict_shares_its_parameters(lib):
    values = table(lib)
    return values.copy()["a"] is values["a"], copy.deepcopy(values)["a"] is values["a"]


@program
def sequentials_are_multiplied_and_added(lib):
    model = lib.nn.Sequential(lib.nn.Linear(1, 2), lib.nn.ReLU())
    doubled = model * 2
    tripled = 3 * model
    model *= 2
    return repr(doubled), repr(tripled), repr(model), doubled[0] is doubled[2], repr(layers(lib) + model)


@program
def several_are_popped_at_once(lib):
    model = layers(lib, "abcd")
    popped = model.pop(slice(1, 3))
    return repr(popped), repr(model)


@program
def a_module_list_is_changed_in_place(lib):
    parts = lib.nn.ModuleList([lib.nn.ReLU(), lib.nn.Tanh(), lib.nn.Sigmoid()])
    parts[1] = lib.nn.Linear(1, 1)
    parts[-1] = lib.nn.Identity()
    del parts[0]
    parts.extend(lib.nn.ModuleList([lib.nn.GELU()])).append(lib.nn.Tanh())
    popped = parts.pop(-1)
    del parts[:1]
    return repr(parts), repr(popped), [n for n, _ in parts.named_modules()], "0" in dir(parts)


@program
def a_module_dict_is_changed_in_place(lib):
    parts = lib.nn.ModuleDict([("b", lib.nn.ReLU()), ["a", lib.nn.Tanh()]])
    parts.update({"z": lib.nn.Identity(), "b": lib.nn.GELU()})
    del parts["a"]
    keys = list(parts.keys()), kinds(parts.values()), [k for k, _ in parts.items()], len(parts)
    parts.clear()
    return keys, repr(parts)


@program
def a_shared_parameter_is_listed_once(lib):
    weight = lib.nn.Parameter(lib.ones(1))
    model = lib.nn.ModuleDict({"a": lib.nn.ParameterList([weight]), "b": lib.nn.ParameterDict({"w": weight})})
    every = [n for n, _ in model.named_parameters(remove_duplicate=False)]
    return [n for n, _ in model.named_parameters()], every, list(model.state_dict())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_container_does_as_in_pytorch(name):
    agree_on_program(PROGRAMS[name])


REFUSED = {
    "index outside": lambda lib: parameters(lib)[4],
    "tensor to extend": lambda lib: parameters(lib).extend(lib.ones(2)),
    "number to extend": lambda lib: parameters(lib).extend(3),
    "list called": lambda lib: parameters(lib)(1),
    "dict called": lambda lib: table(lib)(1),
    "key that is no string": lambda lib: table(lib)[1],
    "key that is not there": lambda lib: table(lib)["none"],
    "deleted key that is not there": lambda lib: table(lib).__delitem__("none"),
    "no pairs": lambda lib: table(lib).update([3]),
    "triples": lambda lib: table(lib).update([(1, 2, 3)]),
    "number to update": lambda lib: table(lib).update(3),
    "pop of nothing": lambda lib: lib.nn.ParameterDict().popitem(),
    "modules without pairs": lambda lib: lib.nn.ModuleDict([3]),
    "modules in triples": lambda lib: lib.nn.ModuleDict([(1, 2, 3)]),
    "number as modules": lambda lib: lib.nn.ModuleDict(3),
    "number to a module list": lambda lib: lib.nn.ModuleList(3),
    "times nothing": lambda lib: layers(lib) * 0,
    "times text": lambda lib: layers(lib) * "2",
    "insert of no module": lambda lib: layers(lib).insert(0, 3),
    "insert far away": lambda lib: layers(lib).insert(9, lib.nn.ReLU()),
    "plus a list": lambda lib: layers(lib).__iadd__([1]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_container_refuses_what_pytorchs_refuses(name):
    clauses = {"index outside": "index 4 is out of range", "key that is no string": "Index given to ParameterDict",
               "times text": "unsupported operand type(s) for *", "number to update": "should be called with an iterable",
               "insert of no module": "module should be of type"}  # fmt: skip
    agree_error(REFUSED[name], clauses.get(name, ""))


def test_the_old_container_warns_and_takes_modules_by_name():
    for lib in (tdt, torch):
        with pytest.warns(FutureWarning, match="`nn.Container` is deprecated"):
            old = lib.nn.Container(a=lib.nn.ReLU())
        assert repr(old) == "Container(\n  (a): ReLU()\n)"
