"""Arguments of the wrong kind are refused as PyTorch refuses them, by name; einsum takes numbers for letters."""

import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()

from tests.parity.compare import difference, error_difference, first_clause  # noqa: E402
from tests.parity.opdb import attempt  # noqa: E402

OF_A_TENSOR = """
    sum mean prod amax amin argmax argmin sort argsort mode median flatten squeeze t unbind tril triu diag nonzero trace
    bincount histc""".split()
OF_ANOTHER = "mm bmm mv dot matmul kron masked_select take".split()


@pytest.mark.parametrize("name", OF_A_TENSOR)
@pytest.mark.parametrize("value", ["a", None, 1.0, [1.0, 2.0]], ids=str)
def test_what_is_no_tensor_is_named(name, value):
    (_, ours), (_, theirs) = (attempt(getattr(lib, name), value) for lib in (tdt, torch))
    assert error_difference(ours, theirs) is None
    if "invalid combination" not in f"{ours} {theirs}":
        assert first_clause(ours) == first_clause(theirs)


@pytest.mark.parametrize("name", OF_ANOTHER)
@pytest.mark.parametrize("value", ["a", None, 1.5], ids=str)
def test_a_second_operand_that_is_no_tensor_is_named(name, value):
    (_, ours), (_, theirs) = (attempt(getattr(lib, name), lib.ones(2, 2), value) for lib in (tdt, torch))
    assert error_difference(ours, theirs) is None
    assert str(ours) == str(theirs)


EINSUMS = {
    "an output": lambda t, x, y: t.einsum(x, [0, 1], y, [1, 2], [0, 2]),
    "no output": lambda t, x, y: t.einsum(x, [30, 1], y, [1, 2]),
    "an ellipsis": lambda t, x, y: t.einsum(x, [..., 1], y, [1, 2], [2, ...]),
    "one operand": lambda t, x, y: t.einsum(x, [0, 1], [1]),
    "a list of operands": lambda t, x, y: t.einsum("ij,jk", [x, y]),
    "a number too large": lambda t, x, y: t.einsum(x, [0, 52], [0]),
    "no operands": lambda t, x, y: t.einsum("ij"),
    "nothing": lambda t, x, y: t.einsum(),
}


@pytest.mark.parametrize("call", EINSUMS.values(), ids=EINSUMS)
def test_einsum_takes_numbers_for_letters(call):
    (a, ours), (b, theirs) = (
        attempt(call, lib, lib.arange(6.0).reshape(2, 3), lib.arange(12.0).reshape(3, 4)) for lib in (tdt, torch)
    )
    assert error_difference(ours, theirs) is None
    assert theirs or difference(a, b) is None


BY_NAME = {
    "mm": lambda t, m, v, b: t.mm(input=m, mat2=m),
    "bmm": lambda t, m, v, b: t.bmm(b, mat2=b),
    "mv": lambda t, m, v, b: t.mv(m, vec=v),
    "dot": lambda t, m, v, b: t.dot(v, tensor=v),
    "addmm": lambda t, m, v, b: t.addmm(input=m, mat1=m, mat2=m, beta=2),
    "addmv": lambda t, m, v, b: t.addmv(v, mat=m, vec=v),
    "addr": lambda t, m, v, b: t.addr(m, v, vec2=v),
    "addbmm": lambda t, m, v, b: t.addbmm(m, batch1=b, batch2=b),
    "baddbmm": lambda t, m, v, b: b.baddbmm(batch1=b, batch2=b, alpha=3),
    "addmm_": lambda t, m, v, b: m.clone().addmm_(mat1=m, mat2=m),
}


@pytest.mark.parametrize("call", BY_NAME.values(), ids=BY_NAME)
def test_products_take_pytorchs_names(call):
    results = []
    for lib in (tdt, torch):
        m = lib.arange(4.0).reshape(2, 2)
        results.append(call(lib, m, lib.arange(2.0), lib.stack([m, m])))
    assert difference(*results) is None
