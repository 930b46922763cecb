"""Hooks of optimizers: around every step, and around states going out and in."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from tdt.autograd._hooks import RemovableHandle

_global_step_pre_hooks: dict[int, Callable] = {}
_global_step_post_hooks: dict[int, Callable] = {}


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer."""
    return RemovableHandle(_global_step_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    return RemovableHandle(_global_step_post_hooks, hook)


class Hooks:
    """The part of Optimizer that registers hooks.

    Each kind is a dict on the instance under PyTorch's name, made when the first hook is registered: subclasses that skip
    `Optimizer.__init__` have hooks too.
    """

    def _hooks_of(self, kind: str) -> dict[int, Callable]:
        return vars(self).setdefault(f"_optimizer_{kind}_hooks", OrderedDict())

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return other (args, kwargs).

        args: of `step`, with the optimizer itself first.
        """
        return RemovableHandle(self._hooks_of("step_pre"), hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return RemovableHandle(self._hooks_of("step_post"), hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return RemovableHandle(self._hooks_of("state_dict_pre"), hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another dict."""
        return RemovableHandle(self._hooks_of("state_dict_post"), hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`; it may return another dict."""
        return RemovableHandle(self._hooks_of("load_state_dict_pre"), hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return RemovableHandle(self._hooks_of("load_state_dict_post"), hook, prepend)


def with_hooks(step: Callable) -> Callable:
    """`step` with the step hooks around it, and a note for schedulers that it was called.

    A step that calls that of its base class is one step: the hooks run once.
    """
    if getattr(step, "hooked", False):
        return step

    @functools.wraps(step)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        own = vars(self)
        own["_opt_called"] = True
        pre, post = own.get("_optimizer_step_pre_hooks"), own.get("_optimizer_step_post_hooks")
        if not (pre or post or _global_step_pre_hooks or _global_step_post_hooks) or own.get("_in_step"):
            return step(self, *args, **kwargs)
        own["_in_step"] = True
        try:
            return _step_and_hooks(step, (self, *args), kwargs, pre or {}, post or {})
        finally:
            del own["_in_step"]

    run.hooked = True  # type: ignore[attr-defined]
    return run


def _step_and_hooks(step: Callable, args: tuple, kwargs: dict, pre: dict, post: dict) -> Any:
    """`step(*args, **kwargs)` between the hooks; `args` begins with the optimizer, as hooks see it."""
    optimizer = args[0]
    for hook in [*_global_step_pre_hooks.values(), *pre.values()]:
        changed = hook(optimizer, args, kwargs)
        if changed is not None:
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
            args, kwargs = changed
    result = step(*args, **kwargs)
    for hook in [*post.values(), *_global_step_post_hooks.values()]:
        hook(optimizer, args, kwargs)
    return result
