"""Training steps on a GPU that are replayed from CUDA graphs: one launch for all of a step, to the bits of ordinary ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tdt import Tensor
from tdt._backend.waiting import stop_waiting
from tdt._compiled.captured import EAGER_CALLS, Captured, with_chains
from tdt._kernels.capture_gpu import OutdatedCaptureError
from tdt.optim import Optimizer
from tdt.train.checks.compiling import Compilation
from tdt.train.data.nested import leaves, mapped
from tdt.train.loop.whole_step import clip, total_norm
from tdt.train.model.computation import Forward, Losses

MOST = 8  # graphs, each with memory of its own


class Step(NamedTuple):
    """A captured step, whose result is that of `GraphedStep`. grads: are written by each replay, too."""

    step: Captured
    grads: list[Tensor | None]


class GraphedStep:
    """Steps of training, each kind of which is captured once: batches of one shape, with the same layers frozen.

    Args:
        forward: computes the losses.
        clip_value, clip_norm: largest magnitude and norm of the gradients; None does not clip.
        measure: computes what metrics take of losses, inputs and targets.

    Attributes:
        measures: whether `measure` is captured too: unless it reads from the GPU or uploads.
        refusal: why steps cannot be captured; None as long as they can.
    """

    def __init__(
        self,
        forward: Forward,
        optimizer: Optimizer,
        clip_value: float | None,
        clip_norm: float | None,
        measure: Callable[[Losses, Any, Any], dict[str, Any]],
    ) -> None:
        self.forward, self.optimizer, self.measure, self.measures = forward, optimizer, measure, True
        self.clip_value, self.clip_norm = clip_value, clip_norm
        self.parameters = list(forward.model.parameters())
        self.refusal: str | None = None
        self.graphs: dict[tuple, Step] = {}
        self._calls: dict[tuple, int] = {}

    def __call__(self, inputs: Any, targets: Any) -> tuple[Losses, Tensor | None, dict[str, Any]] | None:
        """The losses, without their graph, the norm of the gradients before clipping, and what is measured, until the next call.

        None, with nothing done, where the step is to be computed in the ordinary way.
        """
        if self.refusal is not None or not all(isinstance(x, Tensor) for x in leaves((inputs, targets))):
            return None
        kind = self._kind(inputs, targets)
        found = self.graphs.get(kind)
        if found is None:
            calls = self._calls[kind] = self._calls.get(kind, 0) + 1
            if calls <= EAGER_CALLS or len(self.graphs) >= MOST:
                return None
            captured = self._captured(inputs, targets)
            if captured is None:
                return None
            found = self.graphs[kind] = captured
        try:
            found.step.replay([*leaves((inputs, targets))])
        except OutdatedCaptureError:
            del self.graphs[kind]
            return None
        for p, grad in zip(self.parameters, found.grads, strict=True):
            p.grad = grad
        return found.step.result

    @property
    def compilation(self) -> Compilation | None:
        """How steps are computed; None while that is not known yet."""
        if self.refusal is not None:
            return Compilation(0, 0, (f"a step cannot be captured as a CUDA graph: {self.refusal}",))
        return Compilation(0, 0, (), is_graph=True) if self.graphs else None

    def _kind(self, inputs: Any, targets: Any) -> tuple:
        model = self.forward.model
        batch = tuple([(x.shape, x.dtype, x.stride(), x.device.index) for x in leaves((inputs, targets))])
        return batch, tuple([p.requires_grad for p in self.parameters]), tuple([m.training for m in model.modules()])

    def _captured(self, inputs: Any, targets: Any) -> Step | None:
        """A step on batches like this one, which is not computed yet. None where it reads from the GPU or uploads: `refusal`."""
        try:
            return self._capture(inputs, targets)
        except RuntimeError as error:
            if not self.measures:
                self.refusal = f"{type(error).__name__}: {error}"
                return None
        self.measures = False
        return self._captured(inputs, targets)

    def _capture(self, inputs: Any, targets: Any) -> Step:
        batch = inputs, targets
        found = [*leaves(batch)]

        def take(places: list[Tensor]) -> tuple[Losses, Tensor | None, dict[str, Any]]:
            ahead = iter(places)
            return self._take(*mapped(lambda _: next(ahead), batch))

        index = found[0].device.index
        assert index is not None
        captured = with_chains(lambda chains: Captured(take, found, index, chains=chains))
        return Step(captured, [p.grad for p in self.parameters])

    def _take(self, inputs: Any, targets: Any) -> tuple[Losses, Tensor | None, dict[str, Any]]:
        self.optimizer.zero_grad()
        losses = self.forward.losses(inputs, targets)
        losses.loss.backward()
        norm = clip(self.parameters, self.clip_value, self.clip_norm, lambda: total_norm(self.parameters))
        self.optimizer.step()
        terms = {name: (loss.detach(), target) for name, (loss, target) in losses.terms.items()}
        losses = losses._replace(loss=losses.loss.detach(), terms=terms)
        if not self.measures:
            return losses, norm, {}
        stop_waiting()
        return losses, norm, self.measure(losses, inputs, targets)
