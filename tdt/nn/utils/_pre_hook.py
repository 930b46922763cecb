"""Finding the forward pre-hook that computes a parameter: what weight_norm, spectral_norm and pruning leave on a module."""

from __future__ import annotations

from typing import Any


def pre_hook_of(module: Any, kind: type, name: str, attribute: str = "name") -> tuple[int, Any] | None:
    """The key and the hook of class `kind` whose `attribute` is the parameter's name, or None."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook.call, kind) and getattr(hook.call, attribute) == name:
            return key, hook.call
    return None


def remove_pre_hook(module: Any, kind: type, name: str, missing: str, attribute: str = "name") -> Any:
    """Undo what the hook did to the parameter, take it off, and return it; ValueError that says `missing` without one."""
    found = pre_hook_of(module, kind, name, attribute)
    if found is None:
        raise ValueError(missing)
    key, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return hook
