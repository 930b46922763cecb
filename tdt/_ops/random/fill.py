"""Methods that fill a tensor with random numbers: `uniform_`, `normal_`, `bernoulli_`, `random_` and their relatives.

All are one op, `random_fill`, whose gradient is zero: the old values do not matter. The numbers are drawn through
`tdt._random` in PyTorch's order, which for strided tensors is that of their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import tdt._random as _random
from tdt import _backend
from tdt._backend.device import CPU
from tdt._core import dtype as _dtype
from tdt._core.calls import integer
from tdt._core.creation import zeros_like
from tdt._core.dtype import SCALAR_NAMES
from tdt._core.float8 import KINDS
from tdt._core.methods import method
from tdt._core.tensor import Tensor, wrap
from tdt._ops.random._ranges import ends_of
from tdt._random import Generator, default_generator, generator_for
from tdt.autograd._in_place_methods import overwrite
from tdt.autograd._inplace import is_plain
from tdt.autograd._op import op

# How `random_fill` draws: (generator, shape, NumPy dtype, *numbers) → array.
FILLS: dict[str, Callable[..., Any]] = {
    "uniform": _random.uniform,
    "normal": _random.normal,
    "exponential": _random.exponential,
    "log_normal": _random.log_normal,
    "cauchy": _random.cauchy,
    "geometric": _random.geometric,
    "integers": _random.integers,
    "full_range": _random.full_range,
    "bernoulli": lambda gen, shape, dtype, p: _random.bernoulli(gen, shape, p).astype(dtype),
}
SMALLEST_MAX = 16.0  # ends of an interval up to it fit in every dtype
FILLED = {"uniform", "normal", "integers", "bernoulli", "exponential"}  # which a generator fills contiguous arrays with
# Names of nodes that do not follow from those in FILLS.
NODES = {"bernoulli": "BernoulliBackward2", "full_range": "RandomBackward2", "integers": "RandomBackward0"}
# What PyTorch calls each kernel in `"…" not implemented for 'Long'`, and which categories of dtype it takes.
KERNELS = {
    "uniform": ("check_uniform_bounds", _dtype.FLOATING_AND_COMPLEX),
    "normal": ("normal_kernel_cpu", _dtype.FLOATING_AND_COMPLEX),
    "log_normal": ("log_normal_cpu", _dtype.FLOATING),
    "geometric": ("geometric_cpu", frozenset((_dtype.INT, _dtype.FLOAT))),
    "bernoulli": ("bernoulli_scalar_cpu_", _dtype.REAL),
    "integers": ("random_from_to_kernel_cpu", _dtype.REAL),
    "full_range": ("random_kernel_cpu", _dtype.REAL),
}


# Distributions for which PyTorch does not look at the dtype of an empty tensor.
ANY_EMPTY = {"normal", "log_normal", "exponential", "geometric", "bernoulli", "full_range"}


def _fill_name(node: Any) -> str:
    how = node.attributes["how"]
    return NODES.get(how) or "".join(part.capitalize() for part in how.split("_")) + "Backward0"


@op(name="random_fill", node=_fill_name, promote=(), computes=False, random=True, shape=lambda x, **how: x)
def _fill(xp: ModuleType, x: Any, *, how: str, numbers: tuple, generator: Generator | None) -> Any:
    gen = generator_for(generator, _backend.device_of(x))
    dense = x.flags.c_contiguous
    if how == "normal":
        mean, std = numbers
        values = _random.normal(gen, x.shape, x.dtype, mean, std, dense=dense)
    else:
        values = FILLS[how](gen, x.shape, x.dtype, *numbers)
    if dense:
        return values
    strided = xp.empty_like(x)
    _random.assign_in_memory_order(strided, values)
    return strided


_fill.vjp("x")(lambda g: zeros_like(g))


def _fill_random(x: Tensor, how: str, *numbers: Any, generator: Generator | None) -> Tensor:
    """Overwrite `x` with random numbers; NotImplementedError for a dtype that the distribution does not support."""
    plain = is_plain(x)
    if plain and how in FILLED and x._a.size:
        gen = default_generator if generator is None else generator_for(generator, CPU)
        if gen.fill(x._a, how, numbers):
            x._st.bump_version()
            return x
    if not x._a.size and how in ANY_EMPTY:
        return overwrite(x, x.detach())
    if how in KERNELS and x.dtype.category not in KERNELS[how][1]:
        raise NotImplementedError(f"\"{KERNELS[how][0]}\" not implemented for '{SCALAR_NAMES[x.dtype]}'")
    if plain and x._a.dtype not in KINDS:  # the op refuses float8
        a = x._a
        gen = default_generator if generator is None else generator_for(generator, _backend.device_of(a))
        np.copyto(a, FILLS[how](gen, a.shape, a.dtype, *numbers))
        x._st.bump_version()
        return x
    return _fill.inplace(x, how=how, numbers=numbers, generator=generator)


def check(condition: bool, message: str) -> None:
    """RuntimeError unless `condition` holds."""
    if not condition:
        raise RuntimeError(message)


@method()
def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with random numbers, uniform on [from_, to).

    Shape: self (*); result the same tensor.
    Raises:
        RuntimeError: when from_ > to, or the dtype cannot hold the range.
        NotImplementedError: when the dtype is not floating-point or complex.

    >>> import tdt
    >>> x = tdt.empty(1000).uniform_(2.0, 3.0)
    >>> bool(((x >= 2) & (x < 3)).all())
    True
    """
    if not from_ <= to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={from_:g} > to={to:g}")
    if not -SMALLEST_MAX <= from_ <= to <= SMALLEST_MAX and self.dtype.category >= _dtype.FLOAT:
        limit = _dtype.finfo(self.dtype).max
        for name, end in (("from", from_), ("to", to)):
            if not -limit <= end <= limit:
                raise RuntimeError(f"{name} is out of bounds for {self.dtype}: {end:g}")
        if not to - from_ <= limit:
            raise RuntimeError(f"uniform_ expects to-from <= {limit:g}, but found to={to:g} and from={from_:g}")
    return _fill_random(self, "uniform", float(from_), float(to), generator=generator)


@method()
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with random numbers from a normal distribution.

    Args:
        std: standard deviation; of a complex number, that of the number as a whole.
    Shape: self (*); result the same tensor.
    Raises:
        RuntimeError: when `std` is negative.
        NotImplementedError: when the dtype is not floating-point or complex.

    >>> import tdt
    >>> x = tdt.empty(1000).normal_(5.0, 0.1)
    >>> bool(4.9 < x.mean() < 5.1)
    True
    """
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    return _fill_random(self, "normal", float(mean), float(std), generator=generator)


@method()
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with exp of random numbers from a normal distribution of `mean` and standard deviation `std`.

    Shape: self (*); result the same tensor.
    Raises:
        RuntimeError: when `std` is not positive.
        NotImplementedError: when the dtype is not floating-point.

    >>> import tdt
    >>> x = tdt.empty(1000).log_normal_(0.0, 0.1)
    >>> bool(0.9 < x.mean() < 1.1)
    True
    """
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    return _fill_random(self, "log_normal", float(mean), float(std), generator=generator)


@method()
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with random numbers from the exponential distribution of rate `lambd` (mean 1 / lambd).

    Shape: self (*); result the same tensor.
    Raises:
        RuntimeError: when `lambd` is not positive, or the dtype is not floating-point.

    >>> import tdt
    >>> x = tdt.empty(1000).exponential_(2.0)
    >>> bool((x >= 0).all()), bool(0.4 < x.mean() < 0.6)
    (True, True)
    """
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    _check_floating(self, "Exponential")
    return _fill_random(self, "exponential", float(lambd), generator=generator)


@method()
def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with random numbers from the Cauchy distribution.

    Args:
        sigma: scale: half of the numbers are within `sigma` of `median`.
    Shape: self (*); result the same tensor.
    Raises:
        RuntimeError: when `sigma` is not positive, or the dtype is not floating-point.

    >>> import tdt
    >>> x = tdt.empty(1000).cauchy_(median=5.0, sigma=0.1)
    >>> bool(4.9 < x.median() < 5.1)
    True
    """
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    _check_floating(self, "Cauchy")
    return _fill_random(self, "cauchy", float(median), float(sigma), generator=generator)


@method()
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with random numbers of trials (1, 2, …) until the first success, of probability `p`.

    Shape: self (*); result the same tensor.
    Raises:
        RuntimeError: when `p` is not in (0, 1).
        NotImplementedError: when the dtype is bool or complex.

    >>> import tdt
    >>> x = tdt.empty(1000).geometric_(0.5)
    >>> bool((x >= 1).all()), bool(1.8 < x.mean() < 2.2)
    (True, True)
    """
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    return _fill_random(self, "geometric", float(p), generator=generator)


def _check_floating(x: Tensor, name: str) -> None:
    check(
        x.dtype.category == _dtype.FLOAT or (not x._a.size and name == "Exponential"),
        f"{name} distribution is a continuous probability distribution. dtype must be a floating point but you "
        f"specified {SCALAR_NAMES[x.dtype]}",
    )


@method()
def random_(self: Tensor, *ends: int | None, to: int | None = None, generator: Generator | None = None) -> Tensor:
    """Fill with random integers: `random_(high)` on [0, high), `random_(low, high)` on [low, high).

    Without arguments up to the largest value of an integer dtype, or as far as a floating-point one holds every integer.

    Args:
        ends: `high`, or `low` and `high`; None for `high` after `low` goes as far as the dtype does.
        to: `high`.
    Shape: self (*); result the same tensor.
    Raises:
        TypeError: when an end is not an integer.
        RuntimeError: when low >= high, or the dtype cannot hold the range.
        NotImplementedError: when the dtype is complex, or is uint16, uint32 or uint64 and no ends are given.

    >>> import tdt
    >>> tdt.empty(2).random_(3, 4)
    tensor([3., 3.])
    """
    if to is not None:
        ends = (*ends, to)
    if not ends:
        if self.dtype in (_dtype.uint16, _dtype.uint32, _dtype.uint64):
            raise NotImplementedError(f"\"random_kernel_cpu\" not implemented for '{SCALAR_NAMES[self.dtype]}'")
        return _fill_random(self, "full_range", generator=generator)
    low, high = ends if len(ends) == 2 else (0, integer(ends[0]))
    high = None if high is None else integer(high)
    return _fill_random(self, "integers", *ends_of(self.dtype, integer(low), high), generator=generator)


@method()
def bernoulli_(self: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with ones and zeros: 1 with probability `p`.

    Shape: self (*), a tensor p broadcastable to it; result the same tensor.
    Raises:
        RuntimeError: when `p` is not in [0, 1].
        NotImplementedError: when the dtype is complex.

    >>> import tdt
    >>> tdt.empty(2).bernoulli_(1.0)
    tensor([1., 1.])
    """
    if not isinstance(p, Tensor):
        check(0 <= p <= 1, f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        return _fill_random(self, "bernoulli", float(p), generator=generator)
    xp = _backend.namespace(self._a)
    chances = xp.empty_like(self._a, dtype=p._a.dtype)
    chances[...] = p._a
    gen = generator_for(generator, self.device)
    drawn = xp.empty_like(self._a)
    _random.assign_in_memory_order(drawn, _random.bernoulli_each(gen, _random.in_memory_order(chances)))
    return overwrite(self, wrap(drawn))
