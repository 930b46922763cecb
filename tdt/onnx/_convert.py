"""From the traces of a model to an ONNX model: which values differ between them, which calls are needed, and their nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tdt.onnx import _elementwise, _layers, _reductions, _shapes  # noqa: F401  (they fill the table)
from tdt.onnx._elementwise import formula_of
from tdt.onnx._forms import FORMS
from tdt.onnx._graph import Formulas, Graph, Ref, Shape, Unsupported, check_known
from tdt.onnx._sizes import same
from tdt.onnx._trace import OnnxExporterError, Trace, Value


@dataclass(frozen=True)
class Output:
    """What a call gives: as its form may ask of `graph.outputs`."""

    shape: Shape
    dtype: np.dtype


class Converter:
    """Writes the calls of a model's traces into a graph.

    Args:
        traces: of one model, with the sizes of the dynamic dimensions that `graph.sizes` has.
        names: of parameters and buffers in the graph, by the names of the traces.
    """

    def __init__(self, graph: Graph, traces: Sequence[Trace]) -> None:
        self.graph, self.traces, self.first = graph, traces, traces[0]
        self.refs: dict[int, Ref] = {}  # by the number of the value
        self.constants: dict[int, bool] = {}
        self._check_alike()

    def _check_alike(self) -> None:
        """The same ops on the same values in every trace, else the program depends on the dynamic dimensions."""
        for trace in self.traces[1:]:
            for ours, theirs in zip(self.first.calls, trace.calls, strict=False):
                if ours.op is not theirs.op or _numbers(ours.operands) != _numbers(theirs.operands):
                    raise OnnxExporterError(
                        f"{ours.module or 'the model'}: calls {ours.op.name} for one size of the dynamic dimensions and "
                        f"{theirs.op.name} for another; export it with fixed sizes"
                    )
            if len(self.first.calls) != len(trace.calls) or len(self.first.outputs) != len(trace.outputs):
                raise OnnxExporterError(
                    f"the model calls {len(self.first.calls)} ops for one size of the dynamic dimensions and "
                    f"{len(trace.calls)} for another; export it with fixed sizes"
                )

    def convert(self, names: Sequence[str]) -> list[Ref]:
        """Add all that the outputs need, and the outputs under their names."""
        owned = [value.name for value in self.first.values if value.name]  # inputs, parameters and buffers
        for name in (*owned, *names):
            if self.graph.unique(name) != name:
                raise ValueError(f"export: two of inputs, outputs, parameters and buffers are named {name!r}")
        for value in self.first.inputs:
            self.refs[value.number] = Ref(self.graph, value.name, value.dtype, self.shape(value))
        for number in sorted(self._needed()):
            self._write(number)
        results = []
        for name, (_, value) in zip(names, self.first.outputs, strict=True):
            self.graph.module = ""
            found = self.graph.op("Identity", self.ref(value), shape=self.shape(value))
            self.graph.nodes[-1].output[0] = name
            results.append(Ref(self.graph, name, found.dtype, found.shape))
        return results

    def shape(self, value: Value) -> Shape:
        """The shape of a value; sizes that differ between the traces are Sizes."""
        return same([trace.values[value.number].shape for trace in self.traces])

    def _needed(self) -> Iterable[int]:
        """The numbers of the calls that the outputs need."""
        needed: set[int] = set()
        waiting = [value for _, value in self.first.outputs]
        while waiting:
            value = waiting.pop()
            if value.call is None or value.call in needed or self._is_constant(value):
                continue
            needed.add(value.call)
            waiting += [x for x in self.first.calls[value.call].operands if isinstance(x, Value)]
        return needed

    def _is_constant(self, value: Value) -> bool:
        """Whether the value is written as an initializer, or as one that is repeated to a dynamic shape."""
        if value.array is None:
            return False
        if value.number not in self.constants and self._is_view_of_parameter(value):
            self.constants[value.number] = False  # the graph has the parameter, once
        if value.number not in self.constants:
            arrays = self._arrays(value)
            alike = all(a is arrays[0] or np.array_equal(a, arrays[0], equal_nan=_has_nan(a)) for a in arrays[1:])
            self.constants[value.number] = alike or _repeated(arrays) is not None or _range(arrays) is not None
        return self.constants[value.number]

    def _is_view_of_parameter(self, value: Value) -> bool:
        if value.call is None or not self.first.calls[value.call].op.view:
            return False
        source = self.first.calls[value.call].operands[0]
        return bool(source.name) or self._is_view_of_parameter(source)

    def _arrays(self, value: Value) -> list[Any]:
        return [trace.values[value.number].array for trace in self.traces]

    def ref(self, value: Value) -> Ref:
        """The tensor of the graph that has a value."""
        found = self.refs.get(value.number)
        if found is None:
            if value.array is None and value.call is not None:
                call = self.first.calls[value.call]
                output = call.op.outputs[value.place]
                raise OnnxExporterError(
                    f"{call.module or 'the model'}: output {output!r} of op {call.op.name} has no form in ONNX"
                )
            if not self._is_constant(value):
                raise OnnxExporterError(
                    f"a constant of shape {tuple(value.shape)} differs with the dynamic dimensions; compute it from an input, "
                    "or export the model with fixed sizes"
                )
            found = self.refs[value.number] = self._constant(value)
        return found

    def _constant(self, value: Value) -> Ref:
        arrays = self._arrays(value)
        alike = all(a.shape == arrays[0].shape for a in arrays)
        if alike and all(np.array_equal(a, arrays[0], equal_nan=_has_nan(a)) for a in arrays[1:]):
            if value.name:
                return self.graph.initializer(value.name, arrays[0])
            return self.graph.ref(np.asarray(arrays[0]))
        module, self.graph.module = self.graph.module, ""
        shape, part = self.shape(value), _repeated(arrays)
        if part is None:
            start, step = _range(arrays) or (0, 1)
            stop = start + step * shape[0]
            parts = [self.graph.ref(n, value.dtype) for n in (start, stop, step)]
            out = self.graph.op("Range", *parts, dtype=value.dtype, shape=shape)
        else:
            out = self.graph.op("Expand", self.graph.ref(part), self.graph.shape(shape), shape=shape)
        self.graph.module = module
        return out

    def _write(self, number: int) -> None:
        """Add the nodes of a call."""
        call = self.first.calls[number]
        graph, where = self.graph, call.module or "the model"
        graph.module = call.module.replace(".", "/")
        form = FORMS.get(call.op.name) or formula_of(call.op)
        if form is None:
            raise OnnxExporterError(f"{where}: op {call.op.name} has no form in ONNX")
        try:
            graph.outputs = [Output(self.shape(value), value.dtype) for value in call.outputs]
            results = form(graph, *self._operands(number), **self._attributes(number))
        except Unsupported as reason:
            raise OnnxExporterError(f"{where}: op {call.op.name} {reason}") from None
        except AttributeError as error:
            if not isinstance(error.obj, (Formulas, Ref)):
                raise
            raise OnnxExporterError(f"{where}: op {call.op.name} has no form in ONNX: it needs {error.name}") from None
        results = results if isinstance(results, (list, tuple)) else [results]
        for value, result, output in zip(call.outputs, results, graph.outputs, strict=False):
            result = graph.cast(graph.ref(result), output.dtype)
            self.refs[value.number] = Ref(graph, result.name, output.dtype, output.shape)

    def _operands(self, number: int) -> list[Any]:
        """The operands as tensors of the graph, converted as dispatch converts them."""
        call = self.first.calls[number]
        others = [trace.calls[number].operands for trace in self.traces]
        refs = [
            self.ref(x) if isinstance(x, Value) else same([o[i] for o in others]) for i, x in enumerate(call.operands)
        ]
        for x in refs:
            check_known(x, "an operand")
        plain = next(
            (x.dtype for x, cast in zip(refs, call.casts, strict=True) if isinstance(x, Ref) and cast is None), None
        )
        operands = []
        for x, cast in zip(refs, call.casts, strict=True):
            dtype = cast if isinstance(cast, np.dtype) else plain if cast is not None else None
            operands.append(self.graph.cast(x, dtype) if isinstance(x, Ref) and dtype is not None else x)
        return operands

    def _attributes(self, number: int) -> dict[str, Any]:
        """The attributes of a call; what differs between the traces is a Size."""
        calls = [trace.calls[number] for trace in self.traces]
        found = {name: same([call.attributes[name] for call in calls]) for name in calls[0].attributes}
        for name, value in found.items():
            if name != "shape" and (
                name != "sizes" or calls[0].op.name == "split"
            ):  # which the outputs' shapes say better
                check_known(value, name)
        return found


def _numbers(operands: Sequence[Any]) -> list[Any]:
    """Operands of a call, to compare with those of another trace: values by number, of others the type."""
    return [x.number if isinstance(x, Value) else type(x) for x in operands]


def _has_nan(array: Any) -> bool:
    return array.dtype.kind in "fc" and bool(np.isnan(array).any())


def _repeated(arrays: Sequence[Any]) -> Any:
    """What constants repeat along the dimensions whose sizes differ, which have size 1 in it; None if they do not."""
    if any(a.ndim != arrays[0].ndim or not a.size for a in arrays):
        return None
    varies = [len(set(sizes)) > 1 for sizes in zip(*(a.shape for a in arrays), strict=True)]
    parts = [a[tuple([slice(0, 1) if v else slice(None) for v in varies])] for a in arrays]
    part = parts[0]
    nan = _has_nan(part)
    alike = all(np.array_equal(other, part, equal_nan=nan) for other in parts[1:])
    return (
        part
        if alike and all(np.array_equal(a, np.broadcast_to(part, a.shape), equal_nan=nan) for a in arrays)
        else None
    )


def _range(arrays: Sequence[Any]) -> tuple[Any, Any] | None:
    """(start, step) of vectors that all count from the start by the step; None for others."""
    longest = max(arrays, key=lambda a: a.size)
    if longest.ndim != 1 or longest.size < 2 or longest.dtype.kind not in "if" or any(a.ndim != 1 for a in arrays):
        return None
    start, step = longest[0].item(), (longest[1] - longest[0]).item()
    counted = [start + step * np.arange(len(a)) for a in arrays]
    return (start, step) if all(map(np.array_equal, arrays, counted)) else None
