"""`tdt.onnx.export`: trace a model with several sizes of its dynamic dimensions, convert it, and write the file."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import Tensor
from tdt._core.tensor import wrap
from tdt._files import replacing, write_whole
from tdt.nn import Module
from tdt.onnx._check import check, needs
from tdt.onnx._sizes import Size, corners, polynomial
from tdt.onnx._trace import OnnxExporterError, Trace, trace
from tdt.utils._evaluating import evaluating
from tdt.utils._nested import tensors_in

if TYPE_CHECKING:
    import onnx

OPSET = 20
OPSETS = range(20, 24)
MOST_BYTES = (
    2**31 - 2**20
)  # of a protobuf message, with room for the graph; larger models keep their weights in a file beside

Axes = Mapping[int, str]


class ONNXProgram:
    """An exported model.

    Attributes:
        model_proto: the model as a protobuf message of the package onnx.
    """

    def __init__(self, model_proto: onnx.ModelProto) -> None:
        self.model_proto = model_proto

    def save(self, destination: str | os.PathLike[str]) -> None:
        """Write the model to a file, which is the old or the complete new one after a crash.

        A model of 2 GiB or more does not fit into a file of that format: its weights go to `<destination>.data` beside it.

        Raises:
            OSError: the file cannot be written.
        """
        path = Path(destination)
        if self.model_proto.ByteSize() < MOST_BYTES:
            data = self.model_proto.SerializeToString()
        else:
            data = _beside(self.model_proto, path.with_name(f"{path.name}.data"))
        with replacing(path, buffering=0) as file:
            write_whole(file, data)

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        inputs, outputs = ([value.name for value in values] for values in (graph.input, graph.output))
        return f"ONNXProgram({', '.join(inputs)} -> {', '.join(outputs)}; {len(graph.node)} nodes)"


def _beside(model: onnx.ModelProto, path: Path) -> bytes:
    """Write the large weights of a model to `path`; the message of the model, which names that file."""
    import onnx

    small = onnx.ModelProto()
    small.CopyFrom(model)
    offset = 0
    with replacing(path, buffering=0) as file:
        for tensor in small.graph.initializer:
            if len(tensor.raw_data) < 1024:
                continue
            onnx.external_data_helper.set_external_data(tensor, path.name, offset, len(tensor.raw_data))
            write_whole(file, tensor.raw_data)
            offset += len(tensor.raw_data)
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
    return small.SerializeToString()


def export(
    model: Module,
    args: tuple[Any, ...] | Tensor = (),
    f: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
    optimize: bool = True,
    verify: bool = False,
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Axes | Sequence[int]] | None = None,
    do_constant_folding: bool = True,
    metadata: Mapping[str, str] | None = None,
) -> ONNXProgram:
    """Export a model to ONNX: its ops in evaluation mode, and its parameters under their names in the state_dict.

    The model runs on `args`, and on inputs of a few other sizes of the dynamic dimensions. What depends on values in another
    way than through ops, such as `if x.sum() > 0`, is as it was for `args`.

    Args:
        args: the positional arguments of the model, as a tuple; one tensor may stand alone.
        f: the file to write; None only returns the program.
        kwargs: the keyword arguments of the model.
        verbose: print the graph.
        input_names: of the tensors among the arguments, in order; by default the parameters' names of `forward`.
        output_names: of the tensors that the model returns, in order; by default "output", or their keys.
        opset_version: 20 to 23; by default 20.
        dynamic_shapes: which dimensions may have other sizes than in `args`: for each argument, by name or in order, its
            dynamic dimensions with a name each, as in {"x": {0: "batch"}}. Without it all sizes are fixed.
        verify: run the model in onnxruntime on `args`, and compare.
        dynamic_axes: the same by input name, as in {"x": {0: "batch"}} or {"x": [0]}.
        metadata: entries of the model's `metadata_props`.
        dynamo, external_data, optimize, do_constant_folding: have no effect. What does not depend on the inputs is always
            computed before; weights are beside the file where they must be, from 2 GiB on.
        export_params, keep_initializers_as_inputs: only their defaults are supported.
    Returns:
        The program, with the message of the model in `model_proto`.
    Raises:
        OnnxExporterError: an op of the model has no form in ONNX, or depends on the dynamic dimensions in a way that ONNX
            cannot express; the message names the module and the op. With `verify`, also if the results differ.
        ValueError: an argument is not supported, names do not fit, or the model is not on the CPU.
        ImportError: the package onnx is not installed.

    >>> import tdt, tempfile
    >>> path = tempfile.mkdtemp() + "/model.onnx"
    >>> model = tdt.nn.Sequential(tdt.nn.Linear(4, 8), tdt.nn.ReLU(), tdt.nn.Linear(8, 2))
    >>> tdt.onnx.export(model, tdt.ones(1, 4), path, input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    ONNXProgram(x -> output; 4 nodes)
    """
    needs("onnx", "tdt.onnx.export")
    opset = OPSET if opset_version is None else opset_version
    if opset not in OPSETS:
        raise ValueError(f"export: opset_version must be from {OPSETS[0]} to {OPSETS[-1]}, got {opset_version}")
    if not export_params or keep_initializers_as_inputs:
        raise ValueError(
            "export: export_params=False and keep_initializers_as_inputs=True are not supported: parameters are initializers"
        )
    if not isinstance(model, Module):
        raise TypeError(f"export: model must be a tdt.nn.Module, got {type(model).__name__}")
    arguments = (args,) if isinstance(args, Tensor) else tuple(args)
    if any(tensor.device.type != "cpu" for tensor in (*model.parameters(), *model.buffers())):
        raise ValueError("export: model must be on the CPU; call model.cpu() before")
    called = Arguments(model, arguments, dict(kwargs or {}), input_names)
    dynamic = called.dynamic_dimensions(dynamic_shapes, dynamic_axes)
    program = program_of(model, called, dynamic, output_names, opset, metadata or {})
    if verbose:
        import onnx

        print(onnx.printer.to_text(program.model_proto))
    if verify:
        check(program.model_proto, model, [(arguments, dict(kwargs or {}))])
    if f is not None:
        program.save(f)
    return program


class Arguments:
    """The arguments of a model, and the names of the tensors among them."""

    def __init__(
        self, model: Module, args: tuple[Any, ...], kwargs: dict[str, Any], names: Sequence[str] | None
    ) -> None:
        self.args, self.kwargs = args, kwargs
        try:
            bound = inspect.signature(model.forward).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"export: args do not fit {type(model).__name__}.forward: {error}") from None
        self.arguments = dict(_spread(model, bound.arguments))
        self.tensors = tensors_in(self.arguments)
        if not self.tensors:
            raise ValueError("export: args has no tensor, of which the graph would be a function")
        self.names = list(_default_names(self.arguments) if names is None else names)
        if len(self.names) != len(self.tensors):
            raise ValueError(
                f"export: input_names has {len(self.names)} names, but the arguments have {len(self.tensors)} tensors"
            )
        if len(set(map(id, self.tensors))) < len(self.tensors):
            raise ValueError("export: one tensor is given twice; pass a clone, so that each has a name of its own")

    def dynamic_dimensions(self, shapes: Any, axes: Any) -> dict[str, list[tuple[int, int]]]:
        """For each name of a dynamic dimension, the (tensor, axis) that have it."""
        if shapes is not None and axes is not None:
            raise ValueError("export: give dynamic_shapes or dynamic_axes, not both")
        found: dict[str, list[tuple[int, int]]] = {}
        for number, entry in self._entries(shapes, axes):
            name, rank = self.names[number], self.tensors[number].ndim
            named = entry.items() if isinstance(entry, Mapping) else ((axis, None) for axis in entry)
            for axis, label in named:
                if not isinstance(axis, int) or not -rank <= axis < rank:
                    raise ValueError(f"export: input {name!r} has {rank} dimensions, so {axis!r} is none of them")
                text = str(getattr(label, "__name__", label) or f"{name}_dim_{axis % rank}")
                found.setdefault(text, []).append((number, axis % rank))
        return found

    def _entries(self, shapes: Any, axes: Any) -> Iterator[tuple[int, Any]]:
        """(tensor, its dynamic axes) for each entry of the two arguments; entries of outputs need none."""
        if axes is not None:
            for name, entry in axes.items():
                if name in self.names:
                    yield self.names.index(name), entry
            return
        entries = shapes or {}
        if not isinstance(entries, Mapping):
            entries = dict(zip(self.arguments, entries, strict=False))
        for name, entry in entries.items():
            if name not in self.arguments:
                known = ", ".join(self.arguments)
                raise ValueError(f"export: dynamic_shapes names {name!r}; the arguments are {known}")
            own = [
                number for number, t in enumerate(self.tensors) if any(t is x for x in tensors_in(self.arguments[name]))
            ]
            parts = [entry] if isinstance(self.arguments[name], Tensor) else _leaves(entry)
            if entry is None:
                continue
            if len(parts) != len(own):
                raise ValueError(f"export: dynamic_shapes[{name!r}] has {len(parts)} entries for {len(own)} tensors")
            for number, part in zip(own, parts, strict=True):
                if part:
                    if not isinstance(part, Mapping):
                        part = {axis: label for axis, label in enumerate(part) if label is not None}
                    yield number, {axis: label for axis, label in part.items() if label is not None}

    def at(self, sizes: Mapping[tuple[int, int], int]) -> tuple[tuple[Any, ...], dict[str, Any], list[Tensor]]:
        """The arguments with other sizes of some (tensor, axis), and the tensors among them."""
        resized = []
        for number, tensor in enumerate(self.tensors):
            array = tensor.detach().cpu().numpy()
            for (which, axis), size in sizes.items():
                if which == number:
                    array = np.take(array, np.arange(size) % array.shape[axis], axis)
            resized.append(wrap(np.array(array)))
        waiting = iter(resized)
        whole = _mapped({"args": self.args, "kwargs": self.kwargs}, waiting)
        return whole["args"], whole["kwargs"], resized


def _spread(model: Module, arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The arguments by name, those of *args and **kwargs too."""
    kinds = inspect.signature(model.forward).parameters
    for name, value in arguments.items():
        if kinds[name].kind is inspect.Parameter.VAR_POSITIONAL:
            yield from ((f"{name}_{i}", item) for i, item in enumerate(value))
        elif kinds[name].kind is inspect.Parameter.VAR_KEYWORD:
            yield from value.items()
        else:
            yield name, value


def _leaves(value: Any) -> list[Any]:
    """The entries of nested tuples and lists; a mapping from axes is one."""
    if isinstance(value, (tuple, list)) and any(isinstance(item, (tuple, list, Mapping)) for item in value):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _default_names(arguments: Mapping[str, Any]) -> Iterator[str]:
    for name, value in arguments.items():
        tensors = tensors_in(value)
        yield from (name if isinstance(value, Tensor) else f"{name}_{i}" for i in range(len(tensors)))


def _mapped(value: Any, tensors: Iterator[Tensor]) -> Any:
    """Nested tuples, lists and dicts with the next of `tensors` in the place of each tensor."""
    if isinstance(value, Tensor):
        return next(tensors)
    if isinstance(value, dict):
        return {key: _mapped(item, tensors) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [_mapped(item, tensors) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def program_of(
    model: Module,
    called: Arguments,
    dynamic: dict[str, list[tuple[int, int]]],
    output_names: Sequence[str] | None,
    opset: int,
    metadata: Mapping[str, str],
    root: Module | None = None,
) -> ONNXProgram:
    """The exported model. root: the module whose names parameters and ops have, by default `model`."""
    from tdt.onnx._convert import Converter
    from tdt.onnx._graph import Graph, model_of

    sizes, traces = _traces(model, called, dynamic, root)
    for traced in traces:
        for value, name in zip(traced.inputs, called.names, strict=True):
            value.name = name
    graph = Graph(sizes, [(called.names[places[0][0]], places[0][1]) for places in dynamic.values()])
    names = _output_names(traces[0], output_names)
    results = Converter(graph, traces).convert(names)
    symbols = list(dynamic)

    def written(shape: Sequence[Any]) -> list[Any]:
        return [n if isinstance(n, int) else _named(n, sizes, symbols) for n in shape]

    inputs = []
    for number, (value, name) in enumerate(zip(traces[0].inputs, called.names, strict=True)):
        at = {axis: symbol for symbol, places in dynamic.items() for which, axis in places if which == number}
        inputs.append((name, value.dtype, [at.get(axis, n) for axis, n in enumerate(value.shape)]))
    outputs = [(ref.name, ref.dtype, written(ref.shape or ())) for ref in results]
    return ONNXProgram(model_of(graph, type(root or model).__name__, inputs, outputs, opset, dict(metadata)))


def _traces(
    model: Module, called: Arguments, dynamic: Mapping[str, Sequence[tuple[int, int]]], root: Module | None
) -> tuple[list[tuple[int, ...]], list[Trace]]:
    """The sizes of the dynamic dimensions in each trace, and the traces."""
    starts = []
    for places in dynamic.values():
        number, axis = places[0]
        n = called.tensors[number].shape[axis]
        starts.append(2 if axis == 0 else max(2, n))
    sizes = corners(starts)
    traces = []
    with evaluating(model):
        for row in sizes:
            at = {place: n for places, n in zip(dynamic.values(), row, strict=True) for place in places}
            args, kwargs, tensors = called.at(at)
            traces.append(trace(model, args, kwargs, tensors, root))
    return sizes, traces


def _named(size: Size, sizes: Sequence[tuple[int, ...]], symbols: Sequence[str]) -> str:
    """A dynamic size of an output: the name of the dimension, or what it is computed from."""
    terms = polynomial(size.values, sizes) or {}
    if not terms:
        return "unknown"
    parts = ["*".join([*([str(c)] if c != 1 or not s else []), *(symbols[i] for i in s)]) for s, c in terms.items()]
    return " + ".join(parts)


def _output_names(traced: Trace, names: Sequence[str] | None) -> list[str]:
    found = [name for name, _ in traced.outputs]
    if not found:
        raise OnnxExporterError("the model returns no tensor")
    if names is not None:
        if len(names) != len(found):
            raise ValueError(f"export: output_names has {len(names)} names, but the model returns {len(found)} tensors")
        return list(names)
    if len(found) == 1:
        return [found[0] or "output"]
    plain = [name or f"output_{i}" for i, name in enumerate(found)]
    return [name if plain.count(name) == 1 else f"{name}_{i}" for i, name in enumerate(plain)]
