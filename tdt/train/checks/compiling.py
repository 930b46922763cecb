"""Whether the steps of a run are compiled: what they call, or why not and where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tdt import nn
from tdt._compiled.counts import counts
from tdt.train._printable import counted
from tdt.train.config.source import Source
from tdt.train.model.computation import Computation

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts


class Compilation(NamedTuple):
    """What is known about a step. kernels, python: calls of kernels and of Python functions in a compiled one.

    reasons: why it, or some steps, are not compiled. is_graph: whether steps are launched as CUDA graphs.
    """

    kernels: int
    python: int
    reasons: tuple[str, ...]
    is_graph: bool = False

    def __str__(self) -> str:
        if self.is_graph:
            return "compiled steps: yes: a step is one launch of a CUDA graph"
        if not self.kernels + self.python:
            return f"compiled steps: no: {'; '.join(self.reasons)}"
        python = counted(self.python, "Python function")
        some = "".join(f"\nnot for some batches: {reason}" for reason in self.reasons)
        return f"compiled steps: yes: a step calls {counted(self.kernels, 'kernel')} and {python}{some}"


def compilation(parts: Parts, computation: Computation, name: str) -> Compilation | None:
    """What is known about the steps that a function of `computation` computes; None before one is recorded and compared."""
    if computation.reason is not None:
        return Compilation(0, 0, (computation.reason,))
    compiled = computation.compiled[name]
    found = [each.recording for of_kind in compiled.recordings.values() for each in of_kind]
    reasons = tuple(_with_place(parts, reason, module) for reason, module in compiled.refusals.items())
    verified = [counts(recording) for recording in found if recording is not None and recording.verified]
    if not verified:
        return Compilation(0, 0, reasons) if reasons else None
    return Compilation(*max(verified), reasons)


def _with_place(parts: Parts, reason: str, module: nn.Module | None) -> str:
    """A reason with the layer that was running, and its place in the config."""
    if module is None:
        return reason
    name = next((name for name, layer in parts.model.named_modules() if layer is module), None)
    source = next((str(place) for place in _places(parts, name or "")), None)
    layer = f"{type(module).__name__} {name}".strip() if name is not None else type(module).__name__
    return f"{reason}, in the layer {layer}" + (f" ({source})" if source else "")


def _places(parts: Parts, name: str) -> Iterator[Source]:
    """The places in the config of a layer, and of those that it is in."""
    names = name.split(".") if name else []
    for length in range(len(names), -1, -1):
        layer = parts.model.get_submodule(".".join(names[:length]))
        if layer in parts.sources:
            yield parts.sources[layer].source
