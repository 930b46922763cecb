"""Programs of launches, which repeat an op for operands that lie alike: values are those of the op without one."""

from __future__ import annotations

import pytest

import tdt
from tdt._kernels import SWITCHES, _cublas_lt, product_gpu
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
