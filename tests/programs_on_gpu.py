"""Programs of launches, which repeat an op on a GPU for operands that lie alike: whether they have the bits of the op without."""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterator
from typing import Any

import numpy as np

import tdt
from tdt import _backend
from tdt._backend import to_device
from tdt._core.tensor import wrap
from tdt._kernels import programs_gpu
from tdt.autograd._op_table import OPS
from tests.on_gpu import sampled_ops
from tests.samples import TABLE, Call

GPU = tdt.device("cuda:0")


def check_programs(target: str, done: Container[str] = ()) -> Iterator[tuple[str, str | None]]:
    """For each op with samples what is wrong with its programs, or None. done: names that are left out."""
    for name in names():
        if name in done:
            continue
        try:
            yield name, compared(name)[1]
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            yield name, f"{type(error).__name__}: {error}".partition("\n")[0]


def names() -> list[str]:
    """The ops with samples that may have programs."""
    return [name for name in sampled_ops() if OPS[name].layouts is not False]


def compared(name: str) -> tuple[int, str | None]:
    """How many programs the samples of an op and their gradients have, and which of the samples differs without one."""
    programs, first = 0, programs_gpu.FIRST
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for k, call in enumerate(TABLE[name].calls):
            (OPS[name].layouts or {}).clear()
            for _ in range(2):  # the second call is noted
                results(name, call, 0)
            if not (found := programs_of(name)):
                continue
            programs += found
            unordered = _backend.unordered_sums()
            got = results(name, call, 1)
            (OPS[name].layouts or {}).clear()
            programs_gpu.FIRST = 1 << 30
            try:
                expected = results(name, call, 1)
            finally:
                programs_gpu.FIRST = first
            if not same(got, expected, _backend.unordered_sums() == unordered):
                return programs, f"sample {k} has other values or strides than without a program"
    return programs, None


def operand(value: Any, shift: int) -> Any:
    """A sample's operand on the GPU, its elements moved on by some places."""
    if not isinstance(value, np.ndarray):
        return value
    value = value.astype(np.float32) if value.dtype == np.float64 else value
    moved = value.copy(order="K")
    moved[...] = np.roll(moved, shift)
    x = wrap(to_device(moved, GPU))
    return x.requires_grad_() if x.is_floating_point() else x


def results(name: str, call: Call, shift: int) -> list[np.ndarray | None] | str:
    """The outputs and the gradients of all operands; the name of an error."""
    tdt.manual_seed(0)
    inputs = [operand(value, shift) for value in call.operands]
    try:
        out = OPS[name](*inputs, **call.attributes)
        outs = [t for t in (out if isinstance(out, tuple | list) else [out]) if isinstance(t, tdt.Tensor)]
        ways = [t for t in outs if t.requires_grad and t.is_floating_point()]
        if ways:
            sum(t.double().sin().sum() for t in ways).backward()
    except (TypeError, ValueError, RuntimeError, NotImplementedError, IndexError) as error:
        return type(error).__name__
    grads = [x.grad for x in inputs if isinstance(x, tdt.Tensor)]
    return [None if t is None else t.detach().cpu().numpy() for t in (*outs, *grads)]


def programs_of(name: str) -> int:
    """How many programs there are of an op's calls and gradients."""
    calls = (OPS[name].layouts or {}).values()
    return sum((each.program is not None) for call in calls for each in (call.forward, *call.gradients.values()))


def same(got: list[np.ndarray | None] | str, expected: list[np.ndarray | None] | str, bits: bool) -> bool:
    """Whether two calls gave arrays that lie alike and have the same values, or errors of one class.

    bits: whether values must be the same to the bit; not where sums have no particular order.
    """
    if isinstance(got, str) or isinstance(expected, str):
        return got == expected
    for g, e in zip(got, expected, strict=True):
        if g is None or e is None:
            if g is not e:
                return False
        elif (g.dtype, g.strides) != (e.dtype, e.strides):
            return False
        elif bits and not np.array_equal(g, e, equal_nan=g.dtype.kind in "fc"):
            return False
        elif not bits and not np.allclose(g, e, rtol=1e-4, atol=1e-5, equal_nan=True):
            return False
    return True
