"""JSON without NaN and infinities, whose numbers read back equal.

JSON has no NaN and no infinity; what Python's `json` writes for them no other parser accepts. It also silently turns the
key 1 into "1". Finite floats need no care: Python writes the shortest decimal that reads back to the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_FLOAT = "$float"


def text_of(number: float) -> float | str:
    """The number as a JSON value: `float()` of the result is the number, also for "nan", "inf" and "-inf".

    >>> from tdt.train._strict_json import text_of
    >>> text_of(0.1), text_of(float("-inf"))
    (0.1, '-inf')
    """
    return number if math.isfinite(number) else repr(float(number))


def pack(value: Any, where: str = "meta") -> Any:
    """`value` with non-finite floats as {"$float": "nan"}.

    Raises:
        TypeError: something that JSON cannot represent; names its place.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {_FLOAT: repr(value)}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key == _FLOAT:
                raise TypeError(f"{where} has the key {key!r}; expected a string other than {_FLOAT!r}")
        return {key: pack(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [pack(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise TypeError(f"{where} is {type(value).__name__}; expected dict, list, str, int, float, bool or None")


def unpack(value: Any) -> Any:
    """The inverse of `pack`."""
    if isinstance(value, dict):
        if set(value) == {_FLOAT}:
            return float(value[_FLOAT])
        return {key: unpack(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unpack(item) for item in value]
    return value
