"""`train.overfit`: use a few fixed batches as every split. A model that cannot overfit them has a bug."""

from __future__ import annotations

import dataclasses

from tdt.train.config import Config
from tdt.train.data.loading import Split
from tdt.utils.data import Subset


def few_batches(opened: dict[str, Split], config: Config) -> dict[str, Split]:
    """Replace every split by the same `train.overfit` batches: samples spread over the training data, not augmented."""
    if config.train.overfit is None or "train" not in opened:
        return opened
    split = opened["train"]
    samples = len(split.dataset)
    size = min(samples, config.train.overfit * config.data.loader.batch_size)
    few = Subset(split.dataset, [i * samples // size for i in range(size)])
    return {name: dataclasses.replace(split, dataset=few, random=[]) for name in opened}
