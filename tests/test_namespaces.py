"""The functions of `linalg`, `fft` and `special` under names of their own."""

from __future__ import annotations

import pickle

import pytest

import tdt
from tests.helpers import require_torch

NAMES = [(space, name) for space in ("linalg", "fft", "special") for name in getattr(tdt, space).__all__
         if not isinstance(getattr(getattr(tdt, space), name), type)]  # fmt: skip
CALLS = ("()", "('a')", "('a', 'b')", "(m.ones(2, 2), wrong=1)", "(*[m.ones(2, 2)] * 9)")


def named_in_type_error(m, call: str) -> str | None:
    """The name before the parentheses in the TypeError of a call, None where it raises none."""
    try:
        eval(call, {"m": m})
    except TypeError as error:
        return str(error).partition("()")[0]
    except (RuntimeError, ValueError, IndexError):  # the call is right, its values are not
        return None
    return None


@pytest.mark.parametrize("space", ["linalg", "fft", "special"])
def test_type_errors_name_the_function_as_pytorchs_do(space: str):
    torch = require_torch()
    calls = [f"m.{space}.{name}{call}" for where, name in NAMES if where == space for call in CALLS]
    expected = {call: name for call in calls if (name := named_in_type_error(torch, call))}
    assert {call: named_in_type_error(tdt, call) for call in expected} == expected


def test_functions_of_tdt_itself_keep_their_names():
    assert named_in_type_error(tdt, "m.sigmoid('a')") == "sigmoid"
    assert named_in_type_error(tdt, "m.special.expit('a')") == "special_expit"
    assert named_in_type_error(tdt, "m.matmul()") == "matmul"


@pytest.mark.parametrize(("space", "name"), NAMES)
def test_functions_have_their_public_names(space: str, name: str):
    function = getattr(getattr(tdt, space), name)
    assert (function.__module__, function.__name__, function.__qualname__) == (f"tdt.{space}", name, name)
    assert pickle.loads(pickle.dumps(function)) is function


def test_a_setting_of_backends_takes_a_bool():
    with tdt.backends.kernels(True) as setting, pytest.raises(TypeError, match="expects True or False, got kernels"):
        tdt.backends.kernels(setting)
