"""Functions of `torch.nn.functional` that its op database does not ask, against PyTorch."""

import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()

from tests.nn._compare import agree, agree_error, numbers  # noqa: E402
from tests.parity.functions import CALLS, NOT_OFFERED, public_functions  # noqa: E402


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CALLS)
def test_a_function_is_pytorchs(name):
    for call, arrays in CALLS[name]:
        agree(call, *arrays)


def test_every_function_of_pytorchs_is_here():
    assert {name for name in public_functions() if not hasattr(tdt.nn.functional, name)} == set(NOT_OFFERED)


GROUPED = {
    "no offsets": lambda lib, x: lib.nn.functional.grouped_mm(x(8, 4), x(2, 4, 4)),
    "offsets of bmm": lambda lib, x: lib.nn.functional.grouped_mm(x(2, 8, 4), x(2, 4, 4), offs=x(2).int()),
    "int64 offsets": lambda lib, x: lib.nn.functional.grouped_mm(x(8, 4), x(2, 4, 4), offs=x(2).long()),
    "float64": lambda lib, x: lib.nn.functional.grouped_mm(x(2, 8, 4).double(), x(2, 4, 4).double()),
    "one dimension": lambda lib, x: lib.nn.functional.grouped_mm(x(4), x(2, 4, 4), offs=x(2).int()),
    "sizes": lambda lib, x: lib.nn.functional.grouped_mm(x(2, 8, 4), x(2, 8, 4)),
    "groups": lambda lib, x: lib.nn.functional.grouped_mm(x(8, 4), x(3, 4, 4), offs=x(2).int()),
    "bias": lambda lib, x: lib.nn.functional.grouped_mm(x(2, 8, 4), x(2, 4, 4), bias=x(2, 4)),
    "another dtype": lambda lib, x: lib.nn.functional.grouped_mm(x(2, 8, 4), x(2, 4, 4), out_dtype=lib.float16),
}


@pytest.mark.parametrize("why", GROUPED)
def test_a_product_of_groups_refuses_what_pytorch_refuses(why):
    clause = {"int64 offsets": "Offsets have to be int32", "bias": "Bias not supported yet"}.get(why, "")
    if not clause:
        with pytest.raises(RuntimeError) as refusal:
            GROUPED[why](torch, torch.ones)
        clause = str(refusal.value).partition(",")[0]
    agree_error(lambda lib: GROUPED[why](lib, lib.ones), clause)


def test_products_of_groups_along_each_dimension_are_pytorchs():
    def run(lib, a, b):
        return lib.nn.functional.grouped_mm(a, b, offs=lib.tensor([0, 8, 12], dtype=lib.int32))

    for a, b in (((12, 8), (3, 8, 4)), ((3, 4, 8), (8, 12)), ((4, 12), (12, 8))):
        agree(run, numbers(*a), numbers(*b))
