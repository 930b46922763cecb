"""Optimizers and learning-rate schedules, under PyTorch's names."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING

from tdt import Tensor as _Tensor  # noqa: F401  (loads the core: from here on tensors have their methods)
from tdt.optim._swap import swap_in_optimizer_params_and_state as swap_in_optimizer_params_and_state
from tdt.optim.adadelta import Adadelta as Adadelta
from tdt.optim.adafactor import Adafactor as Adafactor
from tdt.optim.adagrad import Adagrad as Adagrad
from tdt.optim.adam import Adam as Adam
from tdt.optim.adamax import Adamax as Adamax
from tdt.optim.adamw import AdamW as AdamW
from tdt.optim.asgd import ASGD as ASGD
from tdt.optim.lbfgs import LBFGS as LBFGS
from tdt.optim.muon import Muon as Muon
from tdt.optim.nadam import NAdam as NAdam
from tdt.optim.optimizer import Optimizer as Optimizer
from tdt.optim.radam import RAdam as RAdam
from tdt.optim.rmsprop import RMSprop as RMSprop
from tdt.optim.rprop import Rprop as Rprop
from tdt.optim.sgd import SGD as SGD
from tdt.optim.sparse_adam import SparseAdam as SparseAdam

if _TYPE_CHECKING:
    from tdt.optim import lr_scheduler as lr_scheduler
    from tdt.optim import swa_utils as swa_utils
else:

    def __getattr__(name: str) -> object:  # imported on first use
        if name not in ("lr_scheduler", "swa_utils"):
            raise AttributeError(f"module 'tdt.optim' has no attribute '{name}'")
        return _importlib.import_module(f"tdt.optim.{name}")

    def __dir__() -> list[str]:
        return sorted({*globals(), "lr_scheduler", "swa_utils"})


__all__ = [
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]
