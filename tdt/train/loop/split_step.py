"""A training step as compiled functions, between which Python decides: on several ranks, batches, or with scaled losses.

The gradients of each batch are added to sums; with scaled losses these are unscaled, and checked; then they are clipped, and the
weights updated. What ranks send to each other lies between two functions, not in one: each is recorded, compared and tried by
itself, when one rank needs it and the others may not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tdt
from tdt import Tensor, no_grad
from tdt._compiled.function import Compiled, Difference
from tdt._core.mode import check_values
from tdt._core.tensor import wrap
from tdt.amp.grad_scaler import multiply, unscaled
from tdt.nn import Module
from tdt.nn.utils import clip_grad_value_, clip_grads_with_norm_
from tdt.nn.utils.clip_grad import lengths
from tdt.optim import Optimizer
from tdt.train.loop.whole_step import check_finite, total_norm
from tdt.train.model.computation import Forward, Losses

NAMES = "gradients", "unscaling", "norms", "update"


class Stages:
    """What is computed between two decisions. Its attributes are all that the methods depend on, so that guards see changes.

    Attributes:
        sums: of the gradients of each parameter. They keep their places in memory.
    """

    def __init__(
        self, forward: Forward, optimizer: Optimizer, clip_value: float | None, clip_norm: float | None
    ) -> None:
        self.forward, self.optimizer = forward, optimizer
        self.clip_value, self.clip_norm = clip_value, clip_norm
        self.sums: dict[Tensor, Tensor] = {}

    def parameters(self) -> list[Tensor]:
        """Those of the optimizer."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def sum_of(self, parameter: Tensor) -> Tensor:
        """The sum of a parameter's gradients; -0.0 before the first, which changes no bit of it."""
        if parameter not in self.sums:
            self.sums[parameter] = tdt.full(parameter.shape, -0.0, dtype=parameter.dtype)
        return self.sums[parameter]

    def gradients(
        self, inputs: Any, targets: Any, factors: tuple[Tensor, ...], others: Any, weight: Tensor | None
    ) -> tuple[Losses, tuple[bool, ...]]:
        """Add the gradients of a batch to the sums. Returns the losses, and which parameters have a gradient.

        Args:
            factors: of the loss before its backward pass.
            others, weight: for mixup, the targets of the other samples, and the weight of their loss.
        """
        self.optimizer.zero_grad()
        if weight is None:
            losses = self.forward.losses(inputs, targets)
            loss = losses.loss
        else:
            losses = self.forward.mixed(inputs, targets, others)
            assert losses.mixed is not None
            wide = _wide(losses.loss)
            loss = losses.loss.to(wide).lerp(losses.mixed.to(wide), weight.to(wide)).to(losses.loss.dtype)
        check_values(check_finite, loss._a)
        scaled = loss
        for factor in factors:
            scaled = scaled * factor.to(_wide(loss))
        scaled.backward()
        parameters = self.parameters()
        used = tuple([p.grad is not None for p in parameters])
        with no_grad():
            for p in parameters:
                if p.grad is not None:
                    self.sum_of(p).add_(p.grad)
        self.optimizer.zero_grad()
        terms = {name: (term.detach(), target) for name, (term, target) in losses.terms.items()}
        return losses._replace(loss=loss.detach(), terms=terms, mixed=None), used

    def unscaling(self, inverse: Tensor) -> Tensor:
        """Multiply the gradients by `inverse`. Returns whether all are finite then."""
        with no_grad():
            return unscaled([p.grad for p in self.parameters() if p.grad is not None], inverse)

    def norms(self, factor: Tensor | None) -> Tensor:
        """`adjust` the gradients. Returns the norm of each."""
        self._adjust(factor)
        return lengths(p.grad for p in self.forward.model.parameters() if p.grad is not None)

    def _adjust(self, factor: Tensor | None) -> None:
        """Multiply the gradients by a factor, and clip them by value."""
        parameters = list(self.forward.model.parameters())
        if factor is not None:
            with no_grad():
                multiply([p.grad for p in parameters if p.grad is not None], factor)
        if self.clip_value is not None:
            clip_grad_value_(parameters, self.clip_value)

    def update(self, factor: Tensor | None, total: Tensor | None) -> Tensor | None:
        """Clip the gradients and update the weights. Returns their norm before it was clipped, if it is.

        total: that norm, of gradients that `norms` has adjusted.
        """
        parameters = list(self.forward.model.parameters())
        if total is None:
            self._adjust(factor)
            total = None if self.clip_norm is None else total_norm(parameters)
        if self.clip_norm is not None and total is not None:
            clip_grads_with_norm_(parameters, self.clip_norm, total)
        self.optimizer.step()
        return total


class SplitStep:
    """The steps of a `TrainStep` by `Stages`, whose losses, weights and gradients have the bits of ordinary ones.

    Args:
        forward: computes the losses.
        clip_value, clip_norm: largest magnitude and norm of the gradients; None does not clip.

    Attributes:
        compiled: the stages.
        compares: whether they are computed both ways.
        difference: what was found then in a stage after the gradients, whose ordinary result counts.
    """

    def __init__(
        self, forward: Forward, optimizer: Optimizer, clip_value: float | None, clip_norm: float | None
    ) -> None:
        self.stages = Stages(forward, optimizer, clip_value, clip_norm)
        name = type(forward.model).__name__
        self.compiled = {each: Compiled(getattr(self.stages, each), name, eager_calls=1, warns=False) for each in NAMES}
        self.compares = False
        self.difference: Difference | None = None
        self._used: dict[Tensor, None] = {}  # parameters with a gradient, so far

    @staticmethod
    def fits(model: Module) -> bool:
        """Whether steps of a model have the bits of ordinary ones: half precision is rounded at other places here."""
        return all(p.dtype in (tdt.float32, tdt.float64) for p in model.parameters())

    @property
    def is_refused(self) -> bool:
        """Whether gradients cannot be compiled."""
        return bool(self.compiled["gradients"].refusals)

    def _call(self, name: str, *args: Any) -> Any:
        compiled = self.compiled[name]
        if not self.compares:
            return compiled(*args)
        try:
            return compiled.compare(*args)
        except Difference as difference:
            if name == "gradients":
                raise
            self.difference = difference
            return difference.result

    def begin(self) -> None:
        """Begin a sum."""
        self._used.clear()
        for total in self.stages.sums.values():
            total._a.fill(-0.0)

    def add(self, inputs: Any, targets: Any, factors: list[float], others: Any, weight: float | None) -> Losses:
        """Add the gradients of a batch. Returns its losses, without their graph. Arguments: as of `Stages.gradients`.

        Raises:
            NotFinite: before anything is added.
            Difference: the compiled stage differs from the ordinary one.
        """
        share = None if weight is None else _number(weight)
        losses, used = self._call("gradients", inputs, targets, tuple(map(_number, factors)), others, share)
        self._used.update((p, None) for p, u in zip(self.stages.parameters(), used, strict=True) if u)
        return losses

    def put(self, copies: bool = False) -> None:
        """Let the sums be the gradients. copies: in memory of their own, and begin another sum."""
        for p in self.stages.parameters():
            total = self.stages.sums[p] if p in self._used else None
            p.grad = wrap(total._a.copy()) if copies and total is not None else total
        if copies:
            self.begin()

    def take(self) -> None:
        """Let the gradients, which others have summed up, lie where the sums do."""
        for p in self.stages.parameters():
            if p.grad is not None and p.grad is not (total := self.stages.sum_of(p)):
                total._a[...] = p.grad._a
                p.grad = total

    def unscale(self, inverse: float) -> bool:
        """Multiply the gradients by `inverse`. Returns whether all are finite then."""
        has_any = any(p.grad is not None for p in self.stages.parameters())
        return not has_any or bool(self._call("unscaling", _number(inverse)))

    def update(self, factor: float, total: Callable[[Tensor], Tensor] | None) -> Tensor | None:
        """Multiply the gradients by a factor, clip them, update the weights. Returns their norm before it was clipped, if it is.

        total: computes the norm of all gradients from the norms of those that there are here.
        """
        by, norm = None if factor == 1 else _number(factor), None
        if total is not None and self.stages.clip_norm is not None:
            by, norm = None, total(self._call("norms", by))
        found: Tensor | None = self._call("update", by, norm)
        return found

    def leave(self) -> None:
        """Copy the gradients, whose places the next step uses."""
        for p in self.stages.parameters():
            if p.grad is not None and p.grad is self.stages.sums.get(p):
                p.grad = wrap(p.grad._a.copy())


def _wide(loss: Tensor) -> tdt.dtype:
    """The type in which a loss is multiplied by a number: that of the loss, but float32 for half precision."""
    return tdt.promote_types(loss.dtype, tdt.float32)


def _number(value: float) -> Tensor:
    return tdt.tensor(value, dtype=tdt.float64)
