"""The handle that registering a hook returns."""

from __future__ import annotations

import itertools
from typing import Any

_ids = itertools.count()


class RemovableHandle:
    """Takes a hook out again: `handle.remove()`, or `with handle:` at the end of the block.

    hooks: the dict that holds them in the order they run. prepend: run this one first.
    """

    def __init__(self, hooks: dict[int, Any], hook: Any, prepend: bool = False):
        self.hooks_dict, self.id = hooks, next(_ids)
        hooks[self.id] = hook
        if prepend:
            for key in [k for k in hooks if k != self.id]:
                hooks[key] = hooks.pop(key)

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        self.hooks_dict.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
