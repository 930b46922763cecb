"""Random tensors: `rand`, `randn`, `randint`, their `_like` forms, and samples of distributions such as `normal`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import tdt._random as _random
from tdt import _backend
from tdt._backend.device import CPU, as_device
from tdt._core import dtype as _dtype
from tdt._core.broadcasting import check_broadcast
from tdt._core.calls import front, integer
from tdt._core.creation import _finished, _into, _like, _shape_of, make, zeros_like
from tdt._core.dtype import SCALAR_NAMES
from tdt._core.dtype import dtype as Dtype
from tdt._core.layout import layout as Layout
from tdt._core.memory_format import memory_format as MemoryFormat
from tdt._core.methods import method
from tdt._core.mode import no_grad, state, values_read
from tdt._core.remembered_creation import creates
from tdt._core.tensor import Tensor, wrap, wrap_new
from tdt._ops._common import Device, Ints
from tdt._ops.random._ranges import fits, last_of
from tdt._ops.random.fill import FILLS, bernoulli_, check, normal_, random_, uniform_
from tdt._random import Generator, generator_for
from tdt._random._mersenne import STANDARD
from tdt.autograd._inplace import is_plain
from tdt.autograd._op import finish, op

__all__ = [
    "bernoulli", "binomial", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm",
]  # fmt: skip


METHODS: dict[str, Callable[..., Tensor]] = {"integers": random_, "uniform": uniform_, "normal": normal_}
DRAWN = frozenset((_dtype.float32, _dtype.float64))


def _drawn(shape: tuple, kind: np.dtype, how: str, numbers: tuple) -> np.ndarray:
    array = np.empty(shape, kind)
    if _random.default_generator.fill(array, how, numbers):
        return array
    return FILLS[how](_random.default_generator, shape, kind, *numbers)


def _standard(how: str) -> Callable[..., Callable[[], np.ndarray] | None]:
    """For `creates`: what gives the arrays of calls of `rand` or `randn` for the same sizes."""

    def prepare(*sizes: Any) -> Callable[[], np.ndarray] | None:
        kind = _dtype.get_default_dtype()
        if not sizes or kind not in DRAWN:
            return None
        return functools.partial(_drawn, _shape_of(sizes), kind.np, how, STANDARD)

    return prepare


def _integers(*ends: Any) -> Callable[[], np.ndarray] | None:
    """The same for `randint`."""
    low, high, size = ends if len(ends) == 3 else (0, *ends) if len(ends) == 2 else (0, 0, ())
    if size.__class__ is not tuple or not (low.__class__ is high.__class__ is int) or not fits(_dtype.int64, low, high):
        return None
    return functools.partial(_drawn, _shape_of((size,)), _dtype.int64.np, "integers", (low, high))


def _random_tensor(
    shape: tuple, how: str, numbers: tuple, generator: Any, out: Any, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    """A random tensor of the distribution `how`; stored in `out`, if it is given, and then of its dtype."""
    if out is not None:
        if dtype is not None and dtype is not out.dtype:
            raise RuntimeError(
                f"dtype {SCALAR_NAMES[dtype]} does not match dtype of out parameter ({SCALAR_NAMES[out.dtype]})"
            )
        dtype, device = out.dtype, out.device
    if out is generator is None and not requires_grad and state.handler is None:
        kind = _dtype.get_default_dtype() if dtype is None else dtype
        if fits(kind, *numbers) if how == "integers" else kind in DRAWN:
            where = as_device(device)
            if where is CPU:
                return wrap_new(_drawn(shape, kind.np, how, numbers or STANDARD))
            if where.type == "cuda" and not where.index and not _backend.several_gpus():
                return wrap_new(FILLS[how](_random.cuda_generator(0), shape, kind.np, *(numbers or STANDARD)))
    fill = METHODS[how]
    if out is not None and out._a.shape == shape and not out.requires_grad:  # in the order of its memory
        return fill(out, *numbers, generator=generator)
    result = fill(make("empty", shape, None, dtype, device), *numbers, generator=generator)
    return _finished(result._a, requires_grad) if out is None else _into(out, result)


def _sizes(name: str, sizes: tuple, size: Any) -> tuple[int, ...]:
    if size is None and not sizes:
        raise TypeError(f"{name}() needs a size: {name}(2, 3) or {name}((2, 3)); {name}(()) is 0-d")
    return _shape_of(sizes if size is None else (size,))


@creates(_standard("uniform"))
def rand(
    *sizes: Ints, size: Ints | None = None, generator: Generator | None = None, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Tensor of random numbers, uniform on [0, 1).

    Args:
        sizes, size: the shape, as numbers or as one sequence.
        dtype: None is the default dtype.
        layout, pin_memory: have no effect.
    Shape: result (*sizes).
    Raises:
        TypeError: when no size is given.
        RuntimeError: when `dtype` is not that of `out`.

    >>> import tdt
    >>> _ = tdt.manual_seed(0)
    >>> tdt.rand(2)
    tensor([0.4963, 0.7682])
    """
    shape = _sizes("rand", sizes, size)
    return _random_tensor(shape, "uniform", (), generator, out, dtype, device, requires_grad)


@creates(_standard("normal"))
def randn(
    *sizes: Ints, size: Ints | None = None, generator: Generator | None = None, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Tensor of random numbers from the standard normal distribution.

    Args:
        sizes, size: the shape, as numbers or as one sequence.
        dtype: None is the default dtype.
        layout, pin_memory: have no effect.
    Shape: result (*sizes).
    Raises:
        TypeError: when no size is given.
        RuntimeError: when `dtype` is not that of `out`.

    >>> import tdt
    >>> _ = tdt.manual_seed(0)
    >>> tdt.randn(2)
    tensor([ 1.5410, -0.2934])
    """
    shape = _sizes("randn", sizes, size)
    return _random_tensor(shape, "normal", (), generator, out, dtype, device, requires_grad)


@creates(_integers)
def randint(
    *ends: Ints, low: int = 0, high: int | None = None, size: Ints | None = None, generator: Generator | None = None,
    out: Tensor | None = None, dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Tensor of random integers, uniform on [low, high): `randint(high, size)` or `randint(low, high, size)`.

    Args:
        ends: positional `low` (0 if left out), `high` and `size`.
        dtype: None is int64.
        layout, pin_memory: have no effect.
    Shape: result (*size).
    Raises:
        TypeError: when `high` or `size` is missing.
        RuntimeError: when low >= high, the dtype cannot hold the range, or `dtype` is not that of `out`.

    >>> import tdt
    >>> _ = tdt.manual_seed(0)
    >>> tdt.randint(3, 5, (3,))
    tensor([3, 4, 4])
    """
    args: list[Any] = list(ends)
    if args and hasattr(args[-1], "__len__"):
        size = args.pop()
    if len(args) == 2:
        low, high = args
    elif args:
        low, high = (low, args[0]) if high is None else (args[0], high)
    if high is None or size is None:
        raise TypeError("randint() needs an upper end and a size: randint(high, size) or randint(low, high, size)")
    if dtype is None and out is None:
        dtype = _dtype.int64
    return _random_tensor(
        _shape_of((size,)), "integers", (integer(low), integer(high)), generator, out, dtype, device, requires_grad
    )


def _random_like(input: Tensor, how: str, numbers: tuple, generator: Any, options: tuple) -> Tensor:
    dtype, device, requires_grad, memory_format = options
    a, plain = input._a, device is memory_format is None and how != "integers" and as_device(None) is CPU
    if plain and a.__class__ is np.ndarray and a.flags.c_contiguous:
        kind = input.dtype if dtype is None else dtype
        return _random_tensor(a.shape, how, numbers, generator, None, kind, None, requires_grad)
    result = METHODS[how](
        _like("empty", input, None, dtype, device, False, memory_format), *numbers, generator=generator
    )
    return _finished(result._a, requires_grad)


@front
def rand_like(
    input: Tensor, *, generator: Generator | None = None, dtype: Dtype | None = None, layout: Layout | None = None,
    device: Device = None, requires_grad: bool = False, pin_memory: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:  # fmt: skip
    """Random numbers, uniform on [0, 1), with the shape, dtype, device and memory order of `input`.

    Args:
        dtype, device, memory_format: used instead of the input's.
        layout, pin_memory: have no effect.
    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.rand_like(tdt.zeros(2, 3)).shape
    tdt.Size([2, 3])
    """
    return _random_like(input, "uniform", (), generator, (dtype, device, requires_grad, memory_format))


@front
def randn_like(
    input: Tensor, *, generator: Generator | None = None, dtype: Dtype | None = None, layout: Layout | None = None,
    device: Device = None, requires_grad: bool = False, pin_memory: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:  # fmt: skip
    """Random numbers from the standard normal distribution, with the shape, dtype, device and memory order of `input`.

    Args:
        dtype, device, memory_format: used instead of the input's.
        layout, pin_memory: have no effect.
    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.randn_like(tdt.zeros(2, 3)).shape
    tdt.Size([2, 3])
    """
    return _random_like(input, "normal", (), generator, (dtype, device, requires_grad, memory_format))


@front
def randint_like(
    input: Tensor, *ends: int, low: int = 0, high: int | None = None, generator: Generator | None = None,
    dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None, requires_grad: bool = False,
    pin_memory: bool = False, memory_format: MemoryFormat | None = None,
) -> Tensor:  # fmt: skip
    """Random integers on [low, high) like `input`: `randint_like(input, high)` or `randint_like(input, low, high)`.

    Args:
        ends: positional `low` (0 if left out) and `high`.
        dtype, device, memory_format: used instead of the input's.
        layout, pin_memory: have no effect.
    Shape: input (*); result the same.
    Raises:
        TypeError: when `high` is missing, or an end is not an integer.
        RuntimeError: when low >= high, or the dtype cannot hold the range.

    >>> import tdt
    >>> tdt.randint_like(tdt.zeros(2, 3), 5).dtype
    tdt.float32
    """
    if len(ends) == 2:
        low, high = ends
    elif ends:
        high = ends[0]
    if high is None:
        raise TypeError("randint_like() needs an upper end: randint_like(input, high)")
    return _random_like(input, "integers", (low, high), generator, (dtype, device, requires_grad, memory_format))


@front
def randperm(
    n: int, *, generator: Generator | None = None, out: Tensor | None = None, dtype: Dtype | None = None,
    layout: Layout | None = None, device: Device = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Random permutation of the numbers 0 to n - 1.

    Args:
        dtype: None is int64.
        layout, pin_memory: have no effect.
    Shape: result (n,).
    Raises:
        NotImplementedError: when the dtype is bool or complex.
        RuntimeError: when the dtype cannot hold n - 1.

    >>> import tdt
    >>> _ = tdt.manual_seed(0)
    >>> tdt.randperm(5)
    tensor([4, 0, 1, 3, 2])
    """
    if dtype is out is generator is device is None and not requires_grad and n.__class__ is int and n > 0:
        if state.handler is None and as_device(None) is CPU:
            return wrap_new(_random.permutation(_random.default_generator, n))
    shape = _shape_of((n,))
    kind = out.dtype if out is not None else _dtype.int64 if dtype is None else dtype
    if kind.category not in (_dtype.INT, _dtype.FLOAT):
        raise NotImplementedError(f"\"randperm\" not implemented for '{SCALAR_NAMES[kind]}'")
    # PyTorch compares with the largest number of bfloat16: beyond 256 several numbers of the permutation become equal.
    if kind is not _dtype.bfloat16 and n - 1 > last_of(kind):
        raise RuntimeError(f"n cannot be greater than {last_of(kind) + 1} for {SCALAR_NAMES[kind]} type. Got {n}")
    target = make("empty", shape, None, kind, device if out is None else out.device)
    if target.is_meta:
        return target
    with _backend.on_gpu_of(target._a):
        result = _random.permutation(generator_for(generator, target.device), n, kind.np)
    return _finished(result, requires_grad) if out is None else _into(out, wrap(result))


@op(name="bernoulli", dtypes=_dtype.FLOATING, computes=False, random=True, shape=lambda p, **how: p)
def _bernoulli(xp: ModuleType, p: Any, *, generator: Generator | None) -> Any:
    gen = generator_for(generator, _backend.device_of(p))
    return _random.bernoulli_each(gen, xp.ascontiguousarray(p).reshape(p.shape)).astype(p.dtype, copy=False)


_bernoulli.vjp("p")(lambda g: zeros_like(g))


@method()
@front
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """Ones and zeros: 1 with the probability in `input`, or `p` if it is given. The gradient is zero.

    Shape: input (*); result the same.
    Raises:
        NotImplementedError: when `p` is None and `input` is not floating-point.
        RuntimeError: when a probability is not in [0, 1].

    >>> import tdt
    >>> tdt.bernoulli(tdt.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if p is not None:
        result = bernoulli_(make("empty", input._a.shape, None, input.dtype, input.device), p, generator=generator)
        return result if out is None else _into(out, result)
    if input.dtype.category != _dtype.FLOAT:
        raise NotImplementedError(f"\"bernoulli_tensor_cpu_p_\" not implemented for '{SCALAR_NAMES[input.dtype]}'")
    if out is None or out.dtype is input.dtype:
        return finish(_bernoulli, out, input, generator=generator)
    return _into(out, _bernoulli(input.detach(), generator=generator).to(out.dtype))


@op(name="normal", promote=(), computes=False, shape=lambda drawn, mean, std: drawn)
def _normal(xp: ModuleType, drawn: Any, mean: Any, std: Any) -> Any:
    """The numbers `drawn` as a result of their mean and deviation, whose gradients are zero."""
    return drawn.copy()


_normal.vjp("drawn")(lambda g: g)
_normal.vjp("mean")(lambda g, mean_shape: g.new_zeros(mean_shape))
_normal.vjp("std")(lambda g, std_shape: g.new_zeros(std_shape))


@front
def normal(
    mean: float | Tensor, std: float | Tensor = 1.0, size: Ints | None = None, *, generator: Generator | None = None,
    out: Tensor | None = None, dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Random numbers from normal distributions of the given means and standard deviations.

    The gradients of `mean` and `std` are zero, unlike those of `mean + std * randn(...)`.

    Args:
        size: the shape, for two numbers `mean` and `std`.
        layout, pin_memory: have no effect.
    Shape: mean and std broadcastable; result the broadcast shape, or (*size).
    Raises:
        TypeError: when `mean` and `std` are numbers and `size` is missing.
        NotImplementedError: when a tensor `mean` (or `std`, if `mean` is a number) is an integer or bool tensor.
        RuntimeError: when `std` is negative or complex.

    >>> import tdt
    >>> tdt.normal(tdt.arange(3.0), 0.0)
    tensor([0., 1., 2.])
    """
    if size is not None:
        return _random_tensor(_shape_of((size,)), "normal", (mean, std), generator, out, dtype, device, requires_grad)
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        raise TypeError("normal() of two numbers needs a size: normal(mean, std, (2, 3))")
    leading: Any = mean if isinstance(mean, Tensor) else std
    kind = leading.dtype
    if kind.category < _dtype.FLOAT:
        raise NotImplementedError(f"\"normal_kernel_cpu\" not implemented for '{SCALAR_NAMES[kind]}'")
    if isinstance(std, Tensor):
        check(not std.is_complex(), "normal expects standard deviation to be non-complex")
        values_read("normal()")
        check(not std.numel() or bool((std._a >= 0).all()), "normal expects all elements of std >= 0.0")
    else:
        check(std >= 0, f"normal expects std >= 0.0, but found std {std:g}")
    shape = check_broadcast(*(t._a.shape for t in (mean, std) if isinstance(t, Tensor)))
    result = make("empty", shape, None, kind if out is None else out.dtype, leading.device)
    with no_grad():
        result.normal_(0.0, 1.0 if isinstance(std, Tensor) else std, generator=generator)
        if isinstance(std, Tensor):
            result.mul_(std)
        result.add_(mean)
    return finish(_normal, out, result, mean, std)


@op(name="multinomial", dtypes=_dtype.FLOATING, promote=(), computes=False, random=True,
    shape=lambda weights, *, count, **how: (*weights[:-1], count))  # fmt: skip
def _multinomial(xp: ModuleType, weights: Any, *, count: int, replacement: bool, generator: Generator | None) -> Any:
    return _random.multinomial(generator_for(generator, _backend.device_of(weights)), weights, count, replacement)


@method()
@front
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Indices of `num_samples` categories, drawn in each row with probabilities proportional to the weights in `input`.

    Args:
        replacement: whether a category may be drawn more than once.
    Shape: input (categories,) or (rows, categories); result (num_samples,) or (rows, num_samples), int64.
    Raises:
        RuntimeError: when shape, dtype, weights or `num_samples` are invalid.

    >>> import tdt
    >>> tdt.multinomial(tdt.tensor([0.0, 3.0, 0.0]), 2, replacement=True)
    tensor([1, 1])
    """
    if out is None and state.handler is None and num_samples.__class__ is int and num_samples > 0 and is_plain(input):
        a = input._a
        if 1 <= a.ndim <= 2 and a.dtype.char in "fd" and a.shape[-1] <= 1 << 24:
            return wrap_new(_random.multinomial(generator_for(generator, CPU), a, num_samples, replacement))
    check(input.ndim in (1, 2), f"prob_dist must be 1 or 2 dim, got {input.ndim}")
    if input.dtype.category != _dtype.FLOAT:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {SCALAR_NAMES[input.dtype]}"
        )
    check(num_samples > 0, "cannot sample n_sample <= 0 samples")
    check(input.shape[-1] <= 1 << 24, f"number of categories cannot exceed 2^24, got {input.shape[-1]}")
    if out is not None and out.dtype is not _dtype.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {SCALAR_NAMES[out.dtype]}")
    return finish(_multinomial, out, input, count=num_samples, replacement=replacement, generator=generator)


@op(name="poisson", dtypes=_dtype.FLOATING, computes=False, random=True, shape=lambda rate, **how: rate)
def _poisson(xp: ModuleType, rate: Any, *, generator: Generator | None) -> Any:
    return _random.poisson(generator_for(generator, _backend.device_of(rate)), rate)


_poisson.vjp("rate")(lambda g: zeros_like(g))


@front
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Random counts from Poisson distributions whose means are in `input`; the gradient is zero.

    Shape: input (*); result the same.
    Raises:
        NotImplementedError: when `input` is not floating-point.
        RuntimeError: when a mean is negative.

    >>> import tdt
    >>> tdt.poisson(tdt.tensor([0.0, 0.0]))
    tensor([0., 0.])
    """
    if input.dtype.category != _dtype.FLOAT:
        raise NotImplementedError(f"\"poisson_cpu\" not implemented for '{SCALAR_NAMES[input.dtype]}'")
    return _poisson(input, generator=generator)


@op(name="binomial", dtypes=frozenset((_dtype.float32, _dtype.float64)), computes=False, broadcasts=False, random=True)
def _binomial(xp: ModuleType, count: Any, prob: Any, *, generator: Generator | None) -> Any:
    return _random.binomial(generator_for(generator, _backend.device_of(count)), count, prob)


_binomial.vjp("count")(lambda g: zeros_like(g))
_binomial.vjp("prob")(lambda g: zeros_like(g))


@front
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Random number of successes in `count` trials of probability `prob`, for each element; gradients are zero.

    Shape: count (*), prob expandable to it; result as count.
    Raises:
        ValueError: when `count` or `prob` is not floating-point.
        RuntimeError: when the dtypes differ.

    >>> import tdt
    >>> tdt.binomial(tdt.tensor([3.0, 4.0]), tdt.tensor([0.0, 1.0]))
    tensor([0., 4.])
    """
    for name, x in (("count", count), ("prob", prob)):
        if x.dtype.category != _dtype.FLOAT:
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {SCALAR_NAMES[x.dtype]}")
    check(count.dtype is prob.dtype, f"Found dtype {SCALAR_NAMES[prob.dtype]} but expected {SCALAR_NAMES[count.dtype]}")
    return _binomial(
        count, prob if prob._a.shape == count._a.shape else prob.expand(count._a.shape), generator=generator
    )
