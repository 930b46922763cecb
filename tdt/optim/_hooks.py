"""Hooks of optimizers: around every step, and around states going out and in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tdt._hooks import RemovableHandle

_global_step_pre_hooks: dict[int, Callable] = {}
_global_step_post_hooks: dict[int, Callable] = {}


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer."""
    return RemovableHandle(_global_step_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    return RemovableHandle(_global_step_post_hooks, hook)


class Hooks:
    """The part of Optimizer that registers hooks."""

    _step_pre_hooks: dict[int, Callable]
    _step_post_hooks: dict[int, Callable]
    _state_dict_pre_hooks: dict[int, Callable]
    _state_dict_post_hooks: dict[int, Callable]
    _load_pre_hooks: dict[int, Callable]
    _load_post_hooks: dict[int, Callable]

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return other (args, kwargs).

        args: of `step`, with the optimizer itself first.
        """
        return RemovableHandle(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return RemovableHandle(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return RemovableHandle(self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another dict."""
        return RemovableHandle(self._state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`; it may return another dict."""
        return RemovableHandle(self._load_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return RemovableHandle(self._load_post_hooks, hook, prepend)


def with_hooks(step: Callable) -> Callable:
    """`step` with the step hooks around it, and a note for schedulers that it was called."""

    @functools.wraps(step)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._opt_called = True
        if not (self._step_pre_hooks or self._step_post_hooks or _global_step_pre_hooks or _global_step_post_hooks):
            return step(self, *args, **kwargs)
        args = (self, *args)  # PyTorch's hooks are shown it there too
        for hook in [*_global_step_pre_hooks.values(), *self._step_pre_hooks.values()]:
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                    )
                args, kwargs = changed
        result = step(*args, **kwargs)
        for hook in [*self._step_post_hooks.values(), *_global_step_post_hooks.values()]:
            hook(self, args, kwargs)
        return result

    return run
