"""Layers that take a size from their first input: when they draw, what they become, what a loaded state does to them."""

import copy

import pytest

import tdt
from tests.helpers import require_torch
from tests.nn._compare import agree_error, near, numbers, same_state

torch = require_torch()

# name, arguments, a first input
LAYERS = [
    ("LazyLinear", (4,), (2, 3)),
    ("LazyConv1d", (4, 3), (2, 3, 5)),
    ("LazyConv2d", (4, 3, 1, 1), (3, 5, 5)),
    ("LazyConv3d", (4, 2), (2, 3, 3, 3, 3)),
    ("LazyConvTranspose1d", (4, 3, 2), (3, 5)),
    ("LazyConvTranspose2d", (4, 3, 2, 1, 1), (2, 3, 5, 5)),
    ("LazyConvTranspose3d", (4, 2), (2, 3, 2, 2, 2)),
    ("LazyBatchNorm1d", (), (4, 3)),
    ("LazyBatchNorm2d", (1e-3, None), (4, 3, 2, 2)),
    ("LazyBatchNorm3d", (1e-3, 0.2, False), (4, 3, 2, 2, 2)),
    ("LazyInstanceNorm1d", (), (4, 3, 5)),
    ("LazyInstanceNorm2d", (1e-3, 0.1, True, False), (4, 3, 2, 2)),
    ("LazyInstanceNorm3d", (1e-3, 0.1, False, True), (4, 3, 2, 2, 2)),
]
EVERY = pytest.mark.parametrize(("name", "args", "shape"), LAYERS, ids=[name for name, *_ in LAYERS])


@EVERY
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"dtype": "float64"}], ids=str)
def test_the_first_call_draws_what_pytorch_draws(name, args, shape, options):
    results = []
    for lib in (tdt, torch):
        dtype = getattr(lib, options.get("dtype", "float32"))
        layer = getattr(lib.nn, name)(*args, **{**options, "dtype": dtype})
        assert layer.has_uninitialized_params()
        lib.manual_seed(3)
        out = layer(lib.from_numpy(numbers(*shape)).to(dtype))
        results.append((layer, out))
    (ours, actual), (theirs, expected) = results
    assert type(ours).__name__ == type(theirs).__name__ == name.removeprefix("Lazy")
    assert repr(ours) == repr(theirs)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for key, value in theirs.named_parameters():
        assert ours.get_parameter(key).detach().numpy().tobytes() == value.detach().numpy().tobytes(), key
    for key, value in theirs.named_buffers():
        near(ours.get_buffer(key), value, key)
    near(actual, expected, "result")
    assert not ours._forward_pre_hooks


@EVERY
def test_a_loaded_state_sets_the_shapes_and_is_not_drawn_again(name, args, shape):
    lazy, theirs = getattr(tdt.nn, name)(*args), getattr(torch.nn, name)(*args)
    x = numbers(*shape)
    expected = theirs(torch.from_numpy(x))
    same_state(lazy, theirs)
    near(lazy(tdt.from_numpy(x)), expected, "result")
    assert repr(lazy) == repr(theirs)


@EVERY
def test_a_lazy_copy_is_initialized_by_its_own_first_call(name, args, shape):
    lazy = getattr(tdt.nn, name)(*args)
    other = copy.deepcopy(lazy)
    lazy(tdt.from_numpy(numbers(*shape)))
    assert other.has_uninitialized_params() and type(other).__name__ == name
    other(tdt.from_numpy(numbers(*shape)))
    assert type(other).__name__ == name.removeprefix("Lazy")


def test_instance_norm_without_a_batch_counts_its_channels():
    layer = tdt.nn.LazyInstanceNorm1d()
    assert layer(tdt.from_numpy(numbers(3, 5))).shape == (3, 5)
    assert layer.num_features == 3  # PyTorch takes the length here, and then refuses the input


def test_an_optimizer_keeps_its_parameters_over_the_first_call_of_a_lazy_module():
    layer = tdt.nn.LazyLinear(2)
    optimizer = tdt.optim.SGD(layer.parameters(), lr=1.0)
    layer(tdt.ones(1, 3)).sum().backward()
    before = layer.weight.detach().clone()
    optimizer.step()
    assert tdt.equal(layer.weight, before - 1)


@pytest.mark.parametrize("case", [
    lambda lib: lib.nn.LazyConv2d(4, 3)(lib.ones(3, 5)),
    lambda lib: lib.nn.LazyConv2d(4, 3, groups=2)(lib.ones(1, 3, 5, 5)),
    lambda lib: lib.nn.LazyConvTranspose1d(4, 3)(lib.ones(5)),
    lambda lib: lib.nn.LazyConv1d(4, 3, groups=0),
])  # fmt: skip
def test_refusals_have_pytorchs_class_and_clause(case):
    agree_error(case)


def test_a_users_lazy_class_is_initialized_by_its_first_call():
    results = []
    for lib in (tdt, torch):

        class Scale(lib.nn.Module):
            def __init__(self, size):
                super().__init__()
                self.weight = lib.nn.Parameter(lib.ones(size))

            def forward(self, x):
                return x * self.weight

        class LazyScale(lib.nn.modules.lazy.LazyModuleMixin, Scale):
            cls_to_become = Scale

            def __init__(self):
                super().__init__(0)
                self.weight = lib.nn.UninitializedParameter()

            def initialize_parameters(self, x):
                self.weight.materialize(x.shape[-1:])
                lib.nn.init.constant_(self.weight, 2)

        class Forgetful(LazyScale):
            def initialize_parameters(self, x):
                pass

        layer = LazyScale()
        results.append((layer(lib.ones(2, 3)).tolist(), type(layer).__name__))
        with pytest.raises(RuntimeError, match="Forgetful has not been fully initialized"):
            Forgetful()(lib.ones(1))
    assert results[0] == results[1]


def test_a_lazy_layer_without_initialize_parameters_raises():
    agree_error(lambda lib: lib.nn.modules.lazy.LazyModuleMixin().initialize_parameters()
                if lib is tdt else type("M", (lib.nn.modules.lazy.LazyModuleMixin, lib.nn.Module), {})().initialize_parameters(),
                "initialize_parameters is not implemented for ")  # fmt: skip
