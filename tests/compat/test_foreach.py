"""`torch._foreach_*` of tdt.compat against PyTorch's: results, changed tensors, errors."""

from __future__ import annotations

import math

import pytest

import tdt
from tdt.compat import _foreach
from tests.helpers import require_torch

CALLS = {
    **{name: [lambda t, f, a, b, c: f(a)] for name in (*_foreach.UNARY, "max")},
    **{name: [lambda t, f, a, b, c: f(a, b), lambda t, f, a, b, c: f(a, 0.5), lambda t, f, a, b, c: f(a, [0.5, 2, 3.0]),
              lambda t, f, a, b, c: f(a, b[:2]), lambda t, f, a, b, c: f(a, [1.0]), lambda t, f, a, b, c: f([], 1)]
       for name in _foreach.BINARY},
    **{name: [lambda t, f, a, b, c: f(a, b, c), lambda t, f, a, b, c: f(a, b, c, value=2),
              lambda t, f, a, b, c: f(a, b, c, [1.0, 2, 3]), lambda t, f, a, b, c: f(a, b, c, t.tensor([1.0, 2, 3])),
              lambda t, f, a, b, c: f(a, b, c, t.tensor([1.0, 2])), lambda t, f, a, b, c: f(a, b[:1], c)]
       for name in ("addcdiv", "addcmul")},
    "lerp": [lambda t, f, a, b, c: f(a, b, 0.25), lambda t, f, a, b, c: f(a, b, [0.25, 0.5, 1.0]),
             lambda t, f, a, b, c: f(a, b, c), lambda t, f, a, b, c: f(a, b, weight=0.25)],
    "copy_": [lambda t, f, a, b, c: f(a, b), lambda t, f, a, b, c: f(a, b[:1])],
    "norm": [lambda t, f, a, b, c: f(a), lambda t, f, a, b, c: f(a, 1), lambda t, f, a, b, c: f(a, math.inf),
             lambda t, f, a, b, c: f(a, dtype=t.float64)],
    "powsum": [lambda t, f, a, b, c: f(a), lambda t, f, a, b, c: f(a, 3)],
    "mm": [lambda t, f, a, b, c: f([x.reshape(1, -1) for x in a], [x.reshape(-1, 1) for x in b])],
}  # fmt: skip
CALLS["add"] += [lambda t, f, a, b, c: f(a, b, alpha=2), lambda t, f, a, b, c: f(a, t.tensor(2.0), alpha=3),
                 lambda t, f, a, b, c: f(a, t.ones(2))]  # fmt: skip
CALLS["sub"] += [lambda t, f, a, b, c: f(a, b, alpha=2)]
CALLS["mul"] += [lambda t, f, a, b, c: f(a, t.tensor(2.0))]
CALLS["pow"] += [lambda t, f, a, b, c: f(2.0, a)]


def run(lib, name, call):
    lists = [[lib.tensor([x + 0.1, y]) for x, y in ((0.2, 0.7), (0.5, 0.3), (0.6, 0.9))] for _ in range(3)]
    for place, values in enumerate(lists):
        values[:] = [v * (place + 1) / 3 for v in values]
    try:
        result = call(lib, getattr(lib, f"_foreach_{name}"), *lists)
    except RuntimeError as error:
        return str(error)
    assert result is lists[0] or isinstance(result, tuple)
    return [t.tolist() for t in result], [t.tolist() for t in lists[0]]


@pytest.mark.parametrize("name", sorted({n.removeprefix("_foreach_") for n in _foreach.__all__}))
def test_a_foreach_function_computes_what_pytorchs_does(name):
    torch = require_torch()
    for number, call in enumerate(CALLS.get(name) or CALLS[name.removesuffix("_")]):
        if name == "pow_" and call is CALLS["pow"][-1]:
            continue  # a number cannot change
        ours, theirs = run(tdt, name, call), run(torch, name, call)
        if isinstance(theirs, str):
            assert ours == theirs, number
        else:
            for actual, expected in zip(ours, theirs, strict=True):
                assert tdt.tensor(actual).allclose(tdt.tensor(expected), rtol=1e-5, atol=1e-7), number


def test_every_foreach_function_of_pytorch_is_there():
    assert sorted(_foreach.__all__) == sorted(name for name in dir(require_torch()) if name.startswith("_foreach_"))


def test_tensors_are_grouped_by_device_and_dtype_as_in_pytorch():
    from tdt.compat.utils._foreach_utils import _group_tensors_by_device_and_dtype as ours

    theirs = require_torch().utils._foreach_utils._group_tensors_by_device_and_dtype
    shown = []
    for lib, group in ((tdt, ours), (require_torch(), theirs)):
        first = [lib.ones(1), lib.ones(2, dtype=lib.float64), lib.ones(3)]
        found = group([first, [lib.zeros(4), None, lib.zeros(5)], []], with_indices=True)
        shown.append(sorted(
            (str(dtype).partition(".")[2], [[None if t is None else len(t) for t in row] for row in lists], list(places))
            for (_, dtype), (lists, places) in found.items()
        ))  # fmt: skip
    assert shown[0] == shown[1]
