"""A program of one or several processes: trains small networks with four shards and prints hashes of all that must not differ.

mpirun -n 2 python -m tests.mpi.shards FOLDER
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tdt
from tdt._compiled import native
from tdt.train._ranks import Ranks
from tdt.train.config import loads, registry
from tdt.train.errors import CompileError, NonFiniteLoss
from tdt.train.logging.events import Events, has_histograms
from tdt.train.loop import shard_sums, train_step
from tdt.train.loop.build import build
from tdt.train.loop.parts import Parts
from tdt.train.loop.state import pack, pack_optimizer
from tdt.train.loop.trainer import Trainer
from tdt.train.runs.checkpoint import CheckpointStore
from tdt.utils.data import IterableDataset
from tdt.vision.datasets import Digits


class RandomDigits(IterableDataset[Any]):
    """Digits without an end, drawn at random."""

    def __iter__(self) -> Iterator[Any]:
        digits = Digits("train")
        while True:
            yield digits[random.randrange(len(digits))]


registry.datasets.register("RandomDigits", RandomDigits)
CNN = """
data:
  train: Digits(split=train)
  valid: Digits(split=valid)
  transform: [ToTensor]
  augment: ["RandomCrop(8, padding=1)"]
  loader: {batch_size: 100, shuffle: true}
  eval_loader: {batch_size: 70}
model: ["Conv2d(1, 4, 3)", BatchNorm2d(4), ReLU, Flatten, Dropout(0.3), "Linear(144, 40)", ReLU, "Linear(40, 10)"]
loss: CrossEntropyLoss
metrics: [accuracy, auroc]
optimizer: Adam(lr=0.01)
train: {steps: 20, shards: 4, clip_grad_norm: 1.0}
log: {every: 3 steps, histograms: 5 steps}
checkpoint: {every: 7 steps}
"""
VARIANTS = {
    "plain": [],
    "workers": ["data.loader.num_workers=2"],
    "accumulate": ["train.accumulate=2", "train.ema=0.9", "data.loader.batch_size=90"],
    "weights": ["train.mixup=0.4", "train.class_weights=balanced", "data.loader.drop_last=true", "train.amp=float16"],
    "stream": [
        "data.train=RandomDigits",
        "data.loader={batch_size: 60, samples: 200, num_workers: 2}",
        "train.steps=9",
    ],
    "diverging": ["data.loader.shuffle=false"],
    "rounded": ["train.reduce_dtype=bfloat16", "train.steps=9"],
    "synchronized": [
        "model.1=SyncBatchNorm(4)",
        "train.accumulate=2",
        "data.loader.batch_size=89",
        "train.mixup=0.4",
        "train.steps=7",
    ],
    "few": ["model=[Flatten, Dropout(0.5), 'Linear(64, 10)']", "train.steps=6", "data.loader.batch_size=359"],
}
SHARDED = {
    f"{name}, sharded": [*settings, "train.shard_optimizer=true"]
    for name, settings in VARIANTS.items()
    if name in ("accumulate", "weights", "rounded")
}
GPU = [
    "device=cuda",
    "train.steps=3",
    "data.loader.batch_size=40",
    "data.valid=null",
    "data.eval_loader=null",
    "metrics=[]",
]
GPUS = {  # with CuPy, or the stand-in for it
    "gpu": GPU,
    "gpu, sharded": [*GPU, "train.shard_optimizer=true"],
    "gpu, rounded": [*GPU, "train.reduce_dtype=bfloat16"],
    "gpu, synchronized": [*GPU, "train.sync_batchnorm=true"],
}
SHORT = [
    "train.steps=2",
    "train.clip_grad_value=0.1",
    "train.warmup=2 steps",
    "log.every=1 step",
    "log.histograms=null",
]
OPTIMIZERS = {
    name: [*SHORT, f"optimizer={name}(lr=0.01)", "train.freeze=5.*"]
    for name in registry.optimizers.names()
    if name not in ("SparseAdam", "Muon")
} | {
    "Muon": [
        *SHORT,
        "model=[Flatten, Dropout(0.5), 'Linear(64, 8, bias=false)', 'Linear(8, 10, bias=false)']",
        "optimizer=Muon",
    ],
    "groups": [*SHORT, "optimizer={type: AdamW, param_groups: [{params: '*.bias', weight_decay: 0.0, lr: 0.1}]}"],
}


STAGED = [
    "train.steps=24",
    "log.every=5 steps",
    "data.augment=[]",
]  # so many that stages are compiled, and run on tapes
COMPILED = {
    "stages": STAGED,
    "stages, sharded": [*STAGED, "train.shard_optimizer=true", "train.clip_grad_value=0.01"],
    "stages of batches": [*STAGED, "train.accumulate=2", "train.mixup=0.4", "train.class_weights=balanced"],
    "stages of float16, sharded": [*STAGED, "train.amp=float16", "train.shard_optimizer=true"],
    "stages, rounded": [*STAGED, "train.reduce_dtype=bfloat16"],
    "stages that ranks need at other times": [*STAGED, "data.loader.batch_size=25", "train.clip_grad_norm=null"],
}


def main(folder: str, *names: str) -> None:
    ranks = Ranks.of_launch()
    tdt.set_num_threads(1)
    shard_sums.BUCKET = 4096  # bytes; several buckets
    found: dict[str, Any] = {}
    if names == ("differing",):
        found["differing"] = differing(ranks, Path(folder, "differing"))
    elif names == ("compiled",):
        native.WAITED = 1 << 40  # stages are tried at once
        for name, settings in COMPILED.items():
            plain, own = (train(ranks, Path(folder, name + compile), [*settings, f"train.compile={compile}"])
                          for compile in ("false", "auto"))  # fmt: skip
            assert plain == own, name
            found[name] = own
    elif names == ("optimizers",):
        for name, settings in OPTIMIZERS.items():
            plain, sharded = (train(ranks, Path(folder, name + more), [*settings, f"train.shard_optimizer={more}"])
                              for more in ("false", "true"))  # fmt: skip
            assert plain == sharded, name
            found[name] = plain
    else:
        every = VARIANTS | SHARDED | GPUS
        names = tuple(GPUS) if names == ("gpus",) else names
        for name in names or [name for name in every if name != "diverging" and name not in GPUS]:
            found[name] = train(ranks, Path(folder, name), every[name], name == "diverging")
    every_rank = ranks.exchange(found)
    if ranks.first:
        assert all(one == found for one in every_rank), every_rank
        print(json.dumps(found))


def train(ranks: Ranks, folder: Path, settings: list[str], diverging: bool = False) -> Any:
    """Train a network. Returns hashes of its state and of its events, or the error that has ended the training."""
    parts = build(loads(CNN, "cnn.yaml", settings), ranks=ranks)
    ranks.connect(parts.device)
    store = CheckpointStore(folder) if ranks.first else None
    events, received = Events(), hashlib.sha256()

    def on_event(event: Any) -> None:
        scalars = {key: value for key, value in getattr(event, "scalars", {}).items() if not key.startswith("time/")}
        received.update(repr((type(event).__name__, event.step, getattr(event, "samples", 0), scalars)).encode())
        if has_histograms(parts.config.log.histograms, event):
            for p in parts.model.parameters():
                received.update(b"none" if p.grad is None else p.grad.numpy().tobytes())

    events.subscribe(on_event)
    trainer = Trainer(parts, events, store, {})
    if diverging:
        parts.model.register_forward_hook(lambda _, x, out: out / (trainer.train_step.place[1] != 2))
    try:
        trainer.fit()
    except NonFiniteLoss as error:
        return f"{type(error).__name__}: {error}"
    if "train.steps=24" in settings and "train.compile=auto" in settings and native.SWITCHES.kernels:
        check_stages(trainer)
    optimizer = pack_optimizer(parts)
    if parts.owners is not None:
        check_memory(parts, ranks)
        optimizer = ranks.from_first(optimizer)
    state = hashlib.sha256()
    for key, array in sorted(pack(trainer, optimizer)[0].items()):
        if not key.startswith(("loader/", "metrics/")):  # those of rank 0 alone are complete
            state.update(key.encode() + np.ascontiguousarray(array).tobytes())
    return [state.hexdigest(), received.hexdigest()]


def check_stages(trainer: Trainer) -> None:
    """The steps ran in stages, all that compute by kernels on tapes; no hooks sent the gradients."""
    split = trainer.train_step.split
    assert split is not None and not any(compiled.refusals for compiled in split.compiled.values())
    names = ["gradients", "update"]
    names += ["unscaling"] if trainer.train.amp == "float16" else []
    names += ["norms"] if trainer.parts.owners is not None else []
    for name in names:
        recordings = [each.recording for some in split.compiled[name].recordings.values() for each in some]
        assert any(one is not None and one.verified for one in recordings), name
        assert any(one is not None and one.native.steps for one in recordings) or name == "norms", name
    assert not any(p._post_hooks for p in trainer.parts.model.parameters())


def differing(ranks: Ranks, folder: Path) -> str:
    """The error of a run in which one rank's compiled update gives other weights after step 17, which step 20 compares."""
    native.WAITED = 1 << 40
    train_step.CHECK_EVERY = 4
    parts = build(loads(CNN, "cnn.yaml", [*STAGED, "train.shard_optimizer=true"]), ranks=ranks)
    events = Events()
    trainer = Trainer(parts, events, CheckpointStore(folder) if ranks.first else None, {})

    def on_event(event: Any) -> None:
        if ranks.rank != 1 or event.step != 17 or trainer.train_step.split is None:
            return
        for of_kind in trainer.train_step.split.compiled["update"].recordings.values():
            recording: Any = of_kind[0].recording
            recording.native.disabled, update = True, recording.native.otherwise
            recording.forward = recording.native.otherwise = lambda *arrays: spoilt(update, arrays)  # noqa: B023

    def spoilt(update: Any, arrays: Any) -> Any:
        before = [a.copy() for a in arrays]
        found = update(*arrays)
        for a, old in zip(arrays, before, strict=True):
            if a.dtype == np.float32 and a.tobytes() != old.tobytes():
                a += 1e-3
        return found

    events.subscribe(on_event)
    try:
        trainer.fit()
    except CompileError as error:
        return f"step {trainer.step}: {error}"
    return "none"


def check_memory(parts: Parts, ranks: Ranks) -> None:
    """Each parameter has state on one rank, and no rank has much more than its part of it."""
    held = ranks.exchange({name: p.numel() for name, p in parts.model.named_parameters() if p in parts.optimizer.state})
    names = [name for one in held for name in one]
    assert len(names) == len(set(names)), held
    bytes_held = [sum(one.values()) for one in held]
    largest = max(p.numel() for p in parts.model.parameters())
    assert max(bytes_held) <= max(largest, sum(bytes_held) / ranks.size * 1.5), bytes_held


if __name__ == "__main__":
    main(*sys.argv[1:])
