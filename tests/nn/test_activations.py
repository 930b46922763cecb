"""Activations where PyTorch's databases do not ask: special values, in place, their random numbers, warnings, refusals."""

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, agree_module, numbers

torch = require_torch()

SPECIAL_VALUES = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 3, -3, 0.5, -0.5, 1, -1, 6, 20, 21, -20, 89, -110], "float32"
)
ON_EVERY_NUMBER = ["hardtanh", "relu6", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "leaky_relu", "elu",
                   "celu", "selu", "logsigmoid", "relu"]  # fmt: skip


@pytest.mark.parametrize("name", [*ON_EVERY_NUMBER, "mish", "silu", "tanhshrink", "softsign"])
def test_special_values_and_bounds_are_pytorchs(name):
    # PyTorch's gradients at NaN hang on the size, and mish has one at inf, which PyTorch calls NaN.
    usual, found = SPECIAL_VALUES[1:] if name in ON_EVERY_NUMBER else SPECIAL_VALUES[3:], []
    for lib in (tdt, torch):
        function, x = getattr(lib.nn.functional, name), lib.from_numpy(usual.copy()).requires_grad_()
        function(x).backward(lib.ones(x.shape[0]))
        found.append((function(lib.from_numpy(SPECIAL_VALUES)).numpy(), x.grad.numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=5e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["mish", "silu", "softplus", "gelu", "elu", "logsigmoid", "hardswish"])
def test_gradients_of_float16_are_those_of_float32_rounded(name):
    found = []
    for dtype in (tdt.float16, tdt.float32):
        x = tdt.linspace(-30, 30, 241).to(dtype).requires_grad_()
        getattr(tdt.nn.functional, name)(x).sum().backward()
        found.append(x.grad.float().numpy())
    np.testing.assert_allclose(*found, rtol=4e-3, atol=2e-3)


@pytest.mark.parametrize("layer", ["Hardtanh", "ReLU6", "Hardsigmoid", "Hardswish", "Mish", "SELU", "CELU", "ELU", "SiLU",
                                   "LeakyReLU", "RReLU", "ReLU"])  # fmt: skip
def test_layers_in_place_write_into_their_input(layer):
    x = tdt.from_numpy(numbers(3, 4))
    want = getattr(tdt.nn, layer)().eval()(x)
    assert getattr(tdt.nn, layer)(inplace=True).eval()(x) is x
    np.testing.assert_array_equal(x.numpy(), want.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rrelu_draws_pytorchs_numbers_for_what_is_not_positive(dtype):
    drawn = []

    def run(lib, x):
        lib.manual_seed(3)
        y = lib.nn.functional.rrelu(x.transpose(0, 1), 0.1, 0.4, training=True)
        drawn.append((y.detach().numpy(), lib.rand(1).item()))
        return y

    agree(run, numbers(3, 5, dtype=dtype))
    assert (drawn[0][0] == drawn[1][0]).all() and drawn[0][1] == drawn[1][1]


def test_prelu_of_every_channel_count_is_pytorchs():
    agree_module(lambda lib: lib.nn.PReLU(4, 0.1), numbers(2, 4, 3, 3))
    agree(lambda lib, x, w: lib.nn.functional.prelu(x, w), numbers(2, 3), np.float32(0.3))
    agree(lambda lib, x, w: lib.nn.functional.prelu(x, w), numbers(3), numbers(1))
    for count in (1, 64):  # large ones take other ways
        agree(lambda lib, x, w: lib.nn.functional.prelu(x, w), numbers(4, 64, 16, 16), numbers(count))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_without_a_dimension_warns_where_it_was_called(name):
    def run(lib, x):
        with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name} has been deprecated") as caught:
            y = getattr(lib.nn.functional, name)(x)
        assert caught[0].filename == __file__
        return y

    agree(run, numbers(2, 3))
    agree(run, numbers(2, 3, 4))


def test_old_names_of_hardtanhs_bounds_warn():
    for lib in (tdt, torch):
        with pytest.warns(FutureWarning, match="`min_value` is deprecated and renamed to `min_val`"):
            assert lib.nn.Hardtanh(min_value=-3.0).min_val == -3.0


REFUSED = {
    "celu alpha": lambda lib: lib.nn.functional.celu(lib.ones(2), 0.0),
    "softshrink": lambda lib: lib.nn.functional.softshrink(lib.ones(2), -1.0),
    "glu odd": lambda lib: lib.nn.functional.glu(lib.ones(2, 3)),
    "glu scalar": lambda lib: lib.nn.functional.glu(lib.ones(())),
    "glu dim": lambda lib: lib.nn.functional.glu(lib.ones(2, 4), 5),
    "prelu count": lambda lib: lib.nn.functional.prelu(lib.ones(2, 3), lib.ones(2)),
    "prelu dtype": lambda lib: lib.nn.functional.prelu(lib.ones(2, 3), lib.ones(3).double()),
    "prelu ndim": lambda lib: lib.nn.functional.prelu(lib.ones(2, 3), lib.ones(3, 1)),
    "prelu scalar": lambda lib: lib.nn.functional.prelu(lib.ones(()), lib.ones(3)),
    "Hardtanh": lambda lib: lib.nn.Hardtanh(1.0, 1.0),
    "Softmax2d": lambda lib: lib.nn.Softmax2d()(lib.ones(2)),
    "leaf": lambda lib: lib.nn.functional.hardswish(lib.ones(2, requires_grad=True), inplace=True),
}
IN_OUR_WORDS = {
    "hardtanh ends": (lambda lib: lib.nn.functional.hardtanh(lib.ones(2), 1.0, 0.0), "min_val cannot be greater"),
    "hardtanh unsigned": (lambda lib: lib.nn.functional.hardtanh(lib.ones(2).byte()), "cannot do hardtanh on an unsigned"),
    "rrelu ends": (lambda lib: lib.nn.functional.rrelu(lib.ones(2), 0.5, 0.3), "Lower bound should be less than or equal"),
    "no tensor": (lambda lib: lib.nn.functional.mish(3.0), "must be Tensor, not float"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused_with_its_message(name):
    agree_error(REFUSED[name], "Not allow zero-dim input tensor" if name == "prelu scalar" else "")


@pytest.mark.parametrize("name", IN_OUR_WORDS)
def test_what_pytorch_refuses_is_refused(name):
    agree_error(*IN_OUR_WORDS[name])
