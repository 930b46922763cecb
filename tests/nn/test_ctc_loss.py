"""CTC: every form of targets and lengths is PyTorch's, the sum over alignments is the sum over alignments."""

import itertools
import re

import numpy as np
import pytest

import tdt
from tests.nn._compare import agree, agree_error, numbers

torch = pytest.importorskip("torch")
T, N, C = 7, 4, 5
LABELS = np.array([[1, 2, 2], [3, 4, 1], [4, 4, 4], [1, -1, 99]])
LENGTHS = [3, 2, 3, 1]
FRAMES = [7, 6, 7, 4]


def loss(lib, x, labels=LABELS, frames=FRAMES, lengths=LENGTHS, **options):
    labels, frames, lengths = (lib.from_numpy(a) if isinstance(a, np.ndarray) else a for a in (labels, frames, lengths))
    return lib.nn.functional.ctc_loss(x.log_softmax(-1), labels, frames, lengths, **options)


def by_enumeration(log_probs, label, blank):
    """Minus the logarithm of the sum over all paths that become `label` without repeats and blanks."""
    total = 0.0
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        if [k for k, _ in itertools.groupby(path) if k != blank] == list(label):
            total += np.exp(sum(log_probs[t, k] for t, k in enumerate(path)))
    return -np.log(total) if total else np.inf


@pytest.mark.parametrize("label", [(), (1,), (1, 1), (1, 2), (2, 1, 2), (2, 2, 2), (1, 2, 2, 1)], ids=str)
@pytest.mark.parametrize("blank", [0, 3])
def test_the_loss_is_the_sum_over_all_alignments(label, blank):
    x = tdt.from_numpy(numbers(5, 4, dtype="float64")).log_softmax(1)
    label = [k - 1 if blank == 3 else k for k in label]
    found = tdt.nn.functional.ctc_loss(x, tdt.tensor(label).long(), [5], [len(label)], blank, "none")
    np.testing.assert_allclose(found.item(), by_enumeration(x.numpy(), label, blank), rtol=1e-12)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("form", ["padded", "one behind the other", "tensors", "int32"])
def test_targets_of_every_form_are_pytorchs(reduction, form):
    joined = np.concatenate([row[:n] for row, n in zip(LABELS, LENGTHS, strict=True)])
    forms = {"padded": {}, "one behind the other": {"labels": joined},
             "tensors": {"frames": np.array(FRAMES), "lengths": np.array(LENGTHS)},
             "int32": {"labels": LABELS.astype("int32"), "frames": np.array(FRAMES, "int32"),
                       "lengths": np.array(LENGTHS, "int32")}}  # fmt: skip
    for dtype in ("float32", "float64"):
        agree(lambda lib, x: loss(lib, x, reduction=reduction, **forms[form]), numbers(T, N, C, dtype=dtype))


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_targets_that_do_not_fit_cost_infinity_or_nothing(zero_infinity):
    for frames, lengths in (([7, 6, 4, 4], LENGTHS), ([0, 6, 7, 0], [0, 2, 3, 1]), (FRAMES, [0, 0, 0, 0])):
        agree(lambda lib, x, f=frames, n=lengths: loss(lib, x.detach(), frames=f, lengths=n, reduction="none",
                                                       zero_infinity=zero_infinity), numbers(T, N, C))  # fmt: skip
    agree(lambda lib, x: loss(lib, x, frames=[7, 6, 4, 0], zero_infinity=True), numbers(T, N, C))
    x = tdt.from_numpy(numbers(T, N, C)).requires_grad_()
    loss(tdt, x, frames=[7, 6, 4, 4]).backward()
    assert not x.grad[0, 2].isfinite().any()  # a loss that is no number leaves no gradient that looks like one


def test_a_batch_without_any_label_has_gradients():
    agree(lambda lib, x: loss(lib, x, lengths=[0] * N), numbers(T, N, C))
    agree(lambda lib, x: loss(lib, x, LABELS[:1, :0], [T], [0], reduction="sum"), numbers(T, 1, C))


def test_frames_behind_the_last_one_and_labels_behind_the_last_have_no_influence():
    x = tdt.from_numpy(numbers(T, N, C)).requires_grad_()
    loss(tdt, x, reduction="sum").backward()
    assert (x.grad[4:, 3] == 0).all()
    assert (x.grad[:4, 3] != 0).any()


def test_one_sample_needs_no_batch():
    for frames, lengths in ((np.array(7), np.array(3)), ([7], [3])):
        for reduction in ("none", "mean", "sum"):
            agree(
                lambda lib, x, f=frames, n=lengths, r=reduction: loss(lib, x, LABELS[0], f, n, reduction=r),
                numbers(T, C),
            )


def test_long_sequences_of_sure_frames_stay_finite():
    x = 40 * numbers(300, 2, 6)
    labels = np.random.default_rng(1).integers(1, 6, (2, 40))
    agree(lambda lib, x: loss(lib, x, labels, [300, 250], [40, 30]), x)


def test_second_gradients_are_right():
    x = tdt.from_numpy(numbers(4, 2, 3, dtype="float64")).requires_grad_()
    assert tdt.autograd.gradgradcheck(lambda x: loss(tdt, x, np.array([[1, 1], [2, 0]]), [4, 3], [2, 1]), (x,))


def test_the_function_that_torch_itself_exports_takes_a_number():
    for reduction in (0, 1, 2):
        agree(lambda lib, x, r=reduction: lib.ctc_loss(x.log_softmax(2), lib.from_numpy(LABELS), FRAMES, LENGTHS, 0, r, True),
              numbers(T, N, C))  # fmt: skip


REFUSED = [
    {"blank": C}, {"blank": -1}, {"labels": LABELS[:2]}, {"frames": [8, 6, 7, 4]}, {"frames": [-1, 6, 7, 4]},
    {"lengths": [4, 2, 3, 1]}, {"lengths": [-1, 2, 3, 1]}, {"frames": [7]}, {"lengths": [3]}, {"labels": LABELS.reshape(-1)},
    {"frames": np.ones(N), "lengths": np.ones(N, "int64")},
    {"frames": np.ones(N, "int64"), "lengths": np.ones(N)}, {"reduction": "most"}, {"labels": LABELS[None]}, {"frames": 7},
]  # fmt: skip


@pytest.mark.parametrize("how", REFUSED, ids=str)
def test_what_pytorch_refuses_is_refused_with_the_start_of_its_message(how):
    with pytest.raises(Exception) as found:  # noqa: PT011 (the class is compared below)
        loss(torch, torch.zeros(T, N, C), **how)
    clause = (
        "argument" if "invalid combination" in str(found.value) else re.split(r"[;(,]", str(found.value))[0].strip()
    )
    agree_error(lambda lib: loss(lib, lib.zeros(T, N, C), **how), clause)


def test_other_inputs_that_pytorch_refuses_are_refused():
    agree_error(lambda lib: loss(lib, lib.zeros(0, N, C)), "log_probs tensor must not be empty")
    agree_error(lambda lib: loss(lib, lib.zeros(T, N, C, 1)), "Expected 3-dimensional tensor")
    agree_error(lambda lib: loss(lib, lib.zeros(T, N, C).half()), '"ctc_loss')
    with pytest.raises(RuntimeError, match="targets must be classes from 0 to 4; got 0 to 99"):
        loss(tdt, tdt.zeros(T, N, C), lengths=[3, 2, 3, 3], labels=np.abs(LABELS))  # PyTorch reads beyond its memory
