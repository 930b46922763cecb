"""The loop: when it logs, validates, saves and stops; what a checkpoint brings back."""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdt
from tdt.train.config import loads
from tdt.train.data.loading import batch_indices
from tdt.train.errors import NonFiniteLoss, StepError, Stopped
from tdt.train.logging.events import CheckpointSaved, EpochDone, Event, Events, RunStarted, StepDone, Validated
from tdt.train.loop.build import build
from tdt.train.loop.evaluation import evaluate
from tdt.train.loop.trainer import Trainer
from tdt.train.runs import checkpoint
from tdt.train.runs.checkpoint import CheckpointStore
from tdt.utils.data import TensorDataset

CONFIG = """\
device: cpu
data:
  train: Digits(split=train)
  valid: Digits(split=valid)
  transform: [ToTensor]
  loader: {batch_size: 256, num_workers: 0}
model: [Flatten, "Linear(64, 10)"]
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: Adam(lr=1e-2)
train: {epochs: 3}
checkpoint: {every: 1 epoch}
log: {every: 2 steps}
"""
STEPS = 5  # an epoch


def trainer(folder: Path, *changes: tuple[str, str]) -> tuple[Trainer, list[Event]]:
    """A trainer of CONFIG with these changes, however short its run, and the list that its events go to."""
    text = CONFIG
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    events, received = Events(), []
    events.subscribe(received.append)
    return Trainer(build(loads(text), resumed=True), events, CheckpointStore(folder), {"note": "x"}), received


def of(kind: type[Event], received: list[Event]) -> list[Any]:
    return [event for event in received if type(event) is kind]


def test_the_order_of_events(tmp_path):
    built, received = trainer(tmp_path)
    built.fit()
    names = [type(event).__name__ for event in received]
    assert names == ["RunStarted"] + (["StepDone"] * STEPS + ["EpochDone", "Validated", "CheckpointSaved"]) * 3
    assert of(RunStarted, received)[0].steps == 15
    assert [event.step for event in of(StepDone, received)] == list(range(1, 16))
    assert [(event.step, event.epoch) for event in of(EpochDone, received)] == [(5, 0), (10, 1), (15, 2)]


def test_logged_steps_carry_the_mean_since_the_last_one(tmp_path):
    built, received = trainer(tmp_path, ("every: 2 steps", "every: 1 step"), ("epochs: 3", "epochs: 1"))
    built.fit()
    losses = [event.scalars["train/loss"] for event in of(StepDone, received)]
    sizes = [event.samples for event in of(StepDone, received)]
    assert sizes == [256] * 4 + [125]
    assert of(EpochDone, received)[0].scalars["train_epoch/loss"] == pytest.approx(
        np.average(losses, weights=sizes), rel=1e-12
    )
    tags = {"train/loss", "train/accuracy", "lr", "grad_norm", "time/samples_per_second", "time/peak_memory_mb"}
    assert of(StepDone, received)[0].scalars.keys() == tags


def test_the_first_step_reports_its_loss_at_once(tmp_path):
    built, received = trainer(tmp_path, ("epochs: 3", "epochs: 1"))
    built.fit()
    first, second, *others = of(StepDone, received)
    assert not first.scalars and all(event.loss is None for event in (second, *others))
    every, logged = trainer(tmp_path / "b", ("every: 2 steps", "every: 1 step"), ("epochs: 3", "epochs: 1"))
    every.fit()
    assert first.loss == of(StepDone, logged)[0].scalars["train/loss"]


def test_each_groups_rate_is_logged(tmp_path):
    groups = "{type: Adam, lr: 1e-2, param_groups: [{params: '*.bias', lr: 0.5}]}"
    built, received = trainer(tmp_path, ("Adam(lr=1e-2)", groups), ("epochs: 3", "epochs: 1"))
    built.fit()
    logged = of(StepDone, received)[1].scalars
    assert (logged["lr/group0"], logged["lr/group1"]) == (0.01, 0.5)


@pytest.mark.parametrize(("interval", "expected"), [("epoch", [1, 0.5, 0.25]), ("step", [0.5**4, 0.5**9, 0.5**14])])
def test_the_scheduler_steps_after_each(tmp_path, interval: str, expected: list[float]):
    schedule = f"scheduler: {{type: StepLR, step_size: 1, gamma: 0.5, interval: {interval}}}\ntrain: {{epochs"
    built, received = trainer(
        tmp_path,
        ("train: {epochs", schedule),
        ("Adam(lr=1e-2)", "SGD(lr=1.0)"),
        ("every: 2 steps", "every: 1 epoch"),
    )
    built.fit()
    assert [event.scalars["lr"] for event in of(StepDone, received) if event.scalars] == expected


def test_the_best_is_named_by_the_config(tmp_path):
    built, received = trainer(tmp_path, ("every: 1 epoch", "every: 1 epoch, best: valid/loss"))
    built.fit()
    validated = of(Validated, received)
    lowest = min(event.scalars["valid/loss"] for event in validated)
    saved = checkpoint.load(tmp_path / "best.safetensors")[1]
    assert [event.scalars["valid/loss"] for event in validated if event.step == saved["step"]] == [lowest]


def test_the_best_may_be_chosen_on_the_training_split(tmp_path):
    built, received = trainer(
        tmp_path, ("  valid: Digits(split=valid)\n", ""), ("every: 1 epoch", "every: 3 epochs, best: train/loss")
    )
    built.fit()
    assert not of(Validated, received)
    assert [event.best for event in of(CheckpointSaved, received)] == [True, True, True]


def test_a_checkpoint_every_some_steps_and_at_the_end(tmp_path):
    built, received = trainer(tmp_path, ("every: 1 epoch", "every: 4 steps"), ("  valid: Digits(split=valid)\n", ""))
    built.fit()
    assert [event.step for event in of(CheckpointSaved, received)] == [4, 8, 12, 15]


def stopping_at(built: Trainer, step: int) -> Any:
    def check_stop() -> None:
        if built.step == step:
            raise Stopped("SIGINT")

    return check_stop


def test_a_reason_to_stop_ends_the_run_after_the_step_with_a_checkpoint(tmp_path):
    built, _ = trainer(tmp_path)
    built.check_stop = stopping_at(built, 7)
    with pytest.raises(Stopped, match="SIGINT"):
        built.fit()
    assert checkpoint.load(tmp_path / "last.safetensors")[1]["step"] == 7


def test_a_stopped_run_resumes_as_if_it_had_not_been_stopped(tmp_path):
    whole, _ = trainer(tmp_path / "whole")
    whole.fit()
    first, _ = trainer(tmp_path / "parts")
    first.check_stop = stopping_at(first, 7)
    with pytest.raises(Stopped):
        first.fit()
    second, received = trainer(tmp_path / "parts")
    second.resume(*checkpoint.load(tmp_path / "parts" / "last.safetensors"))
    second.fit()
    assert of(RunStarted, received)[0].resumed and of(StepDone, received)[0].step == 8
    for name, value in whole.parts.model.state_dict().items():
        assert np.array_equal(value.numpy(), second.parts.model.state_dict()[name].numpy())


@pytest.mark.parametrize(
    ("optimizer", "scheduler"),
    [
        ("NAdam(lr=1e-2)", "{type: MultiStepLR, milestones: [6, 9], interval: step}"),
        ("Adafactor", "SequentialLR([LinearLR(total_iters=2), CosineAnnealingLR(5)], milestones=[1])"),
        ("ASGD(lr=1e-1, t0=2)", "ReduceLROnPlateau(patience=0, threshold=0.9, factor=0.5)"),
        ("RMSprop(momentum=0.5)", "{type: CyclicLR, base_lr: 1e-3, max_lr: 0.1, step_size_up: 4, interval: step}"),
        ("Adagrad(lr=0.1)", "ChainedScheduler([ExponentialLR(0.5), ConstantLR(total_iters=1)])"),
    ],
)
def test_a_stopped_run_resumes_with_every_kind_of_state(tmp_path, optimizer: str, scheduler: str):
    changes = (("optimizer: Adam(lr=1e-2)", f"optimizer: {optimizer}\nscheduler: {scheduler}"),)
    whole, received = trainer(tmp_path / "whole", *changes, ("every: 2 steps", "every: 1 epoch"))
    whole.fit()
    assert len({event.scalars["lr"] for event in of(StepDone, received) if event.scalars}) > 1
    first, _ = trainer(tmp_path / "parts", *changes)
    first.check_stop = stopping_at(first, 7)
    with pytest.raises(Stopped):
        first.fit()
    second, _ = trainer(tmp_path / "parts", *changes)
    second.resume(*checkpoint.load(tmp_path / "parts" / "last.safetensors"))
    second.fit()
    for name, value in whole.parts.model.state_dict().items():
        assert np.array_equal(value.numpy(), second.parts.model.state_dict()[name].numpy())
    ours, theirs = (built.parts.scheduler.state_dict() for built in (whole, second))
    assert ours == theirs


def test_a_plateau_is_one_of_the_validation_loss(tmp_path):
    schedule = "scheduler: ReduceLROnPlateau(patience=1, factor=0.5)\ntrain: {epochs: 5}"
    built, received = trainer(tmp_path, ("train: {epochs: 3}", schedule), ("every: 2 steps", "every: 1 epoch"))
    losses = iter([0.9, 0.7, 0.8, 0.7, 0.7])
    built._validate = lambda scheduled: {"loss": next(losses), "accuracy": 0.5}
    built.fit()
    assert built.parts.scheduler.best == 0.7
    assert [event.scalars["lr"] for event in of(StepDone, received) if event.scalars] == [0.01] * 4 + [0.005]


def test_a_stop_that_has_ended_the_workers_too_leaves_a_run_that_resumes(tmp_path):
    # 18 batches an epoch: at its first, the workers cannot have sent the last, so their death is always noticed.
    changes = ("num_workers: 0", "num_workers: 2"), ("batch_size: 256", "batch_size: 64")
    whole, _ = trainer(tmp_path / "whole", *changes)
    whole.fit()
    first, _ = trainer(tmp_path / "parts", *changes)

    def check_stop() -> None:
        if first.step == 19 and multiprocessing.active_children():
            for process in multiprocessing.active_children():
                process.kill()
                process.join()
        elif isinstance(sys.exception(), RuntimeError):  # what the loader says; a signal had come just before
            raise Stopped("SIGTERM")

    first.check_stop = check_stop
    with pytest.raises(Stopped):
        first.fit()
    assert first.step >= 19
    second, _ = trainer(tmp_path / "parts", *changes)
    second.resume(*checkpoint.load(tmp_path / "parts" / "last.safetensors"))
    second.fit()
    for name, value in whole.parts.model.state_dict().items():
        assert np.array_equal(value.numpy(), second.parts.model.state_dict()[name].numpy())


def test_a_stop_that_has_ended_the_workers_of_an_evaluation_is_a_stop(tmp_path):
    built, _ = trainer(tmp_path, ("num_workers: 0}", "num_workers: 2}\n  eval_loader: {batch_size: 8}"))

    def check_stop() -> None:
        if isinstance(sys.exception(), RuntimeError):  # what the loader says; a signal had come just before
            raise Stopped("SIGTERM")
        for process in multiprocessing.active_children():
            process.kill()
            process.join()

    with pytest.raises(Stopped):
        evaluate(built.parts, "valid", check_stop=check_stop)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_indices_of_a_batch_are_those_of_its_samples(tmp_path, workers: int):
    built, _ = trainer(tmp_path, ("num_workers: 0", f"num_workers: {workers}"))
    loader = built.parts.loaders["train"]
    assert batch_indices(loader, 0) == []
    for number, (inputs, targets) in enumerate(loader):
        indices = batch_indices(loader, number)
        assert np.array_equal(loader.dataset.tensors[0].numpy()[indices], inputs.numpy())
        assert np.array_equal(loader.dataset.tensors[1].numpy()[indices], targets.numpy())


@pytest.mark.parametrize("workers", [0, 2])
def test_a_step_with_a_label_out_of_range_names_the_sample_and_leaves_the_step_before(tmp_path, workers: int):
    built, _ = trainer(tmp_path, ("num_workers: 0", f"num_workers: {workers}"))
    built.parts.loaders["train"].dataset.tensors[1]._a[17] = 10
    with pytest.raises(
        StepError, match="sample 17 of data.train has the label 10, but the model has 10 outputs"
    ) as caught:
        built.fit()
    assert isinstance(caught.value.__cause__, IndexError)
    assert 17 in batch_indices(built.parts.loaders["train"], built.step)


class Torn(TensorDataset):
    """Sample 17 cannot be read."""

    def __getitem__(self, index: Any) -> Any:
        if 17 in np.atleast_1d(index):
            raise ValueError("sample 17 is torn")
        return super().__getitem__(index)

    __getitems__ = None


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_that_cannot_be_read_is_reported_in_one_line(tmp_path, workers: int):
    built, _ = trainer(tmp_path, ("num_workers: 0", f"num_workers: {workers}"))
    loader = built.parts.loaders["train"]
    loader.__dict__["dataset"] = Torn(*loader.dataset.tensors)
    with pytest.raises(StepError, match=r"^step \d failed on the training samples .* sample 17 is torn") as caught:
        built.fit()
    assert "\n" not in str(caught.value)
    assert 17 in batch_indices(loader, built.step)


def test_an_evaluation_that_fails_names_the_batch(tmp_path):
    built, _ = trainer(tmp_path, ("num_workers: 0}", "num_workers: 0}\n  eval_loader: {batch_size: 100}"))
    built.parts.loaders["valid"].dataset.tensors[0]._a[217] = 7.0

    def fail(model: Any, args: Any) -> None:
        if args[0].max().item() == 7.0:
            raise RuntimeError("out of range")

    built.parts.model.register_forward_pre_hook(fail)
    with pytest.raises(StepError, match=r"^data.valid: failed on the batch that begins with sample 200: out of range"):
        built.fit()
    assert built.step == STEPS


def test_a_mistake_of_the_programs_own_is_not_blamed_on_the_data(tmp_path, monkeypatch):
    def broken(*args: Any) -> None:
        raise AssertionError("a bug")

    built, _ = trainer(tmp_path)
    monkeypatch.setattr(built.parts.loss.terms[0].loss, "forward", broken)
    with pytest.raises(AssertionError, match="a bug"):
        built.fit()


def test_a_mean_that_is_not_finite_is_never_saved(tmp_path):
    built, _ = trainer(tmp_path)  # a GPU's losses are read only here
    built.recent_means["loss"].add((float("nan"), 1), 1)
    with pytest.raises(NonFiniteLoss, match="the loss became nan by step 0;"):
        built.save()
    assert not list(tmp_path.iterdir())


def test_a_loss_that_is_not_finite_stops_before_the_weights_are_updated(tmp_path):
    built, _ = trainer(tmp_path)
    inputs = built.parts.loaders["train"].dataset.tensors[0]
    inputs._a[17] = 3e38  # finite, but with these weights no score of it is
    for p in built.parts.model.parameters():
        p.data.fill_(1.0)
    with pytest.raises(NonFiniteLoss, match="try a lower learning rate") as caught:
        built.fit()
    assert 17 in caught.value.indices and caught.value.step == built.step + 1
    assert all(np.isfinite(p.detach().numpy()).all() for p in built.parts.model.parameters())


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (np.inf, "inf")])
@pytest.mark.parametrize("split", ["train", "valid"])
def test_data_that_are_no_numbers_are_named_by_split_sample_and_place(split, value, shown, tmp_path):
    built, _ = trainer(tmp_path)
    inputs = built.parts.loaders[split].dataset.tensors[0]
    inputs._a[17, ..., 3] = value
    with pytest.raises(StepError) as caught:
        built.fit()
    assert f"data.{split}: the input of sample 17 holds {shown}, at [0, 0, 3]" in str(caught.value)
    assert "learning rate" not in str(caught.value)


def test_evaluation_uses_eval_mode_and_the_whole_split(tmp_path):
    built, received = trainer(
        tmp_path, ('"Linear(64, 10)"', 'Dropout(0.5), "Linear(64, 10)"'), ("epochs: 3", "epochs: 1")
    )
    built.fit()
    model, valid = built.parts.model.eval(), tdt.vision.datasets.Digits("valid")
    right = (model(tdt.from_numpy(valid.data)).argmax(1).numpy() == valid.targets).mean()
    assert of(Validated, received)[0].scalars["valid/accuracy"] == right


def test_a_checkpoint_does_not_grow_with_the_samples_that_a_metric_keeps(tmp_path):
    built, received = trainer(tmp_path, ("[accuracy]", "[auroc]"), ("every: 1 epoch", "every: 1 step"))
    stored_rows: dict[int, list[int]] = {}

    def look(event: CheckpointSaved) -> None:
        saved = checkpoint.load(event.path)[0]
        assert sum(array.size for name, array in saved.items() if name.startswith("metrics/")) == 0
        stored_rows[event.step] = sorted(int(path.stem) for path in (tmp_path / "rows").iterdir())

    built.events.subscribe(look, CheckpointSaved)
    built.fit()
    # Epochs begin after steps 0, 5 and 10; three checkpoints are kept; that of step 5 has a score that waits to be logged.
    assert stored_rows[6] == [1, 2, 3, 4, 5, 6] and stored_rows[7] == [5, 6, 7] and stored_rows[8] == [6, 7, 8]
    resumed, _ = trainer(tmp_path, ("[accuracy]", "[auroc]"))
    resumed.resume(*checkpoint.load(tmp_path / "step-00000014.safetensors"))
    assert len(resumed.epoch_means["auroc"].targets) == 4
