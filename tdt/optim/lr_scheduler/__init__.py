"""Schedules: `scheduler.step()` after each epoch (or step) sets the learning rate of every parameter group.

Schedules are chainable: where the formula allows, each rate is computed from the one in force, so that several
schedules, or a hand that changes a rate, act together. The formulas are PyTorch's to the order of operations, because
a rate that differs in its last bit is another run.
"""

from tdt.optim.lr_scheduler._base import LRScheduler as LRScheduler
from tdt.optim.lr_scheduler.combined import ChainedScheduler as ChainedScheduler
from tdt.optim.lr_scheduler.combined import SequentialLR as SequentialLR
from tdt.optim.lr_scheduler.cosine import CosineAnnealingLR as CosineAnnealingLR
from tdt.optim.lr_scheduler.cosine import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from tdt.optim.lr_scheduler.cycles import CyclicLR as CyclicLR
from tdt.optim.lr_scheduler.cycles import OneCycleLR as OneCycleLR
from tdt.optim.lr_scheduler.functions import LambdaLR as LambdaLR
from tdt.optim.lr_scheduler.functions import MultiplicativeLR as MultiplicativeLR
from tdt.optim.lr_scheduler.plateau import ReduceLROnPlateau as ReduceLROnPlateau
from tdt.optim.lr_scheduler.powers import ConstantLR as ConstantLR
from tdt.optim.lr_scheduler.powers import ExponentialLR as ExponentialLR
from tdt.optim.lr_scheduler.powers import LinearLR as LinearLR
from tdt.optim.lr_scheduler.powers import MultiStepLR as MultiStepLR
from tdt.optim.lr_scheduler.powers import PolynomialLR as PolynomialLR
from tdt.optim.lr_scheduler.powers import StepLR as StepLR

_LRScheduler = LRScheduler  # PyTorch's name of before 2.0, from which schedules of one's own derive

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
