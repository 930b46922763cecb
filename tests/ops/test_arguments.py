"""Arguments of the wrong kind are refused as PyTorch refuses them, by name; einsum takes numbers for letters."""

import functools
import re

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()

from tests.parity.attempts import attempt  # noqa: E402
from tests.parity.compare import difference, error_difference, first_clause  # noqa: E402

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


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_factors_of_a_product_in_place_are_tensors(dtype):
    for lib in (tdt, torch):
        x = lib.ones(3, dtype=getattr(lib, dtype))
        with pytest.raises(TypeError, match=r"addcmul_\(\): argument 'tensor1' \(position 1\) must be Tensor, not int"):
            x.addcmul_(2, x)


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


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, x: lib.heaviside(x, values=x),
        lambda lib, x: x.heaviside(values=x),
        lambda lib, x: lib.heaviside(x, 2.0),
        lambda lib, x: x.heaviside_(2.0),
    ],
    ids=["function", "method", "a number", "a number in place"],
)
def test_heaviside_names_its_second_operand_values(call):
    (a, ours), (b, theirs) = (attempt(call, lib, lib.tensor([-1.0, 0.0])) for lib in (tdt, torch))
    assert error_difference(ours, theirs) is None and str(ours) == str(theirs)
    assert theirs or difference(a, b) is None


NUMPY_NAMES = {
    "sum": lambda t, x: t.sum(x, axis=1, keepdims=True),
    "mean of a": lambda t, x: t.mean(a=x, axis=(0, 1)),
    "max": lambda t, x: tuple(t.max(x, axis=1)),
    "argmax": lambda t, x: x.argmax(axis=-1, keepdims=True),
    "std": lambda t, x: x.std(axis=1, correction=0),
    "softmax": lambda t, x: t.softmax(x, axis=0),
    "sort": lambda t, x: tuple(x.sort(axis=0, descending=True)),
    "cumsum_": lambda t, x: x.cumsum_(axis=1),
    "cat": lambda t, x: t.cat([x, x], axis=1),
    "stack": lambda t, x: t.stack([x, x], axis=-1),
    "unsqueeze": lambda t, x: x.unsqueeze(axis=1),
    "transpose": lambda t, x: t.swapaxes(x, axis0=0, axis1=1),
    "swapaxes": lambda t, x: x.swapaxes(axis0=0, axis1=1),
    "gather": lambda t, x: x.gather(axis=1, index=t.tensor([[1], [0]])),
    "outer": lambda t, x: t.inner(x1=x, x2=x),
    "both names": lambda t, x: x.sum(dim=0, axis=1),
    "out of range": lambda t, x: x.sum(axis=2),
}


@pytest.mark.parametrize("call", NUMPY_NAMES.values(), ids=NUMPY_NAMES)
def test_numpys_names_of_arguments_are_accepted_where_pytorch_accepts_them(call):
    (a, ours), (b, theirs) = (
        attempt(call, lib, lib.tensor([[1.0, 3.0, 2.0], [6.0, 4.0, 5.0]])) for lib in (tdt, torch)
    )
    assert error_difference(ours, theirs) is None
    assert theirs or difference(a, b) is None


WRONG_KINDS = {
    "no tensor": lambda t, x: t.outer(x, 5),
    "no first tensor": lambda t, x: t.gather(None, 0, x),
    "a tensor for a dimension": lambda t, x: t.topk(x, 1, t.ones(2, 2)),
    "a word for a dimension": lambda t, x: t.cummax(x, "a"),
    "a number for a switch": lambda t, x: t.kthvalue(x, 99, keepdim=1),
    "no tensors": lambda t, x: t.stack([x, 1.5]),
    "tensors one by one": lambda t, x: t.block_diag(x, 5),
    "a fraction among dimensions": lambda t, x: t.amax(x, (0, 1.5)),
    "a size": lambda t, x: t.eye(t.ones(7)),
    "a bias": lambda t, x: t.nn.functional.conv1d(t.ones(1, 1, 3), t.ones(1, 1, 2), 5),
    "no matrix": lambda t, x: t.linalg.solve(5, x),
    "out": lambda t, x: t.logcumsumexp(x, 0, out=5),
    "a condition": lambda t, x: x.where([True], x),
    "a bool for a dimension": lambda t, x: x.cumsum(True),
    "a bool for all dimensions": lambda t, x: x.sum(False),
    "a bool among dimensions": lambda t, x: x.amax((False,)),
    "a bool for a count": lambda t, x: x.topk(True),
    "a bool for a place": lambda t, x: x.select(0, True),
    "a bool for a diagonal": lambda t, x: x.diag(False),
    "a bool for an index": lambda t, x: t.nn.functional.cross_entropy(x, t.tensor(0), ignore_index=True),
    "a bool for a size": lambda t, x: t.ones(True),
    "a bool among sizes": lambda t, x: x.reshape([True, 2]),
    "a bool for parts": lambda t, x: x.chunk(True),
    "a bool for a length": lambda t, x: x.narrow(0, 0, True),
    "a bool for an output's size": lambda t, x: t.nn.functional.adaptive_avg_pool2d(x[None, None], True),
}


@pytest.mark.parametrize("call", WRONG_KINDS.values(), ids=WRONG_KINDS)
def test_an_argument_of_the_wrong_kind_is_a_type_error(call):
    (_, ours), (_, theirs) = (attempt(call, lib, lib.tensor([1.0, 2.0])) for lib in (tdt, torch))
    assert type(ours) is type(theirs) is TypeError
    assert "must be" in str(ours)


def test_an_error_that_no_argument_explains_is_reported_unchanged():
    with pytest.raises(RuntimeError, match="The size of tensor a .3. must match"):
        tdt.where(tdt.tensor([True, False, True]), tdt.ones(3), tdt.ones(2))
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        tdt.sum(tdt.ones(2), nonsense=1)


MIXED = {
    "addr promotes": lambda t, k: t.addr(t.ones(2, 2, dtype=t.int32), t.ones(2, dtype=t.float16), t.ones(2, dtype=k)),
    "addr_ does not take what does not fit": lambda t, k: t.ones(2, 2, dtype=t.int32).addr_(t.ones(2), t.ones(2)),
    "addr of bools": lambda t, k: t.addr(*(t.ones(n, dtype=t.bool) for n in ((2, 2), 2, 2))),
    "lerp by a number in a tensor": lambda t, k: t.lerp(
        t.tensor([0.0, 2.0]), t.tensor([1.0, 5.0]), t.tensor(0.25, dtype=k)
    ),
    "lerp of integers": lambda t, k: t.lerp(t.tensor([1, 2]), t.tensor([2, 4]), t.tensor(0.5)),
    "lerp by a vector": lambda t, k: t.lerp(t.zeros(2), t.ones(2), t.tensor([0.5, 0.5], dtype=t.float64)),
    "lerp_": lambda t, k: t.zeros(2).lerp_(t.ones(2), t.tensor(0.5, dtype=k)),
    "addmm by a complex number": lambda t, k: t.addmm(*[t.ones(2, 2)] * 3, alpha=1j),
    "addmv of integers by a fraction": lambda t, k: t.addmv(
        *(t.full(n, 3) for n in ((2,), (2, 2), (2,))), alpha=1.9, beta=0.5
    ),
    "baddbmm forgets nan": lambda t, k: t.baddbmm(t.full((1, 1, 1), float("nan")), *[t.ones(1, 1, 1)] * 2, beta=0),
    "mm of a vector": lambda t, k: t.mm(t.ones(2, 2), t.ones(2)),
    "mv of a vector": lambda t, k: t.mv(t.ones(2), t.ones(2)),
    "mm out": lambda t, k: t.mm(*[t.ones(2, 2)] * 2, out=t.zeros(0, dtype=t.int64)),
}


@pytest.mark.parametrize("kind", ["float64", "float32", "uint8"])
@pytest.mark.parametrize("call", MIXED.values(), ids=MIXED)
def test_products_of_several_dtypes(call, kind):
    (a, ours), (b, theirs) = (attempt(call, lib, getattr(lib, kind)) for lib in (tdt, torch))
    assert error_difference(ours, theirs) is None
    if theirs is None:
        assert difference(a, b) is None
    else:
        assert first_clause(ours) == first_clause(theirs)


X = "t.arange(1.0, 13).reshape(3, 4)"
WITH_A_NUMBER = f"""
t.add({X}, {X}, alpha=n(2))
{X}.sub({X}, alpha=n(0.5))
{X}.add_({X}, alpha=n(2))
{X}.long().add_({X}.long(), alpha=n(2))
t.rsub({X}, {X}, alpha=n(2))
t.addcmul({X}, {X}, {X}, value=n(0.5))
{X}.addcmul_({X}, {X}, value=n(2))
{X}.addcdiv_({X}, {X}, value=n(0.5))
t.addmm({X}, t.ones(3, 3), {X}, beta=n(2), alpha=n(0.5))
t.baddbmm(t.ones(1, 2, 2), t.ones(1, 2, 3), t.ones(1, 3, 2), alpha=n(2))
t.ones(2).addmv_(t.ones(2, 3), t.ones(3), alpha=n(0.5))
{X}.index_add(0, t.tensor([0, 1]), t.ones(2, 4), alpha=n(2))
t.lerp({X}, {X} + 1, n(0.25))
{X}.fill_(n(2))
{X}.clamp(n(2), n(5))
{X}.clamp_(min=n(2.5))
t.clamp_max({X}, n(3))
t.nn.functional.threshold({X}, n(2), n(0.5))
t.nn.functional.hardtanh({X}, n(0.5), n(3))
t.nn.functional.softplus({X}, n(2), n(20))
t.nn.functional.leaky_relu(-{X}, n(0.5))
t.nn.functional.elu(-{X}, n(0.5))
t.nn.functional.dropout({X}, n(0.0))
t.nn.functional.avg_pool1d({X}, n(2), n(1))
t.nn.functional.max_pool1d({X}, n(2), stride=n(2))
t.nn.functional.embedding(t.tensor([0, 2]), {X}, max_norm=n(2.0))
t.nn.functional.nll_loss(-{X}, t.tensor([0, 1, 3]), ignore_index=n(1))
t.full((2,), n(2))
t.arange(n(1), n(6), n(2))
t.linspace(n(0), n(1), n(3))
t.logspace(n(0), n(2), n(3), n(2))
t.allclose({X}, {X} + 1e-3, rtol=n(0.5), atol=n(1))
t.isclose({X}, {X} + 1, rtol=n(0.5), atol=n(0.0))
{X}.sum(n(1))
{X}.mean(dim=n(0), keepdim=True)
{X}.prod(n(-1))
{X}.max(n(1), True)
{X}.std(n(0), correction=n(1))
{X}.softmax(n(1))
{X}.norm(n(2), n(1))
t.linalg.vector_norm({X}, n(3))
{X}.roll(n(1), n(0))
{X}.unsqueeze(n(1)).squeeze(n(1))
{X}.transpose(n(0), n(1))
{X}.narrow(n(0), n(1), n(2))
{X}.topk(n(2))
{X}.round(decimals=n(1))
t.fft.rfft2({X}).abs()
t.histc({X}, n(3), n(0), n(12))
t.gradient({X}, spacing=n(2.0))
t.logit({X} / 13, n(0.25))
""".strip().splitlines()


@pytest.mark.parametrize("code", WITH_A_NUMBER)
def test_a_tensor_without_dimensions_stands_for_a_number(code):
    ours, theirs = (eval(code, {"t": lib, "n": lib.tensor}) for lib in (tdt, torch))
    assert difference(ours, theirs) is None
    assert difference(eval(code, {"t": tdt, "n": lambda value: value}), theirs) is None


SUBCLASSES = {
    "Buffer": lambda t, value: t.nn.Buffer(t.tensor(value)),
    "Parameter": lambda t, value: t.nn.Parameter(t.tensor(value), requires_grad=False),
    "Parameter with a gradient": lambda t, value: t.nn.Parameter(t.tensor(float(value))),
}


@pytest.mark.parametrize("kind", SUBCLASSES)
@pytest.mark.parametrize(
    "code", [code for code in WITH_A_NUMBER if re.search("alpha|value=|functional.*elu|threshold", code)]
)
def test_an_instance_of_a_tensors_subclass_does_so_too(code, kind):
    def run(lib):
        return eval(code, {"t": lib, "n": functools.partial(SUBCLASSES[kind], lib)})

    (a, ours), (b, theirs) = (attempt(run, lib) for lib in (tdt, torch))
    assert error_difference(ours, theirs) is None
    assert difference(a, b) is None


@pytest.mark.parametrize("alpha", ["ones(1)", "tensor(2.0, requires_grad=True)"])
def test_an_alpha_that_has_dimensions_or_requires_a_gradient_is_refused(alpha):
    for lib in (tdt, torch):
        with pytest.raises(TypeError, match="add.*alpha"):
            lib.add(lib.ones(2), lib.ones(2), alpha=eval(f"t.{alpha}", {"t": lib}))


WITH_NUMPYS_NUMBER = [
    "t.arange(np.int64(3))", "t.arange(0, np.float32(2), np.uint8(1))", "x.all(np.int64(1))", "t.any(x, dim=np.int32(0))",
    "x.roll(1, np.int64(0))", "x.tensor_split(np.int64(2))[0]", "t.hsplit(x, np.int64(2))[1]", "x[np.array(1)]",
    "x if x.__setitem__(1, np.uint8(7)) is None else 0", "t.where(x > 1, np.float32(0.5), 2)",
    "t.where(x > 1, np.int64(3), x)", "t.searchsorted(x[0], np.float64(1.5))", "t.bucketize(np.int64(2), x[0])",
    "t.isin(x, np.int32(2))", "t.nn.functional.max_pool1d(x, 2, np.int64(1))", "t.nn.LayerNorm(np.int64(4))(x)",
    "t.autograd.grad(x.requires_grad_().var(0, correction=np.int64(0)).sum(), x)[0]",
]  # fmt: skip


@pytest.mark.parametrize("code", WITH_NUMPYS_NUMBER)
def test_a_number_of_numpy_stands_for_one_of_python(code):
    a, b = (eval(code, {"t": lib, "np": np, "x": lib.arange(12.0).reshape(3, 4)}) for lib in (tdt, torch))
    assert difference(a, b) is None


def test_a_complex_number_is_no_value_of_cells_around_a_tensor():
    for lib in (tdt, torch):
        with pytest.raises(TypeError, match="float"):
            lib.nn.functional.pad(lib.ones(2), (1, 1), value=1j)
