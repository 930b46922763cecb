"""The training loop: epochs of steps, validation, checkpoints; what happens is told as events.

    for each epoch:  for each batch: forward, loss, backward, clip, step  →  StepDone
                     EpochDone → validate → Validated → scheduler → checkpoint

A checkpoint holds all that decides what comes next, so a run that is killed anywhere goes on from the last one and ends
as if it had never stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import tdt
from tdt import Tensor
from tdt.train._failures import NonFiniteLoss, Stopped, explained, few
from tdt.train._fault import fault_point
from tdt.train.build import Parts
from tdt.train.checkpoint import CheckpointStore
from tdt.train.config import Every
from tdt.train.data import batch_indices
from tdt.train.evaluation import batches, evaluate
from tdt.train.events import CheckpointSaved, EpochDone, Event, Events, RunStarted, StepDone, Validated
from tdt.train.state import pack, unpack


class Trainer:
    """Trains what `build` made of a config.

    parts: model, data, loss, optimizer and the rest. events: hears what happens. store: where checkpoints go.
    describe: JSON-able facts that every checkpoint carries (config, versions).
    obey: called after every step, and after every batch of an evaluation; may raise Stopped.
    """

    def __init__(self, parts: Parts, events: Events, store: CheckpointStore, describe: dict[str, Any]):
        self.parts, self.events, self.store, self.describe = parts, events, store, describe
        self.epochs = parts.config.train.epochs
        self.steps_per_epoch = len(parts.loaders["train"])
        self.step = self.epoch = 0
        self.best: float | None = None
        self.saved_at: tuple[int, int] | None = None  # step and epoch of the last checkpoint
        self.resumed = False
        self.obey: Callable[[], object] = lambda: None
        self.epoch_means = parts.new_metrics()  # since the epoch began
        self.recent_means = parts.new_metrics()  # since the last logged step
        self._since = time.perf_counter()

    def fit(self) -> None:
        """Train to the end.

        Raises Stopped, with all that was done saved, where `obey` does; NonFiniteLoss, on a CPU before
        the step that would spoil the weights; StepError for what data, model or loss refuse.
        """
        steps, folder = self.epochs * self.steps_per_epoch, self.store.folder.parent
        self._tell(RunStarted, folder=folder, steps=steps, epochs=self.epochs, resumed=self.resumed)
        self._since = time.perf_counter()
        try:
            while self.epoch < self.epochs:
                self._run_epoch()
        except Stopped:
            self.save()
            raise
        self.save()

    def _run_epoch(self) -> None:
        """The rest of the current epoch."""
        if self._epoch_ended():  # the run was stopped in its validation
            self._end_epoch()
            return
        self.parts.model.train()
        for inputs, targets in self._batches():
            self._train_step(inputs, targets)
            fault_point("train.step")
            if self._epoch_ended():
                self._end_epoch()
            elif self._due(self.parts.config.checkpoint.every):
                self.save()
            self.obey()

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        with explained(self._where):
            yield from batches(self.parts, "train", self.obey)

    def _train_step(self, inputs: Tensor, targets: Tensor) -> None:
        with explained(self._where):
            output, loss = self._learn(inputs, targets)
            n, metrics = len(targets), self.epoch_means.items()
            sums = {name: metric.batch_sum(output, targets, loss) for name, metric in metrics}
        self.step += 1
        for name, amount in sums.items():
            self.epoch_means[name].add(amount, n)
            self.recent_means[name].add(amount, n)
        scalars = self._measure() if self._due(self.parts.config.log.every) else {}
        self._tell(StepDone, samples=n, scalars=scalars)
        self.parts.schedule("step", {})

    def _learn(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        parts, clip = self.parts, self.parts.config.train.clip_grad_norm
        parts.optimizer.zero_grad()
        output = parts.model(inputs)
        loss = parts.loss(output, targets)
        if not loss.is_cuda and not math.isfinite(loss.item()):  # on a GPU, reading it would wait: `_check` looks later
            raise NonFiniteLoss(self.step + 1, loss.item(), self._samples())
        loss.backward()
        if clip is not None:
            tdt.nn.utils.clip_grad_norm_(parts.model.parameters(), clip)
        parts.optimizer.step()
        return output, loss

    def _samples(self) -> list[int]:
        """The training samples of the next step's batch."""
        return batch_indices(self.parts.loaders["train"], self.step - self.epoch * self.steps_per_epoch)

    def _where(self) -> str:
        return f"step {self.step + 1} failed on the training samples {few(self._samples())}"

    def _check(self) -> None:
        loss = float(self.recent_means["loss"].total)
        if not math.isfinite(loss):
            raise NonFiniteLoss(self.step, loss)

    def _measure(self) -> dict[str, float]:
        """Loss, metrics, learning rates and speed since the last logged step."""
        self._check()
        scalars = _tagged("train", {name: metric.compute() for name, metric in self.recent_means.items()})
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
        if "valid" in parts.loaders:  # before anything is told or changed, so that it can be stopped and begun again
            scores["valid"] = self._validate()
        for metric in self.epoch_means.values():
            metric.reset()
        self._tell(EpochDone, scalars=_tagged("train_epoch", scores["train"]))
        better = self._is_better(scores)
        if "valid" in scores:
            self._tell(Validated, scalars=_tagged("valid", scores["valid"]), best=better)
        parts.schedule("epoch", scores)
        due = self._due(parts.config.checkpoint.every)
        self.epoch += 1
        if due or better:
            self.save(better)

    def _validate(self) -> dict[str, float]:
        began, loader = time.perf_counter(), self.parts.loaders["train"]
        before = loader.state_dict()  # the process's generators too, which an evaluation draws from
        try:
            return evaluate(self.parts, "valid", obey=self.obey)
        except Stopped:
            loader.load_state_dict(before)
            raise
        finally:
            self._since += time.perf_counter() - began  # the speed that is logged is training's

    def _is_better(self, scores: dict[str, dict[str, float]]) -> bool:
        """Whether the score that chooses the best checkpoint is the best so far."""
        if self.parts.watched is None:
            return False
        split, name = self.parts.watched
        score, sign = scores[split][name], 1 if self.epoch_means[name].higher_is_better else -1
        better = not math.isnan(score) and (self.best is None or sign * score > sign * self.best)
        self.best = score if better else self.best
        return better

    def _tell(self, kind: type[Event], **facts: Any) -> None:
        self.events.emit(kind(step=self.step, epoch=self.epoch, **facts))

    def _epoch_ended(self) -> bool:
        return self.step == (self.epoch + 1) * self.steps_per_epoch

    def _due(self, every: Every) -> bool:
        """Whether something that happens `every` so often happens after this step."""
        if every.unit == "step":
            return self.step % every.count == 0
        return self._epoch_ended() and (self.epoch + 1) % every.count == 0

    def save(self, best: bool = False) -> None:
        """Write a checkpoint, after the logs that it counts are on the disk; none where nothing is new."""
        if self.saved_at == (self.step, self.epoch):
            return
        self._check()
        tensors, state = pack(self)
        meta = self.describe | state | {"logs": self.events.sync()}
        path = self.store.save(self.step, tensors, meta, best=best)
        self.saved_at = self.step, self.epoch
        self._tell(CheckpointSaved, path=path, best=best)

    def resume(self, tensors: dict[str, Any], meta: dict[str, Any]) -> None:
        """Go on from a checkpoint's tensors and facts."""
        unpack(self, tensors, meta)
        self.saved_at, self.resumed = (self.step, self.epoch), True


def _tagged(split: str, scores: dict[str, float]) -> dict[str, float]:
    return {f"{split}/{name}": value for name, value in scores.items()}
