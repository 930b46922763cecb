"""What `train:` can ask for beside epochs, each held to its definition."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdt
from tdt.train.config import ConfigError, draft, loads
from tdt.train.logging.events import CheckpointSaved, EpochDone, Event, RunStarted, StepDone, Validated
from tdt.train.loop.build import build
from tdt.train.loop.evaluation import evaluate
from tdt.train.loop.state import load_model
from tdt.train.loop.trainer import Trainer
from tdt.train.runs import checkpoint
from tests.train.loop.test_trainer import CONFIG, of, trainer

IN_ORDER = ("num_workers: 0", "num_workers: 0, shuffle: false")


def fitted(folder: Path, train: str, *changes: tuple[str, str]) -> tuple[Trainer, list[Event]]:
    """A trainer of CONFIG with this `train` section, at its end, and the events."""
    built, received = trainer(folder, ("{epochs: 3}", train), *changes)
    built.fit()
    return built, received


def weights(built: Trainer) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in built.parts.model.parameters()])


def message(train: str, *changes: tuple[str, str]) -> str:
    """What a config with this `train` section is refused with."""
    text = CONFIG.replace("{epochs: 3}", train)
    for old, new in changes:
        text = text.replace(old, new)
    with pytest.raises(ConfigError) as caught:
        build(loads(text))
    return str(caught.value)


@pytest.mark.parametrize("samples", [1149, 1024])  # the last step has one short batch; four whole ones
def test_accumulated_batches_are_one_large_batch(tmp_path, samples: int):
    few = ("optimizer: Adam(lr=1e-2)", "optimizer: SGD(lr=0.5, momentum=0.9)")
    runs = []
    for size, count in ((256, 1), (64, 4)):
        built, received = trainer(
            tmp_path / str(size), ("{epochs: 3}", f"{{epochs: 2, accumulate: {count}}}"), few, IN_ORDER,
            ("batch_size: 256", f"batch_size: {size}"),
        )  # fmt: skip
        dataset = built.parts.loaders["train"].dataset
        dataset.tensors = tuple(tensor[:samples] for tensor in dataset.tensors)
        built = Trainer(built.parts, built.events, built.store, {})
        built.fit()
        runs.append((weights(built), [event.samples for event in of(StepDone, received)]))
    (whole, sizes), (parts, same) = runs
    assert sizes == same and sum(sizes) == 2 * samples
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)


def test_a_summed_loss_is_added_up_over_batches(tmp_path):
    summed = ("CrossEntropyLoss", "CrossEntropyLoss(reduction=sum)"), ("Adam(lr=1e-2)", "SGD(lr=1e-4)")
    whole, _ = fitted(tmp_path / "a", "{epochs: 2}", *summed, IN_ORDER)
    parts, _ = fitted(
        tmp_path / "b", "{epochs: 2, accumulate: 4}", *summed, IN_ORDER, ("batch_size: 256", "batch_size: 64")
    )
    np.testing.assert_allclose(weights(parts), weights(whole), rtol=1e-5, atol=1e-6)


def test_a_failing_batch_of_several_is_named(tmp_path):
    built, _ = trainer(tmp_path, ("{epochs: 3}", "{epochs: 1, accumulate: 3}"), IN_ORDER)
    batches: list[int] = []

    def fail(model, args) -> None:
        if model.training:
            batches.append(len(args[0]))
            if len(batches) == 5:  # the second batch of step 2
                raise RuntimeError("out of order")

    built.parts.model.register_forward_pre_hook(fail)
    with pytest.raises(Exception, match=r"step 2 failed on the training samples \[1024, 1025, .*out of order"):
        built.fit()


def test_steps_end_a_run_within_an_epoch_with_a_validation(tmp_path):
    built, received = fitted(tmp_path, "{steps: 7}")
    assert built.step == 7 and (of(RunStarted, received)[0].steps, of(RunStarted, received)[0].epochs) == (7, 2)
    assert [event.step for event in of(Validated, received)] == [5, 7]
    assert [event.step for event in of(EpochDone, received)] == [5, 7]
    assert checkpoint.load(tmp_path / "last.safetensors")[1]["over"]


@pytest.mark.parametrize(("train", "steps"), [("{steps: 7, epochs: 1}", 5), ("{steps: 7, epochs: 9}", 7)])
def test_the_first_limit_to_be_reached_ends_the_run(tmp_path, train: str, steps: int):
    assert fitted(tmp_path, train)[0].step == steps


def test_a_time_limit_ends_a_run_after_a_step_and_counts_earlier_parts(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    built, received = trainer(tmp_path, ("{epochs: 3}", "{time: 2 minutes}"))
    built.length.spent = 30.0
    built.events.subscribe(lambda event: now.__setitem__(0, now[0] + 12), StepDone)
    built.fit()
    assert built.step == 8 and of(RunStarted, received)[0].steps is None  # 30 + 8 · 12 is past 120
    assert of(Validated, received)[-1].step == 8
    assert checkpoint.load(tmp_path / "last.safetensors")[1]["elapsed"] >= 120


def test_gradients_are_clipped_by_value(tmp_path):
    built, _ = fitted(tmp_path, "{steps: 1, clip_grad_value: 1e-3}", ("Adam(lr=1e-2)", "SGD(lr=1.0)"))
    before = build(loads(CONFIG)).model.state_dict()
    moved = [(built.parts.model.state_dict()[k] - v).abs().max().item() for k, v in before.items()]
    assert max(moved) == pytest.approx(1e-3, rel=1e-3)


def test_the_rate_warms_up_to_the_schedulers(tmp_path):
    schedule = ("metrics:", "scheduler: {type: ExponentialLR, gamma: 0.5, interval: step}\nmetrics:")
    built, received = fitted(
        tmp_path, "{steps: 6, warmup: 4 steps}", schedule, ("Adam(lr=1e-2)", "SGD(lr=1.0)"),
        ("every: 2 steps", "every: 1 step"),
    )  # fmt: skip
    rates = [event.scalars["lr"] for event in of(StepDone, received)]
    assert rates == [0.25, 0.25, 0.1875, 0.125, 0.0625, 0.03125]
    assert built.parts.optimizer.param_groups[0]["lr"] == 0.5**6


def test_a_warm_up_step_uses_its_fraction_of_the_rate(tmp_path):
    moved = []
    for train in ("{steps: 1}", "{steps: 1, warmup: 2 epochs}"):  # a tenth
        built, _ = fitted(tmp_path / train, train, ("Adam(lr=1e-2)", "SGD(lr=1.0)"))
        moved.append(weights(built) - weights(Trainer(build(loads(CONFIG)), built.events, built.store, {})))
    np.testing.assert_allclose(moved[1], moved[0] / 10, rtol=1e-4, atol=1e-7)


def test_ema_is_scored_and_saved(tmp_path):
    averaged: dict[str, Any] = {}
    built, received = trainer(
        tmp_path, ("{epochs: 3}", "{epochs: 2, ema: 0.9}"), ('"Linear(64, 10)"', '"Linear(64, 10)", BatchNorm1d(10)')
    )

    def follow(event: Event) -> None:
        if isinstance(event, StepDone):
            for name, value in built.parts.model.state_dict().items():
                new = value.numpy().astype("float64")
                averaged[name] = 0.9 * averaged[name] + 0.1 * new if name in averaged else new

    built.events.subscribe(follow)
    built.fit()
    tensors, meta = checkpoint.load(tmp_path / "last.safetensors")
    assert meta["averaged"] == 10
    for name, value in averaged.items():
        if "num_batches" not in name:
            np.testing.assert_allclose(tensors[f"ema/{name}"], value, rtol=1e-4, atol=1e-5)
            assert not np.array_equal(tensors[f"ema/{name}"], tensors[f"model/{name}"])
    parts = build(built.parts.config)
    load_model(parts, tensors)
    assert evaluate(parts, "valid")["loss"] == of(Validated, received)[-1].scalars["valid/loss"]


def test_swa_is_the_mean_over_epochs_with_statistics_of_its_own(tmp_path):
    ends: list[dict[str, np.ndarray]] = []
    built, received = trainer(
        tmp_path, ("{epochs: 3}", "{epochs: 4, swa: 2}"), ('"Linear(64, 10)"', '"Linear(64, 10)", BatchNorm1d(10)')
    )

    def follow(event: Event) -> None:
        if isinstance(event, EpochDone) and event.epoch >= 2:
            ends.append({name: value.numpy().copy() for name, value in built.parts.model.state_dict().items()})

    built.events.subscribe(follow)
    built.fit()
    tensors, meta = checkpoint.load(tmp_path / "last.safetensors")
    assert meta["averaged"] == 2 == len(ends)
    np.testing.assert_allclose(tensors["swa/1.weight"], (ends[0]["1.weight"] + ends[1]["1.weight"]) / 2, atol=1e-6)
    inputs = built.parts.loaders["train"].dataset.tensors[0].numpy().reshape(-1, 64).astype("float64")
    mean = (inputs @ tensors["swa/1.weight"].T + tensors["swa/1.bias"]).mean(0)
    np.testing.assert_allclose(tensors["swa/2.running_mean"], mean, rtol=0.05, atol=0.05)  # mean of batches' means
    parts = build(built.parts.config)
    load_model(parts, tensors)
    assert evaluate(parts, "valid")["loss"] == of(Validated, received)[-1].scalars["valid/loss"]


def test_swa_anneals_to_its_rate(tmp_path):
    _, received = fitted(
        tmp_path, "{epochs: 6, swa: {start: 2, lr: 0.5, anneal_epochs: 2, anneal_strategy: linear}}",
        ("metrics:", "scheduler: ConstantLR(factor=0.5, total_iters=50)\nmetrics:"), ("Adam(lr=1e-2)", "SGD(lr=0.2)"),
        ("every: 2 steps", "every: 1 epoch"),
    )  # fmt: skip
    rates = [event.scalars["lr"] for event in of(StepDone, received) if event.scalars]
    assert rates == pytest.approx([0.1, 0.1, 0.1, 0.3, 0.5, 0.5])


def test_early_stopping_ends_a_run_that_gets_no_better(tmp_path):
    built, received = trainer(
        tmp_path, ("{epochs: 3}", "{epochs: 50, early_stopping: {patience: 2, metric: valid/loss}}")
    )
    losses = iter([0.9, 0.7, 0.8, 0.6, 0.65, 0.6, 0.1])
    built._validate = lambda scheduled: {"loss": next(losses), "accuracy": 0.5}
    built.fit()
    assert built.epoch == 6 and built.over and checkpoint.load(tmp_path / "last.safetensors")[1]["stopping"] == [0.6, 2]


def test_min_delta_is_what_counts_as_better(tmp_path):
    text = "{epochs: 50, early_stopping: {patience: 2, min_delta: 0.1, metric: valid/loss}}"
    built, _ = trainer(tmp_path, ("{epochs: 3}", text))
    losses = iter([0.9, 0.75, 0.7, 0.66, 0.1])
    built._validate = lambda scheduled: {"loss": next(losses), "accuracy": 0.5}
    built.fit()
    assert built.epoch == 4 and built.stopping.value == 0.75


def test_a_validation_every_some_steps_does_not_change_the_training(tmp_path):
    norm = ('"Linear(64, 10)"', '"Linear(64, 10)", BatchNorm1d(10)')
    plain, _ = fitted(tmp_path / "a", "{epochs: 2}", norm)
    often, received = fitted(tmp_path / "b", "{epochs: 2, validate: 3 steps}", norm)
    assert [event.step for event in of(Validated, received)] == [3, 6, 9, 10]
    assert [event.step for event in of(EpochDone, received)] == [5, 10]
    assert np.array_equal(weights(often), weights(plain))


def test_a_validation_every_some_epochs_and_at_the_end(tmp_path):
    _, received = fitted(tmp_path, "{epochs: 3, validate: 2 epochs}")
    assert [event.step for event in of(Validated, received)] == [10, 15]


def test_what_is_frozen_keeps_its_values_and_statistics(tmp_path):
    layers = ('"Linear(64, 10)"', '"Linear(64, 10)", BatchNorm1d(10), "Linear(10, 10)"')
    first = build(loads(CONFIG.replace(*layers))).model.state_dict()
    for extra, unchanged in (("", True), (", freeze_statistics: false", False)):
        built, _ = fitted(tmp_path / extra, '{epochs: 1, freeze: ["1.*", "2.*"]' + extra + "}", layers)
        after = built.parts.model.state_dict()
        assert all(tdt.equal(after[name], first[name]) for name in ("1.weight", "1.bias", "2.weight", "2.bias"))
        assert not tdt.equal(after["3.weight"], first["3.weight"])
        assert tdt.equal(after["2.running_mean"], first["2.running_mean"]) is unchanged


def test_balanced_class_weights_are_scikit_learns(tmp_path):
    weigh = pytest.importorskip("sklearn.utils.class_weight").compute_class_weight
    built, _ = trainer(tmp_path, ("{epochs: 3}", "{epochs: 1, class_weights: balanced}"))
    targets = built.parts.loaders["train"].dataset.tensors[1].numpy()
    expected = weigh("balanced", classes=np.arange(10), y=targets)
    np.testing.assert_allclose(built.parts.loss.terms[0].loss.weight.numpy(), expected, rtol=1e-6)


def test_mixup_learns_and_draws_from_its_own_generator(tmp_path):
    built, received = fitted(tmp_path, "{epochs: 20, mixup: 0.4}")
    assert of(Validated, received)[-1].scalars["valid/accuracy"] > 0.85
    plain, _ = fitted(tmp_path / "plain", "{epochs: 20}")
    assert tdt.equal(built.parts.data_generator.get_state(), plain.parts.data_generator.get_state())
    assert not tdt.equal(built.parts.augment_generator.get_state(), plain.parts.augment_generator.get_state())


def test_overfit_takes_the_same_batches_as_every_split(tmp_path):
    built, received = fitted(
        tmp_path, "{epochs: 150, overfit: 2}", ("batch_size: 256", "batch_size: 8"),
        ("transform: [ToTensor]", 'transform: [ToTensor]\n  augment: ["RandomCrop(8, padding=3)"]'),
    )  # fmt: skip
    train, valid = (built.parts.loaders[name].dataset.tensors for name in ("train", "valid"))
    assert built.length.steps_per_epoch == 2 and len(train[1]) == 16 and len(set(train[1].tolist())) > 4
    assert all(tdt.equal(a, b) for a, b in zip(train, valid, strict=True))
    assert of(Validated, received)[-1].scalars["valid/accuracy"] == 1.0


def test_a_batch_of_each_split_is_tried_before_the_first_epoch(tmp_path):
    built, received = trainer(tmp_path)

    def fail(model, args) -> None:
        raise RuntimeError("out of order")

    built.parts.model.register_forward_pre_hook(fail)
    with pytest.raises(Exception, match="^data.valid: failed on the batch that begins with sample 0: out of order"):
        built.fit()
    assert built.step == 0 and not of(StepDone, received)


def test_the_batch_that_is_tried_changes_nothing(tmp_path, monkeypatch):
    crop = ("transform: [ToTensor]", 'transform: [ToTensor]\n  augment: ["RandomCrop(8, padding=1)"]')
    tried, _ = fitted(tmp_path / "a", "{epochs: 1}", crop, ('"Linear(64, 10)"', 'Dropout(0.5), "Linear(64, 10)"'))
    monkeypatch.setattr("tdt.train.loop.trainer.check_batches", lambda *args: None)
    plain, _ = fitted(tmp_path / "b", "{epochs: 1}", crop, ('"Linear(64, 10)"', 'Dropout(0.5), "Linear(64, 10)"'))
    assert np.array_equal(weights(tried), weights(plain))


@pytest.mark.parametrize(
    ("train", "expected"),
    [
        (
            "{clip_grad_norm: 1.0}",
            ":11:1: train.epochs: is missing; a run needs a number of epochs or steps, or a time limit",
        ),
        ("{time: 30}", "train.time: expected a number and a unit, '30 minutes' or '1.5 hours', got 30"),
        ("{epochs: 1, ema: 1.5}", ":11:25: train.ema: must be less than 1.0, got 1.5"),
        ("{epochs: 1, ema: 0.9, swa: 0}", "train.swa: the weights have one average; remove train.ema or this"),
        ("{epochs: 3, swa: 3}", "train.swa: the average begins after epoch 3, but the run has 3; lower swa.start"),
        ("{epochs: 3, swa: {start: 1, anneal_epochs: 2}}", "train.swa.anneal_epochs: is not used: there is no swa.lr"),
        ("{epochs: 1, freeze: 2.*}", "train.freeze: '2.*' matches no parameter"),
        ('{epochs: 1, freeze: "*"}', "train.freeze: freezes every parameter; leave some to train"),
        ("{epochs: 1, freeze_statistics: false}", "train.freeze_statistics: is not used: nothing is frozen"),
        (
            "{epochs: 1, early_stopping: {patience: 3, metric: valid/acuracy}}",
            "train.early_stopping.metric: no metric is called 'acuracy'; did you mean 'accuracy'?",
        ),
        ("{epochs: 1, early_stoping: 3}", "train.early_stoping: unknown key; did you mean 'early_stopping'?"),
        ("{epochs: 1, early_stopping: yes}", "train.early_stopping"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_its_place(train: str, expected: str):
    assert expected in message(train)


def test_a_pattern_that_freezes_nothing_is_found_beside_other_mistakes(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(CONFIG.replace("{epochs: 3}", "{epochs: 1, freeze: 2.*}").replace("lr=1e-2", "lrr=1e-2"))
    with pytest.raises(ConfigError) as caught:
        build(draft(file))
    error = str(caught.value)
    assert "train.freeze: '2.*' matches no parameter" in error and "optimizer.lrr: unknown argument" in error


def test_a_plateau_may_be_one_of_any_score(tmp_path):
    plateau = (
        "metrics:",
        "scheduler: {type: ReduceLROnPlateau, mode: max, patience: 0, monitor: valid/accuracy}\nmetrics:",
    )
    built, _ = trainer(tmp_path, ("{epochs: 3}", "{epochs: 4}"), plateau)
    accuracies = iter([0.5, 0.7, 0.6, 0.8])
    built._validate = lambda scheduled: {"loss": 1.0, "accuracy": next(accuracies)}
    built.fit()
    assert built.parts.scheduler.best == 0.8 and built.parts.optimizer.param_groups[0]["lr"] == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        ("{type: ReduceLROnPlateau, monitor: valid/accuracy}", "valid/accuracy is better when higher; write mode: max"),
        (
            "{type: ReduceLROnPlateau, monitor: valid/los}",
            "scheduler.monitor: no metric is called 'los'; did you mean 'loss'?",
        ),
        ("ReduceLROnPlateau(monitor=3)", "scheduler.monitor: expected split/metric, got 3"),
        (
            "{type: StepLR, step_size: 1, monitor: valid/loss}",
            "scheduler.monitor: is not used: only ReduceLROnPlateau monitors",
        ),
    ],
)
def test_a_score_that_a_scheduler_cannot_wait_for_is_refused(scheduler: str, expected: str):
    assert expected in message("{epochs: 1}", ("metrics:", f"scheduler: {scheduler}\nmetrics:"))


def test_settings_that_need_a_validation_split_require_it():
    without = ("  valid: Digits(split=valid)\n", "")
    assert "train.validate: is not used: there is no valid split" in message("{epochs: 1, validate: 2 steps}", without)
    assert "train.early_stopping: there is no valid split to evaluate" in message(
        "{epochs: 1, early_stopping: 3}", without
    )


def test_a_group_that_is_wholly_frozen_is_refused():
    groups = ("Adam(lr=1e-2)", '{type: Adam, param_groups: [{params: "*.bias", lr: 0.1}]}')
    error = message('{epochs: 1, freeze: "1.bias"}', groups)
    assert "optimizer.param_groups.0.params: every parameter of this group is frozen" in error


def test_class_weights_need_a_loss_that_takes_them():
    error = message("{epochs: 1, class_weights: balanced}", ("loss: CrossEntropyLoss", "loss: MSELoss"))
    assert "train.class_weights: MSELoss has no class weights; CrossEntropyLoss, NLLLoss, MultiMarginLoss have" in error


def test_events_are_saved_as_they_were(tmp_path):
    _, received = fitted(tmp_path, "{steps: 4, validate: 2 steps}", ("every: 1 epoch", "every: 2 steps"))
    assert [event.step for event in of(CheckpointSaved, received)] == [2, 4]
