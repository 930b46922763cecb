"""`torch.jit` where nothing is compiled: functions and modules run as they are written.

`script` and `trace` return their argument, and the decorators for the compiler have no effect. TorchScript archives can
be neither written nor read: save a module's `state_dict`.

>>> import tdt
>>> from tdt.compat.jit import is_scripting, script
>>> layer = tdt.nn.Linear(2, 1)
>>> script(layer) is layer, is_scripting()
(True, False)
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from tdt.compat._refusal import refused, refused_class, unchanged
from tdt.compat.futures import Future
from tdt.nn import Module

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "ScriptFunction", "ScriptModule", "annotate",
    "enable_onednn_fusion", "export", "export_opnames", "fork", "freeze", "ignore", "interface", "is_scripting",
    "is_tracing", "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution", "save",
    "script", "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "trace", "trace_module",
    "unused", "wait",
]  # fmt: skip

NO_ARCHIVES = "tdt has no TorchScript; save the module's state_dict, and load it into a module made by its class"
NO_CODE = "tdt has no TorchScript; write the code as a Python function"

save = refused("jit.save", NO_ARCHIVES)
load = refused("jit.load", NO_ARCHIVES)
export_opnames = refused("jit.export_opnames", NO_ARCHIVES)
_get_trace_graph = refused("jit._get_trace_graph", NO_CODE)
CompilationUnit = refused_class("jit.CompilationUnit", NO_CODE)

# Decorators for the compiler.
script_method = export = unused = interface = script_if_tracing = _overload = _overload_method = unchanged


class Error(RuntimeError):
    """An exception of compiled code: never raised."""


class TracerWarning(Warning):
    """A warning about code that tracing cannot follow: never issued."""


class ScriptFunction:
    """A compiled function. `script` returns functions unchanged, so this class has no instances."""

    __init__ = refused("jit.ScriptFunction", NO_CODE)


class ScriptModule(Module):
    """A module whose methods PyTorch would compile; in tdt an ordinary module."""

    save = refused("ScriptModule.save", NO_ARCHIVES)
    define = refused("ScriptModule.define", NO_CODE)


class RecursiveScriptModule(ScriptModule):
    """The class of modules that PyTorch's `script` returns; tdt's returns the module unchanged."""


class TopLevelTracedModule(ScriptModule):
    """The class of modules that PyTorch's `trace` returns; tdt's returns the module unchanged."""


class Attribute(NamedTuple):
    """A value of a `ScriptModule` with its type."""

    value: Any
    type: Any


def script(
    obj: Any = None, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> Any:
    """Return `obj`, a function, module or class, unchanged."""
    return unchanged(obj)


def trace(func: Any, example_inputs: Any = None, *args: Any, example_kwarg_inputs: Any = None, **options: Any) -> Any:
    """Call `func`, a function or module, once with the example inputs and return it unchanged.

    PyTorch's traced function always follows the branches that the example inputs took; this one evaluates its conditions
    in every call.
    """
    inputs = example_inputs if builtins.isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    func(*(() if example_inputs is None else inputs), **(example_kwarg_inputs or {}))
    return func


def trace_module(mod: Module, inputs: dict[str, Any], *args: Any, **options: Any) -> Module:
    """Call each method that `inputs` names once and return `mod` unchanged."""
    for name, method_args in inputs.items():
        getattr(mod, name)(*(method_args if builtins.isinstance(method_args, (tuple, list)) else (method_args,)))
    return mod


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return the function unchanged: `@ignore`, `@ignore()` or `@ignore(drop=True)`."""
    return drop if callable(drop) else unchanged


def is_scripting() -> bool:
    """Whether the code is being compiled: never."""
    return False


def is_tracing() -> bool:
    """Whether operations are being recorded for `trace`: never."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return `the_value`."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's `isinstance`; `target_type` may be a list of types."""
    return builtins.isinstance(obj, tuple(target_type) if builtins.isinstance(target_type, list) else target_type)


def freeze(mod: Module, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Module:
    """Return `mod` unchanged. RuntimeError in training mode, as in PyTorch."""
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() first."
        )
    return mod


def optimize_for_inference(mod: Module, other_methods: list[str] | None = None) -> Module:
    """Return `mod` in evaluation mode, as PyTorch does."""
    return mod.eval()


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call `func` at once and return its result as a completed `Future`."""
    future: Future[Any] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future) -> Any:
    """The result of a `Future`."""
    return future.wait()


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block without effect: there is no compiled code to optimize."""
    yield


@contextlib.contextmanager
def strict_fusion() -> Iterator[None]:
    """A block without effect: there is no compiler that fuses operations."""
    yield


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Do nothing: there is no compiler. Returns the current strategy, an empty list."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Do nothing: there is no compiler."""


def onednn_fusion_enabled() -> bool:
    """Whether oneDNN fuses operations: no."""
    return False
