"""Weight normalisation by a hook (Salimans and Kingma, 2016); its successor is `parametrizations.weight_norm`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from tdt._core.tensor import Tensor
from tdt.nn._types import M
from tdt.nn.parameter import Parameter, is_lazy
from tdt.nn.utils._pre_hook import pre_hook_of, remove_pre_hook

if TYPE_CHECKING:
    from tdt.nn.modules.module import Module


def norms(v: Tensor, dim: int) -> Tensor:
    """The norms of the slices of `v` along `dim`, in a shape that broadcasts with it; dim=-1: of the whole, a scalar."""
    squares = v.abs().square() if v.is_complex() else v.square()  # the gradient of `norm` takes twice as long
    if dim == -1:
        return squares.sum().sqrt()
    others = [d for d in range(v.ndim) if d != dim % v.ndim]
    return (squares.sum(others, keepdim=True) if others else squares).sqrt()


def scaled(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """`v` with the norms `g`."""
    return v * (g / norms(v, dim))


class WeightNorm:
    """The hook: before each forward, the weight is made from `<name>_g`, its norms, and `<name>_v`, its direction."""

    def __init__(self, name: str, dim: int | None):
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight of the moment."""
        return scaled(getattr(module, self.name + "_v"), getattr(module, self.name + "_g"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Put the hook on a parameter; RuntimeError if there is one, ValueError for a parameter without a shape."""
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        if pre_hook_of(module, WeightNorm, name):
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        weight, hook = getattr(module, name), WeightNorm(name, dim)
        if is_lazy(weight):
            raise ValueError("The module passed to `WeightNorm` can't have uninitialized parameters. "
                             "Make sure to run the dummy forward before applying weight normalization")  # fmt: skip
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norms(weight, hook.dim)))
        module.register_parameter(name + "_v", Parameter(weight.data))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Make the weight of the moment an ordinary parameter."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight))

    def __call__(self, module: Module, inputs: tuple) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Deprecated reparametrization of a weight by its norms and direction; use `nn.utils.parametrizations.weight_norm`.

    The module gets parameters `<name>_g` and `<name>_v` in the place of `name`, and is returned.

    Args:
        dim: dimension along which there is a norm each; None for one norm of the whole weight.
    Source: Salimans and Kingma, "Weight Normalization", 2016.

    >>> import tdt
    >>> import warnings, tdt
    >>> with warnings.catch_warnings(action="ignore"):
    ...     layer = tdt.nn.utils.weight_norm(tdt.nn.Linear(3, 2))
    >>> layer.weight_g.shape, layer.weight_v.shape
    (tdt.Size([2, 1]), tdt.Size([2, 3]))
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Undo `weight_norm`: the weight is a parameter again, with its present value. Returns the module.

    Raises:
        ValueError: when the weight is not normalised so.

    >>> import tdt
    >>> import warnings, tdt
    >>> with warnings.catch_warnings(action="ignore"):
    ...     layer = tdt.nn.utils.weight_norm(tdt.nn.Linear(3, 2))
    >>> [name for name, _ in tdt.nn.utils.remove_weight_norm(layer).named_parameters()]
    ['bias', 'weight']
    """
    remove_pre_hook(module, WeightNorm, name, f"weight_norm of '{name}' not found in {module}")
    return module


__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]
