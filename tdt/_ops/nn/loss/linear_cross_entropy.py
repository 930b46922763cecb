"""A linear layer and the cross-entropy of its outputs in one function, which needs little memory for many classes."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

from tdt import _kernels
from tdt._core.dtype import FLOATING, SCALAR_NAMES, bfloat16, dtype, float16, float32, float64, int64
from tdt._core.tensor import Tensor
from tdt._ops.nn.linear import _linear, linear
from tdt._ops.nn.loss._front import check_tensors, reduced
from tdt._ops.nn.loss.classes import _cross_entropy, cross_entropy, cross_entropy_rule, cross_entropy_slope
from tdt.autograd._op import op


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` processes its samples in chunks, without the logits of all of them at once.

    Sums are in float32 at least and gradients are recomputed, so `acc_policy`, `acc_dtype` and `allow_retain_graph` do not
    change the result.

    Args:
        batch_chunk_size: samples in a chunk.
        chunking_method: "aspect_ratio:n" gives chunks whose logits have about the size of 1/n of the input; "auto" chooses;
            None uses `batch_chunk_size`.
        acc_policy: "auto", "accurate", "balanced" or "compact".
        acc_dtype: None or a floating-point dtype.
    Raises:
        ValueError: when an argument has another value.

    >>> import tdt
    >>> tdt.nn.LinearCrossEntropyOptions(batch_chunk_size=128).batch_chunk_size
    128
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: dtype | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, _, parts = f"{self.chunking_method}".partition(":")
            if name != "aspect_ratio" or (parts and not parts.isdigit()) or parts == "0":
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype is not None:
            _check_sum(self.acc_dtype)

    def chunk(self, samples: int, features: int, classes: int) -> int:
        """Number of samples in a chunk.

        Raises:
            ValueError: when `batch_chunk_size` and `chunking_method` give different numbers.
        """
        method, size = self.chunking_method, self.batch_chunk_size
        if method == "auto":
            method = "aspect_ratio:2" if size is None else None
        if method is None:
            return max(1, samples if size is None else min(size, samples))
        target = -(-samples // -(-classes // max(features, 1)))
        found = min((1 << max(target - 1, 0).bit_length()) // int(method.partition(":")[2] or 1), samples)
        if size is not None and size != found:
            raise ValueError(f"batch_chunk_size (={size}) and chunking_method ('{method}') give different chunk sizes "
                             f"({size} vs {found}); pass only one.")  # fmt: skip
        return max(1, found)


def _check_sum(kind: dtype) -> None:
    if kind not in (float16, bfloat16, float32, float64):
        raise ValueError("acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, torch.float64}, "
                         f"got {kind}")  # fmt: skip


def _flops(x: tuple, w: tuple, *rest: Any, **how: Any) -> int:
    return math.prod(x) * w[0]


def _chunk(xp: Any, x: Any, w: Any, b: Any, target: Any, weight: Any, ignore_index: int) -> tuple[Any, tuple]:
    """The logits of some samples, and their losses with the values for the gradient."""
    logits = _kernels.product(xp, x, w.T)
    logits = logits if b is None else xp.add(logits, b, out=logits)
    return logits, _cross_entropy.forward(xp, logits, target, weight, reduction="none", ignore_index=ignore_index)


@op(dtypes=FLOATING, promote=(), broadcasts=False, shape=lambda x, w, *rest, **how: x[:1], flops=_flops)
def _linear_cross_entropy(xp, x, w, b=None, target=None, weight=None, *, ignore_index, chunk):
    losses = xp.empty(len(x), x.dtype)
    for i in range(0, len(x), chunk):
        part = slice(i, i + chunk)
        losses[part] = _chunk(xp, x[part], w, b, target[part], weight, ignore_index)[1][0]
    return losses


@_linear_cross_entropy.vjp("x", "w", "b")
def _(g, needs, x, w, b, target, weight, ignore_index):
    d = cross_entropy_rule(g, _linear(x, w, b), target, weight, "none", ignore_index)
    return d @ w if needs[0] else None, d.mT @ x if needs[1] else None, d.sum(0) if needs[2] else None


@_linear_cross_entropy.fast_vjp("x", "w", "b")
def _(xp, g, needs, x, w, b, target, weight, ignore_index, chunk):
    gx, gw = xp.empty_like(x) if needs[0] else None, xp.zeros_like(w) if needs[1] else None
    gb = xp.zeros_like(b) if needs[2] else None
    for i in range(0, len(x), chunk):
        part = slice(i, i + chunk)
        logits, values = _chunk(xp, x[part], w, b, target[part], weight, ignore_index)
        _, t, share, ignored, sums, norm = values
        d = cross_entropy_slope(xp, g[part], logits, weight, t, share, ignored, sums, norm, "none", ignore_index)
        if gx is not None:
            gx[part] = _kernels.product(xp, d, w)
        if gw is not None:
            gw += _kernels.product(xp, d.T, x[part])
        if gb is not None:
            gb += d.sum(axis=0)
    return gx, gw, gb


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:  # fmt: skip
    """cross_entropy(input · linear_weightᵀ + linear_bias, target), in chunks of samples if `options` are given.

    Args:
        target, weight, ignore_index, reduction, label_smoothing: as for `cross_entropy`.
        options: how to form chunks; ignored with a warning unless targets are classes, without d and label smoothing.
    Shape: input (N, in) or (in,), linear_weight (C, *d, in), linear_bias (C, *d), target (N, *d) or as the logits
        (N, C, *d), weight (C,); result (), or (N, *d) with reduction="none".
    Raises:
        RuntimeError: when shapes or dtypes do not fit, or `ignore_index` is given with probabilities.
        ValueError: when the options contradict each other, or `reduction` is unknown.

    >>> import tdt
    >>> tdt.nn.functional.linear_cross_entropy(tdt.ones(2, 3), tdt.zeros(4, 3), tdt.tensor([0, 1]))
    tensor(1.3863)
    """
    check_tensors("linear_cross_entropy", input=input, linear_weight=linear_weight, target=target)
    _check(input, linear_weight, linear_bias)
    classes, *out = linear_weight.shape[:-1]
    logits_shape = (*input.shape[:-1], classes, *out)
    if target.shape == logits_shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignore_index = -100 if ignore_index is None else ignore_index
    if options is not None:
        if not out and not label_smoothing and target.dtype is int64 and reduction in ("none", "mean", "sum"):
            return _by_chunks(input, linear_weight, target, linear_bias, weight, reduction, ignore_index, options)
        warnings.warn("linear_cross_entropy: ``options`` ignored; chunked path needs reduction in {'mean','sum','none'}, "
                      f"label_smoothing == 0, target.dtype == int64, out_features == (). Got reduction={reduction!r}, "
                      f"label_smoothing={label_smoothing}, target.dtype={target.dtype}, out_features={tuple(out)}.",
                      stacklevel=2)  # fmt: skip
    if out:
        linear_weight = linear_weight.reshape(-1, linear_weight.shape[-1])
        linear_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight, linear_bias).reshape(logits_shape)
    return cross_entropy(logits, target, weight, ignore_index=ignore_index, reduction=reduction,
                         label_smoothing=label_smoothing)  # fmt: skip


def _check(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> None:
    if not 1 <= input.ndim <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}")
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError("expected equal input and linear_weight last dimensions (in_features), got "
                           f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively")  # fmt: skip
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise RuntimeError(
            f"expected linear_bias shape {tuple(linear_weight.shape[:-1])}, got {tuple(linear_bias.shape)}"
        )
    if linear_weight.ndim > 2 and input.ndim == 1:
        raise RuntimeError(f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched "
                           f"input, (N, {input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}")  # fmt: skip


def _by_chunks(
    input: Tensor, linear_weight: Tensor, target: Tensor, linear_bias: Tensor | None, weight: Tensor | None, reduction: str,
    ignore_index: int, options: LinearCrossEntropyOptions,
) -> Tensor:  # fmt: skip
    kind = input.dtype
    _check_sum(kind)
    if options.acc_dtype not in (None, kind) and not (options.acc_dtype is float32 and kind in (float16, bfloat16)):
        raise RuntimeError("linear_cross_entropy supports float32 acc_dtype with float16/bfloat16 inputs, but got "
                           f"{options.acc_dtype} acc_dtype and {kind} inputs.")  # fmt: skip
    if linear_weight.dtype is not kind:
        a, b = (SCALAR_NAMES[t.dtype].lower() for t in (input, linear_weight))
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {a} != {b}")
    x, t = (input, target) if input.ndim == 2 else (input.unsqueeze(0), target.reshape(1))
    if t.shape != x.shape[:1]:
        raise RuntimeError(f"linear_cross_entropy: expected target {list(x.shape[:1])}, a class for each sample, got "
                           f"{list(t.shape)}")  # fmt: skip
    weight = None if weight is None else weight.to(kind)
    chunk = options.chunk(len(x), x.shape[1], len(linear_weight))
    losses = _linear_cross_entropy(x, linear_weight, linear_bias, t, weight, ignore_index=ignore_index, chunk=chunk)
    if reduction == "mean":
        counted = t != ignore_index
        total = counted.sum() if weight is None else weight[t.where(counted, 0)].where(counted, 0).sum()
        return losses.sum() / total
    return reduced(losses if input.ndim == 2 or reduction == "sum" else losses.squeeze(0), reduction)
