"""Hooks around `forward`: their registration, their removal, and the call that runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Hook(NamedTuple):
    """A registered function and how it wants to be called."""

    call: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


def call_with_hooks(module: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`module.forward` between its pre-hooks, which may replace the arguments, and its hooks, which may replace the
    result. Hooks registered with `always_call` run even when something before them raises; what they then raise
    themselves is dropped in favour of the first error."""
    pending = {key for key, hook in module._forward_hooks.items() if hook.always_call}
    result = None
    try:
        for hook in tuple(module._forward_pre_hooks.values()):
            args, kwargs = _before(module, hook, args, kwargs)
        result = module.forward(*args, **kwargs)
        for key, hook in tuple(module._forward_hooks.items()):
            pending.discard(key)
            result = _after(module, hook, args, kwargs, result)
        return result
    except Exception as error:
        for key in pending:
            hook = module._forward_hooks.get(key)
            try:
                result = result if hook is None else _after(module, hook, args, kwargs, result)
            except Exception as second:  # noqa: BLE001  (a note on the first error, which is raised)
                error.add_note(f"a forward hook with always_call=True failed as well: {second!r}")
        raise


def _before(module: Any, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    if hook.with_kwargs:
        replaced = hook.call(module, args, kwargs)
        if replaced is None:
            return args, kwargs
        if not (isinstance(replaced, tuple) and len(replaced) == 2):
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {replaced}."
            )
        return replaced
    replaced = hook.call(module, args)
    if replaced is None:
        return args, kwargs
    return (replaced if isinstance(replaced, tuple) else (replaced,)), kwargs


def _after(module: Any, hook: Hook, args: tuple, kwargs: dict[str, Any], result: Any) -> Any:
    replaced = hook.call(module, args, kwargs, result) if hook.with_kwargs else hook.call(module, args, result)
    return result if replaced is None else replaced
