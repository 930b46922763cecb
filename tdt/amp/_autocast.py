"""Autocast: a dispatch handler that runs products in bfloat16 or float16 and losses in float32.

Which op gets what is PyTorch's choice for the CPU. An op in neither table runs in the dtypes that it is given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.mode import _Mode, state
from tdt._core.tensor import Tensor
from tdt.autograd._dispatch import apply
from tdt.autograd._op_table import OPS

# Ops, and functions made of several, whose float32 operands become the block's dtype …
LOWER = {"linear", "matmul", "conv", "conv_input_grad", "attention", "prelu", "lstm_sequence", "rnn_sequence",
         "addmm", "addbmm", "baddbmm", "bmm", "vecdot"}  # fmt: skip
# … and those whose operands in 16 bits become float32.
FLOAT32 = {"prod", "mse_loss", "huber_loss", "cross_entropy", "nll_loss", "binary_cross_entropy",
           "binary_cross_entropy_with_logits", "ctc_loss", "l1_loss", "smooth_l1_loss", "kl_div", "soft_margin_loss",
           "hinge_embedding_loss", "poisson_nll_loss", "cosine_embedding_loss", "margin_ranking_loss",
           "triplet_margin_loss", "multi_margin_loss", "multilabel_margin_loss", "cdist", "trace", "grid_sample",
           "quantile", "nanquantile", "fft", "stft", "cholesky", "cholesky_inverse", "cholesky_solve", "eig", "eigh",
           "eigvalsh", "geqrf", "householder_product", "inv", "lobpcg", "lstsq", "lu_factor", "lu_solve", "orgqr", "ormqr",
           "pinv", "qr", "solve", "svd", "svdvals", "triangular_solve"}  # fmt: skip
POOLS = {"avg_pool", "max_pool", "max_pool_with_indices"}  # in three dimensions these, too
LOW = (_dtype.bfloat16.np, _dtype.float16.np)


class Casting:
    """The handler: `dtypes` has the device types it works for; `below` is the handler that comes next, mostly None."""

    def __init__(self, dtypes: dict[str, _dtype.dtype], below: Any) -> None:
        self.dtypes, self.below = dtypes, below

    def __call__(self, op: Any, operands: tuple, attributes: dict, target: Any) -> Any:
        if target is None:  # what is written in place keeps its dtype
            operands = tuple(map(self.caster(op.name, operands), operands))
        with _Mode(handler=self.below):
            return apply(op, operands, attributes, target)

    def caster(self, name: str, operands: tuple) -> Callable[[Any], Any]:
        """What to do to each operand of the op or function `name`."""
        if name in LOWER:
            return self._lowered
        if name in FLOAT32 or (name in POOLS and operands[0].ndim == 5):
            return self._widened
        return lambda x: x

    def _lowered(self, x: Any) -> Any:
        dtype = self.dtypes.get(x.device.type) if isinstance(x, Tensor) else None
        other = dtype is not None and x._a.dtype in (np.float32, *LOW) and x._a.dtype != dtype.np
        return self._converted(x, dtype) if other else x

    def _widened(self, x: Any) -> Any:
        low = isinstance(x, Tensor) and x._a.dtype in LOW and x.device.type in self.dtypes
        return self._converted(x, _dtype.float32) if low else x

    def _converted(self, x: Tensor, dtype: Any) -> Any:
        with _Mode(handler=self.below):
            return OPS["convert"](x, dtype=dtype)


def cast_for(name: str, *operands: Any) -> tuple:
    """The operands of a function of LOWER or FLOAT32 as the block in force wants them; themselves without one."""
    handler = state.handler
    return tuple(map(handler.caster(name, operands), operands)) if handler.__class__ is Casting else operands


def casts_as_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function made of several ops that mixed precision treats as one, by its name."""
    name = function.__name__

    @functools.wraps(function)
    def front(*args: Any, **kwargs: Any) -> Any:
        handler = state.handler
        if handler.__class__ is not Casting:
            return function(*args, **kwargs)
        cast = handler.caster(name, args)
        with _Mode(handler=handler.below):
            return function(*map(cast, args), **{key: cast(value) for key, value in kwargs.items()})

    return front
