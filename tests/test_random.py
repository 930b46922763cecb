"""Same seed, same numbers: the generator against PyTorch's streams, stored and, where torch is installed, live."""

from __future__ import annotations

import copy
import os
import pickle
import random
import threading
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tdt
import tdt._random as R
from tdt._random._philox import Philox, philox4x32
from tdt._random._rounding import fma32, fma64
from tests.helpers import require_torch
from tests.references.random_streams import EXACT, SEEDS, Call, digest, stored, torch_draw


def draw(gen: R.Generator, call: Call) -> np.ndarray:
    """The array-level counterpart of `torch_draw`."""
    shape, dtype, args = (call.size,), np.dtype(call.dtype), call.args
    draws = {
        "rand": lambda: R.uniform(gen, shape, dtype),
        "randn": lambda: R.normal(gen, shape, dtype),
        "uniform": lambda: R.uniform(gen, shape, dtype, *args),
        "normal": lambda: R.normal(gen, shape, dtype, *args),
        "randint": lambda: R.integers(gen, shape, dtype, *args),
        "random": lambda: R.full_range(gen, shape, dtype),
        "randperm": lambda: R.permutation(gen, call.size),
        "bernoulli": lambda: R.bernoulli(gen, shape, *args),
        "bernoulli_each": lambda: R.bernoulli_each(gen, torch_linspace(call.size, dtype)),
        "exponential": lambda: R.exponential(gen, shape, dtype, *args),
        "log_normal": lambda: R.log_normal(gen, shape, dtype, *args),
        "cauchy": lambda: R.cauchy(gen, shape, dtype, *args),
        "geometric": lambda: R.geometric(gen, shape, dtype, *args),
    }
    return draws[call.what]()


def torch_linspace(n: int, dtype: np.dtype) -> np.ndarray:
    """`torch.linspace(0, 1, n)`: steps from each end, so that the second half is exact too."""
    if n < 2:
        return np.zeros(n, dtype)
    step, i = dtype.type(1) / dtype.type(n - 1), np.arange(n)
    return np.where(i < n // 2, i * step, 1 - (n - 1 - i) * step).astype(dtype)


def close(call: Call, got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits for the exact draws; else within 4 units in the last place of the larger of result and mean."""
    if call.what in EXACT or call.what == "geometric":
        assert (got == want).all()
        return
    size = np.maximum(np.abs(want), abs(call.args[0]) if call.what == "normal" else 0).astype(want.dtype)
    assert (np.abs(got - want) <= 4 * np.spacing(size)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_draw_has_the_numbers_that_pytorch_drew(seed: int) -> None:
    for call, want in stored(seed)[0]:
        got = draw(R.Generator().manual_seed(seed), call)
        assert got.shape == want.shape and (got.dtype == want.dtype or call.what.startswith("bernoulli"))
        close(call, got, want)


@pytest.mark.parametrize("seed", SEEDS)
def test_interleaved_draws_stay_in_step_and_end_in_pytorchs_state(seed: int) -> None:
    _, sequence, state = stored(seed)
    gen = R.Generator().manual_seed(seed)
    for call, want in sequence:
        close(call, draw(gen, call), want)
    assert digest(gen.state_array()) == state


def random_call(rng: random.Random) -> Call:
    what = rng.choice(["rand", "uniform", "randn", "normal", "randint", "random", "randperm", "bernoulli",
                       "bernoulli_each", "exponential", "log_normal", "geometric"])  # fmt: skip
    size = rng.choice([0, 1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 47, 100, 999, 40000])
    low = rng.uniform(-3, 3)
    args: dict[str, tuple] = {
        "uniform": (low, low + rng.uniform(0, 2)),
        "normal": (0.0, rng.uniform(0, 2)),
        "randint": rng.choice([(0, 7), (-(2**63), 2**63 - 1), (-3, 2**28 - 3), (-3, 2**28 - 4), (0, 2**31)]),
        "bernoulli": (rng.choice([0.0, 1.0, rng.random()]),),
        "exponential": (rng.uniform(0.1, 3),),
        "log_normal": (0.0, rng.uniform(0.1, 0.5)),
        "geometric": (rng.uniform(0.01, 0.99),),
    }
    dtype = "int64" if what in ("randint", "random", "randperm") else rng.choice(["float32", "float64"])
    return Call(what, size, dtype, args.get(what, ()))


def mkl_draws_bernoulli(torch: Any) -> bool:
    """Whether this PyTorch takes one draw for a whole `bernoulli_(p)`, as it does on Intel processors."""
    a, b = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)
    torch.empty(100).bernoulli_(0.5, generator=a)
    torch.rand(1, generator=b)
    return bool((a.get_state() == b.get_state()).all())


@pytest.mark.parametrize("seed", [0, 7, 2**40 + 1])
def test_any_sequence_of_draws_equals_pytorch_and_leaves_its_state(seed: int) -> None:
    torch = require_torch()
    rng, theirs, ours = random.Random(seed), torch.Generator().manual_seed(seed), R.Generator().manual_seed(seed)
    mkl = mkl_draws_bernoulli(torch)
    for _ in range(150):
        call = random_call(rng)
        if mkl and call.what == "bernoulli":
            continue
        close(call, draw(ours, call), torch_draw(torch, theirs, call))
        if ours.engine.cached is not None:  # a normal's second half: within rounding only
            record = theirs.get_state().numpy()[5024:5032].view(np.float64)[0]
            assert abs(ours.engine.cached - record) <= 4 * np.spacing(abs(record))
            ours.engine.cached = float(record)
        assert (ours.state_array() == theirs.get_state().numpy()).all(), call


def test_states_pass_between_pytorch_and_tdt_both_ways() -> None:
    torch = require_torch()
    theirs = torch.Generator().manual_seed(5)
    torch.randn(3, generator=theirs)
    ours = R.Generator()
    ours.set_state_array(theirs.get_state().numpy())
    assert ours.initial_seed() == 5
    assert (R.normal(ours, (1,), np.float64) == torch.randn(1, dtype=torch.float64, generator=theirs).numpy()).all()
    assert (R.uniform(ours, (700,), np.float32) == torch.rand(700, generator=theirs).numpy()).all()
    theirs.set_state(torch.from_numpy(ours.state_array()))
    assert (R.permutation(ours, 50) == torch.randperm(50, generator=theirs).numpy()).all()


@pytest.mark.parametrize("draws", [0, 1, 623, 624, 625])
def test_the_state_equals_pytorchs_at_the_edges_of_a_block(draws: int) -> None:
    torch = require_torch()
    theirs, ours = torch.Generator().manual_seed(9), R.Generator().manual_seed(9)
    torch.rand(draws, generator=theirs)
    R.uniform(ours, (draws,), np.float32)
    assert (ours.state_array() == theirs.get_state().numpy()).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_floats_are_drawn_as_pytorch_draws_them(dtype: str) -> None:
    import ml_dtypes

    torch = require_torch()
    np_dtype = np.dtype(getattr(ml_dtypes, dtype, np.float16))
    theirs, ours = torch.Generator().manual_seed(3), R.Generator().manual_seed(3)
    for n in (5, 16, 17, 31, 48, 20000):
        t = torch.empty(n, dtype=getattr(torch, dtype))
        assert (
            R.uniform(ours, (n,), np_dtype).astype(np.float32) == torch.rand_like(t, generator=theirs).float().numpy()
        ).all()
        got = R.uniform(ours, (n,), np_dtype, -0.3, 0.7).astype(np.float32)
        assert (got == t.uniform_(-0.3, 0.7, generator=theirs).float().numpy()).all()
        got, want = R.normal(ours, (n,), np_dtype).astype(np.float32), t.normal_(generator=theirs).float().numpy()
        assert (np.abs(got - want) <= np.abs(want) * 2.0 ** -(7 if dtype == "bfloat16" else 10)).all()  # 1 ulp
        assert (
            R.full_range(ours, (n,), np_dtype).astype(np.float32) == t.random_(generator=theirs).float().numpy()
        ).all()


def test_complex_numbers_fill_both_parts() -> None:
    torch = require_torch()
    theirs, ours = torch.Generator().manual_seed(3), R.Generator().manual_seed(3)
    assert (R.uniform(ours, (5,), np.complex64) == torch.rand(5, dtype=torch.complex64, generator=theirs).numpy()).all()
    want = torch.randn(3, 20, dtype=torch.complex128, generator=theirs).numpy()
    assert np.abs(R.normal(ours, (3, 20), np.complex128) - want).max() < 1e-15


@pytest.mark.parametrize("layout", ["transposed", "permuted", "stepped", "channels_last"])
def test_a_strided_target_is_filled_in_the_order_of_its_memory(layout: str) -> None:
    torch = require_torch()
    make = {
        "transposed": lambda: torch.zeros(6, 8).t(),
        "permuted": lambda: torch.zeros(2, 3, 4).permute(1, 2, 0),
        "stepped": lambda: torch.zeros(8, 12)[::2, ::3].t(),
        "channels_last": lambda: torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last),
    }[layout]
    theirs, ours = torch.Generator().manual_seed(1), R.Generator().manual_seed(1)
    target = make().numpy()
    R.assign_in_memory_order(target, R.uniform(ours, target.shape, np.float32))
    assert (target == make().uniform_(generator=theirs).numpy()).all()
    R.assign_in_memory_order(target, R.normal(ours, target.shape, np.float32, dense=False))
    want = make().normal_(generator=theirs).numpy()
    assert (np.abs(target - want) <= np.spacing(np.abs(want))).all()


def test_the_fused_multiply_add_rounds_once() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2**53, 3000) * 2.0**-53
    for scale, offset in ((1.2, -0.3), (0.1, 7.3), (3e-9, 1.0), (1e9, -1.7)):
        want = [float(Fraction(v) * Fraction(scale) + Fraction(offset)) for v in x.tolist()]
        assert fma64(x, scale, offset).tolist() == want
    assert fma64(np.array([0.5, -2.0]), np.inf, 1.0).tolist() == [np.inf, -np.inf]
    assert fma64(np.array([0.5]), 1e300, 1e300).tolist() == [1.5e300]
    # 1 + 2⁻²⁴ + 2⁻⁵⁴ lies just above the middle of two float32 numbers; rounding to float64 first loses that.
    assert fma32(np.array([2.0**-24 + 2.0**-47]), 2.0**-7 * 128, 1.0)[0] == np.float32(1 + 2.0**-23)
    assert fma32(np.array([2.0**-48 + 1.0]), 2.0**-24, 1.0)[0] == np.float32(1 + 2.0**-23)


def test_uniform_never_returns_its_upper_end() -> None:
    gen = R.Generator().manual_seed(0)
    for dtype, high in ((np.float32, 1 + 2.0**-22), (np.float64, 1 + 2.0**-51), (np.float16, 1 + 2.0**-9)):
        values = R.uniform(gen, (4000,), dtype, 1.0, high)
        assert values.min() == 1 and values.max() < high


def test_seeds_outside_64_bits_and_other_types_are_refused() -> None:
    gen = R.Generator()
    assert gen.initial_seed() == 67280421310721
    assert gen.manual_seed(-1) is gen and gen.initial_seed() == 2**64 - 1
    with pytest.raises(ValueError, match="Overflow when unpacking long"):
        gen.manual_seed(2**64)
    with pytest.raises(RuntimeError, match="manual_seed expected a long, but got float"):
        gen.manual_seed(1.5)  # type: ignore[arg-type]
    assert gen.seed() == gen.initial_seed() != R.Generator().seed()


def test_fork_rng_restores_the_state() -> None:
    R.manual_seed(8)
    want = R.uniform(R.default_generator, (3,), np.float32)
    R.manual_seed(8)
    with R.fork_rng():
        R.manual_seed(99)
        R.normal(R.default_generator, (3,), np.float32)
    assert (R.uniform(R.default_generator, (3,), np.float32) == want).all()
    with R.fork_rng(enabled=False):
        R.manual_seed(99)
    assert R.initial_seed() == 99


def test_a_state_of_the_wrong_size_or_content_is_refused() -> None:
    gen = R.Generator()
    with pytest.raises(RuntimeError, match="of size 5056 but found the input RNG state size to be 10"):
        gen.set_state_array(np.zeros(10, np.uint8))
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        gen.set_state_array(np.zeros(5056, np.uint8))


@pytest.mark.parametrize("copy_of", [lambda g: g.clone_state(), copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_a_copy_continues_alone_from_the_same_state(copy_of: Any) -> None:
    gen = R.Generator().manual_seed(4)
    R.normal(gen, (3,), np.float32)
    other = copy_of(gen)
    want = R.normal(gen, (40,), np.float32)
    assert (R.normal(other, (40,), np.float32) == want).all()


def test_threads_that_share_a_generator_take_whole_draws() -> None:
    gen = R.Generator().manual_seed(0)
    draws: list[bytes] = []

    def work() -> None:
        for _ in range(50):
            draws.append(R.uniform(gen, (1000,), np.float64).tobytes())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    alone = R.Generator().manual_seed(0)
    assert sorted(draws) == sorted(R.uniform(alone, (1000,), np.float64).tobytes() for _ in range(200))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_in_the_middle_of_a_draw_can_draw() -> None:
    R.manual_seed(3)
    R.default_generator.lock.acquire()  # another thread of the parent would hold it
    try:
        pid = os.fork()
        if pid == 0:
            worker = threading.Thread(target=lambda: R.uniform(R.default_generator, (3,), np.float32), daemon=True)
            worker.start()
            worker.join(10)
            os._exit(int(worker.is_alive()))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        R.default_generator.lock.release()


def test_philox_returns_the_known_answers_of_its_authors() -> None:
    def words(*values: int) -> tuple:
        return tuple(np.array([v], np.uint64) for v in values)

    ones = 0xFFFFFFFF
    answers = {
        ((0, 0, 0, 0), (0, 0)): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        ((ones,) * 4, (ones,) * 2): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)):
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    }  # fmt: skip
    for (counter, key), want in answers.items():
        assert tuple(int(w[0]) for w in philox4x32(words(*counter), key)) == want


def test_draws_from_philox_have_the_right_range_and_moments() -> None:
    gen = R.Generator()
    gen.engine = Philox(0, np)  # the GPU's engine on NumPy
    u = R.uniform(gen, (100_000,), np.float32, -1, 3)
    assert -1 <= u.min() and u.max() < 3 and abs(u.mean() - 1) < 0.02 and abs(u.var() - 16 / 12) < 0.03
    assert abs(R.bernoulli(gen, (100_000,), 0.3).mean() - 0.3) < 0.01
    assert np.abs(np.bincount(R.integers(gen, (70_000,), np.int64, 0, 7)) - 10_000).max() < 500
    saved = gen.state_array()
    want = R.uniform(gen, (9,), np.float64)
    gen.set_state_array(saved)
    assert (R.uniform(gen, (9,), np.float64) == want).all()
    assert gen.get_offset() > 0


def test_fork_rng_accepts_the_devices_that_have_generators():
    tdt.manual_seed(0)
    with tdt.random.fork_rng(device_type="cuda"):
        tdt.rand(3)
    assert tdt.rand(1).item() == pytest.approx(0.4962566)
    with pytest.raises(RuntimeError, match="device_type"), tdt.random.fork_rng(device_type="abacus"):
        pass
