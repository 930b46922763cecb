"""How far the trainer and PyTorch are apart on a random config, in losses and weights."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tdt.train.config import loads
from tdt.train.logging.events import Event, StepDone
from tdt.train.runs.checkpoint import load
from tdt.train.session import Session
from tests.parity.random_configs import CLASSES, LOSSES, SAMPLES, Description
from tests.parity.torch_program import run_torch

TOLERANCE = 1e-9  # of the largest value
NUDGES = 20  # 1-ulp changes of PyTorch's initial weights that are tried at most


@dataclass(frozen=True)
class Verdict:
    """agrees, "chaotic" (PyTorch is as far from itself), "differs" or "refused"; the largest relative difference, where it
    is, and that of PyTorch from itself."""

    kind: str
    difference: float = 0.0
    where: str = ""
    own: float = 0.0


def compare(description: Description) -> Verdict:
    """Train the description with both."""
    data = data_of(description)
    theirs = run_torch(description, data)
    if not np.isfinite(theirs["losses"]).all():
        return Verdict("chaotic", np.inf, "PyTorch's own losses are not finite")
    try:
        ours = run_tdt(description, data)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return Verdict("refused", where=f"{type(error).__name__}: {error}")
    off, where = difference(ours, theirs)
    if off <= TOLERANCE:
        return Verdict("agrees", off, where)
    own = 0.0
    for nudge in range(1, NUDGES + 1):
        own = max(own, difference(run_torch(description, data, nudge), theirs)[0])
        if own >= off:
            return Verdict("chaotic", off, where, own)
        if nudge == 3 and own < 1e-3 * off:
            break
    return Verdict("differs", off, where, own)


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[float, str]:
    """The largest one, relative to the largest value of the losses, or of the tensor, and where it is."""
    found = [(_relative(ours["losses"], theirs["losses"]), "losses")]
    for kind in ("model", "average"):
        assert ours[kind].keys() >= theirs[kind].keys(), (kind, ours[kind].keys(), theirs[kind].keys())
        largest = max((float(np.abs(a).max()) for a in theirs[kind].values() if a.size), default=1.0)
        found += [
            (_relative(ours[kind][name], a, largest * 1e-3), f"{kind} {name}") for name, a in theirs[kind].items()
        ]
    return max(found)


def _relative(a: Any, b: Any, least: float = 0.0) -> float:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape or not np.isfinite(a).all():
        return float("inf")
    return float(np.abs(a - b).max() / max(np.abs(b).max(), least, 1e-30)) if a.size else 0.0


def data_of(description: Description) -> dict[str, np.ndarray]:
    """Inputs and targets of the training and of the validation data."""
    rng = np.random.default_rng(description.seed)
    is_tokens = "Embedding" in str(description.layers[0]["type"])
    data: dict[str, np.ndarray] = {}
    for x, y, n in (("x", "y", SAMPLES), ("vx", "vy", 9)):
        shape = (n, *description.input)
        data[x] = rng.integers(0, 7, shape) if is_tokens else rng.normal(size=shape).astype(np.float32)
        data[y] = _targets(rng, LOSSES[description.loss][0], n)
    return data


def _targets(rng: np.random.Generator, kind: str, n: int) -> np.ndarray:
    if kind == "class":
        return rng.permutation(np.arange(n) % CLASSES)
    drawn = rng.normal(size=(n, CLASSES))
    if kind == "chance":
        drawn = np.exp(drawn) / np.exp(drawn).sum(1, keepdims=True)
    elif kind == "count":
        drawn = np.floor(np.abs(drawn) * 2)
    elif kind in ("yes", "sign"):
        drawn = (drawn > 0) * 1.0 if kind == "yes" else np.sign(drawn)
    return drawn.astype(np.float32)


def run_tdt(description: Description, data: dict[str, np.ndarray]) -> dict[str, Any]:
    """Train by the config of the description: the loss of each step, and what the last checkpoint holds."""
    losses: list[float] = []

    def on_event(event: Event) -> None:
        if isinstance(event, StepDone):
            losses.append(event.scalars["train/loss"])

    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "data.npz", **data)  # type: ignore[arg-type]
        file = str(Path(folder) / "config.yaml")
        with Session.start(loads(text_of(description), file), root=folder) as session:
            session.train(on_event)
            tensors, _ = load(session.store.resolve("last"))
    states: dict[str, dict[str, np.ndarray]] = {"model": {}, "average": {}}
    for name, array in tensors.items():
        kind, _, rest = name.partition("/")
        if kind in ("model", "ema", "swa"):
            states["model" if kind == "model" else "average"][rest] = array
    return {"losses": losses, **states}


def text_of(description: Description) -> str:
    """The config."""
    data: dict[str, Any] = {
        "train": {"type": "NPZ", "path": "data.npz"},
        "loader": {"batch_size": description.batch_size, "drop_last": description.drop_last},
    }
    if description.valid:
        data["valid"] = {"type": "NPZ", "path": "data.npz", "x": "vx", "y": "vy"}
    optimizer = {"type": description.optimizer, **description.optimizer_options}
    if description.groups:
        optimizer["param_groups"] = description.groups
    top = {
        "seed": description.seed,
        "device": "cpu",
        "dtype": "float64",
        "data": data,
        "model": [_written(layer) for layer in description.layers],
        "loss": {"type": description.loss, **description.loss_options},
        "optimizer": optimizer,
        "train": {"epochs": description.epochs}
        | description.train
        | ({"warmup": "2 steps"} if "warmup" in description.train else {}),
        "log": {"every": "1 step", "hparams": False, "config": False, "charts": False},
    }
    if description.scheduler is not None:
        interval = {} if description.scheduler == "ReduceLROnPlateau" else {"interval": description.interval}
        top["scheduler"] = {"type": description.scheduler, **description.scheduler_options, **interval}
    return yaml.safe_dump(top, sort_keys=False)


def _written(layer: Any) -> Any:
    """A layer as a config spells it."""
    if isinstance(layer, list):
        return [_written(one) for one in layer]
    if not isinstance(layer, dict):
        return layer
    if layer.get("type") == "Graph":
        nodes = {name: {"layer": _written(one), "from": sources} for name, (one, sources) in layer["nodes"].items()}
        return {"graph": nodes}
    return {key: _written(value) for key, value in layer.items()}


def campaign(numbers: range, seed: int) -> Iterator[tuple[int, Description, Verdict]]:
    """The verdicts on some of the random configs of a seed."""
    from tests.parity.random_configs import draw

    for number in numbers:
        description = draw(number, seed)
        yield number, description, compare(description)
