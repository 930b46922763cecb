"""Time and memory of a training step, measured on a synthetic batch or computed."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from dataclasses import dataclass
from typing import Any

import tdt
from tdt import Tensor
from tdt.train.checks.compiling import Compilation
from tdt.train.config.precision import default_dtype
from tdt.train.data.loading import Split
from tdt.train.loop.parts import Parts
from tdt.train.loop.train_step import TrainStep
from tdt.train.model.computation import Computation
from tdt.utils.data import default_collate

LONGEST = 1.0  # seconds: a step that would take longer is not measured
ENOUGH = 0.5  # seconds of measured steps
PRODUCT = 512  # rows of the matrices whose product measures the speed of the machine


@dataclass(frozen=True)
class Costs:
    """Samples, seconds and bytes of a training step.

    measured: whether a step was run. If not, `seconds` is the time of 3 forward passes at `rate` multiply-adds a second,
    and `activations` the size of all layer outputs.
    """

    samples: int
    seconds: float
    measured: bool
    rate: float
    parameters: int
    buffers: int
    gradients: int
    average: int  # of the weights (EMA, SWA)
    optimizer: int
    activations: int

    @property
    def peak(self) -> int:
        """Bytes of everything together."""
        return self.parameters + self.buffers + self.gradients + self.average + self.optimizer + self.activations


def estimate(parts: Parts, split: Split) -> Costs:
    """The costs of a training step of `parts`, on batches like the first sample of `split`. Changes the weights."""
    with default_dtype(parts.config.dtype):
        return _estimate(parts, split)


def _estimate(parts: Parts, split: Split) -> Costs:
    batch_size = min(parts.config.data.loader.batch_size, len(split.dataset))
    parameters, buffers = list(parts.model.parameters()), list(parts.model.buffers())
    gradients = sum(_bytes(p) for p in parameters if p.requires_grad)
    activations = batch_size * sum(row.bytes for row in parts.rows)
    rate = _rate(parts.device)
    train = parts.config.train
    seconds = (
        3 * batch_size * train.accumulate * sum(row.flops for row in parts.rows) / rate
    )  # a backward pass costs two forward passes
    measured = seconds <= LONGEST
    if measured:
        batch, step = _batch(split, batch_size), TrainStep(parts, 1)
        seconds = _timed(step, batch)
        activations = _traced(step, batch, gradients) if parts.device.type == "cpu" else activations
    else:
        for p in parameters:
            p.grad = tdt.zeros_like(p) if p.requires_grad else None
        parts.optimizer.step()  # creates the optimizer state
    state = [value for of_one in parts.optimizer.state.values() for value in of_one.values()]
    return Costs(
        batch_size * train.accumulate,
        seconds,
        measured,
        rate,
        sum(map(_bytes, parameters)),
        sum(map(_bytes, buffers)),
        gradients,
        sum(map(_bytes, (*parameters, *buffers))) if train.ema or train.swa else 0,
        sum(_bytes(value) for value in state if isinstance(value, Tensor)),
        activations,
    )


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _rate(device: tdt.device) -> float:
    """Multiply-adds per second, measured on a matrix product."""
    matrix = tdt.ones(PRODUCT, PRODUCT, device=device)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        (matrix @ matrix)[0, 0].item()
        took.append(time.perf_counter() - began)
    return PRODUCT**3 / min(took)


def compiled(parts: Parts, split: Split) -> Compilation:
    """How the steps of `parts` are computed, on batches like the first sample of `split`. Changes the weights."""
    step, size = TrainStep(parts, 1), min(parts.config.data.loader.batch_size, len(split.dataset))
    batch = _batch(split, size)
    parts.train_mode()
    with default_dtype(parts.config.dtype):
        # As it is, recorded, compared: the loss, then the whole step; on a GPU the fourth is captured.
        for _ in range(6):
            _step(step, batch)
    return step.compilation or Compilation(0, 0, ("it calls no ops",))


def _batch(split: Split, size: int) -> Any:
    """A batch of `size` copies of the split's first sample."""
    return default_collate([split.sample()] * size)


def _step(step: TrainStep, batch: Any) -> None:
    """One training step, as in the trainer."""
    parts = step.parts
    for _ in range(parts.config.train.accumulate):
        inputs, targets = parts.place(batch[0]), parts.place(batch[1])
        _, _, loss = step.forward(inputs, targets)
        loss.item()
        step.backward(loss, targets)
    step.step(1)


def _timed(step: TrainStep, batch: Any) -> float:
    """Median seconds of some steps, after a first one that compiles and allocates."""
    step.parts.train_mode()
    _step(step, batch)
    took: list[float] = []
    while sum(took) < ENOUGH and len(took) < 50:
        began = time.perf_counter()
        _step(step, batch)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def _traced(step: TrainStep, batch: Any, gradients: int) -> int:
    """Peak bytes of a step without gradients: NumPy reports its arrays to tracemalloc."""
    computation = step.computation
    if any(map(computation.is_small, computation.compiled)):  # a small compiled step has its arrays already
        step.computation, step.whole = Computation(computation.forward, "its memory is measured"), None
        step.split = None
    step.parts.optimizer.zero_grad()
    tracemalloc.start()
    try:
        _step(step, batch)
        return max(tracemalloc.get_traced_memory()[1] - gradients, 0)
    finally:
        tracemalloc.stop()
