"""Runs on a GPU replay their steps from CUDA graphs: to the bits of ordinary steps, whatever changes between them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import tdt
from tdt.train.config import loads
from tdt.train.logging.events import StepDone
from tdt.train.session import Session

RUN = """
data:
  train: Digits(split=train)
  transform: [ToTensor]
  loader: {{batch_size: 128}}
model: {model}
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: {optimizer}
train: {{epochs: 2, clip_grad_norm: 1.0, compile: {compile}{train}}}
log: {{every: 4 steps}}
device: cuda
{more}
"""
MODEL = '["Conv2d(1, 4, 3)", BatchNorm2d(4), ReLU, Dropout(0.2), Flatten, LazyLinear(10)]'


def trained(folder: Path, compile: str, model: str = MODEL, optimizer: str = "AdamW(lr=1e-3)", train: str = "",
            more: str = "") -> tuple[Session, list[dict]]:  # fmt: skip
    """A run that has ended, and what it logged."""
    logged: list[dict] = []

    def on_event(event: object) -> None:
        if isinstance(event, StepDone) and event.scalars:
            logged.append({tag: value for tag, value in event.scalars.items() if not tag.startswith("time/")})

    text = RUN.format(model=model, optimizer=optimizer, train=train, more=more, compile=compile)
    with Session.start(loads(text, str(folder / "net.yaml")), folder=folder / compile) as session:
        session.train(on_event)
    return session, logged


RUNS = {
    "AdamW": {},
    "warm-up and a schedule": {"optimizer": "SGD(lr=0.1, momentum=0.9)", "train": ", warmup: 6 steps",
                               "more": "scheduler: {type: CosineAnnealingLR, T_max: 18, interval: step}"},
    "a formula that changes with the steps": {"optimizer": "RAdam(lr=1e-2)"},
    "bfloat16": {"train": ", amp: bfloat16"},
    "averaged weights": {"train": ", ema: 0.9"},
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_run_has_the_bits_of_one_whose_steps_are_not_graphs(name: str, tmp_path: Path):
    (graphed, logged), (plain, expected) = (trained(tmp_path, compile, **RUNS[name]) for compile in ("auto", "false"))
    assert str(graphed.compilation) == "compiled steps: yes: a step is one launch of a CUDA graph"
    assert str(plain.compilation) == "compiled steps: no: train.compile is false"
    assert logged == expected and len(logged) == 4
    here, there = (session._trainer.parts.model.state_dict() for session in (graphed, plain))
    assert list(here) == list(there) and all(tdt.equal(here[key], there[key]) for key in here)
    assert len(graphed._trainer.train_step.graphed.graphs) == 1  # the last batch of an epoch comes too rarely


def test_a_step_that_reads_from_the_gpu_is_not_captured_and_the_run_goes_on(tmp_path: Path):
    model = MODEL.replace("BatchNorm2d(4)", '"BatchNorm2d(4, momentum=null)"')
    (graphed, logged), (_, expected) = (trained(tmp_path, compile, model) for compile in ("auto", "false"))
    assert str(graphed.compilation).startswith("compiled steps: no: a step cannot be captured as a CUDA graph: ")
    assert logged == expected


@pytest.mark.parametrize("why", [", accumulate: 2", ", amp: float16", ", mixup: 0.2"])
def test_steps_of_several_parts_are_not_captured(why: str, tmp_path: Path):
    session, _ = trained(tmp_path, "auto", train=why)
    assert session._trainer.train_step.graphed is None


def test_a_replayed_step_makes_few_launches(tmp_path: Path, counted):
    counts: list[Counter[str]] = []
    with counted() as found:

        def on_event(event: object) -> None:
            if isinstance(event, StepDone):
                counts.append(Counter(name for kind, name, _ in found if kind == "launches"))
                found.clear()

        text = RUN.format(model=MODEL, optimizer="AdamW(lr=1e-3)", train="", more="", compile="auto")
        with Session.start(loads(text, str(tmp_path / "net.yaml")), folder=tmp_path / "run") as session:
            session.train(on_event)
    assert counts[1]["conv"] == 1 and counts[1]["graph"] == 0
    assert counts[5]["conv"] == 0 and counts[5]["graph"] == 1
