"""`torch._check` and its relatives against PyTorch's: the class of the error, and its message where one was given."""

from __future__ import annotations

import pytest

import tdt
from tests.helpers import require_torch

CALLS = [
    lambda t: t._check(True), lambda t: t._check(False), lambda t: t._check(False, lambda: "no"), lambda t: t._check(1),
    lambda t: t._check(False, "text"), lambda t: t._check_value(False, lambda: "no"), lambda t: t._check_index(False),
    lambda t: t._check_type(False), lambda t: t._check_not_implemented(False, lambda: "no"),
    lambda t: t._check_with(KeyError, False, lambda: "no"), lambda t: t._check_tensor_all(t.tensor([True, False])),
    lambda t: t._check_tensor_all(t.tensor([True, True])), lambda t: t._check_tensor_all(3),
    lambda t: t._check_tensor_all_with(ValueError, t.tensor([False]), lambda: "no"), lambda t: t._assert_async(t.ones(1)),
    lambda t: t._assert_async(t.zeros(1)), lambda t: t._assert_async(t.zeros(1), "no"),
]  # fmt: skip
ERRORS = (RuntimeError, TypeError, ValueError, IndexError, KeyError, NotImplementedError)


def outcome(lib, call):
    try:
        return call(lib)
    except ERRORS as error:
        return type(error).__name__, "no" in str(error).split("'")


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_checks_raise_what_pytorchs_raise(number: int):
    assert outcome(tdt, CALLS[number]) == outcome(require_torch(), CALLS[number])
