"""The functions of `torch.nn.functional` that are missing from PyTorch's op database, as calls in both libraries."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from tests.nn._compare import numbers

# Public by name alone: helpers of PyTorch's own dispatch, and what the module imports.
NO_FUNCTIONS = {"assert_int_or_pair", "boolean_dispatch", "handle_torch_function", "has_torch_function",
                "has_torch_function_unary", "has_torch_function_variadic", "Optional"}  # fmt: skip

_SCALED = "takes 8-bit floating-point numbers, which are not offered"
NOT_OFFERED = {"scaled_mm": _SCALED, "scaled_grouped_mm": _SCALED}

Call = tuple[Callable[..., Any], tuple]  # function of the library and of tensors; the arrays that become tensors


def public_functions() -> list[str]:
    """The names of functions in `torch.nn.functional`."""
    listed = vars(torch.nn.functional).items()
    return sorted(
        n for n, v in listed if n[0] != "_" and callable(v) and not inspect.isclass(v) and n not in NO_FUNCTIONS
    )


def _inplace(name: str, *args: Any) -> list[Call]:
    """`relu_` and its like on a tensor that may be written to; the result is the tensor itself."""

    def call(lib: Any, x: Any) -> Any:
        lib.manual_seed(5)
        y = x * 1
        out = getattr(lib.nn.functional, name)(y, *args)
        assert out is y
        return out

    return [(call, (numbers(4, 5, dtype=dtype),)) for dtype in ("float32", "float64")]


def _seeded(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """A call of a function that draws, from one seed in both libraries."""

    def call(lib: Any, *x: Any) -> Any:
        lib.manual_seed(5)
        return getattr(lib.nn.functional, name)(*x, *args, **kwargs)

    return call


def _plain(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda lib, *x: getattr(lib.nn.functional, name)(*x, *args, **kwargs)


def _pools(kind: str, shape: tuple, *options: tuple) -> list[Call]:
    return [(_seeded(kind, *args), (numbers(*shape, dtype="float64"),)) for args in options]


CALLS: dict[str, list[Call]] = {
    "adaptive_max_pool1d_with_indices": _pools("adaptive_max_pool1d_with_indices", (2, 3, 7), (3,), (7,), (9,)),
    "adaptive_max_pool2d_with_indices": _pools("adaptive_max_pool2d_with_indices", (2, 3, 7, 5), (3,), ((None, 2),)),
    "adaptive_max_pool3d_with_indices": _pools("adaptive_max_pool3d_with_indices", (2, 3, 4, 7, 5), (3,), ((2, None, 1),)),
    "affine_grid": [
        (_plain("affine_grid", size, align_corners=corners), (numbers(2, *theta),))
        for size, theta in (((2, 3, 4, 5), (2, 3)), ((2, 1, 3, 4, 5), (3, 4)), ((2, 1, 1, 1), (2, 3)))
        for corners in (True, False, None)
    ],
    # PyTorch rounds 1 / alpha to float32 for the gradient: a power of two has none to lose.
    "celu_": _inplace("celu_", 0.5),
    "conv_tbc": [(_plain("conv_tbc", pad), (numbers(6, 2, 3), numbers(3, 3, 4), numbers(4))) for pad in (0, 2)],
    "dropout1d": [(_seeded("dropout1d", 0.4), (numbers(3, 4, 5),)), (_seeded("dropout1d", 0.4, False), (numbers(4, 5),))],
    "elu_": _inplace("elu_", 0.7),
    "fold": [(_plain("fold", (4, 5), (2, 2)), (numbers(2, 12, 12),)), (_plain("fold", 6, 3, 1, 1, 2), (numbers(18, 9),))],
    "fractional_max_pool2d_with_indices": _pools(
        "fractional_max_pool2d_with_indices", (2, 3, 7, 8), (3, (4, 5)), (2, None, (0.5, 0.6))
    ),
    "fractional_max_pool3d_with_indices": _pools(
        "fractional_max_pool3d_with_indices", (2, 3, 7, 8, 6), (3, (4, 5, 2)), (2, None, (0.5, 0.6, 0.7))
    ),
    "grouped_mm": [
        (_plain("grouped_mm"), (numbers(3, 4, 8), numbers(3, 8, 16))),
        (lambda lib, a, b: lib.nn.functional.grouped_mm(a, b, offs=lib.tensor([4, 8, 16], dtype=lib.int32)),
         (numbers(16, 8), numbers(3, 8, 16))),
    ],
    "gumbel_softmax": [
        (_seeded("gumbel_softmax", tau=tau, hard=hard, dim=dim), (numbers(3, 5, dtype=dtype),))
        for tau, hard, dim in ((1, False, -1), (0.5, True, -1), (2.0, True, 0)) for dtype in ("float32", "float64")
    ],
    "hardtanh_": _inplace("hardtanh_", -0.5, 0.7),
    "leaky_relu_": _inplace("leaky_relu_", 0.2),
    **{
        f"lp_pool{d}d": [(_plain(f"lp_pool{d}d", *args), (numbers(2, 3, *[7] * d, dtype="float64"),))
                         for args in ((2, 3), (3.0, 2, 1, True))]
        for d in (1, 2, 3)
    },
    **{
        f"max_pool{d}d_with_indices": _pools(f"max_pool{d}d_with_indices", (2, 3, *[7] * d), (2,), (3, 2, 1, 1, True))
        for d in (1, 2, 3)
    },
    "native_channel_shuffle": [(lambda lib, x: lib.nn.functional.native_channel_shuffle(x.detach(), 3), (numbers(2, 6, 4),))],
    "relu_": _inplace("relu_"),
    "rrelu_": [*_inplace("rrelu_", 0.1, 0.5), *_inplace("rrelu_", 0.1, 0.5, True)],
    "selu_": _inplace("selu_"),
    "threshold_": _inplace("threshold_", 0.1, 20.0),
    "upsample": [
        (_plain("upsample", scale_factor=2), (numbers(2, 3, 4, 5),)),
        (_plain("upsample", size=(7, 3), mode="bilinear", align_corners=True), (numbers(2, 3, 4, 5, dtype="float64"),)),
    ],
}  # fmt: skip
