"""What a compiled function depends on besides its arguments: each change of it counts, on tapes too."""

from collections import OrderedDict, deque

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
