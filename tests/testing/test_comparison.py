"""assert_close accepts and refuses what PyTorch's does, in its words."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tdt
from tdt.testing import assert_close
from tests.helpers import require_torch

CLOSE = [
    "1, 1", "1, 1.0, check_dtype=False", "np.float32(1), 1.0", "float('nan'), float('nan'), equal_nan=True", "None, None",
    "True, np.bool_(True)", "np.ones(2), np.ones(2)", "[1, (t.ones(2),)], (1, [t.ones(2)])", "{'a': 1j}, {'a': 1j}", "[], []",
    "t.tensor([]), t.tensor([])", "t.ones(2, device='meta'), t.zeros(2, device='meta')",
    "t.ones(2), t.ones(2).double(), check_dtype=False", "t.ones(2), t.ones(2) + 1e-6",
    "t.ones(2).half(), t.ones(2).half() * 1.0009",
    "t.ones(2).bfloat16(), t.ones(2).bfloat16() * 1.015", "t.tensor([float('inf')]), t.tensor([float('inf')])",
    "t.tensor([1.0, 2.0]), t.tensor([1.0, 2.5]), rtol=0, atol=0.5", "t.nn.Parameter(t.ones(1)), t.ones(1)",
    "t.ones(2, 3), t.ones(3, 2).T", "sparse([0, 1]), sparse([0, 1]).to_dense(), check_layout=False",
    "sparse([0, 1]), sparse([0, 1])",
    "t.tensor([1, 2], dtype=t.uint16), t.tensor([1, 2]), check_dtype=False",
]  # fmt: skip
DIFFERENT = [
    "1, 2", "1, 1.0", "1.0, 1.1, rtol=0, atol=0.01", "1j, 2j", "float('nan'), float('nan')", "1.0, 0.0", "None, 1",
    "True, False", "b'a', b'b'", "np.ones(2), np.ones(2) * 2", "[1], [1, 2]", "{1: 2}, {1: 2, 3: 4}", "{1: 2, 5: 6}, {1: 2}",
    "[1, [t.ones(2)]], [1, [t.zeros(2)]]", "{'a': [1]}, {'a': [2]}", "t.tensor(1.0), t.tensor(2.0)",
    "t.tensor([1, 2]), t.tensor([1, 3])", "t.tensor([True, False]), t.tensor([False, False])",
    "t.tensor([1.0, float('inf')]), t.tensor([1.0, 2.0])", "t.tensor([1.0, float('nan')]), t.tensor([1.0, 2.0])",
    "t.tensor([1 + 1j]), t.tensor([1 + 2j])", "t.arange(12.0).reshape(3, 4), t.arange(12.0).reshape(3, 4) * 1.25",
    "t.tensor([1, 2], dtype=t.uint8), t.tensor([1, 300]), check_dtype=False", "t.ones(2), t.ones(2).double()",
    "t.ones(2), t.ones(3)", "t.ones(2, 3), t.ones(3, 2).T, check_stride=True", "t.ones(2), t.ones(2, device='meta')",
    "t.ones(2).double(), t.ones(2).double() + 1e-6", "t.ones(1).half(), t.ones(1).half() * 1.01",
    "sparse([0, 1]), sparse([0, 1]).to_dense()",
    "1, 2, msg='mine'", "t.ones(1), t.zeros(1), msg=lambda m: f'<{m}>'", "[1], [1, 2], msg='mine'",
    "sparse([0, 1]), sparse([0, 1], 2.0)", "sparse([0, 1]), sparse([0])", "sparse([0, 1]), sparse([0, 2])",
]  # fmt: skip
INCOMPARABLE = [
    ("'a', 'a'", TypeError), ("t.ones(2), np.ones(2)", TypeError), ("1, t.tensor(1)", TypeError), ("[1], 1", TypeError),
    ("t.nn.Parameter(t.ones(1)), t.ones(1), allow_subclasses=False", TypeError), ("object(), object()", TypeError),
    ("1.0, 1.0, rtol=0", ValueError), ("[t.ones(2)], [t.ones(2)], atol=0", ValueError), ("[1, 1, 'a'], [2, 1, 'a']", TypeError),
]  # fmt: skip


def _error_of(lib: Any, call: str) -> tuple[type, str] | None:
    def sparse(rows, value=1.0):
        weight = lib.zeros(3, 2, requires_grad=True)
        (lib.nn.functional.embedding(lib.tensor(rows), weight, sparse=True) * value).sum().backward()
        return weight.grad

    try:
        eval(f"lib.testing.assert_close({call})", {"lib": lib, "t": lib, "np": np, "sparse": sparse})
    except (AssertionError, TypeError, ValueError) as error:
        return type(error), str(error).replace("torch.", "tdt.")
    return None


@pytest.mark.parametrize("call", CLOSE)
def test_what_agrees_passes(call):
    assert _error_of(tdt, call) is None
    assert _error_of(require_torch(), call) is None


@pytest.mark.parametrize("call", DIFFERENT)
def test_differences_are_reported_with_pytorchs_messages(call):
    actual, expected = (_error_of(lib, call) for lib in (tdt, require_torch()))
    assert actual is not None
    assert expected is not None
    assert actual[0] is expected[0] is AssertionError
    assert actual[1] == expected[1]


@pytest.mark.parametrize(("call", "error"), INCOMPARABLE)
def test_what_cannot_be_compared_is_refused(call, error):
    actual, expected = (_error_of(lib, call) for lib in (tdt, require_torch()))
    assert actual[0] is expected[0] is error
    assert actual[1].partition(":")[0].partition(".")[0] == expected[1].partition(":")[0].partition(".")[0]


def test_a_bool_is_no_number():
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
        assert_close(True, 1)


def test_gradients_do_not_matter():
    x = tdt.ones(2, requires_grad=True)
    assert_close(x * 2, tdt.full((2,), 2.0))
    with pytest.raises(AssertionError, match="Mismatched elements: 2 / 2"):
        assert_close(x * 2, x)


def test_the_old_name_is_wider_and_takes_lists():
    with pytest.warns(FutureWarning, match="deprecated"):
        tdt.testing.assert_allclose(tdt.ones(2), [1, 1.00005])
    with warnings.catch_warnings(action="ignore"):
        tdt.testing.assert_allclose(tdt.tensor([float("nan")]), tdt.tensor([float("nan")]))
        with pytest.raises(AssertionError, match="up to 0.0001 allowed"):
            tdt.testing.assert_allclose([1.0, 2.0], [1.0, 2.1])
