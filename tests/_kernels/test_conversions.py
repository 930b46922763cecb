"""Conversions between types by generated code: NumPy's values, whatever the size, the strides and the number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import tdt
from tdt._kernels import CONVERSIONS, _pool, astype
from tdt._kernels._formulas import LARGE_CONVERSION
from tdt._kernels._threads import PARALLEL, THREADS
from tests.helpers import require_torch

FLOATS = [0.0, -0.0, 0.5, -0.5, 1.0, 2.5, -3.7, 127.9, 255.0, -129.0, 65504.0, 65520.0, 2.0**24 + 2, 2.0**31, -(2.0**31), 2.0**33,
          -(2.0**40), 2.0**63, 1e-8, 1e-40, 1e-45, 3e38, np.inf, -np.inf, np.nan]  # fmt: skip
DOUBLES = [1 + 2.0**-9 + 2.0**-40, 1 + 2.0**-11, 2.0**53 + 1, 1e300, 1e-310, 2.0**31 - 0.5]
INTEGERS = [
    0,
    1,
    -1,
    127,
    128,
    255,
    2049,
    2**24 + 1,
    -(2**24) - 1,
    2**31 - 1,
    -(2**31),
    2**31,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
]
SIZES = [0, 1, 7, 33, LARGE_CONVERSION - 1, LARGE_CONVERSION + 5]
COMMON = {("int64", "float32"), ("float32", "int64"), ("uint8", "float32"), ("float64", "bfloat16"), ("float64", "float32"),
          ("bfloat16", "int64"), ("int64", "bfloat16"), ("bool", "float16"), ("float16", "bool"), ("int32", "int8")}  # fmt: skip
PAIRS = [
    pytest.param(a.name, b.name, marks=() if (a.name, b.name) in COMMON else pytest.mark.long) for a, b in CONVERSIONS
]
TYPES = {a.name: a for pair in CONVERSIONS for a in pair}


def values(name: str, n: int) -> np.ndarray:
    """Special numbers, then random ones, most of them small."""
    kind, rng = TYPES[name], np.random.default_rng(n)
    if kind.kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    if kind.kind in "iu":
        x = rng.integers(0, 100, n).astype(kind)
        special = np.array([v for v in INTEGERS if np.iinfo(kind).min <= v <= np.iinfo(kind).max], kind)
    else:
        x = rng.normal(0, 50, n).astype(np.float32).astype(kind)
        special = np.array(FLOATS + DOUBLES * (name == "float64")).astype(kind)
    middle = n // 2  # so that some vectors have small numbers alone
    x[middle : middle + len(special)] = special[: n - middle]
    return x


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype and found.shape == expected.shape
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
        return
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_converted_values_are_numpys_at_any_size_stride_and_number_of_threads(source, target):
    target, threads, elementwise = TYPES[target], _pool.get_num_threads(), THREADS.elementwise
    try:
        with np.errstate(all="ignore"):
            for n in SIZES:
                x = values(source, n)
                wide = values(source, 3 * n).reshape(n, 3)
                layouts = [x, x[::2], wide.T, wide[:, 1], wide[:, :2], np.broadcast_to(x, (2, n)), x.reshape(n, 1, 1)]
                with tdt.backends.kernels(False):
                    expected = [astype(a, target) for a in layouts]
                for count in (1, 2, 3):
                    _pool.set_num_threads(count)
                    THREADS.elementwise = PARALLEL if count > 1 else THREADS.elementwise
                    for a, b in zip(layouts[: None if count < 3 else 2], expected, strict=False):
                        found = astype(a, target)
                        assert_same(found, b)
                        assert 0 in a.strides or found.strides == b.strides
    finally:
        _pool.set_num_threads(threads)
        THREADS.elementwise = elementwise


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_converted_values_are_pytorchs(source, target):
    torch = require_torch()
    for n in (9, LARGE_CONVERSION + 5):
        low, high = (0, 2) if "bool" in (source, target) else (0, 100) if "int" in target else (-100, 100)
        x = np.random.default_rng(n).uniform(low, high, n).round(1)
        ours = tdt.from_numpy(x).to(getattr(tdt, source)).to(getattr(tdt, target))
        theirs = torch.from_numpy(x).to(getattr(torch, source)).to(getattr(torch, target))
        np.testing.assert_array_equal(ours.double().numpy(), theirs.double().numpy())


COPIED = [
    "int64 float32",
    "float64 bfloat16",
    "float32 int64",
    "uint8 float32",
    "float64 float16",
    "bfloat16 int32",
    "bool float32",
]


@pytest.mark.parametrize("kinds", COPIED)
@pytest.mark.parametrize("n", [5, LARGE_CONVERSION + 5])
def test_copies_into_tensors_of_another_type_with_and_without_gaps(kinds, n):
    torch, (source, target) = require_torch(), kinds.split()
    x = np.abs(values(source, n).astype(np.float64))
    x = np.where(x < 1e4, x, 3.0)
    results = []
    for t in (tdt, torch):
        y = t.zeros(3, n, 2, dtype=getattr(t, target))
        from_ = t.from_numpy(x).to(getattr(t, source))
        y[0, :, 0].copy_(from_)
        y[1].copy_(from_[:, None])
        y[2, :, 1] = from_.flip(0)
        whole = t.ones(n, dtype=getattr(t, target)).copy_(from_)
        results.append((y.double().numpy(), whole.double().numpy()))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)
