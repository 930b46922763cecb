"""Results that are written past the cache have every bit of others, wherever they begin and however long their rows are."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from tdt._kernels import _emit_loops, _stream, fused, generated, moves_cpu
from tdt._kernels.expression import Expression

SMALL = 1 << 13  # bytes from which on results are streamed here
pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="stores of x86")


@pytest.fixture(autouse=True)
def small_results_are_streamed(monkeypatch):
    for module in (_emit_loops, moves_cpu):
        monkeypatch.setattr(module, "stream_from", lambda: SMALL)
        monkeypatch.setattr(module, "LEAST_STREAMED", 256)


def inputs(count: int) -> list[Expression]:
    return [Expression("input", k) for k in range(count)]


def misplaced(rng: np.random.Generator, shape: tuple[int, ...], letter: str) -> np.ndarray:
    """An array that begins anywhere, of whole numbers."""
    n, first = int(np.prod(shape)), int(rng.integers(0, 40))
    return rng.integers(0, 2, n + first).astype(letter)[first:].reshape(shape)


@pytest.mark.parametrize("letter", "fde")
def test_results_that_begin_anywhere_in_memory(letter: str):
    a, b = inputs(2)
    types = 3 * letter
    function = generated._compiled("sum", f"test-streamed-rows-sum-{types}", a + b, types)
    assert function is not None
    assert "!nontemporal" in _emit_loops.module([a + b], types)
    rng = np.random.default_rng(0)
    for n in rng.integers(SMALL // 8, 3 * SMALL, 60):
        x, y, out = (misplaced(rng, (int(n),), letter) for _ in range(3))
        around = out.base.copy()
        function.run((x, y), out)
        np.testing.assert_array_equal(out, x + y)
        np.testing.assert_array_equal(out.base[: -int(n)], around[: -int(n)])
        np.testing.assert_array_equal(function.run((x, y)), x + y)
        np.testing.assert_array_equal(function.run((x, y), x), out)  # in place
        np.testing.assert_array_equal(x, out)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_of_any_length_and_operands_that_are_repeated(threads: int, monkeypatch):
    monkeypatch.setattr(generated.THREADS, "count", threads)
    a, b = inputs(2)
    function = generated._compiled("less", "test-streamed-rows-less", a < b, "ff?")
    difference = generated._compiled("difference", "test-streamed-rows-difference", a - b, "fff")
    rng = np.random.default_rng(1)
    for _ in range(40):
        n, m = int(rng.integers(2, 60)), int(rng.integers(200, 3000))
        for shapes in ([(n, m), (m,)], [(n, m), (n, 1)], [(n, 1), (m,)], [(n, m), ()], [(n, m), (n, m)]):
            x, y = (misplaced(rng, shape, "f") for shape in shapes)
            np.testing.assert_array_equal(function.run((x, y)), x < y)
            np.testing.assert_array_equal(difference.run((x, y)), x - y)


def test_several_results_of_one_pass():
    a, b = inputs(2)
    rng = np.random.default_rng(2)
    code = fused._code("test-streamed-rows-two", "fff?", 2, lambda: _emit_loops.module([a + b, a < b], "fff?"))
    for n in rng.integers(SMALL, 4 * SMALL, 20):
        x, y, total = (misplaced(rng, (int(n),), "f") for _ in range(3))
        less = misplaced(rng, (int(n),), "?")
        code.ufunc(x, y, out=(total, less))
        np.testing.assert_array_equal(total, x + y)
        np.testing.assert_array_equal(less, x < y)


@pytest.mark.parametrize("letter", "fdBh")
def test_copies_of_rows(letter: str):
    rng = np.random.default_rng(3)
    for _ in range(60):
        n, m = int(rng.integers(1, 40)), int(rng.integers(100, 4000))
        base = misplaced(rng, (n, m + 20), letter)
        for source in (base[:, :m], base[::-1, :m], base[:, m - 1 :: -1], base[::-1, m - 1 :: -1]):
            whole = misplaced(rng, (n, m + 50), letter)
            first = int(rng.integers(0, 50))
            expected = whole.copy()
            expected[:, first : first + m] = source
            assert moves_cpu.copy_into(whole[:, first : first + m], source)
            np.testing.assert_array_equal(whole, expected)


def test_a_quarter_of_the_last_cache_stays_in_it(monkeypatch, tmp_path):
    for text, bytes_ in (("16384K\n", 4 << 20), ("", _stream.USUAL_CACHE // 4)):
        (tmp_path / "size").write_text(text)
        monkeypatch.setattr(_stream, "LAST_CACHE", tmp_path / "size")
        assert _stream.stream_from.__wrapped__() == bytes_
