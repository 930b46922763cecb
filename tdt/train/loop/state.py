"""Convert the trainer's whole state to named arrays and JSON, and back: the content of a checkpoint.

model/<key>                         parameters and buffers
ema/<key>, swa/<key>                of the averaged model, if there is one
optimizer/<state>/<parameter name>  by name, never by index
rng/<name>                          default (dropout), data, augment, cuda (dropout on a GPU)
loader/<n>, metrics/<n>, callbacks/<n>    arrays inside the states of loaders, metrics and callbacks
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
from tdt.train._types import Arrays, Json
from tdt.train.data.shards import SCHEME
from tdt.train.errors import reason
from tdt.train.loop.length import Length
from tdt.train.runs import checkpoint
from tdt.train.runs.checkpoint import CheckpointError
from tdt.train.runs.checkpoint_meta import ARRAY, check_alike, wrong_keys
from tdt.utils.data import DataLoader

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts
    from tdt.train.loop.trainer import Trainer


def pack(trainer: Trainer, optimizer: tuple[Json, Arrays]) -> tuple[Arrays, Json]:
    """The trainer's state as (arrays by name, JSON-able rest). optimizer: the result of `pack_optimizer`."""
    parts = trainer.parts
    tensors = {f"model/{key}": value.detach().cpu().numpy() for key, value in parts.model.state_dict().items()}
    tensors |= optimizer[1]
    tensors |= {f"rng/{name}": generator.get_state().numpy() for name, generator in parts.generators().items()}
    loader: list[np.ndarray] = []
    counted: list[np.ndarray] = []
    saved: list[np.ndarray] = []
    state = {
        "step": trainer.step,
        "epoch": trainer.epoch,
        "settled": trainer.finished_step,
        "over": trainer.over,
        "best": trainer.best.value,
        "stopping": [trainer.stopping.value, trainer.stopping.waited],
        "optimizer": optimizer[0],
        "scheduler": None if parts.scheduler is None else _listed(parts.scheduler.state_dict()),
        "swa_scheduler": None if parts.swa_scheduler is None else parts.swa_scheduler.state_dict(),
        "metrics": _take_arrays({name: metric.state_dict() for name, metric in trainer.metrics.items()}, counted),
        "loaders": _take_arrays({name: one.state_dict() for name, one in _stateful_loaders(parts).items()}, loader),
        "callbacks": _take_arrays(trainer.callbacks.state_dict(), saved),
        "stopped_by": trainer.callbacks.stopped_by,
        "threads": tdt.get_num_threads(),
    }
    tensors |= {f"loader/{i}": array for i, array in enumerate(loader)}
    tensors |= {f"metrics/{i}": array for i, array in enumerate(counted)}
    tensors |= {f"callbacks/{i}": array for i, array in enumerate(saved)}
    if parts.average is not None:
        tensors |= parts.average.pack()
        state["averaged"] = parts.average.count
    if trainer.train_step.scaler.is_enabled():
        state["amp"] = trainer.train_step.state_dict()
    if parts.shards is not None:
        state["shards"] = {"count": parts.shards.count, "scheme": SCHEME}
    if trainer.length.seconds is not None:
        state["elapsed"] = trainer.length.elapsed()
    return tensors, state


def unpack(trainer: Trainer, tensors: Arrays, meta: Json) -> None:
    """Restore a packed state in a trainer built from the same config."""
    parts = trainer.parts
    _check_position(trainer, meta["step"], meta["epoch"])
    _check_scheme(meta)
    _load(parts.model, tensors, "model")
    _unpack_optimizer(parts, meta["optimizer"], tensors)
    parts.optimizer._opt_called = meta["step"] > 0  # else the scheduler would warn that it steps before the optimizer
    for name in ("scheduler", "swa_scheduler"):
        if (scheduler := getattr(parts, name)) is not None:
            check_alike(name, meta[name], _listed(scheduler.state_dict()))
            scheduler.load_state_dict(meta[name])
    if parts.average is not None:
        parts.average.unpack(tensors, meta["averaged"])
    if trainer.train_step.scaler.is_enabled():
        check_alike("amp", meta["amp"], trainer.train_step.state_dict())
        trainer.train_step.load_state_dict(meta["amp"])
    trainer.step, trainer.epoch, trainer.finished_step = meta["step"], meta["epoch"], meta["settled"]
    trainer.best.value = None if meta["best"] is None else float(meta["best"])
    trainer.stopping.value, trainer.stopping.waited = meta["stopping"]
    trainer.length.spent = meta.get("elapsed", 0.0)
    trainer.over = is_over(parts, meta)
    trainer.callbacks.stopped_by = meta.get("stopped_by")
    trainer.callbacks.load_state_dict(_with_arrays(meta.get("callbacks", {}), tensors, "callbacks"))
    for name, metric in trainer.metrics.items():
        state = _with_arrays(meta["metrics"][name], tensors, "metrics")
        check_alike(f"metrics.{name}", state, metric.state_dict())
        metric.load_state_dict(state)
    if trainer.rows is not None:
        trainer.rows.load(trainer.metrics)
    for metric in trainer.metrics.values():
        metric.compute()  # raises if numbers and arrays of its state do not match
    restore_rng(parts, tensors, meta)


def restore_rng(parts: Parts, tensors: Arrays, meta: Json) -> None:
    """Restore the state of generators and loaders, whatever has been drawn and read since."""
    for name, generator in parts.generators().items():
        if name != "cuda" or "rng/cuda" in tensors:  # saved by a run on the CPU
            generator.set_state(wrap(tensors[f"rng/{name}"]))
    for name, loader in _stateful_loaders(parts).items():
        saved = meta["loaders"].get(name)
        if name == "train" and parts.shards is not None:  # what shards draw depends on no worker
            saved = _for_workers(loader.num_workers, saved)
        if saved is not None and saved["num_workers"] == loader.num_workers:  # data.eval_loader may have changed
            own = _take_arrays(loader.state_dict()["now"], [])
            epoch = saved["epoch"] or {}
            for key, drawn in (("now", saved["now"]), *((key, epoch.get(key)) for key in ("created", "started"))):
                if drawn is not None:
                    check_alike(f"loaders.{name}.{key}", drawn, own)
            for worker in epoch.get("workers", ()):
                if worker is not None:
                    check_alike(f"loaders.{name}.workers", worker, own["process"])
            loader.load_state_dict(_with_arrays(saved, tensors, "loader"))


def _for_workers(count: int, saved: Json) -> Json:
    """The state of a loader for another number of workers, whose generators begin anew."""
    epoch = saved["epoch"] and saved["epoch"] | {"workers": [None] * count}
    return saved | {"num_workers": count, "epoch": epoch}


def _stateful_loaders(parts: Parts) -> dict[str, DataLoader]:
    """The loaders whose next epoch depends on earlier ones: "train", and those with persistent workers, seeded once."""
    return {name: one for name, one in parts.loaders.items() if name == "train" or one.persistent_workers}


def is_over(parts: Parts, meta: Json) -> bool:
    """Whether the run that wrote the checkpoint had ended, and its config, which may have changed, does not extend it."""
    length, stopping = Length(parts.config.train, len(parts.loaders["train"])), parts.early_stopping()
    length.spent, stopping.waited = meta.get("elapsed", 0.0), meta["stopping"][1]
    ended = length.is_over(meta["step"]) or stopping.patience_is_over or meta.get("stopped_by") is not None
    return bool(meta["over"]) and ended


def _check_scheme(meta: Json) -> None:
    """Raise ValueError if another version of tdt has drawn the random numbers of shards differently."""
    scheme = meta.get("shards", {}).get("scheme", SCHEME)
    if scheme != SCHEME:
        raise ValueError(f"random numbers of its shards are of scheme {scheme}, and of this version {SCHEME}")


def _check_position(trainer: Trainer, step: int, epoch: int) -> None:
    """Raise ValueError if the step does not belong to the epoch: with other data it would never end."""
    length, size = trainer.length, trainer.length.steps_per_epoch
    if not epoch * size <= step <= (epoch + 1) * size or (length.steps is not None and step > length.steps):
        known = "" if length.epochs is None else f" of {length.epochs}"
        raise ValueError(
            f"step {step} is not in epoch {epoch + 1}{known} with {size} steps each; has the data changed?"
        )


def load_run(path: str | os.PathLike[str]) -> tuple[Arrays, Json]:
    """Load a checkpoint that a run has written.

    Raises:
        CheckpointError: it is damaged, or no run can have written it, even if its checksums are right.
    """
    tensors, meta = checkpoint.load(path)
    if wrong := wrong_keys(meta):
        raise CheckpointError(
            f"{path}: not the checkpoint of a run: {', '.join(wrong)} missing or of the wrong type", damaged=True
        )
    return tensors, meta


def parts_of_metrics(meta: Json) -> set[int]:
    """The numbers of the files in `checkpoints/rows` that a checkpoint needs. Raises CheckpointError."""
    if wrong_keys(meta):
        raise CheckpointError("not the checkpoint of a run")
    return {part for state in meta.get("metrics", {}).values() for part in state.get("parts", ())}


def data_state(meta: Json) -> Json | None:
    """What a checkpoint knows of the training rows (`Parts.facts`), for `build`; None if it knows nothing."""
    return meta.get("data") or None


@contextmanager
def state_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn exceptions while a checkpoint's state is restored into a CheckpointError."""
    try:
        yield
    except KeyError as error:
        lacking = error.args[0] if error.args else "something"
        raise CheckpointError(f"{path}: its state lacks {lacking!r}; another version of tdt wrote it?") from error
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError, ArithmeticError) as error:
        raise CheckpointError(f"{path}: its state does not fit its config: {reason(error)}") from error


def load_model(parts: Parts, tensors: Arrays) -> None:
    """Load a checkpoint's weights and buffers into the model: the averaged ones (EMA, SWA) if it has them."""
    _load(parts.model, tensors, scored_prefix(tensors))


def scored_prefix(tensors: Iterable[str]) -> str:
    """Prefix of the names of the weights to evaluate: "ema" or "swa" if the checkpoint has an average, else "model"."""
    return next((kind for kind in ("ema", "swa") if any(name.startswith(f"{kind}/") for name in tensors)), "model")


def _load(model: nn.Module, tensors: Arrays, kind: str) -> None:
    prefix = f"{kind}/"
    state = {name.removeprefix(prefix): wrap(array) for name, array in tensors.items() if name.startswith(prefix)}
    model.load_state_dict(state)


def pack_optimizer(parts: Parts) -> tuple[Json, Arrays]:
    """The optimizer's state as (JSON-able part, arrays by name); all ranks call this, and the first one gets the whole state."""
    saved, arrays = _pack_optimizer(parts)
    if parts.owners is not None:
        parts.owners.gather_state(saved["state"], arrays)
    return saved, arrays


def _pack_optimizer(parts: Parts) -> tuple[Json, Arrays]:
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


def _unpack_optimizer(parts: Parts, saved: Json, tensors: Arrays) -> None:
    """Restore by `load_state_dict`, whose format numbers the parameters in the order of the groups."""
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
    if (owners := parts.owners) is not None:
        own = {number[name] for name, p in parts.model.named_parameters() if name in number and owners.own(p)}
        state = {i: values for i, values in state.items() if i in own}
    parts.optimizer.load_state_dict({"state": state, "param_groups": groups})


def _tuples(group: dict[str, Any]) -> Json:
    """Convert lists back to tuples (`betas`), which JSON does not have."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in group.items()}


def _listed(value: Any) -> Any:
    """Convert Counters to lists of their elements for JSON; MultiStepLR takes its milestones as either."""
    if isinstance(value, Counter):
        return sorted(value.elements())
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list) else value


def _take_arrays(value: Any, found: list[np.ndarray]) -> Any:
    """`value` with each array inside replaced by its index in `found`."""
    if isinstance(value, Tensor):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        found.append(value)
        return {ARRAY: len(found) - 1}
    if isinstance(value, dict):
        return {key: _take_arrays(item, found) for key, item in value.items()}
    return [_take_arrays(item, found) for item in value] if isinstance(value, (list, tuple)) else value


def _with_arrays(value: Any, tensors: Arrays, kind: str) -> Any:
    """The inverse of `_take_arrays`."""
    if isinstance(value, dict):
        if value.keys() == {ARRAY}:
            return tensors[f"{kind}/{value[ARRAY]}"]
        return {key: _with_arrays(item, tensors, kind) for key, item in value.items()}
    return [_with_arrays(item, tensors, kind) for item in value] if isinstance(value, list) else value
