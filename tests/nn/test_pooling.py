"""Pooling layers beyond PyTorch's database: random windows, memory order, NaN, infinite gradients, refusals."""

import functools

import numpy as np
import pytest

import tdt
from tdt.autograd._meta import meta, stand_in
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, near, numbers

torch = require_torch()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    "options", [{"output_size": (5, 3)}, {"output_ratio": (0.6, 0.7)}, {"output_size": 1}], ids=str
)
def test_fractional_pooling_draws_pytorchs_windows(options, dtype):
    results = []
    for lib in (tdt, torch):
        lib.manual_seed(11)
        x = lib.from_numpy(numbers(2, 3, 11, 9)).to(getattr(lib, dtype))
        out, at = lib.nn.functional.fractional_max_pool2d(x, (2, 3), **options, return_indices=True)
        results.append((out.float(), at, lib.rand(1)))
    for ours, theirs in zip(*results, strict=True):
        near(ours, theirs, "values, indices, the generator afterwards")


def test_fractional_pooling_of_volumes_and_without_a_batch():
    for shape in [(2, 3, 7, 8, 9), (3, 7, 8, 9)]:
        results = []
        for lib in (tdt, torch):
            lib.manual_seed(5)
            layer = lib.nn.FractionalMaxPool3d(2, output_ratio=(0.5, 0.6, 0.7), return_indices=True)
            results.append(layer(lib.from_numpy(numbers(*shape))))
        for ours, theirs in zip(*results, strict=True):
            near(ours, theirs, "values and indices")


def test_passed_random_samples_are_a_buffer_and_are_used():
    samples = np.random.default_rng(0).random((2, 3, 2), np.float32)

    def run(lib, x):
        layer = lib.nn.FractionalMaxPool2d(2, 4, _random_samples=lib.from_numpy(samples.copy()))
        assert list(layer.state_dict()) == ["_random_samples"]
        return layer(x)

    agree(run, numbers(2, 3, 8, 9))


@pytest.mark.parametrize("size", [1, 3, (4, 2), (None, 5), 9], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels-last"])
def test_adaptive_max_pooling_is_pytorchs_in_both_memory_orders(size, last):
    def run(lib, x):
        x = x.contiguous(memory_format=lib.channels_last) if last else x
        out, at = lib.nn.functional.adaptive_max_pool2d(x, size, return_indices=True)
        assert out.is_contiguous(memory_format=lib.channels_last if last else lib.contiguous_format)
        return out, at, lib.nn.functional.adaptive_max_pool2d(x, size)

    agree(run, numbers(2, 3, 8, 6))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("size", "out"), [((7,), (3,)), ((40,), (7,)), ((2, 5), (4, 3)), ((28, 28), (3, 3)), ((9, 37), (4, 10)),
                                           ((6, 5, 7), (4, 2, 3)), ((3, 20, 18), (2, 6, 4))], ids=str)  # fmt: skip
def test_adaptive_maxima_of_ties_nan_and_infinities_are_pytorchs_at_every_call(size, out, dtype):
    rng = np.random.default_rng(len(size))
    values = rng.integers(-2, 3, (3, 4, *size)).astype(np.float32)
    values[0, 0], values[0, 1] = -np.inf, np.nan
    values[1][rng.random(values[1].shape) < 0.1] = np.nan
    values[2] = np.where(values[2] == 0, rng.choice([-0.0, 0.0], values[2].shape), np.minimum(values[2], 0))
    last = lambda a: a.transpose(1, -1).contiguous().transpose(1, -1)  # noqa: E731
    for change in (lambda a: a, lambda a: a[0], lambda a: a[:0], lambda a: a[::2, 1:], last):
        found = []
        for lib in (tdt, torch):
            leaf = lib.from_numpy(values).to(getattr(lib, dtype)).requires_grad_()
            pool = functools.partial(getattr(lib.nn.functional, f"adaptive_max_pool{len(size)}d"), output_size=out)
            maxima, at = pool(change(leaf), return_indices=True)
            g = (lib.arange(maxima.numel()) % 7 + 1).to(maxima.dtype).reshape(maxima.shape)
            results = [maxima, at]
            for _ in range(3):  # a call, and those that are remembered
                again = pool(change(leaf))
                results += [again, lib.autograd.grad(again, leaf, g)[0]]
                results.append(pool(change(leaf.detach())))
            found.append([r.detach().float().numpy() for r in results])
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_array_equal(ours, theirs)
            np.testing.assert_array_equal(np.signbit(ours) & (ours == 0), np.signbit(theirs) & (theirs == 0))


# A window's largest value several times, NaN once and twice, infinities; windows that tile, overlap, and leave gaps.
SPECIAL_VALUES = np.array([[1, 1, np.nan, 2, 3, np.nan], [1, 1, 0, np.nan, 3, 3], [np.inf, 5, -np.inf, -np.inf, np.nan, np.nan],
                [np.inf, 5, -np.inf, -np.inf, np.nan, np.nan]], np.float32)  # fmt: skip
WINDOWS = [(2, 2, 0, 1), (2, 1, 0, 1), (3, 2, 1, 1), (2, 1, 1, 2), (1, 2, 0, 1)]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("copies", [1, 3000])
def test_ties_and_nan_send_the_gradient_where_pytorch_sends_it(window, dtype, copies):
    for values in (
        np.where(np.isnan(SPECIAL_VALUES), -np.inf, SPECIAL_VALUES),
        SPECIAL_VALUES,
        np.full_like(SPECIAL_VALUES, -np.inf),
    ):
        found = []
        for lib in (tdt, torch):
            x = lib.from_numpy(np.array(np.broadcast_to(values, (1, copies, 4, 6)), dtype)).requires_grad_()
            out = lib.nn.functional.max_pool2d(x, *window)
            out.backward(lib.arange(1, out.numel() + 1, dtype=out.dtype).reshape(out.shape) % 64)
            found.append((out.detach().numpy(), x.grad.numpy()))
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_an_infinite_gradient_reaches_one_cell_alone():
    x = tdt.tensor(np.arange(16.0).reshape(1, 1, 4, 4), requires_grad=True)
    tdt.nn.functional.max_pool2d(x, 2).backward(tdt.full((1, 1, 2, 2), tdt.inf))
    assert x.grad.isnan().sum() == 0 and x.grad.isinf().sum() == 4


@pytest.mark.parametrize("p", [1, 2, 1.5, np.inf, -np.inf])
@pytest.mark.parametrize("nd", [1, 2, 3])
def test_lp_pooling_of_zeros_has_no_gradient_there(nd, p):
    x = np.abs(numbers(2, 3, *(6,) * nd))
    x[:, 1] = 0
    agree(lambda lib, a: getattr(lib.nn.functional, f"lp_pool{nd}d")(a, p, 2, ceil_mode=True), x)


@pytest.mark.parametrize(("nd", "shape"), [(1, (2, 3, 7)), (2, (2, 3, 7, 6)), (3, (3, 5, 4, 6))])
def test_unpooling_restores_values(nd, shape):
    def run(lib, x):
        pool = getattr(lib.nn, f"MaxPool{nd}d")(3, 2, 1, return_indices=True)
        unpool = getattr(lib.nn, f"MaxUnpool{nd}d")(3, 2, 1)
        return unpool(*pool(x), output_size=x.shape[-nd:])

    agree(run, numbers(*shape))


def test_unpooling_is_channels_last_where_its_values_are():
    def run(lib, x):
        x = x.contiguous(memory_format=lib.channels_last)
        out = lib.nn.functional.max_unpool2d(*lib.nn.functional.max_pool2d(x, 2, return_indices=True), 2)
        assert out.is_contiguous(memory_format=lib.channels_last)
        return out

    agree(run, numbers(2, 3, 4, 6))


def test_a_meta_pass_goes_through_poolings_and_back():
    pools = tdt.nn.MaxPool2d(2, return_indices=True), tdt.nn.AdaptiveMaxPool2d(3, return_indices=True)
    with meta():
        for pool in pools:
            out, at = pool(stand_in((2, 3, 7, 8)))
            assert out.shape == at.shape and at.dtype is tdt.int64
            assert tdt.nn.MaxUnpool2d(2)(out, at).shape == (2, 3, 6, 2 * out.shape[3])
        assert tdt.nn.FractionalMaxPool2d(2, 3)(stand_in((2, 3, 7, 8))).shape == (2, 3, 3, 3)


def images(lib, *shape, dtype="float32"):
    return lib.ones(*(shape or (2, 3, 6, 6)), dtype=getattr(lib, dtype))


def unpool(lib, change=lambda at: at, nd=2, **options):
    out, at = lib.nn.functional.max_pool2d(images(lib), 2, return_indices=True)
    return getattr(lib.nn.functional, f"max_unpool{nd}d")(out, change(at), **{"kernel_size": 2, **options})


REFUSED = [
    (lambda lib: unpool(lib, lambda at: at + 36), "Found an invalid max index: "),
    (lambda lib: unpool(lib, lambda at: at - 99), "Found an invalid max index: -"),
    (lambda lib: unpool(lib, lambda at: at.int()), "elements in indices should be type int64 but got: "),
    (lambda lib: unpool(lib, lambda at: at[:1]), ""),
    (lambda lib: unpool(lib, padding=9), ""),
    (lambda lib: unpool(lib, output_size=(9, 9)), ""),
    (lambda lib: unpool(lib, output_size=(9, 9, 3)), ""),
    (lambda lib: unpool(lib, nd=3, stride=(1, 0, 1)), "strides should be greater than zero, but got stride: "),
    (lambda lib: lib.nn.functional.adaptive_max_pool2d(images(lib), (1, 2, 3)), "output_size.size() must be 2"),
    (lambda lib: lib.nn.functional.adaptive_max_pool2d(images(lib, 6, 6), 3), ""),
    (lambda lib: lib.nn.functional.adaptive_max_pool2d(images(lib, 2, 3, 6, 0), 3), ""),
    (lambda lib: lib.nn.functional.adaptive_max_pool2d(images(lib, dtype="int64"), 2), ""),
    (lambda lib: lib.nn.functional.fractional_max_pool2d(images(lib), 2), ""),
    (lambda lib: lib.nn.functional.fractional_max_pool2d(images(lib), 2, output_ratio=(0.5,) * 3),
     "fractional_max_pool2d requires output_ratio to "),
    (lambda lib: lib.nn.functional.fractional_max_pool2d(images(lib), 5, 3), ""),
    (lambda lib: lib.nn.functional.fractional_max_pool3d(images(lib, 2, 3, 6, 6, 6), 2, 5), "pool time 2 too large"),
    (lambda lib: lib.nn.functional.fractional_max_pool2d(images(lib), 2, 3, _random_samples=images(lib, 2, 3, 3)), ""),
    (lambda lib: lib.nn.functional.fractional_max_pool2d(images(lib), 2, 3, _random_samples=images(lib, 1, 3, 2)),
     "Expect _random_samples.size(0) no less then input batch size"),
    (lambda lib: lib.nn.functional.fractional_max_pool2d(images(lib), 2, 3, _random_samples=images(lib, 2, 4, 2)),
     "Expect _random_samples.size(1) equals to input channel size"),
    (lambda lib: lib.nn.functional.fractional_max_pool2d(images(lib), 2, 3, _random_samples=images(lib, 2, 3)), ""),
    (lambda lib: lib.nn.functional.fractional_max_pool2d(images(lib), 2, 3,
                                                         _random_samples=images(lib, 2, 3, 2, dtype="float64")),
     "Expect _random_samples to have the same dtype as input"),
    (lambda lib: lib.nn.FractionalMaxPool2d(2), ""),
    (lambda lib: lib.nn.FractionalMaxPool2d(2, 3, 0.5), ""),
    (lambda lib: lib.nn.FractionalMaxPool3d(2, output_ratio=1.5), ""),
    (lambda lib: lib.nn.FractionalMaxPool3d(0, 3), ""),
    (lambda lib: lib.nn.LPPool2d(0, 2)(images(lib)), ""),
    (lambda lib: lib.nn.MaxPool2d(2, 1, padding=3, dilation=5)(images(lib)),
     "pad should be smaller than or equal to half of kernel size, but got pad"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "clause"), REFUSED)
def test_refusals_have_pytorchs_class_and_clause(case, clause):
    agree_error(case, clause)


@pytest.mark.parametrize("dtype", [tdt.float32, tdt.bfloat16])
def test_windows_in_the_padding_have_no_gradient(dtype):
    x = tdt.arange(6, dtype=dtype).reshape(1, 2, 1, 3).requires_grad_()
    for indices in (False, True):  # PyTorch writes beyond its memory with indices
        found = tdt.nn.functional.max_pool2d(x, 2, 1, 1, 2, return_indices=indices)
        values = found[0] if indices else found
        (grad,) = tdt.autograd.grad(values, x, tdt.ones_like(values))
        assert (values == -tdt.inf).all() and grad.shape == x.shape and not grad.any()


def test_torchs_own_one_dimensional_forms_return_indices():
    def run(lib, x):
        return *lib.adaptive_max_pool1d(x, 2), *lib.max_pool1d_with_indices(x, 2), lib.max_pool1d(x, 3)

    agree(run, numbers(2, 3, 7))


@pytest.mark.parametrize("kernel", [2, 3, 4, 6])
@pytest.mark.parametrize("shape", [(2, 3, 24), (4, 32, 1024)])
def test_gradients_of_lines_are_the_same_in_each_step(kernel, shape):
    """From the second call on they are prepared."""

    def run(lib, x):
        found = []
        for _ in range(3):
            leaf = x.detach().clone().requires_grad_()
            lib.nn.functional.max_pool1d(leaf, kernel).square().sum().backward()
            found.append(leaf.grad)
        return tuple(found)

    agree(run, numbers(*shape))
