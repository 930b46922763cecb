"""In-place writes at places of large tensors: PyTorch's values and gradients, without a copy of the tensor."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

SIZE = (40, 30, 50)  # more elements than are copied at once
WRITES: dict[str, Callable[..., Any]] = {
    "index_copy_": lambda lib, x, i, y: x.index_copy_(1, i, y),
    "index_add_": lambda lib, x, i, y: x.index_add_(1, i, y, alpha=2),
    "index_fill_": lambda lib, x, i, y: x.index_fill_(1, i, 1.5),
    "index_reduce_": lambda lib, x, i, y: x.index_reduce_(1, i, y, "amax"),
    "index_put_": lambda lib, x, i, y: x.index_put_((i, i), y[0, 0]),
    "index_put_ by broadcast places": lambda lib, x, i, y: x.index_put_((i[:, None], i - 30), y[:3]),
    "index_put_ at many places": lambda lib, x, i, y: x.index_put_((i.repeat(9), -i.repeat(9)), y[:27, 0]),
    "index_put_ accumulated": lambda lib, x, i, y: x.index_put_((i, i), y[0, :3], accumulate=True),
    "x[:, i] = y": lambda lib, x, i, y: x.__setitem__((slice(None), i), y) or x,
    "scatter_": lambda lib, x, i, y: x.scatter_(1, i[None, :, None].expand(40, 3, 50), y),
    "scatter_ of a number": lambda lib, x, i, y: x.scatter_(1, i[None, :, None].expand(40, 3, 50), 2.5),
    "scatter_ by a product": lambda lib, x, i, y: x.scatter_(
        1, i[None, :, None].expand(40, 3, 50), y, reduce="multiply"
    ),
    "scatter_add_": lambda lib, x, i, y: x.scatter_add_(1, i[None, :, None].expand(40, 3, 50), y),
    "scatter_add_ at most places": lambda lib, x, i, y: x.scatter_add_(
        1, i.repeat(10)[None, :, None].expand(40, 30, 50), y.repeat(1, 10, 1)
    ),
    "scatter_reduce_": lambda lib, x, i, y: x.scatter_reduce_(1, i[None, :, None].expand(40, 3, 50), y, "mean"),
    "put_": lambda lib, x, i, y: x.put_(i, y[0, 0, :3]),
    "put_ accumulated": lambda lib, x, i, y: x.put_(i, y[0, 0, :3], accumulate=True),
}


def tensors(lib: Any, places: list[int]) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=SIZE).astype(np.float32), rng.normal(size=(40, 3, 50)).astype(np.float32)
    return lib.tensor(x), lib.tensor(places), lib.tensor(y)


@pytest.mark.filterwarnings("ignore:index_reduce", "ignore:The reduce argument of torch.scatter")
@pytest.mark.parametrize("order", ["contiguous", "transposed", "part"])
@pytest.mark.parametrize("name", WRITES)
def test_values_are_pytorchs(name: str, order: str):
    torch = require_torch()
    results = []
    for lib in (tdt, torch):
        x, i, y = tensors(lib, [7, 0, 29])
        base = x if order == "contiguous" else lib.zeros(50, 30, 40) if order == "transposed" else lib.zeros(40, 30, 60)
        if order != "contiguous":
            view = base.permute(2, 1, 0) if order == "transposed" else base[..., 5:55]
            view.copy_(x)
            x = view
        version = x._version
        assert WRITES[name](lib, x, i, y) is x
        assert x._version > version
        results.append(base.numpy())
    np.testing.assert_allclose(*results, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", sorted({*WRITES} - {"scatter_ by a product"}))  # which PyTorch does not differentiate
def test_gradients_are_pytorchs(name: str):
    torch = require_torch()
    results = []
    for lib in (tdt, torch):
        x, i, y = tensors(lib, [7, 0, 29])
        x.requires_grad_()
        y.requires_grad_()
        (WRITES[name](lib, x * 1.5, i, y) ** 2).sum().backward()
        results.append([x.grad.numpy(), None if y.grad is None else y.grad.numpy()])
    (ours, our_y), (theirs, their_y) = results
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert (our_y is None) == (their_y is None)
    if our_y is not None:
        np.testing.assert_allclose(our_y, their_y, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", WRITES)
def test_an_index_out_of_range_leaves_values_and_version(name: str):
    x, i, y = tensors(tdt, [7, 0, 10**6])
    before, version = x.clone(), x._version
    with pytest.raises((IndexError, RuntimeError)):
        WRITES[name](tdt, x, i, y)
    assert tdt.equal(x, before)
    assert x._version == version


@pytest.mark.parametrize("name", sorted({*WRITES} - {"index_reduce_", "scatter_reduce_"}))
def test_operands_of_the_same_memory_are_read_before_they_are_written(name: str):
    x, i, _ = tensors(tdt, [7, 0, 29])
    expected = x.clone()
    try:
        WRITES[name](tdt, expected, i, x[:, 4:7].clone())
        WRITES[name](tdt, x, i, x[:, 4:7])
    except RuntimeError as error:
        assert "single memory location" in str(error)  # noqa: PT017  (some refuse, as PyTorch does)
    else:
        assert tdt.equal(x, expected)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", sorted({*WRITES} - {"scatter_reduce_"}))  # whose mean needs counts
def test_the_tensor_is_not_copied(name: str):
    x = tdt.zeros(40, 30 * 60, 50)
    _, i, y = tensors(tdt, [7, 0, 29])
    WRITES[name](tdt, x, i, y)
    tracemalloc.start()
    try:
        WRITES[name](tdt, x, i, y)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < x.numel() * 4 / 4


@pytest.mark.parametrize("index", [3, -1])
def test_index_copy_raises_index_error_for_an_entry_out_of_range(index: int):
    torch = require_torch()
    for lib in (tdt, torch):
        for write in (lib.Tensor.index_copy, lib.Tensor.index_copy_):
            with pytest.raises(IndexError):
                write(lib.zeros(3, 2), 0, lib.tensor([0, index]), lib.ones(2, 2))


@pytest.mark.parametrize("size", [(5, 4), (90, 70)], ids=["small", "large"])
@pytest.mark.parametrize(
    "write",
    [
        lambda x, i, y: x.scatter_(0, i, y),
        lambda x, i, y: x.scatter_add_(0, i, y),
        lambda x, i, y: x.scatter_reduce_(0, i, y, "amax"),
    ],
)
def test_an_index_that_is_the_tensor_itself_is_read_before_it_is_written(
    write: Callable[..., Any], size: tuple[int, int]
):
    rng = np.random.default_rng(0)
    x, y = tdt.tensor(np.argsort(rng.random(size), 0)), tdt.tensor(rng.integers(0, size[0], size))
    expected = write(x.clone(), x.clone(), y)
    for of_same_memory in (lambda t: t, lambda t: t.data, lambda t: tdt.from_numpy(t.numpy())):
        target = x.clone()
        write(target, of_same_memory(target), y)
        assert tdt.equal(target, expected)


# Writes of a tensor's own elements to it, in a call of `write(lib, x)` with x of shape (3, 4).
OF_ITS_OWN = {
    "rows over rows": lambda lib, x: x.__setitem__(slice(1, None), x[:-1]),
    "a row": lambda lib, x: x.__setitem__(0, x[1]),
    "an element at a mask": lambda lib, x: x.__setitem__(x > 3, x[0, 2]),
    "an element at places": lambda lib, x: x.__setitem__(lib.tensor([1, 2]), x[0, 2]),
    "a column at columns": lambda lib, x: x.__setitem__((slice(None), lib.tensor([1, 3])), x[:, :1]),
    "rows of a part": lambda lib, x: x[:, 1:].__setitem__(lib.tensor([0, 1]), x[1:, 1:]),
    "an element of a column": lambda lib, x: x[:, 1].index_put_((lib.tensor([1, 2]),), x[0, 1]),
}


@pytest.mark.parametrize("write", OF_ITS_OWN.values(), ids=OF_ITS_OWN)
def test_a_tensors_own_elements_are_written_or_refused_as_by_pytorch(write):
    torch = require_torch()
    results = []
    for lib in (tdt, torch):
        x = lib.arange(12.0).reshape(3, 4)
        try:
            write(lib, x)
        except RuntimeError as error:
            results.append(str(error)[:60])
        else:
            results.append(x.tolist())
    assert results[0] == results[1]


def test_index_put_gives_a_result_that_lies_in_memory_as_its_input():
    torch = require_torch()
    for lib in (tdt, torch):
        x = lib.arange(12.0).reshape(4, 3).t()
        for accumulate in (False, True):
            assert x.index_put((lib.tensor([0]),), x[1], accumulate).stride() == (1, 3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64", "uint8", "bool"])
def test_parts_and_expanded_tensors_are_filled(dtype: str):
    torch = require_torch()
    results = []
    for lib in (tdt, torch):
        base, row = lib.zeros(40, 60, dtype=getattr(lib, dtype)), lib.zeros(1, 5, dtype=getattr(lib, dtype))
        number = dtype == "bool" or 3
        base[:, ::2].fill_(number)
        base.t()[1:30].zero_()
        row.expand(4, 5).fill_(number)
        padded = lib.nn.functional.pad(base[:, 1:], (1, 2))
        wide = lib.full((300,), number, dtype=getattr(lib, dtype))
        results.append([x.float().numpy().tolist() for x in (base, row, padded, wide, wide.double())] + [base._version])
    assert results[0] == results[1]
