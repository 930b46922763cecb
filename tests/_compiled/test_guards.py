"""What a compiled function depends on besides its arguments: each change of it counts, on tapes too."""

import enum
import functools
import logging
import math
import random
import re
import threading
import weakref
from array import array
from collections import OrderedDict, deque
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

import tdt
from tdt import distributions as D
from tdt import nn

CALLS = 6  # of which the last run natively


def agrees(function, change, *args):
    """Check a compiled function before and after a change against the function itself."""
    compiled = tdt.compile(function)
    for _ in range(CALLS):
        result = compiled(*args)
    assert result.tolist() == function(*args).tolist()
    change()
    for _ in range(CALLS):
        assert compiled(*args).tolist() == function(*args).tolist()
    return compiled


# Containers.

factors = {}


@pytest.mark.parametrize("before, after", [({2: 1.0}, {5: 1.0}), ({1: 1.0}, {1.0: 1.0}), ({1: 2.0, 3: 4.0}, {3: 4.0, 1: 2.0}),
                                           ({0.0: 1.0}, {-0.0: 1.0})])  # fmt: skip
def test_the_keys_of_a_dict_count(before, after):
    factors.clear()
    factors.update(before)

    def f(x):
        for k, (key, value) in enumerate(factors.items()):
            x = x * (k + 1) / (2 + key) + value
            x = x + 7 if isinstance(key, float) else x
            x = x / tdt.tensor(-1.0).copysign(tdt.tensor(float(key)))
        return x

    def change():
        factors.clear()
        factors.update(after)

    agrees(f, change, tdt.ones(2))


def test_the_order_of_an_ordered_dict_counts():
    powers = OrderedDict(a=2.0, b=3.0)

    def f(x):
        for power in powers.values():
            x = x * power + power
        return x

    agrees(f, lambda: powers.move_to_end("a"), tdt.ones(2))


def test_the_names_of_modules_count():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleDict({"relu": nn.Linear(2, 2), "tanh": nn.Linear(2, 2)})

        def forward(self, x):
            for name, layer in self.layers.items():
                x = getattr(tdt, name)(layer(x))
            return x

    model = Named()

    def change():
        first, second = model.layers.pop("relu"), model.layers.pop("tanh")
        model.layers["tanh"], model.layers["relu"] = first, second

    with tdt.no_grad():
        agrees(model.forward, change, tdt.ones(2))


@pytest.mark.parametrize("kind", [set, deque])
def test_the_types_of_other_items_count(kind):
    items = kind([1])

    def f(x):
        return x * 2 if all(isinstance(item, int) for item in items) else x * 3

    def change():
        items.clear()
        items.__class__.add(items, 1.0) if kind is set else items.append(1.0)

    agrees(f, change, tdt.ones(2))


def test_the_types_of_an_arguments_keys_count():
    function = tdt.compile(lambda d: d[1] * (2 if isinstance(next(iter(d)), int) else 3))
    for key in (1, 1, 1, 1.0, True, 1.0):
        assert function({key: tdt.ones(1)}).item() == (2 if isinstance(key, int) else 3)


# Settings.


@pytest.mark.filterwarnings("ignore:tdt.compile")
def test_the_default_device_counts():
    function = tdt.compile(lambda x: tdt.zeros(2) + 1)
    for _ in range(CALLS):
        assert function(tdt.ones(2)).device.type == "cpu"
    with tdt.device("meta"):
        assert function(1).device.type == "meta"
        assert function(tdt.ones(2, device="cpu")).device.type == "meta"
    assert function(tdt.ones(2)).device.type == "cpu"


@pytest.mark.filterwarnings("ignore:tdt.compile")
def test_checks_of_distributions_count():
    def f(scale):
        return D.Normal(tdt.zeros(1), scale).log_prob(tdt.ones(1))

    function = tdt.compile(f)
    for _ in range(CALLS):
        function(tdt.ones(1))
    D.Distribution.set_default_validate_args(False)
    try:
        assert str(function(-tdt.ones(1)).tolist()) == str(f(-tdt.ones(1)).tolist())
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="satisfy"):
        function(-tdt.ones(1))


# Attributes of a compiled module.


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.scale = nn.Linear(2, 2), 2.0
        self.register_buffer("shift", tdt.ones(2))

    def forward(self, x):
        return self.layer(x) * self.scale + self.shift + self.training


def test_what_is_set_on_a_compiled_module_is_set_on_the_module():
    model, x = Scaled(), tdt.ones(2)
    compiled = tdt.compile(model)
    for _ in range(CALLS):
        compiled(x)
    for name, value in {
        "scale": 3.0,
        "shift": tdt.zeros(2),
        "layer": nn.Linear(2, 2),
        "training": False,
        "other": 1,
    }.items():
        setattr(compiled, name, value)
        assert getattr(model, name) is value is getattr(compiled, name)
        assert compiled(x).tolist() == model(x).tolist()
    assert [*compiled.state_dict()] == [f"_orig_mod.{name}" for name in model.state_dict()]
    del compiled.other, compiled.shift
    assert not hasattr(model, "other") and not hasattr(model, "shift")


# Classes, functions and objects without a dictionary.


class Config:
    factor, sizes = 2.0, (1.0, 2.0)

    @staticmethod
    def shift(x):
        return x + 1


class Layer(nn.Module):
    sizes = (5.0, 7.0)

    def scaled(self, x):
        return x * 2

    def forward(self, x):
        return self.scaled(x) + sum(self.sizes)


class Special(Layer):
    pass


def configured(x):
    return Config.shift(x * Config.factor + sum(Config.sizes))


@pytest.mark.parametrize("owner, name, value", [
    (Config, "factor", 3.0), (Config, "sizes", (1.0, 3.0)), (Config, "shift", staticmethod(lambda x: x + 2)),
    (Layer, "sizes", (5.0, 8.0)), (Layer, "scaled", lambda self, x: x * 3), (Special, "scaled", lambda self, x: x * 3),
    (Special, "forward", lambda self, x: x * 4), (Special, "sizes", (5.0, 8.0))])  # fmt: skip
def test_attributes_of_classes_count(owner, name, value, monkeypatch):
    model = Special()
    agrees(lambda x: configured(model(x)), lambda: monkeypatch.setattr(owner, name, value, raising=False), tdt.ones(2))


def helper(x, factor=2.0, *, shift=1.0):
    return x * factor + shift + helper.more


helper.more = 1.0


def other(x, factor=2.0, *, shift=1.0):
    return x - 1


FUNCTION = {"__defaults__": (3.0,), "__kwdefaults__": {"shift": 2.0}, "__code__": other.__code__, "more": 2.0}


@pytest.mark.parametrize("name", FUNCTION)
def test_what_a_function_has_counts(name, monkeypatch):
    agrees(lambda x: helper(x) * 2, lambda: monkeypatch.setattr(helper, name, FUNCTION[name]), tdt.ones(2))


def test_a_keyword_default_that_is_replaced_in_its_dict_counts(monkeypatch):
    agrees(lambda x: helper(x) * 2, lambda: monkeypatch.setitem(helper.__kwdefaults__, "shift", 5.0), tdt.ones(2))


class Slots:
    __slots__ = ("__own", "unset", "value")

    def __init__(self):
        self.__own, self.value = 1.0, 2.0

    def set(self, value):
        self.__own = value

    def __call__(self, x):
        return x * self.__own + self.value


class Array(np.ndarray):
    pass


class Attributes(dict):
    pass


def test_slots_and_attributes_of_tensors_and_containers_count():
    slots, weight, names, view = Slots(), tdt.ones(2), Attributes(), {"k": 1.0}
    weight.factor, names.shift, proxy = 2.0, 1.0, MappingProxyType(view)

    def f(x):
        return slots(x) * weight * weight.factor + names.shift + proxy["k"]

    for change in (lambda: slots.set(3.0), lambda: setattr(slots, "value", 5.0), lambda: setattr(weight, "factor", 3.0),
                   lambda: setattr(names, "shift", 2.0), lambda: view.update(k=2.0)):  # fmt: skip
        agrees(f, change, tdt.ones(2))


@pytest.mark.parametrize(
    "array", [np.array([2.0, 3.0]), array("d", [2.0, 3.0]), bytearray([2, 3]), np.ones(2).view(Array)]
)
def test_numbers_in_arrays_count(array):
    agrees(lambda x: x * float(array[0]), lambda: array.__setitem__(0, 7), tdt.ones(2))


class Weak:
    value = 1.0


weak, generator, numbers = Weak(), random.Random(1), np.random.default_rng(0)
array_of_objects, many = np.array([2.0, None]), np.ones(20_000)
NOT_COMPARED = {
    "a weak reference": (lambda x, r=weakref.ref(weak): x * r().value, "type ReferenceType"),
    "a generator": (lambda x: x * 2 if generator.random() < 0.5 else x, "generator of random numbers, Random"),
    "its method": (lambda x, f=generator.random: x * 2 if f() < 0.5 else x, "generator of random numbers, Random"),
    "NumPy's generator": (lambda x: x * numbers.random(), "generator of random numbers, Generator"),
    "objects": (lambda x: x * array_of_objects[0], "array of more than"),
    "a long array": (lambda x: x * float(many[0]), "array of more than"),
    "a view of memory": (lambda x, m=memoryview(bytearray(2)): x * m[0], "type memoryview"),
}


@pytest.mark.parametrize("name", NOT_COMPARED)
def test_what_cannot_be_compared_is_refused(name):
    function, reason = NOT_COMPARED[name]
    with pytest.raises(RuntimeError, match=reason):
        tdt.compile(function, fullgraph=True)(tdt.ones(2))


RELATIONS = {
    "is_leaf": lambda x: x * 2 if x.is_leaf else x * 3,
    "_base": lambda x: x * 2 if x._base is None else x * 3,
    "_is_view": lambda x: x * 3 if x._is_view() else x * 2,
    "storage_offset": lambda x: x * (1 + x.storage_offset()),
    "_version": lambda x: x * (1 + x._version),
}


@pytest.mark.filterwarnings("ignore:tdt.compile")
@pytest.mark.parametrize("name", RELATIONS)
def test_where_an_argument_comes_from_is_refused(name):
    function, leaf = RELATIONS[name], tdt.arange(6.0, requires_grad=True)
    compiled = tdt.compile(function)
    plain, graph = (leaf.detach() * 1)[:2], leaf[:2] * 2
    others = leaf.detach()[2:4], tdt.ones(2), leaf[2:4], tdt.ones(2, requires_grad=True), tdt.ones(2).mul_(3)
    for x in (*[plain] * CALLS, *[graph] * CALLS, *others):
        assert compiled(x).tolist() == function(x).tolist()


class Mode(enum.Enum):
    ADD = 1


logger, lock = logging.getLogger(__name__), threading.Lock()
logger.addHandler(logging.StreamHandler())
COMMON = {
    "a logger": lambda x: logger.debug("called") or x * 2,
    "a lock": lambda x: x * (2 + lock.locked()),
    "an enum": lambda x, mode=Mode.ADD: x + mode.value if mode is Mode.ADD else x,
    "a path": lambda x, path=Path("a/b"): x * len(path.parts),
    "dtypes": lambda x, own=tdt.float64, numpys=np.dtype("f4"): x.to(own) * numpys.itemsize,
    "a device": lambda x, device=tdt.device("cpu"): x.to(device) * 2,
    "a NumPy number": lambda x, factor=np.float32(2): x * float(factor),
    "a partial": lambda x, f=functools.partial(tdt.add, other=2): f(x),
    "functions": lambda x, functions=(tdt.tanh, abs, math.sqrt, np.add): functions[0](x) * functions[2](4),
    "a pattern": lambda x, pattern=re.compile("a"): x * 2 if pattern.match("a") else x,
    "a cached function": lambda x, f=functools.cache(lambda k: k * 2): x * f(2),
    "a slice": lambda x, part=slice(1): x[part] * 2,
    "a class": lambda x, kinds=(nn.ReLU, Weak, Mode, int, OrderedDict): kinds[0]()(x) * kinds[1].value,
    "a Size": lambda x, size=tdt.Size([2]): x.expand(size) * 2,
}


@pytest.mark.parametrize("name", COMMON)
def test_what_common_functions_hold_is_taken(name):
    function, x = COMMON[name], tdt.ones(2)
    compiled = tdt.compile(function, fullgraph=True)
    for _ in range(CALLS):
        assert compiled(x).tolist() == function(x).tolist()
