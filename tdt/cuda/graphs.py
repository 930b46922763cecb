"""CUDA graphs, which tdt does not support: the names can be imported, using them raises NotImplementedError."""

from __future__ import annotations

from typing import Any, NoReturn

_REASON = "tdt does not record graphs of GPU work; call the function as it is"


def is_current_stream_capturing() -> bool:
    """Whether the current stream is capturing a CUDA graph: False.

    >>> import tdt
    >>> tdt.cuda.is_current_stream_capturing()
    False
    """
    return False


class CUDAGraph:
    """CUDA graph, not supported: raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}: {_REASON}")


class graph(CUDAGraph):
    """Context manager that captures a CUDA graph, not supported: raises NotImplementedError."""


def graph_pool_handle() -> NoReturn:
    """Handle of a memory pool for CUDA graphs, not supported: raises NotImplementedError."""
    raise NotImplementedError(f"graph_pool_handle: {_REASON}")


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool: Any = None
) -> NoReturn:
    """Callables captured as CUDA graphs, not supported: raises NotImplementedError."""
    raise NotImplementedError(f"make_graphed_callables: {_REASON}")
