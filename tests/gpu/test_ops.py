"""Every op that has samples, forward and backward, on the stand-in: values, dtypes and shapes are the CPU's.

Those in float32 are computed on the second GPU while the first is the current one: work is done on the GPU of its operands.
"""

from __future__ import annotations

import warnings

import pytest

import tdt
from tests.on_gpu import DTYPES, check_ops, sampled_ops


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("name", sampled_ops())
def test_an_op_gives_what_it_gives_on_the_cpu_and_is_computed_on_the_gpu_of_its_operands(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        checks = list(check_ops(tdt.device("cuda:0"), [name], sorted({*DTYPES} - {"float32"})))
        checks += check_ops(tdt.device("cuda:1"), [name], ["float32"])
    assert checks
    assert {f"{check.name} {check.dtype}": check.wrong for check in checks if check.wrong} == {}
