"""The handle that registering a hook returns."""

from __future__ import annotations

import itertools
from typing import TypeVar

_ids = itertools.count()


Hook = TypeVar("Hook")


class RemovableHandle:
    """Removes a hook: by `handle.remove()`, or with `with handle:` at the end of the block.

    hooks: the dict of the hooks in the order in which they run. prepend: run this hook first.
    """

    def __init__(self, hooks: dict[int, Hook], hook: Hook, prepend: bool = False) -> None:
        self.hooks_dict, self.id = hooks, next(_ids)
        hooks[self.id] = hook
        if prepend:
            for key in [k for k in hooks if k != self.id]:
                hooks[key] = hooks.pop(key)

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        self.hooks_dict.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
