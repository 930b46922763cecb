"""Layer, group, instance, root-mean-square and response normalisation, beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt.nn.modules._synchronized import Rows
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, agree_module, numbers

torch = require_torch()

SHAPES = {1: (2, 3, 5), 2: (2, 3, 4, 5), 3: (2, 3, 2, 4, 3)}


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("options", [{}, {"affine": True}, {"affine": True, "bias": False}, {"track_running_stats": True},
                                     {"track_running_stats": True, "momentum": None, "eps": 0.1}], ids=str)  # fmt: skip
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_instance_norm_is_pytorchs(dims, options, train):
    make = lambda lib: getattr(lib.nn, f"InstanceNorm{dims}d")(3, **options)  # noqa: E731
    agree_module(make, numbers(*SHAPES[dims]), train=train, calls=2)
    agree_module(make, numbers(*SHAPES[dims][1:], dtype="float64"), train=train)


@pytest.mark.parametrize("call", [
    lambda lib: lib.nn.InstanceNorm1d(3)(lib.ones(2, 3, 4, 4)),
    lambda lib: lib.nn.InstanceNorm3d(3)(lib.ones(2, 3, 4)),
    lambda lib: lib.nn.InstanceNorm2d(3, affine=True)(lib.ones(2, 4, 4, 4)),
    lambda lib: lib.nn.InstanceNorm2d(3)(lib.ones(2, 3, 1, 1)),
    lambda lib: lib.nn.functional.instance_norm(lib.ones(2, 3, 4), use_input_stats=False),
    lambda lib: lib.nn.functional.instance_norm(lib.ones(2, 3, 4), weight=lib.ones(2)),
])  # fmt: skip
def test_instance_norm_refuses_what_pytorch_refuses(call):
    agree_error(call)


def test_instance_norm_without_affine_warns_of_another_number_of_channels():
    for lib in (tdt, torch):
        with pytest.warns(UserWarning, match=r"input's size at dim=1 does not match num_features"):
            lib.nn.InstanceNorm1d(3)(lib.ones(2, 4, 5))


def test_an_old_state_with_running_statistics_reports_why_it_does_not_fit_an_instance_norm():
    for lib in (tdt, torch):
        layer = lib.nn.InstanceNorm2d(3)
        with pytest.raises(RuntimeError, match=r"Unexpected running stats buffer\(s\)") as error:
            layer.load_state_dict({"running_mean": lib.zeros(3), "running_var": lib.ones(3)})
        assert "running_mean" in str(error.value)


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("shape", [(4, 6), (3, 6, 5), (2, 6, 4, 5), (2, 6, 3, 1, 4)], ids=str)
def test_group_norm_is_pytorchs(shape, last):
    for groups in (1, 2, 6) if len(shape) > 2 else (1, 2):
        for options in ({}, {"affine": False}, {"bias": False, "eps": 0.1}):
            agree_module(lambda lib: lib.nn.GroupNorm(groups, 6, **options), numbers(*shape))
    if len(shape) == 4:
        x = numbers(*shape)
        results = []
        for lib in (tdt, torch):
            t = (
                lib.from_numpy(x)
                .to(memory_format=lib.channels_last if last else lib.contiguous_format)
                .requires_grad_()
            )
            out = lib.nn.GroupNorm(2, 6)(t)
            (grad,) = lib.autograd.grad(out.square().sum(), t)
            results.append((out.stride(), grad.stride()))
        assert results[0] == results[1]


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")  # PyTorch's, of its own kernels
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("make", [
    lambda lib: lib.nn.LayerNorm(5), lambda lib: lib.nn.GroupNorm(3, 6), lambda lib: lib.nn.RMSNorm(5),
    lambda lib: lib.nn.InstanceNorm1d(6, affine=True)], ids=["layer", "group", "rms", "instance"])  # fmt: skip
def test_half_precision_with_float32_weights_returns_the_inputs_dtype(make, kind):
    unit = {"float16": 2**-10, "bfloat16": 2**-7}[kind]
    results = []
    for lib in (tdt, torch):
        x = lib.from_numpy(numbers(2, 6, 5)).to(getattr(lib, kind)).requires_grad_()
        layer = make(lib)
        out = layer(x)
        out.backward(lib.from_numpy(numbers(2, 6, 5, seed=1)).to(x.dtype))
        assert (out.dtype, x.grad.dtype, layer.weight.grad.dtype) == (x.dtype, x.dtype, lib.float32)
        results.append([t.float().detach().numpy() for t in (out, x.grad, layer.weight.grad)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2 * unit, atol=2 * unit)


@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3, 4), (3, 4)], ids=str)
def test_rms_norm_is_pytorchs(shape):
    for options in ({}, {"eps": 0.1}, {"elementwise_affine": False}):
        agree_module(lambda lib: lib.nn.RMSNorm(4, **options), numbers(*shape))
        agree_module(lambda lib: lib.nn.RMSNorm((3, 4), **options), numbers(*shape, dtype="float64"))


@pytest.mark.parametrize("grad", [False, True])
def test_rms_norm_has_the_memory_format_of_its_input(grad):
    strides = []
    for lib in (tdt, torch):
        x = lib.ones(2, 3, 4, 5).contiguous(memory_format=lib.channels_last).requires_grad_(grad)
        strides.append([lib.rms_norm(x, (5,)).stride(), lib.rms_norm(x, (4, 5), lib.ones(4, 5)).stride()])
    assert strides[0] == strides[1]


@pytest.mark.parametrize("where", [(0, 0), (3, 1)])
@pytest.mark.parametrize("layout", ["(N, C)", "contiguous", "channels-last"])
def test_a_running_mean_of_infinity_is_pytorchs(layout, where):
    found = []
    for lib in (tdt, torch):
        x = lib.ones(4, 2) if layout == "(N, C)" else lib.ones(4, 2, 3, 3)
        x[where] = float("inf")
        x = x.contiguous(memory_format=lib.channels_last) if layout == "channels-last" else x
        mean, var = lib.zeros(2), lib.ones(2)
        lib.nn.functional.batch_norm(x, mean, var, None, None, True)
        found.append([mean.numpy(), var.numpy()])
    np.testing.assert_array_equal(*found)
    assert np.inf in found[0][0]


@pytest.mark.parametrize("shape", [(2, 7, 3), (2, 7, 3, 4), (2, 7, 3, 2, 2), (0, 7, 3)], ids=str)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
def test_local_response_norm_is_pytorchs(shape, size):
    agree_module(lambda lib: lib.nn.LocalResponseNorm(size, alpha=0.5, beta=0.6, k=2.0), numbers(*shape))


def test_cross_map_norm_is_pytorchs_while_its_sums_hold_the_first_channel_rightly():
    for size in (2, 3, 4, 5, 6):
        few = (size - 1) // 2 + 1
        agree(lambda lib, x: lib.nn.CrossMapLRN2d(size, alpha=0.5, beta=0.6, k=2)(x).detach(), numbers(2, few, 3, 3))
    x = tdt.from_numpy(numbers(2, 7, 3, 3, dtype="float64")).requires_grad_()
    assert tdt.autograd.gradcheck(tdt.nn.CrossMapLRN2d(3, alpha=0.5), x)
    assert tdt.nn.CrossMapLRN2d(3)(x).tolist() == tdt.nn.LocalResponseNorm(3)(x).tolist()


@pytest.mark.parametrize("call", [
    lambda lib: lib.nn.functional.group_norm(lib.ones(3, 5), 2),
    lambda lib: lib.nn.functional.group_norm(lib.ones(3, 4), -2),
    lambda lib: lib.nn.functional.group_norm(lib.ones(4), 2),
    lambda lib: lib.nn.functional.group_norm(lib.ones(1, 4), 4),
    lambda lib: lib.nn.functional.group_norm(lib.ones(2, 4), 2, lib.ones(3)),
    lambda lib: lib.nn.functional.group_norm(lib.ones(2, 4, dtype=lib.float64), 2, lib.ones(4)),
    lambda lib: lib.nn.functional.layer_norm(lib.ones(3, 4), 4),
    lambda lib: lib.nn.functional.layer_norm(lib.ones(3, 4), (4,), lib.ones(4, dtype=lib.float64)),
    lambda lib: lib.nn.functional.layer_norm(lib.ones(3, 4, dtype=lib.int64), (4,)),
    lambda lib: lib.nn.GroupNorm(2, 5),
    lambda lib: lib.nn.CrossMapLRN2d(3)(lib.ones(3, 4)),
    lambda lib: lib.nn.SyncBatchNorm(3)(lib.ones(3)),
    lambda lib: lib.nn.SyncBatchNorm(3)(lib.ones(3, 0)),
])  # fmt: skip
def test_norms_refuse_what_pytorch_refuses(call):
    agree_error(call)


def test_inputs_of_other_shapes_are_refused_with_a_clearer_message():
    agree_error(
        lambda lib: lib.nn.LocalResponseNorm(2)(lib.ones(3, 4)), "Expected 3D or higher dimensionality input (got 2"
    )
    agree_error(
        lambda lib: lib.nn.functional.rms_norm(lib.ones(3, 4), (3,)), "Given normalized_shape=[3], expected input with"
    )


@pytest.mark.parametrize("train", [True, False])
def test_a_net_converted_to_sync_batch_norm_is_pytorchs(train):
    def make(lib):
        net = lib.nn.Sequential(
            lib.nn.BatchNorm2d(3), lib.nn.Sequential(lib.nn.BatchNorm2d(3, affine=False, momentum=None))
        )
        net.requires_grad_(True).train(not train)
        return lib.nn.SyncBatchNorm.convert_sync_batchnorm(net)

    ours, theirs = make(tdt), make(torch)
    assert repr(ours) == repr(theirs)
    assert [m.training for m in ours.modules()] == [m.training for m in theirs.modules()]
    agree_module(make, numbers(2, 3, 4, 5), train=train)
    norm = tdt.nn.BatchNorm1d(3)
    assert tdt.nn.SyncBatchNorm.convert_sync_batchnorm(norm).weight is norm.weight


def test_the_norms_of_the_package_itself_take_pytorchs_positions():
    x, w, b, mean, var = numbers(2, 4, 3), numbers(4), numbers(4, seed=1), numbers(4, seed=2), np.ones(4, "float32")
    agree(
        lambda lib, x, w, b, m, v: lib.batch_norm(x, w, b, m.detach(), v.detach(), False, 0.1, 1e-3, False),
        x,
        w,
        b,
        mean,
        var,
    )
    agree(
        lambda lib, x, w, b, m, v: lib.instance_norm(x, w, b, m.detach(), v.detach(), True, 0.1, 1e-3, False),
        x,
        w,
        b,
        mean,
        var,
    )
    agree(lambda lib, x, w, b: lib.group_norm(x, 2, w, b, 1e-3, False), x, w, b)
    agree(lambda lib, x: lib.group_norm(x, 4), numbers(1, 4))
    agree(lambda lib, x, w: lib.layer_norm(x, (4,), w, None, 1e-3, False), numbers(2, 4), w)
    agree(lambda lib, x, w: lib.rms_norm(x, (4,), w, 1e-3), numbers(2, 4), w)


class Twice(Rows):
    """Two equal parts of a batch, as if another process had the same one."""

    def __init__(self):
        pass

    def size(self):
        return 2

    def rank(self):
        return 1

    def gather(self, row):
        return tdt.stack([row, row])

    def total(self, rows):
        return rows * 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 5), (4, 3, 5, 2)], ids=str)
def test_synchronised_batch_norm_is_pytorchs_of_all_parts(shape, affine, dtype):
    x, weight = numbers(*shape), numbers(*shape, seed=1)
    kind = torch.nn.BatchNorm1d if len(shape) < 4 else torch.nn.BatchNorm2d
    of = lambda lib: {"affine": affine, "dtype": lib.float64 if dtype == "float64" else None}  # noqa: E731
    ours, theirs = tdt.nn.SyncBatchNorm(3, process_group=Twice(), **of(tdt)), kind(3, **of(torch))
    inputs = [lib.tensor(x, dtype=getattr(lib, dtype)).requires_grad_() for lib in (tdt, torch)]
    out, both = ours(inputs[0]), theirs(torch.cat([inputs[1]] * 2))
    assert str(out.dtype).split(".")[1] == dtype
    (out.float() * tdt.tensor(weight)).sum().backward()
    (both.float() * torch.tensor(np.concatenate([weight] * 2))).sum().backward()
    # PyTorch's gradients are sums over both parts.
    pairs = [(out, both[: len(x)]), (inputs[0].grad * 2, inputs[1].grad), (ours.running_mean, theirs.running_mean),
             (ours.running_var, theirs.running_var)]  # fmt: skip
    if affine:
        pairs += [(ours.weight.grad * 2, theirs.weight.grad), (ours.bias.grad * 2, theirs.bias.grad)]
    close = {"float32": 1e-5, "float64": 1e-6, "bfloat16": 2e-2}[dtype]
    for left, right in pairs:
        np.testing.assert_allclose(
            left.detach().double().numpy(), right.detach().double().numpy(), rtol=close, atol=close
        )


class WithEmpty(Twice):
    """Two parts of a batch, one of them without samples."""

    def __init__(self, other=None):
        self.other = other

    def gather(self, row):
        self.row = row
        return tdt.stack([row, row * 0 if self.other is None else self.other.row])

    def total(self, rows):
        return rows if self.other is None else rows + 1


def test_a_part_without_samples_adds_nothing_and_gets_nothing():
    whole, x = tdt.nn.BatchNorm2d(3), tdt.tensor(numbers(4, 3, 5, 2)).requires_grad_()
    full, empty = (tdt.nn.SyncBatchNorm(3) for _ in range(2))
    full.process_group = WithEmpty()
    empty.process_group = WithEmpty(full.process_group)
    weight = tdt.tensor(numbers(4, 3, 5, 2, seed=1))
    outputs, gradients = [], []
    for norm in (whole, full):
        x.grad = None
        outputs.append(norm(x))
        (outputs[-1] * weight).sum().backward()
        gradients.append(x.grad)
    nothing = tdt.ones(0, 3, 5, 2).requires_grad_()
    out = empty(nothing)
    out.sum().backward()
    assert out.shape == nothing.grad.shape == nothing.shape and not empty.weight.grad.any()
    for ours, expected in ((outputs[1], outputs[0]), (gradients[1], gradients[0])):
        np.testing.assert_allclose(ours.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    for norm in (full, empty):
        np.testing.assert_allclose(norm.running_var.numpy(), whole.running_var.numpy(), rtol=1e-6)
