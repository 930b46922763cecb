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


OF_OTHERS: dict[str, Any] = {
    "add": lambda x, y, z: x.add_(y),
    "add of a multiple": lambda x, y, z: x.add_(y, alpha=0.3),
    "add of a whole multiple": lambda x, y, z: x.add_(y, alpha=2),
    "sub of a multiple": lambda x, y, z: x.sub_(y, alpha=-1.7),
    "sub": lambda x, y, z: x.sub_(y),
    "mul": lambda x, y, z: x.mul_(y),
    "div": lambda x, y, z: x.div_(z),
    "+=": lambda x, y, z: x.__iadd__(y),
    "lerp": lambda x, y, z: x.lerp_(y, 0.3),
    "lerp by a tensor": lambda x, y, z: x.lerp_(y, z),
    "addcmul": lambda x, y, z: x.addcmul_(y, z, value=0.7),
    "addcdiv": lambda x, y, z: x.addcdiv_(y, z, value=-0.7),
    "atan2": lambda x, y, z: x.atan2_(z),
    "copysign": lambda x, y, z: x.copysign_(y),
    "clamp": lambda x, y, z: x.clamp_(y, z),
    "pow": lambda x, y, z: x.pow_(z),
    "hypot": lambda x, y, z: x.hypot_(y),
}
SHAPES = [((), ()), ((5,), (5,)), ((4, 33), (33,)), ((4, 33), (4, 1)), ((4, 33), ()), ((3, 1, 17), (2, 1)), ((2, 3, 70), (3, 1)),
          ((300, 40), (40,)), ((0, 3), (3,)), ((3,), (4, 3)), ((3,), (2,)), ((), (1,)), ((3,), (1, 3))]  # fmt: skip
LAYOUTS: dict[str, Any] = {
    "contiguous": lambda a: a,
    "columns": lambda a: a.transpose(0, -1),
    "gaps": lambda a: a[..., ::2],
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
@pytest.mark.parametrize("name", OF_OTHERS)
def test_results_and_errors_of_operands_of_any_shape_are_pytorchs(name: str, dtype: str):
    torch = require_torch()
    rng = np.random.default_rng(0)

    def result(lib: Any, layout: Any, arrays: list) -> Any:
        x, y, z = (lib.from_numpy(a.copy()) for a in arrays)
        x = layout(x) if x.ndim else x
        version, place = x._version, x.data_ptr()
        try:
            for _ in range(2):
                returned = OF_OTHERS[name](x, y, z)
        except RuntimeError:
            return None
        assert returned is x and x.data_ptr() == place
        return x.numpy(), x._version - version, tuple(x.stride())

    for ours, others in SHAPES:
        for kind, layout in LAYOUTS.items():
            target = (
                (*ours[:-1], 2 * ours[-1]) if kind == "gaps" and ours else ours[::-1] if kind == "columns" else ours
            )
            if kind == "columns" and len(ours) == 3:
                target = ours[2], ours[1], ours[0]
            arrays = [rng.uniform(-3, 3, target), rng.uniform(-3, 3, others), rng.uniform(1, 3, others)]
            arrays = [a.astype(dtype) for a in arrays]
            found, expected = result(tdt, layout, arrays), result(torch, layout, arrays)
            assert (found is None) == (expected is None), (ours, others, kind)
            if expected is None:
                continue
            tolerance = {"float64": 1e-12, "float16": 2e-3}.get(dtype, 2e-6)
            np.testing.assert_allclose(found[0], expected[0], rtol=tolerance, atol=tolerance)
            assert found[1] == expected[1]
            assert found[2] == expected[2] or not found[0].size


@pytest.mark.parametrize("name", [name for name in OF_OTHERS if name not in ("pow", "lerp by a tensor")])
def test_an_operand_that_shares_memory_is_refused_or_read_as_pytorchs_is(name: str):
    torch = require_torch()

    for share in (lambda x: x, lambda x: x.detach(), lambda x: x[0], lambda x: x[:1]):
        found: list = []
        for lib in (tdt, torch):
            x = lib.arange(1.0, 37.0).reshape(6, 6)
            try:
                found.append(OF_OTHERS[name](x, share(x), lib.full((6,), 2.0)).numpy())
            except RuntimeError:
                found.append(None)
        ours, theirs = found
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            np.testing.assert_allclose(ours, theirs, rtol=2e-6)
    two, x = tdt.full((6,), 2.0), tdt.arange(1.0, 37.0).reshape(6, 6)
    expected = OF_OTHERS[name](x.clone(), x[:, :1].clone(), two)  # PyTorch would read what it has written
    assert tdt.equal(OF_OTHERS[name](x, x[:, :1], two), expected)


@pytest.mark.parametrize("name", OF_OTHERS)
def test_gradients_through_in_place_forms_are_pytorchs(name: str):
    torch = require_torch()
    rng = np.random.default_rng(1)
    arrays = [rng.uniform(1, 2, shape) for shape in ((3, 5), (5,), (3, 1))]

    def gradients(lib: Any) -> list:
        x, y, z = (lib.from_numpy(a.copy()).requires_grad_() for a in arrays)
        w = x * 1.5
        OF_OTHERS[name](w, y, z)
        OF_OTHERS[name](w[1], y, z[0])
        try:
            (w * w).sum().backward()
        except RuntimeError:  # a saved result has changed
            return [None] * 3
        return [t.grad if t.grad is None else t.grad.numpy() for t in (x, y, z)]

    for ours, theirs in zip(gradients(tdt), gradients(torch), strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int64"])
def test_elements_under_a_mask_are_filled_as_pytorchs(dtype: str):
    torch = require_torch()
    rng = np.random.default_rng(0)
    values, masks = (
        rng.uniform(-3, 3, (6, 40)),
        [rng.random(shape) > 0.5 for shape in ((6, 40), (40,), (6, 1), (), (3,))],
    )

    def results(lib: Any) -> list:
        found: list = []
        for mask in masks:
            for layout in (lambda x: x, lambda x: x.t().contiguous().t(), lambda x: x[:, :40]):
                for value in (2, 0.5, -float("inf"), lib.tensor(1.0), 1e300):
                    x = layout(lib.from_numpy(values.copy()).to(getattr(lib, dtype)))
                    try:
                        assert x.masked_fill_(lib.from_numpy(np.array(mask)), value) is x
                        found.append((x.double().numpy(), x._version))
                    except RuntimeError:
                        found.append(None)
        return found

    for ours, theirs in zip(results(tdt), results(torch), strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            np.testing.assert_array_equal(ours[0], theirs[0])
            assert ours[1] == theirs[1]


FACTORS: dict[str, Any] = {
    "2": lambda lib: 2, "0": lambda lib: 0, "-1": lambda lib: -1, "1.0": lambda lib: 1.0, "0.5": lambda lib: 0.5,
    "True": lambda lib: True, "a tensor": lambda lib: lib.tensor(2), "NumPy's": lambda lib: np.float32(0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", ["add", "sub", "add_", "sub_", "rsub"])
@pytest.mark.parametrize("factor", FACTORS)
def test_factors_of_any_type_give_pytorchs_results_and_errors(name: str, factor: str):
    torch = require_torch()

    def result(lib: Any, first: str, second: str) -> Any:
        x = lib.tensor([1, 0, 1], dtype=getattr(lib, first))
        y = lib.tensor([1, 1, 0], dtype=getattr(lib, second))
        try:
            out = getattr(x if name.endswith("_") else lib, name)(
                *([] if name.endswith("_") else [x]), y, alpha=FACTORS[factor](lib)
            )
        except RuntimeError:
            return None
        return str(out.dtype).removeprefix(f"{lib.__name__}."), out.tolist()

    dtypes = ("bool", "uint8", "int64", "float16", "float32", "complex64")
    for first in dtypes:
        for second in dtypes:
            assert result(tdt, first, second) == result(torch, first, second), (first, second)


@pytest.mark.parametrize("factor", [0.5, 2])
def test_sparse_tensors_are_added_with_a_factor(factor: float):
    torch = require_torch()

    def results(lib: Any) -> list:
        x, y = lib.tensor([[1.0, 0.0], [0.0, 3.0]]), lib.tensor([[0.0, 2.0], [0.0, 5.0]]).to_sparse()
        both = [
            lib.add(x, y, alpha=factor),
            lib.sub(x.to_sparse(), y, alpha=factor),
            x.to_sparse().add_(y, alpha=factor),
        ]
        return [(each.is_sparse, each.to_dense().tolist()) for each in [*both, x.sub_(y, alpha=factor)]]

    assert results(tdt) == results(torch)


def test_an_operand_keeps_its_shape_as_the_result_of_its_op():
    torch = require_torch()
    for lib in (tdt, torch):
        for function in (lib.add, lib.maximum, lambda x, y, out, lib=lib: lib.add(x, y, alpha=0.5, out=out)):
            x = lib.ones(3)
            with pytest.raises(RuntimeError, match="output with shape"):
                function(x, lib.ones(2, 3), out=x)
            assert x.tolist() == [1, 1, 1]


def test_tensors_without_values_are_not_stored_in_others():
    x, y = tdt.ones(3), tdt.ones(3, device="meta")
    for write in (x.add_, x.mul_, lambda y: x.lerp_(y, 0.5), lambda y: x.masked_fill_(y > 0, 2.0)):
        with pytest.raises(RuntimeError, match="Tensor on device meta is not on the expected device cpu"):
            write(y)
    assert x.tolist() == [1, 1, 1] and x._version == 0
