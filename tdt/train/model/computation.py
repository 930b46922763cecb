"""What is computed of a batch, the model's output and the loss, as functions that are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tdt
from tdt import Tensor, nn
from tdt._compiled.function import Compiled
from tdt.train.data.nested import leaves, mapped
from tdt.train.model.objective import Objective, total_of

CHECK_EVERY = 1000  # of so many steps, and batches of an evaluation, one is computed both ways


class Losses(NamedTuple):
    """The output of a model, without its graph, and the loss; `mixed`: of the other samples' targets, for mixup.

    terms: of an objective with several terms, the loss and the target of each.
    """

    output: Any
    loss: Tensor
    terms: dict[str, tuple[Tensor, Tensor]]
    mixed: Tensor | None = None


class Forward:
    """A model with its objective. Its attributes are all that the methods depend on, so that guards can see changes.

    amp: the dtype of `autocast` around the model; the output is then converted to float32.
    """

    def __init__(self, model: nn.Module, objective: Objective, amp: str | None) -> None:
        self.model, self.terms, self.scales, self.amp = model, tuple(objective.terms), objective.scales, amp

    def output(self, inputs: Any) -> Any:
        """The model's output."""
        if self.amp is None:
            return self.model(inputs)
        with tdt.autocast(next(leaves(inputs)).device.type, dtype=getattr(tdt, self.amp)):
            output = self.model(inputs)
        return mapped(lambda part: part.float() if part.dtype in (tdt.bfloat16, tdt.float16) else part, output)

    def losses(self, inputs: Any, targets: Any) -> Losses:
        """The output and the loss."""
        output = self.output(inputs)
        return Losses(mapped(_detached, output), *total_of(self.terms, self.scales, output, targets, inputs))

    def mixed(self, inputs: Any, targets: Any, others: Any) -> Losses:
        """The same for mixed inputs, with the loss for the targets of the others."""
        output = self.output(inputs)
        theirs, _ = total_of(self.terms, self.scales, output, others, inputs)
        return Losses(mapped(_detached, output), *total_of(self.terms, self.scales, output, targets, inputs), theirs)


def _detached(part: Any) -> Any:
    return part.detach() if isinstance(part, Tensor) else part


class Computation:
    """The functions of a `Forward`: compiled, unless there is a reason why not.

    The first call of each kind stays as it is, as of a last batch with less samples, so that nothing is recorded in vain.

    Attributes:
        forward: what they compute.
        reason: why they are not compiled; None if they are.
        compiled: the functions that are, by name.
    """

    def __init__(self, forward: Forward, reason: str | None) -> None:
        self.forward, self.reason = forward, reason
        self._evaluated = 0
        self.compiled = {} if reason else {name: self._compiled(name) for name in ("output", "losses", "mixed")}

    def _compiled(self, name: str) -> Compiled:
        return Compiled(getattr(self.forward, name), type(self.forward.model).__name__, eager_calls=1, warns=False)

    def is_small(self, name: str) -> bool:
        """Whether a function's calls, of some kind, are or will be computed without Python between their ops."""
        recordings = self.compiled[name].recordings.values() if name in self.compiled else ()
        return any(each.is_small for of_kind in recordings for each in of_kind)

    def checks_next(self) -> bool:
        """Whether a batch of an evaluation is to be computed both ways: one in `CHECK_EVERY` calls of this."""
        self._evaluated += 1
        return self._evaluated % CHECK_EVERY == 0

    def __call__(self, name: str, *args: Any, check: bool = False) -> Any:
        """Call a function of `forward`. check: compute it both ways; `Difference` if a bit differs."""
        function: Callable[..., Any] | None = self.compiled.get(name)
        if function is None:
            return getattr(self.forward, name)(*args)
        return function.compare(*args) if check else function(*args)  # type: ignore[attr-defined]
