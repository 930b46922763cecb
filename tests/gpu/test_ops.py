"""Every op that has samples, forward and backward, on the stand-in: values, dtypes and shapes are the CPU's."""

from __future__ import annotations

import warnings

import pytest

import tdt
from tests.on_gpu import DTYPES, check_ops, sampled_ops


@pytest.mark.parametrize("name", sampled_ops())
def test_an_op_gives_what_it_gives_on_the_cpu(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        checks = list(check_ops(tdt.device("cuda"), [name], DTYPES))
    assert checks
    assert {f"{check.name} {check.dtype}": check.wrong for check in checks if check.wrong} == {}
