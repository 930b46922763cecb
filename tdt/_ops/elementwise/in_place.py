"""In-place methods of Tensor as functions: `tdt.sin_(x)` is `x.sin_()`. All are made from the table below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt._core.tensor import Tensor
from tdt._ops.elementwise._front import named, tensor_argument

UNARY = """
    abs_ acos_ acosh_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_ atan_ atanh_ ceil_ conj_physical_
    cos_ cosh_ deg2rad_ detach_ erf_ erfc_ exp2_ exp_ expm1_ fix_ floor_ frac_ i0_ log10_ log1p_ log2_ log_ logit_
    nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_
    trunc_"""  # fmt: skip
# Functions with more arguments, and the tensor and the arguments of an example.
CALLS = dict.fromkeys(UNARY.split(), ("0.5", "")) | {
    "addmv_": ("0.5", "tdt.ones(1, 2), tdt.ones(2)"),
    "as_strided_": ("0.5", "(1,), (1,)"),
    "clamp_": ("0.5", "0, 1"),
    "clamp_max_": ("0.5", "1"),
    "clamp_min_": ("0.5", "1"),
    "clip_": ("0.5", "0, 1"),
    "gcd_": ("12", "tdt.tensor([18])"),
    "index_put_": ("0.5", "(tdt.tensor([0]),), tdt.tensor([1.0])"),
    "lcm_": ("12", "tdt.tensor([18])"),
    "ldexp_": ("0.5", "tdt.tensor([2])"),
    "xlogy_": ("0.5", "tdt.tensor([2.0])"),
}


def _function(name: str, number: str, arguments: str) -> Callable[..., Tensor]:
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return getattr(tensor_argument(name, input), name)(*args, **kwargs)

    call = f"tdt.{name}(x{', ' * bool(arguments)}{arguments})"
    example = f">>> import tdt\n>>> x = tdt.tensor([{number}])\n>>> {call} is x\nTrue\n"
    return named(function, name, f"`Tensor.{name}`: writes into `input` and returns it.\n\n{example}")


__all__ = list(CALLS)
globals().update({name: _function(name, *example) for name, example in CALLS.items()})
