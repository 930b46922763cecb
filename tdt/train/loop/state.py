"""The trainer's whole state as named arrays and JSON, and back: the content of a checkpoint.

model/<key>                         parameters and buffers
ema/<key>, swa/<key>                of the average that is scored in their place, if there is one
optimizer/<state>/<parameter name>  by name, never by index
rng/<name>                          default (dropout), data, augment
loader/<n>, metrics/<n>             arrays inside the states of loaders and of metrics
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

import tdt
from tdt import Tensor, nn
from tdt._core.tensor import wrap
from tdt.train.errors import reason
from tdt.train.loop.length import Length
from tdt.train.runs import checkpoint
from tdt.train.runs.checkpoint import CheckpointError
from tdt.train.runs.checkpoint_meta import ARRAY, check_alike, wrong_keys
from tdt.utils.data import DataLoader

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts
    from tdt.train.loop.trainer import Trainer


def pack(trainer: Trainer) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The trainer's state as (arrays by name, JSON-able rest)."""
    parts = trainer.parts
    tensors = {f"model/{key}": value.detach().cpu().numpy() for key, value in parts.model.state_dict().items()}
    optimizer, arrays = _pack_optimizer(parts)
    tensors |= arrays
    tensors |= {f"rng/{name}": generator.get_state().numpy() for name, generator in parts.generators().items()}
    loader: list[np.ndarray] = []
    counted: list[np.ndarray] = []
    state = {
        "step": trainer.step,
        "epoch": trainer.epoch,
        "settled": trainer.finished_step,
        "over": trainer.over,
        "best": trainer.best.value,
        "stopping": [trainer.stopping.value, trainer.stopping.waited],
        "optimizer": optimizer,
        "scheduler": None if parts.scheduler is None else _listed(parts.scheduler.state_dict()),
        "swa_scheduler": None if parts.swa_scheduler is None else parts.swa_scheduler.state_dict(),
        "metrics": _take_arrays({name: metric.state_dict() for name, metric in trainer.metrics.items()}, counted),
        "loaders": _take_arrays({name: one.state_dict() for name, one in _going_on(parts).items()}, loader),
        "threads": tdt.get_num_threads(),
    }
    tensors |= {f"loader/{i}": array for i, array in enumerate(loader)}
    tensors |= {f"metrics/{i}": array for i, array in enumerate(counted)}
    if parts.average is not None:
        tensors |= parts.average.pack()
        state["averaged"] = parts.average.count
    if trainer.length.seconds is not None:
        state["elapsed"] = trainer.length.elapsed()
    return tensors, state


def unpack(trainer: Trainer, tensors: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Put a packed state into a trainer built from the same config."""
    parts = trainer.parts
    _check_position(trainer, meta["step"], meta["epoch"])
    _load(parts.model, tensors, "model")
    _unpack_optimizer(parts, meta["optimizer"], tensors)
    parts.optimizer._opt_called = meta["step"] > 0  # or a scheduler that steps first would warn that it is the first
    for name in ("scheduler", "swa_scheduler"):
        if (scheduler := getattr(parts, name)) is not None:
            check_alike(name, meta[name], _listed(scheduler.state_dict()))
            scheduler.load_state_dict(meta[name])
    if parts.average is not None:
        parts.average.unpack(tensors, meta["averaged"])
    trainer.step, trainer.epoch, trainer.finished_step = meta["step"], meta["epoch"], meta["settled"]
    trainer.best.value = None if meta["best"] is None else float(meta["best"])
    trainer.stopping.value, trainer.stopping.waited = meta["stopping"]
    trainer.length.spent = meta.get("elapsed", 0.0)
    trainer.over = is_over(parts, meta)
    for name, metric in trainer.metrics.items():
        state = _put_arrays(meta["metrics"][name], tensors, "metrics")
        check_alike(f"metrics.{name}", state, metric.state_dict())
        metric.load_state_dict(state)
    trainer.rows.load(trainer.metrics)
    for metric in trainer.metrics.values():
        metric.compute()  # fails here where numbers and arrays of its state do not fit each other
    unpack_draws(parts, tensors, meta)


def unpack_draws(parts: Parts, tensors: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Put generators and loaders where they stood, so that what was drawn and read since then does not matter."""
    for name, generator in parts.generators().items():
        generator.set_state(wrap(tensors[f"rng/{name}"]))
    for name, loader in _going_on(parts).items():
        saved = meta["loaders"].get(name)
        if saved is not None and saved["num_workers"] == loader.num_workers:  # data.eval_loader may be another one now
            own = _take_arrays(loader.state_dict()["now"], [])
            epoch = saved["epoch"] or {}
            for key, drawn in (("now", saved["now"]), *((key, epoch.get(key)) for key in ("created", "started"))):
                if drawn is not None:
                    check_alike(f"loaders.{name}.{key}", drawn, own)
            for worker in epoch.get("workers", ()):
                if worker is not None:
                    check_alike(f"loaders.{name}.workers", worker, own["process"])
            loader.load_state_dict(_put_arrays(saved, tensors, "loader"))


def _going_on(parts: Parts) -> dict[str, DataLoader]:
    """The loaders whose next epoch depends on those before. Workers that stay are seeded once: theirs draws nothing."""
    return {name: one for name, one in parts.loaders.items() if name == "train" or one.persistent_workers}


def is_over(parts: Parts, meta: dict[str, Any]) -> bool:
    """Whether the run that wrote the checkpoint had ended, and its config, which may have changed, does not let it go on."""
    length, stopping = Length(parts.config.train, len(parts.loaders["train"])), parts.early_stopping()
    length.spent, stopping.waited = meta.get("elapsed", 0.0), meta["stopping"][1]
    return meta["over"] and (length.is_over(meta["step"]) or stopping.patience_is_over)


def _check_position(trainer: Trainer, step: int, epoch: int) -> None:
    """Training goes on from a step of an epoch: that of other data, with fewer or more batches, would never end."""
    length, size = trainer.length, trainer.length.steps_per_epoch
    if not epoch * size <= step <= (epoch + 1) * size or (length.steps is not None and step > length.steps):
        known = "" if length.epochs is None else f" of {length.epochs}"
        raise ValueError(
            f"step {step} is not in epoch {epoch + 1}{known} with {size} steps each; has the data changed?"
        )


def load_run(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A checkpoint that a run has written; CheckpointError for any other, though its checksums may be right."""
    tensors, meta = checkpoint.load(path)
    if wrong := wrong_keys(meta):
        raise CheckpointError(
            f"{path}: written by no run: {', '.join(wrong)} missing or of the wrong kind", damaged=True
        )
    return tensors, meta


def parts_of_metrics(meta: dict[str, Any]) -> set[int]:
    """The files of `checkpoints/rows` that a checkpoint goes on from. CheckpointError for one that no run has written."""
    if wrong_keys(meta):
        raise CheckpointError("written by no run")
    return {part for state in meta.get("metrics", {}).values() for part in state.get("parts", ())}


def data_state(meta: dict[str, Any]) -> dict[str, Any] | None:
    """What the run's data set had learnt from the training rows, for `build`; None where it learns nothing."""
    return meta.get("data", {}).get("state")


@contextmanager
def fitting(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns what goes wrong where a checkpoint's state is put back into a CheckpointError."""
    try:
        yield
    except KeyError as error:
        lacking = error.args[0] if error.args else "something"
        raise CheckpointError(f"{path}: its state lacks {lacking!r}; another version of tdt wrote it?") from error
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError, ArithmeticError) as error:
        raise CheckpointError(f"{path}: its state does not fit its config: {reason(error)}") from error


def load_model(parts: Parts, tensors: dict[str, np.ndarray]) -> None:
    """Put the checkpoint's weights and buffers into the model: those that are scored."""
    _load(parts.model, tensors, scored(tensors))


def scored(tensors: Iterable[str]) -> str:
    """What the names of the weights that are scored begin with: the average, if the checkpoint has one."""
    return next((kind for kind in ("ema", "swa") if any(name.startswith(f"{kind}/") for name in tensors)), "model")


def _load(model: nn.Module, tensors: dict[str, np.ndarray], kind: str) -> None:
    prefix = f"{kind}/"
    state = {name.removeprefix(prefix): wrap(array) for name, array in tensors.items() if name.startswith(prefix)}
    model.load_state_dict(state)


def _pack_optimizer(parts: Parts) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    names = {id(p): name for name, p in parts.model.named_parameters()}
    arrays, plain = {}, {}
    for p, state in parts.optimizer.state.items():
        for key, value in state.items():
            if isinstance(value, Tensor):
                arrays[f"optimizer/{key}/{names[id(p)]}"] = value.detach().cpu().numpy()
            else:
                plain[f"{key}/{names[id(p)]}"] = value
    groups = [
        {"params": [names[id(p)] for p in group["params"]]}
        | {k: float(v) if isinstance(v, Tensor) else v for k, v in group.items() if k != "params"}
        for group in parts.optimizer.param_groups
    ]
    return {"state": plain, "groups": groups}, arrays


def _unpack_optimizer(parts: Parts, saved: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Through `load_state_dict`, in whose layout parameters are numbered in the order of the groups."""
    order = [name for group in saved["groups"] for name in group["params"]]
    number = {name: i for i, name in enumerate(order)}
    state: dict[int, dict[str, Any]] = {}
    for name, array in tensors.items():
        if name.startswith("optimizer/"):
            _, key, parameter = name.split("/", 2)
            state.setdefault(number[parameter], {})[key] = wrap(array)
    for name, value in saved["state"].items():
        key, _, parameter = name.partition("/")
        state.setdefault(number[parameter], {})[key] = value
    own = _pack_optimizer(parts)[0]["groups"]
    check_alike("optimizer.groups", saved["groups"], own)
    if lacking := [key for ours, group in zip(own, saved["groups"], strict=True) for key in ours.keys() - group.keys()]:
        raise KeyError(f"optimizer.groups.{lacking[0]}")
    groups = [_tuples(group) | {"params": [number[name] for name in group["params"]]} for group in saved["groups"]]
    parts.optimizer.load_state_dict({"state": state, "param_groups": groups})


def _tuples(group: dict[str, Any]) -> dict[str, Any]:
    """Lists back to the tuples that JSON made lists of (`betas`)."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in group.items()}


def _listed(value: Any) -> Any:
    """Lists of their elements for Counters, which JSON lacks: MultiStepLR takes its milestones either way."""
    if isinstance(value, Counter):
        return sorted(value.elements())
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list) else value


def _take_arrays(value: Any, found: list[np.ndarray]) -> Any:
    """`value` with each array inside replaced by its place in `found`."""
    if isinstance(value, Tensor):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        found.append(value)
        return {ARRAY: len(found) - 1}
    if isinstance(value, dict):
        return {key: _take_arrays(item, found) for key, item in value.items()}
    return [_take_arrays(item, found) for item in value] if isinstance(value, (list, tuple)) else value


def _put_arrays(value: Any, tensors: dict[str, np.ndarray], kind: str) -> Any:
    """The inverse of `_take_arrays`."""
    if isinstance(value, dict):
        if value.keys() == {ARRAY}:
            return tensors[f"{kind}/{value[ARRAY]}"]
        return {key: _put_arrays(item, tensors, kind) for key, item in value.items()}
    return [_put_arrays(item, tensors, kind) for item in value] if isinstance(value, list) else value
