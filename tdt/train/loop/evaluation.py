"""Evaluate a model on a split of the data, during a run or from a checkpoint alone."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import tdt
from tdt import Tensor
from tdt._activity import ACTIVITY
from tdt._compiled.function import Difference
from tdt.train._agreement import loaded_by_first, together, watched
from tdt.train._ranks import Ranks
from tdt.train._types import Callback, Json, Nested
from tdt.train.checks.alike import check_alike, share_threads
from tdt.train.checks.labels import label_error
from tdt.train.config import Component, Config, DataConfig, loads
from tdt.train.config.config import SPLITS
from tdt.train.config.precision import default_dtype
from tdt.train.data.fingerprints import fingerprints
from tdt.train.data.loading import unsharded
from tdt.train.data.nested import leaves, on_host
from tdt.train.data.own_files import is_path, with_path
from tdt.train.data.stream import is_stream
from tdt.train.errors import CompileError, Stopped, bad_data, error_context
from tdt.train.loop.build import build
from tdt.train.loop.parts import Parts
from tdt.train.loop.state import data_state, load_model, load_run, state_errors
from tdt.train.metrics import Metric, Reading, add_each
from tdt.train.metrics.confusion import confusion_matrices, confusion_matrix
from tdt.train.model.deciding import decided, named
from tdt.train.model.objective import Term, class_names, tasks_of
from tdt.train.runs._fault import fault_point
from tdt.utils.data import DataLoader
from tdt.vision.datasets._files import no_downloads


def batches(parts: Parts, split: str, check_stop: Callback) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets of a split on the run's device. check_stop: raises Stopped if the run should stop."""
    return read(parts, parts.loaders[split], check_stop)


def read(parts: Parts, loader: DataLoader, check_stop: Callback) -> Iterator[tuple[Tensor, Tensor]]:
    """Like `batches`, for any loader."""
    for inputs, targets in loaded(parts, loader, check_stop):
        yield parts.place(inputs), parts.place(targets)


def loaded(parts: Parts, loader: DataLoader, check_stop: Callback) -> Iterator[Any]:
    """What a loader gives."""
    try:
        yield from loader
    except RuntimeError:
        if parts.ranks.size == 1:
            check_stop()  # a signal to the process group ends the loader's workers too
        raise


def reason_to_stop(check_stop: Callback) -> str | None:
    """Why `check_stop` asks to stop, which this rank tells the others; None if it does not."""
    try:
        check_stop()
    except Stopped as stop:
        return stop.reason
    return None


def stop_if_any(reasons: Iterable[str | None]) -> None:
    """Raise Stopped if a rank has a reason. All of them call this with the same reasons, and so stop together."""
    if (reason := next((reason for reason in reasons if reason is not None), None)) is not None:
        raise Stopped(reason)


def evaluate(
    parts: Parts,
    split: str,
    on_batch: Callable[[Nested, Tensor, Tensor], None] | None = None,
    check_stop: Callback = lambda: None,
    most: int | None = None,
) -> dict[str, float]:
    """Loss and metrics of `parts.scored` over a split, in eval mode and without gradients.

    Several ranks compute a batch each at a time, and all of them add the results in the order of the batches.

    Args:
        on_batch: called with inputs, outputs and targets of each batch, as the metrics compare them.
        check_stop: called after each batch; an exception ends the evaluation.
        most: maximum number of batches.
    Raises:
        StepError: data, model or loss raised an exception.
    """
    metrics, ranks, first = parts.new_metrics(), parts.ranks, 0
    shown = any(ranks.exchange(on_batch is not None))
    explained = error_context(lambda: f"data.{split}: failed on the batch that begins with sample {first}")
    parts.scored.eval()
    with tdt.no_grad(), default_dtype(parts.config.dtype), explained:
        for first, inputs, targets in _own_batches(parts, split, check_stop, most):
            result = None if inputs is None else _score(parts, split, metrics, inputs, targets, first, shown)
            if most is None:
                fault_point("validate")
            own = result, reason_to_stop(check_stop)
            results, reasons = zip(*ranks.exchange(own, "scores of batches"), strict=True)
            for size, sums, call in filter(None, results):
                add_each([(metrics[name], amount) for name, amount in sums.items()], size)
                if on_batch is not None:
                    parts.loss.last_call = call[1]
                    on_batch(*call[0])
            stop_if_any(reasons)
    return {name: metric.compute() for name, metric in metrics.items()}


def _own_batches(parts: Parts, split: str, check_stop: Callback, most: int | None) -> Iterator[tuple[int, Any, Any]]:
    """This rank's batches, each with the number of its first sample; None where there are less batches than ranks."""
    loader, ranks, each = parts.loaders[split], parts.ranks, batches(parts, split, check_stop)
    size = getattr(loader.batch_sampler, "batch_size", 1)
    if ranks.size == 1:
        for number, (inputs, targets) in enumerate(islice(each, most)):
            yield number * size, inputs, targets
        return
    count = len(loader) if most is None else min(len(loader), most)
    for number in range(ranks.rank, count + ranks.rank, ranks.size):
        own: tuple[Any, Any] = next(each) if number < count else (None, None)
        yield number * size, *own


def _score(
    parts: Parts, split: str, metrics: dict[str, Metric], inputs: Any, targets: Any, first: int, shown: bool
) -> tuple[int, dict[str, Any], Any]:
    """The size of a batch, what it adds to the metrics, and if it is shown what they compare, and the call of the loss."""
    computation = parts.evaluation
    try:
        output, loss, terms, _ = computation("losses", inputs, targets, check=computation.checks_next())
    except Difference as difference:
        raise CompileError.of(
            difference, parts.scored, f"the evaluation of data.{split}, at its sample {first}"
        ) from None
    except IndexError as error:
        indices = range(first, first + len(next(leaves(targets))))
        raise label_error(split, parts, targets, indices) or error from error
    if not loss.is_cuda and not math.isfinite(loss.item()):
        _check_data(split, inputs, targets, first)
    parts.loss.remember(output, targets, inputs, terms)
    output, targets = parts.loss.compared(output, targets, inputs)
    sums = {name: metric.batch_sum(output, targets, loss) for name, metric in metrics.items()}
    call = (inputs, output, targets), parts.loss.last_call
    if parts.ranks.size > 1:
        sums, call = on_host(sums), on_host(call)
    return len(targets), sums, call if shown else None


def _check_data(split: str, inputs: Any, targets: Any, first: int) -> None:
    """Raise StepError if a batch contains NaN or infinite values. first: index of its first sample."""
    size = len(next(leaves(inputs)))
    if (error := bad_data(split, inputs, targets, range(first, first + size))) is not None:
        raise error


def check_batches(parts: Parts, check_stop: Callback) -> None:
    """Evaluate one batch of each split but "train", so that errors show before the first epoch. Restores the generators.

    Raises:
        StepError: data, model or loss raised an exception.
    """
    for split in [name for name in parts.loaders if name != "train"]:
        restore_rng = parts.snapshot_rng(parts.loaders[split])
        evaluate(parts, split, check_stop=check_stop, most=1)
        restore_rng()


def refresh(parts: Parts, check_stop: Callback) -> None:
    """Recompute the batch norm statistics of the averaged model, if there is one. Restores the generators."""
    if parts.average is None:
        return
    settings, dataset = parts.config.data.loader, unsharded(parts.loaders["train"])
    order = tdt.Generator().manual_seed(parts.config.seed)
    names = ("batch_size", "drop_last", "num_workers", "timeout")
    options = {name: getattr(settings, name) for name in names}
    loader = DataLoader(dataset, shuffle=not is_stream(dataset), generator=order, **options)
    restore_rng = parts.snapshot_rng(loader)
    try:
        parts.average.refresh((inputs,) for inputs, _ in read(parts, loader, check_stop))
    finally:
        restore_rng()


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """Target and prediction of each sample, for one output of the model.

    Attributes:
        predictions: the most likely class; 0 or 1 for binary targets; else the model's output.
        classes: their names, if predictions are classes, or 0 or 1 for each of `several` classes (multi-label).
        several: whether a sample may have several classes.
        ignored: the target that does not count (`ignore_index`).
    """

    targets: list[Any]
    predictions: list[Any]
    classes: list[str]
    ignored: int | None = None
    several: bool = False

    def confusion(self) -> np.ndarray:
        """The confusion matrix: number of samples of class i that were predicted as class j.

        Shape:
            Result: (classes, classes); for multi-label targets one per class, (classes, 2, 2).
        Raises:
            LookupError: the model predicts numbers, not classes.
        """
        if not self.classes:
            raise LookupError("no confusion matrix: the model predicts numbers, not classes")
        targets, predictions = np.asarray(self.targets), np.asarray(self.predictions)
        if self.several:
            return confusion_matrices(targets, predictions)
        targets, predictions = targets.reshape(-1), predictions.reshape(-1)
        counted = targets != self.ignored
        return confusion_matrix(targets[counted], predictions[counted], len(self.classes))


@dataclass(frozen=True, kw_only=True)
class Evaluation(TaskResult):
    """The scores of a checkpoint on a split, with the target and the prediction of each sample for the first loss.

    Attributes:
        path, step, epoch: of the checkpoint.
        scores: by metric.
        tasks: of a model with several outputs: the result for each, by the name of its loss.
        files: the files that the samples were read from.
        notes: samples that are left out and values that are replaced, with counts.
    """

    path: Path
    step: int
    epoch: int
    split: str
    scores: dict[str, float]
    tasks: dict[str, TaskResult] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def evaluate_checkpoint(
    path: str | os.PathLike[str],
    split: str | None = None,
    device: str | None = None,
    overrides: Sequence[str] = (),
    *,
    data: str | None = None,
    batch_size: int | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
    ranks: Ranks | None = None,
) -> Evaluation:
    """Evaluate a checkpoint on a split of the data in its config, bit for bit as the run that wrote it would.

    Nothing is downloaded, whatever the config and the overrides say.

    Args:
        path: the checkpoint.
        split: by default "valid", else "test", else "train".
        device: by default that of the config.
        overrides: `key=value` of data, loss or metrics, such as `data.test=Digits(split=train)`.
        data: what to evaluate instead: a file or folder of the kind that `data.train` reads, or a dataset as in a config.
        batch_size: by default that of `data.eval_loader`.
        progress: called after each batch with the number of batches done and in all.
        ranks: the processes that evaluate together, with the bits of one.
    Raises:
        LookupError: no such split, or an override of another section.
        ConfigError, CheckpointError: the config or the checkpoint is not valid.
        RunError: the processes have other data, or differ in what else their numbers depend on.
    """
    ranks = ranks or Ranks.alone()
    tensors, meta = loaded_by_first(ranks, lambda: load_run(path))
    if ranks.size == 1:
        tdt.set_num_threads(meta["threads"])
    else:
        share_threads(ranks)
    parts, split = together(ranks, lambda: _prepared(ranks, meta, path, split, device, overrides, data, batch_size))
    if ranks.size > 1:
        check_alike(ranks, parts.config, together(ranks, lambda: fingerprints(parts.files)), parts.device)
    with state_errors(path):
        load_model(parts, tensors)
    with watched(ranks, parts.config.train.stall_timeout.seconds, "evaluating"):
        scores, results = _scores_and_results(parts, split, progress)
    return Evaluation(
        path=Path(path),
        step=meta["step"],
        epoch=meta["epoch"],
        split=split,
        scores=scores,
        tasks=results if len(results) > 1 else {},
        files=parts.files[split],
        notes=parts.notes[split],
        **vars(next(iter(results.values()))),
    )


def _prepared(
    ranks: Ranks,
    meta: Json,
    path: str | os.PathLike[str],
    split: str | None,
    device: str | None,
    overrides: Sequence[str],
    data: str | None,
    batch_size: int | None,
) -> tuple[Parts, str]:
    """Model and data for `evaluate_checkpoint`, and the split."""
    unread = [text for text in overrides if text.partition("=")[0].partition(".")[0] not in ("data", "loss", "metrics")]
    if unread:
        raise LookupError(f"{unread[0]}: has no effect in an evaluation, which reads data, loss and metrics")
    split = "test" if split is None and data is not None else split
    file, changes = None, list(overrides)
    if data is not None and is_path(data):
        file = data
    elif data is not None:
        changes.append(f"data.{split}={data}")
    settings = [] if device is None else [f"device={device}"]
    if changes or file is not None:  # the scores that the training monitored need not be computed now
        settings += [f"{watcher}=null" for watcher in ("checkpoint.best", "train.early_stopping", "scheduler")]
    config, split = _split_of(loads(meta["config"], f"{path}:config", [*changes, *settings]), split, file)
    if batch_size is not None:
        loader = config.data.eval_loader.model_copy(update={"batch_size": batch_size})
        config = replace(config, data=replace(config.data, eval_loader=loader))
    with no_downloads("an evaluation downloads nothing"):
        return build(config, training=False, splits=(split,), data_state=data_state(meta), ranks=ranks), split


def _split_of(config: Config, split: str | None, file: str | None) -> tuple[Config, str]:
    """The split to evaluate, and the config in which it reads `file`, if that is given."""
    if file is not None and split is not None:
        config = replace(config, data=_with_split(config.data, split, with_path(config.data.train, file)))
    split = split or next(name for name in ("valid", "test", "train") if name in config.data.splits())
    if split not in config.data.splits():
        raise LookupError(f"there is no split {split!r}; the config has {', '.join(config.data.splits())}")
    return config, split


def _scores_and_results(
    parts: Parts, split: str, progress: Callable[[int, int], None]
) -> tuple[dict[str, float], dict[str, TaskResult]]:
    """The scores on a split, and the result for each output by the name of its loss, that of the first loss first."""
    tasks = tasks_of(parts.loss.terms)
    parts.loss.saves_call = parts.loss.saves_call or len(tasks) > 1
    pairs: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in tasks}
    first = next(iter(tasks))

    def keep(inputs: Nested, output: Tensor, targets: Tensor) -> None:
        pairs[first].append((output, targets))
        progress(len(pairs[first]), len(parts.loaders[split]))
        for name, term in tasks.items():
            if name != first:
                pairs[name].append(parts.loss.compared(**parts.loss.last_call, term=term))

    scores = evaluate(parts, split, keep, check_stop=ACTIVITY.report)
    return scores, {name: _result(parts, term, pairs[name]) for name, term in tasks.items()}


def _with_split(data: DataConfig, split: str, component: Component) -> DataConfig:
    if split not in SPLITS:
        raise LookupError(f"there is no split {split!r}; the splits are {', '.join(SPLITS)}")
    splits: dict[str, Any] = {split: component}
    return replace(data, **splits)


def _result(parts: Parts, term: Term, pairs: list[tuple[Tensor, Tensor]]) -> TaskResult:
    outputs, targets = (tdt.cat(list(side)).cpu() for side in zip(*pairs, strict=True))
    reading = Reading.of(term.loss)
    names, several = (
        class_names(parts.facts, parts.loss.terms[0], term),
        reading.threshold is not None and targets.numel() > len(targets),
    )
    predictions, classes = decided(reading, outputs, targets, names)
    if several:
        classes = named(names, targets.shape[1])
    return TaskResult(
        targets=targets.tolist(),
        predictions=predictions.tolist(),
        classes=classes,
        ignored=reading.ignore_index,
        several=several,
    )
