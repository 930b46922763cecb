"""Sobol sequences against PyTorch's own."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

Engine = tdt.quasirandom.SobolEngine


def both(*args, **kwargs):
    torch = require_torch()
    return Engine(*args, **kwargs), torch.quasirandom.SobolEngine(*args, **kwargs)


def same(ours, theirs) -> bool:
    return str(ours.dtype).endswith(str(theirs.dtype).partition(".")[2]) and np.array_equal(
        ours.numpy(), theirs.numpy()
    )


def test_all_direction_numbers_are_pytorchs():
    ours, theirs = both(Engine.MAXDIM)
    assert same(ours.sobolstate, theirs.sobolstate)
    assert (Engine.MAXDIM, Engine.MAXBIT) == (theirs.MAXDIM, theirs.MAXBIT)


@pytest.mark.parametrize("scramble", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 40, 1111])
def test_points_and_state_are_pytorchs_through_draws_skips_and_resets(dimension: int, scramble: bool):
    torch = require_torch()
    ours, theirs = both(dimension, scramble, 11)
    for _ in range(2):
        assert same(ours.sobolstate, theirs.sobolstate)
        assert same(ours.shift, theirs.shift)
        for n in (1, 2, 5):
            assert same(ours.draw(n), theirs.draw(n))
        assert ours.fast_forward(13) is ours
        theirs.fast_forward(13)
        assert same(ours.draw(3, dtype=tdt.float64), theirs.draw(3, dtype=torch.float64))
        ours.fast_forward(0)
        assert same(ours.draw(0), theirs.draw(0))
        assert same(ours.draw_base2(3), theirs.draw_base2(3))
        assert same(ours.quasi, theirs.quasi)
        assert ours.num_generated == theirs.num_generated
        assert ours.reset() is ours
        theirs.reset()
    assert same(ours.fast_forward(4).draw(4), theirs.fast_forward(4).draw(4))
    assert same(ours._first_point, theirs._first_point)


def test_points_go_to_out_and_take_the_default_dtype():
    torch = require_torch()
    ours, theirs = both(3)
    out = tdt.empty(0)
    assert ours.draw(6, out=out) is out
    assert same(out, theirs.draw(6))
    tdt.set_default_dtype(tdt.float64)
    try:
        assert Engine(3, scramble=True).draw(2).dtype is tdt.float64
    finally:
        tdt.set_default_dtype(tdt.float32)
    assert same(ours.draw_base2(1, dtype=tdt.float64), theirs.draw_base2(1, dtype=torch.float64))


def test_the_generator_of_the_process_is_left_alone_and_a_seed_repeats():
    state = tdt.get_rng_state()
    assert tdt.equal(Engine(4, True, 3).draw(8), Engine(4, True, 3).draw(8))
    assert not tdt.equal(Engine(4, True).draw(8), Engine(4, True).draw(8))
    assert tdt.equal(state, tdt.get_rng_state())


def test_a_scrambled_sequence_is_balanced():
    points = Engine(5, True, 0).draw_base2(6)
    for column in points.unbind(1):  # one point in each of 64 intervals
        assert tdt.equal((column * 64).long().sort().values, tdt.arange(64))


@pytest.mark.parametrize("arguments", [(0,), (-1,), (21202,)])
def test_a_dimension_out_of_range_is_refused_with_pytorchs_words(arguments: tuple[int]):
    torch = require_torch()
    with pytest.raises(ValueError) as caught:
        torch.quasirandom.SobolEngine(*arguments)
    with pytest.raises(ValueError) as ours:
        Engine(*arguments)
    assert str(ours.value) == str(caught.value)


def test_what_pytorch_refuses_is_refused():
    for engine, dtype in zip(both(2), (tdt.float16, require_torch().float16), strict=True):
        engine.draw(2)
        with pytest.raises(ValueError, match=r"balance properties .* n=2\+2\*\*3=10"):
            engine.draw_base2(3)
        with pytest.raises(RuntimeError):
            engine.draw(-1)
        with pytest.raises(NotImplementedError):
            engine.draw(2, dtype=dtype)


def test_an_engine_is_printed_as_pytorchs():
    for arguments in ((3,), (3, True), (3, True, 7), (2, False, 1)):
        ours, theirs = both(*arguments)
        assert repr(ours) == repr(theirs)
