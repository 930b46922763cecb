"""Sums of products in half precision, against float64: what float32's summation and one rounding allow."""

from __future__ import annotations

import numpy as np

UNIT = 2.0**-24  # float32's unit roundoff


def assert_rounded_once(found: np.ndarray, exact: np.ndarray, magnitude: np.ndarray, terms: int) -> None:
    """Each number is a sum in float32, in any order, of `terms` products, rounded once to its own dtype.

    Such a sum lies within `bound` of the exact one (Higham, Accuracy and Stability of Numerical Algorithms, 2002, ch. 3).
    Rounding keeps the order of numbers, so that a result lies between the roundings of both ends.

    Args:
        found: of bfloat16 or float16.
        exact: float64's sums.
        magnitude: the sums of the products' absolute values.
    """
    bound = terms * UNIT / (1 - terms * UNIT) * magnitude
    low, high = ((exact + side * bound).astype(found.dtype).astype(float) for side in (-1, 1))
    values = found.astype(float)
    outside = ~((low <= values) & (values <= high))
    assert not outside.any(), (
        f"{outside.sum()} of {outside.size} numbers are not their exact sums within float32's error, rounded once: "
        f"{values[outside][:3]}, exactly {exact[outside][:3]}"
    )
