"""Einstein summation, from permute, multiply, sum and matmul."""

from __future__ import annotations

import functools
import math
import string
from typing import Any

from tdt._core.tensor import Tensor
from tdt.autograd._remembered import calls_by_shape

__all__ = ["einsum"]


def letters_for(args: tuple) -> str:
    """The equation of operands that are each followed by a list of numbers; a last list is the output's."""
    names = string.ascii_uppercase + string.ascii_lowercase

    def letters(numbers: Any) -> str:
        found = []
        for n in numbers:
            if n is not ... and not 0 <= n < len(names):
                raise ValueError(
                    f"einsum(): subscript in subscript list is not within the valid range [0, 52), got {n}"
                )
            found.append("..." if n is ... else names[n])
        return "".join(found)

    inputs = ",".join([letters(numbers) for numbers in args[1::2]])
    return f"{inputs}->{letters(args[-1])}" if len(args) % 2 else inputs


def contract(equation: str, tensors: list[Tensor]) -> Tensor:
    """The sum of products that `equation` describes; RuntimeError where letters and dimensions do not fit."""
    inputs, output = _read(equation, tuple([x.shape for x in tensors]))
    # Letters in the output's order, then the others in the alphabet's: dimensions lie so in memory, as PyTorch's do.
    order = output + "".join(sorted(set("".join(inputs)) - set(output)))
    result, have = _single(tensors[0], inputs[0])
    for i, (x, names) in enumerate(zip(tensors[1:], inputs[1:], strict=True), 1):
        x, names = _single(x, names)
        needed = set(output).union(*inputs[i + 1 :])
        result, have = _pair(result, have, x, names, needed, order)
    result, have = _drop(result, have, set(output), order)
    return _ordered(result, have, list(output))


@functools.lru_cache(1024)
def _read(equation: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[list[str], str]:
    """Letters of each operand and of the output; `...` is replaced by other characters. RuntimeError where shapes do not fit."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    if not shapes:
        raise RuntimeError("einsum(): must provide at least one operand")
    if len(inputs) != len(shapes):
        more = "more" if len(inputs) < len(shapes) else "fewer"
        raise RuntimeError(f"einsum(): {more} operands were provided than specified in the equation")
    for i, names in enumerate([*inputs, right]):
        bad = next((c for c in names.replace("...", "") if not c.isalpha()), None)
        if bad is not None:
            where = f"for operand {i}" if i < len(inputs) else "for the output"
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {names.index(bad)} in the equation string {where}, "
                "subscripts must be in [a-zA-Z]"
            )
    free = [c for c in string.printable if not c.isalpha()]
    depth = 0
    for i, (names, shape) in enumerate(zip(inputs, shapes, strict=True)):
        broadcast = len(shape) - len(names.replace("...", ""))
        if broadcast < 0 or (broadcast and "..." not in names):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(names.replace('...', ''))}) "
                f"{'is more than' if broadcast < 0 else 'does not match'} the number of dimensions ({len(shape)}) for "
                f"operand {i}"
                f"{' and no ellipsis was given' if broadcast > 0 else ''}"
            )
        depth = max(depth, broadcast)
        inputs[i] = names.replace("...", "".join(free[k] for k in range(broadcast - 1, -1, -1)))
    dots = "".join(free[k] for k in range(depth - 1, -1, -1))
    if not arrow:
        joined = "".join(inputs)
        right = dots + "".join(sorted({c for c in joined if c.isalpha() and joined.count(c) == 1}))
    else:
        right = right.replace("...", dots)
    for k, c in enumerate(right):
        if right.count(c) > 1:
            raise RuntimeError(f"einsum(): output subscript {c} appears more than once in the output")
        if c not in "".join(inputs):
            raise RuntimeError(
                f"einsum(): output subscript {c} does not appear in the equation for any input operand (index {k})"
            )
    _check_sizes(inputs, shapes)
    return inputs, right


def _check_sizes(inputs: list[str], shapes: tuple[tuple[int, ...], ...]) -> None:
    """RuntimeError where two operands have sizes of a letter that do not broadcast."""
    sizes: dict[str, int] = {}
    for i, (names, shape) in enumerate(zip(inputs, shapes, strict=True)):
        for c, n in zip(names, shape, strict=True):
            if sizes.setdefault(c, n) != n:
                if 1 not in (sizes[c], n):
                    raise RuntimeError(
                        f"einsum(): subscript {c} has size {n} for operand {i} which does not broadcast with "
                        f"previously seen size {sizes[c]}"
                    )
                sizes[c] = max(sizes[c], n) if 0 not in (sizes[c], n) else 0


def _single(x: Tensor, names: str) -> tuple[Tensor, str]:
    """Take the diagonal for each letter that occurs twice."""
    for c in names:
        while names.count(c) > 1:
            a = names.index(c)
            b = names.index(c, a + 1)
            if x.shape[a] != x.shape[b]:
                raise RuntimeError(
                    f"einsum(): subscript {c} is repeated for one operand but the sizes don't match, {x.shape[a]} "
                    f"!= {x.shape[b]}"
                )
            x = x.diagonal(0, a, b).movedim(-1, a)
            names = names[:b] + names[b + 1 :]
    return x, names


def _pair(x: Tensor, xs: str, y: Tensor, ys: str, needed: set[str], order: str) -> tuple[Tensor, str]:
    """The product of two operands, summed over the letters that no later operand or output has, as one batched matmul.

    order: of all letters, in which those of each operand are taken.
    """
    x, xs = _drop(x, xs, needed | set(ys), order)
    y, ys = _drop(y, ys, needed | set(xs), order)
    summed = [c for c in order if c in xs and c in ys and c not in needed]
    if not summed:
        names = [c for c in order if c in xs or c in ys]
        return _spread(x, xs, names) * _spread(y, ys, names), "".join(names)
    for c in summed:  # a size of 1 against n: sum the longer one alone
        a, b = x.shape[xs.index(c)], y.shape[ys.index(c)]
        if a != b:
            x = x.sum(xs.index(c), keepdim=True) if b == 1 else x
            y = y.sum(ys.index(c), keepdim=True) if a == 1 else y
    only_x, only_y = [c for c in order if c in xs and c not in ys], [c for c in order if c in ys and c not in xs]
    if only_x and only_y and order.index(only_y[-1]) < order.index(only_x[0]):  # the product is computed in this order
        x, xs, only_x, y, ys, only_y = y, ys, only_y, x, xs, only_x
    batch = [c for c in order if c in xs and c in ys and c in needed]
    left, right = _ordered(x, xs, [*batch, *only_x, *summed]), _ordered(y, ys, [*batch, *summed, *only_y])
    b, p, s, q = len(batch), len(only_x), len(summed), len(only_y)
    rows, cols = left.shape[b : b + p], right.shape[b + s :]
    if p != 1 or s != 1:
        left = left.reshape((*left.shape[:b], math.prod(rows), math.prod(left.shape[b + p :])))
    if q != 1 or s != 1:
        right = right.reshape((*right.shape[:b], math.prod(right.shape[b : b + s]), math.prod(cols)))
    product = left @ right
    if p != 1 or q != 1:
        product = product.reshape((*product.shape[:b], *rows, *cols))
    return product, "".join([*batch, *only_x, *only_y])


def _spread(x: Tensor, names: str, among: list[str]) -> Tensor:
    """The dimensions of `x` in the order of the letters `among`, and one of size 1 for each letter that it does not have."""
    x = _ordered(x, names, [c for c in among if c in names])
    return x if len(names) == len(among) else x[tuple([slice(None) if c in names else None for c in among])]


def _drop(x: Tensor, names: str, needed: set[str], order: str) -> tuple[Tensor, str]:
    """The sum over the letters that are not needed."""
    if needed.issuperset(names):
        return x, names
    ordered = [c for c in order if c in names]
    gone = [i for i, c in enumerate(ordered) if c not in needed]
    return _ordered(x, names, ordered).sum(gone), "".join(c for c in ordered if c in needed)


def _ordered(x: Tensor, names: str, order: list[str]) -> Tensor:
    return x if list(names) == order else x.permute([names.index(c) for c in order])


@calls_by_shape
def einsum(*args: Any) -> Tensor:
    """Sums of products in Einstein's notation: `einsum("bij,bjk->bik", x, y)`, or `einsum(x, [0, 1], y, [1], [0])`.

    Letters name dimensions. A letter missing from the output is summed over, one that occurs twice in an operand takes its
    diagonal, and `...` stands for broadcast dimensions. In the second form, numbers below 52 and Ellipsis take their place.
    Operands are multiplied from left to right.

    Shape: operands any; result as the output letters name it, without `->` all letters that occur once, in alphabetical order.
    Raises:
        ValueError: when there is no operand.
        RuntimeError: when the equation is invalid or does not fit the operands.

    >>> import tdt
    >>> tdt.einsum("ij,j->i", tdt.ones(2, 3), tdt.ones(3))
    tensor([3., 3.])
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts "
            "list"
        )
    if isinstance(args[0], Tensor):
        return contract(letters_for(args), list(args[: len(args) // 2 * 2 : 2]))
    equation, *operands = args
    return contract(
        equation, list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    )
