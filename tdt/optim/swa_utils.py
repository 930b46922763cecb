"""Averages of a model's weights along its training, and what goes with them: a schedule, and batch norms' statistics."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tdt
from tdt import Tensor
from tdt._core.aliases import Device
from tdt._core.mode import no_grad
from tdt.nn.modules.batchnorm import _BatchNorm
from tdt.nn.modules.module import Module
from tdt.optim._params import number
from tdt.optim.lr_scheduler._base import LRScheduler, per_group
from tdt.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Function `f(averaged, current, count)` for an exponential moving average: decay · averaged + (1 - decay) · current.

    Raises:
        ValueError: when `decay` is outside [0, 1].

    >>> import tdt
    >>> tdt.optim.swa_utils.get_ema_avg_fn(0.75)(tdt.tensor(4.0), tdt.tensor(8.0), 1)
    tensor(5.)
    """
    _check_decay(decay)

    @no_grad()
    def average(averaged: Any, current: Any, count: Any) -> Any:
        return decay * averaged + (1 - decay) * current

    return average


def get_swa_avg_fn() -> Average:
    """Function `f(averaged, current, count)` for a mean: of count + 1 tensors, from that of `count` and one more.

    >>> import tdt
    >>> tdt.optim.swa_utils.get_swa_avg_fn()(tdt.tensor(4.0), tdt.tensor(10.0), 2)
    tensor(6.)
    """

    @no_grad()
    def average(averaged: Any, current: Any, count: Any) -> Any:
        return averaged + (current - averaged) / (count + 1)

    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """Function like `get_ema_avg_fn`'s, of two lists of tensors; the result is written to the first.

    Raises:
        ValueError: when `decay` is outside [0, 1].

    >>> import tdt
    >>> averaged = [tdt.tensor(4.0)]
    >>> tdt.optim.swa_utils.get_ema_multi_avg_fn(0.75)(averaged, [tdt.tensor(8.0)], 1)
    >>> averaged
    [tensor(5.)]
    """
    return _OfLists(get_ema_avg_fn(decay), lambda count: 1 - decay)


def get_swa_multi_avg_fn() -> MultiAverage:
    """Function like `get_swa_avg_fn`'s, of two lists of tensors; the result is written to the first.

    >>> import tdt
    >>> averaged = [tdt.tensor(4.0)]
    >>> tdt.optim.swa_utils.get_swa_multi_avg_fn()(averaged, [tdt.tensor(10.0)], 2)
    >>> averaged
    [tensor(6.)]
    """
    return _OfLists(get_swa_avg_fn(), lambda count: number(1 / (count + 1)))


class _OfLists:
    """An average of lists; with the `weight` of the new value, floating-point numbers go that part of the way to it.

    The count may be a number of Python too.
    """

    def __init__(self, average: Average, weight: Callable[[Any], float] | None = None) -> None:
        self.average, self.weight = average, weight

    @no_grad()
    def __call__(self, averaged: Sequence[Any], current: Sequence[Any], count: Any) -> None:
        for a, c in zip(averaged, current, strict=True):
            if self.weight is not None and (a.is_floating_point() or a.is_complex()):
                a.lerp_(c, self.weight(count))
            else:
                a.copy_(self.average(a, c, count))


def _check_decay(decay: float) -> None:
    if not 0 <= decay <= 1:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


class AveragedModel(Module):
    """Copy of a model whose parameters are an average over the calls of `update_parameters`; called like the model.

    The first `update_parameters` copies. State: "module." and the model's keys, "n_averaged" (int64).

    Args:
        device: device of the copy; None for the model's.
        avg_fn: `f(averaged, current, count)` of one parameter; None stands for the mean (stochastic weight averaging).
        multi_avg_fn: the same of lists of tensors, written to the first.
        use_buffers: average buffers too; else they are copied, and batch norms need `update_bn` at the end.
    Raises:
        AssertionError: when both avg_fn and multi_avg_fn are given.
    Source: Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", 2018.

    >>> import tdt
    >>> model = tdt.nn.Linear(1, 1)
    >>> averaged = tdt.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = model.weight.data.fill_(value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    3.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Device = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tdt.tensor(0, dtype=tdt.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model gives."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Let the parameters of `model` enter the average."""
        pairs = _pairs(self.module.parameters(), model.parameters())
        buffers = _pairs(self.module.buffers(), model.buffers())
        averaged = pairs + buffers if self.use_buffers else pairs
        if self.n_averaged == 0:
            _copy(averaged)
        elif self.avg_fn is not None:
            for ours, theirs in averaged:
                ours.copy_(self.avg_fn(ours, theirs, self.n_averaged.to(ours.device)))
        else:
            update = self.multi_avg_fn or _OfLists(get_swa_avg_fn())
            kinds: dict[tuple, list] = {}
            for pair in averaged:
                kinds.setdefault((pair[0].device, pair[0].dtype), []).append(pair)
            for (device, _), alike in kinds.items():
                count: Any = self.n_averaged
                if device != count.device:  # our own averages take the number: nothing is sent to a GPU
                    count = count.item() if isinstance(update, _OfLists) else count.to(device)
                update([ours for ours, _ in alike], [theirs for _, theirs in alike], count)
        if not self.use_buffers:
            _copy(buffers)
        self.n_averaged += 1


def _pairs(ours: Iterable[Any], theirs: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Detached tensors, the others on our device."""
    return [(a.detach(), b.detach().to(a.device)) for a, b in zip(ours, theirs, strict=True)]


def _copy(pairs: Iterable[tuple[Any, Any]]) -> None:
    for ours, theirs in pairs:
        ours.copy_(theirs)


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Device = None) -> None:
    """Take the statistics of the batch norms in `model` anew, as means over all batches of `loader`.

    A batch is a tensor, or a list or tuple whose first item is the model's input; with `device` it is moved there.
    The model is in training mode meanwhile.

    >>> import tdt
    >>> norm = tdt.nn.BatchNorm1d(1)
    >>> tdt.optim.swa_utils.update_bn([tdt.tensor([[1.0], [3.0]]), tdt.tensor([[5.0], [7.0]])], norm)
    >>> norm.running_mean
    tensor([4.])
    """
    norms: dict[Any, Any] = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not norms:
        return
    training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
    for batch in loader:
        x = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(x if device is None else x.to(device))
    for norm, momentum in norms.items():
        norm.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """Anneals the learning rate from its current value to `swa_lr` in `anneal_epochs` epochs and keeps it there.

    Args:
        swa_lr: one value, or a list of one for each group.
        anneal_strategy: "cos" or "linear".
    Raises:
        ValueError: when the strategy is unknown or the number of epochs is negative.
    Source: Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", 2018.

    >>> import tdt
    >>> optimizer = tdt.optim.SGD([tdt.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = tdt.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> rates = []
    >>> for epoch in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     rates += scheduler.get_last_lr()
    >>> rates
    [0.75, 0.5, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, rate in zip(optimizer.param_groups, per_group(optimizer, swa_lr, "swa_lr"), strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in _ANNEAL:
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates for this epoch, by group."""
        self._warn_outside_step()
        step = max(self._step_count - 1, 1 if self.anneal_epochs == 0 else 0)
        before, now = (self._done(t) for t in (step - 1, step))
        rates = []
        for group in self.optimizer.param_groups:
            end, rate = group["swa_lr"], group["lr"]
            start = end if before == 1 else (rate - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates

    def _done(self, t: int) -> float:
        """How much of the way is gone after `t` epochs."""
        return _ANNEAL[self._anneal_strategy](max(0, min(1, t / max(1, self.anneal_epochs))))


_ANNEAL: dict[str, Callable[[float], float]] = {
    "cos": lambda t: (1 - math.cos(math.pi * t)) / 2,
    "linear": lambda t: t,
}
