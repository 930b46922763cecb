"""default_collate and default_convert against PyTorch's, on nested samples."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tdt.utils.data as data
from tdt._core.tensor import Tensor, wrap
from tests.helpers import require_torch

Pair = namedtuple("Pair", ["x", "y"])

# Each makes a list of samples, given a function from a NumPy array to a tensor.
BATCHES: dict[str, Callable[[Callable], list]] = {
    "tensors": lambda t: [t(np.arange(3.0)), t(np.arange(3.0) + 1)],
    "0-d tensors": lambda t: [t(np.array(1)), t(np.array(2))],
    "arrays": lambda t: [np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)],
    "0-d arrays": lambda t: [np.array(1.5), np.array(2.5)],
    "numpy scalars": lambda t: [np.float32(1), np.float32(2)],
    "numpy bools": lambda t: [np.bool_(True), np.bool_(False)],
    "floats": lambda t: [1.0, 2.5],
    "ints": lambda t: [1, 2],
    "ints and floats": lambda t: [1, 2.5],
    "bools": lambda t: [True, False],
    "strings": lambda t: ["a", "b"],
    "bytes": lambda t: [b"a", b"b"],
    "tuples": lambda t: [(1, "a", 2.0), (2, "b", 3.0)],
    "lists": lambda t: [[1, 2.0], [3, 4.0]],
    "dicts": lambda t: [{"x": 1, "y": (2.0, "s")}, {"x": 3, "y": (4.0, "t")}],
    "ordered dicts": lambda t: [OrderedDict(b=1, a=2), OrderedDict(b=3, a=4)],
    "namedtuples": lambda t: [Pair(t(np.ones(2)), 1), Pair(t(np.zeros(2)), 2)],
    "ranges": lambda t: [range(3), range(3)],
}


def same(ours: Any, theirs: Any) -> None:
    if isinstance(ours, Tensor):
        a, b = ours.numpy(), theirs.numpy()
        assert a.dtype == b.dtype and a.shape == b.shape and (a == b).all()
        return
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert list(ours) == list(theirs)
        ours, theirs = list(ours.values()), list(theirs.values())
    if isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            same(a, b)
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_is_collated_as_in_pytorch(name: str) -> None:
    torch = require_torch()
    same(data.default_collate(BATCHES[name](wrap)), torch.utils.data.default_collate(BATCHES[name](torch.from_numpy)))


@pytest.mark.parametrize("name", BATCHES)
def test_a_sample_is_converted_as_in_pytorch(name: str) -> None:
    torch = require_torch()
    for ours, theirs in zip(BATCHES[name](wrap), BATCHES[name](torch.from_numpy)):
        same(data.default_convert(ours), torch.utils.data.default_convert(theirs))


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        (
            [object()],
            TypeError,
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found",
        ),
        ([np.array(["a"])], TypeError, "default_collate: batch must contain tensors"),
        ([[1], [1, 2]], RuntimeError, "each element in list of batch should be of equal size"),
        ([wrap(np.ones(3)), wrap(np.ones(4))], RuntimeError, "stack expects each tensor to be equal size"),
    ],
)
def test_what_cannot_be_collated_is_refused(batch: list, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        data.default_collate(batch)


def test_collate_takes_functions_for_the_users_types() -> None:
    class Point:
        pass

    functions = {Point: lambda batch, *, collate_fn_map: len(batch)}
    assert data.collate([(Point(), Point()), (Point(), Point())], collate_fn_map=functions) == [2, 2]
