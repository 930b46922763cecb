"""CUDA graphs: the work of a stream, captured once and launched again as a whole, with its numbers of the host renewed."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

from tdt import _backend
from tdt._backend._gpu_memory import GraphPool, free_closed
from tdt._backend.waiting import launch_waiting
from tdt._kernels import capture_gpu
from tdt._kernels.chains_gpu import Chains, may_wait


class Graph:
    """Work of a GPU that is captured between `begin` and `end`, and launched by `launch`.

    Raises:
        AssertionError: when there is no GPU.
    """

    def __init__(self) -> None:
        _backend.gpu()
        self._graph: Any = None
        self._capture: capture_gpu.Capture | None = None
        self._stream: Any = None
        self._pool: GraphPool | None = None
        self._allocator: Any = None
        self._device = 0

    @property
    def is_captured(self) -> bool:
        """Whether the graph can be launched."""
        return self._graph is not None

    @property
    def memory(self) -> GraphPool | None:
        """The pool in which the captured work has its memory."""
        return self._pool

    @property
    def is_capturing(self) -> bool:
        """Whether a capture has begun and not ended."""
        return self._stream is not None

    def begin(self, pool: GraphPool | None = None, chains: bool = False) -> None:
        """Begin to capture the current stream, and to allocate in `pool`, by default one of the graph's own.

        chains: launch chains of elementwise kernels as one (`chains_gpu`).
        """
        cupy = _backend.gpu()
        stream = cupy.cuda.get_current_stream()
        self._pool = GraphPool(cupy) if pool is None else pool
        self._device = cupy.cuda.Device().id
        self._allocator = self._pool.allocator()
        self._allocator.__enter__()
        self._stream = stream
        # In another mode a pool could not ask CUDA for memory during the capture.
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeRelaxed)
        capture_gpu.begin(self._pool, Chains(stream.ptr) if chains and may_wait() else None)

    def end(self) -> None:
        """End the capture; the graph can be launched from now on."""
        stream, self._stream = self._stream, None
        capture = self._capture = capture_gpu.end()
        assert capture is not None
        capture.checks = _backend.pending_over_replays(capture.checks, capture.lasting)
        self._allocator.__exit__(None, None, None)
        self._graph = stream.end_capture()
        for worst in capture.checks.values():
            worst.fill(0)
        if capture.checks:
            stream.synchronize()  # replays may be in another stream

    def abandon(self) -> None:
        """End a capture in which something failed, so that the stream can be used."""
        stream, self._stream = self._stream, None
        capture_gpu.end()
        self._allocator.__exit__(None, None, None)
        with contextlib.suppress(_backend.gpu().cuda.runtime.CUDARuntimeError):  # that the capture failed is known
            stream.end_capture()

    def launch(self) -> None:
        """Launch the captured work in the current stream. `OutdatedCaptureError`, with nothing done, if it does not fit."""
        assert self._capture is not None
        with _backend.gpu().cuda.Device(self._device):
            self._capture.renew()
            self._graph.launch()
        _backend.add_pending(self._capture.checks)


def prepare() -> None:
    """Wait for the current GPU, and let it have as much free memory as possible."""
    cupy = _backend.gpu()
    cupy.cuda.Device().synchronize()
    gc.collect()
    cupy.get_default_memory_pool().free_all_blocks()
    free_closed()


@contextlib.contextmanager
def capturing(graph: Graph, stream: Any, pool: GraphPool | None = None, chains: bool = False) -> Iterator[None]:
    """A block whose work on the current GPU is captured, in CuPy's `stream`. pool, chains: as of `Graph.begin`."""
    prepare()
    with stream:
        graph.begin(pool, chains)
        try:
            yield
            launch_waiting()
        except BaseException:
            graph.abandon()
            raise
        graph.end()
