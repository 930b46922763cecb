"""Runs of `tdt train` on a GPU whose steps are CUDA graphs: whether they have the bits of runs whose steps are not."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import tdt
from tdt.train.config import loads
from tdt.train.logging.events import StepDone
from tdt.train.session import Session

RUN = """
data:
  train: Digits(split=train)
  transform: [ToTensor]
  loader: {{batch_size: 128}}
model: {model}
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: {optimizer}
train: {{clip_grad_norm: 1.0, compile: {compile}{train}}}
log: {{every: 4 steps}}
device: {device}
{more}
"""
MODEL = '["Conv2d(1, 4, 3)", BatchNorm2d(4), ReLU, Dropout(0.2), Flatten, LazyLinear(10)]'

WHOLE: dict[str, dict[str, str]] = {
    "AdamW": {},
    "warm-up and a schedule": {"optimizer": "SGD(lr=0.1, momentum=0.9)", "train": ", warmup: 6 steps",
                               "more": "scheduler: {type: CosineAnnealingLR, T_max: 18, interval: step}"},
    "a formula that changes with the steps": {"optimizer": "RAdam(lr=1e-2)"},
    "bfloat16": {"train": ", amp: bfloat16"},
    "averaged weights": {"train": ", ema: 0.9"},
}  # fmt: skip
PARTS = {
    "several batches": {"train": ", accumulate: 2"},
    "mixup": {"train": ", mixup: 0.2"},
    "float16": {"train": ", amp: float16"},
    "float16, several batches, mixup and a warm-up": {
        "train": ", amp: float16, accumulate: 3, mixup: 0.3, warmup: 3 steps",
        "optimizer": "SGD(lr=0.1, momentum=0.9)",
    },
}  # fmt: skip
RUNS = WHOLE | PARTS | {"float16 that overflows": {"train": ", amp: float16"}}
IN_ONE = "compiled steps: yes: a step is one launch of a CUDA graph"
IN_TWO = "compiled steps: yes: a step is launched as CUDA graphs, in 2 parts"
OVERFLOWS = 12  # the step after which the scale of a loss is so large that the next ones are skipped


def trained(
    folder: Path, compile: str, model: str = MODEL, optimizer: str = "AdamW(lr=1e-3)", train: str = "",
    more: str = "", device: str = "cuda", overflows: bool = False,
) -> tuple[Session, list[dict[str, Any]]]:  # fmt: skip
    """A run that has ended, and what it logged. overflows: whether scaled gradients do, after `OVERFLOWS` steps."""
    logged: list[dict[str, Any]] = []
    session: Session

    def on_event(event: object) -> None:
        if isinstance(event, StepDone):
            if overflows and event.step == OVERFLOWS:
                session._trainer.train_step.scaler.update(2.0**40)
            if event.scalars:
                logged.append({tag: value for tag, value in event.scalars.items() if not tag.startswith("time/")})

    train += "" if "epochs" in train else ", epochs: 2"
    text = RUN.format(model=model, optimizer=optimizer, train=train, more=more, compile=compile, device=device)
    with Session.start(loads(text, str(folder / "net.yaml")), folder=folder / compile) as session:
        session.train(on_event)
    return session, logged


def compared(options: dict[str, str], in_parts: bool, device: str, overflows: bool = False) -> str | None:
    """How a run differs whose steps are graphs from one whose steps are not; None where it has the same bits."""
    if in_parts:
        options = options | {"train": options.get("train", "") + ", epochs: 4"}
    with tempfile.TemporaryDirectory() as folder:
        (graphed, logged), (plain, expected) = (
            trained(Path(folder), compile, **options, device=device, overflows=overflows)  # type: ignore[arg-type]
            for compile in ("auto", "false")
        )
        if str(graphed.compilation) != (IN_TWO if in_parts else IN_ONE):
            return str(graphed.compilation)
        if repr(logged) != repr(expected):  # NaN too
            return f"losses and what else was logged differ: {logged[-1]}, {expected[-1]}"
        if overflows and not graphed._trainer.train_step.skipped:
            return "losses: no step was skipped"
        if not all(math.isfinite(each["train/loss"]) for each in logged):
            return f"losses are not finite: {logged}"
        here, there = (session._trainer.parts.model.state_dict() for session in (graphed, plain))
        apart = [key for key in there if not tdt.equal(here[key], there[key])]
        return f"losses agree, but not {', '.join(apart)}" if apart else None


def check_runs(target: str, done: Container[str] = ()) -> Iterator[tuple[str, str | None]]:
    """For each run what is wrong, or None. done: names that are left out."""
    for name, options in RUNS.items():
        if name in done:
            continue
        try:
            yield name, compared(options, name not in WHOLE, target, name not in WHOLE | PARTS)
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            yield name, f"{type(error).__name__}: {error}".partition("\n")[0]
