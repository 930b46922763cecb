"""Tensors in nested containers: split among devices, and joined again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt._backend.device import as_device, device
from tdt._core.tensor import Tensor
from tdt._ops.shape.join import cat, stack

__all__ = ["gather", "scatter", "scatter_kwargs"]

Devices = Sequence[int | str | device]


def scatter(inputs: Any, target_gpus: Devices, dim: int = 0) -> Any:
    """`inputs` for each device: tensors are split along `dim`, in lists, tuples and dicts too; all else goes to each.

    >>> import tdt
    >>> tdt.nn.parallel.scatter({"x": tdt.arange(3), "scale": 2}, ["cpu", "cpu"])
    [{'x': tensor([0, 1]), 'scale': 2}, {'x': tensor([2]), 'scale': 2}]
    """
    if isinstance(inputs, Tensor):
        parts = inputs.chunk(len(target_gpus), dim)
        return tuple([part.to(as_device(where)) for part, where in zip(parts, target_gpus, strict=False)])
    if isinstance(inputs, (tuple, list, dict)) and inputs:
        values = inputs.values() if isinstance(inputs, dict) else inputs
        rows = zip(*[scatter(value, target_gpus, dim) for value in values], strict=False)
        if isinstance(inputs, dict):
            return [type(inputs)(zip(inputs, row, strict=True)) for row in rows]
        return [_rebuilt(inputs, row) for row in rows]
    return [inputs for _ in target_gpus]


def _rebuilt(like: Any, values: Any) -> Any:
    """A tuple, named tuple or list of the type of `like`."""
    return type(like)._make(values) if hasattr(like, "_fields") else type(like)(values)


def gather(outputs: Any, target_device: int | str | device, dim: int = 0) -> Any:
    """Results of several devices as one on `target_device`: tensors joined along `dim`, scalars as a vector.

    Raises:
        ValueError: when dicts have different numbers of keys.

    >>> import tdt
    >>> tdt.nn.parallel.gather([(tdt.zeros(1), None), (tdt.ones(2), None)], "cpu")
    (tensor([0., 1., 1.]), None)
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        moved = [part.to(as_device(target_device)) for part in outputs]
        return stack(moved) if first.ndim == 0 else cat(moved, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(part) != len(first) for part in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([part[key] for part in outputs], target_device, dim)) for key in first)
    return _rebuilt(first, [gather(row, target_device, dim) for row in zip(*outputs, strict=True)])


def scatter_kwargs(
    inputs: Sequence[Any], kwargs: dict[str, Any] | None, target_gpus: Devices, dim: int = 0
) -> tuple[tuple, tuple]:
    """Positional and keyword arguments for each device; as many as the batch gives work to.

    >>> import tdt
    >>> from tdt.nn.parallel.scatter_gather import scatter_kwargs
    >>> scatter_kwargs((tdt.arange(2),), {"scale": 2}, ["cpu", "cpu"])
    (((tensor([0]),), (tensor([1]),)), ({'scale': 2}, {'scale': 2}))
    """
    rows = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(rows), len(named), 1)
    return (*rows, *[()] * (count - len(rows))), (*named, *[{}] * (count - len(named)))
