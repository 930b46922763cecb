"""Optimizers and learning-rate schedules, under PyTorch's names."""

from tdt import Tensor as _Tensor  # noqa: F401  (loads the core: from here on tensors have their methods)
from tdt.optim import lr_scheduler as lr_scheduler
from tdt.optim.adam import Adam as Adam
from tdt.optim.adamw import AdamW as AdamW
from tdt.optim.optimizer import Optimizer as Optimizer
from tdt.optim.sgd import SGD as SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
