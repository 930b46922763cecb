"""In-place methods as functions of the top level: the same names, results and errors as PyTorch's."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import tdt
from tdt._core.methods import IN_PLACE_FUNCTIONS
from tests.helpers import require_torch

CALLS: dict[str, Any] = {
    "addmv_": lambda lib, x: (lib.ones(4, 2), lib.ones(2)),
    "as_strided_": lambda lib, x: ((2, 2), (2, 1)),
    "clamp_": lambda lib, x: (0.3, 0.6),
    "clamp_max_": lambda lib, x: (0.5,),
    "clamp_min_": lambda lib, x: (0.5,),
    "clip_": lambda lib, x: (0.3, 0.6),
    "gcd_": lambda lib, x: (lib.tensor([18, 4, 0, 5]),),
    "index_put_": lambda lib, x: ((lib.tensor([0, 2]),), lib.tensor([1.0, 2.0])),
    "lcm_": lambda lib, x: (lib.tensor([18, 4, 0, 5]),),
    "ldexp_": lambda lib, x: (lib.tensor([1, 2, 3, -1]),),
    "xlogy_": lambda lib, x: (lib.tensor([1.0, 2.0, 3.0, 4.0]),),
}


def test_every_in_place_function_of_pytorch_whose_method_tdt_has_is_there():
    torch = require_torch()
    names = {n for n in dir(torch) if n.endswith("_") and n[0] != "_" and callable(getattr(torch, n))}
    assert {n for n in names if hasattr(tdt.Tensor, n) and not hasattr(tdt, n)} == set()
    assert {n for n in IN_PLACE_FUNCTIONS if hasattr(torch, n.removesuffix("_"))} <= names


@pytest.mark.parametrize("name", sorted({*IN_PLACE_FUNCTIONS, *CALLS, "abs_", "detach_"}))
def test_an_in_place_function_computes_pytorchs_values_and_returns_the_tensor_itself(name: str):
    torch = require_torch()
    if not hasattr(torch, name):
        pytest.skip("PyTorch lacks this op")

    def result(lib: Any) -> Any:
        x = lib.tensor([12, 7, 3, 0]) if name in ("gcd_", "lcm_") else lib.tensor([1.2, 0.75, 0.5, 0.25])
        assert getattr(lib, name)(x, *(CALLS[name](lib, x) if name in CALLS else ())) is x
        return x.numpy()

    ours, theirs = result(tdt), result(torch)
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=3e-6, atol=1e-6)


def test_in_place_forms_take_no_out():
    for name in sorted(IN_PLACE_FUNCTIONS):
        for form in (getattr(tdt, name), getattr(tdt.Tensor, name)):
            assert "out" not in inspect.signature(form).parameters
            assert form.__name__ == form.__code__.co_name == name
    with pytest.raises(TypeError, match=r"acos_\(\) got an unexpected keyword argument 'out'"):
        tdt.acos_(tdt.ones(2), out=tdt.ones(2))
    with pytest.raises(TypeError, match=r"nan_to_num_\(\) got an unexpected keyword argument 'out'"):
        tdt.ones(2).nan_to_num_(out=tdt.ones(2))


def test_an_in_place_function_refuses_non_tensors_and_leaves():
    with pytest.raises(TypeError, match=r"sin_\(\): argument 'input' \(position 1\) must be Tensor, not list"):
        tdt.sin_([1.0])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        tdt.sin_(tdt.ones(2, requires_grad=True))
    assert tdt.clamp_(input=tdt.tensor([2.0]), max=1).item() == 1
    assert tdt.exp_(input=tdt.tensor([0.0])).item() == 1
