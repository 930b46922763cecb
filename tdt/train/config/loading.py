"""`load` and `loads`: text → Config, with every mistake reported at once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from collections.abc import Sequence as Texts
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tdt.train.config import find, inherit, overrides, references, registry, splits
from tdt.train.config.blocks import read_blocks
from tdt.train.config.components import check_call, read_call, read_component, read_components
from tdt.train.config.config import SPLITS, Config, DataConfig, Draft, OptimizerConfig, SchedulerConfig, place
from tdt.train.config.errors import ConfigError, ConfigErrors
from tdt.train.config.imports import read_imports
from tdt.train.config.losses import read_loss
from tdt.train.config.metrics import read_metrics
from tdt.train.config.models import ModelReader
from tdt.train.config.nodes import Mapping, Node, at, join, plain, present
from tdt.train.config.parts import Component, Part
from tdt.train.config.paths import located
from tdt.train.config.rules import ParamGroup, read_init, read_param_groups
from tdt.train.config.scalars import spell
from tdt.train.config.search import read_search
from tdt.train.config.sections import Data, Loader, Top, Weights
from tdt.train.config.training import check_training
from tdt.train.config.validate import validate


def load(name: str | os.PathLike[str], overrides: Texts[str] = ()) -> Config:
    """Load the config in the file `name`, or else the bundled config of that name.

    Args:
        overrides: `key=value` texts.
    Raises:
        ConfigError: with every mistake, sorted by line.
    """
    return draft(name, overrides).finish()


def draft(name: str | os.PathLike[str], overrides: Texts[str] = ()) -> Draft:
    """Like `load`, but keep mistakes in `.errors`, so that `build` can report its own with them.

    Raises:
        ConfigError: there is no such file, or it cannot be read.
    """
    errors = ConfigErrors()
    path = find.find(Path(name), errors)
    text = None if path is None else find.read_text(path, errors)
    errors.raise_if_any()
    assert text is not None
    return _draft(text, str(path), overrides)


def loads(text: str, file: str = "<string>", overrides: Texts[str] = ()) -> Config:
    """Load a config from text. `file` is shown in errors, and relative paths start from its folder.

    >>> from tdt.train import config
    >>> config.loads("")
    Traceback (most recent call last):
    tdt.train.config.errors.ConfigError: <string>:1:1: the config is empty; it needs data, model, loss, optimizer, train
    """
    return _draft(text, file, overrides).finish()


def _draft(text: str, file: str, changes: Texts[str]) -> Draft:
    errors = ConfigErrors()
    root = inherit.read(text, file, errors)
    root = None if root is None else inherit.inherit(root, file, errors)
    if root is None:
        raise ConfigError(errors.problems)
    errors.locate = partial(place, root)
    overrides.apply(root, changes, errors)
    references.resolve(root, errors)
    return _read(root, file, errors)


def _read(root: Mapping, file: str, errors: ConfigErrors) -> Draft:
    imports = read_imports(root.items.get("imports"), errors)
    shared = splits.expand(root, errors)
    top = validate(root, errors)
    data = _read_data(root, top, shared, errors)
    model = _read_model(root, errors)
    init = read_init(root.items.get("init"), "init", errors)
    loss = _read_with(read_loss, root, "loss", errors)
    terms = [term.name for term in loss or ()]
    metrics = read_metrics(root.items.get("metrics"), "metrics", terms, errors)
    optimizer, groups = _read_with(_read_optimizer, root, "optimizer", errors) or (None, ())
    scheduler = _read_with(_read_scheduler, root, "scheduler", errors)
    callbacks = read_components(root.items.get("callbacks"), "callbacks", registry.callbacks, errors)
    if top is not None:
        check_training(top, root, _score_names(root, terms, metrics), scheduler, errors)
    search = read_search(root, errors)

    def make() -> Config:
        assert top is not None and data is not None and model is not None and optimizer is not None
        return Config(
            name=top.name or re.sub(r"[^\w.-]+", "-", Path(file).stem).strip("-.") or "run",
            seed=top.seed,
            device=top.device,
            dtype=top.dtype,
            data=data,
            targets=top.targets,
            model=model,
            weights=_located_weights(top.weights, root),
            init=init,
            loss=loss,
            metrics=metrics,
            optimizer=OptimizerConfig(optimizer, groups),
            scheduler=scheduler,
            callbacks=callbacks,
            train=top.train,
            checkpoint=top.checkpoint,
            log=top.log,
            imports=imports,
            file=file,
            sweep=top.sweep,
            search=search,
            _root=root,
        )

    wrong = {problem.key.partition(".")[0] for problem in errors.problems}
    whole = not wrong & {"model", "blocks"}
    freeze = (top.train.freeze if top else None) or ()
    return Draft(
        errors,
        None if "data" in wrong else data,
        model if whole else None,
        init,
        groups,
        freeze,
        make,
        top.sweep if top else None,
        search,
    )


def _score_names(root: Mapping, terms: Sequence[str], metrics: Iterable[str]) -> list[str]:
    """Names of the scores that a run computes: the loss, its terms if it has several, and metrics, valid or not."""
    written = root.items.get("metrics")
    named = [*metrics, *(written.items if isinstance(written, Mapping) else ())]
    return ["loss", *(terms if len(terms) > 1 else ()), *(name for name in named if name != "loss")]


def _read_with(read: Any, root: Mapping, key: str, errors: ConfigErrors) -> Any:
    """Apply `read` to the section `key`; None if it is not written."""
    node = present(root.items.get(key))
    return None if node is None else read(node, key, errors)


def _read_model(root: Mapping, errors: ConfigErrors) -> Part | None:
    """The model. Reports blocks that it does not use."""
    before = len(errors)
    reader = ModelReader(errors, read_blocks(root.items.get("blocks"), errors))
    node = present(root.items.get("model"))
    model = None if node is None else reader.read(node, "model")
    for block in reader.blocks.values() if len(errors) == before else ():
        if not block.used:
            message = "is not used; remove the block, or use it in model"
            errors.add(block.source, message, kind="unused", key=f"blocks.{block.name}")
    return model


def _read_dataset(node: Node | None, path: str, errors: ConfigErrors) -> Component | None:
    """The dataset of a split, with absolute paths."""
    written = present(node)
    part = None if written is None else read_component(written, path, registry.datasets, errors)
    if part is None:
        return None
    inner = splits.undivided(part)
    if path == splits.PATH and inner is not part:  # a RandomSplit that `splits` made of `data.dataset`
        part = replace(part, kwargs=part.kwargs | {"dataset": replace(inner, key_path=path)})
    return located(part, registry.datasets)


def _read_data(root: Mapping, top: Top | None, shared: frozenset[str], errors: ConfigErrors) -> DataConfig | None:
    """The section `data`. shared: the splits that are parts of `data.dataset`."""
    node = root.items.get("data")
    if not isinstance(node, Mapping):
        return None
    if "train" in node.items and present(node.items["train"]) is None:
        errors.add(node.items["train"].where, "nothing is written here", kind="missing", key="data.train")
    paths = {name: splits.PATH if name in shared else join("data", name) for name in SPLITS}
    parts: dict[str, Any] = {name: _read_dataset(node.items.get(name), path, errors) for name, path in paths.items()}
    transform, augment = (
        read_components(node.items.get(key), f"data.{key}", registry.transforms, errors)
        for key in ("transform", "augment")
    )
    if top is not None:
        _check_loaders(top.data, node, errors)
    fixed = top.data if top is not None else Data(train=None)  # building needs samples, not the loader
    return DataConfig(
        **parts, transform=transform, augment=augment, loader=fixed.loader, eval_loader=_eval_loader(fixed)
    )


OF_WORKERS = ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context")  # loader keys


NOT_INHERITED = {"shuffle": False, "drop_last": False, "sampler": None, "samples": None}


def _eval_loader(data: Data) -> Loader:
    """The loader settings of the other splits: those of training, but whole and in order."""
    changes = data.eval_loader.model_dump(exclude_none=True) if data.eval_loader else {}
    merged = data.loader.model_copy(update=NOT_INHERITED | changes)
    if merged.num_workers == 0:  # inherited from the training loader, but without effect here
        merged = merged.model_copy(update={name: Loader.model_fields[name].default for name in OF_WORKERS})
    return merged


def _check_loaders(data: Data, node: Mapping, errors: ConfigErrors) -> None:
    """Report loader settings that have no effect."""
    evaluates = data.valid is not None or data.test is not None
    if data.eval_loader is not None and not evaluates:
        place = node.items["eval_loader"].where
        errors.add(place, "is not used: there is no valid or test split", kind="unused", key="data.eval_loader")
    if data.loader.sampler is not None and not data.loader.shuffle:
        place = at(node, "loader", "shuffle").where
        errors.add(place, "is not used: sampler draws the order", kind="unused", key="data.loader.shuffle")
    for key in ("loader", "eval_loader"):
        section = getattr(data, key)
        workers = section.num_workers if section is not None else None
        workers = data.loader.num_workers if workers is None else workers
        for name in OF_WORKERS:
            if section is not None and not workers and getattr(section, name):
                item = at(node, key, name)
                message = "is not used: there are no workers, num_workers is 0"
                errors.add(item.key_source or item.source, message, kind="unused", key=f"data.{key}.{name}")


def _read_optimizer(
    node: Node, path: str, errors: ConfigErrors
) -> tuple[Component | None, tuple[ParamGroup, ...]] | None:
    call = read_call(node, path, errors, "an optimizer")
    if call is None:
        return None
    component = check_call(call, path, registry.optimizers, errors, also=("param_groups",))
    groups = read_param_groups(call.kwargs.get("param_groups"), join(path, "param_groups"), call.name, errors)
    return component, groups


def _read_scheduler(node: Node, path: str, errors: ConfigErrors) -> SchedulerConfig | None:
    call = read_call(node, path, errors, "a scheduler")
    if call is None:
        return None
    component = check_call(call, path, registry.schedulers, errors, also=("interval", "monitor"))
    written = present(call.kwargs.get("interval"))
    interval = "epoch" if written is None else plain(written)
    if written is not None and interval not in ("epoch", "step"):
        suggestion = registry.closest(interval, ("epoch", "step")) if isinstance(interval, str) else None
        message = f"expected epoch or step, got {spell(interval)}"
        errors.add(written.where, message, suggestion, key=join(path, "interval"))
    monitor = present(call.kwargs.get("monitor"))
    if monitor is None or component is None:
        return None if component is None else SchedulerConfig(component, interval)
    score = plain(monitor)
    if component.name != "ReduceLROnPlateau":
        message = "is not used: only ReduceLROnPlateau monitors a score"
        errors.add(monitor.key_source or monitor.source, message, kind="unused", key=join(path, "monitor"))
    elif not isinstance(score, str):
        errors.add(monitor.where, f"expected split/metric, got {spell(score)}", key=join(path, "monitor"))
    return SchedulerConfig(component, interval, score, monitor.where)


WEIGHT_FILES = (".safetensors", ".pt", ".pth", ".bin", ".json")


def _located_weights(weights: Weights | None, root: Mapping) -> Weights | None:
    """Make a path in `weights` absolute, relative to the config's folder. A run's name, or name/number, stays."""
    if weights is None:
        return None
    name = weights.source
    is_path = "/" in name or os.sep in name or name.startswith((".", "~")) or name.endswith(WEIGHT_FILES)
    if not is_path:
        return weights
    path = at(root, "weights", "from").named_at.path(name)
    if re.fullmatch(r"\w[\w.-]*/\d+", name) and not path.exists():
        return weights
    return weights.model_copy(update={"source": str(path)})
