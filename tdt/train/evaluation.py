"""Scores: of a model on a split, and of a checkpoint, from the checkpoint alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import tdt
from tdt import Tensor
from tdt.train._failures import explained
from tdt.train._fault import fault_point
from tdt.train.build import Parts, build
from tdt.train.config import loads
from tdt.train.state import data_state, fitting, generators, load_model, load_run
from tdt.utils.data import DataLoader


def batches(parts: Parts, split: str, obey: Callable[[], object]) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets of a split on the run's device. obey: raises Stopped where the run was asked to stop."""
    return read(parts, parts.loaders[split], obey)


def read(parts: Parts, loader: DataLoader, obey: Callable[[], object]) -> Iterator[tuple[Tensor, Tensor]]:
    """As `batches`, of any loader."""
    try:
        for inputs, targets in loader:
            yield parts.place(inputs), parts.place(targets)
    except RuntimeError:
        obey()  # a signal to the whole process group has ended the loader's workers too
        raise


def evaluate(
    parts: Parts,
    split: str,
    outputs: list[Tensor] | None = None,
    obey: Callable[[], object] = lambda: None,
    most: int | None = None,
) -> dict[str, float]:
    """Loss and metrics of parts.scored over a split, in eval mode and without gradients.

    outputs: collects what the model gives for each batch. obey: called after each; what it raises ends this.
    most: so many batches at most.
    StepError for what data, model or loss refuse.
    """
    metrics, seen, model = parts.new_metrics(), 0, parts.scored
    model.eval()
    with tdt.no_grad(), explained(lambda: f"data.{split}: failed on the batch that begins with sample {seen}"):
        for inputs, targets in islice(batches(parts, split, obey), most):
            output = model(inputs)
            loss = parts.loss(output, targets, inputs)
            output, targets = parts.loss.compared(output, targets, inputs)
            for metric in metrics.values():
                metric.update(output, targets, loss)
            if outputs is not None:
                outputs.append(output)
            seen += len(targets)
            if most is None:
                fault_point("validate")
            obey()
    return {name: metric.compute() for name, metric in metrics.items()}


def check_batches(parts: Parts, obey: Callable[[], object]) -> None:
    """Score a batch of each split that is not trained on, so that what it stumbles over is found before the first epoch.

    What was drawn for it is put back. StepError.
    """
    for split in [name for name in parts.loaders if name != "train"]:
        put_back = bookmark(parts, parts.loaders[split])
        evaluate(parts, split, obey=obey, most=1)
        put_back()


def refresh(parts: Parts, obey: Callable[[], object]) -> None:
    """Bring an average of the weights up to date, so that it can be scored; what is drawn for that is put back."""
    if parts.average is None:
        return
    settings, dataset = parts.config.data.loader, parts.loaders["train"].dataset
    order = tdt.Generator().manual_seed(parts.config.seed)
    names = ("batch_size", "drop_last", "num_workers", "timeout")
    options = {name: getattr(settings, name) for name in names}
    loader = DataLoader(dataset, shuffle=True, generator=order, **options)
    put_back = bookmark(parts, loader)
    try:
        parts.average.refresh(inputs for inputs, _ in read(parts, loader, obey))
    finally:
        put_back()


def bookmark(parts: Parts, loader: DataLoader) -> Callable[[], None]:
    """What puts `loader`, and all generators that it and the run draw from, back to where they are now."""
    state, drawn = loader.state_dict(), {g: g.get_state() for g in generators(parts).values()}

    def put_back() -> None:
        loader.load_state_dict(state)
        for generator, then in drawn.items():
            generator.set_state(then)

    return put_back


@dataclass(frozen=True)
class Evaluation:
    """The checkpoint `path` of step `step`, after `epoch` epochs, on `split`: scores by metric, and for each sample its
    target and the model's prediction (the largest class, where targets are classes; else what the model gave)."""

    path: Path
    step: int
    epoch: int
    split: str
    scores: dict[str, float]
    targets: list[Any]
    predictions: list[Any]


def evaluate_checkpoint(
    path: str | os.PathLike[str], split: str | None = None, device: str | None = None
) -> Evaluation:
    """Score the checkpoint on a split of the data that its config names, as the run that wrote it would: bit for bit.

    split: by default "valid", where there is none "test", else "train". device: where, if not on the device of its
    config. LookupError if there is no such split; CheckpointError.
    """
    tensors, meta = load_run(path)
    config = loads(meta["config"], f"{path}:config", [] if device is None else [f"device={device}"])
    split = split or next(name for name in ("valid", "test", "train") if name in config.data.splits())
    if split not in config.data.splits():
        raise LookupError(f"there is no split {split!r}; the config has {', '.join(config.data.splits())}")
    tdt.set_num_threads(meta["threads"])
    parts = build(config, training=False, splits=(split,), data_state=data_state(meta))
    with fitting(path):
        load_model(parts, tensors)
    outputs: list[Tensor] = []
    scores = evaluate(parts, split, outputs)
    targets = tdt.cat([targets for _, targets in parts.loaders[split]])
    given = tdt.cat(outputs)
    classes = not targets.is_floating_point() and given.ndim > targets.ndim
    predictions = given.argmax(1) if classes else given
    return Evaluation(Path(path), meta["step"], meta["epoch"], split, scores, targets.tolist(), predictions.tolist())
