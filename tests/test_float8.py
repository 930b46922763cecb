"""Floating-point numbers of eight bits: stored, moved, converted with PyTorch's rounding, and refused by arithmetic."""

from __future__ import annotations

import io

import numpy as np
import pytest

import tdt
from tdt._core import dtype as _dtype
from tests.helpers import repr_or_error, require_torch

KINDS = [kind.name for kind in _dtype.FLOAT8]
# Every exponent with the mantissas next to each place where rounding turns, and numbers across all bit patterns.
HALVES = np.arange(1 << 16, dtype=np.uint32) << 16
BITS = np.concatenate(
    [np.arange(0, 1 << 32, 65_537, dtype=np.uint64).astype(np.uint32), HALVES, HALVES | 1, HALVES | 0x8000]
)
CODES = np.arange(256, dtype=np.uint8)


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


def coded(lib, values, kind):
    return lib.from_numpy(values).to(getattr(lib, kind)).view(lib.uint8).numpy()


def test_numbers_are_rounded_to_pytorchs_codes(kind):
    torch = require_torch()
    numbers = BITS.view(np.float32)
    np.testing.assert_array_equal(coded(tdt, numbers, kind), coded(torch, numbers, kind))
    rng = np.random.default_rng(0)
    doubles = rng.standard_normal(20_000) * 10.0 ** rng.integers(-10, 10, 20_000)
    for values in (
        doubles,
        doubles.astype(np.float16),
        rng.integers(-999, 999, 999),
        np.array([True, False]),
        doubles + 1j,
    ):
        np.testing.assert_array_equal(coded(tdt, values, kind), coded(torch, values, kind))
    halves = [
        lib.from_numpy(doubles).to(lib.bfloat16).to(getattr(lib, kind)).view(lib.uint8).numpy() for lib in (tdt, torch)
    ]
    np.testing.assert_array_equal(*halves)


@pytest.mark.parametrize(
    "to", ["float32", "float64", "float16", "bfloat16", "int64", "bool", "complex64", "float8_e5m2"]
)
def test_every_code_is_read_as_pytorchs_number(kind, to):
    torch = require_torch()
    codes = CODES
    if to == "int64":  # what NaN is as an integer, C leaves open
        codes = codes[torch.from_numpy(CODES).view(getattr(torch, kind)).float().isfinite().numpy()]
    bits = [lib.from_numpy(codes).view(getattr(lib, kind)).to(getattr(lib, to)).view(lib.uint8) for lib in (tdt, torch)]
    np.testing.assert_array_equal(*[t.numpy() for t in bits])


def test_every_nan_is_written_as_pytorchs_code(kind):
    payloads = np.concatenate([1 << np.arange(23), np.arange(1, 1 << 23, 65_521)]).astype(np.uint32)
    nans = np.concatenate([payloads | 0x7F800000, payloads | 0xFF800000]).astype(np.uint32).view(np.float32)
    halves = np.concatenate([np.arange(0x7C01, 0x8000), np.arange(0xFC01, 0x10000)]).astype(np.uint16).view(np.float16)
    with np.errstate(invalid="ignore"):
        doubles = nans.astype(np.float64)
    for values in (nans, doubles, halves):
        np.testing.assert_array_equal(coded(tdt, values, kind), coded(require_torch(), values, kind))


EXPRESSIONS = """
x; x[1]; x[1:]; x[::2]; x[[0, 2]]; x[t.tensor([True, False, True])]; x.view(3, 1); x.view(t.uint8); x.view(1, 3).t().clone()
x.view(3, 1).expand(3, 2).contiguous(); x.unbind(); x.split(2); x.repeat(2, 2); x.roll(1); x.unfold(0, 2, 1); x.tolist()
x[0].item(); bool(x[0]); float(x[0]); int(x[1]); x.type(); x.element_size(); x.untyped_storage().nbytes(); x.new_zeros(2)
t.cat([x, x]); t.stack([x, x]); t.where(t.tensor([True, False, True]), x, x); x.index_select(0, t.tensor([1])); t.tensor(x)
[x.__setitem__(0, 3.3), x][1]; [x.__setitem__(0, 500), x][1]; [x.__setitem__([1], -1e39), x][1]
[x.__setitem__(t.tensor([0]), x[1:2].clone()), x][1]; [x.__setitem__([0, 1], x[1:].clone()), x][1]
[x.__setitem__(slice(0, 2), t.tensor([7.0, 9.0])), x][1]; x.fill_(2.0); x.zero_()
x.copy_(t.tensor([0.0, 600, -3])); t.zeros(3).copy_(x); x == x; x == 1; x != 2.0; x.isnan(); x.any(); x.requires_grad_()
t.zeros(2, dtype=d); t.ones(2, dtype=d); t.full((2,), 3.0, dtype=d); t.eye(2, dtype=d); t.empty(0, dtype=d); t.full_like(x, 2)
t.tensor([1.0, 2, 500, 1e6], dtype=d); t.tensor(3.3, dtype=d); t.tensor([[1, 2], [3, 4]], dtype=d); t.nn.Parameter(x)
t.frombuffer(bytearray(b"abc"), dtype=d); t.empty_strided((3,), (1,), dtype=d).shape; x.to("meta").dtype; x.data_ptr() > 0
t.empty(9, device="meta").to(d).shape; t.empty(9, dtype=d, device="meta").float().shape; x.to(t.float8_e4m3fn)
t.finfo(d); (t.finfo(d).resolution, t.finfo(d).eps, t.finfo(d).bits); (d.itemsize, d.is_signed, d.is_floating_point)
t.promote_types(d, t.float32); t.promote_types(t.int32, d); t.promote_types(d, d); t.result_type(x, 1); t.can_cast(d, t.float32)
x * t.ones(3); t.set_default_dtype(d)
[w := t.ones(3, requires_grad=True), w.to(d).float().sum().backward(), w.grad][2]
"""
REFUSED = """
x + x; x + 1; x - x; 2 - x; x * 2; x / 2; x ** 2; -x; x < 1; x.sum(); x.mean(); x.exp(); x.log(); x.tanh(); x.relu(); x.sort()
x.max(); x.argmax(); x.cumsum(0); x.flip(0); x.gather(0, t.tensor([1])); x.masked_fill(t.tensor([True, False, True]), 0.0)
x.nonzero(); x.unique(); x.softmax(0); x.dot(x); x.clamp(0, 1); x.equal(x); x.add_(1); x.uniform_(); x.normal_()
t.arange(3, dtype=d); t.linspace(0, 1, 3, dtype=d); t.logspace(0, 1, 3, dtype=d); t.rand(2, dtype=d); t.randn(2, dtype=d)
"""


def each(text):
    return [expression.strip() for expression in text.replace("\n", ";").split(";") if expression.strip()]


def answer(lib, kind, expression):
    setup = f"(lambda d: (lambda x: {expression})(t.tensor([1.0, 2, 4]).to(d)))(t.{kind})"
    return repr_or_error(lib, setup)


def test_they_are_created_moved_and_shown_as_in_pytorch(kind):
    torch = require_torch()
    answers = {e: (answer(tdt, kind, e), answer(torch, kind, e)) for e in each(EXPRESSIONS)}
    assert len(answers) > 60 and {e: pair for e, pair in answers.items() if pair[0] != pair[1]} == {}


def test_arithmetic_refuses_them_as_pytorch_does(kind):
    torch = require_torch()
    for lib in (torch, tdt):
        for expression in each(REFUSED):
            x, d = lib.tensor([1.0, 2, 4]).to(getattr(lib, kind)), getattr(lib, kind)
            with pytest.raises(NotImplementedError, match=f"not implemented for '{kind.capitalize()}'"):
                eval(expression, {"t": lib, "x": x, "d": d})


@pytest.mark.parametrize("direction", ["PyTorch's here", "ours in PyTorch", "ours here"])
def test_files_hold_them_both_ways(kind, direction):
    torch = require_torch()
    writer = torch if direction == "PyTorch's here" else tdt
    reader = torch if direction == "ours in PyTorch" else tdt
    whole = writer.from_numpy(CODES).view(getattr(writer, kind))
    file = io.BytesIO()
    writer.save({"whole": whole, "part": whole[3:9:2], "kind": whole.dtype, "p": writer.nn.Parameter(whole)}, file)
    file.seek(0)
    back = reader.load(file)
    assert back["kind"] is getattr(reader, kind) and back["p"].dtype is back["kind"]
    assert back["whole"].view(reader.uint8).tolist() == CODES.tolist()
    assert back["part"].float().tolist() == whole[3:9:2].float().tolist() or kind == "float8_e8m0fnu"
    assert back["part"].untyped_storage().data_ptr() == back["whole"].untyped_storage().data_ptr()
