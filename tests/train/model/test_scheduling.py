"""The scheduler of a run: the length of the whole run, periods that differ from it, schedulers in schedulers."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tdt.train.config import ConfigError, load, loads
from tdt.train.data.loading import SPLITS
from tdt.train.loop.build import build
from tests.helpers import require_torch

TEXT = """\
data: {train: Digits(split=train), transform: [ToTensor], loader: {batch_size: 64}}
model: [Flatten, "Linear(64, 10)"]
loss: CrossEntropyLoss
optimizer: SGD(lr=1.0)
train: {epochs: 10}
scheduler: """
RISES, STAYS = "the learning rate rises again from", "the learning rate is not at its minimum at the end"
ZERO = "the learning rate is 0"
LINEAR = "LinearLR(0.1, total_iters=2)"


def built(scheduler: str, *overrides: str):
    """The parts of a dry run, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parts = build(loads(TEXT + scheduler + "\n", "c.yaml", overrides), splits=(), dry_run=True)
    return parts, [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    ("scheduler", "overrides", "expected"),
    [
        ("CosineAnnealingLR(T_max=10)", (), None),
        (
            "CosineAnnealingLR(T_max=9)",
            (),
            f"{ZERO} in epoch 10, of 10: nothing is learnt then; make the schedule as long",
        ),
        ("CosineAnnealingLR(T_max=9, eta_min=0.01)", (), None),
        ("PolynomialLR(total_iters=6)", (), f"{ZERO} in 4 epochs, first in epoch 7, of 10"),
        ("{type: CosineAnnealingLR, T_max: 179, interval: step}", (), None),  # one step at 0
        (
            "{type: PolynomialLR, total_iters: 100, interval: step}",
            (),
            f"{ZERO} in 80 steps, first in step 101, of 180",
        ),
        ("ExponentialLR(0.5)", ("optimizer.lr=0", "train.epochs=5"), None),
        ("CosineAnnealingLR(T_max=${run.epochs})", ("train.epochs=20",), None),
        ("CosineAnnealingLR(T_max=${run.epochs})", ("train.steps=20",), None),
        ("CosineAnnealingLR(T_max=10)", ("train.epochs=20",), f"{RISES} epoch 12 on; write T_max=${{run.epochs}}"),
        ("CosineAnnealingLR(T_max=30)", (), f"{STAYS}, epoch 10; write T_max=${{run.epochs}}"),
        ('{type: OneCycleLR, max_lr: 1, total_steps: "${run.steps}", interval: step}', (), None),
        ("{type: OneCycleLR, max_lr: 1, total_steps: 900, interval: step}", (), f"{STAYS}, step 180"),
        ("SequentialLR([LinearLR(0.1), CosineAnnealingLR(7)], milestones=[3])", (), None),
        (
            "SequentialLR([LinearLR(0.1), CosineAnnealingLR(3)], milestones=[3])",
            (),
            f"{RISES} epoch 8 on; write T_max=7",
        ),
        ("CosineAnnealingWarmRestarts(T_0=3)", (), None),
    ],
)
def test_a_period_that_is_not_the_length_of_the_run_is_warned_about(
    scheduler: str, overrides: tuple, expected: str | None
):
    _, found = built(scheduler, *overrides)
    assert [text.startswith("c.yaml:6:") and str(expected) in text for text in found] == (
        [] if expected is None else [True]
    )


@pytest.mark.parametrize(
    ("scheduler", "epochs", "expected"),
    [
        ("CosineAnnealingLR(T_max=10)", 11, f"{ZERO} in epoch 11, of 11: nothing is learnt then; {{}}"),
        ("CosineAnnealingLR(T_max=10)", 20, f"T_max is 10, but the run has 20 epochs: {RISES} epoch 12 on; {{}}"),
        ("OneCycleLR(1, total_steps=10)", 11, "total_steps is 10, but it is stepped 11 times, once per epoch; {}"),
    ],
)
def test_a_resumed_run_is_advised_nothing_that_resume_refuses(
    tmp_path: Path, scheduler: str, epochs: int, expected: str
):
    config = loads(TEXT + scheduler, str(tmp_path / "config.yaml"), [f"train.epochs={epochs}"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            build(config, resumed=True)
        except ConfigError as error:
            found = error.messages
        else:
            found = [str(warning.message) for warning in caught]
    advice = f"start a new run from its weights, weights.from={tmp_path}"
    assert [
        expected.format(f"a resumed run keeps its schedule; for another one {advice}") in text for text in found
    ] == [True]


@pytest.mark.parametrize("name", ["digits-cnn", "char-gpt", "mlp", "vgg11"])
def test_bundled_cosine_schedules_last_as_long_as_the_run(name: str):
    for overrides in ([], ["train.epochs=3"]):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            parts = build(load(name, overrides), splits=())
        assert parts.scheduler.T_max == parts.length.epochs == (3 if overrides else parts.config.train.epochs)
        assert f"T_max={parts.length.epochs}" in parts.config.resolved()  # the run keeps the number


def test_the_length_of_a_run_that_only_time_ends_is_not_known():
    with pytest.raises(
        ConfigError, match=r"c.yaml:6:36: scheduler.T_max: \$\{run.epochs\} is not known: train.time alone"
    ):
        built("CosineAnnealingLR(T_max=${run.epochs})", "~train.epochs", "train.time=1 hour")
    with pytest.raises(ConfigError, match="is the length of the run for its scheduler, and is not known elsewhere"):
        built("null", "optimizer.lr=${run.steps}")


@pytest.mark.parametrize(
    ("scheduler", "make"),
    [
        (f"SequentialLR([SequentialLR([{LINEAR}, ExponentialLR(0.9)], [2]), StepLR(1)], milestones=[5])",
         lambda s, o: s.SequentialLR(o, [s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=2), s.ExponentialLR(o, 0.9)], [2]),
                                         s.StepLR(o, 1)], [5])),
        (f"SequentialLR([ChainedScheduler([{LINEAR}, ExponentialLR(0.9)]), StepLR(1)], milestones=[3])",
         lambda s, o: s.SequentialLR(o, [s.ChainedScheduler([s.LinearLR(o, 0.1, total_iters=2), s.ExponentialLR(o, 0.9)]),
                                         s.StepLR(o, 1)], [3])),
        (f"ChainedScheduler([SequentialLR([{LINEAR}, ExponentialLR(0.9)], [2]), StepLR(3)])",
         lambda s, o: s.ChainedScheduler([s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=2), s.ExponentialLR(o, 0.9)], [2]),
                                          s.StepLR(o, 3)])),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Detected call")
def test_nested_schedulers_have_the_rates_of_pytorch(scheduler: str, make):
    torch = require_torch()
    theirs = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    parts, _ = built(scheduler)
    reference = make(torch.optim.lr_scheduler, theirs)
    for _ in range(10):
        assert parts.optimizer.param_groups[0]["lr"] == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-12)
        parts.optimizer._opt_called = True
        theirs.step(), parts.scheduler.step(), reference.step()


@pytest.mark.parametrize(
    "inner", [f"SequentialLR([{LINEAR}, StepLR(2)], [2])", f"ChainedScheduler([{LINEAR}, StepLR(2)])"]
)
def test_a_scheduler_of_schedulers_cannot_start_at_a_milestone(inner: str):
    """As in PyTorch, where it raises NotImplementedError at the milestone."""
    with pytest.raises(
        ConfigError, match=r"c.yaml:6:37: scheduler.0.1: a \w+ cannot begin at a milestone of a SequentialLR"
    ):
        built(f"SequentialLR([StepLR(1), {inner}], milestones=[5])")


def test_a_scheduler_that_fails_at_a_later_step_is_reported():
    with pytest.raises(ConfigError, match=r"c.yaml:6:\d+: scheduler: its step \d+ fails"):
        built("SequentialLR([StepLR(1), StepLR(step_size=0)], milestones=[4])")


def test_missing_files_and_downloads_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TDT_DATA", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        build(load("lenet5"), splits=(), dry_run=True)
    problems = caught.value.problems  # one for the training files, which two splits read, one for the test files
    assert [(p.source.line, p.key, p.kind) for p in problems] == [(12, "data.dataset", "download")] * 2
    assert all(str(tmp_path) in text and "download=true" in text for text in caught.value.messages)
    downloads = [f"data.{split}.download=true" for split in SPLITS]
    parts = build(load("resnet20", downloads), splits=(), dry_run=True)
    assert [problem.kind for problem in parts.warnings] == ["download"] * 3
    assert not list(tmp_path.iterdir())
