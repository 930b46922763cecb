"""Every op that has samples, forward and backward, under the real CuPy: accepted, with the CPU's dtypes and shapes."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import tdt
from tests.gpu.listing import listing
from tests.gpu.null.kernels import EVERYTHING
from tests.on_gpu import DTYPES, check_ops, sampled_ops

# What these read from the GPU decides how many elements there are, or is refused: on the null driver it is zero.
READS = {
    "bincount": "result 0 is", "masked_select": "result 0 is", "nonzero": "result 0 is", "unique": "result 0 is",
    "index_mask": "result 0 is",
    "unique_consecutive": "result 0 is", "bernoulli": "RuntimeError: Expected p_in", "multinomial": "RuntimeError: ",
    "poisson": "RuntimeError: invalid Poisson rate", "eig": "RuntimeError: torch.linalg.eig: input tensor should not contain",
    "ldl_solve": "RuntimeError: linalg.ldl_solve: pivots must be",
}  # fmt: skip


@pytest.mark.parametrize("name", sampled_ops())
def test_cupy_accepts_an_op_and_gives_the_cpus_dtypes_and_shapes(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        dtypes = DTYPES if EVERYTHING else ("float32", "bfloat16")
        checks = list(check_ops(tdt.device("cuda"), [name], dtypes, values=False))
    assert checks or not EVERYTHING  # some have samples in other dtypes alone
    wrong = {f"{check.name} {check.dtype}": [why for why in check.wrong if not why.startswith(READS.get(name, "-"))]
             for check in checks}  # fmt: skip
    assert {check: why for check, why in wrong.items() if why} == {}


def test_the_stand_in_offers_what_this_wheel_offers():
    lines = (Path(__file__).parents[1] / "standin" / "wheel.txt").read_text().splitlines()
    assert lines == list(listing())
