"""Three-term recurrences of orthogonal polynomials, for arrays and for generated code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Start = Callable[[Any], Any]
Step = Callable[[Any, Any, Any, Any], Any]


def _chebyshev(k: Any, x: Any, before: Any, last: Any) -> Any:
    return 2 * x * last - before


# By name: the polynomial of degree 1, and that of degree k + 1 of (k, x, degree k - 1, degree k).
RECURRENCES: dict[str, tuple[Start, Step]] = {
    "t": (lambda x: x, _chebyshev),
    "u": (lambda x: 2 * x, _chebyshev),
    "v": (lambda x: 2 * x - 1, _chebyshev),
    "w": (lambda x: 2 * x + 1, _chebyshev),
    "h": (lambda x: 2 * x, lambda k, x, before, last: 2 * x * last - 2 * k * before),
    "he": (lambda x: x, lambda k, x, before, last: x * last - k * before),
    "l": (lambda x: 1 - x, lambda k, x, before, last: ((2 * k + 1 - x) * last - k * before) / (k + 1)),
    "p": (lambda x: x, lambda k, x, before, last: ((2 * k + 1) * x * last - k * before) / (k + 1)),
}
