"""make_tensor draws PyTorch's values and refuses what it refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
SETTINGS = [
    {}, {"low": 0, "high": 2}, {"low": 0.5}, {"high": 1.5}, {"low": -1e40, "high": 1e40}, {"noncontiguous": True},
    {"exclude_zero": True}, {"low": 0, "high": 2, "exclude_zero": True, "noncontiguous": True},
]  # fmt: skip


def _plain(x):
    return np.array(x.detach().to("cpu").tolist())


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_values_and_strides_are_pytorchs(settings):
    torch = require_torch()
    for dtype, size in itertools.product(DTYPES, ((), (3,), (2, 5), (4, 4))):
        actual, expected = (
            (lib.manual_seed(3), lib.testing.make_tensor(size, dtype=getattr(lib, dtype), device="cpu", **settings))[1]
            for lib in (tdt, torch)
        )
        assert str(actual.dtype) == str(expected.dtype).replace("torch", "tdt")
        assert actual.stride() == expected.stride()
        assert actual.storage_offset() == expected.storage_offset()
        np.testing.assert_array_equal(_plain(actual), _plain(expected), err_msg=f"{dtype} {size}")


def test_sizes_gradients_and_memory_formats():
    how = {"dtype": tdt.float32, "device": "cpu"}
    assert tdt.testing.make_tensor(2, 3, **how).shape == tdt.testing.make_tensor([2, 3], **how).shape == (2, 3)
    assert tdt.testing.make_tensor(2, **how, requires_grad=True).is_leaf
    tensor = tdt.testing.make_tensor(2, 3, 4, 4, **how, memory_format=tdt.channels_last)
    assert tensor.is_contiguous(memory_format=tdt.channels_last)
    assert tdt.testing.make_tensor(2, dtype=tdt.float32, device="meta").device.type == "meta"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("low=2, high=1", "`low` must be less than `high`, but got 2 >= 1"),
        ("low=float('nan')", "`low` and `high` cannot be NaN"),
        ("dtype=t.uint8, low=-9, high=-2", "only supports"),
        ("dtype=t.int64, low=3, high=3", "`low` must be less than `high`, but got 3 >= 3"),
        ("dtype=t.int64, requires_grad=True", "`requires_grad=True` is not supported for boolean and integral dtypes"),
        (
            "noncontiguous=True, memory_format=t.channels_last",
            "`noncontiguous` and `memory_format` are mutually exclusive",
        ),
    ],
)
def test_limits_that_leave_nothing_are_refused_with_pytorchs_message(settings, message):
    for lib in (tdt, require_torch()):
        arguments = {"dtype": lib.float32, "device": "cpu"} | eval(f"dict({settings})", {"t": lib})
        with pytest.raises(ValueError, match=message):
            lib.testing.make_tensor(2, **arguments)


def test_equal_limits_of_floats_are_deprecated():
    with pytest.warns(FutureWarning, match="is deprecated"):
        tensor = tdt.testing.make_tensor(2, dtype=tdt.float32, device="cpu", low=3, high=3)
    assert tensor.tolist() == [3, 3]
