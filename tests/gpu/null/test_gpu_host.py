"""`benchmarks.gpu_host`: CuPy computes the same as tdt, what a call takes is counted, and both are measured."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks import gpu_host
from benchmarks._gpu_host_cases import CASES, inputs
from tests.gpu.null import wheel


@pytest.mark.parametrize("name", CASES)
def test_cupys_functions_give_arrays_like_tdts(name: str):
    case = CASES[name]
    if case.cupy is None:
        return
    tensors = SimpleNamespace(**inputs())
    arrays = SimpleNamespace(**{key: each._a for key, each in vars(tensors).items()})
    found, right = case.tdt(tensors), case.cupy(arrays)
    if right is None:  # it writes to an operand
        return
    pairs = [found], [right]
    if isinstance(right, (tuple, list)):
        pairs = found, right
    for tensor, array in zip(*pairs, strict=True):
        assert (tensor._a.shape, tensor._a.dtype) == (array.shape, array.dtype)


def test_rows_have_times_and_counts():
    found = {row.name: row for row in gpu_host.rows(["mul", "slice", "conv2d"])}
    assert {name: (row.launches, row.arrays, row.composed) for name, row in found.items()} == {
        "mul": (1, 1, True),
        "slice": (0, 0, True),
        "conv2d": (1, 1, False),
    }
    assert all(row.tdt > 0 and row.cupy > 0 for row in found.values())
    found = {row.name: row for row in gpu_host.rows(["mul", "slice", "add_", "gt"], gpu_host.backward)}
    assert {*found} == {"mul", "slice"}  # the others have no gradients
    assert (found["mul"].launches, found["slice"].launches) == (2, 1)


def test_python_is_not_called_by_the_driver_while_time_is_measured():
    import cupy

    allocator = cupy.cuda.get_allocator()
    with wheel.watch() as calls:
        with wheel.silent():
            cupy.zeros(3).sum()
        assert calls == []
        cupy.zeros(3)
        assert calls != []
    assert cupy.cuda.get_allocator() == allocator
