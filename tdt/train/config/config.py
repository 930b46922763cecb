"""The checked config: plain, frozen values with their positions in the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from tdt.train.config import calls, writer
from tdt.train.config.errors import ConfigErrors, Secret
from tdt.train.config.imports import Import
from tdt.train.config.losses import LossTerm
from tdt.train.config.metrics import Measure
from tdt.train.config.nodes import Call, Mapping, Node, Scalar
from tdt.train.config.parts import Component, Part
from tdt.train.config.rules import InitRule, ParamGroup
from tdt.train.config.run_length import fill, fill_nodes
from tdt.train.config.search import Domain
from tdt.train.config.sections import Checkpoint, Loader, Log, Sweep, Targets, Train, Weights
from tdt.train.config.source import COMMAND_LINE, Source

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class DataConfig:
    """Datasets by split (or None), transforms, and the loaders of the training split and of the others."""

    train: Component
    valid: Component | None
    test: Component | None
    transform: tuple[Component, ...]
    augment: tuple[Component, ...]
    loader: Loader
    eval_loader: Loader

    def splits(self) -> dict[str, Component]:
        """The datasets that are configured, in the order train, valid, test."""
        return {name: component for name in SPLITS if (component := getattr(self, name)) is not None}


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer with its defaults, and the parameter groups with other options."""

    component: Component
    param_groups: tuple[ParamGroup, ...]


@dataclass(frozen=True)
class SchedulerConfig:
    """A learning-rate scheduler and whether it steps each "epoch" or each "step" (optimizer step).

    monitor: `split/metric` that ReduceLROnPlateau monitors; monitored_at: its position.
    """

    component: Component
    interval: str
    monitor: str | None = None
    monitored_at: Source | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Config:
    """A checked config. Configs with equal values are equal, whatever their positions.

    sweep, search: how `tdt tune` varies it, and the domain of each setting. They are no part of a run: neither compared
    nor written by `resolved`.
    """

    name: str
    seed: int
    device: str
    dtype: str
    data: DataConfig
    targets: Targets | None
    model: Part
    weights: Weights | None
    init: tuple[InitRule, ...]
    loss: tuple[LossTerm, ...]
    metrics: dict[str, Measure]  # by the name under which each is logged
    optimizer: OptimizerConfig
    scheduler: SchedulerConfig | None
    callbacks: tuple[Component, ...]
    train: Train
    checkpoint: Checkpoint
    log: Log
    imports: tuple[Import, ...]
    file: str = field(compare=False)
    sweep: Sweep | None = field(compare=False)
    search: dict[str, Domain] = field(compare=False)
    _root: Mapping = field(compare=False, repr=False)

    def source(self, key_path: str) -> Source:
        """Position of `key_path` ("optimizer.lr", "model.0"), or of the closest level above that is written."""
        return place(self._root, key_path)

    @property
    def secrets(self) -> list[Secret]:
        """The values from the environment, which messages must not show."""
        leaves = writer.leaves(self._root, inside_calls=True)
        return [
            Secret(node.text, node.value, node.written, ".".join(path), node.source)
            for path, node in leaves
            if isinstance(node, Scalar) and node.written and "${env:" in node.written
        ]

    def resolved(self) -> str:
        """YAML text with every default; `loads` reads it as the same config."""
        return self._resolved

    @cached_property
    def _resolved(self) -> str:
        return writer.write(self, self._root)

    def annotated(self, depth: int | None = None) -> str:
        """`resolved`, with the origin of each value as a comment: its file and line, the command line, or default.

        depth: levels of keys to show; a key with something below shows `…`.
        """
        return writer.annotate(self.resolved(), self.origin, depth)

    def origin(self, keys: tuple[str, ...]) -> str:
        """Origin of the value under `keys`: "digits.yaml:12", "command line" or "default"."""
        node, depth = _reach(self._root, keys)
        if depth < len(keys) and not (
            isinstance(node, Call) and keys[0] == "data"
        ):  # `by_name` lists what a dataset's call has
            return "default"
        return "command line" if node.where.file == COMMAND_LINE else f"{node.where.file}:{node.where.line}"

    def with_length(self, epochs: int | None, steps: int | None, errors: ConfigErrors) -> Config:
        """The config with `${run.epochs}` and `${run.steps}` replaced by the length of the whole run.

        Reports a reference whose number is None.
        """
        node = self._root.items.get("scheduler")
        if self.scheduler is None or node is None:
            return self
        before, lengths = len(errors), {"epochs": epochs, "steps": steps}
        filled = fill_nodes(node, lengths, "scheduler", errors)
        if len(errors) > before:
            return self
        component = fill(self.scheduler.component, lengths)
        root = replace(self._root, items=self._root.items | {"scheduler": filled})
        return replace(self, scheduler=replace(self.scheduler, component=component), _root=root)

    def draft(self) -> Draft:
        """This config as a draft without mistakes, to which a builder can add those it finds."""
        groups, freeze = self.optimizer.param_groups, self.train.freeze or ()
        return Draft(
            ConfigErrors(self), self.data, self.model, self.init, groups, freeze, lambda: self, self.sweep, self.search
        )


@dataclass
class Draft:
    """The readable part of a config and the mistakes in the rest, to which a builder can add those it finds.

    model, data: None if there is a mistake in that section. init, param_groups, freeze: the valid rules and patterns.
    errors: the mistakes so far; `finish` raises them, or returns the config. sweep, search: as in Config.
    """

    errors: ConfigErrors
    data: DataConfig | None
    model: Part | None
    init: tuple[InitRule, ...]
    param_groups: tuple[ParamGroup, ...]
    freeze: tuple[str, ...]
    _make: Callable[[], Config] = field(repr=False)
    sweep: Sweep | None = None
    search: dict[str, Domain] = field(default_factory=dict)

    def finish(self) -> Config:
        """The config. Raises ConfigError with everything in `errors`."""
        self.errors.raise_if_any()
        return self._make()


def place(root: Mapping, key_path: str) -> Source:
    """Position of `key_path`, inside calls too, or of the closest level above that is written."""
    return _reach(root, tuple(key_path.split(".") if key_path else ()))[0].where


def _reach(root: Mapping, keys: tuple[str, ...]) -> tuple[Node, int]:
    """The node under `keys`, or the closest level above, and its depth."""
    node: Node = root
    for depth, part in enumerate(keys):
        below = calls.child_of(node, part)
        if below is None:
            return node, depth
        node = below
    return node, len(keys)
