"""Averages of the weights (EMA, SWA), which are validated, tested and used for predictions in place of the last weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tdt import nn, no_grad
from tdt._core.tensor import wrap
from tdt.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from tdt.train.config import Train


class Average:
    """The average of a model's weights: over every step (`train.ema`), or over the ends of epochs (`train.swa`).

    `kind` ("ema" or "swa") is the prefix of its tensors in a checkpoint.
    """

    def __init__(self, model: nn.Module, train: Train) -> None:
        assert train.ema is not None or train.swa is not None
        self._trained, self._start = model, 0 if train.swa is None else train.swa.start
        self.kind = "swa" if train.ema is None else "ema"
        rule = None if train.ema is None else get_ema_multi_avg_fn(train.ema.decay)
        self._averaged = AveragedModel(model, multi_avg_fn=rule, use_buffers=train.ema is not None)
        self.count = 0  # updates so far

    @property
    def model(self) -> nn.Module:
        """The averaged model; before the first update, the trained model."""
        return self._averaged.module if self.count else self._trained

    def update(self, epochs_ended: int | None) -> None:
        """Update the average after a step. epochs_ended: their number, if the step ended one; else None."""
        if self.kind == "ema" or (epochs_ended is not None and epochs_ended > self._start):
            self._averaged.update_parameters(self._trained)
            self.count += 1

    @no_grad()
    def refresh(self, inputs: Iterable[tuple[Any]]) -> None:
        """Recompute the statistics of the averaged model's batch norms over `inputs` (SWA only: EMA averages them)."""
        if self.kind == "swa" and self.count:
            update_bn(inputs, self._averaged.module)

    def pack(self) -> dict[str, np.ndarray]:
        """The averaged weights and buffers by name; empty before the first update."""
        state = self._averaged.module.state_dict() if self.count else {}
        return {f"{self.kind}/{key}": value.detach().cpu().numpy() for key, value in state.items()}

    def unpack(self, tensors: dict[str, Any], count: int) -> None:
        """Restore the result of `pack` and the `count` at that time."""
        self.count = count
        self._averaged.n_averaged.fill_(count)
        if count:
            prefix = f"{self.kind}/"
            state = {key.removeprefix(prefix): wrap(a) for key, a in tensors.items() if key.startswith(prefix)}
            self._averaged.module.load_state_dict(state)
