"""One run of a model as a list of op calls: what the graph of an exported model is made of.

A handler in the dispatch slot records every op with the values that it takes and gives. Values that do not depend on the
inputs are constants, and known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tdt import Tensor
from tdt._core.mode import handling, no_grad, real, state
from tdt._core.tensor import Storage
from tdt.autograd._dispatch import apply
from tdt.autograd._plan import make_plan
from tdt.nn import Module


class OnnxExporterError(RuntimeError):
    """A model cannot be exported; the message names the module and the op."""


@dataclass(eq=False)
class Value:
    """A tensor of the traced program.

    Attributes:
        number: its place among all values of the trace.
        array: what it holds, for a constant; None for what depends on the inputs.
        name: of an input, a parameter or a buffer; else "".
        call: the call that gave it, None for inputs and for constants from outside.
        place: among the outputs of that call.
    """

    number: int
    shape: tuple[int, ...]
    dtype: np.dtype
    array: np.ndarray | None = None
    name: str = ""
    call: int | None = None
    place: int = 0


@dataclass(eq=False)
class Call:
    """A call of an op: `operands` are values, numbers or None; `casts` the type that each is converted to first, or None."""

    op: Any
    operands: list[Any]
    casts: Sequence[Any]
    attributes: dict[str, Any]
    module: str
    outputs: list[Value] = field(default_factory=list)


@dataclass
class Trace:
    """A traced run: `outputs` by name, in the order in which the model returns them."""

    values: list[Value]
    calls: list[Call]
    inputs: list[Value]
    outputs: list[tuple[str, Value]]


def trace(
    model: Module, args: Sequence[Any], kwargs: Mapping[str, Any], named: Sequence[Tensor], root: Module | None = None
) -> Trace:
    """Run `model` once on `args` and `kwargs`, and record its ops.

    Args:
        named: the tensors that are inputs of the graph.
        root: the module whose names parameters and ops have, by default `model`.
    """
    root = root or model
    recorder = _Recorder(root)
    inputs = [recorder.add(tensor) for tensor in named]
    with _module_paths(root, recorder), no_grad(), handling(recorder.handle):
        outputs = model(*args, **kwargs)
    found = [(name, recorder.value(tensor)) for name, tensor in _named_tensors(outputs, "")]
    return Trace(recorder.values, recorder.calls, inputs, found)


def _named_tensors(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a model's result, with the keys of dicts and the attributes of objects as names."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _named_tensors(item, f"{name}.{key}".strip("."))
    elif isinstance(value, (tuple, list)):
        keys = getattr(value, "_fields", range(len(value)))
        for key, item in zip(keys, value, strict=True):
            yield from _named_tensors(item, f"{name}.{key}".strip(".") if isinstance(key, str) else name)


class _Recorder:
    """The dispatch handler. A tensor is found by identity and version; an op in place gets a new alias of its tensor."""

    def __init__(self, model: Module) -> None:
        self.values: list[Value] = []
        self.calls: list[Call] = []
        self.paths: list[str] = []
        # By id, each with the object itself, which keeps the id in use:
        self.known: dict[int, tuple[Tensor, int, Value]] = {}  # a tensor, its version and its value
        self.writes: dict[
            int, tuple[Storage, int, Any, Value]
        ] = {}  # a write that may be: version before, array, result
        self.dependent: dict[int, Storage] = {}  # storages that hold what depends on the inputs
        self.names = {
            id(tensor): name
            for tensors in (model.named_buffers(), model.named_parameters())
            for name, tensor in tensors
        }

    def add(self, tensor: Tensor, call: int | None = None, place: int = 0, array: Any = None) -> Value:
        """A new value for a tensor; with `array` a constant."""
        value = Value(len(self.values), tuple(tensor.shape), tensor._a.dtype, array, "", call, place)
        self.values.append(value)
        self.known[id(tensor)] = tensor, tensor._st.version, value
        if array is None:
            self.dependent[id(tensor._st)] = tensor._st
        return value

    def handle(self, op: Any, operands: tuple, attributes: dict, target: Any) -> Any:
        """Run an op, and record the call."""
        first = operands[0] if operands and isinstance(operands[0], Tensor) else None
        if op.view or id(first) in self.known:
            first = None
        sources = [self.value(x) if isinstance(x, Tensor) else x for x in operands]
        attributes = {name: self._number(x, op) for name, x in {**op.defaults, **attributes}.items()}
        constant = all(source.array is not None for source in sources if isinstance(source, Value))
        if op.random:
            raise self.error(op, "draws random numbers; export a model in evaluation mode")
        if op.data_dependent and not constant:
            raise self.error(op, "gives a shape that depends on values, which a graph of fixed ops cannot")
        before = None if first is None else (first._st.version, first._a)
        with real():
            result = apply(op, operands, attributes, target)
        call = Call(op, sources, self._casts(op, operands), attributes, self.paths[-1] if self.paths else "")
        results = result if isinstance(result, tuple) else (result,)
        for place, out in enumerate(results):
            array = np.array(out._a) if constant else None
            call.outputs.append(self.add(out, len(self.calls), place, array))
        if first is not None and before is not None:
            self.writes[id(first._st)] = first._st, *before, call.outputs[0]
        self.calls.append(call)
        return result

    def value(self, tensor: Tensor) -> Value:
        """The value that a tensor has now."""
        found = self.known.get(id(tensor))
        version = tensor._st.version
        if found is not None and found[1] == version:
            return found[2]
        written = self.writes.get(id(tensor._st))
        if written is not None and version == written[1] + 1 and _same_memory(written[2], tensor._a):
            self.known[id(tensor)] = tensor, version, written[3]
            if written[3].array is None:
                self.dependent[id(tensor._st)] = tensor._st
            return written[3]
        if id(tensor._st) in self.dependent or (written is not None and written[3].array is None):
            value = self._alias(tensor)
            if value is not None:
                return value
            raise OnnxExporterError(
                f"{self._module()}: reads a tensor of shape {tuple(tensor.shape)} after a write in place to a part of its "
                "memory, which cannot be exported; write out of place, with cat, stack or where"
            )
        value = self.add(tensor, array=tensor._a if id(tensor) in self.names else np.array(tensor._a))
        value.name = self.names.get(id(tensor), "")
        return value

    def _alias(self, tensor: Tensor) -> Value | None:
        """The value of a tensor that shares all its memory with `tensor`, as `x.data` and `x.detach()` do."""
        for other, version, value in self.known.values():
            if other._st is tensor._st and version == tensor._st.version and _same_memory(other._a, tensor._a):
                self.known[id(tensor)] = tensor, version, value
                return value
        return None

    def _number(self, attribute: Any, op: Any) -> Any:
        if not isinstance(attribute, Tensor):
            return attribute
        value = self.value(attribute)
        if value.array is None:
            raise self.error(op, "has a setting that is computed from the inputs")
        return attribute.item()

    def _casts(self, op: Any, operands: tuple) -> Sequence[Any]:
        """The types that dispatch converts the operands to before the op."""
        arrays = [x._a if isinstance(x, Tensor) else x for x in operands]
        kinds = tuple(a.dtype if isinstance(a, np.ndarray) else type(a) for a in arrays)
        return make_plan(op, kinds, arrays).casts or (None,) * len(arrays)

    def error(self, op: Any, reason: str) -> OnnxExporterError:
        return OnnxExporterError(f"{self._module()}: op {op.name} {reason}")

    def _module(self) -> str:
        return next(filter(None, reversed(self.paths)), "the model")


def _same_memory(a: Any, b: Any) -> bool:
    return a is b or (
        a.shape == b.shape and a.strides == b.strides and a.__array_interface__["data"] == b.__array_interface__["data"]
    )


@contextlib.contextmanager
def _module_paths(model: Module, recorder: _Recorder) -> Iterator[None]:
    """Keep the path of the running module, as in its state_dict, at the end of `recorder.paths`."""
    handles = []
    for path, module in model.named_modules():
        enter = module.register_forward_pre_hook(lambda *_, path=path: recorder.paths.append(path), prepend=True)
        leave = module.register_forward_hook(lambda *_: _leave(recorder), always_call=True)
        handles += [enter, leave]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _leave(recorder: _Recorder) -> None:
    recorder.paths.pop()


def is_tracing() -> bool:
    """Whether a model is being traced in this thread."""
    return isinstance(getattr(state.handler, "__self__", None), _Recorder)
