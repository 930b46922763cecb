"""Types of logged values, and their conversion to NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from tdt import Tensor

Array: TypeAlias = "Tensor | np.ndarray | np.generic | float"
Rows: TypeAlias = "Tensor | np.ndarray"
ArrayOrList: TypeAlias = "Tensor | ArrayLike"
Bins: TypeAlias = "str | int | Sequence[float] | np.ndarray | Tensor"  # as numpy.histogram takes them
Figures: TypeAlias = "Figure | list[Figure]"
Hyperparameter: TypeAlias = "Tensor | np.generic | str | float | None"
Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | float | None"
Charts: TypeAlias = Mapping[str, Mapping[str, Sequence[str | Sequence[str]]]]


def as_array(value: Any, lists: bool = False) -> np.ndarray:
    """A tensor, an array or a number as a NumPy array; bfloat16, which NumPy lacks, as float16. Never a copy to write in.

    lists: take lists too. Raises NotImplementedError for anything else.

    >>> from tdt.utils.tensorboard.summary._arrays import as_array
    >>> as_array(2.5)
    array([2.5])
    """
    if isinstance(value, np.ndarray):
        return value
    if lists and isinstance(value, (list, tuple)):
        return np.asarray(value)
    if np.isscalar(value):
        return np.array([value])
    if not hasattr(value, "detach"):
        kind = type(value).__name__
        raise NotImplementedError(
            f"expected a tensor, a NumPy array or a number, got {kind}; np.asarray makes an array"
        )
    value = value.detach().cpu()
    return value.half().numpy() if str(value.dtype).endswith("bfloat16") else value.numpy()
