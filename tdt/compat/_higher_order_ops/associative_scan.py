"""Prefix sums with any associative function in the place of the addition.

>>> import tdt
>>> from tdt.compat._higher_order_ops import associative_scan
>>> associative_scan(lambda a, b: a + b, tdt.arange(5.0), 0, combine_mode="generic")
tensor([ 0.,  1.,  3.,  6., 10.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt._core.tensor import Tensor
from tdt._function_transforms import vmap
from tdt._ops.shape.join import cat, stack
from tdt.compat.utils import _pytree

MODES = ("pointwise", "generic")


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """The results of `combine_fn` over all beginnings of `xs` along `dim`, in a number of calls that grows as the logarithm.

    Args:
        combine_fn: takes two nests like `xs` without `dim`, and returns one. It must be associative.
        xs: a tensor, or a nest of tensors of one size along `dim`.
        reverse: begin at the end.
        combine_mode: "pointwise" or "generic", which are computed in the same way.
    Raises:
        ValueError: when the mode is unknown, or `xs` has no tensor, one without elements along `dim`, or different sizes.

    Source: Blelloch, Prefix Sums and Their Applications, 1990.
    """
    if combine_mode not in MODES:
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves, spec = _pytree.tree_flatten(xs)
    if not leaves or not all(isinstance(x, Tensor) for x in leaves):
        raise ValueError(f"associative_scan: expected at least one tensor, and tensors alone, got {leaves}")
    sizes = {x.shape[dim] for x in leaves}
    if len(sizes) > 1 or 0 in sizes:
        raise ValueError(f"associative_scan: expected one size of 1 or more along dim {dim}, got {sorted(sizes)}")
    first = [x.movedim(dim, 0) for x in leaves]
    if reverse:
        first = [x.flip(0) for x in first]

    def combine(a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
        return _pytree.tree_leaves(vmap(combine_fn)(_pytree.tree_unflatten(a, spec), _pytree.tree_unflatten(b, spec)))

    results = _scanned(combine, first)
    if reverse:
        results = [x.flip(0) for x in results]
    return _pytree.tree_unflatten([x.movedim(0, dim) for x in results], spec)


def _scanned(combine: Callable[[list[Tensor], list[Tensor]], list[Tensor]], xs: list[Tensor]) -> list[Tensor]:
    """The scan along dimension 0: that of neighbours combined gives every second result, one call more the others."""
    size = xs[0].shape[0]
    if size < 2:
        return xs
    odd = _scanned(combine, combine([x[:-1:2] for x in xs], [x[1::2] for x in xs]))
    later = [x[2::2] for x in xs]
    if size == 2:
        even = [x[:1] for x in xs]
    else:
        following = combine([x[: later[0].shape[0]] for x in odd], later)
        even = [cat((x[:1], y)) for x, y in zip(xs, following, strict=True)]
    return [_interleaved(a, b) for a, b in zip(even, odd, strict=True)]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    pairs = stack((even[: odd.shape[0]], odd), 1).flatten(0, 1)
    return pairs if even.shape[0] == odd.shape[0] else cat((pairs, even[-1:]))
