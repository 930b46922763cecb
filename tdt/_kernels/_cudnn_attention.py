"""Attention and its gradients as graphs of cuDNN's operations, which an engine computes tile by tile, on tensor cores.

cuDNN knows attention by its graph: products of matrices, elementwise operations and sums over rows, between tensors that are
virtual, except for operands and results: never in memory. The order of operations is that of NVIDIA's `cudnn-frontend`, by which
engines recognize it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tdt._kernels._cudnn import DATA_TYPES, REFUSED, TENSOR, Descriptor, steps, tensor_of

# Descriptors, and their attributes.
POINTWISE, OF_POINTWISE, MATMUL, OF_MATMUL, REDUCTION, OF_REDUCTION, OF_RESHAPE = 0, 13, 18, 19, 21, 22, 31
IS_VIRTUAL, IS_BY_VALUE = 907, 908
POINTWISE_MODE, POINTWISE_TYPE, POINTWISE_AXIS = 0, 1, 9
POINTWISE_HOW, POINTWISE_X, POINTWISE_B, POINTWISE_Y, POINTWISE_T = 750, 751, 752, 753, 758
MATMUL_TYPE, MATMUL_A, MATMUL_B, MATMUL_C, MATMUL_HOW = 1500, 1520, 1521, 1522, 1523
REDUCTION_OPERATOR, REDUCTION_TYPE, REDUCTION_X, REDUCTION_Y, REDUCTION_HOW = 1600, 1601, 1610, 1611, 1612
RESHAPE_X, RESHAPE_Y = 2200, 2201

# Modes of elementwise operations and of reductions.
ADD, MUL, DIV, SUB, EXP, LOG, NOT_LESS, INDEX, SELECT = 0, 1, 6, 9, 13, 15, 303, 501, 601
SUM, MAX = 0, 3
KINDS = {**DATA_TYPES, "i": 4, "?": 11}  # and int32, bool

OLDEST = 91900  # cuDNN 9.19: versions before require other graphs for some sizes
ALIGNED = 16  # bytes: engines read so many at once, and do not look whether they may
FORWARD = "q", "k", "v", "out", "norms"
BACKWARD = "q", "k", "v", "out", "g", "gq", "gk", "gv", "norms", "slopes"
FIRST_CONSTANT, FIRST_VIRTUAL = 50, 100  # names


class Attention(NamedTuple):
    """softmax(scale q kᵀ) v of q (N, H, L, E), k (N, H, S, E) and v (N, H, S, D), or its gradients.

    The tensors are those of FORWARD or BACKWARD. norms: logarithms of the sums of exponentials, float32 (N, H, L, 1). slopes:
    memory like it, for sums of the gradient times the result.
    """

    backward: bool
    dtype: str  # letter
    causal: bool
    scale: float
    sizes: tuple[int, int, int, int, int, int]  # N, H, L, S, E, D
    lie: tuple[tuple[int, ...], ...]  # of the tensors but norms and slopes: elements between neighbours

    @property
    def names(self) -> Sequence[int]:
        return range(1, 1 + len(BACKWARD if self.backward else FORWARD))

    @property
    def constants(self) -> dict[int, float]:
        values = [self.scale, *([1.0] if self.backward else []), *([-math.inf] if self.causal else [])]
        return dict(enumerate(values, FIRST_CONSTANT))

    def operations(self, of: Callable[[int], Descriptor]) -> list[Descriptor]:
        graph = _Graph(of, self)
        (graph.backward if self.backward else graph.forward)()
        return graph.operations

    def admits(self, number: int, notes: list[int]) -> bool:
        return REFUSED.isdisjoint(notes)


class _Tensor(NamedTuple):
    descriptor: Descriptor
    shape: tuple[int, ...]
    lie: tuple[int, ...]


class _Graph:
    """The operations of a problem, each with a tensor that is its result."""

    def __init__(self, of: Callable[[int], Descriptor], problem: Attention):
        self.of, self.problem, self.operations = of, problem, list[Descriptor]()
        self._names = itertools.count(FIRST_VIRTUAL)
        n, h, l, s, e, d = problem.sizes
        shapes = {
            "q": (l, e),
            "k": (s, e),
            "v": (s, d),
            "out": (l, d),
            "g": (l, d),
            "gq": (l, e),
            "gk": (s, e),
            "gv": (s, d),
        }
        lie = iter(problem.lie)
        self.tensors: dict[str, _Tensor] = {}
        turned = ("k", "v") if problem.backward else ("k",)
        for name, tensor in zip(problem.names, BACKWARD if problem.backward else FORWARD, strict=True):
            if tensor in shapes:
                shape = n, h, *shapes[tensor]
                self.tensors[tensor] = self._tensor(shape, problem.dtype, next(lie), name, tensor in turned)
            else:
                self.tensors[tensor] = self._tensor((n, h, l, 1), "f", None, name)
        self.constants = [self._constant(name) for name in problem.constants]

    def forward(self) -> None:
        q, k, v, out, norms = (self.tensors[name] for name in FORWARD)
        scores = self._masked(self._scores(q, k))
        top = self._reduced(MAX, scores)
        exponentials = self._pointwise(EXP, self._pointwise(SUB, scores, top))
        total = self._reduced(SUM, exponentials)
        self._pointwise(ADD, top, self._pointwise(LOG, total), out=norms)
        self._product(self._pointwise(DIV, exponentials, total, dtype=self.problem.dtype), v, out)

    def backward(self) -> None:
        q, k, v, out, g, gq, gk, gv, norms, slopes = (self.tensors[name] for name in BACKWARD)
        one = self.constants[1]
        self._pointwise(MUL, self._reduced(SUM, self._pointwise(MUL, g, out)), one, out=slopes)
        weights = self._pointwise(EXP, self._masked(self._pointwise(SUB, self._scores(q, k), norms)))
        self._product(self._turned(weights, self.problem.dtype), g, gv)
        found = self._pointwise(MUL, self._pointwise(SUB, self._product(g, v), slopes), weights)
        of_scores = self._pointwise(MUL, found, self.constants[0])
        self._product(self._turned(of_scores, self.problem.dtype), q, gk)
        self._product(of_scores, self._turned(k, self.problem.dtype), gq)

    def _scores(self, q: _Tensor, k: _Tensor) -> _Tensor:
        return self._pointwise(MUL, self._product(q, k), self.constants[0])

    def _masked(self, scores: _Tensor) -> _Tensor:
        if not self.problem.causal:
            return scores
        row, column = (self._pointwise(INDEX, scores, dtype="i", axis=axis) for axis in (2, 3))
        visible = self._pointwise(NOT_LESS, row, column, dtype="?")
        return self._pointwise(SELECT, scores, self.constants[-1], visible)

    def _tensor(self, shape: tuple[int, ...], dtype: str, lie: tuple[int, ...] | None = None, name: int = 0,
                turned: bool = False) -> _Tensor:  # fmt: skip
        """A tensor, virtual without a name; `turned`: with its last two dimensions exchanged."""
        lie = steps(shape, False) if lie is None else lie
        if turned:
            shape, lie = _exchanged(shape), _exchanged(lie)
        descriptor = tensor_of(self.of(TENSOR), name or next(self._names), KINDS[dtype], shape, lie, ALIGNED)
        return _Tensor((descriptor if name else descriptor.set(IS_VIRTUAL, "bool", True)).done(), shape, lie)

    def _constant(self, name: int) -> _Tensor:
        one = (1,) * 4
        descriptor = tensor_of(self.of(TENSOR), name, KINDS["f"], one, one, ALIGNED)
        return _Tensor(descriptor.set(IS_BY_VALUE, "bool", True).done(), one, one)

    def _done(self, operation: Descriptor, how: Descriptor | None, place: int, parts: dict[int, _Tensor]) -> None:
        if how is not None:
            operation.set(place, "descriptor", how.done().at)
        for part, tensor in parts.items():
            operation.set(part, "descriptor", tensor.descriptor.at)
        self.operations.append(operation.done())

    def _pointwise(self, mode: int, x: _Tensor, b: _Tensor | None = None, t: _Tensor | None = None, *, dtype: str = "f",
                   axis: int | None = None, out: _Tensor | None = None) -> _Tensor:  # fmt: skip
        """An elementwise operation. t: where SELECT takes x."""
        how = self.of(POINTWISE).set(POINTWISE_MODE, "pointwise", mode)
        how.set(POINTWISE_TYPE, "data type", KINDS["?" if mode == NOT_LESS else "f"])
        if axis is not None:
            how.set(POINTWISE_AXIS, "int64", axis)
        result = out or self._tensor(x.shape, dtype)
        found = {POINTWISE_X: x, POINTWISE_B: b, POINTWISE_T: t, POINTWISE_Y: result}
        self._done(
            self.of(OF_POINTWISE), how, POINTWISE_HOW, {k: each for k, each in found.items() if each is not None}
        )
        return result

    def _reduced(self, operator: int, x: _Tensor) -> _Tensor:
        """A row's sum, or its largest number."""
        how = (
            self.of(REDUCTION)
            .set(REDUCTION_OPERATOR, "reduction", operator)
            .set(REDUCTION_TYPE, "data type", KINDS["f"])
        )
        result = self._tensor((*x.shape[:-1], 1), "f")
        self._done(self.of(OF_REDUCTION), how, REDUCTION_HOW, {REDUCTION_X: x, REDUCTION_Y: result})
        return result

    def _product(self, a: _Tensor, b: _Tensor, out: _Tensor | None = None) -> _Tensor:
        how = self.of(MATMUL).set(MATMUL_TYPE, "data type", KINDS["f"])
        result = out or self._tensor((*a.shape[:-1], b.shape[-1]), "f")
        self._done(self.of(OF_MATMUL), how, MATMUL_HOW, {MATMUL_A: a, MATMUL_B: b, MATMUL_C: result})
        return result

    def _turned(self, x: _Tensor, dtype: str) -> _Tensor:
        """x with its last two dimensions exchanged, rounded to `dtype`."""
        result = self._tensor(x.shape, dtype, x.lie, turned=True)
        self._done(self.of(OF_RESHAPE), None, 0, {RESHAPE_X: x, RESHAPE_Y: result})
        return result


def _exchanged(values: tuple[int, ...]) -> tuple[int, ...]:
    *first, a, b = values
    return (*first, b, a)
