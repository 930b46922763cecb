"""Datasets and loaders from the `data` section: steps that are the same every time are applied once, to all samples."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

import tdt
from tdt.train import registry
from tdt.train._failures import REFUSALS, reason
from tdt.train.config import Component, ConfigErrors, DataConfig, Loader
from tdt.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    get_worker_info,
)
from tdt.vision.transforms import Compose


@dataclasses.dataclass
class Split:
    """A dataset as it is stored, the random steps (training only) and the fixed ones that its samples go through."""

    dataset: Any
    random: list[Any]
    fixed: list[Any]
    component: Component

    def sample(self) -> tuple[Any, Any]:
        """The first sample, prepared; what the random steps draw for it is drawn from a generator of its own."""
        steps = Compose([*self.random, *self.fixed])
        steps.draw_from(tdt.Generator())
        inputs, target = self.dataset[0]
        return (steps(inputs) if steps.transforms else inputs), target

    def facts(self) -> dict[str, Any]:
        """What a checkpoint keeps of the data, as JSON can hold it, so that the model is of use without them.

        classes: their names. item: an input as the data set gives it, an image's mode or an array's shape and dtype.
        input: the same of what the model gets. state: what the data set has learnt from its training rows.
        """
        inputs, prepared = self.dataset[0][0], self.sample()[0]
        state = getattr(self.dataset, "state_dict", None)
        return {
            "classes": [str(name) for name in getattr(self.dataset, "classes", ())],
            "item": {"mode": inputs.mode} if hasattr(inputs, "mode") else _form(inputs),
            "input": _form(prepared),
            "state": state() if state else None,
        }


def _form(value: Any) -> dict[str, Any]:
    array = value._a if isinstance(value, tdt.Tensor) else np.asarray(value)
    return {"shape": list(array.shape), "dtype": array.dtype.name}


class Augmented(Dataset):
    """A dataset whose samples change each time they are read: random steps first, then the fixed ones.

    The random steps draw from `generator`; in a worker process from the worker's own default generator.
    """

    def __init__(self, dataset: Any, steps: Compose, generator: tdt.Generator):
        self.dataset, self.steps, self.generator = dataset, steps, generator

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        inputs, target = self.dataset[index]
        self._choose_generator()
        return self.steps(inputs), target

    def __getbatch__(self, indices: list[int]) -> Any:
        """The samples at `indices` as one batch; None where the dataset has no `batch`, or a step takes one image only."""
        if not hasattr(self.dataset, "batch"):
            return None
        self._choose_generator()
        inputs, targets = self.dataset.batch(indices)
        return [self.steps.batch(inputs.numpy()), targets]

    def _choose_generator(self) -> None:
        self.steps.draw_from(self.generator if get_worker_info() is None else None)


class RecentBatches(BatchSampler):
    """A BatchSampler that remembers the last index lists it gave, `ahead` more than were asked for one at a time."""

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool, ahead: int):
        super().__init__(sampler, batch_size, drop_last)
        self.recent: deque[list[int]] = deque(maxlen=ahead + 1)

    def __iter__(self) -> Iterator[list[int]]:
        for indices in super().__iter__():
            self.recent.append(indices)
            yield indices


def open_splits(data: DataConfig, errors: ConfigErrors) -> dict[str, Split]:
    """The splits that could be opened; what is wrong with others is added to `errors`."""
    fixed, random = _steps(data.transform, errors), _steps(data.augment, errors)
    opened = {}
    for name, component in data.splits().items():
        try:
            dataset = registry.datasets.create(component)
        except REFUSALS as error:
            errors.add(component, reason(error))
            continue
        before = random if name == "train" else []
        split = Split(dataset, [step for _, step in before], [step for _, step in fixed], component)
        if not len(dataset):
            errors.add(component, "has no samples")
        elif name != "train" or _first_passes(split, [*before, *fixed], errors):
            opened[name] = split
    return opened


def _steps(components: tuple[Component, ...], errors: ConfigErrors) -> list[tuple[Component, Any]]:
    """The steps that could be made, each with what declares it."""
    made = []
    for component in components:
        try:
            made.append((component, registry.transforms.create(component)))
        except REFUSALS as error:
            errors.add(component, reason(error))
    return made


def _first_passes(split: Split, steps: list[tuple[Component, Any]], errors: ConfigErrors) -> bool:
    """Whether the first sample comes through the steps as a tensor; else the refusal is reported where it arose."""
    at_work = split.component
    try:
        inputs, _ = split.dataset[0]
        for component, step in steps:
            at_work, alone = component, Compose([step])
            alone.draw_from(tdt.Generator())
            inputs = alone(inputs)
    except REFUSALS as error:
        errors.add(at_work, reason(error))
        return False
    if not isinstance(inputs, tdt.Tensor):
        errors.add("data.transform", f"samples are {type(inputs).__name__}, no tensors; add ToTensor")
        return False
    return True


def make_loader(
    split: Split, settings: Loader, order: tdt.Generator | None = None, augment: tdt.Generator | None = None
) -> DataLoader:
    """Batches of a split. order: draws the order of a shuffled one; augment: what its random steps draw from."""
    if split.random:
        assert augment is not None
        dataset: Any = Augmented(split.dataset, Compose([*split.random, *split.fixed]), augment)
    else:
        dataset = _prepared(split)
    options = settings.model_dump(exclude_none=True)
    size, drop_last, shuffle = (options.pop(name) for name in ("batch_size", "drop_last", "shuffle"))
    sampler = RandomSampler(dataset, generator=order) if shuffle else SequentialSampler(dataset)
    ahead = settings.num_workers * (settings.prefetch_factor or 2)
    batches = RecentBatches(sampler, size, drop_last, ahead)
    return DataLoader(dataset, batch_sampler=batches, generator=order, **options)


def batch_indices(loader: DataLoader, number: int) -> list[int]:
    """The indices of the samples in batch `number` of the epoch under way, from 0: the newest delivered or a later one.

    Empty for a batch that was not asked for yet.
    """
    epoch, batches = loader.state_dict()["epoch"], loader.batch_sampler
    assert isinstance(batches, RecentBatches)
    ahead = number - (epoch["drawn"] if epoch else 0)
    return [int(i) for i in batches.recent[ahead]] if -len(batches.recent) <= ahead < 0 else []


def _prepared(split: Split) -> TensorDataset:
    """All samples, through the fixed steps, as tensors."""
    steps = Compose(split.fixed)
    if hasattr(split.dataset, "batch"):
        inputs, targets = split.dataset.batch(slice(None))
        return TensorDataset(steps.batch(inputs.numpy()) if steps.transforms else inputs, targets)
    pairs = [_read(split.dataset, i, steps) for i in range(len(split.dataset))]
    inputs, targets = tdt.utils.data.default_collate(pairs)
    return TensorDataset(inputs, targets)


def _read(dataset: Any, index: int, steps: Compose) -> tuple[Any, Any]:
    try:
        inputs, target = dataset[index]
        return (steps(inputs) if steps.transforms else inputs), target
    except REFUSALS as error:
        raise ValueError(f"sample {index}: {reason(error)}") from error
