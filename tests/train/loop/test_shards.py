"""`train.shards` in one process: bits, the mean over the global batch, what each shard has of its own, mistakes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tdt
from tdt._kernels._formulas import BFLOAT16
from tdt.distributed._communicator import tree_reduce
from tdt.train._ranks import Ranks
from tdt.train.config import ConfigError, loads
from tdt.train.errors import StepError, Stopped
from tdt.train.logging.events import Events
from tdt.train.loop.build import build
from tdt.train.loop.shard_sums import BufferMean, GradientSum, rounded_sum
from tdt.train.loop.trainer import Trainer
from tdt.train.runs.checkpoint import CheckpointStore, load
from tests.helpers import require_torch

NORMED = '["Conv2d(1, 4, 3)", BatchNorm2d(4), ReLU, Flatten, Dropout(0.3), "Linear(144, 10)"]'
ROWS = '[Flatten, "BatchNorm1d(64)", "Linear(64, 10)"]'
PLAIN = '[Flatten, "Linear(64, 20)", Tanh, "Linear(20, 10)"]'
TEXT = """
data:
  train: Digits(split=train)
  valid: Digits(split=valid)
  transform: [ToTensor]
  loader: {{batch_size: 100, shuffle: true}}
model: {model}
loss: {{type: CrossEntropyLoss, ignore_index: 3}}
metrics: [accuracy]
optimizer: {{type: SGD, lr: 0.1, momentum: 0.9}}
train: {{steps: 18, shards: 4}}
"""
AUGMENTED = ["data.augment=['RandomCrop(8, padding=1)']", "train.accumulate=2", "train.steps=9"]


def trainer(folder, *overrides, model=PLAIN, check_stop=lambda: None):
    parts = build(loads(TEXT.format(model=model), "x.yaml", list(overrides)), ranks=Ranks.alone())
    return Trainer(parts, Events(), CheckpointStore(folder), {}, check_stop)


def state_of(built):
    return {name: value.numpy().copy() for name, value in built.parts.model.state_dict().items()}


def trained(folder, *overrides, model=PLAIN):
    built = trainer(folder, *overrides, model=model)
    built.fit()
    return state_of(built)


def assert_equal(a, b):
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name], name)


def test_a_run_has_the_same_bits_again_and_with_any_number_of_workers(tmp_path):
    first = trained(tmp_path / "a", *AUGMENTED, model=NORMED)
    assert_equal(trained(tmp_path / "b", *AUGMENTED, model=NORMED), first)
    assert_equal(trained(tmp_path / "c", *AUGMENTED, "data.loader.num_workers=2", model=NORMED), first)


def of_workers(workers):
    """A run whose training batches are loaded by workers."""
    return [*AUGMENTED, f"data.loader.num_workers={workers}", "data.eval_loader={num_workers: 0}", "train.mixup=0.4"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("whole"), *of_workers(0), model=NORMED)


@pytest.mark.parametrize(("workers", "then"), [(0, 0), (2, 2), (0, 2), (3, 1), (2, 0)])
def test_a_stopped_run_resumes_to_the_same_bits_with_any_number_of_workers(workers, then, whole, tmp_path):
    folder = tmp_path / "stopped"

    def check_stop():
        if built.step == 4:
            raise Stopped("SIGTERM")

    built = trainer(folder, *of_workers(workers), model=NORMED, check_stop=check_stop)
    with pytest.raises(Stopped):
        built.fit()
    tdt.manual_seed(5)
    again = trainer(folder, *of_workers(then), model=NORMED)
    tensors, meta = load(CheckpointStore(folder).resolve("last"))
    again.resume(tensors, meta)
    again.fit()
    assert_equal(state_of(again), whole)


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["train.accumulate=2", "train.steps=9"],
        ["train.class_weights=balanced", "train.clip_grad_norm=0.5"],
        ["data.loader.batch_size=359"],
        ["loss.reduction=sum", "optimizer.lr=0.0001"],
        ["train.ema=0.9", "train.clip_grad_value=0.01"],
    ],
    ids=["short last batch", "accumulate", "weights", "uneven", "sum", "clip"],
)
def test_without_random_layers_shards_change_rounding_alone(overrides, tmp_path):
    plain = trained(tmp_path / "1", *overrides, "train.shards=null")
    for shards in (3, 4):
        found = trained(tmp_path / str(shards), *overrides, f"train.shards={shards}")
        for name, value in plain.items():
            np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-6, err_msg=name)


def test_a_step_is_pytorchs_over_the_shards(tmp_path):
    torch = require_torch()
    size, shards = 103, 4
    model = NORMED.replace("Dropout(0.3)", "Identity")
    built = trainer(
        tmp_path, "train.steps=1", "data.loader.shuffle=false", f"data.loader.batch_size={size}", model=model
    )
    nn = torch.nn
    theirs = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Identity(), nn.Linear(144, 10)
    )
    theirs.load_state_dict({name: torch.tensor(value) for name, value in state_of(built).items()})
    dataset = built.parts.loaders["train"].dataset.dataset
    x, y = (torch.tensor(side.numpy()) for side in dataset[:size])
    start = {name: value.clone() for name, value in theirs.named_buffers()}
    after = []
    for i in range(shards):
        for name, value in theirs.named_buffers():
            value.copy_(start[name])
        part = slice(size * i // shards, size * (i + 1) // shards)
        loss = nn.functional.cross_entropy(theirs(x[part]), y[part], ignore_index=3, reduction="sum")
        (loss / (y != 3).sum()).backward()
        after.append({name: value.clone() for name, value in theirs.named_buffers()})
    torch.optim.SGD(theirs.parameters(), 0.1).step()
    expected = dict(theirs.named_parameters())
    for name, value in start.items():
        expected[name] = torch.stack([one[name] for one in after]).mean(0) if value.is_floating_point() else value + 1
    built.fit()
    for name, value in state_of(built).items():
        np.testing.assert_allclose(value, expected[name].detach().numpy(), rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_shard_whose_targets_are_all_ignored_adds_nothing(tmp_path):
    built = trainer(tmp_path, "train.steps=1", "data.loader.batch_size=8", "data.loader.shuffle=false")
    targets = built.parts.loaders["train"].dataset.dataset.tensors[1]
    targets[:2] = 3
    alone = trainer(
        tmp_path / "b", "train.steps=1", "data.loader.batch_size=8", "data.loader.shuffle=false", "train.shards=1"
    )
    alone.parts.loaders["train"].dataset.tensors[1][:2] = 3
    built.fit()
    alone.fit()
    for name, value in state_of(alone).items():
        np.testing.assert_allclose(state_of(built)[name], value, rtol=1e-5, atol=1e-6)


def test_shards_have_dropout_of_their_own(tmp_path):
    built = trainer(tmp_path, "train.steps=1", "train.accumulate=2", model=NORMED)
    masks = []
    built.parts.model[4].register_forward_hook(lambda _, x, out: masks.append((out == 0).numpy()[:20, :20].tobytes()))
    built.parts.model[4].eval = lambda: None
    built.fit()
    assert len(set(masks[:8])) == 8


SYNCHRONIZED = '["Conv2d(1, 4, 3)", BatchNorm2d(4), ReLU, Flatten, "Linear(144, 10)", "BatchNorm1d(10)"]'


@pytest.mark.parametrize("overrides", [[], ["train.accumulate=2", "data.loader.batch_size=89", "train.steps=9"]])
def test_synchronised_batch_norm_has_the_statistics_of_the_whole_batch(tmp_path, overrides):
    whole = trained(tmp_path / "a", "train.shards=1", *overrides, model=SYNCHRONIZED)
    cut = trained(tmp_path / "b", "train.sync_batchnorm=true", *overrides, model=SYNCHRONIZED)
    for name, value in whole.items():
        np.testing.assert_allclose(cut[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    again = trained(tmp_path / "c", "train.sync_batchnorm=true", *overrides, model=SYNCHRONIZED)
    assert_equal(cut, again)


def test_synchronised_shards_keep_their_random_numbers_apart(tmp_path):
    """Dropout before, between and after the layers draws what it draws where the shards are computed one after the other."""
    model = '["Dropout(0.5)", {}, Flatten, "Dropout(0.5)", "BatchNorm1d(64)", "Dropout(0.5)", "Linear(64, 10)"]'
    drawn = []
    for run, first in enumerate(("BatchNorm2d(1)", "SyncBatchNorm(1)")):
        built = trainer(tmp_path / str(run), "train.steps=2", model=model.format(first))
        masks = {}
        for name in ("0", "3", "5"):
            layer = built.parts.model.get_submodule(name)
            layer.register_forward_hook(
                lambda layer, x, out, name=name: masks.setdefault((built.step, name, built.train_step.place), [])
                .append((out[0] == 0).numpy().copy()) if layer.training else None
            )  # fmt: skip
        built.fit()
        drawn.append({key: value[-1] for key, value in masks.items()})
    assert len(drawn[0]) >= 24 and drawn[0].keys() == drawn[1].keys()
    for key, mask in drawn[0].items():
        np.testing.assert_array_equal(drawn[1][key], mask)
    assert len({mask.tobytes() for key, mask in drawn[1].items() if key[:2] == (0, "3")}) == 4


def test_a_shard_that_fails_among_synchronised_ones_is_named(tmp_path):
    built = trainer(tmp_path, "data.loader.shuffle=false", "train.sync_batchnorm=true", model=SYNCHRONIZED)

    def fail(layer, x):
        if built.train_step.place[1] == 2 and threading.current_thread() is not threading.main_thread():
            raise ValueError("no more")

    built.parts.model.get_submodule("3").register_forward_pre_hook(fail)
    with pytest.raises(StepError, match=r"step 1 failed on the training samples \[50, 51, 52, .* no more"):
        built.fit()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("shard")]


def test_nan_in_a_sample_is_found_though_synchronised_batch_norm_spreads_it(tmp_path):
    built = trainer(tmp_path, "data.loader.shuffle=false", "train.sync_batchnorm=true", model=SYNCHRONIZED)
    built.parts.loaders["train"].dataset.dataset.tensors[0][60, 0, 0, 0] = float("nan")
    with pytest.raises(StepError, match="the input of sample 60 holds nan"):
        built.fit()


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_sample_that_cannot_be_loaded_is_sought_in_the_whole_batch(accumulate, tmp_path):
    built = trainer(tmp_path, f"train.accumulate={accumulate}", "data.loader.shuffle=false")
    dataset = built.parts.loaders["train"].dataset
    load = dataset._shard

    def fail(epoch, indices):
        if 130 in indices:
            raise ValueError("no such record")
        return load(epoch, indices)

    dataset._shard = fail
    with pytest.raises(
        StepError, match=rf"step {3 - accumulate} failed on the training samples \[100, 101, .* 90 more"
    ):
        built.fit()


def test_shards_that_leave_out_a_synchronised_layer_are_an_error(tmp_path):
    built = trainer(tmp_path, "train.sync_batchnorm=true", model=SYNCHRONIZED)
    layer = built.parts.model.get_submodule("1")
    forward = layer.forward
    layer.forward = lambda x: x if built.train_step.place[1] == 2 else forward(x)
    with pytest.raises(StepError, match="have reached different SyncBatchNorm layers"):
        built.fit()


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 8])
def test_gradients_are_added_up_the_tree_of_the_communicator(count):
    rng = np.random.default_rng(0)
    parts = [
        None if i == 1 else rng.normal(size=100).astype(np.float32) * np.float32(1000.0 ** (i % 3))
        for i in range(count)
    ]
    expected = tree_reduce(parts, lambda a, b: b if a is None else a if b is None else a + b)
    np.testing.assert_array_equal(sum_of_shards(parts), expected)


@pytest.mark.parametrize("values", [(-0.0, 0.0, -0.0), (-0.0, -0.0, -0.0), (2.0, 2.0, 5.0)], ids=str)
def test_buffers_of_shards_are_their_own_and_their_mean_has_the_bits_of_the_sum(values):
    layer = tdt.nn.Module()
    layer.register_buffer("value", tdt.tensor([1.0]))
    mean = BufferMean(layer, Ranks.alone())
    mean.begin(3)
    for turn in range(2):  # each shard is entered twice
        for place, value in enumerate(values):
            mean.enter(place)
            assert layer.value.item() == (value if turn else 1.0)
            layer.value.fill_(value)
            mean.leave(place)
    mean.begin_sums()
    mean.finish(mean.changed, 3)
    expected = ((np.float32(values[0]) + np.float32(values[1])) + np.float32(values[2])) / np.float32(3)
    assert layer.value.numpy().tobytes() == np.array([expected]).tobytes()


def test_with_reduce_dtype_each_gradient_and_each_sum_is_rounded():
    torch = require_torch()
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=1000).astype(np.float32) * np.float32(1000.0 ** (i % 3)) for i in range(8)]
    parts[2][:3], parts[3][:3] = [np.inf, np.nan, 3e38], [1, 1, 3e38]
    level = [torch.from_numpy(part).bfloat16() for part in parts]
    while len(level) > 1:  # torch adds bfloat16 in float32, and rounds the sum
        level = [a + b for a, b in zip(level[::2], level[1::2], strict=True)]
    np.testing.assert_array_equal(sum_of_shards(parts, rounds=True), level[0].float().numpy())
    on_ranks = tree_reduce(np.stack(parts).astype(BFLOAT16), rounded_sum)
    np.testing.assert_array_equal(on_ranks, level[0].float().numpy())


def sum_of_shards(parts, **how):
    parameter = tdt.nn.Parameter(tdt.zeros(next(part for part in parts if part is not None).size))
    total = GradientSum([parameter], Ranks.alone(), **how)
    total.begin()
    for i, part in enumerate(parts):
        total.clear()
        parameter.grad = None if part is None else tdt.tensor(part)
        if i < len(parts) - 1:
            total.push()
    total.complete()
    return parameter.grad.numpy()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data.loader.batch_size=3"], "train.shards: of 4, some have no sample: data.loader.batch_size is 3"),
        (["data.loader.batch_size=5", f"model={ROWS}"],
         "leaves a shard of 1 sample, and 1 (BatchNorm1d(64"),
        (["train.reduce_dtype=bfloat16", "dtype=float64"], "train.reduce_dtype: is not used: with dtype: float64 gradients"),
        (["train.reduce_dtype=float16"], "train.reduce_dtype"),
        (["train.shard_optimizer=some"], "train.shard_optimizer"),
        (["train.sync_batchnorm=true"], "train.sync_batchnorm: is not used: the model has no batch norm"),
    ],
)  # fmt: skip
def test_mistakes_are_reported(overrides, message):
    with pytest.raises(ConfigError) as caught:
        build(loads(TEXT.format(model=PLAIN), "x.yaml", overrides), ranks=Ranks.alone())
    assert message in str(caught.value)


def test_another_number_of_processes_is_refused_with_those_that_work():
    ranks = Ranks.alone()
    ranks.size = 3
    with pytest.raises(ConfigError, match="4 shards cannot be computed by 3 processes; start 1 or 2 or 4"):
        build(loads(TEXT.format(model=PLAIN), "x.yaml"), ranks=ranks)
