"""`torch.distributed.algorithms.model_averaging.averagers`: averages over the models of several processes; refused."""

from __future__ import annotations

from tdt.compat._refusal import refused_class
from tdt.compat.distributed._reasons import AVERAGED

__all__ = ["ModelAverager", "PeriodicModelAverager"]

ModelAverager = refused_class("ModelAverager", AVERAGED)
PeriodicModelAverager = refused_class("PeriodicModelAverager", AVERAGED, ModelAverager)
