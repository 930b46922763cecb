"""PyTorch's module names for tdt's classes under `tdt.as_torch`: libraries read `type(x).__module__`.

There, the `__module__` of `tdt.nn.modules.linear.Linear` is `torch.nn.modules.linear`, and that of `tdt._core.tensor.Tensor`,
which `tdt` exports, is `torch`. `tdt._about.home` returns the module in which a class is defined.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from tdt import _about
from tdt.compat._find import find_module

_OWN = {"as_torch", "cli", "commands", "train"}  # modules of tdt without a counterpart in PyTorch
_ONE_MODULE = "tdt.optim.lr_scheduler"  # a package of tdt that is one module in PyTorch
# PyTorch's modules of classes that tdt defines in other modules; the classes can be imported from both.
_ELSEWHERE = {
    ("tdt._core.mode", None): "torch.autograd.grad_mode",
    ("tdt._core.storage", "TypedStorage"): "torch.storage",
    ("tdt._core.storage", "UntypedStorage"): "torch.storage",
    ("tdt.nn.modules.attention", "MultiheadAttention"): "torch.nn.modules.activation",
    ("tdt.nn.modules.softmax", None): "torch.nn.modules.activation",
    ("tdt.amp._mode", "autocast"): "torch.amp.autocast_mode",
}


def torch_name(module: str) -> str | None:
    """PyTorch's name for a public module of tdt; None for a private module, and for one that PyTorch does not have.

    >>> from tdt.compat._torch_names import torch_name
    >>> torch_name("tdt.nn.init"), torch_name("tdt.vision.datasets"), torch_name("tdt._core.tensor"), torch_name("tdt.cli")
    ('torch.nn.init', 'torchvision.datasets', None, None)
    """
    root, *parts = (_ONE_MODULE if module.startswith(f"{_ONE_MODULE}.") else module).split(".")
    parts = parts[1:] if parts[:1] == ["compat"] else parts
    if root != "tdt" or (parts and parts[0] in _OWN) or any(part.startswith("_") for part in parts):
        return None
    return ".".join(["torchvision", *parts[1:]] if parts[:1] == ["vision"] else ["torch", *parts])


def register(name: str, module: ModuleType) -> None:
    """Make a module of tdt importable under PyTorch's name, where pickle and typing look up its classes."""
    if not hasattr(module, "__path__"):
        module.__path__ = []  # PyTorch's module may be a package, whose submodules are imported from this one
    sys.modules[name] = module


def _is_hidden(module: ModuleType, name: str) -> bool:
    """Whether `module` is a package of tdt.compat whose PyTorch name belongs to a module of tdt itself."""
    return module.__name__.startswith("tdt.compat.") and find_module(name.partition(".")[2]) != module.__name__


def rename(module: ModuleType) -> None:
    """Set the `__module__` of the classes that a loaded module defines, or exports from a private one, to PyTorch's name."""
    public = vars(module).get("__all__", ())
    exporter = "tdt" if module.__name__ == "tdt._public" else module.__name__
    name = torch_name(exporter)
    if name is None:
        return
    if name != "torch" and not module.__name__.startswith(f"{_ONE_MODULE}.") and not _is_hidden(module, name):
        register(name, module)
    for attribute, value in [*vars(module).items()]:
        if not isinstance(value, type) or value in _about.homes or value.__name__ != attribute:
            continue
        defined = value.__module__
        exported = attribute in public or exporter == "tdt"
        if defined in (module.__name__, exporter) or (
            exported and defined.startswith("tdt.") and torch_name(defined) is None
        ):
            _about.homes[value] = defined
            value.__module__ = _ELSEWHERE.get((defined, attribute)) or _ELSEWHERE.get((defined, None), name)


class Renaming:
    """A finder that renames the classes of each module of tdt as it is loaded."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith("tdt."):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                rename(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Rename the classes of all modules of tdt, those that are loaded already included."""
    sys.meta_path.insert(0, Renaming())
    for name, module in sorted(sys.modules.items()):
        if name.startswith("tdt.") and isinstance(module, ModuleType):
            rename(module)
