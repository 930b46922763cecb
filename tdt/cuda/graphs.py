"""Graphs of GPU work, which PyTorch records and replays: importable, and refused when one is made."""

from __future__ import annotations

from typing import Any, NoReturn

_REASON = "tdt does not record graphs of GPU work; call the function as it is"


def is_current_stream_capturing() -> bool:
    """Whether work is being recorded into a graph: never.

    >>> is_current_stream_capturing()
    False
    """
    return False


class CUDAGraph:
    """A recorded sequence of GPU work. NotImplementedError: tdt records none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}: {_REASON}")


class graph(CUDAGraph):  # noqa: N801  (PyTorch's name)
    """A block whose work would be recorded. NotImplementedError."""


def graph_pool_handle() -> NoReturn:
    """Handle of a memory pool that graphs share. NotImplementedError."""
    raise NotImplementedError(f"graph_pool_handle: {_REASON}")


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool: Any = None
) -> NoReturn:
    """Functions whose work is recorded and replayed. NotImplementedError."""
    raise NotImplementedError(f"make_graphed_callables: {_REASON}")
