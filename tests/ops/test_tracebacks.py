"""A wrong call of an op has one exception in its traceback, and computes once."""

from __future__ import annotations

import contextlib
import gc
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tdt
from tdt.autograd._op_table import OPS

WRONG_CALLS: dict[str, Callable[[], Any]] = {
    "add of other shapes": lambda: tdt.add(tdt.ones(2), tdt.ones(3)),
    "+ of other shapes": lambda: tdt.ones(2) + tdt.ones(3),
    "add_ of other shapes": lambda: tdt.ones(2).add_(tdt.ones(3)),
    "where of other shapes": lambda: tdt.where(tdt.ones(2) > 0, tdt.ones(3), 1.0),
    "addcmul of other shapes": lambda: tdt.addcmul(tdt.ones(2), tdt.ones(3), tdt.ones(4)),
    "a result of another shape": lambda: tdt.ones(2).add_(tdt.ones(2, 2)),
    "matmul of other shapes": lambda: tdt.matmul(tdt.ones(2, 3), tdt.ones(2, 3)),
    "a string to add": lambda: tdt.add(tdt.ones(2), "a"),  # type: ignore[arg-type]
    "a string to tanh": lambda: tdt.tanh("a"),  # type: ignore[arg-type]
    "a string to reshape": lambda: tdt.reshape("a", (2,)),  # type: ignore[arg-type]
    "an integer beyond 64 bits": lambda: tdt.tensor([1], dtype=tdt.int32) * 10**100,
    "an integer divided by zero": lambda: tdt.tensor([1]) // 0,
    "no such dimension": lambda: tdt.ones(2).sum(7),
    "a string for a dimension": lambda: tdt.ones(2).softmax("a"),  # type: ignore[arg-type]
    "a size that is a string": lambda: tdt.zeros("a"),  # type: ignore[call-overload]
    "an unknown argument": lambda: tdt.ones(2).clamp(low=1),  # type: ignore[call-overload]
}


@pytest.mark.parametrize("call", WRONG_CALLS.values(), ids=WRONG_CALLS)
def test_a_wrong_call_raises_one_exception(call: Callable[[], Any]):
    with pytest.raises(Exception) as caught:  # noqa: PT011 (of what class it is, other tests say)
        call()
    text = "".join(traceback.format_exception(caught.value))
    assert "During handling" not in text
    assert "direct cause" not in text
    assert len(text.splitlines()) <= 40


@pytest.mark.parametrize("call", WRONG_CALLS.values(), ids=WRONG_CALLS)
def test_a_wrong_call_keeps_nothing_in_memory(call: Callable[[], Any]):
    for counted in (False, True):  # what the first call imports and prepares may have cycles
        gc.collect()
        gc.disable()
        with contextlib.suppress(Exception):
            call()
        found = gc.collect()
        gc.enable()
        assert not (counted and found)


def test_a_forward_that_fails_runs_once(monkeypatch: pytest.MonkeyPatch):
    add, calls = OPS["add"], []

    def refuse(*operands: Any) -> Any:
        calls.append(operands)
        return np.add(*operands)

    tdt.ones(2) + tdt.ones(2)  # the plan of the operands is made
    monkeypatch.setattr(add.plans[np.dtype(np.float32)], "function", refuse)
    with pytest.raises(RuntimeError, match=r"size of tensor a \(2\)"):
        tdt.ones(2) + tdt.ones(3)
    assert len(calls) == 1
