"""Tests of this folder run with TDT_NULL_GPU=1 alone: they take the real CuPy, and with it any GPU, from their process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.gpu.null import wheel
from tests.helpers import require, require_program

if os.environ.get("TDT_NULL_GPU") != "1":
    collect_ignore_glob = ["test_*.py"]
elif shutil.which("gcc") and find_spec("cupy_backends"):
    wheel.start()
    from tests.gpu.null import kernels

    kernels.watch()


class Module(pytest.Module):
    """A module of tests, skipped where there is no C compiler or no wheel of CuPy."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        require_program("gcc")
        require("cupy_backends")
        return super().collect()


def pytest_pycollect_makemodule(module_path, parent) -> Module:
    return Module.from_parent(parent, path=module_path)


@pytest.fixture(autouse=True)
def nothing_refused(request) -> Iterator[None]:
    """Fails a test in which the driver refused something, unless it is marked `refused`."""
    wheel.refused.clear()
    yield
    assert request.node.get_closest_marker("refused") or wheel.refused == []
