"""A program of one or several processes: trains small networks with four shards and prints hashes of all that must not differ.

mpirun -n 2 python -m tests.mpi.shards FOLDER
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import tdt
from tdt.train._ranks import Ranks
from tdt.train.config import loads
from tdt.train.errors import NonFiniteLoss
from tdt.train.logging.events import Events
from tdt.train.loop import shard_sums
from tdt.train.loop.build import build
from tdt.train.loop.state import pack
from tdt.train.loop.trainer import Trainer
from tdt.train.runs.checkpoint import CheckpointStore

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
log: {every: 3 steps}
checkpoint: {every: 7 steps}
"""
VARIANTS = {
    "plain": [],
    "workers": ["data.loader.num_workers=2"],
    "accumulate": ["train.accumulate=2", "train.ema=0.9", "data.loader.batch_size=90"],
    "weights": ["train.mixup=0.4", "train.class_weights=balanced", "data.loader.drop_last=true", "train.amp=float16"],
    "diverging": ["data.loader.shuffle=false"],
    "few": ["model=[Flatten, Dropout(0.5), 'Linear(64, 10)']", "train.steps=6", "data.loader.batch_size=359"],
}


def main(folder: str, *names: str) -> None:
    ranks = Ranks.of_launch()
    tdt.set_num_threads(1)
    shard_sums.BUCKET = 4096  # bytes; several buckets
    found = {}
    for name in names or [name for name in VARIANTS if name != "diverging"]:
        parts = build(loads(CNN, "cnn.yaml", VARIANTS[name]), ranks=ranks)
        store = CheckpointStore(Path(folder, name)) if ranks.first else None
        events, received = Events(), hashlib.sha256()

        def on_event(event: Any, received: Any = received) -> None:
            scalars = {
                key: value for key, value in getattr(event, "scalars", {}).items() if not key.startswith("time/")
            }
            received.update(repr((type(event).__name__, event.step, getattr(event, "samples", 0), scalars)).encode())

        events.subscribe(on_event)
        trainer = Trainer(parts, events, store, {})
        if name == "diverging":
            parts.model.register_forward_hook(lambda _, x, out, t=trainer: out / (t.train_step.place[1] != 2))
        try:
            trainer.fit()
        except NonFiniteLoss as error:
            found[name] = f"{type(error).__name__}: {error}"
            continue
        tensors, _ = pack(trainer)
        state = hashlib.sha256()
        for key, array in sorted(tensors.items()):
            if not key.startswith(("loader/", "metrics/")):  # those of rank 0 alone are complete
                state.update(key.encode() + np.ascontiguousarray(array).tobytes())
        found[name] = [state.hexdigest(), received.hexdigest()]
    every = ranks.exchange(found)
    if ranks.first:
        assert all(one == found for one in every), every
        print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
