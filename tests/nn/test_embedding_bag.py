"""Bags of embeddings are PyTorch's: every mode, form of input, padding, weights, offsets, and what is refused."""

import re

import numpy as np
import pytest

import tdt
from tests.nn._compare import agree, agree_error, near, numbers

torch = pytest.importorskip("torch")
INDICES = np.array([1, 2, 4, 5, 4, 3, 2, 0])
OFFSETS = {"bags": [0, 3, 5], "an empty one": [0, 3, 3, 6], "empty ends": [0, 0, 4, 8], "one": [0]}


def bag(lib, w, indices, offsets=None, **options):
    options = {k: lib.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    offsets = None if offsets is None else lib.tensor(offsets).long()
    return lib.nn.functional.embedding_bag(lib.from_numpy(indices), w, offsets, **options)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("padding_idx", [None, 4, -4])
def test_bags_by_offsets_are_pytorchs(mode, offsets, padding_idx):
    for kind in (np.int64, np.int32):
        agree(lambda lib, w, kind=kind: bag(lib, w, INDICES.astype(kind), OFFSETS[offsets], mode=mode, padding_idx=padding_idx),
              numbers(6, 3))  # fmt: skip


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_no_indices_and_no_bags_return_zeros_and_nothing(mode):
    for offsets in ([0, 0], []):
        agree(lambda lib, w, o=offsets: bag(lib, w, INDICES[:0], o, mode=mode), numbers(6, 3))
    assert bag(tdt, tdt.ones(6, 3), INDICES, [], mode=mode).shape == (0, 3)  # PyTorch's backward of this crashes
    assert (bag(tdt, tdt.ones(6, 3), INDICES[:0].reshape(2, 0), mode=mode) == 0).all()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_in_rows_are_pytorchs(mode):
    for shape in ((2, 4), (8, 1), (1, 8)):
        agree(lambda lib, w, s=shape: bag(lib, w, INDICES.reshape(s), mode=mode), numbers(6, 3, dtype="float64"))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("offsets", [[0, 3, 8], [0, 0, 8], [0, 8, 8]])
def test_a_last_offset_closes_the_last_bag(mode, offsets):
    agree(lambda lib, w: bag(lib, w, INDICES, offsets, mode=mode, include_last_offset=True), numbers(6, 3))


def test_indices_after_the_last_offset_are_in_no_bag():
    w = numbers(6, 3)
    for mode, fold in (("sum", np.sum), ("mean", np.mean), ("max", np.max)):
        out = bag(tdt, tdt.from_numpy(w), INDICES, [0, 3, 5], mode=mode, include_last_offset=True)
        np.testing.assert_allclose(out.numpy(), [fold(w[INDICES[i:j]], 0) for i, j in ((0, 3), (3, 5))], rtol=1e-6)


@pytest.mark.parametrize("padding_idx", [None, 4])
def test_factors_of_the_rows_are_pytorchs_and_have_gradients(padding_idx):
    def weighted(lib, w, each):
        return lib.nn.functional.embedding_bag(lib.from_numpy(INDICES), w, lib.tensor([0, 3]), mode="sum",
                                               per_sample_weights=each, padding_idx=padding_idx)  # fmt: skip

    agree(weighted, numbers(6, 3), numbers(8, seed=1))
    agree(lambda lib, w, each: lib.nn.EmbeddingBag.from_pretrained(w.detach(), mode="sum")(
        lib.from_numpy(INDICES.reshape(2, 4)), per_sample_weights=each), numbers(6, 3), numbers(2, 4, seed=1))  # fmt: skip


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", [{"max_norm": 1.0}, {"max_norm": 1.0, "norm_type": 1.0}], ids=str)
def test_rows_that_are_used_and_too_long_are_shortened_in_place_as_in_pytorch(mode, options):
    weights = []
    for lib in (tdt, torch):
        w = lib.from_numpy(numbers(6, 3))
        bag(lib, w, INDICES[:4], [0, 3], mode=mode, **options)
        weights.append(w)
        again = lib.from_numpy(numbers(6, 3))
        assert lib.embedding_renorm_(again, lib.from_numpy(INDICES[:4]), 1.0, options.get("norm_type", 2.0)) is again
        np.testing.assert_array_equal(again.numpy(), w.numpy())
    near(*weights, "table")
    assert (weights[0].numpy() != numbers(6, 3)).any()
    agree_error(
        lambda lib: lib.embedding_renorm_(lib.ones(3, 2, requires_grad=True), lib.tensor([1]), 1.0, 2.0), "a leaf"
    )


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding_idx", [None, 2])
def test_gradients_by_frequency_are_those_of_single_rows(mode, padding_idx):
    """PyTorch's bags divide a row's gradient by another row's frequency; its Embedding by the right one."""
    w, indices = [lib.from_numpy(numbers(6, 3)).requires_grad_() for lib in (tdt, torch)], INDICES.reshape(2, 4)
    options = {"scale_grad_by_freq": True, "padding_idx": padding_idx}
    ours = bag(tdt, w[0], indices, mode=mode, **options)
    rows = torch.nn.functional.embedding(torch.from_numpy(indices), w[1], **options)
    counts = torch.from_numpy(indices != padding_idx).unsqueeze(2).float()
    sums = (rows * counts).sum(1)
    theirs = sums if mode == "sum" else sums / counts.sum(1)
    near(ours, theirs, "bags")
    ours.exp().sum().backward()
    theirs.exp().sum().backward()
    near(w[0].grad, w[1].grad, "gradient")


@pytest.mark.parametrize("layer", ["Embedding", "EmbeddingBag"])
def test_sparse_gradients_by_frequency_are_refused(layer):
    def run(lib):
        module = getattr(lib.nn, layer)(6, 3, scale_grad_by_freq=True, sparse=True)
        module(lib.tensor([[1, 2, 1]])).sum().backward()

    agree_error(run)


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding_idx", [None, 2])
def test_sparse_gradients_hold_the_rows_that_pytorchs_do(mode, padding_idx):
    grads = []
    for lib in (tdt, torch):
        lib.manual_seed(0)
        layer = lib.nn.EmbeddingBag(6, 3, mode=mode, sparse=True, padding_idx=padding_idx)
        (layer(lib.from_numpy(INDICES), lib.tensor([0, 3])) ** 2).sum().backward()
        grads.append(layer.weight.grad)
    near(grads[0]._indices(), grads[1]._indices(), "rows")
    near(grads[0]._values(), grads[1]._values(), "values")


def test_second_gradients_are_right():
    w = tdt.from_numpy(numbers(6, 3, dtype="float64")).requires_grad_()
    each = tdt.from_numpy(numbers(8, dtype="float64", seed=1)).requires_grad_()
    for mode in ("sum", "mean", "max"):
        assert tdt.autograd.gradgradcheck(lambda w, m=mode: bag(tdt, w, INDICES, [0, 3, 3], mode=m).exp(), (w,))
    assert tdt.autograd.gradgradcheck(
        lambda w, each: tdt.nn.functional.embedding_bag(
            tdt.from_numpy(INDICES), w, tdt.tensor([0, 3]), mode="sum", per_sample_weights=each
        ),
        (w, each),
    )


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("padding_idx", [None, 4])
def test_the_function_that_torch_itself_exports_returns_bags_sizes_and_sources(mode, padding_idx):
    agree(lambda lib, w: lib.embedding_bag(w, lib.from_numpy(INDICES), lib.tensor([0, 3, 3]), False, mode, False, None,
                                           False, padding_idx), numbers(6, 3))  # fmt: skip
    agree(lambda lib, w: lib.embedding(w, lib.from_numpy(INDICES), 2), numbers(6, 3))


def test_the_old_order_of_arguments_warns_and_works():
    w, i = tdt.from_numpy(numbers(6, 3)), tdt.from_numpy(INDICES.reshape(2, 4))
    with pytest.warns(UserWarning, match="Argument order of nn.functional.embedding_bag was changed"):
        assert (tdt.nn.functional.embedding_bag(w, i) == tdt.nn.functional.embedding_bag(i, w)).all()


def refused(input=((4,), 0), weight=(6, 3), offsets=(0,), **options):
    """A call with an input and a table of these shapes; all indices are the same."""
    return lambda lib: lib.nn.functional.embedding_bag(
        lib.full(*input) if isinstance(input[0], tuple) else input, lib.ones(weight),
        None if offsets is None else lib.tensor(offsets), **{k: v(lib) if callable(v) else v for k, v in options.items()},
    )  # fmt: skip


REFUSED = [
    refused(((4,), 6)), refused(((4,), -1)), refused(offsets=(1, 2)), refused(offsets=(0, 5)), refused(offsets=None),
    refused(offsets=((0,),)), refused(((2, 4), 0)), refused(((2, 2, 2), 0)), refused(weight=(6,)), refused(mode="most"),
    refused(mode="max", sparse=True), refused(mode="max", scale_grad_by_freq=True), refused(((4,), 0.5)),
    refused(per_sample_weights=lambda lib: lib.ones(4)), refused(mode="sum", per_sample_weights=lambda lib: lib.ones(3)),
    refused(mode="sum", per_sample_weights=lambda lib: lib.ones(4).double()), refused(padding_idx=6), refused(padding_idx=-7),
    lambda lib: lib.nn.EmbeddingBag(6, 3, padding_idx=6), lambda lib: lib.nn.EmbeddingBag(6, 3, _weight=lib.ones(3, 6)),
    lambda lib: lib.nn.EmbeddingBag.from_pretrained(lib.ones(3)),
    lambda lib: lib.embedding_bag(lib.ones(6, 3), lib.zeros(4).long(), lib.tensor([0]), mode=3),
]  # fmt: skip


@pytest.mark.parametrize("call", REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_pytorch_refuses_is_refused_with_the_start_of_its_message(call):
    with pytest.raises(Exception) as found:  # noqa: PT011 (the class is compared below)
        call(torch)
    clause = re.split(r"[.;(,]", str(found.value))[0].replace("torch", "tdt").strip()
    agree_error(call, clause)


def test_offsets_that_do_not_ascend_are_refused():
    with pytest.raises(RuntimeError, match="offsets have to ascend"):
        bag(tdt, tdt.ones(6, 3), INDICES, [0, 5, 3])


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("width", [1, 16, 37])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bags_that_are_not_recorded_have_the_bits_of_recorded_ones(mode: str, width: int, dtype: str):
    rng = np.random.default_rng(0)
    table = tdt.from_numpy(rng.standard_normal((30, width)).astype(dtype))
    weight = table.clone().requires_grad_()
    flat, square = tdt.from_numpy(rng.integers(0, 30, 90)), tdt.from_numpy(rng.integers(0, 30, (8, 5)).astype("int32"))
    for indices, offsets, last in (
        (square, None, False),
        (square[:, :0], None, False),
        (flat, tdt.tensor([0, 0, 7, 60, 90]), False),
        (flat, tdt.tensor([0, 3, 3, 90]), True),
        (flat, tdt.tensor([0, 3, 80]), True),
        (flat[::2], tdt.tensor([0, 3], dtype=tdt.int32), False),
    ):
        how = {"mode": mode, "include_last_offset": last}
        recorded = tdt.nn.functional.embedding_bag(indices, weight, offsets, **how)
        assert recorded.requires_grad
        assert (
            tdt.nn.functional.embedding_bag(indices, table, offsets, **how).numpy().tobytes()
            == recorded.detach().numpy().tobytes()
        )


@pytest.mark.parametrize(("indices", "offsets", "message"), [
    ([0, 5], [0], "Index 1 of input takes value 5"), ([-1, 4], [0], "Index 0 of input takes value -1"),
    ([0, 1], [0, 3], "can not be greater than input's length 2"), ([0, 1], [1], "has to be 0"),
    ([0, 1, 2], [0, 2, 1], "have to ascend"),
])  # fmt: skip
def test_bags_that_are_not_recorded_check_indices_and_offsets(indices: list, offsets: list, message: str):
    with pytest.raises(RuntimeError, match=message):
        tdt.nn.functional.embedding_bag(tdt.tensor(indices), tdt.ones(5, 3), tdt.tensor(offsets))
