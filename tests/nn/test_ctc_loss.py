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


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_random_batches_are_pytorchs_in_float32(zero_infinity):
    rng = np.random.default_rng(0)
    for _ in range(20):
        frames, n, classes, longest = (int(k) for k in rng.integers((1, 1, 2, 1), (40, 6, 40, 25)))
        blank = int(rng.integers(classes))
        labels = rng.integers(0, classes - 1, (n, longest))
        labels += labels >= blank
        lengths = rng.integers(0, longest + 1, n)
        used = np.minimum(frames, 2 * lengths + 1 + rng.integers(0, 3, n)) if zero_infinity else np.full(n, frames)
        if not zero_infinity:
            lengths = np.minimum(lengths, (frames - 1) // 2)
        x = rng.standard_normal((n, frames, classes)).astype("float32")

        def call(lib, x, rest=(labels, used, lengths), blank=blank):
            return loss(lib, x.transpose(0, 1), *rest, blank=blank, reduction="sum", zero_infinity=zero_infinity)

        agree(call, x)


def test_a_long_batch_is_close_to_that_in_float64():
    rng = np.random.default_rng(1)
    x, labels = rng.standard_normal((200, 3, 30)), rng.integers(1, 30, (3, 50))
    found = []
    for dtype in ("float32", "float64"):
        leaf = tdt.from_numpy(x.astype(dtype)).requires_grad_()
        value = loss(tdt, leaf, labels, [200, 180, 120], [50, 3, 20], reduction="none")
        value.sum().backward()
        found.append((value.detach().numpy(), leaf.grad.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=3e-4)


def test_bits_depend_neither_on_threads_nor_on_the_batch():
    rng = np.random.default_rng(2)
    x, labels = rng.standard_normal((300, 5, 20)).astype("float32"), rng.integers(1, 20, (5, 30))
    frames, lengths = np.array([300, 280, 100, 300, 77]), np.array([30, 12, 30, 1, 0])

    def gradients(batch):
        leaf = tdt.from_numpy(x[:, batch]).requires_grad_()
        value = loss(tdt, leaf, labels[batch], frames[batch], lengths[batch], reduction="none")
        value.sum().backward()
        return value.detach().numpy(), leaf.grad.numpy()

    threads, found = tdt.get_num_threads(), []
    try:
        for count in (1, 2):
            tdt.set_num_threads(count)
            found.append(gradients(slice(None)))
    finally:
        tdt.set_num_threads(threads)
    alone = [gradients(slice(k, k + 1)) for k in range(5)]
    for k, (one, two) in enumerate(zip(*found, strict=True)):
        assert one.tobytes() == two.tobytes() == np.concatenate([each[k] for each in alone], axis=k).tobytes()


def test_samples_without_frames_have_no_gradient():
    x = numbers(T, N, C)
    agree(lambda lib, x: loss(lib, x, frames=[0, 6, 7, 0], lengths=[0, 2, 3, 0], reduction="sum"), x)
    leaf = tdt.from_numpy(x).requires_grad_()
    loss(tdt, leaf, frames=[0, 6, 7, 0], lengths=[0, 2, 3, 1], reduction="sum", zero_infinity=True).backward()
    assert (leaf.grad[:, [0, 3]] == 0).all() and leaf.grad.isfinite().all()
