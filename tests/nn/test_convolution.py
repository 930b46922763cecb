"""Convolutions and transposed ones are PyTorch's: sizes, borders, both memory orders, complex numbers, refusals."""

import functools

import numpy as np
import pytest

import tdt
from tdt._ops.nn import conv, conv_transpose
from tests._kernels.watch import watch
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, agree_module, numbers

torch = require_torch()

OPTIONS = [
    {}, {"stride": 2}, {"padding": 1}, {"stride": 2, "padding": 1, "output_padding": 1}, {"dilation": 2}, {"groups": 2},
    {"bias": False}, {"stride": (2, 3), "padding": (0, 2), "dilation": (2, 1), "output_padding": (1, 2), "groups": 4},
    {"dilation": 3, "output_padding": 2},
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_conv_transpose2d_is_pytorchs(options, dtype):
    agree_module(lambda lib: lib.nn.ConvTranspose2d(4, 8, 3, **options), numbers(2, 4, 5, 6, dtype=dtype))


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("nd", [1, 2, 3])
def test_an_output_padding_of_a_kernel_of_one_cell(nd, last):
    def run(lib, x, w, b):
        order = (None, lib.channels_last, lib.channels_last_3d)[nd - 1] if last else None
        x = x if order is None else x.contiguous(memory_format=order)
        return getattr(lib.nn.functional, f"conv_transpose{nd}d")(x, w, b, dilation=2, output_padding=1)

    agree(run, numbers(2, 8, *(4, 5, 6)[:nd]), numbers(8, 4, *(1,) * nd), numbers(4))


@pytest.mark.parametrize("size", [(10, 12), (11, 13), (2, 8, 10, 13)])
@pytest.mark.parametrize("batched", [True, False])
def test_output_size_chooses_among_the_sizes_of_a_stride(size, batched):
    layers = [lib.nn.ConvTranspose2d(4, 8, 3, stride=2, padding=1) for lib in (tdt, torch)]
    size = size if batched or len(size) == 2 else size[1:]
    shape = (2, 4, 5, 7) if batched else (4, 5, 7)
    size = [{10: 10, 11: 9, 12: 13, 13: 14}.get(n, n) for n in size]
    layers[0].load_state_dict({k: tdt.from_numpy(v.numpy().copy()) for k, v in layers[1].state_dict().items()})
    agree(lambda lib, x: layers[lib is torch](x, output_size=size), numbers(*shape))


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("options", [{"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 16}], ids=str)
def test_large_images_in_either_memory_order(last, options):
    def run(lib, x, w, b):
        x = x.contiguous(memory_format=lib.channels_last) if last else x
        out = lib.nn.functional.conv_transpose2d(x, w, b, **options)
        assert out.is_contiguous(memory_format=lib.channels_last) == last
        return out

    w = numbers(16, 24 // options.get("groups", 1) if "groups" not in options else 1, 3, 3)
    agree(run, numbers(8, 16, 14, 14), w, numbers(w.shape[1] * options.get("groups", 1)))


@pytest.mark.parametrize("nd", [1, 3])
@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [2, "same"])
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
def test_borders_of_every_kind_in_one_and_three_dimensions(padding, mode, nd):
    for kernel in (2, 3):
        agree_module(
            lambda lib, k=kernel: getattr(lib.nn, f"Conv{nd}d")(3, 4, k, padding=padding, padding_mode=mode),
            numbers(3, *(5, 6, 4)[:nd]),
        )


@pytest.mark.parametrize("nd", [1, 2, 3])
@pytest.mark.parametrize("name", ["Conv", "ConvTranspose"])
def test_complex_layers_are_pytorchs(name, nd):
    def run(lib, re, im):
        lib.manual_seed(0)
        layer = getattr(lib.nn, f"{name}{nd}d")(2, 4, 3, groups=2, dtype=lib.complex64)
        out = layer(lib.complex(re, im))
        loss = (out * out.conj()).real.sum()
        gw, gb, *gradients = lib.autograd.grad(loss, [layer.weight, layer.bias, re, im])
        return out.real.detach(), out.imag.detach(), gw.real, gb.imag, *gradients

    agree(run, *(numbers(2, 2, *(4,) * nd, seed=s) for s in (0, 1)))


def layer(lib, nd=2, **options):
    return getattr(lib.nn, f"ConvTranspose{nd}d")(4, 8, 3, **options)


REFUSED = [
    (lambda lib: layer(lib, padding_mode="circular"), ""),
    (lambda lib: layer(lib, groups=3), "in_channels must be divisible by groups"),
    (lambda lib: layer(lib, groups=0), ""),
    (lambda lib: layer(lib)(lib.ones(1, 3, 5, 5)), ""),
    (lambda lib: layer(lib)(lib.ones(5, 5)), ""),
    (lambda lib: layer(lib, output_padding=1)(lib.ones(1, 4, 5, 5)),
     "output padding must be smaller than either stride or dilation"),
    (lambda lib: layer(lib, padding=9)(lib.ones(1, 4, 5, 5)), ""),
    (lambda lib: layer(lib, stride=0)(lib.ones(1, 4, 5, 5)), ""),
    (lambda lib: layer(lib, stride=2)(lib.ones(1, 4, 5, 5), output_size=[20, 11]), ""),
    (lambda lib: layer(lib, stride=2)(lib.ones(1, 4, 5, 5), output_size=(11,)), ""),
    (lambda lib: layer(lib, 1, stride=2)(lib.ones(4, 5), output_size=(1, 2, 3, 4)), ""),
    (lambda lib: layer(lib)(lib.ones(1, 4, 5, 5, dtype=lib.float64)), "Input type (double) and weight type (float)"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "clause"), REFUSED)
def test_refusals_have_pytorchs_class_and_clause(case, clause):
    agree_error(case, clause)


@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d"])
def test_a_call_that_was_checked_before_follows_the_switches_and_still_refuses_other_types(name, monkeypatch):
    path = "conv_cpu:conv" if name == "conv2d" else "conv_cpu:conv_input_grad"
    called = watch(monkeypatch, path)
    x, w = tdt.ones(1, 16, 4, 4), tdt.ones(16, 16, 3, 3)
    conv = lambda stride=(1, 1): getattr(tdt.nn.functional, name)(  # noqa: E731
        x, w, stride=stride, padding=(1, 1), dilation=(1, 1), **({} if name == "conv2d" else {"output_padding": (0, 0)})
    )
    with tdt.backends.kernels(True):
        first, again = conv(), conv()
        assert called == [path] * 2
        assert tdt.equal(first, again)
        with pytest.raises(TypeError, match="must be tuple of ints"):
            conv((1.0, 1.0))
    with tdt.backends.kernels(False):
        conv()
    assert len(called) == 2


# By the kernel: rows of `_tile`, of 1 × 1 by a small product and by `_tile`, by `_planes`, by patches and of a volume.
PREPARED = {
    "lines": ("conv1d", (1, 16, 31), (32, 16, 3), {"padding": 1}),
    "samples": ("conv1d", (3, 16, 9), (8, 16, 3), {"stride": 2}),
    "images in groups": ("conv2d", (2, 40, 6, 5), (60, 20, 3, 3), {"padding": (1, 2), "groups": 2}),
    "one channel": ("conv1d", (2, 1, 40), (16, 1, 120), {"padding": 40}),
    "volumes": ("conv3d", (1, 8, 4, 5, 6), (9, 8, 2, 3, 2), {"padding": 1}),
    "few weights of one cell": ("conv1d", (1, 16, 31), (32, 16, 1), {}),
    "one cell": ("conv1d", (2, 32, 40), (24, 32, 1), {}),
    "one cell of images": ("conv2d", (2, 32, 8, 9), (24, 32, 1, 1), {}),
    "one pixel": ("conv2d", (3, 24, 1, 1), (10, 24, 1, 1), {}),
    "rows": ("conv1d", (2, 1, 512), (12, 1, 15), {"stride": 2, "padding": 7}),
    "patches of lines": ("conv1d", (2, 2, 60), (40, 2, 5), {"stride": 2, "padding": 3}),
    "long patches of lines": ("conv1d", (2, 1, 300), (40, 1, 12), {"padding": 5, "dilation": 2}),
    "depthwise": ("conv2d", (2, 8, 9, 10), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
    "transposed lines": ("conv_transpose1d", (1, 48, 64), (48, 24, 4), {"stride": 2, "padding": 1}),
    "transposed to few channels": ("conv_transpose1d", (2, 24, 256), (24, 1, 4), {"stride": 2, "padding": 1}),
    "few transposed to few channels": ("conv_transpose1d", (2, 24, 20), (24, 1, 4), {"stride": 2, "padding": 1}),
}


@pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("weight", [1.0, float("inf")])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("case", PREPARED)
def test_what_is_prepared_for_a_shape_computes_the_bits_of_the_kernel(case, bias, weight):
    name, size, weights, options = PREPARED[case]
    nd, transposed = len(size) - 2, "transpose" in name
    options = {k: v if k == "groups" else (v,) * nd if isinstance(v, int) else v for k, v in options.items()}
    every = {"stride": (1,) * nd, "padding": (0,) * nd, "dilation": (1,) * nd, **options}
    x, w, b = numbers(*size), numbers(*weights), numbers(weights[int(transposed)]) if bias else None
    if transposed:
        every["output_padding"] = (0,) * nd
    table = conv_transpose.CHECKED if transposed else conv.CHECKED
    table.found.clear()
    arrays = [None if a is None else tdt.from_numpy(a.copy()) for a in (x, w, b)]
    call = lambda: getattr(tdt.nn.functional, name)(*arrays, **every)  # noqa: E731
    first = call()
    [(compute, attributes)] = table.found.values()
    assert not isinstance(compute, functools.partial)
    arrays[0] += 1
    arrays[1].flatten()[1] = weight
    kernel = table.kernels.first([a if a is None else a._a for a in arrays], attributes)
    expected = kernel.function(*[a if a is None else a._a for a in arrays], **attributes)
    again = call()
    assert again.shape == first.shape
    assert again.numpy().tobytes() == expected.tobytes()
    if weight == 1.0:  # else PyTorch's result depends on whether zeros of the border are multiplied, too
        of_torch = [None if a is None else torch.from_numpy(a.numpy()) for a in arrays]
        found = getattr(torch.nn.functional, name)(*of_torch, **every).numpy()
        np.testing.assert_allclose(again.numpy(), found, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("value", [1.0, float("inf")])
@pytest.mark.parametrize("case", PREPARED)
def test_what_is_prepared_for_gradients_computes_the_bits_of_the_kernel(case, value):
    name, size, weights, options = PREPARED[case]
    x, w = (tdt.from_numpy(numbers(*shape)).requires_grad_() for shape in (size, weights))
    out = getattr(tdt.nn.functional, name)(x, w, **options)
    grad = numbers(*out.shape)
    grad.flat[0] = value
    found = [tdt.autograd.grad(out, (x, w), tdt.from_numpy(grad.copy()), retain_graph=True) for _ in range(3)]
    for k in range(2):
        assert len({each[k].numpy().tobytes() for each in found}) == 1
    if value == 1.0:
        x, w = (torch.from_numpy(a.detach().numpy().copy()).double().requires_grad_() for a in (x, w))
        out = getattr(torch.nn.functional, name)(x, w, **options)
        for ours, theirs in zip(found[-1], torch.autograd.grad(out, (x, w), torch.from_numpy(grad)), strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("pad", [0, 1, 3])
def test_conv_tbc_is_pytorchs(pad):
    agree(lambda lib, x, w, b: lib.conv_tbc(x, w, b, pad), *(numbers(*s) for s in ((7, 2, 3), (3, 3, 5), (5,))))
    assert tdt.conv_tbc is tdt.nn.functional.conv_tbc


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("nd", [1, 2, 3])
def test_torch_convolution_is_the_general_form(nd, transposed):
    def run(lib, x, w, b):
        ones = [1] * nd
        return lib.convolution(x, w, b, [2] * nd, ones, ones, transposed, [1 if transposed else 0] * nd, 2)

    agree(
        run, numbers(2, 4, *(5,) * nd), numbers(4, 4 if transposed else 2, *(3,) * nd), numbers(8 if transposed else 4)
    )


def test_conv_tbc_refuses_what_pytorch_refuses():
    x, w, b = ((lambda lib, s=s: lib.ones(*s)) for s in ((7, 2, 3), (3, 3, 5), (5,)))
    agree_error(lambda lib: lib.conv_tbc(x(lib)[0], w(lib), b(lib)), "Input must have 3 dims")
    agree_error(lambda lib: lib.conv_tbc(x(lib), w(lib)[0], b(lib)), "Weight tensor must have 3 dims")
    agree_error(lambda lib: lib.conv_tbc(x(lib)[..., :2], w(lib), b(lib)), "Input dim 2 (input channels)")
    agree_error(lambda lib: lib.conv_tbc(x(lib), w(lib), b(lib)[:4]), "Bias size must equal dim 2 in the weight tensor")
    np.testing.assert_array_equal(tdt.conv_tbc(x(tdt), w(tdt), b(tdt)).shape, (5, 2, 5))


@pytest.mark.parametrize("dilation", [2**31, 2**40])
def test_a_border_that_no_memory_holds_is_refused(dilation):
    with pytest.raises(RuntimeError, match="padded input size per channel is too large"):
        tdt.nn.functional.conv1d(tdt.ones(2, 4), tdt.ones(2, 1, 4), padding="same", groups=2, dilation=dilation)
