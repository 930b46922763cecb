"""Copies in another order and triangles: NumPy's, for any strides and types."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tdt
from tdt import _kernels
from tdt._kernels.moves_cpu import contiguous_copy, copy_into, join, triangle


@pytest.mark.parametrize("letter", "fdBh")
def test_copies_of_any_strides_equal_numpys(letter: str):
    rng = np.random.default_rng(0)
    copied = 0
    for _ in range(100):
        shape = tuple(int(n) for n in rng.integers(1, 20, rng.integers(1, 5)))
        base = rng.integers(0, 100, [2 * n for n in shape]).astype(letter)
        cut = base[tuple(slice(None, None, -1) if rng.random() < 0.4 else slice(1, None) for _ in shape)]
        source = cut[tuple(slice(0, n) for n in shape)]
        if rng.random() < 0.3:
            source = np.broadcast_to(source[..., :1], shape)
        target = np.zeros(shape, letter)
        if copy_into(target, source):
            copied += 1
            np.testing.assert_array_equal(target, source)
        matrices = np.ascontiguousarray(np.broadcast_to(source, (2, 3, *shape)).reshape(2, 3, -1))
        edge = int(rng.integers(-5, 9))
        lower = np.tri(3, matrices.shape[-1], edge, bool)
        np.testing.assert_array_equal(triangle(matrices, edge, True), np.where(lower, matrices, 0))
        np.testing.assert_array_equal(triangle(matrices, edge, False), np.where(lower, 0, matrices))
    assert copied > 80


@pytest.mark.parametrize("letter", "fdBhF?")
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("shape", [(70, 90), (8200, 9)])
def test_rows_of_a_few_elements_are_copied_in_order(letter: str, width: int, shape: tuple[int, int]):
    x = np.random.default_rng(0).integers(0, 2 if letter == "?" else 100, shape).astype(letter)
    windows = [np.lib.stride_tricks.sliding_window_view(x, width, axis) for axis in (0, 1)]
    columns = x[:, :width], x[:, ::2][:, :width], x[::-1, 4 : 4 + width], x[:, :width].copy("F"), x[:width].T
    repeated = np.broadcast_to(x[:, :1], (len(x), width))
    for source in (*windows, windows[1][::-2, 1:], windows[0].transpose(1, 0, 2), *columns, repeated):
        found = _kernels.contiguous_copy(source)
        assert found.flags.c_contiguous and found.flags.owndata
        np.testing.assert_array_equal(found, source)


# Shapes and orders of dimensions: matrices alone, in stacks, in dimensions apart; blocks with and without a rest; long ones.
TURNED = [
    ((300, 200), (1, 0)), ((17, 19), (1, 0)), ((16, 16), (1, 0)), ((8, 3000), (1, 0)), ((3000, 9), (1, 0)),
    ((7, 50, 37), (0, 2, 1)), ((7, 50, 37), (2, 0, 1)), ((7, 50, 37), (2, 1, 0)), ((5, 6, 30, 40), (0, 2, 3, 1)),
    ((5, 6, 30, 40), (0, 3, 2, 1)), ((5, 6, 30, 40), (0, 3, 1, 2)),
]  # fmt: skip


@pytest.mark.parametrize("letter", "fdBh")
def test_rows_that_lie_across_are_turned(letter: str):
    rng = np.random.default_rng(0)
    for shape, order in TURNED:
        x = rng.integers(0, 100, [n + 1 for n in shape]).astype(letter)
        for cut in (x[tuple(slice(1, None) for _ in shape)], x[..., : shape[-1]], x[::2]):
            source = cut.transpose(order)
            found = contiguous_copy(source)
            assert found is not None
            assert found.flags.c_contiguous
            np.testing.assert_array_equal(found, source)


@pytest.mark.parametrize("x", [np.ones((3, 900)).T, np.ones((90, 90))[:, ::2].T, np.ones((9, 9, 90)).transpose(1, 0, 2),
                               np.ones((3, 20, 4, 20, 5, 20))[:, 1:, :, 1:].transpose(5, 0, 2, 1, 3, 4)])  # fmt: skip
def test_other_copies_are_numpys(x):
    assert contiguous_copy(x) is None


@pytest.mark.skipif(not _kernels.enabled(), reason="kernels are off")
def test_copies_and_gradients_across_take_it(monkeypatch):
    calls = []
    spy = lambda x: calls.append(x.shape)  # noqa: E731
    monkeypatch.setattr("tdt._kernels._arrays._contiguous_copy", spy)
    x = tdt.rand(200, 300).requires_grad_()
    y = x.t()
    assert y.contiguous().is_contiguous()
    assert y.reshape(-1).shape == (60_000,)
    assert calls == [(300, 200), (300, 200)]
    assert y.reshape(2, 150, 200)._a.base is not None
    calls.clear()
    y.backward(tdt.ones(300, 200))
    assert calls == [(200, 300)]
    np.testing.assert_array_equal(x.grad.numpy(), np.ones((200, 300), np.float32))


def test_large_copies_equal_numpys_for_every_number_of_threads():
    x = np.arange(420_000, dtype="f").reshape(600, 700)
    before = tdt.get_num_threads()
    try:
        for threads in (1, 2, 3):
            tdt.set_num_threads(threads)
            t = tdt.from_numpy(x)
            np.testing.assert_array_equal(t.flip(1).numpy(), x[:, ::-1])
            np.testing.assert_array_equal(t.flip(0, 1).numpy(), x[::-1, ::-1])
            np.testing.assert_array_equal(t.roll((2, 3), (0, 1)).numpy(), np.roll(x, (2, 3), (0, 1)))
            np.testing.assert_array_equal(tdt.cat([t, t[:9]]).numpy(), np.concatenate([x, x[:9]]))
            np.testing.assert_array_equal(tdt.cat([t, t], 1).numpy(), np.concatenate([x, x], 1))
    finally:
        tdt.set_num_threads(before)


@pytest.mark.parametrize("letter", "fd")
def test_many_real_and_imaginary_parts_become_complex_numbers(letter: str):
    x, y = np.random.default_rng(0).standard_normal((2, 131, 311)).astype(letter)
    x[0, 0], y[1, 1], y[0, 0] = np.nan, -0.0, np.inf
    found = tdt.complex(tdt.tensor(x), tdt.tensor(y))
    assert found.numpy().real.tobytes() == x.tobytes()
    assert found.numpy().imag.tobytes() == y.tobytes()


@pytest.mark.parametrize("letter", "fBh")
def test_parts_are_joined_row_by_row(letter: str):
    rng = np.random.default_rng(1)
    for dim, rows in ((1, (90,)), (2, (9, 11))):
        for widths in ((70, 200), (64, 64, 100), (3, 200)):
            whole = rng.integers(0, 100, (*rows, sum(widths) + 5)).astype(letter)
            contiguous = [np.ascontiguousarray(part) for part in np.split(whole, np.cumsum(widths), -1)[:-1]]
            for parts in (contiguous, [whole[..., 5 : 5 + n] for n in widths]):
                out = np.zeros((*rows, sum(widths)), letter)
                if join(parts, dim, out):
                    np.testing.assert_array_equal(out, np.concatenate(parts, -1))
                else:
                    assert min(widths) * out.itemsize < 64
    out = np.zeros((90, 140), letter)
    across = np.zeros((70, 90), letter).T
    assert not join([across, across], 1, out)


@pytest.mark.parametrize("letter", "fd")
def test_small_triangles_have_the_same_bits_after_many_calls(letter: str):
    x = tdt.from_numpy(np.array([[np.nan, -0.0, np.inf], [-0.0, -np.nan, 1e-45]]).astype(letter))
    for function, diagonal in ((tdt.tril, 0), (tdt.tril, -1), (tdt.triu, 1)):
        first = function(x, diagonal).numpy().tobytes()
        assert {function(x, diagonal).numpy().tobytes() for _ in range(_kernels.FEW_CALLS + 5)} == {first}


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "uint8"])
def test_triangles_of_arrays_that_lie_otherwise(kind: str):
    x = tdt.arange(2 * 90 * 70).reshape(2, 90, 70).to(getattr(tdt, kind))
    layouts = x, x.mT.contiguous().mT, tdt.cat([x, x], 2)[..., :70], x[:1].expand(2, 90, 70)
    for view, diagonal in itertools.product(layouts, (-80, -3, 0, 5, 90)):
        plain = view.float().numpy()
        for name, expected in (("tril", np.tril(plain, diagonal)), ("triu", np.triu(plain, diagonal))):
            found = getattr(view, name)(diagonal)
            assert found.is_contiguous() and found.dtype == x.dtype
            np.testing.assert_array_equal(found.float().numpy(), expected)
            if view.stride(0):
                target = view.clone() if view.is_contiguous() else tdt.cat([x, x], 2)[..., :70]
                target = target.copy_(view) if view.stride(1) != 1 else view.mT.clone().mT
                getattr(target, name + "_")(diagonal)
                np.testing.assert_array_equal(target.float().numpy(), expected)
