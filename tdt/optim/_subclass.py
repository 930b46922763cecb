"""What PyTorch's `optim.optimizer` offers to authors of optimizers, besides Optimizer itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tdt._core.dtype import dtype, float32, float64, get_default_dtype
from tdt._core.mode import is_grad_enabled, set_grad_enabled
from tdt._core.tensor import Tensor

__all__ = [
    "Params", "ParamsT",
    "_default_to_fused_or_foreach", "_disable_dynamo_if_unsupported", "_get_capturable_supported_devices",
    "_get_scalar_dtype", "_get_value", "_group_tensors_by_device_and_dtype", "_stack_if_compiling", "_to_scalar",
    "_use_grad_for_differentiable", "_view_as_real",
]  # fmt: skip

# What an optimizer is made for: tensors, groups of them with their options, or named tensors.
Params = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
Loss = Tensor | float  # what a closure returns
ParamsT = Params  # PyTorch's name


def _use_grad_for_differentiable(step: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` that records its operations only if the optimizer was made with differentiable=True.

    >>> from tdt.optim._subclass import _use_grad_for_differentiable
    >>> from tdt.optim import SGD
    >>> class Silent(SGD):
    ...     step = _use_grad_for_differentiable(lambda self: tdt.is_grad_enabled())
    >>> import tdt
    >>> Silent([tdt.ones(1, requires_grad=True)]).step()
    False
    """

    @functools.wraps(step)
    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = is_grad_enabled()
        try:
            set_grad_enabled(self.defaults["differentiable"])
            return step(self, *args, **kwargs)
        finally:
            set_grad_enabled(before)

    return recorded


def _default_to_fused_or_foreach(params: list[Any], differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Defaults of `fused` and `foreach`: (False, False), since tdt's own optimizers choose their kernels by themselves."""
    return False, False


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Types of devices whose steps can be captured as a graph: none."""
    return []


def _get_value(x: Any) -> Any:
    """Number in a tensor of one element; anything else as it is.

    >>> import tdt
    >>> from tdt.optim._subclass import _get_value
    >>> _get_value(tdt.tensor(2.0)), _get_value(3)
    (2.0, 3)
    """
    return x.item() if isinstance(x, Tensor) else x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without its dimensions; anything else as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.ndim else x


def _stack_if_compiling(x: Any) -> Any:
    """`x` as it is: nothing is compiled."""
    return x


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[Any], Any]:
    """A decorator that changes nothing: nothing is compiled."""
    return lambda function: function


def _get_scalar_dtype(is_fused: bool | None = None) -> dtype:
    """dtype of a counter of steps: float64 if that is the default dtype, else float32."""
    default = get_default_dtype()
    return float64 if default is float64 and not is_fused else float32


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Replace complex tensors in the lists by their views as pairs of real numbers; complex parameters decide."""
    from tdt._ops.elementwise.complex_numbers import view_as_real as as_pairs

    for place, param in enumerate(params):
        if param.is_complex():
            params[place] = as_pairs(param)
            for values in state_and_grads:
                values[place] = as_pairs(values[place])


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]]:
    """The lists, which are of equal length, cut into groups by device and dtype of the first list's tensors.

    Returns:
        {(device, dtype): (a list for each given list, places in the given lists or [])}.
    """
    groups: dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]] = {}
    for place, first in enumerate(tensorlistlist[0]):
        if first is None:
            raise RuntimeError("tensors of the first list must not be None")
        lists, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for own, tensors in zip(lists, tensorlistlist, strict=True):
            if tensors:
                own.append(tensors[place])
        if with_indices:
            indices.append(place)
    return groups
