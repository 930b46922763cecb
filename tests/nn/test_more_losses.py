"""Binary, robust, probabilistic and margin losses: what PyTorch's databases do not ask of them."""

import re
import warnings

import numpy as np
import pytest

import tdt
from tdt.autograd._meta import meta, stand_in
from tests.nn._compare import agree, agree_error, numbers

torch = pytest.importorskip("torch")
PAIRS = ["smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits", "soft_margin_loss", "hinge_embedding_loss",
         "poisson_nll_loss", "kl_div", "multilabel_soft_margin_loss", "mse_loss", "l1_loss"]  # fmt: skip
LEGACY = [name for name in PAIRS if name != "huber_loss"]


def functional(lib, name):
    return getattr(lib.nn.functional, name)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("target", ["float16", "float64", "int64"])
@pytest.mark.filterwarnings("ignore")
def test_a_target_of_another_dtype_has_pytorchs_result_or_error(name, target):
    if (name, target) in {("kl_div", "int64"), ("binary_cross_entropy_with_logits", "int64")}:
        agree_error(lambda lib: functional(lib, name)(lib.ones(2, 3), lib.ones(2, 3).long()), first_words(name))
        return

    def losses(lib, x, t):
        return functional(lib, name)(x.float(), t, reduction="none")

    t = np.abs(numbers(2, 3, seed=1)).astype(target)
    ours, theirs = (losses(lib, lib.from_numpy(numbers(2, 3)), lib.from_numpy(t)) for lib in (tdt, torch))
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    np.testing.assert_allclose(ours.numpy().astype(float), theirs.numpy().astype(float), rtol=2e-3, atol=1e-3)


def first_words(name):
    return {"kl_div": "kl_div: Integral inputs not supported."}.get(
        name, "result type Float can't be cast to the desired"
    )


@pytest.mark.parametrize("old", [(None, False), (False, None), (True, None), (False, True), (True, True), (None, True)])
@pytest.mark.parametrize("name", LEGACY)
def test_the_deprecated_arguments_mean_pytorchs_reduction_and_warn_with_its_message(name, old):
    messages, results = [], []
    for lib in (tdt, torch):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x, t = lib.from_numpy(numbers(2, 3)), lib.from_numpy(np.abs(numbers(2, 3, seed=1)))
            results.append(functional(lib, name)(x, t, size_average=old[0], reduce=old[1]).numpy())
            messages.append([str(w.message) for w in caught])
    assert messages[0] == messages[1]
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)


def test_a_layers_constructor_accepts_the_deprecated_arguments_with_a_warning():
    for name in ("BCELoss", "SmoothL1Loss", "MultiMarginLoss", "PoissonNLLLoss", "KLDivLoss", "TripletMarginLoss"):
        with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
            assert getattr(tdt.nn, name)(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="Please use reduction='mean' instead"):
        assert tdt.nn.functional.l1_loss(tdt.ones(2), tdt.zeros(2), reduction="elementwise_mean").item() == 1
    with pytest.warns(FutureWarning, match="Please use `NLLLoss` instead"):
        tdt.nn.NLLLoss2d()


@pytest.mark.parametrize("name", ["smooth_l1_loss", "huber_loss", "l1_loss"])
def test_pairs_of_different_shape_are_broadcast_with_a_warning(name):
    with pytest.warns(UserWarning, match="Using a target size"):
        agree(lambda lib, x, y: functional(lib, name)(x, y), numbers(3, 4), numbers(4))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weights", ["", "w", "p", "wp"])
@pytest.mark.parametrize("shape", [(3, 4), (4,), (1,), ()])
def test_weights_of_the_binary_losses_are_pytorchs(reduction, weights, shape):
    def with_logits(lib, x, t, w, p):
        return lib.nn.BCEWithLogitsLoss(w.detach() if "w" in weights else None, reduction=reduction,
                                        pos_weight=p.detach() if "p" in weights else None)(x, t)  # fmt: skip

    def of_probabilities(lib, x, t, w):
        return lib.nn.BCELoss(w.detach() if weights else None, reduction=reduction)(x, t)

    x, t = numbers(3, 4, seed=2), np.random.default_rng(3).uniform(size=(3, 4)).astype("float32")
    w, p = np.abs(numbers(*shape, seed=4)), np.abs(numbers(*shape, seed=5))
    agree(with_logits, x, t, w, p)
    agree(of_probabilities, 1 / (1 + np.exp(-x)), t, w)


def test_probabilities_of_0_and_1_cost_at_most_100_and_have_pytorchs_gradients():
    x, t = np.array([0, 1, 0, 1], "float32"), np.array([0, 1, 1, 0], "float32")
    agree(lambda lib, x, t: lib.nn.functional.binary_cross_entropy(x, t.detach(), reduction="none"), x, t)
    agree(
        lambda lib, x, t: lib.nn.functional.binary_cross_entropy(x.detach(), t), numbers(4) * 0 + np.float32(1e-30), t
    )


@pytest.mark.parametrize("size", [8, 1 << 15])
def test_extreme_logits_neither_overflow_nor_lose_a_small_loss(size):
    x = np.resize(np.array([100, -100, 1e30, -1e30, 20, -20, 0, -0.0, 1e-40], "float32"), size)
    for t in (np.zeros_like(x), np.ones_like(x)):
        agree(lambda lib, x, t: lib.nn.functional.binary_cross_entropy_with_logits(x, t, reduction="none"), x, t)
    loss = tdt.nn.functional.binary_cross_entropy_with_logits(tdt.full((size,), 20.0), tdt.ones(size), reduction="none")
    np.testing.assert_allclose(loss.numpy(), np.log1p(np.exp(-20.0)), rtol=1e-6)


@pytest.mark.parametrize("size", [4, 40_000])
def test_logits_that_are_infinite_or_large_and_right_have_the_losses_of_pytorch(size):
    x, t = np.resize(np.float32([np.inf, np.inf, 15, 12]), size), np.resize(np.float32([0, 0.5, 0.9999, 0.99999]), size)
    agree(lambda lib, x, t: lib.nn.functional.binary_cross_entropy_with_logits(x, t, reduction="none"), x, t)


def test_a_distance_of_delta_itself_has_pytorchs_second_gradient():
    x, t = np.array([1.0, -1.0, 0.5, 2.0, -2.0]), np.zeros(5)

    def second(lib, x, t, name, **options):
        y = functional(lib, name)(x, t, reduction="sum", **options)
        first = lib.autograd.grad(y, (x, t), create_graph=True)
        return tuple(lib.autograd.grad(sum((g**2).sum() for g in first), (x, t), allow_unused=True))

    for name, options in (("huber_loss", {"delta": 1.0}), ("smooth_l1_loss", {"beta": 1.0})):
        agree(lambda lib, x, t, n=name, o=options: second(lib, x, t, n, **o), x, t)


@pytest.mark.parametrize("var", [(3, 4), (3, 1), (3,), 0.5])
@pytest.mark.parametrize("full", [False, True])
def test_variances_of_every_form_are_pytorchs(var, full):
    if isinstance(var, float):
        agree(lambda lib, x, t: lib.nn.GaussianNLLLoss(full=full)(x, t, var), numbers(3, 4), numbers(3, 4, seed=1))
    else:
        v = np.maximum(numbers(*var, seed=2), 0)
        agree(lambda lib, x, t, v: lib.nn.GaussianNLLLoss(full=full, eps=0.01)(x, t, v), numbers(3, 4),
              numbers(3, 4, seed=1), v)  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none", "batchmean"])
@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
def test_divergences_of_targets_with_zeros_are_pytorchs(reduction, log_target):
    t = np.abs(numbers(3, 4, seed=1))
    t[0] = 0
    for shape in ((3, 4), (4,), ()):
        agree(lambda lib, x, t: lib.nn.functional.kl_div(x, t, reduction=reduction, log_target=log_target),
              numbers(*shape), np.ascontiguousarray(t[(0,) * (2 - len(shape))]))  # fmt: skip


def test_the_mean_divergence_warns_that_it_is_not_the_divergence():
    with pytest.warns(UserWarning, match="'batchmean' divides only by the batch size"):
        tdt.nn.functional.kl_div(tdt.zeros(2), tdt.ones(2))


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_triplets_are_pytorchs(swap, p):
    triple = [numbers(5, 3, seed=i) for i in range(3)]
    agree(lambda lib, a, b, c: lib.nn.TripletMarginLoss(margin=1.5, p=p, swap=swap)(a, b, c), *triple)
    agree(lambda lib, a, b, c: lib.nn.functional.triplet_margin_with_distance_loss(
        a, b, c, distance_function=lambda u, v: (u - v).abs().amax(-1), swap=swap), *triple)  # fmt: skip


@pytest.mark.parametrize("targets", [[[1, 2, -1, 0]], [[-1, 0, 1, 2]], [[3, 2, 1, 0]], [[1, 1, -1, 0]], [1, -1, 2, 3]])
def test_lists_of_right_classes_end_at_the_first_minus_one(targets):
    t = np.array(targets)
    agree(lambda lib, x, t: lib.nn.functional.multilabel_margin_loss(x, t, reduction="none"), numbers(*t.shape), t)


# torch.<name>: reductions are numbers. (arguments of a small call, in PyTorch's order)
NATIVE = {
    "binary_cross_entropy_with_logits": lambda lib, x, y: (x, y.abs(), lib.ones(3), lib.ones(3)),
    "cosine_embedding_loss": lambda lib, x, y: (x, y, lib.tensor([1, -1]), 0.25),
    "hinge_embedding_loss": lambda lib, x, y: (x, y.sign(), 0.5),
    "kl_div": lambda lib, x, y: (x, y.abs()),
    "margin_ranking_loss": lambda lib, x, y: (x, y, x.sign(), 0.5),
    "triplet_margin_loss": lambda lib, x, y: (x, y, x * y, 0.5, 2.0, 1e-6, True),
    "poisson_nll_loss": lambda lib, x, y: (x, y.abs(), True, True, 1e-8),
}


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_the_functions_that_torch_itself_exports_take_numbers_for_reductions(name, reduction):
    def function(lib, x, y):
        return getattr(lib, name)(*NATIVE[name](lib, x, y.detach()), reduction=reduction)

    agree(function, numbers(2, 3), numbers(2, 3, seed=1))


# What `tdt check` calls before any data is there: (loss, shapes of its arguments, an int64 one in brackets; options).
SHAPES = [
    ("binary_cross_entropy", (3, 4), (3, 4)), ("binary_cross_entropy_with_logits", (3, 4), (3, 4), (4,)),
    ("huber_loss", (3, 4), (3, 4)), ("smooth_l1_loss", (3, 4), (3, 4)), ("kl_div", (3, 4), (3, 4)),
    ("poisson_nll_loss", (3, 4), (3, 4)), ("gaussian_nll_loss", (3, 4), (3, 4), (3, 1)), ("soft_margin_loss", (3,), (3,)),
    ("margin_ranking_loss", (3,), (3,), (3,)), ("hinge_embedding_loss", (3,), (3,)),
    ("cosine_embedding_loss", (3, 4), (3, 4), (3,)), ("multi_margin_loss", (3, 4), [3]),
    ("multilabel_margin_loss", (3, 4), [3, 4]), ("multilabel_soft_margin_loss", (3, 4), (3, 4)),
    ("triplet_margin_loss", (3, 4), (3, 4), (3, 4)), ("ctc_loss", (5, 3, 4), [3, 2], [3], [3]),
    ("linear_cross_entropy", (3, 2), (4, 2), [3]), ("embedding_bag", [3, 4], (5, 6)),
]  # fmt: skip


@pytest.mark.parametrize("name, shapes", [(name, shapes) for name, *shapes in SHAPES], ids=[s[0] for s in SHAPES])
@pytest.mark.filterwarnings("ignore")
def test_the_pass_over_shapes_takes_every_loss(name, shapes):
    with meta():
        inputs = [stand_in(tuple(s), np.float32 if isinstance(s, tuple) else np.int64) for s in shapes]
        found = functional(tdt, name)(*inputs)
        assert found.shape == ((3, 6) if name == "embedding_bag" else ())


@pytest.mark.parametrize("name, shapes", [(name, shapes) for name, *shapes in SHAPES], ids=[s[0] for s in SHAPES])
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
def test_a_non_tensor_is_refused_by_its_type(name, shapes):
    inputs = [tdt.zeros(tuple(s), dtype=tdt.float32 if isinstance(s, tuple) else tdt.int64) for s in shapes]
    for i in range(2 if name not in ("gaussian_nll_loss", "multilabel_soft_margin_loss") else 1):
        with pytest.raises(TypeError, match=rf"argument '\w+' \(position {1 + i}\) must be Tensor, not float"):
            functional(tdt, name)(*inputs[:i], 1.0, *inputs[i + 1 :])


REFUSED = [
    lambda lib, f: f.binary_cross_entropy(lib.ones(2) * 2, lib.ones(2)),
    lambda lib, f: f.binary_cross_entropy(lib.ones(2) * float("nan"), lib.ones(2)),
    lambda lib, f: f.binary_cross_entropy(lib.ones(2), lib.ones(2) * 2),
    lambda lib, f: f.binary_cross_entropy(lib.ones(2), lib.ones(1)),
    lambda lib, f: f.binary_cross_entropy(lib.ones(2), lib.ones(2).double()),
    lambda lib, f: f.binary_cross_entropy(lib.ones(2), lib.ones(2), lib.ones(3, 2)),
    lambda lib, f: f.binary_cross_entropy_with_logits(lib.ones(2), lib.ones(3)),
    lambda lib, f: f.binary_cross_entropy_with_logits(lib.ones(2), lib.ones(2), lib.ones(3, 2)),
    lambda lib, f: f.binary_cross_entropy_with_logits(lib.ones(2), lib.ones(2), reduction="foo"),
    lambda lib, f: f.smooth_l1_loss(lib.ones(2), lib.ones(2), beta=-1.0),
    lambda lib, f: f.huber_loss(lib.ones(2), lib.ones(2), delta=0.0),
    lambda lib, f: f.huber_loss(lib.ones(2), lib.ones(2), weight=lib.ones(3)),
    lambda lib, f: f.mse_loss(lib.ones(2), lib.ones(2), weight=lib.ones(3)),
    lambda lib, f: f.l1_loss(lib.ones(2), lib.ones(2), weight=lib.ones(3)),
    lambda lib, f: f.gaussian_nll_loss(lib.ones(2), lib.ones(2), -1.0),
    lambda lib, f: f.gaussian_nll_loss(lib.ones(2, 3), lib.ones(2, 3), lib.ones(2, 2)),
    lambda lib, f: f.cosine_embedding_loss(lib.ones(2), lib.ones(2), lib.ones(2)),
    lambda lib, f: f.cosine_embedding_loss(lib.ones(2, 3), lib.ones(2, 3), lib.ones(2, 3)),
    lambda lib, f: f.margin_ranking_loss(lib.ones(2), lib.ones(2), lib.ones(2, 1)),
    lambda lib, f: f.multi_margin_loss(lib.ones(2, 3), lib.tensor([0, 3])),
    lambda lib, f: f.multi_margin_loss(lib.ones(2, 3), lib.tensor([0, 1]), p=3),
    lambda lib, f: f.multi_margin_loss(lib.ones(2, 3), lib.tensor([0, 1, 1])),
    lambda lib, f: f.multi_margin_loss(lib.ones(2, 3), lib.tensor([0, 1]), weight=lib.ones(3).double()),
    lambda lib, f: f.multilabel_margin_loss(lib.ones(2, 3), lib.tensor([[0, -1, 1], [0, 1, 3]])),
    lambda lib, f: f.triplet_margin_loss(lib.ones(2), lib.ones(2), lib.ones(2), margin=0.0),
    lambda lib, f: f.triplet_margin_loss(lib.ones(2), lib.ones(1, 2), lib.ones(2)),
    lambda lib, f: lib.nn.HuberLoss(delta="a"),
    lambda lib, f: lib.nn.MultiMarginLoss(p=3),
    lambda lib, f: lib.nn.MultiMarginLoss(weight=lib.ones(2, 2)),
    lambda lib, f: lib.nn.TripletMarginLoss(margin=0.0),
]


@pytest.mark.parametrize("call", REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_pytorch_refuses_is_refused_with_the_start_of_its_message(call):
    with pytest.raises(Exception) as found:  # noqa: PT011 (the class is compared below)
        call(torch, torch.nn.functional)
    clause = re.split(r"[.;(]", str(found.value).split(": Got")[0])[0].replace("torch", "tdt").strip()
    agree_error(lambda lib: call(lib, lib.nn.functional), clause)


CLASSES = np.array([0, 3, 1])
CONSTANTS = [
    lambda lib, f, x, w: f.nll_loss(x, lib.from_numpy(CLASSES), w),
    lambda lib, f, x, w: f.cross_entropy(x, lib.from_numpy(CLASSES), w),
    lambda lib, f, x, w: f.cross_entropy(x, lib.from_numpy(CLASSES), w, label_smoothing=0.1),
    lambda lib, f, x, w: f.multi_margin_loss(x, lib.from_numpy(CLASSES), weight=w),
    lambda lib, f, x, w: f.binary_cross_entropy(x, lib.ones(3, 4), w),
    lambda lib, f, x, w: f.binary_cross_entropy_with_logits(x, lib.ones(3, 4), w),
    lambda lib, f, x, w: f.binary_cross_entropy_with_logits(x, lib.ones(3, 4), pos_weight=w),
    lambda lib, f, x, w: f.soft_margin_loss(x, w.expand(3, 4)),
]


@pytest.mark.parametrize("loss", CONSTANTS, ids=[str(i) for i in range(len(CONSTANTS))])
@pytest.mark.parametrize("trained", [True, False])
def test_an_argument_without_a_gradient_may_not_require_one(loss, trained):
    for lib in (torch, tdt):
        x, w = lib.full((3, 4), 0.5, requires_grad=trained), lib.full((4,), 0.5)
        for _ in range(3):  # further calls are remembered
            loss(lib, lib.nn.functional, x, w)
        w.requires_grad_()
        for _ in range(2):
            with pytest.raises(
                RuntimeError, match=r"is not differentiable with respect to .*'(weight|pos_weight|target)'"
            ):
                loss(lib, lib.nn.functional, x, w)
        with lib.no_grad():
            assert not loss(lib, lib.nn.functional, x, w).requires_grad


def test_special_logits_have_the_same_losses_and_gradients_with_kernels_and_without():
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e-45, 88, -88, 1, -1], "float32")
    for size in (special.size, (1 << 15) + 7):
        for y in (0.0, 1.0, 0.3):
            found = []
            for kernels in (True, False):
                with tdt.backends.kernels(kernels):
                    x = tdt.from_numpy(np.resize(special, size)).requires_grad_()
                    loss = tdt.nn.functional.binary_cross_entropy_with_logits(x, tdt.full((size,), y), reduction="none")
                    found.append((loss.detach().numpy(), tdt.autograd.grad(loss.sum(), x)[0].numpy()))
            for kernel, portable in zip(*found, strict=True):
                np.testing.assert_allclose(kernel, portable, rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_loss_of_probabilities_without_classes_is_pytorchs(reduction, smoothing, weighted):
    ours, theirs = (
        lib.nn.functional.cross_entropy(
            lib.zeros(3, 0), lib.zeros(3, 0), lib.zeros(0) if weighted else None, reduction=reduction,
            label_smoothing=smoothing,
        )
        for lib in (tdt, torch)
    )  # fmt: skip
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("eps", [1e-8, 1e-3, 0.0])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_cosine_similarity_of_zeros_is_nan_where_eps_is_0_in_their_dtype(dtype, eps):
    found = []
    for lib in (torch, tdt):
        a = lib.zeros(1, 2, dtype=getattr(lib, dtype)).requires_grad_()
        b = lib.tensor([[1.0, 2.0]], dtype=getattr(lib, dtype), requires_grad=True)
        out = lib.nn.functional.cosine_similarity(a, b, eps=eps)
        out.backward(lib.ones_like(out))
        found.append([t.detach().double().numpy() for t in (out, a.grad, b.grad)])
    for ours, expected in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-2 if "16" in dtype else 1e-6)


@pytest.mark.parametrize("x, eps", [([1e20, 2e20, 0.0], 1e-8), ([1e-12, 0.0, 0.0], 1e-8), ([3.0, -1.0, 2.0], 1e-8)])
def test_gradients_of_cosine_similarity_with_a_graph_are_those_without(x, eps):
    found = []
    for lib in (tdt, torch):
        a, b = lib.tensor([x], requires_grad=True), lib.tensor([[1.0, 2.0, 3.0]])
        out = lib.nn.functional.cosine_similarity(a, b, eps=eps).sum()
        found += [lib.autograd.grad(out, a, retain_graph=True, create_graph=graph)[0] for graph in (False, True)]
    for each in found[:2]:
        np.testing.assert_allclose(each.detach().numpy(), found[2].detach().numpy(), rtol=1e-5)
    with pytest.raises(RuntimeError, match="eps must be non-negative, got: -1"):
        tdt.nn.functional.cosine_similarity(tdt.ones(1, 2), tdt.ones(1, 2), eps=-1.0)


@pytest.mark.parametrize("pad, value", [((0, 0), float("nan")), ((-1, 0), float("inf"))])
def test_a_pad_that_fills_nothing_takes_any_value(pad, value):
    ours, theirs = (
        lib.nn.functional.pad(lib.arange(6).reshape(2, 3), pad, value=value).tolist() for lib in (tdt, torch)
    )
    assert ours == theirs
