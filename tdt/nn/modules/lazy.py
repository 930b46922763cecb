"""Layers that take a size from their first input, make their parameters then, and become ordinary layers."""

from __future__ import annotations

from typing import Any

from tdt._core.mode import real
from tdt._core.tensor import Tensor
from tdt.nn.modules.module import Module
from tdt.nn.parameter import is_lazy


class LazyModuleMixin(Module):
    """What a lazy layer needs, before the layer among its bases: `class LazyFoo(LazyModuleMixin, Foo)`.

    Its `initialize_parameters` gets the arguments of the first call and gives every uninitialized parameter its shape;
    then the object becomes a `cls_to_become`, if that is set. RuntimeError where a parameter is still without a shape.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(_infer, with_kwargs=True)

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer still has no shape."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes, from the arguments of the first call; subclasses override it.

        Raises:
            NotImplementedError: when a subclass does not override it.
        """
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")


def _infer(module: LazyModuleMixin, args: tuple, kwargs: dict[str, Any]) -> None:
    """The hook before the first call."""
    with real():  # also where the first call is a meta pass
        module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {type(module).__name__} has not been fully initialized")
    module._initialize_hook.remove()
    del module._initialize_hook
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become  # type: ignore[assignment]


class OneSize(LazyModuleMixin):
    """A lazy layer of which one number is not known: the attribute called `unknown`, 0 until the first call."""

    unknown: str

    def _size(self, input: Tensor) -> int:
        """The number, from the first input."""
        raise NotImplementedError

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of parameters and buffers, now that the number is known."""
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """Draw the parameters anew, once their shapes are known."""
        if getattr(self, self.unknown) and not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number from `input`, and draw those parameters that no loaded state has brought."""
        setattr(self, self.unknown, self._size(input))
        if self.has_uninitialized_params():
            for name, shape in self._shapes().items():
                if is_lazy(getattr(self, name)):
                    getattr(self, name).materialize(shape)
            self.reset_parameters()


__all__ = ["LazyModuleMixin"]
