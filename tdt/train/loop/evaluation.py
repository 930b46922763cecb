"""Evaluate a model on a split, and a checkpoint without its run."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import tdt
from tdt import Tensor
from tdt.train.checks.kept_config import kept_config
from tdt.train.config import loads
from tdt.train.config.precision import default_dtype
from tdt.train.data.nested import leaves
from tdt.train.errors import bad_data, error_context
from tdt.train.loop.build import build
from tdt.train.loop.parts import Parts
from tdt.train.loop.state import data_state, fitting, load_model, load_run
from tdt.train.metrics import Reading
from tdt.train.metrics.confusion import confusion_matrices, confusion_matrix
from tdt.train.model.deciding import decided, named
from tdt.train.runs._fault import fault_point
from tdt.utils.data import DataLoader


def batches(parts: Parts, split: str, check_stop: Callable[[], object]) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets of a split on the run's device. check_stop: raises Stopped where the run was asked to stop."""
    return read(parts, parts.loaders[split], check_stop)


def read(parts: Parts, loader: DataLoader, check_stop: Callable[[], object]) -> Iterator[tuple[Tensor, Tensor]]:
    """As `batches`, of any loader."""
    try:
        for inputs, targets in loader:
            yield parts.place(inputs), parts.place(targets)
    except RuntimeError:
        check_stop()  # a signal to the whole process group has ended the loader's workers too
        raise


def evaluate(
    parts: Parts,
    split: str,
    on_batch: Callable[[Any, Tensor, Tensor], object] = lambda inputs, output, targets: None,
    check_stop: Callable[[], object] = lambda: None,
    most: int | None = None,
) -> dict[str, float]:
    """Loss and metrics of parts.scored over a split, in eval mode and without gradients.

    on_batch: gets inputs, what the model gives and targets of each batch, as metrics compare them. check_stop: called after each;
    what it raises ends this.
    most: so many batches at most.
    StepError for what data, model or loss refuse.
    """
    metrics, seen, model = parts.new_metrics(), 0, parts.scored
    explained = error_context(lambda: f"data.{split}: failed on the batch that begins with sample {seen}")
    model.eval()
    with tdt.no_grad(), default_dtype(parts.config.dtype), explained:
        for inputs, targets in islice(batches(parts, split, check_stop), most):
            output = model(inputs)
            loss = parts.loss(output, targets, inputs)
            if not loss.is_cuda and not math.isfinite(loss.item()):
                _check_data(split, inputs, targets, seen)
            output, targets = parts.loss.compared(output, targets, inputs)
            for metric in metrics.values():
                metric.update(output, targets, loss)
            on_batch(inputs, output, targets)
            seen += len(targets)
            if most is None:
                fault_point("validate")
            check_stop()
    return {name: metric.compute() for name, metric in metrics.items()}


def _check_data(split: str, inputs: Any, targets: Any, first: int) -> None:
    """Raise StepError if data of a batch, whose samples count from `first`, are NaN or infinite."""
    size = len(next(leaves(inputs)))
    if (error := bad_data(split, inputs, targets, range(first, first + size))) is not None:
        raise error


def check_batches(parts: Parts, check_stop: Callable[[], object]) -> None:
    """Score a batch of each split that is not trained on, so that what it stumbles over is found before the first epoch.

    What was drawn for it is put back. StepError.
    """
    for split in [name for name in parts.loaders if name != "train"]:
        put_back = parts.snapshot_rng(parts.loaders[split])
        evaluate(parts, split, check_stop=check_stop, most=1)
        put_back()


def refresh(parts: Parts, check_stop: Callable[[], object]) -> None:
    """Bring an average of the weights up to date, so that it can be scored; what is drawn for that is put back."""
    if parts.average is None:
        return
    settings, dataset = parts.config.data.loader, parts.loaders["train"].dataset
    order = tdt.Generator().manual_seed(parts.config.seed)
    names = ("batch_size", "drop_last", "num_workers", "timeout")
    options = {name: getattr(settings, name) for name in names}
    loader = DataLoader(dataset, shuffle=True, generator=order, **options)
    put_back = parts.snapshot_rng(loader)
    try:
        parts.average.refresh((inputs,) for inputs, _ in read(parts, loader, check_stop))
    finally:
        put_back()


@dataclass(frozen=True)
class Evaluation:
    """The checkpoint `path` of step `step`, after `epoch` epochs, on `split`: scores by metric, and for each sample its
    target and the model's prediction (the largest class, where targets are classes; 0 or 1 where they are yes and no;
    else what the model gave). classes: their names, where predictions are classes, or `several`: yes or no for each of
    them. ignored: a target that does not count. files: those that the samples were read from.
    """

    path: Path
    step: int
    epoch: int
    split: str
    scores: dict[str, float]
    targets: list[Any]
    predictions: list[Any]
    classes: list[str]
    ignored: int | None = None
    several: bool = False
    files: list[str] = field(default_factory=list)

    def confusion(self) -> np.ndarray:
        """How many samples of class i were taken for class j (classes, classes); where a sample may have several, for each
        how many that have it or not were taken to have it or not (classes, 2, 2). LookupError where there are no classes.
        """
        if not self.classes:
            raise LookupError("there are no classes to confuse: the model gives numbers")
        targets, predictions = np.asarray(self.targets), np.asarray(self.predictions)
        if self.several:
            return confusion_matrices(targets, predictions)
        targets, predictions = targets.reshape(-1), predictions.reshape(-1)
        counted = targets != self.ignored
        return confusion_matrix(targets[counted], predictions[counted], len(self.classes))


def evaluate_checkpoint(
    path: str | os.PathLike[str],
    split: str | None = None,
    device: str | None = None,
    overrides: Sequence[str] = (),
    *,
    batch_size: int | None = None,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> Evaluation:
    """Score the checkpoint on a split of the data that its config names, as the run that wrote it would: bit for bit.

    split: by default "valid", where there is none "test", else "train". device: where, if not on the device of its
    config. overrides: other data, loss or metrics, as `data.test=Digits(split=train)`. batch_size: of the split's
    batches. progress: hears after each how many of how many are done.
    LookupError if there is no such split, or an override that an evaluation does not read; ConfigError; CheckpointError.
    """
    tensors, meta = load_run(path)
    unread = [text for text in overrides if text.partition("=")[0].partition(".")[0] not in ("data", "loss", "metrics")]
    if unread:
        raise LookupError(f"{unread[0]}: changes nothing in an evaluation, which reads data, loss and metrics")
    changes = [*overrides, *([] if device is None else [f"device={device}"])]
    if overrides:  # what the training watched need not be measured now
        changes += [f"{watcher}=null" for watcher in ("checkpoint.best", "train.early_stopping", "scheduler")]
    config = loads(meta["config"], f"{path}:config", changes)
    split = split or next(name for name in ("valid", "test", "train") if name in config.data.splits())
    if split not in config.data.splits():
        raise LookupError(f"there is no split {split!r}; the config has {', '.join(config.data.splits())}")
    if batch_size is not None:
        loader = config.data.eval_loader.model_copy(update={"batch_size": batch_size})
        config = replace(config, data=replace(config.data, eval_loader=loader))
    tdt.set_num_threads(meta["threads"])
    with kept_config(overrides):
        parts = build(config, training=False, splits=(split,), data_state=data_state(meta))
    with fitting(path):
        load_model(parts, tensors)
    pairs: list[tuple[Tensor, Tensor]] = []
    scores = evaluate(
        parts,
        split,
        lambda _, *pair: pairs.append(pair),
        check_stop=lambda: progress(len(pairs), len(parts.loaders[split])),
    )
    given, targets = (tdt.cat(list(side)).cpu() for side in zip(*pairs, strict=True))
    reading = Reading.of(parts.loss.main)
    names, several = parts.facts["classes"], reading.threshold is not None and targets.numel() > len(targets)
    predictions, classes = decided(reading, given, targets, names)
    if several:
        classes = named(names, targets.shape[1])
    told = targets.tolist(), predictions.tolist(), classes, reading.ignore_index, several
    return Evaluation(Path(path), meta["step"], meta["epoch"], split, scores, *told, parts.files[split])
