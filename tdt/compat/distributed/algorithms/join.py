"""`torch.distributed.algorithms.join`: training on batches whose number differs between processes.

>>> from tdt.compat.distributed.algorithms.join import Join
>>> with Join([]):
...     pass
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from tdt.distributed import get_world_size, is_initialized

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """Hooks of a `Joinable` that would run while other processes still train; never called, see `Join`."""

    def main_hook(self) -> None:
        """Called for each step of the other processes."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when all processes have finished."""


class Joinable:
    """Base class of the arguments of `Join`; subclasses define `join_hook`, `join_device` and `join_process_group`."""

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The object's JoinHook."""
        raise NotImplementedError(f"{type(self).__name__} must define join_hook")


class Join:
    """A block in which processes without further batches wait for the others; with one process it has no effect.

    Raises:
        NotImplementedError: when it is enabled in a group of several processes.
    """

    def __init__(
        self, joinables: Sequence[Any], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if enable and is_initialized() and get_world_size() > 1:
            raise NotImplementedError(
                "Join: not supported for several processes; give all of them equally many batches, as "
                "utils.data.DistributedSampler does"
            )
        self._joinables, self._enable = joinables, enable

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    @staticmethod
    def notify_join_context(joinable: Any) -> None:
        """Do nothing: in a block that `Join` allows there are no other processes to notify."""
