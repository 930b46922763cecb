"""The random functions and methods: the same call in PyTorch and in tdt gives the same numbers, state and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

# Bit for bit.
EXACT: dict[str, Callable[[Any], Any]] = {
    "rand": lambda t: t.rand(3, 5),
    "rand of a tuple": lambda t: t.rand((3, 5), dtype=t.float64),
    "rand by size": lambda t: t.rand(size=(4,)),
    "rand 0-d": lambda t: t.rand(()),
    "rand empty": lambda t: t.rand(0, 3),
    "rand half": lambda t: t.rand(40, dtype=t.float16).float(),
    "rand complex": lambda t: t.rand(7, dtype=t.complex64),
    "rand of a generator": lambda t: t.rand(4, generator=t.Generator().manual_seed(9)),
    "rand into": lambda t: t.rand(3, out=t.empty(0, dtype=t.float64)),
    "rand_like strided": lambda t: t.rand_like(t.zeros(4, 6).t()),
    "rand_like other dtype": lambda t: t.rand_like(t.zeros(4, dtype=t.int64), dtype=t.float64),
    "randint": lambda t: t.randint(10, (3, 4)),
    "randint from": lambda t: t.randint(-5, 5, (9,)),
    "randint by name": lambda t: t.randint(low=3, high=7, size=(9,)),
    "randint wide": lambda t: t.randint(2**40, (9,)),
    "randint float": lambda t: t.randint(0, 100, (9,), dtype=t.float32),
    "randint bool": lambda t: t.randint(2, (9,), dtype=t.bool),
    "randint half with gaps": lambda t: t.randint(0, 2049, (300,), dtype=t.float16).float(),
    "randint_like": lambda t: t.randint_like(t.zeros(3, 3), 2, 9),
    "randperm": lambda t: t.randperm(20),
    "randperm int32": lambda t: t.randperm(20, dtype=t.int32),
    "randperm into": lambda t: t.randperm(5, out=t.empty(0, dtype=t.int64)),
    "uniform_": lambda t: t.empty(20).uniform_(-0.3, 0.9),
    "uniform_ strided": lambda t: t.zeros(6, 8)[::2, 1::3].t().uniform_(),
    "uniform_ channels last": lambda t: t.zeros(2, 3, 4, 5).permute(0, 3, 1, 2).uniform_(1, 2),
    "random_": lambda t: t.empty(9, dtype=t.int64).random_(),
    "random_ uint8": lambda t: t.empty(9, dtype=t.uint8).random_(),
    "random_ below": lambda t: t.empty(9).random_(7),
    "random_ between": lambda t: t.empty(9, dtype=t.int16).random_(-7, 7),
    "random_ of all": lambda t: t.empty(9, dtype=t.int64).random_(-(2**63), None),
    "random_ upwards": lambda t: t.empty(9, dtype=t.int32).random_(5, None),
    "bernoulli_": lambda t: t.empty(30).bernoulli_(0.3),
    "bernoulli_ int": lambda t: t.empty(30, dtype=t.int64).bernoulli_(),
    "bernoulli_ strided": lambda t: t.zeros(6, 5).t().bernoulli_(0.3),
    "bernoulli_ by tensor": lambda t: t.zeros(6, 5).t().bernoulli_(t.linspace(0, 1, 6)),
    "bernoulli": lambda t: t.bernoulli(t.linspace(0, 1, 20)),
    "bernoulli float64": lambda t: t.bernoulli(t.linspace(0, 1, 20, dtype=t.float64)),
    "bernoulli strided": lambda t: t.bernoulli(t.linspace(0, 1, 20).reshape(4, 5).t()),
    "bernoulli p": lambda t: t.zeros(20).bernoulli(0.7),
    "bernoulli many": lambda t: t.bernoulli(t.linspace(0, 1, 2000)),
    "bernoulli_ bool": lambda t: t.empty(2000, dtype=t.bool).bernoulli_(0.7),
    "geometric_": lambda t: t.empty(20).geometric_(0.3),
    "randn float64": lambda t: t.randn(2001, dtype=t.float64),
    "randn complex128": lambda t: t.randn(30, dtype=t.complex128),
    "normal_ few": lambda t: t.empty(15, dtype=t.float64).normal_(0.3, 0.02),
    "exponential_": lambda t: t.empty(2000).exponential_(2.5),
    "exponential_ float64": lambda t: t.empty(20, dtype=t.float64).exponential_(2.5),
    "multinomial": lambda t: t.multinomial(t.arange(1.0, 9.0), 5),
    "multinomial rows": lambda t: t.multinomial(t.arange(1.0, 9.0).reshape(2, 4), 3),
    "multinomial of one": lambda t: t.multinomial(t.arange(1.0, 9.0).reshape(2, 4), 1, True),
    "multinomial again": lambda t: t.multinomial(t.arange(1.0, 9.0), 50, replacement=True),
    "multinomial again rows": lambda t: t.multinomial(t.arange(8.0, dtype=t.float64).reshape(2, 4), 30, True),
}
# Within 4 units in the last place.
CLOSE: dict[str, Callable[[Any], Any]] = {
    "randn": lambda t: t.randn(5, 7),
    "randn small": lambda t: t.randn(3, dtype=t.float64),
    "randn complex": lambda t: t.randn(20, dtype=t.complex128),
    "randn_like strided": lambda t: t.randn_like(t.zeros(4, 6).t()),
    "normal_": lambda t: t.empty(20).normal_(0, 3),
    "normal_ strided": lambda t: t.zeros(6, 8).t().normal_(),
    "normal of numbers": lambda t: t.normal(0.0, 3.0, (4, 5)),
    "normal of spreads": lambda t: t.normal(0.0, t.arange(1.0, 20.0)),
    "normal of means": lambda t: t.normal(t.zeros(4, 6).t(), 2.0),
    "normal of both": lambda t: t.normal(t.zeros(3, 1), t.ones(20)),
    "exponential_": lambda t: t.empty(20).exponential_(2.5),
    "log_normal_": lambda t: t.empty(5).log_normal_(0.1, 0.3),
    "cauchy_": lambda t: t.empty(5).cauchy_(),
}


def numbers_and_state(t: Any, call: Callable[[Any], Any]) -> tuple[np.ndarray, tuple, np.ndarray]:
    t.manual_seed(17)
    result = call(t)
    t.rand(3)
    return np.asarray(result.numpy()), tuple(result.stride()), t.get_rng_state().numpy()


@pytest.mark.parametrize("name", [*EXACT, *CLOSE])
def test_a_call_returns_pytorchs_numbers_and_leaves_its_state(name: str) -> None:
    torch = require_torch()
    call = {**EXACT, **CLOSE}[name]
    ours, strides, state = numbers_and_state(tdt, call)
    theirs, their_strides, their_state = numbers_and_state(torch, call)
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    assert strides == their_strides or not ours.size
    if name in EXACT:
        assert (ours == theirs).all()
    else:
        assert (np.abs(ours - theirs) <= 4 * np.spacing(np.abs(theirs))).all()
    assert (state[:5016] == their_state[:5016]).all()  # past it lies a normal's second half, equal within rounding


REFUSED: dict[str, Callable[[Any], Any]] = {
    "rand int": lambda t: t.rand(2, dtype=t.int64),
    "rand negative": lambda t: t.rand(-1),
    "rand out dtype": lambda t: t.rand(2, dtype=t.float64, out=t.empty(0)),
    "randn int": lambda t: t.randn(2, dtype=t.int64),
    "randint empty range": lambda t: t.randint(5, 5, (2,)),
    "randint gradient": lambda t: t.randint(5, (2,), requires_grad=True),
    "randperm negative": lambda t: t.randperm(-1),
    "randperm half": lambda t: t.randperm(3000, dtype=t.float16),
    "randperm bool": lambda t: t.randperm(2, dtype=t.bool),
    "uniform_ ends": lambda t: t.empty(2).uniform_(1, 0),
    "uniform_ int": lambda t: t.zeros(2, dtype=t.int64).uniform_(),
    "uniform_ leaf": lambda t: t.zeros(2, requires_grad=True).uniform_(),
    "normal_ std": lambda t: t.empty(2).normal_(0, -1),
    "exponential_": lambda t: t.empty(2).exponential_(0),
    "exponential_ int": lambda t: t.zeros(2, dtype=t.int64).exponential_(),
    "geometric_": lambda t: t.empty(2).geometric_(1),
    "log_normal_": lambda t: t.empty(2).log_normal_(0, 0),
    "cauchy_": lambda t: t.empty(2).cauchy_(0, -1),
    "random_ order": lambda t: t.zeros(2, dtype=t.int32).random_(5, 3),
    "bernoulli_": lambda t: t.empty(2).bernoulli_(2),
    "bernoulli": lambda t: t.bernoulli(t.tensor([2.0])),
    "bernoulli int": lambda t: t.bernoulli(t.tensor([1])),
    "multinomial none": lambda t: t.multinomial(t.ones(3), 0),
    "multinomial too many": lambda t: t.multinomial(t.ones(3), 4),
    "multinomial 3-d": lambda t: t.multinomial(t.ones(2, 2, 3), 2),
    "multinomial int": lambda t: t.multinomial(t.ones(3, dtype=t.int64), 2),
    "multinomial negative": lambda t: t.multinomial(t.tensor([-1.0, 2.0]), 1),
    "multinomial negative, several": lambda t: t.multinomial(t.tensor([-1.0, 2.0]), 3, True),
    "multinomial of nothing": lambda t: t.multinomial(t.tensor([0.0, 0.0]), 1),
    "normal shapes": lambda t: t.normal(t.ones(3), t.ones(2)),
    "normal std tensor": lambda t: t.normal(0.0, t.tensor([-1.0])),
    "normal int": lambda t: t.normal(t.zeros(2, dtype=t.int64), 1.0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_call_gets_pytorchs_error(name: str) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011  (PyTorch decides which)
        REFUSED[name](require_torch())
    with pytest.raises(type(theirs.value)) as ours:
        REFUSED[name](tdt)
    clause = str(theirs.value).split("\n")[0].split(". ")[0].rstrip(".")
    assert str(ours.value).startswith(clause[:60])


def test_overwritten_values_get_no_gradient() -> None:
    x = tdt.ones(4, requires_grad=True)
    y = x * 2
    y[:2].normal_()
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 2, 2]


def test_a_write_to_a_view_counts_as_a_change() -> None:
    x = tdt.ones(4)
    version = x._version
    x[1:3].uniform_(5, 6)
    assert x._version == version + 1 and x[0] == 1 and x[1] >= 5


def test_generators_of_another_kind_are_refused() -> None:
    with pytest.raises(TypeError, match="generator must be a tdt.Generator, not int"):
        tdt.rand(2, generator=5)


def test_states_are_tensors_that_go_back_and_forth() -> None:
    state = tdt.get_rng_state()
    assert state.dtype is tdt.uint8 and state.shape == (5056,)
    want = tdt.randn(3).tolist()
    tdt.set_rng_state(state)
    assert tdt.randn(3).tolist() == want
    generator = tdt.Generator()
    assert generator.set_state(state) is generator
    assert tdt.randn(3, generator=generator).tolist() == want
    with pytest.raises(TypeError, match="expected a tdt.ByteTensor, but got list"):
        generator.set_state([1])
    with pytest.raises(TypeError, match="RNG state must be a tdt.ByteTensor"):
        generator.set_state(tdt.zeros(5056))


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
def test_poisson_and_binomial_draw_pytorchs_numbers(name):
    drawn = []
    for lib in (tdt, require_torch()):
        lib.manual_seed(5)
        rates = lib.tensor([0.0, 0.5, 9.9, 10.0, 25.0, 1000.0] * 40).to(getattr(lib, name)).reshape(-1, 6)
        numbers = [lib.poisson(rates).tolist(), lib.poisson(rates.t()).tolist()]
        if name in ("float32", "float64"):
            trials = lib.tensor([3.0, 10.0, 100.0, 0.0, 1e6] * 40).to(rates.dtype)
            numbers.append(lib.binomial(trials, lib.tensor([0.3, 0.7, 0.5, 0.1, 0.99] * 40).to(rates.dtype)).tolist())
        drawn.append([*numbers, lib.rand(1).item()])
    assert drawn[0] == drawn[1]


def test_poisson_and_binomial_refuse_what_pytorchs_refuse():
    for call in (
        lambda lib: lib.poisson(lib.tensor([-1.0])), lambda lib: lib.poisson(lib.ones(2).long()),
        lambda lib: lib.binomial(lib.tensor([3]), lib.tensor([0.5])), lambda lib: lib.binomial(lib.ones(1), lib.ones(1).double()),
        lambda lib: lib.ones(2).half().random_(0, 2**40), lambda lib: lib.binomial(lib.ones(1).half(), lib.ones(1).half()),
    ):  # fmt: skip
        errors = []
        for lib in (tdt, require_torch()):
            with pytest.raises((RuntimeError, ValueError)) as raised:
                call(lib)
            errors.append(raised.type)
        assert errors[0] is errors[1]


def test_the_gradient_of_a_drawn_number_is_zero():
    rate = tdt.ones(3, requires_grad=True)
    (tdt.poisson(rate) + tdt.binomial(rate * 4, rate * 0.5)).sum().backward()
    assert rate.grad.tolist() == [0, 0, 0]
