"""A training step reads nothing from the GPU, and uploads its batch alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import tdt
from benchmarks import workloads
from tdt import nn
from tdt.nn import functional as F
from tdt.train.config import loads
from tdt.train.logging.events import StepDone
from tdt.train.session import Session


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.scores = nn.Embedding(65, 16, padding_idx=0), nn.Linear(16, 65)
        self.recurrent = nn.LSTM(16, 16, 2, batch_first=True, dropout=0.1)

    def forward(self, x):
        return self.scores(self.recurrent(self.embedding(x))[0]).reshape(-1, 65)


NUMBERS = np.random.default_rng(0)
MODELS = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, 10)),
        (4, 8), (4,),
    ),
    "lenet": (lambda: workloads.lenet(tdt), (2, 1, 28, 28), (2,)),
    "resnet20": (lambda: workloads.resnet20(tdt), (2, 3, 32, 32), (2,)),
    "gpt": (lambda: workloads.gpt_model(tdt, 2, 2, 16, 8, 65), 8, (16,)),
    "lstm": (Lstm, 8, (16,)),
}  # fmt: skip

# Launches of a step, as docs/guide/gpu.md lists them: no more than these.
LAUNCHES = {"mlp": 26, "lenet": 39, "resnet20": 235, "gpt": 132, "lstm": 465}


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_neither_waits_for_the_gpu_nor_uploads(name: str, optimizer: str, counted):
    make, size, targets = MODELS[name]
    with tdt.device("cuda"):
        model = make()
        x = tdt.tensor(NUMBERS.integers(0, 65, (2, size)) if isinstance(size, int) else NUMBERS.normal(size=size))
        x = x if x.dtype == tdt.int64 else x.float()
        y = tdt.tensor(NUMBERS.integers(0, 10, targets))
        update = getattr(tdt.optim, optimizer)(model.parameters(), lr=1e-3)
        for _ in range(3):
            with counted() as found:
                update.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                update.step()
    assert [each for each in found if each[0] != "launches"] == []  # the third step: caches are filled
    assert len(found) <= LAUNCHES[name]
    assert np.isfinite(loss.item())


def test_a_run_reads_where_it_logs_and_uploads_batches_alone(tmp_path, counted):
    config = """
data: {train: Digits(split=train), transform: [ToTensor], loader: {batch_size: 64}}
model: ["Conv2d(1, 4, 3)", "BatchNorm2d(4)", ReLU, Dropout, Flatten, "LazyLinear(10)"]
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: AdamW(lr=1e-3)
train: {steps: 8, clip_grad_norm: 1.0}
log: {every: 4 steps}
device: cuda
"""
    steps: list[Counter[str]] = []
    with counted() as found:

        def on_event(event):
            if isinstance(event, StepDone):
                steps.append(Counter(kind for kind, _, _ in found))
                found.clear()

        with Session.start(loads(config, str(tmp_path / "net.yaml")), folder=tmp_path / "run") as session:
            session.train(on_event)
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
