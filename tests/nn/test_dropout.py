"""Dropout of every kind drops what PyTorch drops, to the bit, and reports invalid arguments."""

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, numbers

torch = require_torch()

SHAPES = {"dropout": (4, 5), "alpha_dropout": (4, 5), "feature_alpha_dropout": (4, 5, 3), "dropout1d": (4, 5, 3),
          "dropout2d": (4, 5, 3, 2), "dropout3d": (4, 5, 3, 2, 1)}  # fmt: skip
OF_TORCH = ["dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"]


def bits_and_gradients(call, shape, dtype="float32", turn=None):
    """`call(lib, x)` from one seed in both libraries: equal to the bit, and the generators go on alike."""
    results = []

    def run(lib, x):
        lib.manual_seed(3)
        y = call(lib, x if turn is None else x.permute(turn))
        results.append((y.detach().numpy(), y.stride(), lib.rand(1).item()))
        return y

    agree(run, numbers(*shape, dtype=dtype))
    (ours, our_strides, our_next), (theirs, their_strides, their_next) = results
    np.testing.assert_array_equal(ours, theirs)
    assert our_strides == their_strides
    assert our_next == their_next


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_each_kind_drops_what_pytorch_drops(name, inplace):
    for dtype in ("float32", "float64"):
        for p in (0.3, 1.0):
            bits_and_gradients(
                lambda lib, x, p=p: getattr(lib.nn.functional, name)(x * 1, p, True, inplace), SHAPES[name], dtype
            )


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.9])
def test_half_precision_rounds_the_scale_as_pytorch(name, dtype, p):
    results = []
    for lib in (tdt, torch):
        x = lib.tensor(numbers(*SHAPES[name]).tolist(), dtype=getattr(lib, dtype), requires_grad=True)
        lib.manual_seed(3)
        y = getattr(lib.nn.functional, name)(x, p, True)
        y.sum().backward()
        results.append([t.detach().float().numpy() for t in (y, x.grad)])
    np.testing.assert_array_equal(*results)


def test_dropout_keeps_one_byte_an_element_for_the_gradient():
    y = tdt.nn.functional.dropout(tdt.ones(100, 100, requires_grad=True), 0.5)
    assert sum(array.nbytes for array, _, _ in y.grad_fn.saved) == 100 * 100


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "dropout2d"])
def test_masks_have_the_memory_order_of_the_input(name):
    bits_and_gradients(lambda lib, x: getattr(lib.nn.functional, name)(x, 0.4, True), (2, 3, 4, 5), turn=(0, 3, 1, 2))


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "dropout2d", "feature_alpha_dropout"])
def test_gradients_lie_in_memory_as_pytorchs(name):
    found = []
    for lib in (tdt, torch):
        x = lib.from_numpy(numbers(3, 5, 2, 4)).transpose(0, 1).requires_grad_()
        y = getattr(lib.nn.functional, name)(x, 0.5, True)
        found += [[lib.autograd.grad(y, x, g, retain_graph=True)[0].stride() for g in (y.detach(), lib.ones(x.shape))]]
    assert found[0] == found[1]


@pytest.mark.parametrize(("name", "shape"), [("dropout1d", (5, 3)), ("dropout3d", (5, 3, 2, 2))])
@pytest.mark.parametrize("inplace", [False, True])
def test_channels_without_a_batch_are_dropped_as_pytorchs(name, shape, inplace):
    bits_and_gradients(lambda lib, x: getattr(lib.nn.functional, name)(x * 1, 0.5, True, inplace), shape)


@pytest.mark.parametrize("name", OF_TORCH)
def test_torchs_own_functions_and_their_forms_in_place_are_pytorchs(name):
    bits_and_gradients(lambda lib, x: getattr(lib, name)(x, p=0.4, train=True), (3, 4, 5))
    bits_and_gradients(lambda lib, x: getattr(lib, name + "_")(x * 1, 0.4, True), (3, 4, 5))
    x = tdt.ones(2, 3)
    assert getattr(tdt, name)(x, 0.5, False) is x
    assert getattr(tdt, name)(x, 0.0, True) is x


@pytest.mark.parametrize("name", ["Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"])
def test_layers_drop_in_training_alone(name):
    shape = (2, 6, *[2] * (int(name[7]) if name[7:8].isdigit() else 1))
    bits_and_gradients(lambda lib, x: getattr(lib.nn, name)(0.4)(x), shape)
    x = tdt.ones(*shape)
    assert getattr(tdt.nn, name)(0.4).eval()(x) is x


@pytest.mark.parametrize(("name", "shape"), [("dropout2d", (2, 3, 4)), ("dropout2d", (2, 3)), ("dropout3d", (2, 3, 4))])
def test_unusual_dimensions_warn_where_the_call_stands(name, shape):
    def run(lib, x):
        lib.manual_seed(3)
        with pytest.warns(UserWarning, match=f"{name}: Received a {len(shape)}-?D input") as caught:
            y = getattr(lib.nn.functional, name)(x)
        assert caught[0].filename == __file__
        return y

    agree(run, numbers(*shape))


REFUSED = {
    "functional": (lambda lib: lib.nn.functional.alpha_dropout(lib.ones(3), 1.5, True), ""),
    "torch's": (lambda lib: lib.alpha_dropout(lib.ones(3), 1.5, True), ""),
    "layer": (lambda lib: lib.nn.Dropout2d(-0.5), ""),
    "channels": (lambda lib: lib.feature_dropout(lib.ones(3), 0.5, True), ""),
    "dropout1d": (lambda lib: lib.nn.functional.dropout1d(lib.ones(3)), "Expected 2D or 3D input"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name):
    agree_error(*REFUSED[name])


@pytest.mark.parametrize("name", ["dropout", "dropout1d", "dropout2d", "dropout3d"])
@pytest.mark.parametrize("grad", [False, True])
def test_later_calls_of_one_shape_draw_pytorchs_further_masks(name, grad):
    torch = require_torch()
    shape = {"dropout": (3, 4), "dropout1d": (2, 3, 4), "dropout2d": (2, 3, 2, 2), "dropout3d": (2, 3, 2, 2, 2)}[name]
    found = []
    for t in (tdt, torch):
        t.manual_seed(5)
        leaf = t.arange(1.0, 1 + np.prod(shape)).reshape(shape).clone().requires_grad_(grad)
        with t.no_grad():
            unrecorded = leaf.view_as(leaf)
        values = []
        for x in (leaf, leaf.view_as(leaf), leaf, leaf, leaf.view_as(leaf), unrecorded, unrecorded, leaf):
            out = getattr(t.nn.functional, name)(x, 0.4)
            values.append(out.detach().numpy())
            if grad and x is not unrecorded:
                values.append(t.autograd.grad(out, x, t.ones_like(out) * 3)[0].numpy())
        found.append(values)
    for a, b in zip(*found, strict=True):
        assert a.tolist() == b.tolist()
