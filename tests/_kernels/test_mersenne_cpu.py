"""The Mersenne Twister's kernel beside NumPy's, and in the stream of a generator."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tdt
from tdt._kernels import LARGE_DRAW
from tdt._kernels.counts_cpu import filler
from tdt._kernels.mersenne_cpu import SIZE, flips, pairs, words
from tdt._random import _mersenne
from tdt._random._mersenne import MersenneTwister
from tdt._random.continuous import _normal_blocks
from tests._kernels.watch import watch


def numpy_and_state(seed: int) -> tuple[np.random.MT19937, np.ndarray]:
    bits = np.random.MT19937(seed)
    address = bits.ctypes.state_address
    return bits, np.ctypeslib.as_array((ctypes.c_uint32 * (SIZE + 1)).from_address(address))


def forget_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(_mersenne, "_small_draws", dict.fromkeys(_mersenne._small_draws, 0))
    _mersenne._ready.clear()
    _mersenne._fillers.clear()


@pytest.mark.parametrize("seed", [0, 5, 2**32 - 1])
def test_the_words_are_numpys_from_any_position_and_the_state_advances(seed):
    numpy, (bits, state) = np.random.MT19937(seed), numpy_and_state(seed)
    for n in (0, 1, 2, 3, 227, 1, 396, SIZE - 1, SIZE, SIZE + 1, 16, 17, 2 * SIZE, 7, 100_001):
        np.testing.assert_array_equal(words(state, n), numpy.random_raw(n))
        drawn = numpy.random_raw(2 * n)
        np.testing.assert_array_equal(pairs(state, n), drawn[0::2] << np.uint64(32) | drawn[1::2])
        assert bits.random_raw() == numpy.random_raw()
        assert bits.state["state"]["pos"] == numpy.state["state"]["pos"]


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
def test_a_generator_draws_the_same_with_kernels_and_without(monkeypatch):
    forget_kernels(monkeypatch)
    called = watch(monkeypatch, "mersenne_cpu:words", "mersenne_cpu:pairs")
    fast, portable = MersenneTwister(3), MersenneTwister(3)
    for n in (5, LARGE_DRAW - 1, LARGE_DRAW, 3, LARGE_DRAW + 333):
        for draw in ("raw", "raw64"):
            with tdt.backends.kernels(False):
                expected = getattr(portable, draw)(n)
            np.testing.assert_array_equal(getattr(fast, draw)(n), expected)
            np.testing.assert_array_equal(fast.state(), portable.state())
    assert called == [f"mersenne_cpu:{name}" for name in ("pairs", "words", "pairs", "words", "pairs")]
    fast.seed(9)
    portable.set_state(fast.state())
    np.testing.assert_array_equal(fast.raw(LARGE_DRAW), portable.raw(LARGE_DRAW))
    np.testing.assert_array_equal(fast.raw(LARGE_DRAW), MersenneTwister(9).raw(2 * LARGE_DRAW)[LARGE_DRAW:])


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
def test_large_draws_are_those_of_the_portable_form():
    n = LARGE_DRAW + 77
    for draw in (
        lambda: tdt.rand(n),
        lambda: tdt.rand(n, dtype=tdt.float64),
        lambda: tdt.zeros(n).uniform_(-3, 5),
        lambda: tdt.zeros(n).uniform_(1e6, 1e6 + 1),
        lambda: tdt.zeros(n, dtype=tdt.float64).uniform_(-3, 5.5),
        lambda: tdt.zeros(n).bernoulli_(0.3),
        lambda: tdt.zeros(n, dtype=tdt.bool).bernoulli_(0.3),
        lambda: tdt.zeros(n, dtype=tdt.int16).bernoulli_(0.7),
        lambda: tdt.bernoulli(tdt.linspace(0, 1, n)),
        lambda: tdt.bernoulli(tdt.linspace(0, 1, n, dtype=tdt.float64)),
        lambda: tdt.bernoulli(tdt.linspace(0, 1, n, dtype=tdt.bfloat16)).float(),
        lambda: tdt.zeros(n).exponential_(2.5),
        lambda: tdt.zeros(n, dtype=tdt.float64).exponential_(0.3),
        lambda: tdt.zeros(n, dtype=tdt.float16).exponential_(0.3),
        lambda: tdt.zeros(n, dtype=tdt.bfloat16)[::2].exponential_(0.3).float(),
        lambda: tdt.zeros(n, dtype=tdt.uint8).random_(3, 200),
        lambda: tdt.randn(n, dtype=tdt.float64),
        lambda: tdt.zeros(n, dtype=tdt.float64).normal_(3, 0.7),
        lambda: tdt.zeros(n, dtype=tdt.float64)[::2].normal_(3, 0.7),
        lambda: tdt.randn(n, dtype=tdt.float16),
        lambda: tdt.zeros(n - n % 16, dtype=tdt.bfloat16).normal_(3, 0.7).float(),
        lambda: tdt.zeros(n, dtype=tdt.bfloat16)[::2].normal_(3, 0.7).float(),
        lambda: tdt.randperm(n),
        lambda: tdt.rand(n, dtype=tdt.bfloat16).float(),
        lambda: tdt.multinomial(tdt.arange(1, 5001).float().reshape(2, 2500), 9),
    ):
        tdt.manual_seed(5)
        fast, following = draw().numpy(), tdt.rand(1).item()
        tdt.manual_seed(5)
        with tdt.backends.kernels(False):
            np.testing.assert_array_equal(fast, draw().numpy())
            assert following == tdt.rand(1).item()


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("n", [16, 17, 33, SIZE, SIZE + 8, 2 * SIZE, 2 * SIZE + 2, 5000])
@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.0, 0.02), (1.5, 2.0), (-0.0, 0.0)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_normal_numbers_have_the_bits_of_the_portable_form(n, mean, std, kind):
    drawn, state = tdt.Generator().manual_seed(n), MersenneTwister(n)
    expected = _normal_blocks(drawn, n, np.dtype(kind), mean, std)
    found = np.full(n + 2, 7, kind)
    fill, takes_spare = filler("normal", found.dtype, n, (mean, std), False)
    assert not takes_spare
    fill(state.words, found[1:-1])
    np.testing.assert_array_equal(found[1:-1].view(np.uint8), expected.view(np.uint8))
    assert found[0] == found[-1] == 7
    np.testing.assert_array_equal(drawn.engine.words, state.words)


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_no_number_is_drawn_for_a_probability_that_is_none(kind):
    for wrong in (-1e-7, 1 + 1e-6, np.nan, np.inf):
        chances, state = np.full(1300, 0.5, kind), MersenneTwister(3)
        chances[1299] = wrong
        before = state.words.copy()
        assert flips(state.words, chances) is None
        np.testing.assert_array_equal(state.words, before)


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
def test_small_draws_have_the_same_numbers_before_and_after_their_kernels_are_loaded(monkeypatch):
    forget_kernels(monkeypatch)
    draws = (
        lambda: tdt.rand(7),
        lambda: tdt.randn(30),
        lambda: tdt.randint(9, (5,)),
        lambda: tdt.empty(3).bernoulli_(0.3),
        lambda: tdt.bernoulli(tdt.linspace(0, 1, 5)),
        lambda: tdt.empty(3).exponential_(0.3),
        lambda: tdt.empty(20, dtype=tdt.float64).normal_(2, 0.3),
        lambda: tdt.empty(5, dtype=tdt.float64).normal_(2, 0.3),
        lambda: tdt.empty(5, dtype=tdt.float16).normal_(2, 0.3),
        lambda: tdt.empty(37, dtype=tdt.float16).normal_(2, 0.3),
    )
    tdt.manual_seed(5)
    first = [[draw().numpy() for draw in draws] for _ in range(60)]
    assert {"filler", "flips"} <= _mersenne._ready.keys()
    tdt.manual_seed(5)
    second = [[draw().numpy() for draw in draws] for _ in range(60)]
    for a, b in zip(first, second, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
