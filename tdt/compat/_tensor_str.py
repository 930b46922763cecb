"""`torch._tensor_str`: how tensors are printed, for programs that print them by parts."""

from __future__ import annotations

from tdt._core.printing import _body, options
from tdt._core.tensor import Tensor


class _PrinterOptions:
    """The settings of `set_printoptions` as attributes, which may be set."""


PRINT_OPTS = _PrinterOptions()
PRINT_OPTS.__dict__ = options


def _tensor_str(self: Tensor, indent: int) -> str:
    """The elements of a tensor as nested brackets, without "tensor(...)". indent: columns before the first line."""
    return _body(self, indent)
