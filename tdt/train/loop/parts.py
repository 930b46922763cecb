"""What a run consists of: the model and what trains it, the data, and both together with their config."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tdt
from tdt import Tensor, nn
from tdt._backend import gpu_index
from tdt._random import cuda_generator
from tdt.optim import Optimizer
from tdt.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from tdt.optim.swa_utils import SWALR
from tdt.train._ranks import Ranks
from tdt.train._types import Json, Nested
from tdt.train.checks.shapes import Row
from tdt.train.config import Component, Config, Problem, registry
from tdt.train.data.nested import mapped
from tdt.train.data.shards import Shards
from tdt.train.errors import error_context
from tdt.train.logging.callbacks import Callback
from tdt.train.loop.average import Average
from tdt.train.loop.early_stopping import BestScore, EarlyStopping, Scores
from tdt.train.loop.length import Length
from tdt.train.loop.shard_optimizer import Owners
from tdt.train.metrics import Loss, Metric
from tdt.train.model.computation import Computation, Forward
from tdt.train.model.objective import Objective, TermMean
from tdt.utils.data import DataLoader


def split_and_metric(score: str) -> tuple[str, str]:
    """`split/metric` of a config as a pair."""
    split, _, metric = score.partition("/")
    return split, metric


_scheduling = error_context(lambda: "the scheduler failed")


@dataclass(kw_only=True)
class ModelParts:
    """The model, its loss, and what updates its weights.

    rows: its layers. sources: what declares each layer that the config names. groups: (parameter name, index of its parameter
    group). channels_last: whether the model takes images in that memory format.
    """

    model: nn.Module
    loss: Objective
    rows: list[Row]
    optimizer: Optimizer = None  # type: ignore[assignment]  # None if the model is only evaluated
    scheduler: LRScheduler | None = None
    swa_scheduler: SWALR | None = None
    groups: list[tuple[str, int]] = field(default_factory=list)
    sources: dict[nn.Module, Component] = field(default_factory=dict)
    frozen_norms: tuple[nn.Module, ...] = ()
    average: Average | None = None
    channels_last: bool = False

    @property
    def scored(self) -> nn.Module:
        """The model that is evaluated: the average of its weights during training (EMA, SWA) if there is one."""
        return self.model if self.average is None else self.average.model

    def train_mode(self) -> None:
        """Put the model into training mode, except for frozen batch norms."""
        self.model.train()
        for norm in self.frozen_norms:
            norm.eval()


@dataclass(kw_only=True)
class DataParts:
    """A loader for each split, the generators that the training data draw from, and what is known about the data.

    facts: classes and shapes (`Split.facts`). samples: how many each split has. files: the files that each split reads.
    notes: what each split leaves out or replaces, with counts.
    """

    data_generator: tdt.Generator
    augment_generator: tdt.Generator
    loaders: dict[str, DataLoader] = field(default_factory=dict)
    facts: Json = field(default_factory=dict)
    samples: dict[str, int] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)


@dataclass(kw_only=True)
class Parts(ModelParts, DataParts):
    """Model and data of a run, with its config and device. warnings: suspicious settings, and planned downloads.

    ranks: the processes that train together. shards: into what they cut a batch; None if it is one. owners: of parameters,
    where each rank has the optimizer's state of its own ones only.
    """

    config: Config
    device: tdt.device
    ranks: Ranks = field(default_factory=Ranks.alone)
    shards: Shards | None = None
    owners: Owners | None = None
    warnings: tuple[Problem, ...] = ()
    callbacks: tuple[Callback, ...] = ()
    _computations: dict[nn.Module, Computation] = field(default_factory=dict)
    _evaluations: dict[nn.Module, Computation] = field(default_factory=dict)

    def place(self, batch: Nested) -> Any:
        """A batch, or the parts of one, on the run's device, in the dtype and memory format of the model."""
        if not isinstance(batch, Tensor):
            return mapped(self.place, batch)
        if self.device.type != "cpu":
            batch = batch.to(self.device)
        if batch.dtype is tdt.float32 and self.config.dtype != "float32":
            batch = batch.double()
        return batch.contiguous(memory_format=tdt.channels_last) if self.channels_last and batch.ndim == 4 else batch

    def computation(self, model: nn.Module) -> Computation:
        """What is computed of a batch with a model: the one that is trained, or the one that is evaluated."""
        if model not in self._computations:
            forward = Forward(model, self.loss, self.config.train.amp)
            self._computations[model] = Computation(forward, self._why_not_compiled(model))
        return self._computations[model]

    @property
    def evaluation(self) -> Computation:
        """What is computed of a batch with `scored`, without gradients: on a GPU it is compiled, to CUDA graphs, too."""
        if self.device.type == "cpu":
            return self.computation(self.scored)
        if (model := self.scored) not in self._evaluations:
            forward = Forward(model, self.loss, self.config.train.amp)
            self._evaluations[model] = Computation(forward, self.why_called_anew(model))
        return self._evaluations[model]

    def _why_not_compiled(self, model: nn.Module) -> str | None:
        reason = self.why_called_anew(model)
        return "only computations on a CPU are" if reason is None and self.device.type != "cpu" else reason

    def why_called_anew(self, model: nn.Module) -> str | None:
        """Why the Python code of a model runs in each step, and not only where a step is recorded; None where it need not."""
        if self.config.train.compile is False:
            return "train.compile is false"
        own = (m for m in (*model.modules(), *self.loss.modules()) if type(m).__module__.partition(".")[0] != "tdt")
        if self.config.train.compile == "auto" and (found := next(own, None)) is not None:
            own_code = (
                f"{type(found).__name__} is your own, and its Python code would run only while a step is recorded"
            )
            return f"{own_code}; if that is enough, set train.compile: true"
        return None

    def generators(self) -> dict[str, tdt.Generator]:
        """Every generator that the run draws from, by name."""
        found = {"default": tdt.default_generator, "data": self.data_generator, "augment": self.augment_generator}
        if self.device.type == "cuda":
            found["cuda"] = cuda_generator(gpu_index(self.device))
        return found

    def snapshot_rng(self, loader: DataLoader | None = None) -> Callable[[], None]:
        """Note the state of every generator, and of `loader`. Returns a function that restores it."""
        position = {} if loader is None else loader.state_dict()
        states = {generator: generator.get_state() for generator in self.generators().values()}

        def restore() -> None:
            if loader is not None:
                loader.load_state_dict(position)
            for generator, state in states.items():
                generator.set_state(state)

        return restore

    def new_metrics(self) -> dict[str, Metric]:
        """Fresh metrics by name, the loss first. They read outputs and targets as their loss does."""
        terms = self.loss.terms
        metrics: dict[str, Metric] = {"loss": Loss()}
        metrics |= {term.name: TermMean(self.loss, term) for term in terms if len(terms) > 1}
        for name, measure in self.config.metrics.items():
            if name != "loss":
                metrics[name] = self.loss.measuring(registry.metrics.create(measure.component), measure.parts)
        metrics["loss"].reading = self.loss.reading
        return metrics

    @property
    def length(self) -> Length:
        """How long the training is."""
        whole, rest = divmod(self.samples["train"], self.config.data.loader.batch_size)
        return Length(self.config.train, whole + bool(rest and not self.config.data.loader.drop_last))

    @property
    def monitor(self) -> tuple[str, str] | None:
        """Split and metric that choose the best checkpoint: as configured, else the first metric, else the loss.

        None without a validation split, unless configured.
        """
        if self.config.checkpoint.best is not None:
            return split_and_metric(self.config.checkpoint.best)
        if "valid" not in self.loaders:
            return None
        return "valid", next((name for name in self.config.metrics if name != "loss"), "loss")

    def higher_is_better(self, metric: str) -> bool:
        """Whether a higher value of the metric with this name, or of the loss, is better."""
        return bool(self.new_metrics()[metric].higher_is_better)

    def best_score(self) -> BestScore:
        """The best value of the score that chooses the best checkpoint; nothing is known of it yet."""
        return BestScore(self.monitor, self.monitor is not None and self.higher_is_better(self.monitor[1]))

    def early_stopping(self) -> EarlyStopping:
        """Early stopping as configured; without it in the config, one that never stops the run.

        That one counts too: `train.early_stopping.patience` may be set when the run is resumed.
        """
        setting = self.config.train.early_stopping
        monitor = split_and_metric(setting.metric) if setting and setting.metric else self.monitor
        higher_is_better = monitor is not None and self.higher_is_better(monitor[1])
        if setting is None:
            return EarlyStopping(monitor, higher_is_better, min_delta=0.0, patience=None)
        return EarlyStopping(monitor, higher_is_better, setting.min_delta, setting.patience)

    def schedule(self, interval: str, epochs_ended: int, scores: Scores) -> None:
        """Step the scheduler if it steps each `interval`.

        ReduceLROnPlateau steps when `scores` has the one that it monitors: as configured, else the loss of the valid
        split, or of the train split if there is no valid one.

        Raises:
            StepError: its schedule has ended, as OneCycleLR's does after `total_steps`.
        """
        with _scheduling:
            self._schedule(interval, epochs_ended, scores)

    def _schedule(self, interval: str, epochs_ended: int, scores: Scores) -> None:
        swa = self.config.train.swa
        if self.swa_scheduler is not None and swa is not None and epochs_ended > swa.start:
            if interval == "epoch":
                self.swa_scheduler.step()
        elif isinstance(self.scheduler, ReduceLROnPlateau):
            default = f"{'valid' if 'valid' in self.loaders else 'train'}/loss"
            split, metric = split_and_metric((self.config.scheduler and self.config.scheduler.monitor) or default)
            if split in scores:
                self.scheduler.step(scores[split][metric])
        elif self.scheduler is not None and self.config.scheduler is not None:
            if self.config.scheduler.interval == interval:
                self.scheduler.step()
