"""The training loop: epochs, steps, validation, checkpoints; emits events.

    for each epoch:  for each step: forward, loss, backward (of each of its batches), clip, step  →  StepDone
                     validate → EpochDone → Validated → scheduler → checkpoint

A checkpoint holds the whole state, so that a run that is killed anywhere resumes from the last one and ends with the same
bits as an uninterrupted run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from tdt import Tensor
from tdt._activity import ACTIVITY
from tdt._backend import raise_pending
from tdt._compiled.function import Difference
from tdt.train._agreement import shared
from tdt.train._types import Arrays, Callback, Json
from tdt.train.checks.labels import label_error
from tdt.train.config import Every
from tdt.train.data.loading import batch_indices
from tdt.train.data.nested import on_host
from tdt.train.data.shards import ShardedBatches
from tdt.train.data.stream import StreamOrder
from tdt.train.errors import CompileError, NonFiniteLoss, StepError, Stopped, error_context, few, non_finite
from tdt.train.logging.callbacks import Callbacks
from tdt.train.logging.events import (
    CheckpointSaved,
    EpochDone,
    Event,
    Events,
    RunStarted,
    StepDone,
    Validated,
    has_histograms,
)
from tdt.train.loop.average import Average
from tdt.train.loop.evaluation import batches, check_batches, evaluate, loaded, refresh, stop_if_any
from tdt.train.loop.length import Length
from tdt.train.loop.parts import Parts
from tdt.train.loop.sharded_step import LOADING, ShardedStep
from tdt.train.loop.state import pack, pack_optimizer, unpack
from tdt.train.loop.train_step import TrainStep
from tdt.train.metrics import Loss, Metric, add_each, scores_of, tagged
from tdt.train.runs._environment import peak_memory
from tdt.train.runs._fault import fault_point
from tdt.train.runs.checkpoint import CheckpointStore
from tdt.train.runs.rows import Rows


class Counted(NamedTuple):
    """What a batch, or a shard of it, adds to the metrics. step: the one before. place: as `TrainStep.place`."""

    step: int
    place: tuple[int, int]
    size: int
    sums: dict[str, Any]


class Trainer:
    """The training loop over the parts of a run.

    Args:
        parts: model, data and run, as `build` returns them.
        events: its subscribers get every event, and every batch of a validation.
        store: writes the checkpoints; None on other ranks than the first.
        describe: JSON-able facts that every checkpoint carries (config, versions).
        check_stop: called after every step, and after every batch of an evaluation; may raise Stopped.
    """

    def __init__(
        self,
        parts: Parts,
        events: Events,
        store: CheckpointStore | None,
        describe: Json,
        check_stop: Callback = lambda: None,
    ) -> None:
        self.parts, self.events, self.store, self.describe = parts, events, store, describe
        self.check_stop = check_stop
        self.callbacks = Callbacks(parts.callbacks, parts)
        self.train = parts.config.train
        self.length = Length(self.train, len(parts.loaders["train"]))
        self.ranks = parts.ranks
        steps = self.length.steps_per_epoch
        self.train_step = TrainStep(parts, steps) if parts.shards is None else ShardedStep(parts, steps, check_stop)
        if self.train.ema is not None or self.train.swa is not None:
            parts.average = Average(parts.model, self.train)
        self.step = self.epoch = 0
        self.finished_step = 0  # the last step whose `_after_step` is complete
        self.over = False  # training has ended
        self.best, self.stopping = parts.best_score(), parts.early_stopping()
        self.saved_at: tuple[int, int] | None = None  # step and `settled` of the last checkpoint
        self.resumed = False
        self.epoch_means = parts.new_metrics()  # since the epoch began
        self.recent_means = parts.new_metrics()  # since the last logged step
        self.rows = None if store is None else Rows(store.folder / "rows")
        self._counted: list[Counted] = []  # of the current step
        self._not_added: list[Counted] = []  # of earlier steps, until the ranks exchange them
        self._error_context = error_context(self._where)
        self._since = time.perf_counter()
        self._loss_shown = False

    def fit(self) -> None:
        """Train to the end.

        Raises:
            Stopped: by `check_stop`; a checkpoint has been saved.
            NonFiniteLoss: on a CPU before the step that would spoil the weights.
            StepError: data, model or loss raised an exception.
        """
        length = self.length
        folder = self.ranks.from_first(None if self.store is None else self.store.folder.parent)
        self._emit(RunStarted, folder=folder, steps=length.steps, epochs=length.epochs, resumed=self.resumed)
        if self.step == 0:
            check_batches(self.parts, self.check_stop)
        self._since = time.perf_counter()
        try:
            while not self.over:
                self._run_epoch()
        except Stopped:
            if not self._counted:  # inside a step the generators are ahead of it: the last checkpoint counts
                self.save()
            raise
        self.save()

    def _run_epoch(self) -> None:
        """The rest of the current epoch."""
        if self.finished_step != self.step:  # the run was stopped during its validation
            self._after_step()
            return
        self.parts.train_mode()
        for group in self._groups():
            self._train_step(group)
            fault_point("train.step")
            self._after_step()
            if self.ranks.size == 1:
                self.check_stop()
            else:
                stop_if_any(self.train_step.stops)
            if self.over:
                return

    def _groups(self) -> Iterator[Iterable[Any]]:
        """The batches of each step, to be consumed in order."""
        loader = self.parts.loaders["train"]
        if isinstance(order := getattr(loader.batch_sampler, "sampler", None), StreamOrder):
            order.epoch = self.epoch
        if isinstance(loader.batch_sampler, ShardedBatches):
            loader.batch_sampler.epoch = self.epoch
            each = loaded(self.parts, loader, self.check_stop)
        else:
            each = batches(self.parts, "train", self.check_stop)
        with self._error_context:
            for first in each:
                yield chain((first,), islice(each, self.train.accumulate - 1))

    def _train_step(self, group: Iterable[Any]) -> None:
        step = self.train_step
        with self._error_context:
            step.run(group, self.step + 1, self._compute)
            step.step(self.step + 1)
        self.step += 1
        ACTIVITY.report(step=self.step)
        counted, self._counted = self._counted, []
        if self.ranks.size == 1:
            self._add(sorted(counted, key=lambda one: one.place[::-1]))
        else:
            self._not_added += counted
        if self.parts.average is not None:
            self.parts.average.update(self.epoch + 1 if self._epoch_ended() else None)
        loss = self._first_loss()
        scalars = self._measure() if self._is_time(self.parts.config.log.every) else {}
        samples = step.samples if isinstance(step, ShardedStep) else sum(one.size for one in counted)
        self._emit(StepDone, samples=samples, scalars=scalars, loss=loss)
        self.parts.schedule("step", self.epoch, {})

    def _compute(self, inputs: Tensor, targets: Tensor) -> bool:
        """Compute the gradients of a batch, or of a shard of it. Returns False if the loss is not finite."""
        step = self.train_step
        try:
            output, targets, loss = step.forward(inputs, targets)
        except Difference as difference:
            where = f"step {self.step + 1}, on the training samples {few(self._samples())}"
            step.fail(CompileError.of(difference, self.parts.model, where))
            return False
        except IndexError as error:
            raise label_error("train", self.parts, targets, self._samples()) or error from error
        # Reading the loss would synchronise the GPU; `_check` does that later.
        if not loss.is_cuda and not math.isfinite(loss.item()) and step.counts(targets):
            step.fail(non_finite(self.step + 1, loss.item(), self._samples(), inputs, targets))
            return False
        step.backward(loss, targets)
        ACTIVITY.report()
        sums = step.sums(self.epoch_means, output, targets, loss)
        self._counted.append(Counted(self.step, step.place, len(targets), sums))
        return True

    def _add(self, counted: Iterable[Counted]) -> None:
        """Add what was counted to the running metrics."""
        for _, _, size, sums in counted:
            means = self.epoch_means, self.recent_means
            add_each([(of[name], amount) for name, amount in sums.items() for of in means], size)

    def _collect(self) -> None:
        """Add what all ranks have counted to the running metrics of the first, in the order of steps, shards and batches."""
        if self.ranks.size == 1:
            return
        own = [one._replace(sums=on_host(one.sums)) for one in self._not_added]
        self._not_added = []
        counted = self.ranks.exchange(own, "metrics")
        if self.ranks.first:
            self._add(sorted(chain.from_iterable(counted), key=lambda one: (one.step, *reversed(one.place))))

    def _samples(self) -> list[int]:
        """Indices of the training samples of the current batch, or of its current shard; while it is loaded, of this rank's."""
        steps, shards = self.step - self.epoch * self.length.steps_per_epoch, self.parts.shards
        batch, shard = self.train_step.place if shards else (len(self._counted), 0)
        indices = batch_indices(self.parts.loaders["train"], steps * self.train.accumulate + batch)
        if shards is None:
            return indices
        each = shards.cut(indices)
        return each[shard] if shard != LOADING else [i for own in shards.own for i in each[own]]

    def _where(self) -> str:
        return f"step {self.step + 1} failed on the training samples {few(self._samples())}"

    def _recent_loss(self) -> Loss:
        loss = self.recent_means["loss"]
        assert isinstance(loss, Loss)
        return loss

    def _first_loss(self) -> float | None:
        """The loss of the first step here, which is shown at once; the next ones when they are logged."""
        if self._loss_shown or self.ranks.size > 1:
            return None
        self._loss_shown = True
        return self._recent_loss().compute()

    def _check(self, scalars: Callable[[], dict[str, float]] = dict) -> dict[str, float]:
        """Raise NonFiniteLoss on all ranks if the loss since the last logged step is not finite. Returns rank 0's scalars."""
        self._collect()
        try:
            raise_pending()
        except IndexError as error:
            raise StepError(f"step {self.step} or one since the last logged step: {error}") from error
        loss = float(self._recent_loss().total)
        own = scalars() if self.ranks.first and math.isfinite(loss) else {}
        loss, found = self.ranks.from_first((loss, own))
        if not math.isfinite(loss):
            raise shared(NonFiniteLoss(self.step, loss))
        return found

    def _measure(self) -> dict[str, float]:
        """Loss, metrics, learning rates and speed since the last logged step."""
        rates = self.train_step.rates(self.step)
        found = self._check(lambda: tagged("train", scores_of(self.recent_means)) | rates | self._costs())
        self._since = time.perf_counter()
        for metric in self.recent_means.values():
            metric.reset()
        return found

    def _costs(self) -> dict[str, float]:
        """Memory and speed since the last logged step."""
        speed = self._recent_loss().count / max(time.perf_counter() - self._since, 1e-9)
        return {"time/peak_memory_mb": peak_memory() / 2**20, "time/samples_per_second": speed}

    def _agree(self) -> None:
        """Share what rank 0 knows of the time, and why callbacks on any rank have ended the training."""
        if self.ranks.size > 1 and (self.length.seconds is not None or self.callbacks.callbacks):
            known = self.ranks.exchange((self.length.elapsed(), self.callbacks.stopped_by), "end of the run")
            self.length.agreed = known[0][0]
            self.callbacks.stopped_by = next((by for _, by in known if by is not None), None)

    def _after_step(self) -> None:
        """Do what is due after a step: validate, emit events, end the epoch, save."""
        self._agree()
        save, better, ended = self._is_time(self.parts.config.checkpoint.every), False, self._epoch_ended()
        over = self.length.is_over(self.step) or self.callbacks.stopped_by is not None
        if over or ended or self._is_time(self.train.validate_every):
            better = self._evaluate_epoch(ended, over)
        self.finished_step = self.step
        if save or better:
            self.save(better)

    def _evaluate_epoch(self, ended: bool, over: bool) -> bool:
        """Validate; update schedulers, best score and early stopping. Returns whether the score is the best so far.

        Scores that are computed only because the run is over choose the best checkpoint, and change nothing else: a run
        whose length is increased afterwards trains as if it had had this length from the beginning.
        """
        parts, scores = self.parts, dict[str, dict[str, float]]()
        scheduled = {"train": ended, "valid": self._is_time(self.train.validate_every)}
        if "valid" in parts.loaders and (over or scheduled["valid"]):
            # First, since it may be stopped, and then starts again on resume.
            scores["valid"] = self._validate(scheduled["valid"])
        if ended or over:
            self._collect()
            scores["train"] = self.ranks.from_first(scores_of(self.epoch_means))
            self._emit(EpochDone, scalars=tagged("train_epoch", scores["train"]), validated="valid" in scores)
        better = self.best.update(scores)
        scheduled_scores = {split: values for split, values in scores.items() if scheduled[split]}
        self.stopping.update(scheduled_scores)
        self.over = over or self.stopping.patience_is_over
        if "valid" in scores:
            self._emit(Validated, scalars=tagged("valid", scores["valid"]), best=better)
            self._agree()
            self.over = self.over or self.callbacks.stopped_by is not None
        parts.schedule("epoch" if ended else "validation", self.epoch + ended, scheduled_scores)
        if ended:
            self.epoch += 1
            self.epoch_means = parts.new_metrics()
        return better

    def _validate(self, scheduled: bool) -> dict[str, float]:
        """The scores of the valid split. Unless `scheduled`, the generators are restored, since training may be extended."""
        ACTIVITY.report("validating")
        began, restore_rng = time.perf_counter(), self.parts.snapshot_rng(self.parts.loaders["valid"])
        try:
            refresh(self.parts, self.check_stop)
            on_batch = self.events.on_batch if self.events.take_batches else None
            scores = evaluate(self.parts, "valid", on_batch, self.check_stop)
        except Stopped:
            restore_rng()
            raise
        finally:
            ACTIVITY.report("training")
            self._since += time.perf_counter() - began  # the logged speed is that of training alone
            self.parts.train_mode()
        if not scheduled:
            restore_rng()
        return scores

    @property
    def metrics(self) -> dict[str, Metric]:
        """All running metrics by unique name."""
        both = {"epoch": self.epoch_means, "recent": self.recent_means}
        return {f"{kind}/{name}": metric for kind, metrics in both.items() for name, metric in metrics.items()}

    def _emit(self, kind: type[Event], **facts: Any) -> None:
        event = kind(step=self.step, epoch=self.epoch, **facts)
        if has_histograms(self.parts.config.log.histograms, event):
            self.train_step.gather_gradients()
        self.events.emit(event)

    def _epoch_ended(self) -> bool:
        return self.step == (self.epoch + 1) * self.length.steps_per_epoch

    def _is_time(self, every: Every) -> bool:
        """Whether something with the interval `every` is due after this step."""
        if every.unit == "step":
            return self.step % every.count == 0
        return self._epoch_ended() and (self.epoch + 1) % every.count == 0

    def save(self, best: bool = False) -> None:
        """Write a checkpoint, after the logs have reached the disk. Does nothing if nothing is new."""
        if self.saved_at == (self.step, self.finished_step):
            return
        self._check()
        self.train_step.read()
        ACTIVITY.report("saving")
        path = self.ranks.from_first(self._write(best), "checkpoint")
        ACTIVITY.report("training")
        self.saved_at = self.step, self.finished_step
        self._emit(CheckpointSaved, path=path, best=best)

    def _write(self, best: bool) -> Path | None:
        """Write a checkpoint on the first rank. Returns its path."""
        optimizer = pack_optimizer(self.parts)
        if self.store is None or self.rows is None:
            return None
        self.rows.save(self.step, self.metrics)
        tensors, state = pack(self, optimizer)
        meta = self.describe | state | {"logs": self.events.sync()}
        path = self.store.save(self.step, tensors, meta, best=best)
        self.rows.prune(self.store.steps())
        return path

    def resume(self, tensors: Arrays, meta: Json) -> None:
        """Restore the state of a checkpoint."""
        unpack(self, tensors, meta)
        self.saved_at, self.resumed = (self.step, self.finished_step), True
