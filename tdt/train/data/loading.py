"""Datasets and loaders from the `data` section. Deterministic transforms run once, when the data are loaded.

A sample is (input, target); with several inputs (a, b, target), ({"a": …, "b": …}, target), or a dict of them with the key
`target`. In addition to the methods of `Dataset`, a dataset may have

    batch(indices)         the samples at `indices` at once, inputs and targets
    classes                the names of its classes; of several targets a mapping of these by target
    state_dict()           what was fitted to the training rows (means, a vocabulary), in JSON types;
    load_state_dict(state) the other splits of a run, and its checkpoints, use that state
    fitted(state, …)       class method: like the constructor and load_state_dict, where that is done faster
    restored(state, …)     class method: like the constructor, with this state and without the files
    source_files()         the paths of the files that its samples come from; a resumed run detects changes in them
    has_masks              True: targets are masks, as `ImageMasks` returns; transforms that move pixels move them too
    check_files()          a line for each of its files that cannot be read
    notes()                how many samples it leaves out or values it replaces, a line of text for each kind
    blank(…)               class method: like the constructor, without the files: zeros
    sample_name(index)     where a sample comes from, for messages: "line 7 of pets.csv"
    missing_files()        of a `blank` dataset: a FileNotFoundError that says which files to put where, or None
"""

from __future__ import annotations

import dataclasses
import pickle
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

import tdt
from tdt.autograd._meta import stand_in
from tdt.train._ranks import Ranks
from tdt.train._types import Json
from tdt.train.config import Component, ConfigErrors, DataConfig, Loader, imports, registry
from tdt.train.config.config import SPLITS
from tdt.train.config.precision import input_dtype
from tdt.train.config.splits import undivided
from tdt.train.data.nested import InMemoryDataset, Pairs, leaves
from tdt.train.data.sampling import sample_weights
from tdt.train.data.shards import ShardedBatches, ShardedDataset, Shards
from tdt.train.data.stream import StreamOrder, is_stream, opened_stream
from tdt.train.data.tokenizer import Tokenizer
from tdt.train.errors import EXPECTED_ERRORS, reason
from tdt.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)
from tdt.vision.datasets._files import MissingFiles
from tdt.vision.transforms import Compose
from tdt.vision.transforms.masks import transform_both

PREPARED = 1 << 30  # bytes of a split that is transformed once; a larger one is transformed as it is read


@dataclasses.dataclass
class Split:
    """A dataset with its random transforms (training only) and its deterministic ones.

    loaded: whether its samples are those of the files: without them a dataset may know its shapes and classes alone.
    """

    dataset: Any
    random: list[Any]
    fixed: list[Any]
    component: Component
    loaded: bool = True

    @property
    def steps(self) -> Compose:
        """All transforms, in order."""
        return Compose(_in_order(self.random, self.fixed, lambda step: step))

    def sample(self) -> tuple[Any, Any]:
        """The first sample, transformed; random transforms draw from a separate generator."""
        steps = self.steps
        steps.draw_from(tdt.Generator())
        return _read(self.dataset, 0, steps)

    def facts(self) -> Json:
        """Facts about the data, in JSON types, that a checkpoint keeps so that the model can be used without the data.

        classes: their names. classes_by_target: those of each of several targets, if the dataset's `classes` is a mapping
        by target. item: form of an input from the dataset: an image's mode, or an array's shape and dtype, and whether it is a
        tensor.
        input: form of the model's input. state: what the dataset was fitted to.
        """
        inputs, prepared = self.dataset[0][0], self.sample()[0]
        state = getattr(self.dataset, "state_dict", None)
        is_image, tensor = is_picture(inputs), {"tensor": True} if isinstance(inputs, tdt.Tensor) else {}
        classes = getattr(self.dataset, "classes", ())
        by_target = classes if isinstance(classes, Mapping) else {}
        return {
            "classes": [] if by_target else [str(name) for name in classes],
            "classes_by_target": {target: [str(name) for name in names] for target, names in by_target.items()},
            "item": {"mode": inputs.mode} if is_image else form_of(inputs) | tensor,
            "input": form_of(prepared),
            "state": state() if state else None,
        }


def is_picture(value: Any) -> bool:
    """Whether `value` is a Pillow image."""
    return isinstance(getattr(value, "mode", None), str)


def form_of(value: Any) -> Json:
    """Shape and dtype of an input; of several inputs under `parts`, by name or as a list."""
    if isinstance(value, dict):
        return {"parts": {name: form_of(part) for name, part in value.items()}}
    if isinstance(value, (tuple, list)):
        return {"parts": [form_of(part) for part in value]}
    array = value._a if isinstance(value, tdt.Tensor) else np.asarray(value)
    return {"shape": list(array.shape), "dtype": array.dtype.name}


def batch_of(form: Json, size: int) -> Any:
    """A meta batch of inputs of the form from `form_of`."""
    parts = form.get("parts")
    if isinstance(parts, dict):
        return {name: batch_of(part, size) for name, part in parts.items()}
    if parts is not None:
        return [batch_of(part, size) for part in parts]
    return stand_in((size, *form["shape"]), input_dtype(form["dtype"]))


class Augmented(Dataset):
    """A dataset whose samples are transformed each time they are read: random transforms first, then the others.

    Random transforms draw from `generator`; in a worker process from the worker's default generator.
    """

    def __init__(self, dataset: Any, steps: Compose, generator: tdt.Generator | None = None) -> None:
        self.dataset, self.steps, self.generator = dataset, steps, generator

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        self._choose_generator()
        return _read(self.dataset, index, self.steps)

    def __getbatch__(self, indices: list[int]) -> Any:
        """The samples at `indices` as one batch; None without a method `batch`, or if a transform takes single images."""
        if not hasattr(self.dataset, "batch"):
            return None
        self._choose_generator()
        return list(_read_batch(self.dataset, indices, self.steps))

    def __getstate__(self) -> Any:
        """The state for a worker that is not forked, with the user's imported code, which such a worker lacks."""
        return imports.ran(), bytes(ForkingPickler.dumps(self.__dict__))

    def __setstate__(self, state: Any) -> None:
        files, rest = state
        imports.run_again(files)
        self.__dict__ = pickle.loads(rest)

    def _choose_generator(self) -> None:
        self.steps.draw_from(self.generator if get_worker_info() is None else None)


class RecentBatches(BatchSampler):
    """A BatchSampler that keeps its last index lists: one, and `ahead` for batches that workers prefetch."""

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool, ahead: int) -> None:
        super().__init__(sampler, batch_size, drop_last)
        self.recent: deque[list[int]] = deque(maxlen=ahead + 1)

    def __iter__(self) -> Iterator[list[int]]:
        for indices in super().__iter__():
            self.recent.append(indices)
            yield indices


def open_splits(
    data: DataConfig,
    errors: ConfigErrors,
    needed: tuple[str, ...] = SPLITS,
    state: Json | None = None,
    check_files: bool = False,
    seed: int = 0,
) -> dict[str, Split]:
    """The splits that could be opened. Adds mistakes in the others to `errors`.

    Args:
        needed: splits whose samples are needed; of others the shape is enough, which many datasets know without files.
        state: what the dataset of the run was fitted to; by default it is fitted now.
        seed: of what streams draw at random.
        check_files: also report missing files that are not needed yet; those that can be downloaded are warnings.
    """
    fixed, random = _steps(data.transform, errors), _steps(data.augment, errors)
    _check_random(fixed, random, errors)
    opened: dict[str, Split] = {}
    whole: list[tuple[Component, Any]] = []
    of_run = state is not None  # else the existing files are read
    for name, component in data.splits().items():
        at_fault = undivided(component)
        try:
            divided = component if at_fault is component else _with_whole(component, at_fault, whole)
            at_fault = component
            dataset = _open(divided, name in needed, state, of_run)
            if isinstance(dataset, IterableDataset):
                key = "loader" if name == "train" else "eval_loader"
                dataset = opened_stream(dataset, getattr(data, key).samples, seed, f"data.{key}.samples")
            dataset = Pairs.of(dataset)
            if name in needed and (faults := dataset.check_files() if hasattr(dataset, "check_files") else []):
                for fault in faults:
                    errors.add(component, fault, kind="file")
                continue
            if check_files and name not in needed:
                _check_files(dataset, component, errors)
            if state is None and name == "train" and hasattr(dataset, "state_dict"):
                state = dataset.state_dict()
        except EXPECTED_ERRORS as error:
            errors.add(at_fault, reason(error), kind="download" if isinstance(error, MissingFiles) else "bad-value")
            continue
        before = random if name == "train" else []
        loaded = name in needed or not _is_stand_in(component, of_run)
        split = Split(dataset, [step for _, step in before], [step for _, step in fixed], component, loaded)
        if not len(dataset):
            _add_empty(component, name, errors)
        elif name != "train" or _first_passes(split, _in_order(before, fixed, lambda loaded: loaded[1]), errors):
            opened[name] = split
            if name == "train":
                _check_targets(dataset, random, errors)
    return opened


def _with_whole(component: Component, inner: Component, whole: list[tuple[Component, Any]]) -> Component:
    """A RandomSplit with the dataset that it divides, which the splits share. whole: those created, with their declarations."""
    dataset = next((dataset for declared, dataset in whole if declared == inner), None)
    if dataset is None:
        whole.append((inner, dataset := registry.datasets.create(inner)))
    if component.args:
        return dataclasses.replace(component, args=(dataset, *component.args[1:]))
    return dataclasses.replace(component, kwargs=component.kwargs | {"dataset": dataset})


def _add_empty(component: Component, split: str, errors: ConfigErrors) -> None:
    """Report a split without samples, at its share of the samples if it has one."""
    share, place = component.kwargs.get(split), component.arg_sources.get(split)
    if isinstance(share, float) and place is not None:
        errors.add(place, f"has no samples: {share:g} of all is less than one", key=f"data.{split}")
    else:
        errors.add(component.source, "has no samples", key=f"data.{split}")


def _check_targets(dataset: Any, random: list[tuple[Component, Any]], errors: ConfigErrors) -> None:
    """Report random transforms that move an image's pixels if the target is an image, which would not move."""
    if getattr(dataset, "has_masks", False):  # they are moved with the image
        return
    inputs, target = dataset[0]
    masks = [part for part in leaves(target) if _is_image_of(part, inputs)]
    for component, step in random if masks else ():
        if getattr(step, "moves_pixels", True):
            size = "x".join(map(str, _height_and_width(masks[0]) or ()))
            message = (
                f"moves the pixels of the input, but not of the target, which is an image too ({size}); remove it, or "
                "let the dataset transform both"
            )
            errors.add(component, message)


def _is_image_of(target: Any, image: Any) -> bool:
    """Whether a target has a value for each pixel, or for each block of pixels, of an input."""
    size, whole = _height_and_width(target), _height_and_width(image)
    if size is None or whole is None:
        return False
    return size[0] * whole[1] == size[1] * whole[0] and min(*size, *whole) > 1


def _height_and_width(value: Any) -> tuple[int, int] | None:
    """Height and width of a Pillow image, an array (H, W) or (H, W, C) or a tensor (…, H, W); else None."""
    if is_picture(value):
        return value.size[1], value.size[0]
    shape = tuple(value.shape) if isinstance(value, (tdt.Tensor, np.ndarray)) else ()
    if len(shape) < 2:
        return None
    last = isinstance(value, np.ndarray) and len(shape) == 3 and shape[2] <= 4  # channels
    return shape[:2] if last else shape[-2:]


def _check_random(
    fixed: list[tuple[Component, Any]], random: list[tuple[Component, Any]], errors: ConfigErrors
) -> None:
    """Report random transforms in `transform`, and an `augment` without any."""
    for component, step in fixed:
        if getattr(step, "random", False):
            errors.add(component, "is random, but applies to every split; move it to data.augment")
    if random and not any(getattr(step, "random", True) for _, step in random):
        message = "is not used: none of these transforms is random; move them to data.transform"
        errors.add("data.augment", message, kind="unused")


def _in_order(random: list[Any], fixed: list[Any], step_of: Callable[[Any], Any]) -> list[Any]:
    """Random transforms first, since they take images; those that take tensors last, after the conversion."""
    late = [one for one in random if getattr(step_of(one), "takes_tensors", False)]
    return [*(one for one in random if one not in late), *fixed, *late]


def _open(component: Component, needed: bool, state: Json | None, of_run: bool) -> Any:
    kind: Any = registry.datasets.find(component.name)
    if not needed and hasattr(kind, "blank"):
        return kind.blank(*component.args, **component.kwargs)
    if not needed and of_run and hasattr(kind, "restored"):
        return kind.restored(state, *component.args, **component.kwargs)
    if state is not None and hasattr(kind, "fitted"):
        return kind.fitted(state, *component.args, **component.kwargs)
    if state is not None and "tokenizer" in state and "tokenizer" in component.kwargs:  # the run has a copy of its file
        tokenizer = Tokenizer.restored(state["tokenizer"])
        component = dataclasses.replace(component, kwargs=component.kwargs | {"tokenizer": tokenizer})
    dataset = registry.datasets.create(component)
    if state is not None and hasattr(dataset, "load_state_dict"):
        dataset.load_state_dict(state)
    return dataset


def _is_stand_in(component: Component, of_run: bool) -> bool:
    """Whether `_open` opens a dataset that is not needed without its files."""
    kind = registry.datasets.find(component.name)
    return hasattr(kind, "blank") or (of_run and hasattr(kind, "restored"))


def _check_files(dataset: Any, component: Component, errors: ConfigErrors) -> None:
    """Report missing files of a dataset; warn about those that it will download."""
    missing = getattr(dataset, "missing_files", None)
    error = missing() if missing else None
    if error is not None and dataset.download:
        errors.warn(component, f"{component.name} has not been downloaded yet; tdt train downloads it", kind="download")
    elif error is not None:
        errors.add(component, str(error), kind="download" if isinstance(error, MissingFiles) else "file")


def _steps(components: tuple[Component, ...], errors: ConfigErrors) -> list[tuple[Component, Any]]:
    """The transforms that could be created, each with its declaration."""
    built = []
    for component in components:
        try:
            built.append((component, registry.transforms.create(component)))
        except EXPECTED_ERRORS as error:
            errors.add(component, reason(error))
    return built


def _first_passes(split: Split, steps: list[tuple[Component, Any]], errors: ConfigErrors) -> bool:
    """Whether the transforms turn the first sample into a tensor. Reports an exception at its transform."""
    at_work = split.component
    try:
        inputs, _ = split.dataset[0]
        for component, step in steps:
            at_work, alone = component, Compose([step])
            if isinstance(inputs, (dict, tuple)):
                raise ValueError("takes one input, but there are several; let the dataset transform them")
            alone.draw_from(tdt.Generator())
            inputs = alone(inputs)
    except EXPECTED_ERRORS as error:
        errors.add(at_work, reason(error))
        return False
    stranger = next((part for part in leaves(inputs) if not isinstance(part, tdt.Tensor)), None)
    if stranger is not None:
        advice = "add ToTensor" if stranger is inputs else "let the dataset return tensors"
        errors.add("data.transform", f"samples are {type(stranger).__name__}, not tensors; {advice}")
        return False
    return True


class BatchesOfRank(BatchSampler):
    """Every n-th batch of another batch sampler, for one of n ranks; its length is that of the other."""

    def __init__(self, batches: RecentBatches, ranks: Ranks) -> None:
        super().__init__(batches.sampler, batches.batch_size, batches.drop_last)
        self._rank, self._size = ranks.rank, ranks.size

    def __iter__(self) -> Iterator[list[int]]:
        return islice(super().__iter__(), self._rank, None, self._size)


def make_loader(
    split: Split,
    settings: Loader,
    order: tdt.Generator | None = None,
    augment: tdt.Generator | None = None,
    shards: Shards | None = None,
    ranks: Ranks | None = None,
) -> DataLoader:
    """The loader of a split.

    Args:
        order: generator for shuffling.
        augment: generator for random transforms.
        shards: those into which batches are cut; then a batch is a list of this rank's, and nothing is drawn from `augment`.
        ranks: processes that evaluate the split together, each a part of the batches.
    """
    steps = split.steps
    if split.random or not _fits(split, settings.num_workers):
        dataset: Any = Augmented(split.dataset, steps, None if shards else augment)
    else:
        dataset = _prepared(split.dataset, steps)
    options = settings.model_dump(exclude_none=True)
    size, drop_last, shuffle = (options.pop(name) for name in ("batch_size", "drop_last", "shuffle"))
    options.pop("samples", None)
    sampler: Sampler = RandomSampler(dataset, generator=order) if shuffle else SequentialSampler(dataset)
    if is_stream(split.dataset):
        sampler = StreamOrder(len(dataset))
    if (by_class := options.pop("sampler", None)) is not None:
        weights = sample_weights(split.dataset, by_class)
        sampler = WeightedRandomSampler(tdt.from_numpy(weights), len(weights), generator=order)
    ahead = settings.num_workers * (settings.prefetch_factor or 2)
    if shards is not None:
        ahead += shards.accumulate - 1  # all batches of a step are loaded before the first is computed
    batches: Any = RecentBatches(sampler, size, drop_last, ahead)
    if shards is not None:
        dataset = ShardedDataset(dataset, shards.seed, isinstance(dataset, Augmented))
        batches = ShardedBatches(batches, shards)
    elif ranks is not None and ranks.size > 1:
        batches = BatchesOfRank(batches, ranks)
    return DataLoader(dataset, batch_sampler=batches, generator=order, **options)


def unsharded(loader: DataLoader) -> Any:
    """The dataset of a loader, whose samples are those of the split."""
    dataset: Any = loader.dataset
    return dataset.dataset if isinstance(dataset, ShardedDataset) else dataset


def batch_indices(loader: DataLoader, number: int) -> list[int]:
    """Indices of the samples in batch `number` (from 0) of the current epoch: the latest batch or a prefetched one.

    Empty for a batch that has not been requested yet.
    """
    epoch, batches = loader.state_dict()["epoch"], loader.batch_sampler
    assert isinstance(batches, RecentBatches | ShardedBatches)
    ahead = number - (epoch["drawn"] if epoch else 0)
    return [int(i) % len(loader.dataset) for i in batches.recent[ahead]] if -len(batches.recent) <= ahead < 0 else []


def _fits(split: Split, workers: int) -> bool:
    """Whether to keep the transformed split in memory: not a stream, nor if it reads a file per sample in workers."""
    if is_stream(split.dataset):
        return False
    inputs, _ = split.sample()
    size = sum(part.nbytes for part in leaves(inputs))
    return size * len(split.dataset) <= PREPARED and (hasattr(split.dataset, "batch") or not workers)


def _prepared(dataset: Any, steps: Compose) -> Dataset:
    """All samples, transformed, as tensors."""
    if hasattr(dataset, "batch"):
        whole = _read_batch(dataset, slice(None), steps)
    else:
        samples = [_named(dataset, i, steps) for i in range(len(dataset))]
        _check_alike([inputs for inputs, _ in samples])
        whole = tdt.utils.data.default_collate(samples)
    return TensorDataset(*whole) if all(isinstance(side, tdt.Tensor) for side in whole) else InMemoryDataset(*whole)


def _check_alike(samples: list[Any]) -> None:
    """Raise ValueError if tensors have different shapes, so that they cannot form a batch."""
    shapes = [tuple(sample.shape) for sample in samples if isinstance(sample, tdt.Tensor)]
    differing = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
    if differing is not None:
        advice = "; put a Resize to one height and width, or a crop, into data.transform" if len(shapes[0]) == 3 else ""
        raise ValueError(
            f"sample {differing} is of shape {shapes[differing]}, and sample 0 of shape {shapes[0]}{advice}"
        )


def _read_batch(dataset: Any, indices: Any, steps: Compose) -> tuple[Any, Any]:
    inputs, targets = dataset.batch(indices)
    if not steps.transforms:
        return inputs, targets
    return steps.batch(inputs if isinstance(dataset[0][0], tdt.Tensor) else inputs.numpy()), targets


def _read(dataset: Any, index: int, steps: Compose) -> tuple[Any, Any]:
    inputs, target = dataset[index]
    if getattr(dataset, "has_masks", False):
        return transform_both(steps.transforms, inputs, target)
    return (steps(inputs) if steps.transforms else inputs), target


def _named(dataset: Any, index: int, steps: Compose) -> tuple[Any, Any]:
    try:
        return _read(dataset, index, steps)
    except EXPECTED_ERRORS as error:
        raise ValueError(f"sample {index}: {reason(error)}") from error
