"""Loss scaling whose scale, counters and flag of overflow stay on a GPU: steps are skipped there, and the host reads later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import lazy
from tdt.amp.grad_scaler import GradScaler

MOST_UNREAD = 15  # steps, any of which may have been skipped: the next one has the numbers for each count

_unscale = lazy("optim_gpu:unscale")
_update = lazy("optim_gpu:update_scale")


class ScaleOnGpu:
    """The scale of a `GradScaler` for one optimizer, whose steps on a GPU look at the flag themselves.

    Until the host has read whether a step was skipped, the optimizer's count has it as taken; `read` corrects that.

    Attributes:
        flag: int32, 1 where a gradient of this step was not finite.
        skipped: float64, how many steps were skipped so far; `known` of them the host knows of.
        most_unread: steps that the host may not have read of, at most.
        unread: how many steps of the optimizer were counted since the host has read.
        is_skipped: whether this step is; None where that is not known, or outside of a step.
        lowered: how many steps have lowered the scale, as far as the host knows.
    """

    def __init__(self, scaler: GradScaler, optimizer: Any):
        self.scaler, self.optimizer = scaler, optimizer
        xp = _backend.gpu()
        self._memory = xp.array([scaler._scale, scaler._growth_tracker, 0, 0, 0], np.float64)
        self.factor: Tensor = wrap(self._memory[0:1].reshape(()))
        self.skipped, self.flag = self._memory[2:3], self._memory[4:].view(np.int32)[:1]
        self.known = self.unread = self.lowered = 0
        self.most_unread = MOST_UNREAD
        self.is_skipped: bool | None = None
        self._in_step = False  # whether gradients were unscaled
        self._version, self._tracker = scaler._version, scaler._growth_tracker  # of when they were taken, or set
        self._copy: np.ndarray = np.frombuffer(xp.cuda.alloc_pinned_memory(self._memory.nbytes), np.float64, 5)
        self._event = xp.cuda.Event(disable_timing=True)
        self._comes = False  # whether the copy is on its way, behind the event
        self._unread_later = 0  # steps that were counted since
        scaler._used = True
        vars(optimizer)["_skips"] = self

    def close(self) -> None:
        """Let the host have all again."""
        self.read()
        vars(self.optimizer).pop("_skips", None)

    def begin(self) -> None:
        """Begin a step, with the scale that the scaler has if it was set."""
        if self._comes and self._event.done:
            self._comes = False
            self._take(self._copy, self._unread_later)
        if self.scaler._version != self._version:
            self._version = self.scaler._version
            self._memory[:1].fill(self.scaler._scale)
            if self.scaler._growth_tracker != self._tracker:
                self._memory[1:2].fill(self.scaler._growth_tracker)

    def unscale(self, grads: Sequence[Tensor]) -> None:
        """Divide the gradients by the scale, and note where one is not finite."""
        self._in_step = True
        _unscale([g._a for g in grads], 0.0, self.flag, self._memory)
        for g in grads:
            g._st.bump_version()

    def may_wait(self) -> bool:
        """Whether the host need not know whether this step is skipped: the optimizer's numbers depend on its count alone."""
        plans = vars(self.optimizer).get("_plans", {}).values()
        return self.unread < self.most_unread and bool(plans) and all(plan.counts_alone for plan in plans)

    def read(self) -> None:
        """Wait for the GPU, and let scaler and optimizer have what it knows; in a step, also whether it is skipped."""
        if self.is_skipped is not None:
            return
        self._comes = False
        memory = _backend.to_device(self._memory, _backend.CPU)
        self._take(memory, 0)
        if self._in_step:
            self.is_skipped = bool(memory[4:].view(np.int32)[0])

    def _take(self, memory: np.ndarray, unread: int) -> None:
        """Take what the GPU had when so many of the steps that are counted were not done."""
        scale, tracker, skipped, lowered, _ = memory.tolist()
        if fewer := int(skipped) - self.known:
            for plan in vars(self.optimizer)["_plans"].values():
                plan.count_fewer(fewer)
        self.known, self.unread, self.lowered = int(skipped), unread, int(lowered)
        if self.scaler._version == self._version:
            self.scaler._scale = scale
            self.scaler._growth_tracker = self._tracker = int(tracker)

    def end(self) -> None:
        """End a step: lower the scale if it was skipped, raise it after `growth_interval` others."""
        scaler = self.scaler
        _update(self._memory, self.flag, scaler._growth_factor, scaler._backoff_factor, scaler._growth_interval)
        if self.is_skipped is None:
            self.unread += 1
            self._unread_later += 1
        else:
            self.known += self.is_skipped
        self.is_skipped, self._in_step = None, False
        if not self._comes:
            self._memory.get(out=self._copy, blocking=False)
            self._event.record()
            self._comes, self._unread_later = True, 0
