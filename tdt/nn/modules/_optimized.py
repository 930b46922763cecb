"""The module that `tdt.compile` returns for a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tdt.nn.modules.module import Module


class OptimizedModule(Module):
    """A module whose calls are compiled calls of another, `_orig_mod`, with which it shares everything."""

    _orig_mod: Module

    def __init__(self, module: Module, compiled: Callable[..., Any]):
        super().__init__()
        self._orig_mod = module
        self.training = module.training
        self._compiled = compiled

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The compiled call of the module; between its hooks, if it has some, which are not compiled."""
        module = self._orig_mod
        if any((module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)):
            return module(*args, **kwargs)
        return self._compiled(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training" and "_compiled" in vars(self):
            self._orig_mod.training = value
        if self._is_own(name):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if self._is_own(name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def _is_own(self, name: str) -> bool:
        """Whether an attribute is one of this module rather than of the other."""
        return "_compiled" not in vars(self) or name in vars(self) or name == "_orig_mod" or hasattr(type(self), name)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name == "_orig_mod":
                    raise
                return getattr(self._orig_mod, name)
