"""Names and argument orders that PyTorch removed or tdt does not offer: what an AttributeError says about them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

# Functions and methods that PyTorch took out, and what does their work now.
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

# Attributes of tensors alone that were taken out.
REMOVED_ATTRIBUTES = {
    "creator": "Tensor.grad_fn",
    "reinforce": "distributions",
    "volatile": "no_grad",
}

# Keyword arguments that were taken out, by the function that had them, and what stands in their place.
REMOVED_ARGUMENTS = {
    "backward": {"retain_variables": "retain_graph"},
    "grad": {"retain_variables": "retain_graph"},
    "TensorDataset": {
        "data_tensor": "TensorDataset(data, target), by position",
        "target_tensor": "TensorDataset(data, target), by position",
    },
}

# Parts of PyTorch that tdt leaves out for good.
NOT_OFFERED = {
    "ao": "tdt does not quantise or prune for other runtimes; nn.utils.prune masks weights",
    "export": "tdt does not trace Python into graphs; save the state_dict",
    "mps": "tdt computes on the CPU and, through CuPy, on NVIDIA's GPUs",
    "nested": "tdt has no nested tensors; pad them, or keep a list",
    "package": "tdt does not package code with models; save the state_dict",
    "quantization": "tdt does not quantise models",
    "xpu": "tdt computes on the CPU and, through CuPy, on NVIDIA's GPUs",
}


def explain(name: str, known: Iterable[str]) -> str:
    """The sentence for a name that `tdt` lacks: its successor, why it is not offered, or the closest of `known`."""
    if name in REMOVED:
        return f"tdt.{name} was removed, as in PyTorch; use tdt.{REMOVED[name]}"
    if name in NOT_OFFERED:
        return f"tdt.{name} is not offered: {NOT_OFFERED[name]}"
    import difflib

    close = difflib.get_close_matches(name, (other for other in known if other[0] != "_"), n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return f"module 'tdt' has no attribute '{name}'{hint}"


class Removed:
    """An attribute that was taken out: reading it is an AttributeError that names its successor."""

    def __init__(self, name: str, successor: str) -> None:
        self.said = f"Tensor.{name} was removed, as in PyTorch; use tdt.{successor}"

    def __get__(self, tensor: object, owner: type) -> Any:
        raise AttributeError(self.said)


def put_on(tensor: type) -> None:
    """Let the class Tensor answer for what was taken out.

    A `__getattr__` would do the same, but with one the interpreter looks every attribute up the slow way: x + y took
    twice as long.
    """
    for name, successor in {**REMOVED, **REMOVED_ATTRIBUTES}.items():
        setattr(tensor, name, Removed(name, successor))


def refuses_removed_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose TypeError for an argument in REMOVED_ARGUMENTS says what stands in its place."""
    name = function.__qualname__.removesuffix(".__init__")
    successors = REMOVED_ARGUMENTS[name]

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if kwargs and (old := kwargs.keys() & successors):
            gone = min(old)
            raise TypeError(f"{name}() got an unexpected keyword argument '{gone}'; use {successors[gone]}")
        return function(*args, **kwargs)

    return checked


def takes_old_order(
    tensors: int, *scalars: str, stacklevel: int = 2
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function of so many tensors take its scalars by position too: `add(x, 2, y)` is `add(x, y, alpha=2)`.

    So PyTorch took them before 1.5, and still does, with a warning: `add_(2, y)`, `addcmul_(v, a, b)`,
    `addmm(beta, x, alpha, a, b)`, `x.addmm_(beta, alpha, a, b)`. stacklevel: how far above the function its caller is.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def ordered(*args: Any, **kwargs: Any) -> Any:
            if len(args) <= tensors:
                return function(*args, **kwargs)
            first, rest = args[: len(scalars) + 1], args[len(scalars) + 1 :]
            given = dict(zip(scalars, (arg for arg in first if isinstance(arg, (int, float, complex))), strict=False))
            if len(args) != tensors + len(given):
                return function(*args, **kwargs)  # which says what is wrong
            new = ", ".join(f"{name}={value}" for name, value in given.items())
            said = f"{function.__name__}: numbers before tensors are deprecated; write {new}"
            warnings.warn(said, stacklevel=stacklevel)
            first = tuple(arg for arg in first if not isinstance(arg, (int, float, complex)))
            return function(*first, *rest, **given, **kwargs)

        return ordered

    return decorate
