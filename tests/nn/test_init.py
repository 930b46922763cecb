"""Initialisation gives PyTorch's numbers for the same seed: bit for bit from the uniform generator, else within 4 ulp."""

import numpy as np
import pytest

import tdt
from tests.nn._compare import agree_error, torch

LAYERS = {
    "linear": lambda nn: nn.Linear(30, 20),
    "linear without bias": lambda nn: nn.Linear(7, 3, bias=False),
    "conv": lambda nn: nn.Conv2d(6, 9, (3, 5), groups=3),
    "conv1d": lambda nn: nn.Conv1d(2, 3, 4),
    "cnn": lambda nn: nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10)),
    "batch norm": lambda nn: nn.BatchNorm2d(4),
    "layer norm": lambda nn: nn.LayerNorm((2, 3)),
}


@pytest.mark.parametrize("seed", [0, 1, 12345])
@pytest.mark.parametrize("name", LAYERS)
def test_default_initialisation_equals_pytorchs_bit_for_bit(name, seed):
    ours, theirs = ({}, {})
    for lib, states in ((tdt, ours), (torch, theirs)):
        lib.manual_seed(seed)
        states.update(LAYERS[name](lib.nn).state_dict())
    assert list(ours) == list(theirs)
    for key in theirs:
        assert ours[key].numpy().tobytes() == theirs[key].numpy().tobytes(), key


def test_float64_layers_start_as_pytorchs():
    values = []
    for lib in (tdt, torch):
        lib.manual_seed(0)
        values.append(lib.nn.Linear(5, 4, dtype=lib.float64).weight.detach().numpy())
    assert values[0].tobytes() == values[1].tobytes()


def test_lazy_linear_draws_at_its_first_input_as_pytorchs_does():
    values = []
    for lib in (tdt, torch):
        lib.manual_seed(0)
        model = lib.nn.Sequential(lib.nn.LazyLinear(6), lib.nn.Linear(6, 2))
        model(lib.ones(3, 5))
        values.append([p.detach().numpy() for p in model.parameters()])
    for a, b in zip(*values, strict=True):
        assert a.tobytes() == b.tobytes()


EXACT = {
    "uniform_": lambda init, t: init.uniform_(t, -2, 3),
    "constant_": lambda init, t: init.constant_(t, 0.3),
    "ones_": lambda init, t: init.ones_(t),
    "zeros_": lambda init, t: init.zeros_(t),
    "xavier_uniform_": lambda init, t: init.xavier_uniform_(t, gain=1.4),
    "kaiming_uniform_": lambda init, t: init.kaiming_uniform_(t, a=0.2),
    "kaiming_uniform_ fan_out": lambda init, t: init.kaiming_uniform_(t, mode="fan_out", nonlinearity="relu"),
}
CLOSE = {
    "normal_": lambda init, t: init.normal_(t, 1, 2),
    "xavier_normal_": lambda init, t: init.xavier_normal_(t),
    "kaiming_normal_": lambda init, t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
    "kaiming_normal_ tanh": lambda init, t: init.kaiming_normal_(t, nonlinearity="tanh"),
    "kaiming_normal_ selu": lambda init, t: init.kaiming_normal_(t, nonlinearity="selu"),
}


def filled(lib, fill, shape, dtype="float32"):
    lib.manual_seed(7)
    return fill(lib.nn.init, lib.empty(*shape, dtype=getattr(lib, dtype))).numpy()


@pytest.mark.parametrize("shape", [(3, 5), (40, 30), (8, 4, 3, 3)], ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_functions_on_uniform_numbers_equal_pytorchs_bit_for_bit(name, shape):
    assert filled(tdt, EXACT[name], shape).tobytes() == filled(torch, EXACT[name], shape).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 5), (40, 30), (8, 4, 3, 3)], ids=str)
@pytest.mark.parametrize("name", CLOSE)
def test_functions_on_normal_numbers_equal_pytorchs_within_4_ulp(name, shape, dtype):
    ours, theirs = (filled(lib, CLOSE[name], shape, dtype) for lib in (tdt, torch))
    # A sum with the mean cancels: the unit is that of the largest number that entered it.
    unit = np.spacing(np.maximum(np.abs(theirs), 1 if name == "normal_" else 0).astype(dtype))
    assert (np.abs(ours - theirs) <= 4 * unit).all()


@pytest.mark.parametrize("bounds", [(0.5, 2.0, -1.0, 2.0), (0.0, 1.0, -2.0, 2.0), (0.0, 1.0, 1.5, 4.0)], ids=str)
def test_trunc_normal_stays_inside_and_is_pytorchs(bounds):
    def fill(init, t):
        return init.trunc_normal_(t, *bounds)

    ours, theirs = (filled(lib, fill, (50, 40)) for lib in (tdt, torch))
    assert ours.min() >= bounds[2]
    assert ours.max() <= bounds[3]
    assert (np.abs(ours - theirs) <= 4 * np.spacing(np.maximum(np.abs(theirs), 1).astype("float32"))).all()


def test_eye_and_dirac_are_pytorchs():
    for shape, fill in (((3, 5), lambda i, t: i.eye_(t)), ((4, 3, 3), lambda i, t: i.dirac_(t)),
                        ((6, 2, 3, 5), lambda i, t: i.dirac_(t, groups=2)),
                        ((2, 4, 3, 1, 2), lambda i, t: i.dirac_(t))):  # fmt: skip
        np.testing.assert_array_equal(filled(tdt, fill, shape), filled(torch, fill, shape))


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 7), (4, 2, 3)], ids=str)
def test_orthogonal_is_orthogonal_and_pytorchs(shape):
    def fill(init, t):
        return init.orthogonal_(t, gain=2.0)

    ours, theirs = (filled(lib, fill, shape, "float64") for lib in (tdt, torch))
    np.testing.assert_allclose(ours, theirs, atol=1e-8)
    flat = ours.reshape(shape[0], -1) / 2
    square = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
    np.testing.assert_allclose(square, np.eye(len(square)), atol=1e-12)


def test_sparse_zeroes_the_same_places_as_pytorch():
    ours, theirs = (filled(lib, lambda i, t: i.sparse_(t, 0.3), (10, 6)) for lib in (tdt, torch))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert ((ours == 0).sum(0) == 3).all()


def test_a_generator_is_used_and_leaves_the_global_one_alone():
    values = []
    for lib in (tdt, torch):
        lib.manual_seed(0)
        generator = lib.Generator().manual_seed(5)
        drawn = [
            fill(lib.empty(4, 5), generator=generator).numpy()
            for fill in (lib.nn.init.uniform_, lib.nn.init.xavier_uniform_)
        ]
        values.append([*drawn, lib.rand(3).numpy()])
    for a, b in zip(*values, strict=True):
        assert a.tobytes() == b.tobytes()


def test_initialising_records_nothing():
    layer = tdt.nn.Linear(3, 2)
    tdt.nn.init.ones_(layer.weight)
    assert layer.weight.is_leaf
    assert layer.weight.requires_grad


@pytest.mark.parametrize("call", [
    lambda i, e: i.xavier_uniform_(e(3)), lambda i, e: i.eye_(e(3)), lambda i, e: i.dirac_(e(3, 3)),
    lambda i, e: i.orthogonal_(e(3)), lambda i, e: i.sparse_(e(3), 0.1), lambda i, e: i.calculate_gain("foo"),
    lambda i, e: i.kaiming_uniform_(e(3, 3), mode="fan"), lambda i, e: i.calculate_gain("leaky_relu", "x")],
    ids=["xavier", "eye", "dirac", "orthogonal", "sparse", "gain", "mode", "slope"])  # fmt: skip
def test_what_cannot_be_initialised_is_refused_as_pytorch_refuses_it(call):
    agree_error(lambda lib: call(lib.nn.init, lib.empty), " ")


@pytest.mark.parametrize("name", ["linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"])
def test_gains_are_pytorchs(name):
    assert tdt.nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert tdt.nn.init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain("leaky_relu", 0.3)
