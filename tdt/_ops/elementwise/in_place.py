"""In-place methods of Tensor as functions: `tdt.sin_(x)` is `x.sin_()`; `@method(in_place_function=True)` names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt._core.methods import IN_PLACE_FUNCTIONS
from tdt._core.tensor import Tensor
from tdt._ops.elementwise._front import named, tensor_argument

# The tensor and the arguments of an example, where `tdt.sin_(tdt.tensor([0.5]))` will not do.
EXAMPLES = {
    "addmv_": ("0.5", "tdt.ones(1, 2), tdt.ones(2)"),
    "as_strided_": ("0.5", "(1,), (1,)"),
    "gcd_": ("12", "tdt.tensor([18])"),
    "lcm_": ("12", "tdt.tensor([18])"),
    "ldexp_": ("0.5", "tdt.tensor([2])"),
    "xlogy_": ("0.5", "tdt.tensor([2.0])"),
}


def _function(name: str) -> Callable[..., Tensor]:
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return getattr(tensor_argument(name, input), name)(*args, **kwargs)

    number, arguments = EXAMPLES.get(name, ("0.5", ""))
    call = f"tdt.{name}(x{', ' * bool(arguments)}{arguments})"
    example = f">>> import tdt\n>>> x = tdt.tensor([{number}])\n>>> {call} is x\nTrue\n"
    return named(function, name, f"`Tensor.{name}`: writes into `input` and returns it.\n\n{example}")


__all__ = [*IN_PLACE_FUNCTIONS]
globals().update({name: _function(name) for name in IN_PLACE_FUNCTIONS})
