"""What only building finds out is reported at its place, together with all else that is wrong; what is built is as said."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt.train.config import ConfigError, Problem, draft, loads, registry
from tdt.train.loop.build import build

GOOD = """\
seed: 1
device: cpu
data:
  train: Digits(split=train)
  valid: Digits(split=valid)
  transform: [ToTensor, "Normalize(0.5, 0.5)"]
  loader: {batch_size: 64}
model:
  features:
    conv1: Conv2d(1, 4, 3, padding=1)
    relu1: ReLU
    conv2: Conv2d(4, 8, 3, padding=1)
  flatten: Flatten
  classifier: [LazyLinear(16), ReLU, "Linear(16, 10)"]
init:
  - {params: "*.bias", with: zeros_}
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer:
  type: SGD
  lr: 0.1
  param_groups:
    - {params: "classifier.*", lr: 0.01}
scheduler: StepLR(step_size=1)
train: {epochs: 2}
"""


def problems(*changes: tuple[str, str]) -> list[Problem]:
    """What is wrong with GOOD after these changes."""
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = "c.yaml"
    with pytest.raises(ConfigError) as caught:
        build(loads(text, path))
    return caught.value.problems


def only(*changes: tuple[str, str]) -> str:
    """The single message."""
    found = problems(*changes)
    assert len(found) == 1, found
    return str(found[0])


def test_the_built_parts_match_the_config():
    parts = build(loads(GOOD))
    assert str(parts.device) == "cpu"
    assert type(parts.model.features.conv2) is tdt.nn.Conv2d
    assert parts.model.classifier[0].weight.shape == (16, 512)
    assert [group["lr"] for group in parts.optimizer.param_groups] == [0.1, 0.01]
    assert {name for name, group in parts.groups if group == 1} == {
        "classifier.0.weight", "classifier.0.bias", "classifier.2.weight", "classifier.2.bias",
    }  # fmt: skip
    assert all((p == 0).all() for name, p in parts.model.named_parameters() if name.endswith("bias"))
    assert len(parts.loaders["train"]) == 18 and len(parts.loaders["valid"]) == 5
    assert parts.monitor == ("valid", "accuracy")


def test_the_training_split_is_shuffled_and_the_other_is_not():
    parts = build(loads(GOOD))
    targets = np.concatenate([t.numpy() for _, t in parts.loaders["valid"]])
    assert np.array_equal(targets, tdt.vision.datasets.Digits("valid").targets)
    targets = np.concatenate([t.numpy() for _, t in parts.loaders["train"]])
    stored = tdt.vision.datasets.Digits("train").targets
    assert not np.array_equal(targets, stored) and np.array_equal(np.sort(targets), np.sort(stored))


def test_an_init_pattern_that_matches_nothing():
    message = only(('params: "*.bias"', 'params: "*.biass"'))
    assert message.startswith("c.yaml:16:") and "init.0.params: '*.biass' matches no parameter" in message


def test_a_group_pattern_that_matches_nothing_names_the_nearest():
    message = only(('params: "classifier.*"', "params: classifier.0.wieght"))
    assert message.startswith("c.yaml:23:") and "did you mean 'classifier.0.weight'?" in message


def test_a_parameter_in_two_groups_names_it_and_the_other_group():
    more = '{params: "classifier.*", lr: 0.01}\n    - {params: "*.0.bias", lr: 1.0}'
    message = only(('{params: "classifier.*", lr: 0.01}', more))
    assert message.startswith("c.yaml:24:") and "classifier.0.bias is also in the group of line 23" in message


def test_layers_that_do_not_fit_name_both_and_both_lines():
    message = only(("Conv2d(4, 8, 3", "Conv2d(5, 8, 3"))
    assert message.startswith("c.yaml:12:")
    assert "model.features.conv2" in message
    assert "features.relu1 (ReLU(), line 11)" in message


def test_too_few_scores_for_the_classes():
    message = only(("Linear(16, 10)", "Linear(16, 9)"))
    assert message.startswith("c.yaml:14:") and "gives 9 scores" in message and "10 classes" in message


def test_a_layer_that_refuses_its_arguments():
    message = only(("ReLU\n", "Dropout(1.5)\n"))
    assert message.startswith("c.yaml:11:") and "features.relu1" in message and "1.5" in message


def test_an_optimizer_that_refuses_its_arguments():
    message = only(("lr: 0.1\n", "lr: -0.1\n"))
    assert message.startswith("c.yaml:") and "-0.1" in message


def test_a_gpu_that_is_not_there():
    message = only(("device: cpu", "device: cuda:7"))
    assert message.startswith("c.yaml:2:9: device: cuda:7 is not available")


def test_samples_that_never_become_tensors():
    message = only(('  transform: [ToTensor, "Normalize(0.5, 0.5)"]\n', ""))
    assert "add ToTensor" in message


def test_what_building_finds_stands_beside_what_reading_found(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        GOOD.replace("seed: 1", "sed: 1").replace('params: "*.bias"', "params: nothing").replace("(4, 8", "(5, 8")
    )
    with pytest.raises(ConfigError) as caught:
        build(draft(path))
    assert [(p.source.line, p.kind) for p in caught.value.problems] == [
        (1, "unknown-key"),
        (12, "shape"),
        (16, "unused"),
    ]


def test_a_lazy_layer_draws_after_all_others_as_pytorchs_does():
    parts = build(loads(GOOD))
    tdt.manual_seed(1)
    drawn = [tdt.nn.Conv2d(1, 4, 3), tdt.nn.Conv2d(4, 8, 3), tdt.nn.Linear(16, 10), tdt.nn.Linear(512, 16)]
    built = parts.model
    for layer, expected in zip(
        [built.features.conv1, built.features.conv2, built.classifier[2], built.classifier[0]], drawn, strict=True
    ):
        assert np.array_equal(layer.weight.detach().numpy(), expected.weight.detach().numpy())


def test_augmented_samples_differ_by_epoch_and_are_equal_by_seed():
    text = GOOD.replace("  loader:", '  augment: ["RandomCrop(8, padding=2)"]\n  loader:')
    first, second = ([inputs.numpy() for inputs, _ in build(loads(text)).loaders["train"]] for _ in range(2))
    assert all(map(np.array_equal, first, second))
    parts = build(loads(text.replace("batch_size: 64", "batch_size: 64, shuffle: false")))
    one, two = ([inputs.numpy() for inputs, _ in parts.loaders["train"]] for _ in range(2))
    assert not np.array_equal(one[0], two[0])
    single = parts.loaders["train"].dataset[0][0]
    assert single.shape == (1, 8, 8)


def test_a_batch_at_once_is_the_samples_one_by_one():
    text = GOOD.replace("  loader:", '  augment: ["RandomCrop(8, padding=2)"]\n  loader:')
    dataset = build(loads(text)).loaders["train"].dataset
    dataset.generator.manual_seed(5)
    at_once = dataset.__getbatch__([3, 1, 2])
    dataset.generator.manual_seed(5)
    one_by_one = tdt.utils.data.default_collate([dataset[i] for i in (3, 1, 2)])
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(at_once, one_by_one, strict=True))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("{batch_size: 64}", "{batch_size: 2000, drop_last: true}", "data.loader.drop_last: leaves no batch"),
        ("  lr: 0.1\n", "  lr: .inf\n", "optimizer: lr must be a finite number, at least 0, got inf"),
        ("lr: 0.01}", "lr: -0.01}", "optimizer.param_groups.0: lr must be a finite number, at least 0, got -0.01"),
        ("step_size=1", "step_size=0", "scheduler: its first step fails"),
        ("CrossEntropyLoss", "CrossEntropyLoss(reduction=none)", "loss: gives (2,) where training needs one number"),
        ("CrossEntropyLoss", "MSELoss", "loss: MSELoss compares numbers, but the targets of data.train are classes"),
    ],
)
def test_mistakes_that_would_fail_in_training_are_found_before(old: str, new: str, expected: str):
    message = only((old, new))
    assert expected in message, message


NORM = ('ReLU, "Linear(16', 'BatchNorm1d(16), "Linear(16')


@pytest.mark.parametrize(
    ("loader", "advice"),
    [("{batch_size: 1148}", "set drop_last: true, or another batch_size"), ("{batch_size: 1}", "set a larger one"),
     ("{batch_size: 1, drop_last: true}", "set a larger one")],
)  # fmt: skip
def test_a_batch_of_one_sample_is_refused_for_a_batch_norm(loader: str, advice: str):
    expected = "leaves a batch of 1 sample, and classifier.1 (BatchNorm1d(16, eps=1e-05, momentum=0.1, affine=True, "
    message = only(("{batch_size: 64}", loader), NORM)
    assert "data.loader.batch_size: " + expected in message and message.endswith(f" needs 2 to train; {advice}")


@pytest.mark.parametrize(
    ("loader", "change"),
    [("{batch_size: 1148, drop_last: true}", NORM), ("{batch_size: 1147}", NORM), ("{batch_size: 1}", ("ReLU, ", "")),
     ("{batch_size: 1}", ("    relu1: ReLU", "    relu1: BatchNorm2d(4)"))],
)  # fmt: skip
def test_a_batch_of_one_sample_is_accepted_without_a_batch_norm(loader: str, change: tuple[str, str]):
    text = GOOD.replace("{batch_size: 64}", loader).replace(*change)
    assert len(build(loads(text, "c.yaml")).loaders["train"]) > 0


@pytest.mark.parametrize(("interval", "steps"), [("epoch", 3), ("step", 3 * 18)])
def test_a_scheduler_with_just_enough_steps_is_accepted_and_with_one_fewer_is_refused(interval: str, steps: int):
    def change(total: int) -> tuple[str, str]:
        return "StepLR(step_size=1)", f"OneCycleLR(max_lr=1.0, total_steps={total}, interval={interval})"

    longer = ("{epochs: 2}", "{epochs: 3}")
    text = GOOD.replace(*longer).replace(*change(steps))
    assert build(loads(text, "c.yaml")).scheduler.total_steps == steps
    assert f"use total_steps={steps}" in only(longer, change(steps - 1))


def test_a_plateau_scheduler_of_the_loss_cannot_step_every_step():
    message = only(("StepLR(step_size=1)", "{type: ReduceLROnPlateau, interval: step}"))
    assert "needs the loss of whole epochs; write interval: epoch" in message


WEIGHTS = "CrossEntropyLoss(weight=[1, 2.5, 1, 1, 1, 1, 1, 1, 1, 1])"


@pytest.mark.parametrize("written", [WEIGHTS, "{type: CrossEntropyLoss, weight: [1, 2.5, 1, 1, 1, 1, 1, 1, 1, 1]}"])
def test_a_list_becomes_a_tensor_where_the_signature_requires_one(written: str):
    config = loads(GOOD.replace("loss: CrossEntropyLoss", f"loss: {written}"))
    assert loads(config.resolved()) == config
    parts = build(config)
    weighted = parts.loss.terms[0].loss
    assert weighted.weight.dtype is tdt.float32
    x, y = tdt.zeros(2, 10), tdt.tensor([1, 0])
    x[0, 1] = 1.0
    each = tdt.nn.functional.cross_entropy(x, y, reduction="none").tolist()
    assert weighted(x, y).item() == pytest.approx((2.5 * each[0] + each[1]) / 3.5)


def test_a_list_that_is_not_a_tensor_is_refused_at_its_place():
    loss = "loss: CrossEntropyLoss"
    assert only((loss, loss + "(weight=[1, 2])")).startswith("c.yaml:17:7: loss: weight tensor should be defined")
    assert "c.yaml:17:31: loss.weight: expected a list of numbers or null, got 2" in only((loss, loss + "(weight=2)"))
    assert "expected a list of numbers or null" in only((loss, loss + "(weight=[1, a])"))
    assert "expected a list of numbers or null" in only((loss, loss + "(weight=[])"))
    assert "c.yaml:17:7: loss: " in only((loss, loss + "(weight=[[1, 2], [3]])"))
    assert "optimizer.lr: expected float, got [0.1]" in only(("lr: 0.1", "lr: [0.1]"))


def test_what_a_constructor_asserts_is_reported_too():
    found = only(("classifier: [LazyLinear(16)", 'classifier: ["Embedding(3, 2, padding_idx=7)", LazyLinear(16)'))
    assert found.startswith("c.yaml:14:16: model.classifier.0: Padding_idx must be within")


class Torn:
    """Images as a user's dataset may have them: one that cannot be read, or of another size."""

    classes = tuple("0123456789")

    def __init__(self, what: str = "nothing"):
        self.what = what

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        if index == 17 and self.what == "torn":
            raise OSError(5, "Input/output error", "17.png")
        return np.zeros((9 if index == 17 and self.what == "size" else 8, 8), np.float32), index % 10


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("torn", "cannot be read: sample 17: 17.png: Input/output error"),
        (
            "size",
            "cannot be read: sample 17 is of shape (1, 9, 8), and sample 0 of shape (1, 8, 8); put a Resize",
        ),
    ],
)
def test_a_split_that_cannot_be_read_is_reported_before_training(monkeypatch, what: str, expected: str):
    monkeypatch.setitem(registry.datasets.entries, "Torn", Torn)
    assert only(("Digits(split=valid)", f"Torn({what})")).startswith(f"c.yaml:5:10: data.valid: {expected}")


def test_a_losses_message_is_one_sentence():
    assert "same size; its input comes from classifier.2" in only(
        ("loss: CrossEntropyLoss", "loss: {type: MSELoss, target: input}")
    )


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ('transform: [ToTensor]\n  augment: ["RandomCrop(20)"]', "c.yaml:7:13: data.augment.0: RandomCrop: the window (20, 20)"),
        ('transform: ["Normalize(0.5, 0.5)", ToTensor]', "c.yaml:6:15: data.transform.0: TypeError: Normalize: expected a"),
    ],
)  # fmt: skip
def test_a_step_that_refuses_the_first_sample_is_named(steps: str, expected: str):
    assert only(('transform: [ToTensor, "Normalize(0.5, 0.5)"]', steps)).startswith(expected)


def test_images_that_are_not_tensors_get_one_error_with_the_missing_transform():
    found = only(('[ToTensor, "Normalize(0.5, 0.5)"]', "[]"))
    assert found == "c.yaml:6:14: data.transform: samples are ndarray, not tensors; add ToTensor"


def test_what_follows_from_a_layer_that_was_refused_is_not_reported_too():
    changes = (
        ("classifier: [LazyLinear(16)", "classifier: [Dropout(1.5), LazyLinear(16)"),
        ('"classifier.*"', '"classifier.9.*"'),
    )
    assert only(*changes).startswith("c.yaml:14:16: model.classifier.0: dropout probability has to be")
    before = ("conv2: Conv2d(4, 8", "conv2: Conv2d(5, 8")
    assert [p.key for p in problems(before, *changes)] == ["model.features.conv2", "model.classifier.0"]


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("top_k(k=0)", "metrics.0: TopK: k must be at least 1, got 0"),
        ("top_k(k=11)", "metrics.0: TopK: k=11, but there are 10 classes"),
        ("r2", "metrics.0: R2 compares numbers, but CrossEntropyLoss compares classes"),
    ],
)
def test_a_metric_that_is_not_defined_for_the_model_is_named(metric: str, expected: str):
    assert expected in only(("metrics: [accuracy]", f'metrics: ["{metric}"]'))
