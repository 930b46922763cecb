"""Chains of elementwise kernels under the real CuPy: launched as one in a CUDA graph, whose memory nothing else has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tdt
from tdt._compiled.captured import Captured
from tdt._kernels import chains_gpu
from tests.gpu.chains import CHAINS, LAUNCHES
from tests.gpu.null import wheel
from tests.gpu.steps import LAUNCHES_IN_GRAPHS, MODELS, step_of


def captured(function: Callable[[], Any], chains: bool = True) -> list[str]:
    """The names of what is launched in a graph of a function."""
    with wheel.watch() as calls:
        Captured(lambda places: function(), [], 0, chains=chains)
    return [call.name for call in calls if call.kind in wheel.WORK]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_of_ops_is_launched_as_one(name: str, backward: bool):
    step = CHAINS[name](backward)
    step()
    assert len(captured(step)) == LAUNCHES[name][backward]


@pytest.mark.parametrize("name", MODELS)
def test_a_step_has_few_launches_in_a_graph(name: str):
    step = step_of(name, "AdamW")
    for _ in range(3):
        step()
    names = captured(step)
    assert len(names) == LAUNCHES_IN_GRAPHS[name], names


def test_the_driver_reports_work_that_no_op_launches():
    import cupy

    x = tdt.ones(3, device="cuda")

    def hidden() -> Any:
        y = x * 2
        cupy.add(y._a, 1)  # by no op
        return y + 1

    with pytest.raises(chains_gpu.UnknownWorkError):
        captured(hidden)
    assert len(captured(hidden, chains=False)) == 3
