"""Runs on a GPU replay their steps from CUDA graphs: to the bits of ordinary steps, whatever changes between them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import cupy
import numpy as np
import pytest

import tdt
from tdt.amp import _on_gpu
from tdt.train.checks.compiling import compilation
from tdt.train.config import loads
from tdt.train.logging.events import StepDone, Validated
from tdt.train.metrics import Accuracy, Mean, add_each
from tdt.train.session import Session
from tests import runs_on_gpu
from tests.runs_on_gpu import IN_ONE, MODEL, PARTS, RUN, WHOLE, compared, trained


@pytest.mark.parametrize("name", WHOLE)
def test_a_run_has_the_bits_of_one_whose_steps_are_not_graphs(name: str, tmp_path: Path):
    (graphed, logged), (plain, expected) = (trained(tmp_path, compile, **WHOLE[name]) for compile in ("auto", "false"))
    assert str(graphed.compilation) == IN_ONE
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


def test_metrics_that_keep_batches_have_those_of_all_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runs_on_gpu, "RUN", RUN.replace("[accuracy]", "[accuracy, auroc, top_k(k=3)]"))
    (graphed, logged), (_, expected) = (trained(tmp_path, compile) for compile in ("auto", "false"))
    assert str(graphed.compilation) == IN_ONE
    assert logged == expected and {"train/auroc", "train/top_k"} <= logged[-1].keys()


@pytest.mark.parametrize("more", ["", ", ema: 0.9, amp: bfloat16"])
def test_evaluations_are_graphs_with_the_scores_of_those_that_are_not(more: str, tmp_path: Path):
    scores: dict[str, list] = {}
    for compile in ("auto", "false"):
        text = RUN.format(
            model=MODEL, optimizer="AdamW(lr=1e-2)", train=", epochs: 4" + more, more="", compile=compile, device="cuda"
        ).replace("  transform:", "  valid: Digits(split=test)\n  transform:")
        with Session.start(loads(text, str(tmp_path / "net.yaml")), folder=tmp_path / compile) as session:
            found = scores[compile] = []
            session.train(
                lambda event, found=found: found.append(event.scalars) if isinstance(event, Validated) else None
            )
        parts = session._trainer.parts
        each = [compilation(parts, one, ("losses",)) for one in parts._evaluations.values()]
        assert any(one is not None and one.is_graph for one in each) == (compile == "auto")
    assert scores["auto"] == scores["false"] and len(scores["auto"]) == 4


@pytest.mark.parametrize("whose", ["tdt's, which read", "the user's"])
def test_metrics_that_read_and_those_of_users_are_computed_in_python(
    whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    calls, batch_sum = [0], Accuracy.batch_sum

    def counting(self, output: tdt.Tensor, target: tdt.Tensor, loss: tdt.Tensor):
        calls[0] += 1
        if whose != "the user's":
            output.sum().item()
        return batch_sum(self, output, target, loss)

    monkeypatch.setattr(Accuracy, "batch_sum", counting)
    if whose == "the user's":
        monkeypatch.setattr(Accuracy, "__module__", "mine")
    expected = trained(tmp_path, "false")[1]
    before, calls[0] = calls[0], 0
    graphed, logged = trained(tmp_path, "auto")
    assert str(graphed.compilation) == IN_ONE and logged == expected
    assert calls[0] == before + (whose != "the user's")  # a capture that the read has ended


@pytest.mark.parametrize("name", PARTS)
def test_steps_of_several_parts_have_the_bits_of_those_that_are_not_graphs(name: str):
    assert compared(PARTS[name], True, "cuda") is None


@pytest.mark.parametrize("optimizer", ["SGD(lr=0.1, momentum=0.9)", "AdamW(lr=1e-3)", "NAdam(lr=1e-3)"])
@pytest.mark.parametrize("late", [False, True])
def test_steps_whose_scaled_gradients_overflow_change_nothing_and_halve_the_scale(
    optimizer: str, late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """late: the host never finds that the GPU is done, and reads when it logs, or has counted as many steps as it may."""
    if late:
        monkeypatch.setattr(cupy.cuda.Event, "done", False)
        monkeypatch.setattr(_on_gpu, "MOST_UNREAD", 5)
    sessions, unread, logged = [], [0], []
    for compile in ("auto", "false"):
        text = RUN.format(
            model=MODEL, optimizer=optimizer, train=", amp: float16, epochs: 5", more="", compile=compile, device="cuda"
        )
        text = text.replace("4 steps", "25 steps")
        with Session.start(loads(text, str(tmp_path / "net.yaml")), folder=tmp_path / compile) as session:
            step = session._trainer.train_step

            def on_event(event: object, step=step) -> None:
                if isinstance(event, StepDone):
                    if step.scale is not None:
                        unread.append(step.scale.unread)
                    if event.step in (12, 13, 37):  # the scale of 2**40 takes some steps that are skipped
                        step.scaler.update(2.0**40)
                    logged.append({k: v for k, v in event.scalars.items() if not k.startswith("time/")})

            session.train(on_event)
        sessions.append(session)
    here, there = (session._trainer for session in sessions)
    count = len(logged) // 2
    assert repr(logged[:count]) == repr(logged[count:]) and "amp/scale" in logged[24]
    assert here.train_step.skipped == there.train_step.skipped > 5
    assert here.train_step.state_dict() == there.train_step.state_dict()
    of_nadam = optimizer.startswith("NAdam")  # whose numbers depend on more than the count of steps
    assert max(unread) == (0 if of_nadam else 5 if late else 1)
    one, other = here.parts.model.state_dict(), there.parts.model.state_dict()
    assert all(tdt.equal(one[key], other[key]) for key in one)
    states = [trainer.parts.optimizer.state_dict()["state"] for trainer in (here, there)]
    assert all(tdt.equal(states[0][k][name], states[1][k][name]) for k in states[0] for name in states[0][k])


WITHOUT_READS = {
    "float16": ", amp: float16",
    "several batches": ", accumulate: 2",
    "float16, several batches and mixup": ", amp: float16, accumulate: 2, mixup: 0.2",
}


@pytest.mark.parametrize("name", WITHOUT_READS)
def test_steps_of_several_parts_read_nothing_between_logs(name: str, tmp_path: Path, counted):
    counts: list[Counter[str]] = []
    with counted() as found:

        def on_event(event: object) -> None:
            if isinstance(event, StepDone):
                counts.append(Counter(kind for kind, _, _ in found))
                found.clear()

        train = WITHOUT_READS[name] + ", epochs: 1"
        text = RUN.format(model=MODEL, optimizer="AdamW(lr=1e-3)", train=train, more="", compile="auto", device="cuda")
        text = text.replace("4 steps", "50 steps").replace("batch_size: 128", "batch_size: 32, drop_last: true")
        with Session.start(loads(text, str(tmp_path / "net.yaml")), folder=tmp_path / "run") as session:
            session.train(on_event)
    batches = 2 if "accumulate" in WITHOUT_READS[name] else 1
    inside = counts[10:-1]  # the first ones are compared, and the last one may have fewer batches
    assert len(inside) > 5 and [each["syncs"] for each in inside] == [0] * len(inside)
    uploads = batches * (3 if "mixup" in name else 2)  # which samples are mixed
    assert [each["uploads"] for each in inside] == [uploads] * len(inside)


def test_means_are_added_up_on_a_gpu_in_one_launch_to_the_same_bits(counted):
    """A loss whose batches have equal weights, one with a weight of the GPU, and a count of hits."""
    rng, means = np.random.default_rng(0), [[Mean(), Mean(), Mean()] for _ in range(2)]
    for _ in range(4):
        loss, other = (cupy.asarray(x) for x in rng.standard_normal(2))
        amounts = (loss, 8), (other, cupy.asarray(7)), (cupy.asarray(5), cupy.asarray(rng.integers(1, 9)))
        with counted() as found:
            add_each(zip(means[0], amounts, strict=True), 8)
        for mean, amount in zip(means[1], amounts, strict=True):
            mean.add(amount, 8)
    assert [name for _, name, _ in found] == ["add_numbers"]
    here, there = ([mean.state_dict() for mean in group] for group in means)
    assert here == there and [type(x) for x in here[1].values()] == [float, int, int] and here[0]["weight"] == 32


def test_a_replayed_step_makes_few_launches(tmp_path: Path, counted):
    counts: list[Counter[str]] = []
    with counted() as found:

        def on_event(event: object) -> None:
            if isinstance(event, StepDone):
                counts.append(Counter(name for kind, name, _ in found if kind == "launches"))
                found.clear()

        text = RUN.format(
            model=MODEL, optimizer="AdamW(lr=1e-3)", train=", epochs: 2", more="", compile="auto", device="cuda"
        )
        with Session.start(loads(text, str(tmp_path / "net.yaml")), folder=tmp_path / "run") as session:
            session.train(on_event)
    assert counts[1]["conv"] == 1 and counts[1]["graph"] == 0
    assert counts[5]["conv"] == 0 and counts[5]["graph"] == 1
