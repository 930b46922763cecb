"""The graph of a model for TensorBoard: every op of one forward pass, in the scopes of the modules that called it.

A node is named after its scope, `Net/Sequential[features]/Conv2d[0]/conv`, and carries the op's settings and the shapes of
its results. Parameters and buffers stand in the scope of the module that owns them.
"""

from __future__ import annotations

import contextlib
import inspect
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.types_pb2 import DataType
from tensorboard.compat.proto.versions_pb2 import VersionDef

from tdt import Tensor
from tdt._core.mode import handling, no_grad, state
from tdt._core.tensor import Storage
from tdt.autograd._dispatch import apply
from tdt.nn import Module
from tdt.utils._evaluating import evaluating
from tdt.utils._nested import tensors_in
from tdt.utils.tensorboard.summary._common import shape_proto

_PRODUCER = 22  # the version of GraphDef that TensorBoard reads


def model_graph(model: Module, inputs: Any) -> GraphDef:
    """Run `model` once in evaluation mode on `inputs` (a tensor or a tuple of all arguments), and return its graph.

    Does not change the model: restores its training modes, and records no gradients.
    """
    args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    trace = _Trace(model)
    trace.name_inputs(model, args)
    with evaluating(model), _scopes(model, trace), no_grad(), handling(trace.handle, state.meta):
        outputs = model(*args)
    for number, tensor in enumerate(tensors_in(outputs), 1):
        trace.add(f"output/output.{number}", "IO Node", [trace.producer(tensor)], [tensor])
    return GraphDef(node=_of_use(trace.nodes), versions=VersionDef(producer=_PRODUCER))


def _of_use(nodes: list[NodeDef]) -> list[NodeDef]:
    """The nodes on a path to an output; drops others, such as conditions of loops."""
    needed = {node.name for node in nodes if node.op == "IO Node"}
    for node in reversed(nodes):
        if node.name in needed:
            needed.update(source.split(":")[0] for source in node.input)
    return [node for node in nodes if node.name in needed]


class _Trace:
    """Records the nodes of a forward pass, and the node that produced each tensor."""

    def __init__(self, model: Module) -> None:
        self.nodes: list[NodeDef] = []
        self.proceed = state.handler  # an outer handler runs after this one
        self.path: list[str] = []
        self.scopes = _scope_names(model)
        self.produced: dict[int, tuple[Tensor, int, str]] = {}  # by id: the tensor (kept alive), its version, its node
        self.stored: dict[int, str] = {}  # by storage: the last node that wrote to it, for in-place ops
        self.arrays: dict[int, str] = {}  # by array: shared by `x.data` and `out=`
        self.writes: dict[
            int, tuple[str, int]
        ] = {}  # by storage: a node that may write to it in place, and the version before
        self.owned = {
            id(tensor): (tensor, f"{self.scopes[module]}/{name}", kind)
            for module in self.scopes
            for kind, own in (("Parameter", module._parameters), ("Buffer", module._buffers))
            for name, tensor in own.items()
            if tensor is not None
        }
        self.uses: Counter[str] = Counter()

    def name_inputs(self, model: Module, args: tuple[Any, ...]) -> None:
        names = [*inspect.signature(model.forward).parameters]
        for number, arg in enumerate(args):
            name = names[number] if number < len(names) else str(number)
            for tensor in tensors_in(arg):
                if id(tensor) not in self.produced:  # a tensor may be passed several times, as in self-attention
                    self.add(f"input/{name}", "IO Node", [], [tensor])

    def handle(self, op: Any, operands: tuple, attributes: dict, target: Any) -> Any:
        """Dispatch handler: run an op, and add its node."""
        first = operands[0] if operands and isinstance(operands[0], Tensor) else None
        if op.view or id(first) in self.produced:
            first = None  # not in place: an in-place op gets a new alias of its tensor
        sources = [self.producer(x) for x in operands if isinstance(x, Tensor)]
        with handling(self.proceed, state.meta):
            result = apply(op, operands, attributes, target)
        settings = {**{k: v for k, v in attributes.items() if not callable(v)},
                    **{name: x for name, x in zip(op.operands, operands, strict=False)
                       if isinstance(x, (bool, int, float))}}  # fmt: skip
        name = self.add(f"{self.scope}/{op.name.strip('_')}", op.name.strip("_"), sources, tensors_in(result), settings)
        if first is not None:
            self.written(first._st)
            self.writes[id(first._st)] = name, first._st.version
        return result

    @property
    def scope(self) -> str:
        """The scope of the running module."""
        return self.path[-1] if self.path else next(iter(self.scopes.values()))

    def producer(self, tensor: Tensor) -> str:
        """The name of the node that produced `tensor`; adds a node for a parameter or constant at its first use."""
        found = self.produced.get(id(tensor))
        if found is not None and found[1] == tensor._st.version:
            return found[2]
        known = self.written(tensor._st) or self.arrays.get(id(tensor._a))
        if known is not None:
            return known
        _, name, kind = self.owned.get(id(tensor), (tensor, f"{self.scope}/Constant", "Constant"))
        return self.add(name, kind, [], [tensor])

    def written(self, storage: Storage) -> str | None:
        """The node that last wrote to `storage`, if known: a pending in-place op if the version has changed since."""
        name, before = self.writes.get(id(storage), ("", storage.version))
        if storage.version > before:
            self.stored[id(storage)] = name
        return self.stored.get(id(storage))

    def add(
        self, name: str, op: str, sources: list[str], outputs: list[Tensor], settings: dict[str, Any] | None = None
    ) -> str:
        """Add a node with a unique name, and record it as the producer of `outputs`."""
        self.uses[name] += 1
        if self.uses[name] > 1:
            name = f"{name}_{self.uses[name] - 1}"
        shapes = AttrValue.ListValue(shape=[shape_proto(tuple(tensor.shape)) for tensor in outputs])
        attributes = {"_output_shapes": AttrValue(list=shapes)}
        if outputs:
            attributes["dtype"] = AttrValue(type=_data_type(outputs[0]))
        if settings:
            attributes["attr"] = AttrValue(s=str(settings).replace("'", " ").encode())
        self.nodes.append(NodeDef(name=name, op=op, input=sources, attr=attributes))
        for number, tensor in enumerate(outputs):
            source = f"{name}:{number}" if number else name
            self.produced[id(tensor)] = (tensor, tensor._st.version, source)
            self.stored.setdefault(id(tensor._st), source)
            self.arrays[id(tensor._a)] = source
        return name


def _scope_names(model: Module) -> dict[Module, str]:
    """The scope of each module: the classes and names of its parents, of a config's block its name in place of the class."""

    def kind(module: Module) -> str:
        return str(getattr(module, "graph_name", type(module).__name__))

    names = {model: kind(model)}
    waiting = [model]
    while waiting:
        parent = waiting.pop()
        for name, child in parent.named_children():
            if child not in names:
                names[child] = f"{names[parent]}/{kind(child)}[{name}]"
                waiting.append(child)
    return names


@contextlib.contextmanager
def _scopes(model: Module, trace: _Trace) -> Iterator[None]:
    """Keep the scope of the running module at the end of `trace.path`, with hooks."""
    handles = [
        handle
        for module, scope in trace.scopes.items()
        for handle in (
            module.register_forward_pre_hook(lambda *_, scope=scope: trace.path.append(scope), prepend=True),
            module.register_forward_hook(lambda *_: _leave(trace), always_call=True),
        )
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _leave(trace: _Trace) -> None:
    trace.path.pop()


def _data_type(tensor: Tensor) -> int:
    name = str(tensor.dtype).rpartition(".")[2]
    known = {"float16": "HALF", "float32": "FLOAT", "float64": "DOUBLE"}
    return DataType.Value(f"DT_{known.get(name, name.upper())}")
