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
from tdt._kernels import lazy, on_one_gpu
from tdt._kernels.copy_gpu import copies
from tdt.amp.grad_scaler import multiply, unscaled
from tdt.nn import Module
from tdt.nn.utils import clip_grad_value_, clip_grads_with_norm_
from tdt.nn.utils.clip_grad import lengths
from tdt.optim import Optimizer
from tdt.train.loop.whole_step import check_finite, total_norm
from tdt.train.model.computation import Forward, Losses

NAMES = "gradients", "unscaling", "norms", "update"
_add_on_gpu = lazy("optim_gpu:add")


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

    def place_on_gpu(self) -> list[Tensor]:
        """Create the sums of all parameters, those of one dtype in one piece of memory, which is returned."""
        pieces = []
        for dtype in dict.fromkeys(p.dtype for p in self.parameters()):
            own = [p for p in self.parameters() if p.dtype == dtype]
            piece, start = tdt.full((sum(p.numel() for p in own),), -0.0, dtype=dtype, device=own[0].device), 0
            for p in own:
                self.sums[p] = wrap(piece._a[start : start + p.numel()].reshape(p.shape))
                start += p.numel()
            pieces.append(piece)
        return pieces

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
        if not loss.is_cuda:  # the trainer looks at it later, where it waits for the GPU anyway
            check_values(check_finite, loss._a)
        scaled = loss
        for factor in factors:
            scaled = scaled * factor.to(_wide(loss))
        scaled.backward()
        parameters = self.parameters()
        used = tuple([p.grad is not None for p in parameters])
        with no_grad():
            own = [p for p in parameters if p.grad is not None]
            _add([self.sum_of(p) for p in own], [p.grad for p in own])  # type: ignore[misc]
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


def _add(sums: list[Tensor], grads: list[Tensor]) -> None:
    """Add gradients to their sums, on a GPU in one launch."""
    if (arrays := on_one_gpu([*sums, *grads])) is None:
        for total, grad in zip(sums, grads, strict=True):
            total.add_(grad)
        return
    _add_on_gpu(arrays[: len(sums)], arrays[len(sums) :])
    for total in sums:
        total._st.bump_version()


class SplitStep:
    """The steps of a `TrainStep` by `Stages`, whose losses, weights and gradients have the bits of ordinary ones.

    Args:
        forward: computes the losses.
        clip_value, clip_norm: largest magnitude and norm of the gradients; None does not clip.
        device: of the parameters, all of which are on it.

    Attributes:
        compiled: the stages; on a GPU, CUDA graphs.
        compares: whether they are computed both ways.
        difference: what was found then in a stage after the gradients, whose ordinary result counts.
    """

    def __init__(
        self, forward: Forward, optimizer: Optimizer, clip_value: float | None, clip_norm: float | None,
        device: tdt.device,
    ) -> None:  # fmt: skip
        self.stages, self.device = Stages(forward, optimizer, clip_value, clip_norm), device
        self._pieces = self.stages.place_on_gpu() if self.is_on_gpu else None
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
    def is_on_gpu(self) -> bool:
        """Whether the stages are CUDA graphs."""
        return self.device.type == "cuda"

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
        for total in self.stages.sums.values() if self._pieces is None else self._pieces:
            total._a.fill(-0.0)

    @property
    def replays_updates(self) -> bool:
        """Whether there is a CUDA graph of an update, which has been compared with an ordinary one."""
        known = [r.recording for each in self.compiled["update"].recordings.values() for r in each]
        return not self.compares and any(recording is not None and recording.verified for recording in known)

    def add(
        self, inputs: Any, targets: Any, factors: list[float | Tensor], others: Any, weight: float | None
    ) -> Losses:
        """Add the gradients of a batch. Returns its losses, without their graph. Arguments: as of `Stages.gradients`.

        Raises:
            NotFinite: before anything is added.
            Difference: the compiled stage differs from the ordinary one.
        """
        share = None if weight is None else self._number(weight)
        losses, used = self._call("gradients", inputs, targets, tuple(map(self._number, factors)), others, share)
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
        return not has_any or bool(self._call("unscaling", self._number(inverse)))

    def update(self, factor: float | Tensor, total: Callable[[Tensor], Tensor] | None) -> Tensor | None:
        """Multiply the gradients by a factor, clip them, update the weights. Returns their norm before it was clipped, if it is.

        total: computes the norm of all gradients from the norms of those that there are here.
        """
        by, norm = None if not isinstance(factor, Tensor) and factor == 1 else self._number(factor), None
        if total is not None and self.stages.clip_norm is not None:
            by, norm = None, total(self._call("norms", by))
        found: Tensor | None = self._call("update", by, norm)
        return found

    def leave(self) -> None:
        """Copy the gradients, whose places the next step uses."""
        own = [p for p in self.stages.parameters() if p.grad is not None and p.grad is self.stages.sums.get(p)]
        arrays = [p.grad._a for p in own]  # type: ignore[union-attr]
        for p, copy in zip(own, copies(arrays) if self.is_on_gpu else [a.copy() for a in arrays], strict=True):
            p.grad = wrap(copy)

    def _number(self, value: float | Tensor) -> Tensor:
        """A number as an argument of a stage; on a GPU, none that is uploaded."""
        if isinstance(value, Tensor):
            return value
        if self.is_on_gpu:
            return tdt.full((), value, dtype=tdt.float64, device=self.device)
        return tdt.tensor(value, dtype=tdt.float64)


def _wide(loss: Tensor) -> tdt.dtype:
    """The type in which a loss is multiplied by a number: that of the loss, but float32 for half precision."""
    return tdt.promote_types(loss.dtype, tdt.float32)
