"""Samples of ops: operands as NumPy arrays, attributes, and an oracle that computes the same in another way.

    samples("atan2", np.arctan2, call(x(2, 3), x(3)), elementwise=True)

`elementwise=True` adds a 0-d, an empty and a broadcast call. An oracle takes the operands and attributes; `by_torch` makes
one of a PyTorch function, and `None` says that the values are random or another test's business: the reason stands there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Call:
    """One call of an op: `operands` are arrays, numbers or None; `grad=False` keeps it out of gradient checks.

    constant: places of operands that may not require grad.
    """

    operands: tuple
    attributes: dict[str, Any] = field(default_factory=dict)
    grad: bool = True
    constant: tuple[int, ...] = ()


@dataclass(frozen=True)
class Samples:
    """The calls of one op and what they should give."""

    oracle: Callable[..., Any] | None
    calls: tuple[Call, ...]
    why_no_oracle: str = ""
    unique: Callable[..., Any] | None = None  # complex outputs → what of them has no free phase
    constrain: Callable[..., Any] | None = (
        None  # operands → operands a gradient check may perturb (symmetric, positive)
    )


TABLE: dict[str, Samples] = {}


def samples(
    name: str, oracle: Callable[..., Any] | None, *calls: Call, elementwise: bool = False, **options: Any
) -> None:
    """Register the calls of op `name`."""
    assert name not in TABLE, f"samples of {name} are given twice"
    assert calls, f"{name} needs a call"
    assert oracle is not None or options.get("why_no_oracle"), f"{name}: say why there is no oracle"
    if elementwise:
        calls = (*calls, *_elementwise(calls[0]))
    TABLE[name] = Samples(oracle, calls, **options)


def call(*operands: Any, grad: bool = True, constant: tuple[int, ...] = (), **attributes: Any) -> Call:
    """A call with these operands and attributes."""
    return Call(operands, attributes, grad, constant)


def _elementwise(first: Call) -> list[Call]:
    """The same call on 0-d operands, on empty ones, and with dimensions of size 1 to broadcast."""
    shaped = [a for a in first.operands if isinstance(a, np.ndarray)]
    calls = [
        Call(tuple(_map(first, lambda a: a.reshape(-1)[:1].reshape(()))), first.attributes, first.grad),
        Call(tuple(_map(first, lambda a: np.empty((0, 3), a.dtype))), first.attributes, first.grad),
    ]
    if len(shaped) > 1:
        shapes = iter([(2, 1), (1, 3), (2, 3), (3,)])
        calls.append(Call(tuple(_map(first, lambda a: np.resize(a, next(shapes)))), first.attributes, first.grad))
    return calls


def _map(first: Call, change: Callable[[np.ndarray], np.ndarray]) -> list:
    return [change(a) if isinstance(a, np.ndarray) else a for a in first.operands]


def x(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    """float64 values in [low, high), the same for the same arguments."""
    rng = np.random.default_rng([seed, *shape])
    return np.asarray(rng.uniform(low, high, shape))


def z(*shape: int, seed: int = 0) -> np.ndarray:
    """complex128 values in the square of side 3 around 0."""
    rng = np.random.default_rng([seed, 7, *shape])
    return np.asarray(rng.uniform(-1.5, 1.5, shape) + 1j * rng.uniform(-1.5, 1.5, shape))


def ints(*shape: int, low: int = -5, high: int = 6, seed: int = 0) -> np.ndarray:
    """int64 values in [low, high)."""
    return np.random.default_rng([seed, 3, *shape]).integers(low, high, shape)


def bools(*shape: int, seed: int = 0) -> np.ndarray:
    """True and False."""
    return np.random.default_rng([seed, 5, *shape]).integers(0, 2, shape).astype(bool)


def distinct(*shape: int, seed: int = 0) -> np.ndarray:
    """float64 values at least 0.1 apart, in random order: max, sort and median have one answer, kinks are far."""
    size = int(np.prod(shape))
    values = (np.arange(size) - size / 2) * 0.2 + 0.05
    return np.random.default_rng([seed, 11, *shape]).permutation(values).reshape(shape)


def by_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """An oracle from `function(torch, *tensors, **attributes)`; its test is skipped where PyTorch is not installed."""

    def oracle(*operands: Any, **attributes: Any) -> Any:
        from tests.helpers import require_torch

        torch = require_torch()
        tensors = [torch.from_numpy(np.array(a)) if isinstance(a, np.ndarray) else a for a in operands]
        with torch.no_grad():
            result = function(torch, *tensors, **attributes)
        return tuple(r.numpy() for r in result) if isinstance(result, list | tuple) else result.numpy()

    return oracle
