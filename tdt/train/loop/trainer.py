"""The training loop: epochs, steps, validation, checkpoints; emits events.

    for each epoch:  for each step: forward, loss, backward (of each of its batches), clip, step  →  StepDone
                     validate → EpochDone → Validated → scheduler → checkpoint

A checkpoint holds the whole state, so that a run that is killed anywhere resumes from the last one and ends with the same
bits as an uninterrupted run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from tdt import Tensor
from tdt.train._types import Arrays, Callback, Json
from tdt.train.checks.labels import label_error
from tdt.train.config import Every
from tdt.train.data.loading import batch_indices
from tdt.train.errors import NonFiniteLoss, Stopped, error_context, few, non_finite
from tdt.train.logging.callbacks import Callbacks
from tdt.train.logging.events import CheckpointSaved, EpochDone, Event, Events, RunStarted, StepDone, Validated
from tdt.train.loop.average import Average
from tdt.train.loop.evaluation import batches, check_batches, evaluate, refresh
from tdt.train.loop.length import Length
from tdt.train.loop.parts import Parts
from tdt.train.loop.state import pack, unpack
from tdt.train.loop.train_step import TrainStep
from tdt.train.metrics import Loss, Metric, scores_of, tagged
from tdt.train.runs._environment import peak_memory
from tdt.train.runs._fault import fault_point
from tdt.train.runs.checkpoint import CheckpointStore
from tdt.train.runs.rows import Rows


class Trainer:
    """The training loop over the parts of a run.

    Args:
        parts: model, data and run, as `build` returns them.
        events: its subscribers get every event, and every batch of a validation.
        store: writes the checkpoints.
        describe: JSON-able facts that every checkpoint carries (config, versions).
        check_stop: called after every step, and after every batch of an evaluation; may raise Stopped.
    """

    def __init__(
        self,
        parts: Parts,
        events: Events,
        store: CheckpointStore,
        describe: Json,
        check_stop: Callback = lambda: None,
    ) -> None:
        self.parts, self.events, self.store, self.describe = parts, events, store, describe
        self.check_stop = check_stop
        self.callbacks = Callbacks(parts.callbacks, parts)
        self.train = parts.config.train
        self.length = Length(self.train, len(parts.loaders["train"]))
        self.train_step = TrainStep(parts, self.length.steps_per_epoch)
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
        self.rows = Rows(store.folder / "rows")
        self._counted: list[tuple[int, dict[str, Any]]] = []  # samples and sums of the batches of the current step
        self._error_context = error_context(self._where)
        self._since = time.perf_counter()

    def fit(self) -> None:
        """Train to the end.

        Raises:
            Stopped: by `check_stop`; a checkpoint has been saved.
            NonFiniteLoss: on a CPU before the step that would spoil the weights.
            StepError: data, model or loss raised an exception.
        """
        length, folder = self.length, self.store.folder.parent
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
            self.check_stop()
            if self.over:
                return

    def _groups(self) -> Iterator[Iterable[tuple[Tensor, Tensor]]]:
        """The batches of each step, to be consumed in order."""
        each = batches(self.parts, "train", self.check_stop)
        with self._error_context:
            for first in each:
                yield chain((first,), islice(each, self.train.accumulate - 1))

    def _train_step(self, group: Iterable[tuple[Tensor, Tensor]]) -> None:
        with self._error_context:
            for inputs, targets in group:
                try:
                    output, targets, loss = self.train_step.forward(inputs, targets)
                except IndexError as error:
                    raise label_error("train", self.parts, targets, self._samples()) or error from error
                # Reading the loss would synchronise the GPU; `_check` does that later.
                if not loss.is_cuda and not math.isfinite(loss.item()):
                    raise non_finite(self.step + 1, loss.item(), self._samples(), inputs, targets)
                self.train_step.backward(loss, targets)
                sums = {name: metric.batch_sum(output, targets, loss) for name, metric in self.epoch_means.items()}
                self._counted.append((len(targets), sums))
            self.train_step.step(self.step + 1)
        self.step += 1
        counted, self._counted = self._counted, []
        for n, sums in counted:
            for name, amount in sums.items():
                self.epoch_means[name].add(amount, n)
                self.recent_means[name].add(amount, n)
        if self.parts.average is not None:
            self.parts.average.update(self.epoch + 1 if self._epoch_ended() else None)
        scalars = self._measure() if self._is_time(self.parts.config.log.every) else {}
        self._emit(StepDone, samples=sum(n for n, _ in counted), scalars=scalars)
        self.parts.schedule("step", self.epoch, {})

    def _samples(self) -> list[int]:
        """Indices of the training samples of the current batch."""
        steps, done = self.step - self.epoch * self.length.steps_per_epoch, len(self._counted)
        return batch_indices(self.parts.loaders["train"], steps * self.train.accumulate + done)

    def _where(self) -> str:
        return f"step {self.step + 1} failed on the training samples {few(self._samples())}"

    def _recent_loss(self) -> Loss:
        loss = self.recent_means["loss"]
        assert isinstance(loss, Loss)
        return loss

    def _check(self) -> None:
        loss = float(self._recent_loss().total)
        if not math.isfinite(loss):
            raise NonFiniteLoss(self.step, loss)

    def _measure(self) -> dict[str, float]:
        """Loss, metrics, learning rates and speed since the last logged step."""
        self._check()
        scalars = tagged("train", scores_of(self.recent_means)) | self.train_step.rates(self.step)
        now = time.perf_counter()
        scalars["time/peak_memory_mb"] = peak_memory() / 2**20
        scalars["time/samples_per_second"] = self._recent_loss().count / max(now - self._since, 1e-9)
        self._since = now
        for metric in self.recent_means.values():
            metric.reset()
        return scalars

    def _after_step(self) -> None:
        """Do what is due after a step: validate, emit events, end the epoch, save."""
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
            scores["train"] = scores_of(self.epoch_means)
            self._emit(EpochDone, scalars=tagged("train_epoch", scores["train"]), validated="valid" in scores)
        better = self.best.update(scores)
        scheduled_scores = {split: values for split, values in scores.items() if scheduled[split]}
        self.stopping.update(scheduled_scores)
        self.over = over or self.stopping.patience_is_over
        if "valid" in scores:
            self._emit(Validated, scalars=tagged("valid", scores["valid"]), best=better)
            self.over = self.over or self.callbacks.stopped_by is not None
        parts.schedule("epoch" if ended else "validation", self.epoch + ended, scheduled_scores)
        if ended:
            self.epoch += 1
            self.epoch_means = parts.new_metrics()
        return better

    def _validate(self, scheduled: bool) -> dict[str, float]:
        """The scores of the valid split. Unless `scheduled`, the generators are restored, since training may be extended."""
        began, restore_rng = time.perf_counter(), self.parts.snapshot_rng(self.parts.loaders["valid"])
        try:
            refresh(self.parts, self.check_stop)
            scores = evaluate(self.parts, "valid", self.events.on_batch, self.check_stop)
        except Stopped:
            restore_rng()
            raise
        finally:
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
        self.events.emit(kind(step=self.step, epoch=self.epoch, **facts))

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
        self.rows.save(self.step, self.metrics)
        tensors, state = pack(self)
        meta = self.describe | state | {"logs": self.events.sync()}
        path = self.store.save(self.step, tensors, meta, best=best)
        self.rows.prune(self.store.steps())
        self.saved_at = self.step, self.finished_step
        self._emit(CheckpointSaved, path=path, best=best)

    def resume(self, tensors: Arrays, meta: Json) -> None:
        """Restore the state of a checkpoint."""
        unpack(self, tensors, meta)
        self.saved_at, self.resumed = (self.step, self.finished_step), True
