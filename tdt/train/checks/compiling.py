"""Whether the steps of a run are compiled: what they call, or why not and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tdt import nn
from tdt._compiled.counts import counts
from tdt._compiled.function import Compiled
from tdt._compiled.recording import Recording
from tdt.train._printable import counted
from tdt.train.config.source import Source
from tdt.train.model.computation import Computation

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts


class Compilation(NamedTuple):
    """What is known about a step. kernels, python: calls of kernels and of Python functions in a compiled one.

    reasons: why it, or some steps, are not compiled. is_graph: whether steps are launched as CUDA graphs. parts: how many
    functions a compiled step is, between which gradients are counted, checked, or sent to other processes.
    """

    kernels: int
    python: int
    reasons: tuple[str, ...]
    is_graph: bool = False
    parts: int = 1

    def __str__(self) -> str:
        some = "".join(f"\nnot for some batches: {reason}" for reason in self.reasons)
        if self.is_graph:
            launches = (
                "one launch of a CUDA graph" if self.parts == 1 else f"launched as CUDA graphs, in {self.parts} parts"
            )
            return f"compiled steps: yes: a step is {launches}{some}"
        if not self.kernels + self.python:
            return f"compiled steps: no: {'; '.join(self.reasons)}"
        python = counted(self.python, "Python function")
        parts = "" if self.parts == 1 else f", in {self.parts} parts"
        return f"compiled steps: yes: a step calls {counted(self.kernels, 'kernel')} and {python}{parts}{some}"


def compilation(parts: Parts, computation: Computation, names: Sequence[str]) -> Compilation | None:
    """What is known about the steps that functions of `computation` compute; None before all are recorded and compared."""
    each = [computation.compiled[name] for name in names if name in computation.compiled]
    reasons = tuple(_with_place(parts, reason, module) for one in each for reason, module in one.refusals.items())
    if each and all(map(_is_graph, each)):
        return Compilation(0, 0, reasons, is_graph=True, parts=len(names))
    if computation.reason is not None:
        return (Compilation(0, 0, reasons) if reasons else None) if each else Compilation(0, 0, (computation.reason,))
    called = [max(_counts(one), default=None) for one in each]
    if None in called or len(called) < len(names):
        return Compilation(0, 0, reasons) if reasons else None
    kernels, python = map(sum, zip(*filter(None, called), strict=True))
    return Compilation(kernels, python, reasons, parts=len(names))


def _is_graph(compiled: Compiled) -> bool:
    """Whether calls of a function are launched as CUDA graphs."""
    recordings = (each.recording for of_kind in compiled.recordings.values() for each in of_kind)
    return any(each is not None and each.is_graph and each.verified for each in recordings)


def _counts(compiled: Compiled) -> Iterator[tuple[int, int]]:
    """The calls of kernels and of Python functions in each recording that was compared."""
    for recording in (each.recording for of_kind in compiled.recordings.values() for each in of_kind):
        if isinstance(recording, Recording) and recording.verified:
            yield counts(recording)


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
