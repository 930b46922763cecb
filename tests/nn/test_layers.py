"""Layers compute what PyTorch's compute, forward and backward, in training and evaluation, in both float types."""

import itertools

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, agree_module, numbers

torch = require_torch()

CONVOLUTIONS = [
    {}, {"stride": 2}, {"padding": 1}, {"padding": (2, 0)}, {"dilation": 2}, {"groups": 2}, {"groups": 4}, {"bias": False},
    {"padding": "same"}, {"padding": "valid"}, {"padding": "same", "dilation": (1, 2)},
     {"stride": (2, 1), "padding": 2, "dilation": (1, 2)},
    {"padding": 2, "padding_mode": "reflect"}, {"padding": (1, 2), "padding_mode": "replicate"},
    {"padding": 1, "padding_mode": "circular"}, {"padding": "same", "padding_mode": "reflect"},
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
def test_conv2d_is_pytorchs(options, dtype):
    agree_module(lambda lib: lib.nn.Conv2d(4, 8, 3, **options), numbers(2, 4, 7, 6, dtype=dtype))


@pytest.mark.parametrize("kernel", [1, 2, (2, 3), (1, 5)])
def test_conv2d_of_other_kernels_unbatched_is_pytorchs(kernel):
    agree_module(lambda lib: lib.nn.Conv2d(3, 5, kernel, padding="same"), numbers(3, 7, 6))


def test_conv1d_and_conv3d_are_pytorchs():
    agree_module(lambda lib: lib.nn.Conv1d(3, 4, 3, padding=1, stride=2), numbers(2, 3, 9))
    agree_module(lambda lib: lib.nn.Conv3d(2, 4, (1, 2, 3), padding=1), numbers(2, 2, 4, 5, 6))


@pytest.mark.parametrize("mode", ["input", "weight", "both"])
def test_convolution_of_channels_last_memory_is_pytorchs(mode):
    def run(lib, x, w, b):
        if mode != "weight":
            x = x.to(memory_format=lib.channels_last)
        if mode != "input":
            w = w.to(memory_format=lib.channels_last)
        y = lib.nn.functional.conv2d(x, w, b, padding=1)
        strides.append(y.stride())
        return lib.nn.functional.max_pool2d(lib.nn.functional.relu(y), 2).flatten(1)

    strides: list = []
    agree(run, numbers(2, 3, 6, 6), numbers(5, 3, 3, 3), numbers(5))
    assert strides[0] == strides[1], "the result lies in memory as PyTorch's does"


@pytest.mark.parametrize("n", [1, 2, 3])
def test_transposed_convolution_is_pytorchs(n):
    size, kernel = (5, 4, 3)[:n], (3, 2, 2)[:n]
    options = {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2, "dilation": 1}
    agree(lambda lib, *a: getattr(lib.nn.functional, f"conv_transpose{n}d")(*a, **options),
          numbers(2, 4, *size), numbers(4, 3, *kernel), numbers(6))  # fmt: skip


@pytest.mark.parametrize("options", [
    {"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": (2, 3), "stride": (2, 1)},
    {"kernel_size": 3, "stride": 1, "dilation": 2}, {"kernel_size": 3, "stride": 2, "ceil_mode": True, "padding": 1},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True}, {"kernel_size": 1}], ids=str)  # fmt: skip
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
def test_max_pool2d_is_pytorchs_and_the_first_of_equals_takes_the_gradient(options, last):
    ties = np.random.default_rng(0).integers(0, 3, (2, 3, 7, 8)).astype("float32")

    def run(lib, x):
        x = x.to(memory_format=lib.channels_last) if last else x
        return (lib.nn.MaxPool2d(**options)(x), *lib.nn.MaxPool2d(**options, return_indices=True)(x))

    agree(run, ties)


@pytest.mark.parametrize("options", [
    {"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": (3, 2), "ceil_mode": True},
    {"kernel_size": 3, "padding": 1, "count_include_pad": False, "ceil_mode": True, "stride": 2},
    {"kernel_size": 2, "divisor_override": 3}], ids=str)  # fmt: skip
def test_avg_pool2d_is_pytorchs(options):
    agree(lambda lib, x: lib.nn.AvgPool2d(**options)(x), numbers(2, 3, 7, 8))


@pytest.mark.parametrize("size", [1, 2, 3, (2, 5), (None, 3), (7, 8), (9, 10)], ids=str)
def test_adaptive_avg_pool2d_is_pytorchs(size):
    agree(lambda lib, x: lib.nn.AdaptiveAvgPool2d(size)(x), numbers(2, 3, 7, 8))


def test_pooling_of_one_dimension_without_a_batch_and_of_an_empty_one_is_pytorchs():
    agree(lambda lib, x: lib.nn.MaxPool2d(1, stride=3, dilation=2)(x), numbers(0, 3, 2, 7))
    agree(lambda lib, x: lib.nn.MaxPool1d(3, 2, 1)(x), numbers(2, 3, 9))
    agree(lambda lib, x: lib.nn.AvgPool1d(3, 2, 1)(x), numbers(3, 9))
    agree(lambda lib, x: lib.nn.AdaptiveAvgPool1d(4)(x), numbers(2, 3, 9))
    agree(lambda lib, x: lib.nn.MaxPool2d(2)(x), numbers(3, 4, 4))
    agree(lambda lib, x: lib.nn.functional.max_pool3d(x, 2), numbers(2, 3, 4, 4, 4))


def test_max_pool_finds_nan_and_infinities_as_pytorch_does():
    x = numbers(1, 2, 6, 6)
    x[0, 0, 1, 2], x[0, 1, 3, 3], x[0, 1, 4, 4] = np.nan, np.inf, -np.inf
    agree(lambda lib, t: lib.nn.MaxPool2d(3, 1, 1, return_indices=True)(t.detach()), x)


@pytest.mark.parametrize("options", [
    {}, {"affine": False}, {"momentum": None}, {"track_running_stats": False},
     {"eps": 0.1, "momentum": 0.3}], ids=str)  # fmt: skip
@pytest.mark.parametrize("train", [True, False])
def test_batch_norm_is_pytorchs(options, train):
    agree_module(lambda lib: lib.nn.BatchNorm2d(3, **options), numbers(4, 3, 5, 6), train=train, calls=2)
    agree_module(lambda lib: lib.nn.BatchNorm1d(3, **options), numbers(4, 3, dtype="float64"), train=train, calls=2)
    agree_module(lambda lib: lib.nn.BatchNorm1d(3, **options), numbers(4, 3, 5), train=train)


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_batch_norm_of_half_precision_computes_in_float32(kind, train):
    unit = {"float16": 2**-10, "bfloat16": 2**-7}[kind]  # from one number to the next, behind 1
    for layers, shape in (("float32", (4, 3, 5, 6)), (kind, (4, 3, 5, 6)), (kind, (2, 3, 1, 1))):
        results = []
        for lib in (tdt, torch):
            # PyTorch's all of half precision rounds its statistics before it uses them.
            layer = lib.nn.BatchNorm2d(3).to(getattr(lib, layers if lib is tdt else "float32")).train(train)
            x = lib.from_numpy(numbers(*shape)).to(getattr(lib, kind)).requires_grad_(True)
            layer(x).backward(lib.from_numpy(numbers(*shape, seed=1)).to(x.dtype))
            assert x.grad.dtype is x.dtype
            results.append([layer.running_mean, layer.running_var, layer.weight.grad, x.grad])
        exact = 1e-6 if layers == "float32" else unit
        for (a, b), tolerance in zip(zip(*results, strict=True), (exact, exact, unit, unit), strict=True):
            np.testing.assert_allclose(a.float().numpy(), b.float().numpy(), rtol=tolerance, atol=tolerance / 4)


TURNED = [
    lambda lib, x: lib.nn.functional.softmax(x, 1),
    lambda lib, x: lib.nn.functional.log_softmax(x, -1),
    lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True),
    lambda lib, x: lib.nn.functional.batch_norm(x, lib.zeros(3), lib.ones(3)),
]


@pytest.mark.parametrize("call", TURNED, ids=["softmax", "log_softmax", "training", "evaluation"])
@pytest.mark.parametrize("order", [(0, 3, 1, 2), (1, 0, 2, 3), (0, 1, 3, 2), (0, 1, 2, 3)], ids=str)
def test_a_result_of_a_transposed_input_has_pytorchs_strides(call, order):
    whole = numbers(*[(4, 3, 5, 6)[order.index(d)] for d in range(4)])
    ours, theirs = (call(lib, lib.from_numpy(whole).permute(*order)) for lib in (tdt, torch))
    assert tuple(ours.shape) == tuple(theirs.shape) == (4, 3, 5, 6)
    assert ours.stride() == theirs.stride()


def test_layer_and_group_norm_are_pytorchs():
    agree_module(lambda lib: lib.nn.LayerNorm((3, 4)), numbers(2, 3, 4))
    agree(lambda lib, x, w, b: lib.nn.functional.group_norm(x, 2, w, b), numbers(2, 4, 3, 3), numbers(4), numbers(4))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (0, 5)], ids=str)
def test_linear_is_pytorchs(shape, dtype):
    agree_module(lambda lib: lib.nn.Linear(5, 4), numbers(*shape, dtype=dtype))
    agree_module(lambda lib: lib.nn.Linear(5, 4, bias=False), numbers(*shape, dtype=dtype))


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
@pytest.mark.parametrize(("inside", "out"), [(0, 4), (5, 0), (0, 0)])
def test_linear_without_features_is_pytorchs(inside, out):
    for shape in ((inside,), (3, inside), (2, 3, inside), (0, inside), (2, 0, inside)):
        agree_module(lambda lib: lib.nn.Linear(inside, out), numbers(*shape))


@pytest.mark.parametrize("name", ["ReLU", "Sigmoid", "Tanh", "GELU", "SiLU", "LeakyReLU", "ELU", "Softplus"])
def test_activations_are_pytorchs(name):
    x = np.concatenate([numbers(50), [-100.0, 100.0, 25.0, -0.5, 88.0]]).astype("float32")
    agree(lambda lib, t: getattr(lib.nn, name)()(t), x)
    agree(lambda lib, t: getattr(lib.nn, name)()(t), x.astype("float64").reshape(5, 11))


def test_activation_options_are_pytorchs():
    agree(lambda lib, t: lib.nn.GELU(approximate="tanh")(t), numbers(5, 6))
    agree(lambda lib, t: lib.nn.ReLU(inplace=True)(t * 1), numbers(5, 6))
    agree(lambda lib, t: lib.nn.ReLU()(t), numbers(2, 4096))  # the path of large arrays
    agree(lambda lib, t: lib.nn.ReLU()(t.to(memory_format=lib.channels_last)), numbers(2, 32, 8, 8))


def test_relu_hands_infinite_gradients_on_and_stops_them_at_zero():
    import tdt

    x = tdt.tensor([1.0, -1.0, float("nan")], requires_grad=True)
    tdt.nn.functional.relu(x).backward(tdt.tensor([float("inf"), float("inf"), 2.0]))
    assert x.grad.tolist() == [float("inf"), 0.0, 2.0]


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
def test_softmax_is_pytorchs(name):
    for dim in (0, 1, -1):
        agree(lambda lib, t, dim=dim: getattr(lib.nn, name)(dim)(t), numbers(3, 4, 5))
    agree(lambda lib, t: getattr(lib.nn, name)(0)(t), np.float32(3.0))
    hostile = np.array([[np.inf, 0, 1], [-np.inf, -np.inf, -np.inf], [1e4, -1e4, 0]], "float32")
    agree(lambda lib, t: getattr(lib.nn, name)(1)(t.detach()), hostile)


def test_embedding_is_pytorchs():
    ids = np.array([[1, 2, 2], [0, 3, 1]])
    for options in (
        {},
        {"padding_idx": 1},
        {"scale_grad_by_freq": True},
        {"max_norm": 1.0},
        {"padding_idx": -1, "norm_type": 1.0},
    ):
        agree_module(lambda lib, options=options: lib.nn.Embedding(5, 3, **options), ids)


def test_the_gradient_of_a_sparse_embedding_is_sparse_and_equal():
    import tdt

    ids = np.array([[1, 2, 2], [0, 3, 1]])
    dense, sparse = (tdt.nn.Embedding(5, 3, padding_idx=0, sparse=s) for s in (False, True))
    sparse.load_state_dict(dense.state_dict())
    for layer in (dense, sparse):
        layer(tdt.from_numpy(ids)).pow(2).sum().backward()
    assert sparse.weight.grad.is_sparse
    assert not dense.weight.grad.is_sparse
    np.testing.assert_allclose(sparse.weight.grad.to_dense().numpy(), dense.weight.grad.numpy(), rtol=1e-6)


def test_dropout_scales_what_it_keeps_and_does_nothing_in_evaluation():
    import tdt

    tdt.manual_seed(0)
    x = tdt.ones(10_000, requires_grad=True)
    y = tdt.nn.Dropout(0.25)(x)
    nonzero = y.detach().numpy() != 0
    assert set(np.unique(y.detach().numpy())) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert abs(nonzero.mean() - 0.75) < 0.02
    y.sum().backward()
    assert (x.grad.numpy() == y.detach().numpy()).all()
    assert tdt.nn.Dropout(0.25).eval()(x) is x
    assert (tdt.nn.Dropout(1.0)(x).detach().numpy() == 0).all()


@pytest.mark.parametrize("shape", [(7,), (4, 5), (2, 3, 4, 4)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dropout_drops_what_pytorch_drops(shape, dtype):
    def run(lib, x):
        lib.manual_seed(3)
        return lib.nn.functional.dropout(x, 0.3), lib.nn.functional.dropout(x * 1, 0.3, inplace=True)

    agree(run, numbers(*shape, dtype=dtype))


def test_flatten_and_identity_are_pytorchs():
    agree(lambda lib, x: lib.nn.Flatten()(x), numbers(2, 3, 4))
    agree(lambda lib, x: lib.nn.Flatten(0, 1)(x), numbers(2, 3, 4))
    agree(lambda lib, x: lib.nn.Identity(3, nothing=4)(x), numbers(2, 3, 4))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
def test_pad_is_pytorchs(mode):
    for border in ((1, 2, 0, 2), (2, 0, 1, 1)):
        agree(lambda lib, x, border=border: lib.nn.functional.pad(x, border, mode=mode), numbers(2, 3, 4, 5))
    agree(lambda lib, x: lib.nn.functional.pad(x, (1, 2), mode=mode), numbers(2, 3, 4))
    agree(lambda lib, x: lib.nn.functional.pad(x, (-1, 2, 1, -1), value=3.0), numbers(2, 3, 4))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
def test_pad_crops_and_repeats_or_refuses_as_pytorch_does(mode):
    n = 4
    x = np.arange(1, n + 1, dtype=np.float32)[None]
    for before, after in itertools.product(range(-n - 2, n + 3), repeat=2):
        if mode == "circular" and n + min(before, 0) + min(after, 0) <= 0 < max(before, after):
            continue  # nothing is left to repeat: PyTorch returns memory as it is, or raises an error, by the side
        found = []
        for lib in (torch, tdt):
            try:
                found.append(lib.nn.functional.pad(lib.from_numpy(x), (before, after), mode=mode).tolist())
            except RuntimeError:
                found.append(None)
        assert found[0] == found[1], (before, after)


def test_weights_of_one_output_take_a_number_as_bias():
    for shape in ((2,), (2, 3, 2), (2, 1, 3, 2)):
        agree(lambda lib, x, w, b: lib.nn.functional.linear(x, w, b), numbers(*shape), numbers(2), numbers())
        x, w, b = (tdt.tensor(numbers(*size)) for size in (shape, (2,), ()))
        with tdt.no_grad():
            found = tdt.nn.functional.linear(x, w, b)
        assert tdt.allclose(found, (x * w).sum(-1) + b)


def test_cut_weights_that_are_not_contiguous_leave_the_memory_format():
    strides = []
    for lib in (torch, tdt):
        x, w = lib.ones(8, 1, 5, 9, 2), lib.ones(20, 1, 4, 4, 8)[..., ::2]
        strides.append(lib.nn.functional.conv3d(x, w, padding=(0, 1, 1)).stride())
    assert strides[0] == strides[1]


REFUSED = [
    lambda lib: lib.nn.functional.conv2d(lib.ones(1, 2, 5, 5), lib.ones(4, 3, 3, 3)),
    lambda lib: lib.nn.functional.conv2d(lib.ones(5, 5), lib.ones(4, 3, 3, 3)),
    lambda lib: lib.nn.functional.conv2d(lib.ones(1, 3, 2, 2), lib.ones(4, 3, 3, 3)),
    lambda lib: lib.nn.functional.conv2d(lib.ones(1, 3, 5, 5), lib.ones(4, 3, 3, 3), lib.ones(3)),
    lambda lib: lib.nn.functional.conv2d(lib.ones(1, 3, 5, 5), lib.ones(4, 3, 3, 3), stride=0),
    lambda lib: lib.nn.functional.conv2d(lib.ones(1, 3, 5, 5), lib.ones(4, 3, 3, 3), padding=-1),
    lambda lib: lib.nn.functional.conv2d(lib.ones(1, 3, 5, 5), lib.ones(4, 3, 3, 3), dilation=0),
    lambda lib: lib.nn.functional.conv2d(lib.ones(1, 4, 5, 5), lib.ones(3, 2, 3, 3), groups=2),
    lambda lib: lib.nn.functional.conv2d(lib.ones(1, 3, 5, 5), lib.ones(4, 3, 3, 3), stride=(1, 1, 1)),
    lambda lib: lib.nn.functional.conv2d(lib.ones(1, 3, 5, 5), lib.ones(4, 3, 3, 3), padding="sane"),
    lambda lib: lib.nn.functional.conv2d(lib.ones(1, 3, 5, 5), lib.ones(4, 3, 3, 3), padding="same", stride=2),
    lambda lib: lib.nn.functional.conv2d(lib.ones(1, 3, 5, 5), lib.ones(0, 3, 3, 3)),
    lambda lib: lib.nn.functional.conv2d(lib.ones(1, 3, 5, 5).double(), lib.ones(4, 3, 0, 3).double(), dilation=2),
    lambda lib: lib.nn.functional.max_pool2d(lib.ones(1, 3, 3, 3), 4),
    lambda lib: lib.nn.functional.max_pool2d(lib.ones(1, 3, 3, 3), 2, padding=2),
    lambda lib: lib.nn.functional.max_pool2d(lib.ones(1, 3, 3, 3), 2, stride=0),
    lambda lib: lib.nn.functional.avg_pool2d(lib.ones(1, 3, 3, 3), 2, padding=2),
    lambda lib: lib.nn.functional.avg_pool2d(lib.ones(1, 3, 3, 3), 2, divisor_override=0),
    lambda lib: lib.nn.functional.adaptive_avg_pool2d(lib.ones(3, 3), 2),
    lambda lib: lib.nn.functional.dropout(lib.ones(3), 1.5),
    lambda lib: lib.nn.Dropout(-1),
    lambda lib: lib.nn.functional.batch_norm(lib.ones(1, 3), None, None, training=True),
    lambda lib: lib.nn.functional.batch_norm(lib.ones(2, 3), lib.zeros(4), lib.zeros(4)),
    lambda lib: lib.nn.functional.batch_norm(lib.ones(2, 3), lib.zeros(3), None, training=True),
    lambda lib: lib.nn.BatchNorm2d(3)(lib.ones(2, 3)),
    lambda lib: lib.nn.BatchNorm1d(3)(lib.ones(2, 3, 3, 3)),
    lambda lib: lib.nn.BatchNorm2d(3)(lib.ones(2, 4, 3, 3)),
    lambda lib: lib.nn.BatchNorm2d(3)(lib.ones(1, 4, 1, 1)),
    lambda lib: lib.nn.BatchNorm1d(3, eps=0.0)(lib.ones(2, 3)),
    lambda lib: lib.nn.BatchNorm1d(3, eps=-1e-5).eval()(lib.ones(2, 3)),
    lambda lib: lib.nn.BatchNorm1d(3)(lib.ones(2, 3).double()),
    lambda lib: lib.nn.BatchNorm1d(3).double()(lib.ones(2, 3)),
    lambda lib: lib.nn.BatchNorm1d(3).half()(lib.ones(2, 3)),
    lambda lib: lib.nn.functional.gelu(lib.ones(3), approximate="x"),
    lambda lib: lib.nn.functional.embedding(lib.tensor([5]), lib.ones(3, 2)),
    lambda lib: lib.nn.Embedding(3, 2, padding_idx=5),
    lambda lib: lib.nn.functional.layer_norm(lib.ones(3, 4), (3,)),
    lambda lib: lib.nn.Conv2d(4, 3, 3, groups=2),
    lambda lib: lib.nn.Conv2d(3, 4, 3, groups=2),
    lambda lib: lib.nn.Conv2d(4, 4, 3, groups=0),
    lambda lib: lib.nn.Conv2d(4, 4, 3, padding="same", stride=2),
    lambda lib: lib.nn.Linear(3, 4)("a"),
]


@pytest.mark.parametrize("wrong", [2.0, "a", True, (2, 1.5)], ids=str)
@pytest.mark.parametrize("name", ["MaxPool2d", "AvgPool2d"])
def test_a_window_of_no_integers_is_refused(name, wrong):
    for options in ({}, {"return_indices": True}) if name == "MaxPool2d" else ({},):
        agree_error(
            lambda lib, options=options: getattr(lib.nn, name)(wrong, **options)(lib.ones(1, 1, 4, 4)),
            "argument 'kernel_size' ",
        )


@pytest.mark.parametrize("call", REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_pytorch_refuses_is_refused_with_its_message(call):
    agree_error(call, _first(call))


def _first(call):
    """PyTorch's message up to the first comma, colon or semicolon: what follows holds values in its own layout."""
    import re

    import torch

    try:
        call(torch)
    except Exception as error:  # noqa: BLE001  (its message is compared)
        return re.split(r"[,:;(]", str(error).split("\n")[0])[0].strip()
    raise AssertionError("PyTorch accepts this call")


def test_a_linear_of_the_wrong_size_names_both_and_suggests_the_fix():
    import tdt

    with pytest.raises(RuntimeError) as error:
        tdt.nn.Linear(512, 10)(tdt.ones(64, 784))
    assert str(error.value).startswith(
        "linear: input has 784 features but weight expects 512; input (64, 784), weight (10, 512)"
    )
    assert "Did you forget Flatten" in str(error.value)
