"""Which way attention is computed: PyTorch's names for it. Here it is one op, and the names change nothing."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Sequence


class SDPBackend(enum.IntEnum):
    """PyTorch's ways to compute `scaled_dot_product_attention`.

    >>> import tdt
    >>> tdt.nn.attention.SDPBackend.MATH.name
    'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Sequence[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[dict]:
    """Context in which PyTorch would choose among these attention kernels; tdt has one, so it only checks them.

    Raises:
        AssertionError: when `backends` are not members of SDPBackend.

    >>> import tdt
    >>> with tdt.nn.attention.sdpa_kernel(tdt.nn.attention.SDPBackend.FLASH_ATTENTION):
    ...     pass
    """
    if not isinstance(backends, list | SDPBackend):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
                             f"{type(backends).__name__}")  # fmt: skip
    yield {}


__all__ = ["SDPBackend", "sdpa_kernel"]
