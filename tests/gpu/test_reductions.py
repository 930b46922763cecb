"""Functions of one tensor that are called again on a GPU: results, names, gradients and errors are those of the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import tdt

OF_ALL = (
    "sum nansum mean max min amax amin argmax argmin var std var_mean std_mean aminmax prod median norm trace".split()
)
ALONG = "sum mean max min argmax argmin var std_mean prod median mode sort cummax cumsum logsumexp".split()
KEEPING = "sum mean max min argmax var std_mean amax aminmax".split()
CALLS: dict[str, Callable[[tdt.Tensor], Any]] = {
    **{name: (lambda x, f=getattr(tdt, name): f(x)) for name in OF_ALL},
    **{f"{name} along 1": (lambda x, f=getattr(tdt, name): f(x, 1)) for name in ALONG},
    **{f"{name} with keepdim": (lambda x, f=getattr(tdt, name): f(x, dim=0, keepdim=True)) for name in KEEPING},
    "a list of dimensions": lambda x: x.sum([0, 1]),
    "NumPy's names": lambda x: x.sum(axis=0, keepdims=True),
    "a dtype": lambda x: x.sum(dtype=tdt.float64),
    "two tensors": lambda x: tdt.max(x, x * 2),
    "topk": lambda x: x.topk(2),
    "kthvalue": lambda x: x.kthvalue(2, 0),
    "inv": tdt.linalg.inv,
    "inv_ex": tdt.linalg.inv_ex,
    "cholesky": tdt.linalg.cholesky,
    "out": lambda x: tdt.sum(x.detach(), 1, out=tdt.empty(0, device=x.device)),
    "no such dimension": lambda x: x.sum(5),
    "a wrong dimension": lambda x: x.max(dim="a"),
}


def described(call: Callable[[tdt.Tensor], Any], x: tdt.Tensor) -> list:
    """The results of a call, with all that is known of them, and the gradient; or the error."""
    try:
        result = call(x)
    except (RuntimeError, IndexError, TypeError) as error:
        return [f"{type(error).__name__}: {error}"]
    tensors = [result] if isinstance(result, tdt.Tensor) else [*result]
    found: list[Any] = [type(result), *((t.dtype, t.requires_grad, t.grad_fn and t.grad_fn.name()) for t in tensors)]
    values = [t.detach() for t in tensors]
    if tensors[0].requires_grad:
        values += tdt.autograd.grad(tensors[0].sum(), [x])
    return found + [t.cpu().double() for t in values]


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_calls_are_repeated_as_they_are_on_the_cpu(name: str, gradient: bool):
    tdt.manual_seed(0)
    start = tdt.randn(4, 4) @ tdt.randn(4, 4)
    start = start @ start.mT + tdt.eye(4)
    for k in range(6):
        x = start + k * 0.1
        x = x.mT.contiguous().mT if k == 5 else x
        there, here = (
            described(CALLS[name], x.to(device, copy=True).requires_grad_(gradient)) for device in ("cuda", "cpu")
        )
        for found, right in zip(there, here, strict=True):
            same = tdt.allclose(found, right, rtol=1e-3, atol=1e-4) if isinstance(right, tdt.Tensor) else found == right
            assert same, f"call {k}: {found}, not {right}"


INFINITE = [
    [1.0, math.inf], [math.inf, 1.0], [math.inf, math.inf], [math.inf], [1.0, -math.inf, 2.0], [1.0, math.nan, math.inf],
    [[1.0, math.inf], [2.0, 3.0]], [[math.inf, 1.0], [2.0, -math.inf]], [1.0, 2.0],
]  # fmt: skip


@pytest.mark.parametrize("values", INFINITE, ids=str)
@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64, tdt.float16])
def test_means_beside_variances_of_infinities_are_those_of_the_cpu(values: list, dtype: tdt.dtype):
    for name in ("var_mean", "std_mean"):
        for how in ({}, {"dim": 0}, {"dim": -1, "keepdim": True}, {"correction": 0}):
            for _ in range(3):  # later calls are repeated by programs
                found = []
                for device in ("cpu", "cuda"):
                    x = tdt.tensor(values, dtype=dtype, device=device)
                    found.append([str(each.cpu()) for each in getattr(tdt, name)(x, **how)])
                assert found[0] == found[1]
