"""Names that PyTorch removed or tdt does not offer, and the messages of the AttributeErrors for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tdt._did_you_mean import did_you_mean

# Functions and methods that PyTorch removed → their replacement.
REMOVED = {
    "Variable": "Tensor",
    "btrifact": "linalg.lu_factor",
    "btrifact_with_info": "linalg.lu_factor_ex",
    "btrisolve": "linalg.lu_solve",
    "btriunpack": "lu_unpack",
    "eig": "linalg.eig",
    "gels": "linalg.lstsq",
    "gesv": "linalg.solve",
    "ifft": "fft.ifft",
    "irfft": "fft.irfft",
    "lstsq": "linalg.lstsq",
    "matrix_rank": "linalg.matrix_rank",
    "potrf": "linalg.cholesky",
    "potri": "cholesky_inverse",
    "potrs": "cholesky_solve",
    "pstrf": "linalg.cholesky",
    "rfft": "fft.rfft",
    "solve": "linalg.solve",
    "symeig": "linalg.eigh",
    "trtrs": "linalg.solve_triangular",
}

# Attributes of Tensor alone that PyTorch removed → their replacement.
REMOVED_ATTRIBUTES = {
    "creator": "Tensor.grad_fn",
    "reinforce": "distributions",
    "volatile": "no_grad",
}

# Modules of PyTorch that tdt will not have, and why.
NOT_OFFERED = {
    "package": "tdt does not package code with models; save the state_dict",
}


def explain(name: str, known: Iterable[str]) -> str:
    """The error message for a name that `tdt` lacks: its replacement, why it is not offered, or the closest of `known`."""
    if name in REMOVED:
        return f"tdt.{name} was removed, as in PyTorch; use tdt.{REMOVED[name]}"
    if name in NOT_OFFERED:
        return f"tdt.{name} is not offered: {NOT_OFFERED[name]}"
    hint = did_you_mean(name, [other for other in known if other[0] != "_"])
    return f"module 'tdt' has no attribute '{name}'" + f"; {hint}" * bool(hint)


class Removed:
    """Descriptor of a removed attribute: reading it raises an AttributeError that names the replacement."""

    def __init__(self, name: str, replacement: str) -> None:
        self.message = f"Tensor.{name} was removed, as in PyTorch; use tdt.{replacement}"

    def __get__(self, tensor: object, owner: type) -> Any:
        raise AttributeError(self.message)


def bind_removed(tensor: type) -> None:
    """Set a `Removed` descriptor on the class Tensor for each removed method and attribute.

    A `__getattr__` would do the same, but slows down every attribute lookup: x + y took twice as long.
    """
    for name, replacement in {**REMOVED, **REMOVED_ATTRIBUTES}.items():
        setattr(tensor, name, Removed(name, replacement))
