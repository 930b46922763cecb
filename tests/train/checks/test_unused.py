"""What a config sets and a run would never come to is an error, at its place; what does something is none."""

from __future__ import annotations

import pytest

from tdt.train.config import ConfigError, loads
from tdt.train.loop.build import build

TEXT = """\
data:
  train: Digits(split=valid)
  valid: Digits(split=test)
  transform: [ToTensor]
  loader: {batch_size: 64}
model: {flatten: Flatten, one: "Linear(64, 16)", two: "Linear(16, 10)"}
loss: CrossEntropyLoss
optimizer: {type: SGD, lr: 0.1, momentum: 0.9}
train: {epochs: 4}
"""  # 288 samples: 5 batches an epoch


def warnings_of(
    *lines: str, changes: dict[str, str] | None = None, overrides: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    """Key and message of what is wrong with TEXT after these changes, and these lines."""
    text = TEXT
    for old, new in (changes or {}).items():
        assert old in text
        text = text.replace(old, new)
    found = []
    try:
        build(loads(text + "".join(f"{line}\n" for line in lines), "c.yaml", overrides), splits=())
    except ConfigError as error:
        found = error.problems
    assert {problem.kind for problem in found} <= {"unused"}
    return [(problem.key, problem.message) for problem in found]


def train(text: str) -> dict[str, str]:
    return {"{epochs: 4}": text}


@pytest.mark.parametrize(
    ("scheduler", "length", "used"),
    [
        ("StepLR(step_size=3)", "{epochs: 4}", True),
        ("StepLR(step_size=4)", "{epochs: 4}", False),
        ("MultiStepLR([30, 60])", "{epochs: 20}", False),
        ("MultiStepLR([30, 60])", "{epochs: 31}", True),
        ("CosineAnnealingLR(T_max=10)", "{epochs: 1}", False),
        ("{type: CosineAnnealingLR, T_max: 10, interval: step}", "{epochs: 1}", True),
        ("{type: StepLR, step_size: 5, interval: step}", "{steps: 5}", False),
        ("{type: StepLR, step_size: 5, interval: step}", "{steps: 6}", True),
        ("ConstantLR(factor=0.5)", "{epochs: 1}", True),
        ("ConstantLR(factor=1.0)", "{epochs: 4}", False),
        ("ReduceLROnPlateau(patience=1)", "{epochs: 4}", True),
        ("ReduceLROnPlateau(patience=2)", "{epochs: 4}", False),
        ("StepLR(step_size=1)", "{epochs: 4, swa: {start: 0, lr: 0.05}}", False),
        ("StepLR(step_size=1)", "{epochs: 4, swa: {start: 2, lr: 0.05}}", True),
        ("StepLR(step_size=99)", "{time: 2 hours}", True),
    ],
)
def test_a_scheduler_changes_a_rate_before_the_run_ends(scheduler: str, length: str, used: bool):
    found = warnings_of(f"scheduler: {scheduler}", changes=train(length))
    assert [key for key, _ in found] == ([] if used else ["scheduler"])


@pytest.mark.parametrize(
    ("sets", "key"),
    [
        ("warmup: 20 steps", None),
        ("warmup: 21 steps", "train.warmup"),
        ("warmup: 5 epochs", "train.warmup"),
        ("early_stopping: 3", None),
        ("early_stopping: 4", "train.early_stopping"),
        ("validate: 5 steps, early_stopping: 3", None),
        ("validate: 2 epochs, early_stopping: 2", "train.early_stopping"),
        ("accumulate: 5", None),
        ("accumulate: 6", "train.accumulate"),
        ("swa: 4", "train.swa"),
    ],
)
def test_what_a_run_is_too_short_for(sets: str, key: str | None):
    assert [at for at, _ in warnings_of(changes=train(f"{{epochs: 4, {sets}}}"))] == [key] * (key is not None)


def test_a_run_may_be_shortened_on_the_command_line_and_resumes_with_its_config():
    lines = ["scheduler: StepLR(step_size=2)"]
    changes = train("{epochs: 4, warmup: 2 epochs, early_stopping: 3}")
    assert warnings_of(*lines, changes=changes) == []
    message = "waits for 3 validations without a better score, but the run has 1"
    with pytest.warns(UserWarning, match=f"c.yaml:.*: train.early_stopping: {message}"):
        assert warnings_of(*lines, changes=changes, overrides=("train.epochs=1",)) == []
    assert warnings_of(*lines, changes=changes, overrides=("train.overfit=1",)) == []
    config = loads(TEXT + "scheduler: StepLR(step_size=2)\n", "c.yaml", ["train.epochs=1"])
    short = loads(config.resolved(), "runs/c/1/config.yaml")
    assert build(short, splits=(), resumed=True).length.epochs == 1
    with pytest.raises(ConfigError, match="in the run's 1 epoch it changes no learning rate"):
        build(short, splits=())


@pytest.mark.parametrize(
    ("rules", "key"),
    [
        ('[{params: "*.weight", with: zeros_}, {params: "one.*", with: ones_}]', None),
        ('[{params: "one.*", with: ones_}, {params: "*", with: zeros_}]', "init.0"),
        (
            '[{params: "one.*", with: ones_}, {params: "*.weight", with: zeros_}, {params: "*.bias", with: zeros_}]',
            "init.0",
        ),
    ],
)
def test_a_rule_that_later_ones_undo(rules: str, key: str | None):
    assert [at for at, _ in warnings_of(f"init: {rules}")] == [key] * (key is not None)


def test_options_that_every_group_sets():
    both = '[{params: "one.*", lr: 0.2}, {params: "two.*", lr: 0.3}]'
    options = {"momentum: 0.9": f"momentum: 0.9, param_groups: {both}"}
    assert [at for at, _ in warnings_of(changes=options)] == ["optimizer.lr"]
    assert (
        warnings_of(changes={"momentum: 0.9": f"momentum: 0.9, param_groups: {both.replace('two.*', 'two.bias')}"})
        == []
    )


def test_statistics_of_batch_norms_that_are_not_there():
    [(key, message)] = warnings_of(changes=train('{epochs: 4, freeze: "one.*", freeze_statistics: false}'))
    assert key == "train.freeze_statistics" and "there is no batch norm" in message


def test_what_a_layer_warns_of():
    recurrent = (
        'rows: "Flatten(1, 2)", lstm: "LSTM(8, 4, dropout=0.1)", out: Pick(0), flat: Flatten, two: LazyLinear(10)}'
    )
    [(key, message)] = warnings_of(
        changes={'flatten: Flatten, one: "Linear(64, 16)", two: "Linear(16, 10)"}': recurrent}
    )
    assert key == "model.lstm" and "dropout=0.1 and num_layers=1" in message


def test_augment_without_a_random_step():
    found = warnings_of(changes={"transform: [ToTensor]": "transform: [ToTensor]\n  augment: [Pad(2), CenterCrop(8)]"})
    assert [at for at, _ in found] == ["data.augment"]
    assert (
        warnings_of(changes={"transform: [ToTensor]": "transform: [ToTensor]\n  augment: [Pad(2), RandomCrop(8)]"})
        == []
    )
