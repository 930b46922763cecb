"""Finding the forward pre-hook that computes a parameter: what weight_norm, spectral_norm and pruning leave on a module."""

from __future__ import annotations

from typing import Any


def pre_hook_of(module: Any, kind: type, name: str) -> tuple[int, Any] | None:
    """The key and the hook of class `kind` whose `name` is that of the parameter, or None."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook.call, kind) and hook.call.name == name:  # type: ignore[attr-defined]
            return key, hook.call
    return None
