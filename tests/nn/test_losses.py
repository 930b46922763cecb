"""Losses are PyTorch's in every form of target, weight, reduction, smoothing and ignored class."""

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, numbers

TARGETS = np.array([1, 0, 4, 2, 1, 3])
WEIGHT = np.array([0.5, 1.0, 2.0, 0.25, 1.5], "float32")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [-100, 1])
def test_cross_entropy_of_classes_is_pytorchs(reduction, smoothing, weighted, ignore):
    def run(lib, x, t):
        weight = lib.from_numpy(WEIGHT) if weighted else None
        loss = lib.nn.CrossEntropyLoss(weight, reduction=reduction, label_smoothing=smoothing, ignore_index=ignore)
        return loss(x, t)

    agree(run, numbers(6, 5), TARGETS)
    agree(run, numbers(2, 5, 3, 2), np.arange(12).reshape(2, 3, 2) % 5)
    agree(run, numbers(5), np.array(2))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_of_probabilities_is_pytorchs(reduction, smoothing, weighted):
    def run(lib, x, t):
        weight = lib.from_numpy(WEIGHT) if weighted else None
        return lib.nn.functional.cross_entropy(x, t, weight, reduction=reduction, label_smoothing=smoothing)

    for shape in ((6, 5), (2, 5, 3), (5,)):
        agree(run, numbers(*shape), np.abs(numbers(*shape, seed=1)))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [-100, 1])
def test_nll_loss_is_pytorchs(reduction, weighted, ignore):
    def run(lib, x, t):
        weight = lib.from_numpy(WEIGHT) if weighted else None
        return lib.nn.NLLLoss(weight, reduction=reduction, ignore_index=ignore)(x, t)

    agree(run, numbers(6, 5), TARGETS)
    agree(run, numbers(2, 5, 3, 2), np.arange(12).reshape(2, 3, 2) % 5)
    agree(run, numbers(5), np.array(2))


@pytest.mark.parametrize("name", ["MSELoss", "L1Loss"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_distances_are_pytorchs(name, reduction):
    for shape in ((3, 4), (), (0, 2)):
        agree(
            lambda lib, x, y: getattr(lib.nn, name)(reduction=reduction)(x, y), numbers(*shape), numbers(*shape, seed=1)
        )


def test_a_weighted_squared_error_is_pytorchs():
    for reduction in ("mean", "sum", "none"):
        agree(lambda lib, x, y, w, r=reduction: lib.nn.functional.mse_loss(x, y, reduction=r, weight=w.detach()),
              numbers(3, 4), numbers(3, 4, seed=1), np.abs(numbers(3, 4, seed=2)))  # fmt: skip


def test_targets_of_different_shape_are_broadcast_with_a_warning():
    with pytest.warns(UserWarning, match="Using a target size"):
        agree(lambda lib, x, y: lib.nn.functional.mse_loss(x, y), numbers(3, 4), numbers(4))


@pytest.mark.parametrize(
    ("loss", "options"), [("nll_loss", {}), ("cross_entropy", {}), ("cross_entropy", {"label_smoothing": 0.1})]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_batch_that_is_all_ignored_has_a_nan_loss_and_no_gradient_as_in_pytorch(loss, options, weighted):
    for ignore, targets in ((1, [1, 1]), (-100, [-100, -100])):
        agree(
            lambda lib, x, t, ignore=ignore: getattr(lib.nn.functional, loss)(
                x, t, lib.tensor([1.0, 2.0, 0.5]) if weighted else None, ignore_index=ignore, **options
            ),
            numbers(2, 3),
            np.array(targets),
        )


@pytest.mark.parametrize("weight", [[0.0, 0.0, 0.0], [0.0, 1.0, 2.0], [np.nan, 1.0, 1.0], [np.inf, 0.0, 1.0]], ids=str)
@pytest.mark.parametrize("twice", [False, True], ids=["once", "differentiable"])
@pytest.mark.parametrize("loss, smoothing", [("cross_entropy", 0.0), ("cross_entropy", 0.1), ("nll_loss", None)])
def test_weights_of_nothing_or_no_number_spare_ignored_rows_alone(loss, smoothing, twice, weight):
    def gradient(lib, x, w, t):
        options = {} if smoothing is None else {"label_smoothing": smoothing}
        for reduction in ("mean", "sum", "none"):
            y = getattr(lib.nn.functional, loss)(x, t, w.detach(), reduction=reduction, ignore_index=ignore, **options)
            yield y.detach()
            yield lib.autograd.grad(y.sum(), x, create_graph=twice)[0].detach()

    for ignore in (-100, 0, 1):
        for targets in ([0, 0], [0, 1], [1, 2], [0, -100], [-100, -100]):
            if ignore == -100 or -100 not in targets:
                agree(
                    lambda *args: tuple(gradient(*args)), numbers(2, 3), np.array(weight, "float32"), np.array(targets)
                )


def test_extreme_logits_neither_overflow_nor_lose_the_loss():
    x = np.array([[1e4, -1e4, 0.0], [-1e4, 0.0, 1e4]], "float32")
    agree(lambda lib, x, t: lib.nn.functional.cross_entropy(x, t), x, np.array([0, 1]))


@pytest.mark.parametrize("loss, smoothing", [("cross_entropy", 0.0), ("nll_loss", 0.0)])
def test_gradients_of_gradients_of_classifying_losses_are_right(loss, smoothing):

    x = tdt.from_numpy(numbers(4, 3, dtype="float64")).requires_grad_(True)
    t = tdt.tensor([0, 2, 1, 1])
    weight = tdt.tensor([0.5, 1.0, 2.0], dtype=tdt.float64)
    function = getattr(tdt.nn.functional, loss)
    for reduction in ("mean", "none"):
        assert tdt.autograd.gradgradcheck(
            lambda x, r=reduction: function(x, t, weight, ignore_index=2, reduction=r).exp(), (x,)
        )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [{"batch_chunk_size": 2}, {"batch_chunk_size": 9}, {}, {"chunking_method": None},
                                     {"chunking_method": "aspect_ratio:3"}, None], ids=str)  # fmt: skip
def test_chunks_of_samples_have_the_losses_of_the_whole(reduction, weighted, options):
    def run(lib, x, w, b, t):
        weight = lib.from_numpy(WEIGHT) if weighted else None
        how = None if options is None else lib.nn.LinearCrossEntropyOptions(**options)
        return lib.nn.functional.linear_cross_entropy(x, w, t, linear_bias=b, weight=weight, reduction=reduction,
                                                      ignore_index=1, options=how)  # fmt: skip

    agree(run, numbers(6, 3), numbers(5, 3, seed=1), numbers(5, seed=2), TARGETS)
    agree(run, numbers(3), numbers(5, 3, seed=1), numbers(5, seed=2), np.array(2))
    if reduction != "mean":  # of nothing, the gradient that PyTorch's chunks have is NaN; ours is 0, as without chunks
        agree(run, numbers(2, 3), numbers(5, 3, seed=1), numbers(5, seed=2), np.array([1, 1]))
    agree(run, numbers(0, 3), numbers(5, 3, seed=1), numbers(5, seed=2), TARGETS[:0])


def test_chunks_keep_no_logits():
    """What stays until the backward is as large as input and table, not as samples times classes."""
    import tracemalloc

    n, classes = 256, 4096
    x, w = (tdt.from_numpy(numbers(k, 8)).requires_grad_() for k in (n, classes))
    peak = {}
    for options in (None, tdt.nn.LinearCrossEntropyOptions(batch_chunk_size=16)):
        tracemalloc.start()
        with tdt.backends.kernels(False):  # Python's memory would be traced while they are compiled
            tdt.nn.functional.linear_cross_entropy(x, w, tdt.arange(n), options=options).backward()
        peak[options] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak.pop(None) > 4 * n * classes
    assert peak.popitem()[1] < 4 * n * classes / 3


def test_second_gradients_of_chunks_are_right():
    x, w, b = (tdt.from_numpy(numbers(*shape, dtype="float64")).requires_grad_() for shape in ((5, 2), (3, 2), (3,)))
    options = tdt.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    assert tdt.autograd.gradgradcheck(
        lambda x, w, b: tdt.nn.functional.linear_cross_entropy(x, w, tdt.tensor([0, 2, 1, 1, 0]), linear_bias=b,
                                                               options=options), (x, w, b))  # fmt: skip


def test_options_that_cannot_be_met_are_ignored_with_a_warning():
    with pytest.warns(UserWarning, match="``options`` ignored"):
        agree(lambda lib, x, w, t: lib.nn.functional.linear_cross_entropy(
            x, w, t, label_smoothing=0.1, options=lib.nn.LinearCrossEntropyOptions()
        ), numbers(6, 3), numbers(5, 3), TARGETS)  # fmt: skip


@pytest.mark.parametrize("options", [{"acc_policy": "x"}, {"chunking_method": "x"}, {"chunking_method": "aspect_ratio:0"},
                                     {"batch_chunk_size": 0}, {"batch_chunk_size": 1.5}, {"acc_dtype": "int64"},
                                     {"batch_chunk_size": 3, "chunking_method": "aspect_ratio"},
                                     {"acc_dtype": "float64"}], ids=str)  # fmt: skip
def test_options_that_pytorch_refuses_are_refused(options):
    def call(lib):
        how = {k: getattr(lib, v) if k == "acc_dtype" else v for k, v in options.items()}
        chosen = lib.nn.LinearCrossEntropyOptions(**how)
        return lib.nn.functional.linear_cross_entropy(
            lib.ones(3, 4), lib.ones(5, 4), lib.tensor([0, 1, 2]), options=chosen
        )

    agree_error(call, _first_words(call))


REFUSED = [
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5), lib.zeros(4, 2).long()),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5), lib.zeros(3, 2).long()),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5), lib.tensor(1)),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5, 4), lib.tensor(1)),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(5), lib.zeros(2, 2).long()),
    lambda lib: lib.nn.functional.cross_entropy(lib.tensor(1.0), lib.tensor(1)),
    lambda lib: lib.nn.functional.nll_loss(lib.tensor(1.0), lib.tensor(1)),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5), lib.tensor([1, 2, 5])),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5), lib.tensor([1, -2, 4])),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5), lib.tensor([1, 2])),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5), lib.tensor([1.0, 2.0, 3.0])),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5), lib.tensor([1, 2, 3]).int()),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5), lib.tensor([1, 2, 3]), label_smoothing=2),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5), lib.tensor([1, 2, 3]), reduction="foo"),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5), lib.tensor([1, 2, 3]), weight=lib.ones(4)),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5), lib.tensor([1, 2, 3]), weight=lib.ones(5).double()),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(5), lib.tensor([1, 2])),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5), lib.ones(3, 4)),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 5, 4), lib.zeros(3, 3).long()),
    lambda lib: lib.nn.functional.nll_loss(lib.ones(3, 5), lib.tensor([1, 2, 5])),
    lambda lib: lib.nn.functional.nll_loss(lib.ones(3, 5), lib.tensor([1, 2])),
]


def test_class_probabilities_with_weights_for_other_classes_are_refused():
    for shape in ((5,), (3, 5), (3, 5, 4)):
        agree_error(
            lambda lib, shape=shape: lib.nn.functional.cross_entropy(lib.ones(shape), lib.ones(shape), lib.ones(4)),
            "weight tensor should be defined either for all 5 classes or no classes but got weight tensor of shape: [4]",
        )


@pytest.mark.parametrize("loss", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_one_sample_with_its_class_in_a_list_is_pytorchs(loss, reduction):
    def function(lib, *args):
        return getattr(lib.nn.functional, loss)(*args, reduction=reduction)

    agree(lambda lib, x, t: function(lib, x.detach(), t), numbers(3), np.array([2]))
    # PyTorch's backward takes this only where there is but one class.
    x, grads = tdt.from_numpy(numbers(3)).requires_grad_(True), []
    for target in (tdt.tensor(2), tdt.tensor([2])):
        grads.append(tdt.autograd.grad(function(tdt, x, target), x)[0].tolist())
    assert grads[0] == grads[1]


@pytest.mark.parametrize("call", REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_targets_that_pytorch_refuses_are_refused_with_its_message(call):
    agree_error(call, _first_words(call))


def _first_words(call):
    import re

    import torch

    try:
        call(torch)
    except Exception as error:  # noqa: BLE001  (its message is compared)
        return re.split(r"[,:;(]", str(error).split("\n")[0])[0].strip(" .")
    raise AssertionError("PyTorch accepts this call")


NODES = {
    "mse_loss": lambda t, f, x: f.mse_loss(x, t.ones(3, 4)),
    "l1_loss": lambda t, f, x: f.l1_loss(x, t.ones(3, 4)),
    "smooth_l1_loss": lambda t, f, x: f.smooth_l1_loss(x, t.ones(3, 4), beta=0.5),
    "smooth_l1_loss that is the l1_loss": lambda t, f, x: f.smooth_l1_loss(x, t.ones(3, 4), beta=0.0),
    "cross_entropy": lambda t, f, x: f.cross_entropy(x, t.tensor([0, 1, 2])),
    "cross_entropy of probabilities": lambda t, f, x: f.cross_entropy(x, t.ones(3, 4) / 4),
    "cross_entropy smoothed": lambda t, f, x: f.cross_entropy(x, t.ones(3, 4) / 4, label_smoothing=0.1),
    "margin_ranking_loss": lambda t, f, x: f.margin_ranking_loss(x, t.ones(3, 4), t.ones(3, 4), reduction="none"),
    "triplet_margin_loss": lambda t, f, x: f.triplet_margin_loss(x, t.ones(3, 4), t.zeros(3, 4), reduction="none"),
}


@pytest.mark.parametrize("name", NODES)
def test_the_last_node_of_a_loss_has_pytorchs_name(name):
    torch = require_torch()
    found, expected = (
        NODES[name](lib, lib.nn.functional, lib.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()).grad_fn.name()
        for lib in (tdt, torch)
    )
    assert found == expected
