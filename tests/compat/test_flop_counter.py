"""FlopCounterMode against PyTorch's: operations of each module, forward and backward."""

from __future__ import annotations

import importlib

import pytest

import tdt
from tdt.compat.utils.flop_counter import FlopCounterMode
from tests.helpers import require_torch


class Net:
    """A model of either library: a convolution, two linear layers, attention."""

    def __new__(cls, lib):
        nn = lib.nn

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten())
                self.head = nn.Linear(72, 4)

            def forward(self, x):
                y = self.head(self.body(x))
                q = y.reshape(1, 1, -1, 4)
                return lib.matmul(y, y.T).sum() + (q @ q.transpose(2, 3)).sum()

        return Model()


def counts(lib, mode, backward):
    model, x = Net(lib), lib.ones(3, 1, 8, 8)
    with mode(display=False) as counter:
        loss = model(x)
        if backward:
            loss.backward()
    modules = {name: sum(of.values()) for name, of in counter.get_flop_counts().items()}
    return counter.get_total_flops(), modules


@pytest.mark.parametrize("backward", [False, True])
def test_flops_are_those_that_pytorch_counts(backward):
    torch = require_torch()
    theirs = importlib.import_module(f"{torch.__name__}.utils.flop_counter").FlopCounterMode
    total, modules = counts(tdt, FlopCounterMode, backward)
    expected_total, expected = counts(torch, theirs, backward)
    assert total == expected_total
    if not backward:  # whose operations PyTorch counts for modules that are still running
        assert modules == {name: n for name, n in expected.items() if n}


def test_the_table_lists_modules_to_the_requested_depth(capsys):
    with FlopCounterMode(depth=1):
        tdt.nn.Sequential(tdt.nn.Linear(2, 3))(tdt.ones(1, 2))
    assert capsys.readouterr().out.split() == ["Module", "FLOP", "Global", "12", "Sequential", "12"]


def test_a_mapping_of_pytorchs_operations_is_refused():
    with pytest.raises(NotImplementedError, match="there is no table to extend"):
        FlopCounterMode(custom_mapping={"mm": len})
