"""Datasets of a config that are streams: same samples for any workers and ranks, resumed inside an epoch."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdt
from tdt.train.config import ConfigError, imports, load
from tdt.train.data.loading import batch_indices
from tdt.train.data.stream import AHEAD, Stream
from tdt.train.loop.build import build
from tdt.train.runs import checkpoint
from tdt.train.session import Session
from tdt.utils.data import DataLoader, IterableDataset
from tests.commands.running import tdt as run_tdt

CODE = """
import random
import numpy
from tdt import randn
from tdt.utils.data import IterableDataset, get_worker_info


class Waves(IterableDataset):
    classes = ["low", "middle", "high"]

    def __init__(self, count: int = 100):
        self.count = count

    def __iter__(self):
        assert get_worker_info() is None
        for _ in range(self.count):
            label = random.randrange(3)
            yield randn(8) + label + float(numpy.random.normal()), label


class Counted(Waves):
    def __len__(self):
        return self.count
"""
CONFIG = """\
name: stream
seed: 3
device: cpu
imports: [streams.py]
data:
  train: Counted(100)
  valid: Counted(30)
  loader: {batch_size: 16}
model: ["Linear(8, 16)", ReLU, Dropout(0.1), "Linear(16, 3)"]
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: Adam(lr=0.01)
train: {epochs: 3}
checkpoint: {every: 4 steps}
"""
WORKERS = "data.loader.num_workers=2"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config beside its Python file; trusted."""
    monkeypatch.setattr(imports, "_allowed", True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "streams.py").write_text(CODE)
    (tmp_path / "c.yaml").write_text(CONFIG)
    return tmp_path / "c.yaml"


def trained(config: Path, folder: str, *overrides: str) -> dict[str, bytes]:
    with Session.start(load(config, overrides), folder=folder) as session:
        session.train()
    return weights(folder)


def weights(folder: str) -> dict[str, bytes]:
    tensors, _ = checkpoint.load(Path(folder, "checkpoints", "last.safetensors"))
    return {name: array.tobytes() for name, array in tensors.items() if name.startswith(("model/", "optimizer/"))}


class Draws(IterableDataset):
    """Numbers of the three generators, without an end; begun: how often it was iterated."""

    begun = 0

    def __iter__(self) -> Iterator[tuple[float, float, float]]:
        self.begun += 1
        while True:
            yield random.random(), float(np.random.rand()), tdt.rand(()).item()


def test_samples_depend_on_seed_and_epoch_and_position_alone():
    one, other = Stream(Draws(), 50, seed=1), Stream(Draws(), 50, seed=1)
    expected = [one[i] for i in range(100)]
    assert len(set(expected)) == 100, "the second epoch is another one"
    tdt.manual_seed(9)
    before, outside = tdt.rand(1), random.random()
    assert [other[i] for i in (3, 40, 99, 98, 3, 3, 4)] == [expected[i] for i in (3, 40, 99, 98, 3, 3, 4)]
    assert other.stream.begun == 4
    tdt.manual_seed(9)
    assert tdt.rand(1).equal(before) and random.random() != outside
    assert Stream(Draws(), 50, seed=2)[0] != expected[0]


def test_a_stream_leaves_the_generators_of_the_process_as_they_are():
    stream = Stream(Draws(), 50, seed=1)
    states = random.getstate(), tdt.get_rng_state(), np.random.get_state()[1].copy()
    stream[30]
    assert random.getstate() == states[0] and tdt.get_rng_state().equal(states[1])
    np.testing.assert_array_equal(np.random.get_state()[1], states[2])


def test_an_exception_comes_after_the_samples_before_it():
    class Breaks(IterableDataset):
        def __iter__(self) -> Iterator[int]:
            yield from range(AHEAD + 3)
            raise OSError("the line is cut")

    stream = Stream(Breaks(), 100, seed=0)
    assert [stream[i] for i in range(AHEAD + 3)] == list(range(AHEAD + 3))
    with pytest.raises(OSError, match="the line is cut"):
        stream[AHEAD + 3]


def test_a_worker_begins_the_stream_anew_whatever_the_parent_has_read(tmp_path):
    (tmp_path / "numbers.txt").write_text("\n".join(f"{i:6}" for i in range(3000)))

    class Lines(IterableDataset):
        def __iter__(self) -> Iterator[int]:
            with (tmp_path / "numbers.txt").open() as lines:  # forked processes share its position
                yield from map(int, lines)

    stream = Stream(Lines(), 3000, seed=0)
    assert stream[1500] == 1500
    loaded = [int(i) for batch in DataLoader(stream, batch_size=100, num_workers=2) for i in batch]
    assert loaded == list(range(3000)) and stream[1501] == 1501


def test_workers_change_no_bit_and_neither_does_a_resumed_part(config):
    expected = trained(config, "whole")
    assert trained(config, "workers", WORKERS) == expected
    for folder, *overrides in (("alone",), ("resumed", WORKERS)):
        trained(config, folder, "train.steps=10", *overrides)  # inside the second epoch of seven steps
        with Session.resume(folder, overrides=["train.steps=21"]) as session:
            session.train()
        assert weights(folder) == expected


def test_shards_change_no_bit_with_workers(config):
    expected = trained(config, "whole", "train.shards=4", "train.accumulate=2")
    assert trained(config, "workers", "train.shards=4", "train.accumulate=2", WORKERS) == expected


def test_a_run_killed_inside_an_epoch_ends_as_the_one_that_was_not(config):
    expected = trained(config, "whole", WORKERS)
    killed = run_tdt("train", "c.yaml", "--trust", "--run-dir", "killed", WORKERS, cwd=config.parent,
                     TDT_FAULT="train.step:11", OMP_NUM_THREADS=str(tdt.get_num_threads()))  # fmt: skip
    assert killed.returncode < 0
    with Session.resume("killed") as session:
        assert session.saved is not None and session.saved.meta["step"] == 8
        session.train()
    assert weights("killed") == expected


def test_an_endless_stream_needs_the_samples_of_an_epoch(config):
    endless = ["data.train=Waves(1000000000)", "data.valid=Waves(1000000000)"]
    samples = ["data.loader.samples=100", "data.eval_loader={samples: 30}"]
    assert trained(config, "endless", *endless, *samples) == trained(config, "counted")
    text = str(pytest.raises(ConfigError, load_and_build, config, *endless).value)
    assert "c.yaml" not in text and text.count("is an IterableDataset without a length, but epochs are counted in") == 2
    assert "set data.loader.samples, or define __len__" in text
    assert "set data.eval_loader.samples, or define __len__" in text


def load_and_build(config: Path, *overrides: str) -> Any:
    return build(load(config, overrides))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("loader: {batch_size: 16, shuffle: true}", "8:37: data.loader.shuffle: DataLoader with IterableDataset: expected "
         "unspecified shuffle option, but got shuffle=True; let its __iter__ shuffle"),
        ("loader: {batch_size: 16, samples: 50}", "8:37: data.loader.samples: is not used: only an IterableDataset without a "
         "length needs it"),
        ("loader: {batch_size: 16, sampler: balanced}", "8:37: data.loader.sampler: needs the targets of all samples, but "
         "data.train is an IterableDataset"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_a_stream_are_found_at_their_places(config, changed: str, message: str):
    config.write_text(CONFIG.replace("loader: {batch_size: 16}", changed))
    error = pytest.raises(ConfigError, load_and_build, config).value
    assert [text.rpartition("c.yaml:")[2] for text in error.messages] == [message]


def test_class_weights_and_scaled_targets_are_refused(config):
    for override in ("train.class_weights=balanced", "targets={scale: standard}"):
        key = override.partition("=")[0]
        with pytest.raises(ConfigError, match=f"{key}: needs the targets of all samples, but data.train is an Iter"):
            load_and_build(config, override)


def test_a_stream_that_ends_early_names_its_length_and_the_samples(config):
    done = run_tdt("train", "c.yaml", "--trust", "data.train=Waves(40)", "data.loader.samples=60", cwd=config.parent)
    assert done.returncode == 1
    assert "step 3 failed on the training samples [32, 33, 34" in done.stderr
    assert "the stream ended after 40 samples, but an epoch has 60" in done.stderr


def test_a_message_names_samples_by_their_place_in_the_epoch(config):
    loader = build(load(config)).loaders["train"]
    loader.batch_sampler.sampler.epoch = 2
    next(iter(loader))
    assert batch_indices(loader, 0) == list(range(16))


def test_evaluation_and_averaged_weights_read_the_stream(config):
    layers = "model=['Linear(8, 16)', BatchNorm1d(16), 'Linear(16, 3)']"
    trained(config, "averaged", "train.swa=1", layers)
    done = run_tdt("eval", "averaged", "--trust", "--split", "valid", "--json", cwd=config.parent)
    assert done.returncode == 0, done.stderr
    logged = [json.loads(line) for line in Path("averaged/metrics.jsonl").read_text().splitlines()]
    scores = [line["valid/accuracy"] for line in logged if "valid/accuracy" in line]
    assert json.loads(done.stdout)["accuracy"] == max(scores)
