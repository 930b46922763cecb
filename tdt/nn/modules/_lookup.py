"""Parts of a tree of modules by their dotted names: `get_submodule`, `set_submodule`, `get_parameter`, `get_buffer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tdt._core.tensor import Tensor
    from tdt.nn.modules.module import Module
    from tdt.nn.parameter import Parameter

# Attributes of what `torch.jit.script` returns in PyTorch, and why a module here has none of them.
NOT_COMPILED = dict.fromkeys(
    ("code", "graph", "save"), "; tdt compiles no modules (TorchScript): save its state_dict()"
)


def pair(module: Module, kind: str, first: str, second: str) -> tuple[Any, Any]:
    """Two attributes of a layer, in a third of the time of `module.first, module.second`, which look in many places.

    Args:
        kind: where they usually are: "_parameters" or "_buffers".
    """
    found = module.__dict__[kind]
    if first in found and second in found and module._reads_directly:
        return found[first], found[second]
    return getattr(module, first), getattr(module, second)


class Lookup:
    """The part of Module that finds what is below it by name."""

    def get_submodule(self, target: str) -> Module:
        """Module at a dotted path, such as "encoder.0"; "" is this one.

        Raises:
            AttributeError: when a part of the path is missing or not a module; the message names the first such part.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Lookup):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the module at a dotted path by `module`, or add it there.

        Args:
            strict: only replace; the path must lead to a module.
        Raises:
            AttributeError: when the path does not exist.
            ValueError: when the path is empty or `module` is not a Module.

        >>> from tdt import nn
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> model.set_submodule("1", nn.Tanh())
        >>> model[1]
        Tanh()
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Lookup):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Lookup):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name."""
        return self._get_member(target, "_parameters", "nn.Parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name."""
        return self._get_member(target, "_buffers", "buffer")

    def _get_member(self, target: str, kind: str, what: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in getattr(module, kind):
            raise AttributeError(f"`{name}` is not {'a' if what == 'buffer' else 'an'} {what}")
        return getattr(module, name)
