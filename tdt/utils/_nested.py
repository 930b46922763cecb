"""Tensors in what a layer is given or gives."""

from __future__ import annotations

from typing import Any

from tdt import Tensor


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in nested tuples, lists and dicts, in order.

    >>> import tdt
    >>> from tdt.utils._nested import tensors_in
    >>> len(tensors_in([tdt.ones(1), {"a": (tdt.ones(2), None)}]))
    2
    """
    if isinstance(value, Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [tensor for item in items for tensor in tensors_in(item)]
