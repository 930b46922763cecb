"""A call of a function of tensors on a GPU as a CUDA graph, which copies its arguments to where it reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tdt import _backend
from tdt._core.tensor import LEAF, Tensor, wrap
from tdt._kernels import copy_gpu
from tdt._kernels.chains_gpu import UnknownWorkError
from tdt._kernels.graph_gpu import Graph, capturing

T = TypeVar("T")
EAGER_CALLS = 3  # before a capture: they fill caches, which a capture cannot


def with_chains(capture: Callable[[bool], T]) -> T:
    """What `capture(chains)` gives, with chains where it can be."""
    try:
        return capture(True)
    except UnknownWorkError:
        return capture(False)


class Captured:
    """`function(places)`, captured and not computed yet.

    Args:
        inputs: tensors on the GPU with the index `gpu`.
        requires: whether each of the places requires gradients; by default none does.
        after: another one, always replayed before and again after this one, with which memory is shared.
        chains: whether chains of elementwise kernels are launched as one.

    Attributes:
        places: tensors from which a replay reads its inputs.
        result: of the function; each replay overwrites its tensors.
    Raises:
        UnknownWorkError: `chains` are to be left out.
        Exception: what the function raises where it reads from the GPU or uploads.
    """

    def __init__(self, function: Callable[[list[Tensor]], Any], inputs: Sequence[Tensor], gpu: int,
                 requires: Sequence[bool] = (), after: Captured | None = None, chains: bool = True) -> None:  # fmt: skip
        self.graph, self.gpu = Graph(), gpu
        pool = None if after is None else after.graph.memory
        with _backend.gpu().cuda.Device(gpu):
            self.places = [wrap(copy_gpu.like(t._a)) for t in inputs]
            for place, required in zip(self.places, requires, strict=False):
                place._edge = LEAF if required else None
            self.stream: Any = _backend.gpu().cuda.Stream(non_blocking=True) if after is None else after.stream
            with capturing(self.graph, self.stream, pool, chains):
                self.result = function(self.places)

    def replay(self, inputs: Sequence[Tensor]) -> None:
        """Compute the result for these inputs. `OutdatedCaptureError`, with nothing done, if the function is another now."""
        with _backend.gpu().cuda.Device(self.gpu):
            copy_gpu.copy([place._a for place in self.places], [t._a for t in inputs])
            self.graph.launch()
