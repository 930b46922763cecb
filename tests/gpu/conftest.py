"""Tests of this folder run where the stand-in for CuPy is the `cupy` that Python finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

STANDIN = Path(__file__).resolve().parent / "standin"
_found = find_spec("cupy")
if _found is None or _found.origin is None or not Path(_found.origin).resolve().is_relative_to(STANDIN):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with two GPUs, of which the first is the current one, before the test and after it."""
    import tdt
    from tdt import _backend
    from tdt._kernels import _registry

    monkeypatch.setenv("CUPY_STANDIN_GPUS", "2")
    _backend.cuda_device_count.cache_clear()
    _registry.forget()  # programs are of machines with one GPU
    yield
    assert tdt.cuda.current_device() == 0
    monkeypatch.undo()
    _backend.cuda_device_count.cache_clear()


@pytest.fixture
def all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks have the threads that a launch says, as fibers; elsewhere in these tests they have one."""
    from cupy import _raw

    monkeypatch.setattr(_raw, "all_threads", True)


Counted = Callable[[], AbstractContextManager[list[tuple[str, str, str]]]]


@pytest.fixture
def counted() -> Counted:
    """A block in which launches, uploads and waits of the host are listed: (which, function, line of tdt)."""
    from cupy import _array

    from tdt._kernels import capture_gpu

    capture_gpu.tickets()  # or the first kernel that needs them would launch what fills them, in whatever test

    @contextmanager
    def block() -> Iterator[list[tuple[str, str, str]]]:
        _array.watched = found = []
        try:
            yield found
        finally:
            _array.watched = None

    return block


@pytest.fixture
def cudnn(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """A GPU that has cuDNN: the fake of it, whose library is returned."""
    from cupy._cudnn import LIBRARY

    from tdt._kernels import _cudnn, cudnn_attention_gpu, cudnn_gpu

    def again() -> None:
        cudnn_gpu._plans.clear()
        cudnn_attention_gpu._plans.clear()
        _cudnn.forget()

    monkeypatch.setattr(_cudnn, "loaded", lambda: LIBRARY.library)
    again()
    yield LIBRARY.library
    monkeypatch.undo()
    again()
