"""One call of each of several modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt import _backend
from tdt._backend.device import as_device

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Sequence[dict] | None = None, devices: Any = None
) -> list[Any]:
    """Result of each module for its own inputs (a tuple, a list or one argument), on its own device.

    Calls are made one after the other; GPUs compute at the same time, since a call does not wait for them.

    Raises:
        AssertionError: when the numbers of modules, inputs, keyword arguments or devices differ.

    >>> import tdt
    >>> from tdt import nn, ones
    >>> tdt.nn.parallel.parallel_apply([nn.ReLU(), nn.Tanh()], [ones(1), (0 * ones(1),)])
    [tensor([1.]), tensor([0.])]
    """
    kwargs_tup = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    devices = [None] * len(modules) if devices is None else devices
    for values, what in ((inputs, "inputs"), (kwargs_tup, "kwargs_tup"), (devices, "devices")):
        if len(values) != len(modules):
            raise AssertionError(
                f"The number of modules {len(modules)} is not equal to the number of {what} {len(values)}"
            )
    results = []
    for module, args, kwargs, where in zip(modules, inputs, kwargs_tup, devices, strict=True):
        with _backend.current(as_device(where)):
            results.append(module(*(args if isinstance(args, (list, tuple)) else (args,)), **kwargs))
    return results
