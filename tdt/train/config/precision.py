"""The floating-point dtype of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

import tdt


@contextmanager
def default_dtype(name: str) -> Iterator[None]:
    """Context manager that sets the default dtype for new layers and tensors.

    >>> import tdt
    >>> from tdt.train.config.precision import default_dtype
    >>> with default_dtype("float64"):
    ...     tdt.nn.Linear(1, 1).weight.dtype
    tdt.float64
    """
    before = tdt.get_default_dtype()
    tdt.set_default_dtype(getattr(tdt, name))
    try:
        yield
    finally:
        tdt.set_default_dtype(before)


def input_dtype(dtype: np.dtype | str) -> np.dtype:
    """The NumPy dtype of a model's inputs for data of `dtype`: float32 is converted to the default dtype.

    >>> from tdt.train.config.precision import default_dtype, input_dtype
    >>> with default_dtype("float64"):
    ...     input_dtype("float32"), input_dtype("int64")
    (dtype('float64'), dtype('int64'))
    """
    found = np.dtype(dtype)
    return tdt.get_default_dtype().np if found == np.float32 else found
