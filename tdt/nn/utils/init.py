"""Making a module without filling its parameters."""

from __future__ import annotations

import inspect
from typing import Any

from tdt.autograd._meta import meta
from tdt.nn._types import M
from tdt.nn.modules.module import Module


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """Module `module_cls(*args, **kwargs)` with uninitialised parameters and buffers, for state that is loaded next.

    Raises:
        RuntimeError: when `module_cls` is not a Module class or takes no `device`.

    >>> import tdt
    >>> tdt.nn.utils.skip_init(tdt.nn.Linear, 2, 3).weight.shape
    tdt.Size([3, 2])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    with meta():
        module = module_cls(*args, **{**kwargs, "device": "meta"})
    return module.to_empty(device=device)


__all__ = ["skip_init"]
