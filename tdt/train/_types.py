"""Types of batches, states and callbacks, for annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    from tdt import Tensor

# What a model takes and gives, and a batch's targets: a tensor, or several in lists, tuples and dicts.
Nested: TypeAlias = "Tensor | Sequence[Nested] | Mapping[str, Nested]"
# Any: values of JSON, and what the keys of a checkpoint's description have; each reader checks its own.
Json: TypeAlias = dict[str, Any]
Arrays: TypeAlias = "dict[str, np.ndarray]"
Callback: TypeAlias = Callable[[], None]
