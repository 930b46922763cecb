"""Errors of the core.

RuntimeError, TypeError, ValueError, IndexError     raised as PyTorch raises them, with its first words
└─ RuntimeError
   ├─ NotImplementedError                           an op that does not exist for a dtype or device
   ├─ LinAlgError                                   a matrix without the inverse or factors asked for
   ├─ OutOfMemoryError                              the GPU has no memory left (tdt/_backend/_gpu_memory.py)
   └─ DataDependentError                            a shape that depends on values was asked of the meta pass
"""

from __future__ import annotations

from typing import Any


class DataDependentError(RuntimeError):
    """A result's shape depends on values (`nonzero`, a boolean index), which the meta pass does not have."""


def missing(feature: str, what: str, install: str) -> ImportError:
    """The ImportError for an optional library: names the feature that needs it and the package to install."""
    return ImportError(f"{feature} needs {what}: {install}")


class LinAlgError(RuntimeError):
    """A matrix has no such decomposition or inverse: it is singular, or not positive-definite.

    >>> import tdt
    >>> try:
    ...     tdt.linalg.cholesky(-tdt.eye(2))
    ... except tdt.linalg.LinAlgError:
    ...     print("not positive-definite")
    not positive-definite
    """


def freed() -> RuntimeError:
    """The error of a second backward pass through a graph that was not retained."""
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
        "freed). Specify retain_graph=True when calling .backward() or autograd.grad() the first time."
    )


def constant(function: str, argument: str) -> RuntimeError:
    """The error of a tensor that requires grad where a function has no gradient for it."""
    return RuntimeError(
        f"{function}() is not differentiable with respect to its argument '{argument}', which may not require grad: "
        f"give it {argument}.detach()"
    )


def overwritten(saved: Any, storage: Any, version: int, node: Any) -> RuntimeError:
    """The error of a backward pass that needs a tensor modified in place."""
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor of shape "
        f"{list(saved.shape)} kept by {node.name()} is at version {storage.version}; expected version {version} instead. "
        "Use the out-of-place form, or clone() it first."
    )
