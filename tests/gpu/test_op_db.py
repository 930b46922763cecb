"""PyTorch's op database on the stand-in (`tests.opdb_on_gpu`)."""

from __future__ import annotations

import pytest

from tests.helpers import require

require("torch")

from tests.opdb_on_gpu import OPS, check  # noqa: E402

LEFT_OUT = {"sparse.mm/reduce"}  # the stand-in has no matrices of cupyx.scipy.sparse


@pytest.mark.parametrize("name", sorted({*OPS} - LEFT_OUT))
def test_an_op_gives_what_it_gives_on_the_cpu(name: str):
    assert check(name) == []
