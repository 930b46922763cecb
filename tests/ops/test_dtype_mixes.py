"""Binary ops on every mix of dtypes, ranks and Python numbers: PyTorch's result type, values and refusals."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
          "complex128")  # fmt: skip
NUMBERS = (2, -1, 0, 300, 70000, True, 1.5, -2.5, 0.0, 1 + 2j)
# PyTorch has a complex32, which tdt lacks; where half precision meets other types, it rounds more often than once.
HALF = ("float16", "bfloat16")
OPS = ["__floordiv__", "__mod__", "__rfloordiv__", "__rmod__", "__rpow__", "__rsub__", "add", "add_", "bitwise_and",
       "bitwise_and_", "bitwise_left_shift", "bitwise_right_shift", "clamp_max", "clamp_min", "copysign", "div", "div_",
       "eq", "eq_", "float_power", "floor_divide", "fmod", "ge", "gt", "ldexp", "le", "logical_and_", "lt", "lt_", "mul",
       "ne", "pow", "pow_", "remainder", "sub", "xlogy", "xlogy_"]  # fmt: skip


def outcome(lib: Any, op: str, dtype: str, other: Any) -> Any:
    """The result's type and values, or the class of the error."""
    x = lib.tensor([1, 0, 1, 1] if dtype == "bool" else [3, 255, 5, 2] if dtype == "uint8" else [3, -4, 5, 2],
                   dtype=getattr(lib, dtype))  # fmt: skip
    if isinstance(other, tuple):
        other = lib.tensor(other[0], dtype=getattr(lib, other[1]))
    try:
        result = getattr(x, op)(other)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        return TypeError if isinstance(error, TypeError) else RuntimeError
    promoted = result.to(
        lib.complex128 if result.is_complex() else lib.float64 if result.is_floating_point() else result.dtype
    )
    return str(result.dtype).partition(".")[2], promoted.numpy()


def differs(ours: Any, theirs: Any) -> bool:
    if not isinstance(ours, tuple) or not isinstance(theirs, tuple):
        return ours is not theirs
    rtol = 1e-5 if ours[0] not in HALF else 1e-2
    return ours[0] != theirs[0] or not np.allclose(ours[1], theirs[1], rtol=rtol, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("op", OPS)
def test_every_mix_of_types_has_pytorchs_type_and_values(op: str):
    torch = require_torch()
    vectors, scalars = [([0, 1, 2, 7], d) for d in DTYPES], [(3, d) for d in DTYPES]
    wrong = []
    for dtype, other in itertools.product(DTYPES, [*NUMBERS, *vectors, *scalars]):
        kinds = (dtype, other[1] if isinstance(other, tuple) else type(other).__name__)
        half = any(kind in HALF for kind in kinds)
        if half and (any(kind.startswith("complex") for kind in kinds) or other == 70000):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours, theirs = outcome(tdt, op, dtype, other), outcome(torch, op, dtype, other)
        if differs(ours, theirs):
            wrong.append((dtype, other, ours, theirs))
    assert not wrong, f"{len(wrong)} differ, such as {wrong[:3]}"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "shapes"), [("addmm", [(5, 7), (5, 33), (33, 7)]), ("baddbmm", [(2, 5, 7), (2, 5, 33), (2, 33, 7)])]
)
def test_half_precision_sums_of_products_are_rounded_once(name: str, shapes: list[tuple[int, ...]], dtype: str):
    inputs = [
        tdt.from_numpy(np.random.RandomState(i).randn(*shape)).to(getattr(tdt, dtype)) for i, shape in enumerate(shapes)
    ]
    function, half = getattr(tdt, name), getattr(tdt, dtype)
    for beta, alpha in ((1, 1), (0.5, 2.25)):
        exact = function(*[t.double() for t in inputs], beta=beta, alpha=alpha)
        assert tdt.equal(function(*inputs, beta=beta, alpha=alpha), exact.float().to(half))


def test_operators_of_python_2_and_reversed_are_there():
    x = tdt.tensor([[1.0, 2.0], [4.0, 8.0]])
    assert tdt.equal(x.__div__(2), x / 2) and tdt.equal(x.__rdiv__(2), 2 / x)
    assert tdt.equal(x.clone().__idiv__(2), x / 2)
    assert tdt.equal(reversed(x), x.flip(0)) and reversed(tdt.tensor(3.0)).item() == 3
    assert x[0, 0].__nonzero__() is True and x[1, 1].__long__() == 8


@pytest.mark.parametrize("dtype", [*HALF, "float32"])
@pytest.mark.parametrize("op", ["add", "mul", "maximum", "xlogy"])
def test_shapes_that_do_not_fit_are_refused_with_the_same_message_in_every_dtype(op: str, dtype: str):
    x, y = tdt.ones(3, 3, dtype=getattr(tdt, dtype)), tdt.ones(3, 2, dtype=getattr(tdt, dtype))
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match the size of tensor b \(2\)"):
        getattr(tdt, op)(x, y)


SCALED = {
    "mul": lambda x, y: x * y, "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "div": lambda x, y: x / y,
    "mul_": lambda x, y: x.clone().mul_(y), "add_": lambda x, y: x.clone().add_(y),
    "sub_": lambda x, y: x.clone().sub_(y), "div_": lambda x, y: x.clone().div_(y),
}  # fmt: skip
FLOATS = "float16", "bfloat16", "float32", "float64"


def bits_with_scalar(lib: Any, op: str, dtypes: tuple[str, str], scalar: int, number: float, graph: bool) -> list[Any]:
    """The types and bits of a result and of its gradients, of 65 elements and a 0-d tensor, the `scalar`-th operand."""
    values = np.random.RandomState(0).randn(65) * 3
    operands = [
        lib.tensor(number if k == scalar else values.tolist(), dtype=lib.float64).to(getattr(lib, dtype))
        for k, dtype in enumerate(dtypes)
    ]
    for t in operands:
        t.requires_grad_(t.dtype.is_floating_point)
    result = SCALED[op](*operands)
    weight = lib.tensor(values[::-1].tolist(), dtype=lib.float64).to(result.dtype).requires_grad_(graph)
    inputs = [t for t in operands if t.requires_grad]
    grads = lib.autograd.grad(result, inputs, weight, create_graph=graph)
    return [(str(t.dtype).partition(".")[2], t.detach().double().numpy().tobytes()) for t in (result, *grads)]


@pytest.mark.parametrize("op", SCALED)
def test_a_0d_tensor_has_pytorchs_bits_beside_half_precision(op: str):
    torch = require_torch()
    for low, other, scalar in itertools.product(HALF, (*FLOATS, "int64"), (0, 1)):
        if scalar == 0 and op.endswith("_"):
            continue
        dtypes = (low, other) if scalar else (other, low)
        for number, graph in itertools.product((1 / 3, 0.1, 2049.3, -7.77), (False, True)):
            if other == "int64" and abs(number) < 1:
                continue
            ours, theirs = (bits_with_scalar(lib, op, dtypes, scalar, number, graph) for lib in (tdt, torch))
            assert ours == theirs, (dtypes, scalar, number, graph)


@pytest.mark.parametrize("op", ["mul", "div"])
@pytest.mark.parametrize(("low", "other"), list(itertools.product(HALF, FLOATS)))
def test_a_number_and_a_0d_tensor_have_the_same_bits_beside_half_precision(op: str, low: str, other: str):
    x, y = tdt.linspace(-3, 3, 65).to(getattr(tdt, low)), tdt.tensor(1 / 3, dtype=tdt.float64).to(getattr(tdt, other))
    found = SCALED[op](x, y)
    compiled = tdt.compile(SCALED[op])
    assert tdt.equal(found, SCALED[op](x, y.item() if other == low else y.float().item()))
    assert all(tdt.equal(compiled(x, y), found) for _ in range(4))


def test_the_gradient_of_a_wider_number_that_is_added_in_place_has_its_type():
    x, y = tdt.ones((), dtype=tdt.float16, requires_grad=True), tdt.ones((), dtype=tdt.float64, requires_grad=True)
    x.clone().add_(y).backward()
    assert (x.grad.dtype, y.grad.dtype) == (tdt.float16, tdt.float64)


@pytest.mark.parametrize("low", HALF)
def test_the_gradient_of_a_mantissa_is_of_half_precision(low: str):
    x = tdt.tensor([1.0, 3.0], dtype=getattr(tdt, low), requires_grad=True)
    tdt.frexp(x)[0].sum().backward()
    assert x.grad.dtype is x.dtype and x.grad.tolist() == [0.5, 0.25]


def test_numbers_and_parts_of_tensors_with_integers_are_pytorchs():
    def call(lib):
        whole, x = lib.tensor([3, 1, 4]), lib.tensor([[1.5, -2.0, 3.0], [4.0, 5.0, 6.0]])
        leaf = x.clone().requires_grad_()
        part = leaf[0] / whole
        part.sum().backward()
        return [
            2.0 / whole,
            2 / whole,
            2.5 - whole,
            x[1] / whole,
            whole * x[0],
            whole[1:] + x[0, 1:],
            part.detach(),
            leaf.grad,
        ]

    for _ in range(5):
        for ours, theirs in zip(call(tdt), call(require_torch()), strict=True):
            assert str(ours.dtype).partition(".")[2] == str(theirs.dtype).partition(".")[2]
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


ABOVE_A_TIE = (
    1 + 2.0**-11 + 2.0**-40
)  # 1 in float16 by way of float32, as in PyTorch, but nearer to the number after it


def _stored_as_float16(lib: Any, n: int) -> list[Any]:
    wide = lib.full((n,), ABOVE_A_TIE, dtype=lib.float64)
    filled, parts, rows = (lib.zeros(*shape, dtype=lib.float16) for shape in ((n,), (n,), (2, n)))
    filled.copy_(wide)
    parts[2:4] = wide[2:4]
    rows[0] = wide
    out = lib.add(wide, 0 * wide, out=lib.zeros(n, dtype=lib.float16))
    return [
        wide.half(), wide[0].half(), lib.tensor([ABOVE_A_TIE] * n, dtype=lib.float16), filled, parts, rows, out,
        lib.tensor(np.full(n, ABOVE_A_TIE), dtype=lib.float16), lib.zeros(n, dtype=lib.float16).fill_(ABOVE_A_TIE),
        lib.full((n,), ABOVE_A_TIE, dtype=lib.float16), lib.zeros(n, dtype=lib.float16).add_(wide),
        lib.tensor([1e300, float("nan"), -7e4, 1e-300], dtype=lib.float64).half(),
    ]  # fmt: skip


@pytest.mark.parametrize("n", [5, 40_000])
def test_float64_is_rounded_to_float32_before_float16(n):
    torch = require_torch()
    for found, expected in zip(_stored_as_float16(tdt, n), _stored_as_float16(torch, n), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn"])
def test_a_number_of_numpys_becomes_a_tensor_without_dimensions(dtype):
    assert tdt.tensor(np.float64(1.5), dtype=getattr(tdt, dtype)).shape == ()
