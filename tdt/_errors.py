"""Errors of the core.

RuntimeError, TypeError, ValueError, IndexError     raised as PyTorch raises them, with its first words
└─ RuntimeError
   ├─ NotImplementedError                           an op that does not exist for a dtype or device
   ├─ LinAlgError                                   a matrix without the inverse or factors asked for
   ├─ OutOfMemoryError                              the GPU has no memory left
   └─ DataDependentError                            a shape that depends on values was asked of the meta pass
"""

from __future__ import annotations


class OutOfMemoryError(RuntimeError):
    """The device has no memory left for an allocation."""


class DataDependentError(RuntimeError):
    """A result's shape depends on values (`nonzero`, a boolean index), which the meta pass does not have."""


def missing(feature: str, what: str, install: str) -> ImportError:
    """The error for an optional library that is not installed: what needs it and what to install."""
    return ImportError(f"{feature} needs {what}: {install}")


class LinAlgError(RuntimeError):
    """A matrix has no such decomposition or inverse: it is singular, or not positive-definite."""
