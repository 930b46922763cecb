"""The training loop: epochs of steps, validation, checkpoints; what happens is told as events.

    for each epoch:  for each batch: forward, loss, backward, clip, step  →  StepDone
                     EpochDone → validate → Validated → scheduler → checkpoint

A checkpoint holds all that decides what comes next, so a run that is killed anywhere goes on from the last one and ends
as if it had never stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any

import tdt
from tdt import Tensor
from tdt.train._fault import fault_point
from tdt.train.build import Parts
from tdt.train.checkpoint import CheckpointStore
from tdt.train.config import Every
from tdt.train.data import last_indices
from tdt.train.events import CheckpointSaved, EpochDone, Events, RunStarted, StepDone, Validated
from tdt.train.state import pack, unpack


class NonFiniteLoss(Exception):
    """The loss became NaN or infinite: `step`, and the `indices` of the batch's samples in the training data."""

    def __init__(self, step: int, loss: float, indices: list[int]):
        self.step, self.loss, self.indices = step, loss, indices
        super().__init__(f"the loss became {loss} at step {step}, on the training samples {indices}")


class Trainer:
    """Trains what `build` made of a config.

    parts: model, data, loss, optimizer and the rest. events: hears what happens. store: where checkpoints go.
    describe: JSON-able facts that every checkpoint carries (config, versions).
    should_stop: asked after every step; a reason ends the run.
    """

    def __init__(self, parts: Parts, events: Events, store: CheckpointStore, describe: dict[str, Any]):
        self.parts, self.events, self.store, self.describe = parts, events, store, describe
        self.epochs = parts.config.train.epochs
        self.steps_per_epoch = len(parts.loaders["train"])
        self.step = self.epoch = 0
        self.best: float | None = None
        self.saved_at: int | None = None  # the step of the last checkpoint
        self.resumed = False
        self.should_stop: Callable[[], str | None] = lambda: None
        self.epoch_means = parts.new_metrics()  # since the epoch began
        self.recent_means = parts.new_metrics()  # since the last logged step
        self._since = time.perf_counter()

    def fit(self) -> str:
        """Train to the end, or until `should_stop` gives a reason; returns "done" or that reason.

        Raises NonFiniteLoss, before the step that would spoil the weights.
        """
        steps = self.epochs * self.steps_per_epoch
        self.events.emit(
            RunStarted(
                step=self.step, epoch=self.epoch, folder=self.store.folder.parent, steps=steps, epochs=self.epochs,
                resumed=self.resumed,
            )
        )  # fmt: skip
        self._since = time.perf_counter()
        reason = None
        while self.epoch < self.epochs and reason is None:
            reason = self._run_epoch()
        if self.saved_at != self.step:
            self.save()
        return reason or "done"

    def _run_epoch(self) -> str | None:
        """The rest of the current epoch; a reason if the run was asked to stop in it."""
        self.parts.model.train()
        for inputs, targets in self.parts.loaders["train"]:
            self._train_step(self.parts.place(inputs), self.parts.place(targets))
            fault_point("train.step")
            if self._epoch_ended():
                self._end_epoch()
            elif self._due(self.parts.config.checkpoint.every):
                self.save()
            reason = self.should_stop()
            if reason is not None:
                return reason
        return None

    def _train_step(self, inputs: Tensor, targets: Tensor) -> None:
        parts, config = self.parts, self.parts.config
        parts.optimizer.zero_grad()
        output = parts.model(inputs)
        loss = parts.loss(output, targets)
        if not loss.is_cuda:  # on a GPU, reading the loss would wait for it: `_measure` looks at the mean
            self._check(loss.item())
        loss.backward()
        if config.train.clip_grad_norm is not None:
            tdt.nn.utils.clip_grad_norm_(parts.model.parameters(), config.train.clip_grad_norm)
        parts.optimizer.step()
        self.step += 1
        n = len(targets)
        for name, metric in self.epoch_means.items():
            amount = metric.batch_sum(output, targets, loss)
            metric.add(amount, n)
            self.recent_means[name].add(amount, n)
        scalars = self._measure() if self._due(config.log.every) else {}
        self.events.emit(StepDone(step=self.step, epoch=self.epoch, samples=n, scalars=scalars))
        self._schedule("step")

    def _check(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise NonFiniteLoss(self.step + 1, loss, last_indices(self.parts.loaders["train"]))

    def _measure(self) -> dict[str, float]:
        """Loss, metrics, learning rates and speed since the last logged step."""
        scalars = _tagged("train", {name: metric.compute() for name, metric in self.recent_means.items()})
        self._check(scalars["train/loss"])
        groups = self.parts.optimizer.param_groups
        for i, group in enumerate(groups):
            scalars["lr" if len(groups) == 1 else f"lr/group{i}"] = float(group["lr"])
        now = time.perf_counter()
        scalars["time/samples_per_second"] = self.recent_means["loss"].count / max(now - self._since, 1e-9)
        self._since = now
        for metric in self.recent_means.values():
            metric.reset()
        return scalars

    def _end_epoch(self) -> None:
        parts = self.parts
        scores = {"train": {name: metric.compute() for name, metric in self.epoch_means.items()}}
        for metric in self.epoch_means.values():
            metric.reset()
        self.events.emit(EpochDone(step=self.step, epoch=self.epoch, scalars=_tagged("train_epoch", scores["train"])))
        if "valid" in parts.loaders:
            began = time.perf_counter()
            scores["valid"] = evaluate(parts, parts.loaders["valid"])
            self._since += time.perf_counter() - began  # the speed that is logged is training's
        better = self._is_better(scores)
        if "valid" in scores:
            tagged = _tagged("valid", scores["valid"])
            self.events.emit(Validated(step=self.step, epoch=self.epoch, scalars=tagged, best=better))
        self._schedule("epoch")
        due = self._due(parts.config.checkpoint.every)
        self.epoch += 1
        if due or better:
            self.save(better)

    def _is_better(self, scores: dict[str, dict[str, float]]) -> bool:
        """Whether the score that chooses the best checkpoint is the best so far."""
        if self.parts.watched is None:
            return False
        split, name = self.parts.watched
        score, sign = scores[split][name], 1 if self.epoch_means[name].higher_is_better else -1
        better = not math.isnan(score) and (self.best is None or sign * score > sign * self.best)
        self.best = score if better else self.best
        return better

    def _schedule(self, interval: str) -> None:
        scheduler = self.parts.config.scheduler
        if scheduler is not None and scheduler.interval == interval:
            self.parts.scheduler.step()

    def _epoch_ended(self) -> bool:
        return self.step == (self.epoch + 1) * self.steps_per_epoch

    def _due(self, every: Every) -> bool:
        """Whether something that happens `every` so often happens after this step."""
        if every.unit == "step":
            return self.step % every.count == 0
        return self._epoch_ended() and (self.epoch + 1) % every.count == 0

    def save(self, best: bool = False) -> None:
        """Write a checkpoint, after the logs that it counts are on the disk."""
        tensors, state = pack(self)
        meta = self.describe | state | {"logs": self.events.sync()}
        path = self.store.save(self.step, tensors, meta, best=best)
        self.saved_at = self.step
        self.events.emit(CheckpointSaved(step=self.step, epoch=self.epoch, path=path, best=best))

    def resume(self, tensors: dict[str, Any], meta: dict[str, Any]) -> None:
        """Go on from a checkpoint's tensors and facts."""
        unpack(self, tensors, meta)
        self.saved_at, self.resumed = self.step, True


def evaluate(parts: Parts, loader: Iterable[Any], outputs: list[Tensor] | None = None) -> dict[str, float]:
    """Loss and metrics of parts.model over a loader, in eval mode and without gradients.

    outputs: collects what the model gives for each batch.
    """
    metrics = parts.new_metrics()
    parts.model.eval()
    with tdt.no_grad():
        for inputs, targets in loader:
            inputs, targets = parts.place(inputs), parts.place(targets)
            output = parts.model(inputs)
            loss = parts.loss(output, targets)
            for metric in metrics.values():
                metric.update(output, targets, loss)
            if outputs is not None:
                outputs.append(output)
            fault_point("validate")
    return {name: metric.compute() for name, metric in metrics.items()}


def _tagged(split: str, scores: dict[str, float]) -> dict[str, float]:
    return {f"{split}/{name}": value for name, value in scores.items()}
