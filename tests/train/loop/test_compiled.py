"""Compiled steps: the files and bits of ordinary ones, whatever the model and the settings; what is not compiled, and why."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdt
from tdt import cli, nn
from tdt._compiled import native
from tdt.commands._errors import failure
from tdt.train import session as session_module
from tdt.train._ranks import Ranks
from tdt.train.config import ConfigError, load, loads
from tdt.train.config.config import Config
from tdt.train.config.imports import trusting
from tdt.train.errors import CompileError, NonFiniteLoss, StepError
from tdt.train.logging.callbacks import Callback
from tdt.train.logging.events import Events, StepDone
from tdt.train.loop import train_step
from tdt.train.loop.build import build
from tdt.train.loop.evaluation import evaluate
from tdt.train.loop.prediction import Predictor
from tdt.train.loop.split_step import SplitStep
from tdt.train.loop.trainer import Trainer
from tdt.train.model import computation
from tdt.train.model.computation import Computation, Forward
from tdt.train.model.objective import Objective, Term
from tdt.train.runs import checkpoint
from tdt.train.runs.checkpoint import CheckpointStore
from tdt.train.session import Session
from tests.configs.small_data import OVERRIDES, write_all
from tests.resume.test_every_feature import CONFIG, FEATURES, Killed, at_event, kill
from tests.train.loop.test_resume import result
from tests.train.loop.test_shards import NORMED, TEXT

pytestmark = pytest.mark.budget("compile")
BUNDLED = (
    "autoencoder", "char-gpt", "char-lstm", "digits-cnn", "digits-finetune", "digits-mlp", "iris-mlp", "lenet5", "mlp",
    "resnet20", "vgg11",
)  # fmt: skip
OFF, ON = "train.compile=false", "train.compile=true"


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are tried natively at once, however few a run has."""
    monkeypatch.setattr(native, "WAITED", 1 << 40)


def recorded(session: Session) -> int:
    """How many recordings of training steps and evaluations are used."""
    each = [found for known in session.parts._computations.values() for found in known.compiled.values()]
    of_kinds = [of_kind for compiled in each for of_kind in compiled.recordings.values()]
    return sum(one.recording is not None and one.recording.verified for of_kind in of_kinds for one in of_kind)


def outcome(folder: Path) -> dict[str, Any]:
    """All in which runs are equal that differ in `train.compile` alone."""
    found = result(folder)
    for name in ("last", "best"):
        meta = found[name, "meta"]
        meta["config"] = "".join(line for line in meta["config"].splitlines() if "  compile: " not in line)
    for name in ("metrics", "tensorboard"):
        found[name] = repr(
            found[name]
        )  # NaN, as the gradient's norm where a scaled one overflows, is not equal to itself
    return found


def run(config: Config, folder: Path, *callbacks: Callback) -> tuple[dict[str, Any], int]:
    """What a run ends with, and how many recordings it used."""
    with Session.start(config, folder=folder, callbacks=callbacks) as session:
        assert session.train().reason == "done"
        return outcome(folder), recorded(session)


def both(text: str, folder: Path, *overrides: str) -> int:
    """Compare a run with the same one that is not compiled. How many recordings it used."""
    own, count = run(loads(text, "small.yaml", list(overrides)), folder / "compiled")
    eager, none = run(loads(text, "small.yaml", [*overrides, OFF]), folder / "eager")
    assert none == 0 and own == eager
    return count


@pytest.mark.parametrize("feature", FEATURES)
def test_a_run_with_any_feature_has_the_same_bits(feature: str, tmp_path):
    assert both(CONFIG % (0, *FEATURES[feature]), tmp_path) >= 1


def test_a_killed_run_goes_on_with_the_same_bits_under_another_setting(tmp_path):
    text = CONFIG % (0, *FEATURES["everything with ema"])
    expected, _ = run(loads(text, "small.yaml"), tmp_path / "whole")
    for number, first in itertools.product((12, 22), ("auto", "false")):
        folder, config = tmp_path / f"{number} {first}", loads(text, "small.yaml", [f"train.compile={first}"])
        with pytest.raises(Killed), Session.start(config, folder=folder) as session:
            session.train(at_event(number, kill))
        with Session.resume(folder, overrides=[OFF if first == "auto" else "train.compile=auto"]) as session:
            assert session.changes and session.train().reason == "done"
            assert (recorded(session) > 0) is (first == "false")
        assert outcome(folder) == expected


def bundled(name: str, steps: int, folder: Path, every: int = 2) -> None:
    """Compare some steps of a bundled config, with a validation and a checkpoint `every` steps. The data are noise, and few."""
    with write_all(folder):
        changes = ["device=cpu", "train.epochs=null", f"train.steps={steps}", "data.loader.batch_size=4", "log.every=1 step",
                   "scheduler=null", "train.warmup=null",
                   f"checkpoint.every={every} steps", f"train.validate={every} steps"]  # fmt: skip
        changes += OVERRIDES.get(name, lambda folder: [])(folder)
        own, count = run(load(name, changes), folder / "compiled")
        eager, _ = run(load(name, [*changes, OFF]), folder / "eager")
    assert own == eager and count >= 1


@pytest.mark.parametrize("name", [name for name in BUNDLED if name != "vgg11"])  # large; the long step has it
def test_bundled_configs_have_the_same_bits(name: str, tmp_path):
    bundled(name, 4, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", BUNDLED)
def test_every_bundled_config_has_the_same_bits_for_50_steps(name: str, tmp_path):
    bundled(name, 50, tmp_path, every=10)


def any_config(draw: random.Random) -> str:
    """A config with a random model and random settings."""
    act = lambda: draw.choice(["ReLU", "GELU", "Tanh", "SiLU", "ELU", "ReLU(inplace=true)", "Softplus", "LeakyReLU"])  # noqa: E731
    drop = draw.choice(["Identity", "Dropout(0.3)", "AlphaDropout(0.2)", "FeatureAlphaDropout(0.1)"])
    kind = draw.choice(["mlp", "cnn", "rnn", "blocks", "transformer"])
    if kind == "mlp":
        norm = draw.choice(["Identity", "BatchNorm1d(12)", "LayerNorm(12)", "RMSNorm(12)", "GroupNorm(3, 12)"])
        model = ["Flatten", "Linear(64, 12)", norm, act(), drop, "Linear(12, 10)"]
    elif kind == "cnn":
        norm = draw.choice(["Identity", "BatchNorm2d(4)", "GroupNorm(2, 4)", "InstanceNorm2d(4, affine=true)"])
        pool = draw.choice(["MaxPool2d(2)", "AvgPool2d(2)", "AdaptiveAvgPool2d(4)", "Dropout2d(0.2)"])
        first = f"Conv2d(1, 4, 3, stride={draw.choice([1, 2])}, padding={draw.choice([0, 1])})"
        model = [first, norm, act(), pool, "Flatten", drop, "LazyLinear(10)"]
    elif kind == "rnn":
        layer = draw.choice(["LSTM", "GRU", "RNN"])
        model = ["Flatten(1, 2)", f"{layer}(8, 6, batch_first=true)", "Pick(0)", "Flatten", "LazyLinear(10)"]
    elif kind == "blocks":
        block = f"Residual([LayerNorm(64), 'Linear(64, 64)', {act()}, {drop}])"
        model = ["Flatten", f"Repeat(2, {block})", "Linear(64, 10)"]
    else:
        layer = "TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=true, dropout=0.1)"
        model = ["Flatten(1, 2)", layer, "Flatten", "LazyLinear(10)"]
    loss = draw.choice(
        ["CrossEntropyLoss", "CrossEntropyLoss(label_smoothing=0.1)", "CrossEntropyLoss(ignore_index=3)",
         "CrossEntropyLoss(reduction=sum)", "{type: MultiMarginLoss}"]
    )  # fmt: skip
    optimizer = draw.choice(["SGD(lr=0.05, momentum=0.9)", "Adam(lr=0.01)", "AdamW(lr=0.01)", "RMSprop(lr=0.01)"])
    if "sum" in loss:
        optimizer = optimizer.replace("lr=0.05", "lr=0.0001")
    train = {"steps": "12"}
    for key, values in {
        "accumulate": ["2", "3"], "clip_grad_norm": ["1.0"], "clip_grad_value": ["0.1"], "warmup": ["3 steps"],
        "ema": ["0.9"], "amp": ["bfloat16", "float16"], "freeze": ["['1.*']"], "validate": ["2 steps"], "shards": ["2"],
    }.items():  # fmt: skip
        if draw.random() < 0.25:
            train[key] = draw.choice(values)
    if "sum" not in loss and "Margin" not in loss and draw.random() < 0.3:
        train["mixup"] = "0.4"
    settings = ", ".join(f"{key}: {value}" for key, value in train.items())
    size = draw.choice([200, 256, 300])
    return (
        f"name: any\nseed: {draw.randrange(1000)}\ndevice: cpu\n"
        "data:\n  train: Digits(split=train)\n  valid: Digits(split=valid)\n  transform: [ToTensor]\n"
        f"  loader: {{batch_size: {size}}}\n"
        f"model: [{', '.join(json.dumps(layer) for layer in model)}]\nloss: {json.dumps(loss) if loss[0] != '{' else loss}\n"
        f"metrics: [accuracy]\noptimizer: {json.dumps(optimizer)}\ntrain: {{{settings}}}\n"
        "checkpoint: {every: 3 steps}\nlog: {every: 1 step}\n"
    )


def any_run(seed: int, folder: Path) -> None:
    text = any_config(random.Random(seed))
    if "freeze" in text and "Linear(64, 12)" not in text:
        text = text.replace(", freeze: ['1.*']", "")
    assert both(text, folder) >= 1


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(8))
def test_random_models_and_settings_have_the_same_bits(seed: int, tmp_path):
    any_run(seed, tmp_path)


@pytest.mark.long  # `TDT_SEEDS=500` draws as many
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(8, 8 + int(os.environ.get("TDT_SEEDS", "60"))))
def test_many_random_models_and_settings_have_the_same_bits(seed: int, tmp_path):
    any_run(seed, tmp_path)


# What guards see between two steps: each change must count at once, as in steps that are not compiled.


def replace_weight(model: nn.Module) -> None:
    model[0].weight = nn.Parameter(tdt.full_like(model[0].weight, 0.01))


CHANGES = {
    "a rate of dropout": lambda model: setattr(model[2], "p", 0.9),
    "evaluation mode of a layer": lambda model: model[1].eval(),
    "evaluation mode": lambda model: model.eval(),
    "a frozen parameter": lambda model: model[0].bias.requires_grad_(False),
    "frozen parameters": lambda model: model[0].requires_grad_(False),
    "a parameter": replace_weight,
    "the data of a parameter": lambda model: setattr(model[0].weight, "data", tdt.ones(16, 64) * 0.01),
    "the strides of a parameter": lambda model: setattr(model[0].weight, "data", tdt.ones(64, 16).T * 0.01),
    "a layer": lambda model: model.__setitem__(2, nn.Tanh()),
    "a forward hook": lambda model: model[0].register_forward_hook(lambda module, args, out: out * 0.5),
    "a backward hook": lambda model: model[0].register_full_backward_hook(lambda module, g, _: (g[0],)),
    "a hook of a parameter": lambda model: model[0].weight.register_hook(lambda g: g * 2),
    "a buffer": lambda model: setattr(model[1], "running_mean", tdt.ones(16)),
    "a momentum": lambda model: setattr(model[1], "momentum", 0.5),
    "the number of threads": lambda model: tdt.set_num_threads(3 - min(tdt.get_num_threads(), 2)),
    "the seed": lambda model: tdt.manual_seed(5),
    "float64 by default": lambda model: tdt.set_default_dtype(tdt.float64),
}


def steps(change: Any, compiled: bool) -> list[Any]:
    """The bits of 14 steps, with a change before the seventh."""
    tdt.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 10))
    forward = Forward(model, Objective([Term("loss", nn.CrossEntropyLoss())]), None)
    found, call = [], Computation(forward, None if compiled else "off")
    for step in range(14):
        if step == 6:
            change(model)
        x, y = tdt.randn(8, 64, dtype=tdt.float32), tdt.randint(0, 10, (8,))
        model.zero_grad()
        output, loss, _, _ = call("losses", x, y)
        loss.backward()
        found += [t.detach().numpy().tobytes() for t in (output, loss)]
        found += [None if p.grad is None else p.grad.numpy().tobytes() for p in model.parameters()]
        with tdt.no_grad():
            for p in model.parameters():
                if p.grad is not None:
                    p -= 0.1 * p.grad
    assert not compiled or call.compiled["losses"].recordings
    return [*found, *[b.numpy().tobytes() for b in model.buffers()]]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_between_two_steps_counts(name: str):
    found, threads = [], tdt.get_num_threads()
    for compiled in (True, False):
        try:
            found.append(steps(CHANGES[name], compiled))
        finally:
            tdt.set_num_threads(threads)
            tdt.set_default_dtype(tdt.float32)
    assert found[0] == found[1]


# What is not compiled, and what is said about it.

GATE = """
import tdt

class Gate(tdt.nn.Module):
    def forward(self, x):
        return x * 0.5

class Branch(tdt.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x
"""


def own(folder: Path, layer: str, *overrides: str) -> Config:
    """A config with a layer of one's own."""
    (folder / "own.py").write_text(GATE)
    text = (
        (CONFIG % (0, STEP_RULE, "steps: 8"))
        .replace("ReLU", layer)
        .replace("name: small", "name: small\nimports: [own.py]")
    )
    (folder / "own.yaml").write_text(text)
    return load(folder / "own.yaml", list(overrides))


STEP_RULE = "{type: ExponentialLR, gamma: 0.9, interval: step}"


def test_layers_of_ones_own_are_compiled_on_request(tmp_path):
    with trusting():
        found = {
            setting: run(own(tmp_path, "Gate", f"train.compile={setting}"), tmp_path / setting)
            for setting in ("auto", "true", "false")
        }
    assert [count > 0 for _, count in found.values()] == [False, True, False]
    assert found["auto"][0] == found["true"][0] == found["false"][0]


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = cli.run(list(arguments))
    out, err = capsys.readouterr()
    assert (code, err) == (0, ""), err
    return next(line for line in out.splitlines() if line.startswith("compiled steps: "))


def test_describe_and_train_say_what_is_compiled_or_why_not(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with trusting():
        own(tmp_path, "Branch")
    yes = lines(capsys, "describe", "digits-mlp", "--compile")
    assert re.fullmatch(r"compiled steps: yes: a step calls \d+ kernels? and \d+ Python functions?", yes)
    assert lines(capsys, "train", "digits-mlp", "train.epochs=1", "-v") == yes
    for settings, count in ((["train.accumulate=2"], 2), (["train.amp=float16"], 3)):
        parts = lines(capsys, "describe", "digits-mlp", "--compile", *settings)
        in_parts = (
            f", in {count} parts" if tdt.backends.kernels.enabled() else ""
        )  # which small models' steps are, natively
        assert parts.endswith(f" Python functions{in_parts}")
        assert lines(capsys, "train", "digits-mlp", "train.epochs=1", "-v", *settings) == parts
    assert "no: train.compile is false" in lines(capsys, "describe", "digits-mlp", "--compile", OFF)
    auto = lines(capsys, "describe", "own.yaml", "--compile", "--trust")
    assert "no: Branch is your own" in auto and "train.compile: true" in auto
    branch = lines(capsys, "train", "own.yaml", "--trust", "-v", ON)
    assert re.search(
        r"which differ from call to call, at \S+/own.py:10, in the layer Branch 3 \(own.yaml:12:53\)", branch
    )
    assert cli.run(["describe", "digits-mlp", "--compile", "--json"]) == 0
    facts = json.loads(capsys.readouterr()[0])["compiled"]
    assert (facts["kernels"] > 0) is tdt.backends.kernels.enabled()
    assert facts["python"] > 0 and facts["reasons"] == []


@pytest.mark.parametrize("value", ["yes please", "1", "null", "2.5"])
def test_other_values_are_refused(value: str):
    with pytest.raises(ConfigError, match="train.compile"):
        load("digits-mlp", [f"train.compile={value}"])


def test_a_loss_that_is_not_finite_names_the_samples_as_without(tmp_path):
    found = []
    for setting in ("auto", "false"):
        text = CONFIG % (0, STEP_RULE, "steps: 9, clip_grad_norm: 1.0")
        with Session.start(
            loads(text, "small.yaml", [f"train.compile={setting}", "optimizer.lr=1e39", "optimizer.param_groups=null"]),
            folder=tmp_path / setting,
        ) as session, pytest.raises(NonFiniteLoss) as caught:  # fmt: skip
            session.train()
        found.append(str(caught.value))
    assert found[0] == found[1] and "on the training samples [" in found[0]


class Whole(Callback):
    """Notes from which step on steps are computed as one function, and changes a weight after some step."""

    def __init__(self, spoilt: int = 0) -> None:
        self.steps: list[int] = []
        self.spoilt = spoilt

    def on_step(self, event: StepDone, parts: Any) -> None:
        compiled = parts.computation(parts.model).compiled.get("step")
        recordings = [each.recording for some in compiled.recordings.values() for each in some] if compiled else []
        if any(recording is not None and recording.native.steps for recording in recordings):
            self.steps.append(event.step)
        if event.step == self.spoilt:
            parts.model[1].weight.data[0, 0] = float("inf")


@pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="portable code launches nothing")
@pytest.mark.parametrize(
    "settings", ["steps: 20", "steps: 20, clip_grad_norm: 0.1, clip_grad_value: 0.01, warmup: 9 steps"]
)
def test_small_models_take_whole_steps(settings: str, tmp_path):
    whole, text = Whole(), CONFIG % (0, STEP_RULE, settings)
    own, _ = run(loads(text, "small.yaml"), tmp_path / "compiled", whole)
    eager, _ = run(loads(text, "small.yaml", [OFF]), tmp_path / "eager", Whole())
    assert own == eager and whole.steps and whole.steps[0] < 12


@pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="portable code launches nothing")
def test_steps_on_images_are_whole_too(tmp_path):
    with Session.start(
        load("digits-cnn", ["device=cpu", "train.epochs=null", "train.steps=12"]), folder=tmp_path
    ) as session:
        assert session.train().reason == "done"
        compiled = session.parts.computation(session.parts.model).compiled["step"]
    recordings = [each.recording for of_kind in compiled.recordings.values() for each in of_kind]
    assert recordings and all(each is not None and each.verified for each in recordings) and not compiled.refusals


def test_a_whole_step_whose_loss_is_not_finite_updates_nothing(tmp_path):
    found = []
    for setting in ("auto", "false"):
        whole = Whole(spoilt=14)
        text = CONFIG % (0, STEP_RULE, "steps: 20")
        folder = tmp_path / setting
        with Session.start(
            loads(text, "small.yaml", [f"train.compile={setting}"]), folder=folder, callbacks=[whole]
        ) as session, pytest.raises(NonFiniteLoss) as caught:  # fmt: skip
            session.train()
        parts = session.parts
        states = [t.numpy().tobytes() for own in parts.optimizer.state_dict()["state"].values() for t in own.values()]
        found.append((str(caught.value), [t.detach().numpy().tobytes() for t in parts.model.parameters()], states))
        assert bool(whole.steps) is (setting == "auto" and tdt.backends.kernels.enabled())
    assert found[0] == found[1] and "at step 15, on the training samples [" in found[0][0]


STAGED = {
    "batches": "accumulate: 3",
    "clipping": "accumulate: 2, clip_grad_norm: 0.1, clip_grad_value: 0.02, warmup: 9 steps, class_weights: balanced",
    "float16": "amp: float16, clip_grad_norm: 0.1, ema: 0.9",
    "float16 of batches": "amp: float16, accumulate: 2, clip_grad_value: 0.01",
    "bfloat16": "amp: bfloat16, accumulate: 2",
    "mixup": "mixup: 0.4, clip_grad_norm: 0.1",
    "mixup of batches": "mixup: 0.4, accumulate: 2, class_weights: balanced",
    "shards": "shards: 4, clip_grad_norm: 0.1",
    "shards of batches": "shards: 2, accumulate: 2, mixup: 0.4, amp: float16, class_weights: balanced",
    "rounded": "shards: 2, reduce_dtype: bfloat16",
    "frozen": "accumulate: 2, freeze: ['2.*']",
}


class Staged(Whole):
    """Notes from which step on all stages run on tapes."""

    def on_step(self, event: StepDone, parts: Any) -> None:
        compiled = parts.computation(parts.model).compiled
        if "update" in compiled and all(map(is_native, [compiled["gradients"], compiled["update"]])):
            self.steps.append(event.step)
        if event.step == self.spoilt:
            parts.model[1].weight.data[0, 0] = float("inf")


def is_native(compiled: Any) -> bool:
    """Whether some calls of a function run on a tape."""
    recordings = [each.recording for some in compiled.recordings.values() for each in some]
    return any(one is not None and any(isinstance(s, native._Launched) for s in one.native.steps) for one in recordings)


@pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="portable code launches nothing")
@pytest.mark.parametrize("name", STAGED)
def test_steps_of_several_batches_shards_or_scaled_losses_run_in_stages(name: str, tmp_path):
    staged, text = Staged(), CONFIG % (0, STEP_RULE, f"steps: 24, {STAGED[name]}")
    own, _ = run(loads(text, "small.yaml"), tmp_path / "compiled", staged)
    eager, _ = run(loads(text, "small.yaml", [OFF]), tmp_path / "eager", Staged())
    assert own == eager and staged.steps and staged.steps[0] < 16


@pytest.mark.parametrize("optimizer", ["SGD(lr=0.1, momentum=0.9)", "Adafactor", "Muon"])
def test_stages_with_other_optimizers(optimizer: str, tmp_path):
    text = CONFIG % (0, STEP_RULE, "steps: 16, accumulate: 2, clip_grad_norm: 0.1")
    model = "model=[Flatten, 'Linear(64, 16, bias=false)', ReLU, 'Linear(16, 10, bias=false)']"
    assert both(text, tmp_path, f"optimizer={optimizer}", model, "scheduler=null") >= 1


class Overflow(Callback):
    """Changes the scale of the loss after some steps, as if it had grown, so that gradients overflow in the next ones."""

    def __init__(self) -> None:
        self.skipped, self.scaler = 0.0, tdt.amp.GradScaler("cpu")

    def on_step(self, event: StepDone, parts: Any) -> None:
        self.skipped = event.scalars.get("amp/skipped_steps", self.skipped)
        if event.step in (13, 17):
            self.scaler._scale = 2.0**40


def test_a_step_whose_scaled_gradients_overflow_changes_no_weights(tmp_path, monkeypatch):
    found = []
    for setting in ("auto", "false"):
        overflow = Overflow()
        monkeypatch.setattr("tdt.train.loop.train_step.GradScaler", lambda *_, **__: overflow.scaler)
        text = CONFIG % (0, STEP_RULE, "steps: 60, amp: float16, clip_grad_norm: 0.1")
        own, _ = run(loads(text, "small.yaml", [f"train.compile={setting}"]), tmp_path / setting, overflow)
        found.append(own)
        assert overflow.skipped >= 20
    assert found[0] == found[1]


def test_a_shard_without_targets_that_count_has_no_gradients(tmp_path):
    text = TEXT.format(model='[Flatten, "Linear(64, 20)", Tanh, "Linear(20, 10)"]')
    settings, found = ["data.loader.batch_size=5", "train.steps=60", "train.clip_grad_norm=0.1"], []

    class Samples(Callback):
        def on_step(self, event: StepDone, parts: Any) -> None:
            found.append(event.samples)

    own, count = run(loads(text, "small.yaml", settings), tmp_path / "compiled", Samples())
    eager, _ = run(loads(text, "small.yaml", [*settings, OFF]), tmp_path / "eager", Samples())
    assert own == eager and count >= 3 and set(found) == {5} and len(found) == 120


@pytest.mark.parametrize("name", ["float16 of batches", "shards of batches"])
def test_a_run_in_stages_that_is_killed_goes_on_with_the_same_bits(tmp_path, name: str):
    text = CONFIG % (0, STEP_RULE, f"steps: 24, {STAGED[name]}")
    expected, _ = run(loads(text, "small.yaml"), tmp_path / "whole")
    for first, other in (("auto", "false"), ("false", "auto")):
        config, folder = loads(text, "small.yaml", [f"train.compile={first}"]), tmp_path / first
        with pytest.raises(Killed), Session.start(config, folder=folder) as session:
            session.train(at_event(22, kill))
        with Session.resume(folder, overrides=[f"train.compile={other}"]) as session:
            assert session.train().reason == "done"
        assert outcome(folder) == expected


@pytest.mark.parametrize("settings", ["accumulate: 2", "amp: float16", "shards: 2"])
def test_a_stage_whose_loss_is_not_finite_updates_nothing(settings: str, tmp_path):
    found = []
    for setting in ("auto", "false"):
        staged, text = Staged(spoilt=19), CONFIG % (0, STEP_RULE, f"steps: 24, {settings}")
        with Session.start(
            loads(text, "small.yaml", [f"train.compile={setting}"]), folder=tmp_path / setting, callbacks=[staged]
        ) as session, pytest.raises(NonFiniteLoss) as caught:  # fmt: skip
            session.train()
        found.append((str(caught.value), [t.detach().numpy().tobytes() for t in session.parts.model.parameters()]))
        assert bool(staged.steps) is (setting == "auto" and tdt.backends.kernels.enabled())
    assert found[0] == found[1] and "at step 20, on the training samples [" in found[0][0]


LOW = """
import tdt
from tdt import nn
class Scale(nn.Module):
    def __init__(self, kind="float32", size=()):
        super().__init__()
        self.scale = nn.Parameter(tdt.ones(size, dtype=getattr(tdt, kind)))
    def forward(self, x):
        return x * self.scale
class To(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = getattr(tdt, kind)
    def forward(self, x):
        return x.to(self.kind)
"""


@pytest.mark.parametrize(("layer", "settings"), [
    ("Scale", "accumulate: 3"), ("Scale", "mixup: 0.4, accumulate: 2"), ("To(float16)", "mixup: 0.4, accumulate: 2"),
    ("'Scale(float16, [10])'", "accumulate: 2, shards: 2, clip_grad_norm: 0.1"),
])  # fmt: skip
def test_a_scalar_and_half_precision_have_the_bits_of_ordinary_steps(layer: str, settings: str, tmp_path):
    (tmp_path / "own.py").write_text(LOW)
    (tmp_path / "own.yaml").write_text(f"""
name: own
imports: [own.py]
device: cpu
data:
  train: Digits(split=train)
  valid: Digits(split=valid)
  transform: [ToTensor]
  loader: {{batch_size: 199}}
model: [Flatten, "Linear(64, 10)", {layer}]
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1, momentum=0.9)
train: {{steps: 20, {settings}}}
""")
    with trusting():
        own, _ = run(load(tmp_path / "own.yaml", [ON]), tmp_path / "compiled")
        eager, _ = run(load(tmp_path / "own.yaml", [OFF]), tmp_path / "eager")
    assert own == eager


def test_gradients_that_a_callback_keeps_stay_as_they_were(tmp_path):
    remembered: dict[bool, list[Any]] = {True: [], False: []}

    class Keep(Callback):
        def on_step(self, event: StepDone, parts: Any) -> None:
            remembered[parts.config.train.compile is False].extend(p.grad for p in parts.model.parameters())

    text = CONFIG % (0, STEP_RULE, "steps: 16, accumulate: 2, clip_grad_norm: 0.1")
    for setting in ("auto", "false"):
        run(loads(text, "small.yaml", [f"train.compile={setting}"]), tmp_path / setting, Keep())
    assert len({id(g) for g in remembered[False]}) == len(remembered[False]) == 16 * 6
    assert [g.numpy().tobytes() for g in remembered[False]] == [g.numpy().tobytes() for g in remembered[True]]


def test_a_sum_of_one_batch_has_the_zeros_of_its_gradients():
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(tdt.tensor([1.0, 2.0]))

        def forward(self, x: tdt.Tensor) -> tdt.Tensor:
            return x * self.weight

    model, x, y = Scale(), tdt.tensor([0.0, 1.0]), tdt.tensor([1.0, 1.0])
    forward = Forward(model, Objective([Term("loss", nn.MSELoss())]), None)
    split = SplitStep(forward, tdt.optim.SGD(model.parameters(), lr=0.1), None, None, tdt.device("cpu"))
    for _ in range(5):
        split.begin()
        split.add(x, y, [], None, None)
        split.put()
        assert model.weight.grad.numpy().tobytes() == np.array([-0.0, 1.0], np.float32).tobytes()


def test_a_parameter_that_thaws_between_steps_in_stages(tmp_path):
    class Thaw(Callback):
        def on_step(self, event: StepDone, parts: Any) -> None:
            parts.model[1].bias.requires_grad_(event.step not in range(8, 12))

    found = []
    for setting in ("auto", "false"):
        text = CONFIG % (0, STEP_RULE, "steps: 20, accumulate: 2, clip_grad_norm: 0.1")
        found.append(run(loads(text, "small.yaml", [f"train.compile={setting}"]), tmp_path / setting, Thaw())[0])
    assert found[0] == found[1]


def test_an_unknown_label_is_named_as_without(tmp_path):
    text = (CONFIG % (0, STEP_RULE, "steps: 9")).replace("batch_size: 256", "batch_size: 64, shuffle: false")
    text = text.replace("  augment:", "  # ")
    found = []
    for setting in ("auto", "false"):
        parts = build(loads(text, "small.yaml", [f"train.compile={setting}"]))
        parts.loaders["train"].dataset.tensors[1][400] = 12
        trainer = Trainer(parts, Events(), CheckpointStore(tmp_path / setting), {})
        with pytest.raises(StepError) as caught:
            trainer.fit()
        assert trainer.step == 6 and bool(trainer.train_step.computation.compiled) is (setting == "auto")
        found.append(str(caught.value))
    assert (
        found[0] == found[1] and "sample 400 of data.train has the label 12, but the model has 10 outputs" in found[0]
    )


def test_shards_have_the_same_bits_and_synchronised_norms_are_not_compiled(tmp_path):
    text = TEXT.format(model=NORMED)
    assert both(text, tmp_path) >= 1
    parts = build(loads(text, "x.yaml", ["train.sync_batchnorm=true"]), ranks=Ranks.alone())
    assert "SyncBatchNorm" in str(Trainer(parts, Events(), None, {}).train_step.computation.reason)


def test_predictions_of_a_checkpoint_are_those_without(tmp_path):
    rows, found = [(str(k), tdt.rand(8, 8).numpy()) for k in range(50)], []
    run(loads(CONFIG % (0, STEP_RULE, "steps: 4"), "small.yaml"), tmp_path / "run")
    for setting in (None, "off"):
        predictor = Predictor(tmp_path / "run" / "checkpoints" / "last.safetensors", batch_size=8)
        model = predictor.parts.scored
        known = predictor.parts._computations[model] = Computation(Forward(model, predictor.parts.loss, None), setting)
        found.append([(each.error, each.classes) for each in predictor.predict(rows)])
        assert sum(compiled.count for compiled in known.compiled.values()) == (setting is None)
    assert found[0] == found[1] and found[0][0][0] is None


# A recording that computes something else.


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fourth step is compared."""
    for module in (train_step, session_module, computation):
        monkeypatch.setattr(module, "CHECK_EVERY", 4)


def doubled(backward):
    """A backward program whose gradients are twice as large."""
    return lambda *arrays: tuple(a if a is None else a * 2 for a in backward(*arrays))


def doubled_last(step):
    """The program of a whole step in which the last gradient is twice as large."""

    def spoilt(*arrays):
        found, saved = step(*arrays)
        return (*found[:-1], found[-1] * 2), saved

    return spoilt


class Spoil(Callback):
    """Lets the recordings of the training compute other gradients after a step, those that are new then as well."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, event: StepDone, parts: Any) -> None:
        if not self.step or event.step < self.step:
            return
        compiled = parts.computation(parts.model).compiled
        for of_kind in compiled["losses"].recordings.values():
            for recording in (each.recording for each in of_kind):
                for chosen, (backward, places) in recording.backwards.items() if recording is not None else ():
                    recording.backwards[chosen] = doubled(backward), places
                    recording.native_backwards[chosen] = doubled(recording.native_backwards[chosen])
        for of_kind in compiled["step"].recordings.values() if "step" in compiled else ():
            for recording in (
                each.recording for each in of_kind if each.recording is not None and each.recording.verified
            ):
                recording.native.disabled = True
                recording.forward = recording.native.otherwise = doubled_last(recording.forward)


def test_a_step_that_differs_ends_the_run_at_the_last_verified_checkpoint(tmp_path, often):
    text = (CONFIG % (0, STEP_RULE, "steps: 20")).replace("every: 2 steps, keep: 2", "every: 1 step, keep: 1")
    expected, _ = run(loads(text, "small.yaml"), tmp_path / "whole", Spoil(0))
    folder = tmp_path / "spoilt"
    with Session.start(loads(text, "small.yaml"), folder=folder, callbacks=[Spoil(9)]) as session:  # noqa: SIM117
        with pytest.raises(CompileError) as caught:
            session.train()
    text = str(caught.value)
    assert (
        text.startswith("step 12, on the training samples [")
        and "differs from the ordinary one in a gradient (" in text
    )
    assert " of 1.weight; " in text or " of 1.bias; " in text or " of 2." in text or " of 5." in text
    verified = folder / "checkpoints" / "step-00000008.safetensors"
    assert caught.value.__notes__ == [
        f"kept, verified: {verified}; a resumed run starts there\nreport: {folder / 'compile-difference.txt'}"
    ]
    report = (folder / "compile-difference.txt").read_text()
    assert report.startswith(text) and '"verified": 8' in report and "def run(" in report
    assert failure(caught.value, [])[1] == 1
    with Session.resume(folder, overrides=[OFF], callbacks=[Spoil(0)]) as session:
        assert session.saved.meta["step"] == 8
        assert session.train().reason == "done"
    found = outcome(folder)
    assert {k: v for k, v in found.items() if k in ("last", "metrics")} == {
        k: v for k, v in expected.items() if k in ("last", "metrics")
    }


class SpoilStage(Callback):
    """Lets the recordings of a stage give something else after a step."""

    def __init__(self, name: str, step: int) -> None:
        self.name, self.step = name, step

    def on_step(self, event: StepDone, parts: Any) -> None:
        compiled = parts.computation(parts.model).compiled.get(self.name)
        for each in [one for of_kind in compiled.recordings.values() for one in of_kind] if compiled else ():
            if event.step >= self.step and each.recording is not None and each.recording.verified:
                each.recording.native.disabled = True
                each.recording.forward = each.recording.native.otherwise = self.spoilt(each.recording.forward)

    def spoilt(self, stage: Any) -> Any:
        def run(*arrays: Any) -> Any:
            before = [a.copy() for a in arrays]
            found = stage(*arrays)
            for a, old in zip(arrays, before, strict=True):
                if a.dtype.kind == "f" and a.tobytes() != old.tobytes():
                    a += 1e-3
            return found

        return run


@pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="portable code takes no steps in stages")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("gradients", "accumulate: 2"),
        ("update", "accumulate: 2"),
        ("unscaling", "amp: float16"),
        ("update", "amp: float16"),
        ("gradients", "shards: 2"),
        ("update", "shards: 2, clip_grad_norm: 0.1"),
    ],
)
def test_a_stage_that_differs_ends_the_run_at_the_last_verified_checkpoint(tmp_path, often, name: str, settings: str):
    text = CONFIG % (0, STEP_RULE, f"steps: 24, {settings}")
    text = text.replace("every: 2 steps, keep: 2", "every: 1 step, keep: 1")
    folder = tmp_path / "spoilt"
    with Session.start(
        loads(text, "small.yaml"), folder=folder, callbacks=[SpoilStage(name, 17)]
    ) as session, pytest.raises(CompileError) as caught:  # fmt: skip
        session.train()
    where = "on the training samples [" if name == "gradients" else "after its gradients"
    assert str(caught.value).startswith(f"step 20, {where}")
    verified = folder / "checkpoints" / "step-00000016.safetensors"
    assert caught.value.__notes__[0].startswith(f"kept, verified: {verified}")


def test_a_difference_before_any_checkpoint_keeps_none(tmp_path, often):
    text = CONFIG % (0, STEP_RULE, "steps: 20")
    with Session.start(
        loads(text.replace("every: 2 steps, keep: 2", "every: 9 steps"), "small.yaml"),
        folder=tmp_path / "run",
        callbacks=[Spoil(3)],
    ) as session, pytest.raises(CompileError) as caught:  # fmt: skip
        session.train()
    assert caught.value.__notes__[0].startswith("no checkpoint is verified: start the run again")


def test_an_evaluation_that_differs_ends_it(tmp_path, often):
    parts = build(loads(CONFIG % (0, STEP_RULE, "steps: 20"), "small.yaml", ["data.loader.batch_size=20"]))
    evaluate(parts, "valid")
    (of_kind, *_) = parts.computation(parts.model).compiled["losses"].recordings.values()
    forward = of_kind[0].recording.native

    def spoilt(*arrays):
        return tuple(a + 1 for a in forward(*arrays)[0]), (), None

    spoilt.is_small = False
    of_kind[0].recording.native = spoilt
    with pytest.raises(CompileError, match=r"the evaluation of data.valid, at its sample \d+: compiled, it differs"):
        evaluate(parts, "valid")


def test_a_comparison_changes_nothing(tmp_path, often):
    text = (CONFIG % (0, *FEATURES["everything with ema"])).replace("steps: 11", "steps: 24")
    assert both(text, tmp_path) >= 1


def test_the_newest_checked_checkpoint_stays(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints", keep=2, checked=10)
    remaining = []
    for step in range(3, 34, 3):
        store.save(step, {}, {"step": step})
        remaining.append(store.steps())
    assert (
        remaining[-1] == [30, 33]
        and remaining[-2] == [27, 30]
        and remaining[-3] == [18, 24, 27]
        and remaining[2] == [6, 9]
    )
    assert store.go_back(29) is None and checkpoint.load_meta(store.resolve())["step"] == 33
    assert store.go_back(32) == store.path(30)
    assert checkpoint.load_meta(store.resolve())["step"] == 30
