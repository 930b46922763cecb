"""Programs of launches, which repeat an op for operands that lie alike: values are those of the op without one."""

from __future__ import annotations

import pytest

import tdt
from tdt._kernels import SWITCHES, _cublas_lt, forget, product_gpu
from tdt.autograd import _writes_on_gpu
from tdt.autograd._op_table import OPS
from tdt.nn import functional as F
from tests.programs_on_gpu import GPU, compared, names

# Ops of which at least one sample has a program, and one its gradient.
REPEATED = {
    "add",
    "conv",
    "cross_entropy",
    "embedding",
    "layer_norm",
    "linear",
    "max_pool2d",
    "mul",
    "relu",
    "attention",
}


@pytest.mark.parametrize("name", names())
def test_a_program_computes_what_the_op_does(name: str):
    programs, wrong = compared(name)
    assert wrong is None and (programs or name not in REPEATED)


def test_a_gradient_has_the_precision_that_is_set_when_it_is_computed(monkeypatch: pytest.MonkeyPatch):
    precisions: list[bool] = []
    plan = _cublas_lt.plan
    monkeypatch.setattr(_cublas_lt, "plan", lambda gpu, problem: precisions.append(problem.tf32) or plan(gpu, problem))
    monkeypatch.setattr(product_gpu, "_plans", {})
    x, w, g = (tdt.randn(*size, device=GPU) for size in ((4, 8), (6, 8), (4, 6)))
    x.requires_grad_(), w.requires_grad_()
    monkeypatch.setattr(SWITCHES, "tf32", True)
    for _ in range(3):
        tdt.nn.functional.linear(x, w).backward(g)
    y = tdt.nn.functional.linear(x, w)
    monkeypatch.setattr(SWITCHES, "tf32", False)
    assert {*precisions} == {True}
    y.backward(g)
    assert precisions[-2:] == [False, False]


FUNCTIONS = {
    "layer_norm": (lambda x, w: F.layer_norm(x, (6,), w[0], eps=1e-3), (4, 6), (1, 6)),
    "linear": (F.linear, (4, 6), (5, 6)),
    "conv2d": (lambda x, w: F.conv2d(x, w, None, 1, (1, 0)), (2, 3, 5, 5), (4, 3, 3, 3)),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, None, 2), (2, 3, 4, 4), (3, 4, 3, 3)),
    "max_pool2d": (lambda x, w: F.max_pool2d(x, 2) * w, (2, 3, 4, 4), (2, 2)),
    "embedding": (lambda x, w: F.embedding(tdt.arange(4, device=x.device) % 3, w) * x, (4, 6), (3, 6)),
    "rows at an index": (lambda x, w: x[tdt.tensor([2, -1, 0, 2], device=x.device)] * w, (4, 6), (1, 6)),
    "the same twice": (lambda x, w: (x * x + w * w) / (w * w + 1), (4, 6), (1, 6)),
    "the same as two of three": (lambda x, w: tdt.baddbmm(x, x, w) + tdt.addcmul(x, w, x), (2, 3, 3), (2, 3, 3)),
    "parts and borders": (lambda x, w: F.pad(x[:, 1::2], (1, 2)) * w + F.pad(x, (0, -1, 1, 0))[1:, :1], (4, 6), (1, 6)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_are_called_again_compute_with_the_tensors_of_the_call(name: str):
    function, *sizes = FUNCTIONS[name]
    for _ in range(6):
        values = [tdt.randn(*size) for size in sizes]
        results = []
        for device in ("cpu", GPU):
            x, w = (value.to(device, copy=True).requires_grad_() for value in values)
            out = function(x, w)
            out.sin().sum().backward()
            results.append([t.detach().cpu() for t in (out, x.grad, w.grad)])
        for got, expected in zip(*results, strict=True):
            assert tdt.allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_dropout_draws_further_numbers_where_its_program_is_repeated():
    x, drawn = tdt.ones(40, device=GPU, requires_grad=True), []
    for forgets in (False, True):
        tdt.manual_seed(3)
        drawn.append([])
        for _ in range(7):
            if forgets:
                forget()
            out = F.dropout(x, 0.3)
            (grad,) = tdt.autograd.grad(out.sum(), x)
            assert tdt.equal(grad, out.detach())
            drawn[-1].append(out.tolist())
    assert drawn[0] == drawn[1]
    assert len({*map(tuple, drawn[0])}) == 7


@pytest.mark.parametrize(("index", "bad"), [([0, 3], 3), ([-4, 1], -4)])
def test_an_index_out_of_range_is_reported_at_the_next_read(index: list, bad: int):
    x = tdt.ones(3, 2, device=GPU)
    for _ in range(5):
        rows = x[tdt.tensor(index, device=GPU)]
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds for dimension 0 with size 3"):
            rows.sum().item()


def test_gradients_are_added_up_once():
    for turned in (False, True):
        results = []
        for device in ("cpu", GPU):
            x = tdt.arange(6.0, device=device).reshape(2, 3).requires_grad_()
            for k in range(6):
                out = (x.t() * 2).t() if turned else x * 2
                out.backward(tdt.full_like(out, k + 1.0))
            results.append(x.grad.tolist())
        assert results[0] == results[1] == [[42.0] * 3] * 2


def test_arguments_that_are_equal_and_of_other_types_are_other_calls():
    x = tdt.tensor([[1.0, -2.0]], device=GPU)
    for _ in range(5):
        assert F.leaky_relu(x, 0.0)[0, 1].item() == 0.0
        assert tdt.add(x, x, alpha=1)[0, 0].item() == 2.0
        with pytest.raises(RuntimeError, match="Boolean alpha"):
            tdt.add(x, x, alpha=True)
    for _ in range(5):
        ones = [tdt.ones(2, dtype=tdt.int64, device=GPU) + number for number in (1, 1.0, True)]
        assert [t.dtype for t in ones] == [tdt.int64, tdt.float32, tdt.int64]


def test_writes_that_are_repeated_have_the_values_versions_and_errors_of_the_cpu():
    results: list[list] = []
    for device in ("cpu", GPU):
        found: list = []
        results.append(found)

        def tried(write, found=found):
            try:
                write()
            except RuntimeError as error:
                found.append(str(error))

        x, y = (tdt.arange(12.0).reshape(3, 4).to(device) + k for k in range(2))
        for k in range(6):
            x.add_(y).mul_(0.5).add_(x).copy_(x * 0.1).clamp_(-5, 5)
            x[1:].mul_(x[:2].clone())
            x[0].add_(x[1])
            x[:, 1:].add_(x[:, :-1])  # parts of the same memory
            x.t().add_(1.0)
            low, whole = x.half(), x.long()
            low.copy_(y).add_(y.half())
            whole.add_(k)
            found += [t.cpu().double() for t in (x, low, whole)] + [x._version, low._version]
            tried(lambda: x.expand(2, 3, 4).add_(1.0))  # noqa: B023
            tried(lambda: y.add_(tdt.ones(2, 3, 4, device=device)))  # noqa: B023
            leaf = tdt.ones(3, 4, device=device, requires_grad=True)
            tried(lambda: leaf.add_(y))  # noqa: B023
            (leaf * 2).add_(y).sum().backward()
            saved = leaf.exp()
            with tdt.no_grad():
                leaf.grad.add_(y)
                saved.mul_(2)
            tried(saved.sum().backward)
            found.append(leaf.grad.cpu().double())
    for got, expected in zip(*results, strict=True):
        assert tdt.allclose(got, expected, rtol=1e-6) if isinstance(got, tdt.Tensor) else got == expected
    calls = _writes_on_gpu._calls[OPS["add"]].layouts.values()
    assert sum(call.forward.program is not None for call in calls) >= 3


def test_views_on_a_gpu_know_their_base_as_those_on_the_cpu():
    results: list[list] = []
    for device in ("cpu", GPU):
        found: list = []
        results.append(found)
        for _ in range(4):
            x = tdt.arange(12.0, device=device).reshape(3, 4).requires_grad_() * 1
            parts = [*x.chunk(2, 1), *x.split([1, 2]), *x.unbind(1), x[1], x[:, ::2], x.t(), x.unsqueeze(0), x[..., :0]]
            found += [
                each for t in parts for each in (t._base is x, t._is_view(), t._version, t.grad_fn.name(), t.stride())
            ]
            with pytest.raises(RuntimeError, match="view"):
                parts[0].add_(1)
            x[1].mul_(3)
            with tdt.no_grad():
                plain = tdt.zeros(2, 3, device=device)
                plain.unbind(0)[1].add_(2)
            found += [plain.tolist(), parts[8].tolist(), parts[8]._version]
            sum(t.square().sum() for t in (x, *x.chunk(2))).backward()
    assert results[0] == results[1]
