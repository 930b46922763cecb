"""Averages of the weights during training (EMA, SWA): validated and saved in place of the last weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tdt import nn, no_grad
from tdt._core.tensor import wrap
from tdt.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from tdt.train.config import Train


class Average:
    """The average of a model's weights that `train` asks for: of every step (ema), or of the ends of epochs (swa).

    `kind` begins the names of its tensors in a checkpoint. Until something has entered it, `model` is the one trained.
    """

    def __init__(self, model: nn.Module, train: Train):
        assert train.ema is not None or train.swa is not None
        self._trained, self._start = model, 0 if train.swa is None else train.swa.start
        self.kind = "swa" if train.ema is None else "ema"
        rule = None if train.ema is None else get_ema_multi_avg_fn(train.ema.decay)
        self._averaged = AveragedModel(model, multi_avg_fn=rule, use_buffers=train.ema is not None)
        self.count = 0  # of weights in it

    @property
    def model(self) -> nn.Module:
        """The model to be scored."""
        return self._averaged.module if self.count else self._trained

    def update(self, epochs_ended: int | None) -> None:
        """Let the weights after a step enter. epochs_ended: how many have, if one did with this step."""
        if self.kind == "ema" or (epochs_ended is not None and epochs_ended > self._start):
            self._averaged.update_parameters(self._trained)
            self.count += 1

    @no_grad()
    def refresh(self, inputs: Iterable[tuple[Any]]) -> None:
        """Before a score: let batch norms take the averaged model's statistics anew, where these were not averaged."""
        if self.kind == "swa" and self.count:
            update_bn(inputs, self._averaged.module)

    def pack(self) -> dict[str, np.ndarray]:
        """Its tensors by name, none before something has entered."""
        state = self._averaged.module.state_dict() if self.count else {}
        return {f"{self.kind}/{key}": value.detach().cpu().numpy() for key, value in state.items()}

    def unpack(self, tensors: dict[str, Any], count: int) -> None:
        """Go on from what `pack` gave and the `count` of then."""
        self.count = count
        self._averaged.n_averaged.fill_(count)
        if count:
            prefix = f"{self.kind}/"
            state = {key.removeprefix(prefix): wrap(a) for key, a in tensors.items() if key.startswith(prefix)}
            self._averaged.module.load_state_dict(state)
