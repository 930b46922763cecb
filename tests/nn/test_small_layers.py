"""Borders, shuffles, windows as columns, distances, one-hot rows: what PyTorch's databases do not ask of them."""

import inspect
import itertools

import numpy as np
import pytest

import tdt
from tdt.autograd._meta import meta, stand_in
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, numbers

torch = require_torch()


def test_a_layer_is_an_instance_of_the_classes_it_is_in_pytorch():
    def layers(lib):
        return {n: c for n, c in vars(lib.nn).items() if inspect.isclass(c) and issubclass(c, lib.nn.Module)}

    ours, theirs = layers(tdt), layers(torch)
    # A lazy layer of ours is what it becomes; PyTorch's norms are not.
    shared = [name for name in ours.keys() & theirs.keys() if not name.startswith("Lazy")]
    for a, b in itertools.permutations(shared, 2):
        assert issubclass(ours[a], ours[b]) == issubclass(theirs[a], theirs[b]), (a, b)


LAYERS = [
    "CELU()", "GLU()", "Hardshrink()", "Hardswish(True)", "Mish()", "PReLU(4)", "ReLU6()", "RReLU()", "RReLU(inplace=True)",
    "Softmax2d()", "Softmin(1)", "Tanhshrink()", "Threshold(0, 1)", "Dropout2d()", "Dropout2d(inplace=True)", "AlphaDropout()",
    "FeatureAlphaDropout()", "CircularPad2d(1)", "ConstantPad2d(1, 2.0)", "ReflectionPad2d((-1, 1, 0, 0))", "ReplicationPad2d(1)",
    "PixelShuffle(2)", "PixelUnshuffle(2)", "ChannelShuffle(2)", "Unflatten(1, (2, 2))", "Unfold(2)", "CosineSimilarity()",
    "PairwiseDistance()", "Bilinear(8, 8, 3)",
]  # fmt: skip


@pytest.mark.parametrize("call", LAYERS)
def test_the_pass_over_shapes_takes_every_layer_and_draws_nothing(call):
    layer = eval(call, dict(vars(tdt.nn)))
    count = 2 if call.startswith(("Cos", "Pair", "Bi")) else 1
    expected = layer(*(tdt.randn(2, 4, 6, 8) for _ in range(count))).shape
    before = tdt.get_rng_state()
    with meta():
        found = layer(*(stand_in((2, 4, 6, 8)) for _ in range(count)))
    assert found.shape == expected
    assert (tdt.get_rng_state() == before).all()


def test_functions_take_pytorchs_arguments():
    for name in tdt.nn.functional.__all__:
        function = getattr(torch.nn.functional, name)
        if not inspect.isfunction(function):
            continue  # PyTorch's own in C, which says nothing
        theirs = [(p.name, p.default) for p in inspect.signature(function).parameters.values()]
        ours = [(p.name, p.default) for p in inspect.signature(getattr(tdt.nn.functional, name)).parameters.values()]
        assert theirs == ours[: len(theirs)] or theirs[0][0] == "args", name


MOVES = {
    "pixel_shuffle": lambda lib, x: lib.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda lib, x: lib.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda lib, x: lib.channel_shuffle(x, 4),
    "native_channel_shuffle": lambda lib, x: lib.native_channel_shuffle(x.detach(), 2),  # PyTorch's has no gradient
    "by one": lambda lib, x: lib.pixel_shuffle(x, 1),
    "in one group": lambda lib, x: lib.channel_shuffle(x, 1),
    "unfold": lambda lib, x: lib.nn.functional.unfold(x, (2, 3), padding=1),
}


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("name", MOVES)
def test_moved_pixels_are_pytorchs_in_its_memory_order_and_own_memory(name, last):
    strides = []

    def run(lib, x):
        input = x.to(memory_format=lib.channels_last) if last else x
        y = MOVES[name](lib, input)
        assert y.data_ptr() != input.data_ptr()
        strides.append(y.stride())
        return y

    agree(run, numbers(2, 8, 4, 6))
    assert strides[0] == strides[1]


def test_shuffles_of_other_dimensions_are_pytorchs():
    agree(lambda lib, x: lib.nn.functional.pixel_shuffle(x, 2), numbers(3, 2, 4, 5, 6))
    agree(lambda lib, x: lib.nn.functional.pixel_unshuffle(x, 3), numbers(2, 3, 6))
    agree(lambda lib, x: lib.nn.functional.channel_shuffle(x, 2), numbers(2, 4, 3))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_borders_of_every_memory_order_are_pytorchs(mode):
    strides = []

    def run(lib, x):
        last = x.to(memory_format=lib.channels_last)
        padded = [
            lib.nn.functional.pad(t, pad, mode) for t in (x, last) for pad in ((1, 2, 3, 0), (2, 2, 0, 0), (0, 0, 0, 0))
        ]
        assert all(y.data_ptr() not in (x.data_ptr(), last.data_ptr()) for y in padded)
        strides.append([y.stride() for y in padded])
        return tuple(padded)

    agree(run, numbers(2, 3, 4, 5))
    assert strides[0] == strides[1]
    agree(lambda lib, x: lib.nn.functional.pad(x, (2, 1, 1, 1, 1, 2), mode), numbers(2, 3, 3, 4, 5))
    agree(lambda lib, x: lib.nn.functional.pad(x, (2, -1), mode), numbers(2, 4, dtype="float64"))


@pytest.mark.parametrize("shape", [(3, 40), (4, 3, 7, 40), (3, 5, 40, 300)])
@pytest.mark.parametrize("sides", [(1, 2), (0, 3, 2, 0), (-1, 2, 1, -2), (-2, -1)])
def test_rows_of_any_length_are_padded(shape, sides):
    agree(lambda lib, x: lib.nn.functional.pad(x, sides, value=2.5), numbers(*shape))


def test_fold_adds_what_unfold_took_apart():
    x, ones = tdt.from_numpy(numbers(2, 3, 5, 6)), tdt.ones(2, 3, 5, 6)
    how = {"kernel_size": (2, 3), "stride": (1, 2), "padding": (1, 0), "dilation": (2, 1)}
    folded = [tdt.nn.functional.fold(tdt.nn.Unfold(**how)(t), (5, 6), **how) for t in (x, ones)]
    np.testing.assert_allclose(folded[0].numpy(), (x * folded[1]).numpy(), rtol=1e-6)
    agree(lambda lib, c: lib.nn.functional.fold(c, (4, 5), 2), numbers(2, 12, 12))
    agree(lambda lib, c: lib.nn.functional.fold(c, 6, (3, 2), padding=1, stride=2), numbers(18, 12))


@pytest.mark.parametrize("shape", [(30, 4), (2, 3, 4), (26, 1)], ids=str)
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, np.inf])
def test_distances_of_all_rows_are_pytorchs(shape, p):
    agree(
        lambda lib, a, b: lib.cdist(a, b, p),
        numbers(*shape, dtype="float64"),
        numbers(5, shape[-1], dtype="float64", seed=1),
    )


@pytest.mark.parametrize("rows", [3, 30])
def test_distances_of_equal_rows_are_0_and_have_no_gradient(rows):
    x = tdt.from_numpy(np.repeat(numbers(1, 3), rows, 0)).requires_grad_()
    y = tdt.cdist(x, x.detach())
    y.sum().backward()
    assert (y.detach().numpy() < 1e-3).all() and np.isfinite(x.grad.numpy()).all()


def test_angles_of_short_vectors_are_pytorchs():
    x = numbers(4, 3) * np.array([[1e-10], [1.0], [0.0], [1e-3]], "float32")
    agree(lambda lib, a, b: lib.cosine_similarity(a, b, eps=1e-2), x, numbers(4, 3, seed=1))
    agree(lambda lib, a, b: lib.cosine_similarity(a, b, dim=0), numbers(4, 1, 3), numbers(5, 1))
    agree(lambda lib, a: lib.cosine_similarity(a, lib.arange(3)), numbers(2, 3))
    agree(lambda lib, a: lib.nn.functional.normalize(a, p=1, dim=0), x)
    agree(lambda lib, a, b: lib.pairwise_distance(a, b, p=1.0, keepdim=True), numbers(2, 1, 3), numbers(4, 3))


def test_bilinear_of_half_precision_and_batches_is_pytorchs():
    inputs = numbers(2, 5, 3), numbers(2, 5, 4, seed=1), numbers(6, 3, 4), numbers(6)
    agree(lambda lib, a, b, w, c: lib.bilinear(a, b, w, c), *inputs)
    agree(lambda lib, a, b, w: lib.nn.functional.bilinear(a, b, w), *inputs[:3])
    halves = [[lib.from_numpy(a).bfloat16() for a in inputs] for lib in (tdt, torch)]
    ours, theirs = tdt.bilinear(*halves[0]).float().numpy(), torch.bilinear(*halves[1]).float().numpy()
    np.testing.assert_allclose(ours, theirs, rtol=2**-6, atol=2**-5)


REFUSED = {
    "pixel_shuffle": (lambda lib: lib.pixel_shuffle(lib.ones(3, 2, 2), 2), ""),
    "pixel_shuffle dims": (lambda lib: lib.pixel_shuffle(lib.ones(2, 2), 2), ""),
    "pixel_shuffle factor": (lambda lib: lib.pixel_shuffle(lib.ones(4, 2, 2), 0), ""),
    "pixel_unshuffle": (lambda lib: lib.pixel_unshuffle(lib.ones(1, 2, 3), 2), ""),
    "channel_shuffle": (lambda lib: lib.channel_shuffle(lib.ones(1, 3, 2), 2), ""),
    "channel_shuffle dims": (lambda lib: lib.channel_shuffle(lib.ones(4, 2), 2), ""),
    "channel_shuffle groups": (lambda lib: lib.channel_shuffle(lib.ones(1, 4, 2), 0), ""),
    "unfold dims": (lambda lib: lib.nn.functional.unfold(lib.ones(1, 0, 2, 2), 1), ""),
    "unfold size": (lambda lib: lib.nn.functional.unfold(lib.ones(1, 1, 2, 2), 3), ""),
    "unfold kernel": (lambda lib: lib.nn.functional.unfold(lib.ones(1, 1, 2, 2), 0), "kernel size should be greater"),
    "unfold padding": (lambda lib: lib.nn.functional.unfold(lib.ones(1, 1, 2, 2), 1, 1, -1), "should be non-negative"),
    "unfold three": (lambda lib: lib.nn.functional.unfold(lib.ones(1, 1, 2, 2), (1, 1, 1)), ""),
    "unfold float": (lambda lib: lib.nn.functional.unfold(lib.ones(1, 1, 2, 2), 1.5), "argument 'kernel_size' "),
    "unfold int": (lambda lib: lib.nn.functional.unfold(lib.ones(1, 1, 2, 2).int(), 1), "not implemented for 'Int'"),
    "fold rows": (lambda lib: lib.nn.functional.fold(lib.ones(1, 3, 4), 2, 2), ""),
    "fold places": (lambda lib: lib.nn.functional.fold(lib.ones(1, 4, 3), 2, 2), "number of sliding blocks 1 * 1 = 1"),
    "fold dims": (lambda lib: lib.nn.functional.fold(lib.ones(4), 2, 2), ""),
    "one_hot dtype": (lambda lib: lib.nn.functional.one_hot(lib.ones(2)), "only applicable to index tensor"),
    "one_hot negative": (lambda lib: lib.nn.functional.one_hot(lib.tensor([-1])), "Class values must be non-negative"),
    "one_hot large": (lambda lib: lib.nn.functional.one_hot(lib.tensor([3]), 2), "Class values must be smaller than"),
    "one_hot empty": (lambda lib: lib.nn.functional.one_hot(lib.ones(0).long()), ""),
    "cosine int": (lambda lib: lib.cosine_similarity(lib.ones(2, 3).int(), lib.ones(2, 3).int()), ""),
    "cosine shapes": (lambda lib: lib.cosine_similarity(lib.ones(2, 3), lib.ones(4)), "must match"),
    "cosine dim": (lambda lib: lib.cosine_similarity(lib.ones(2, 3), lib.ones(2, 3), 7), ""),
    "pdist dims": (lambda lib: lib.pdist(lib.ones(3)), ""),
    "pdist int": (lambda lib: lib.pdist(lib.ones(3, 3).int()), "pdist only supports floating-point dtypes"),
    "pdist p": (lambda lib: lib.pdist(lib.ones(3, 3), -1), "pdist only supports non-negative p values"),
    "cdist dims": (lambda lib: lib.cdist(lib.ones(2, 3), lib.ones(3)), ""),
    "cdist columns": (lambda lib: lib.cdist(lib.ones(2, 3), lib.ones(2, 2)), ""),
    "cdist mode": (lambda lib: lib.cdist(lib.ones(2, 3), lib.ones(2, 3), compute_mode="x"), ""),
    "cdist dtypes": (lambda lib: lib.cdist(lib.ones(2, 3), lib.ones(2, 3).double()), ""),
    "bilinear sizes": (lambda lib: lib.bilinear(lib.ones(2, 3), lib.ones(2, 4), lib.ones(5, 3, 3)), "input2 size does not match"),
    "bilinear batch": (lambda lib: lib.bilinear(lib.ones(2, 3), lib.ones(1, 4), lib.ones(5, 3, 4)), ""),
    "bilinear dims": (lambda lib: lib.bilinear(lib.ones(2, 3), lib.ones(4), lib.ones(5, 3, 4)), ""),
    "bilinear bias": (
        lambda lib: lib.bilinear(lib.ones(2, 3), lib.ones(2, 4), lib.ones(5, 3, 4), lib.ones(4)), "bias size does not match",
    ),
    "bilinear dtype": (
        lambda lib: lib.bilinear(lib.ones(2, 3), lib.ones(2, 4).double(), lib.ones(5, 3, 4)), "All tensors must have the same",
    ),
    "Bilinear": (lambda lib: lib.nn.Bilinear(0, 3, 2), ""),
    "Unflatten": (lambda lib: lib.nn.Unflatten(1, 3), ""),
    "Unflatten element": (lambda lib: lib.nn.Unflatten(1, (3, 2.0)), ""),
    "Unflatten size": (lambda lib: lib.nn.Unflatten(1, (3, 5))(lib.ones(2, 12)), "don't multiply up to the size of dim 1"),
    "CircularPad2d": (lambda lib: lib.nn.CircularPad2d(1)(lib.ones(3, 3)), ""),
    "ReflectionPad1d": (lambda lib: lib.nn.ReflectionPad1d(3)(lib.ones(1, 3)), "Padding size should be less than"),
    "pad odd": (lambda lib: lib.nn.functional.pad(lib.ones(3), (1, 2, 3)), "Padding length must be divisible by 2"),
    "pad mode": (lambda lib: lib.nn.functional.pad(lib.ones(3), (1, 2), "mirror"), "Unrecognised padding mode mirror"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name):
    agree_error(*REFUSED[name])
