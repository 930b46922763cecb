"""A whole training step as one compiled function: the loss, its gradients, clipping, and the optimizer's update."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tdt import Tensor
from tdt._compiled.function import Compiled
from tdt._core.mode import check_values
from tdt.nn.utils import clip_grad_value_, clip_grads_with_norm_, get_total_norm
from tdt.optim import Optimizer
from tdt.train.model.computation import Forward, Losses


class NotFinite(ArithmeticError):
    """A loss is NaN or infinite; nothing was updated."""

    def __init__(self, loss: float) -> None:
        self.loss = loss
        super().__init__(f"the loss is {loss}")


def clip(parameters: Sequence[Tensor], value: float | None, norm: float | None,
         total_norm: Callable[[], Tensor]) -> Tensor | None:  # fmt: skip
    """Clip gradients by value, then by their norm; returns that norm before clipping, if it is needed."""
    if value is not None:
        clip_grad_value_(parameters, value)
    if norm is None:
        return None
    total = total_norm()
    clip_grads_with_norm_(parameters, norm, total)
    return total


class WholeStep:
    """A step of training on one batch, whose losses, weights and gradients have the bits of `TrainStep`'s.

    Args:
        forward: computes the losses.
        clip_value, clip_norm: largest magnitude and norm of the gradients; None does not clip.
    """

    def __init__(
        self, forward: Forward, optimizer: Optimizer, clip_value: float | None, clip_norm: float | None
    ) -> None:
        self.forward, self.optimizer = forward, optimizer
        self.clip_value, self.clip_norm = clip_value, clip_norm
        self.compiled = Compiled(self._take, type(forward.model).__name__, eager_calls=1, warns=False)

    @staticmethod
    def fits(optimizer: Optimizer) -> bool:
        """Whether the steps of an optimizer can be recorded, and it has no Python code of the user's own."""
        is_own = type(optimizer).__module__.partition(".")[0] != "tdt"
        return not is_own and bool(getattr(optimizer, "is_recorded", False))

    def __call__(self, inputs: Any, targets: Any, check: bool = False) -> tuple[Losses, Tensor | None]:
        """The losses, without their graph, and the norm of the gradients before clipping.

        check: compute the step both ways.

        Raises:
            NotFinite: before anything is updated.
            Difference: the compiled step differs from the ordinary one.
        """
        return self.compiled.compare(inputs, targets) if check else self.compiled(inputs, targets)

    def _take(self, inputs: Any, targets: Any) -> tuple[Losses, Tensor | None]:
        self.optimizer.zero_grad()
        losses = self.forward.losses(inputs, targets)
        check_values(check_finite, losses.loss._a)
        losses.loss.backward()
        parameters = list(self.forward.model.parameters())
        norm = clip(parameters, self.clip_value, self.clip_norm, lambda: total_norm(parameters))
        self.optimizer.step()
        terms = {name: (loss.detach(), target) for name, (loss, target) in losses.terms.items()}
        return losses._replace(loss=losses.loss.detach(), terms=terms), norm


def total_norm(parameters: Iterable[Tensor]) -> Tensor:
    """The norm of the gradients of parameters as one vector."""
    return get_total_norm([p.grad for p in parameters if p.grad is not None])


def check_finite(loss: np.ndarray) -> None:
    """Raise NotFinite if a loss is NaN or infinite."""
    if not np.isfinite(loss):
        raise NotFinite(float(loss))
