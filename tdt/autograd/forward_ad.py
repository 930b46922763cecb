"""Forward-mode differentiation, which tdt does not have: no tensor is dual. `tdt.func.jvp` gives the same products.

>>> import tdt
>>> tdt.autograd.forward_ad.unpack_dual(tdt.ones(1)).tangent is None
True
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from tdt._core.tensor import Tensor

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

_REASON = "tdt has no forward-mode differentiation: autograd.functional.jvp and func.jvp give the same products"


class UnpackedDualTensor(NamedTuple):
    """A tensor, and its tangent: None."""

    primal: Tensor
    tangent: Tensor | None


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor and its tangent, which is None, as in PyTorch outside `dual_level`.

    >>> import tdt
    >>> tdt.autograd.forward_ad.unpack_dual(tdt.ones(1))
    UnpackedDualTensor(primal=tensor([1.]), tangent=None)
    """
    return UnpackedDualTensor(tensor, None)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> NoReturn:
    """Not offered: NotImplementedError, which names `func.jvp`."""
    raise NotImplementedError(f"autograd.forward_ad.make_dual: {_REASON}")


def enter_dual_level() -> NoReturn:
    """Not offered: NotImplementedError, which names `func.jvp`."""
    raise NotImplementedError(f"autograd.forward_ad.enter_dual_level: {_REASON}")


def exit_dual_level(*, level: int | None = None) -> NoReturn:
    """Not offered: NotImplementedError, which names `func.jvp`."""
    raise NotImplementedError(f"autograd.forward_ad.exit_dual_level: {_REASON}")


class dual_level:
    """Not offered: entering it is a NotImplementedError, which names `func.jvp`."""

    def __enter__(self) -> NoReturn:
        enter_dual_level()

    def __exit__(self, *error: object) -> None:
        pass
