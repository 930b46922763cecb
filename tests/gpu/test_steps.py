"""A training step reads nothing from the GPU, and uploads its batch alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import tdt
from tdt import nn
from tdt.nn import functional as F
from tdt.train.config import loads
from tdt.train.logging.events import StepDone
from tdt.train.session import Session
from tests.gpu.steps import LAUNCHES, MODELS, RUN, step_of


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_neither_waits_for_the_gpu_nor_uploads(name: str, optimizer: str, counted):
    step = step_of(name, optimizer)
    for _ in range(3):
        with counted() as found:
            loss = step()
    assert [each for each in found if each[0] != "launches"] == []  # the third step: caches are filled
    assert len(found) == LAUNCHES[name]
    assert np.isfinite(loss.item())


def test_a_run_reads_where_it_logs_and_uploads_batches_alone(tmp_path, counted):
    steps: list[Counter[str]] = []
    with counted() as found:

        def on_event(event):
            if isinstance(event, StepDone):
                steps.append(Counter(kind for kind, _, _ in found))
                found.clear()

        with Session.start(loads(RUN, str(tmp_path / "net.yaml")), folder=tmp_path / "run") as session:
            assert session.train(on_event).reason == "done"  # a signal to the process ends a run early
    inside = [steps[k] for k in (1, 2, 4, 5, 6)]  # neither the first nor those that log
    assert [(step["syncs"], step["uploads"]) for step in inside] == [(0, 2)] * len(inside)


def test_unscaling_reads_one_flag_for_all_gradients(counted):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).cuda()
    scaler, update = tdt.amp.GradScaler("cuda"), tdt.optim.SGD(model.parameters(), lr=0.1)
    scaler.scale(model(tdt.ones(2, 4, device="cuda")).sum()).backward()
    with counted() as found:
        scaler.step(update)
        scaler.update()
    assert [kind for kind, _, _ in found if kind != "launches"] == ["syncs"]


WRONG = {
    "a class": (lambda: F.cross_entropy(tdt.zeros(2, 3, device="cuda"), tdt.tensor([1, 3], device="cuda")), "Target 3"),
    "a negative class": (
        lambda: F.nll_loss(tdt.zeros(2, 3, device="cuda"), tdt.tensor([1, -2], device="cuda")), "Target -2",
    ),
    "a row": (
        lambda: F.embedding(tdt.tensor([1, 5], device="cuda"), tdt.zeros(4, 2, device="cuda")), "an index is 5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("read", [lambda x: x.sum().item(), lambda x: x.cpu(), lambda x: tdt.cuda.synchronize()])
def test_an_index_out_of_range_is_an_error_at_the_next_read(what: str, read, counted):
    compute, message = WRONG[what]
    with counted() as found:
        x = compute()
    assert "syncs" not in {kind for kind, _, _ in found}
    with pytest.raises(IndexError, match=message):
        read(x)
    read(x)  # once


@pytest.mark.parametrize("what", WRONG)
def test_an_index_out_of_range_in_another_stream_is_an_error_too(what: str):
    compute, message = WRONG[what]
    right, result = tdt.zeros(1, device="cuda"), []
    with tdt.cuda.stream(tdt.cuda.Stream()):
        result.append(compute())
    with pytest.raises(IndexError, match=message):
        right.item()
    right.item()  # once


def test_ignored_targets_have_no_part_as_on_the_cpu():
    x, y = tdt.randn(5, 3), tdt.tensor([0, -100, 2, 1, -100])
    for reduction in ("mean", "sum", "none"):
        results = []
        for device in ("cpu", "cuda"):
            leaf = x.detach().to(device).requires_grad_()
            loss = F.cross_entropy(leaf, y.to(device), reduction=reduction, label_smoothing=0.1)
            loss.sum().backward()
            results += [loss.detach().cpu(), leaf.grad.cpu()]
        tdt.testing.assert_close(results[:2], results[2:])


def test_channels_last_gradients_of_leaves_are_stored_without_a_copy(counted):
    x = tdt.ones(2, 3, 9, 8, device="cuda").to(memory_format=tdt.channels_last).requires_grad_()
    w = tdt.ones(5, 3, 3, 3, device="cuda").to(memory_format=tdt.channels_last).requires_grad_()
    out = F.conv2d(x, w)
    g = tdt.ones_like(out)
    with counted() as found:
        out.backward(g)
    # The kernel writes the gradient of the weights contiguous.
    assert [name for _, name, _ in found] == ["conv_grads", "copy"]
    assert x.grad.is_contiguous(memory_format=tdt.channels_last) and w.grad.is_contiguous(
        memory_format=tdt.channels_last
    )
