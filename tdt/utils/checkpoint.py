"""Activation checkpointing: backward recomputes the intermediate values of a part of a model instead of storing them
(Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016).
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

from tdt import _backend, cuda
from tdt._core.creation import empty
from tdt._core.mode import _Mode, enable_grad, no_grad, state
from tdt._core.tensor import Tensor
from tdt._random import fork_rng, get_rng_state, set_rng_state
from tdt.autograd._backward import backward
from tdt.autograd._function import Function
from tdt.autograd._saved import Saving
from tdt.autograd._views import NOWHERE, edge_of
from tdt.nn.modules.container import Sequential
from tdt.utils._selective_checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

R = TypeVar("R")
# For the first run and the second. Any: what they are entered as is not used.
Contexts: TypeAlias = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]

_settings: dict[str, bool | None] = {"early_stop": None, "debug": None}


class CheckpointError(RuntimeError):
    """The recomputation saved other tensors than the original forward."""


class _Stop(Exception):
    """Ends the recomputation early, once everything that backward needs is recomputed."""


def noop_context_fn() -> Contexts:
    """Two contexts that change nothing.

    >>> import tdt
    >>> len(tdt.utils.checkpoint.noop_context_fn())
    2
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def _set(name: str, value: bool | None) -> Iterator[None]:
    before = _settings[name]
    _settings[name] = value
    try:
        yield
    finally:
        _settings[name] = before


def set_checkpoint_early_stop(enable: bool) -> AbstractContextManager[None]:
    """In this block, recomputation does (or does not) stop early, at the last value that backward needs.

    >>> import tdt
    >>> with tdt.utils.checkpoint.set_checkpoint_early_stop(False):
    ...     pass
    """
    return _set("early_stop", enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> AbstractContextManager[None]:
    """In this block, `checkpoint` uses debug=`enabled` instead of its argument; None: its argument.

    >>> import tdt
    >>> with tdt.utils.checkpoint.set_checkpoint_debug_enabled(True):
    ...     pass
    """
    return _set("debug", enabled)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with detached tensors, which keep their requires_grad.

    >>> import tdt
    >>> tdt.utils.checkpoint.detach_variable((tdt.ones(2, requires_grad=True) * 2, "name"))
    (tensor([2., 2.], requires_grad=True), 'name')
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(_detach(x) if isinstance(x, Tensor) else x for x in inputs)


def _detach(x: Tensor) -> Tensor:
    leaf = x.detach().requires_grad_(x.requires_grad)
    if edge_of(x) is NOWHERE:  # a view created under no_grad: again without a gradient
        with no_grad():
            return leaf.view_as(leaf)
    return leaf


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no tensor among `inputs` requires a gradient.

    >>> import tdt
    >>> tdt.utils.checkpoint.check_backward_validity([tdt.ones(2, requires_grad=True)])
    """
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


@contextlib.contextmanager
def _restored_rng(generators: tuple[Tensor, list[Tensor]] | None) -> Iterator[None]:
    """In this block, draw random numbers from these generator states; restore the current states afterwards."""
    with fork_rng(enabled=generators is not None):
        if generators is not None:
            set_rng_state(generators[0])
            cuda.set_rng_state_all(generators[1])
        yield


def _rng_states() -> tuple[Tensor, list[Tensor]]:
    """The states of the default generators of the CPU and of each GPU."""
    return get_rng_state(), cuda.get_rng_state_all()


def get_device_states(*args: object) -> tuple[list[int], list[Tensor]]:
    """The GPUs that hold the tensors among `args`, and the states of their generators.

    >>> import tdt
    >>> tdt.utils.checkpoint.get_device_states(tdt.ones(2, device="cpu"))
    ([], [])
    """
    devices = list(dict.fromkeys(x.get_device() for x in args if isinstance(x, Tensor) and x.is_cuda))
    return devices, [cuda.get_rng_state(device) for device in devices]


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Restore the states that `get_device_states` returned.

    >>> import tdt
    >>> tdt.utils.checkpoint.set_device_states(*tdt.utils.checkpoint.get_device_states())
    """
    for device, generator_state in zip(devices, states, strict=True):
        cuda.set_rng_state(generator_state, device)


class CheckpointFunction(Function):
    """A checkpoint as one autograd node, whose backward runs the function and a nested backward: use_reentrant=True."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Run the function without recording it."""
        check_backward_validity(args)
        ctx.run_function, ctx.outer = run_function, state.handler
        ctx.generators = _rng_states() if preserve_rng_state else None
        ctx.inputs = [None if isinstance(x, Tensor) else x for x in args]
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run the function again with gradients enabled, and backward through it."""
        if not state.task.whole:
            raise RuntimeError(
                "When use_reentrant=True, tdt.utils.checkpoint is incompatible with .grad() or passing an `inputs` parameter "
                "to .backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() without "
                "passing the `inputs` argument."
            )
        inputs = list(ctx.inputs)
        for i, x in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[i] = x
        args = detach_variable(tuple(inputs))
        with _restored_rng(ctx.generators), enable_grad(), _Mode(handler=ctx.outer, saving=None):
            outputs = ctx.run_function(*args)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        differentiable = [
            (y, g) for y, g in zip(outputs, grads, strict=True) if isinstance(y, Tensor) and y.requires_grad
        ]
        if not differentiable:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([y for y, _ in differentiable], [g for _, g in differentiable])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in args))


class _Inputs(Function):
    """Saves the arguments of a checkpoint in a node, so that an outer checkpoint can drop and recompute them."""

    @staticmethod
    def forward(ctx: Any, _: Tensor, *args: Tensor) -> Tensor:
        ctx.save_for_backward(*args)
        return empty(0, device="cpu")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise AssertionError("unreachable: the output of _Inputs is not part of a graph")


def _metadata(node: Any) -> list[tuple]:
    arrays = [saved[0] for saved in node.saved if _backend.is_array(saved[0])]
    return [(tuple(a.shape), str(a.dtype), str(_backend.device_of(a))) for a in arrays]


class _Frame(Saving):
    """One call of a checkpointed function: drops the values that its nodes save, and recomputes them on demand."""

    def __init__(self, rerun: Callable[[], Any], early_stop: bool, check: bool, debug: bool) -> None:
        self.rerun, self.early_stop, self.check, self.debug = rerun, early_stop, check, debug
        self.count = 0
        self.metadata: list[tuple] = []  # shape, dtype and device of all saved tensors
        self.names: list[str] = []
        self.recomputed: Any = weakref.WeakKeyDictionary()  # by backward pass: the saved values of each node

    def keep(self, node: Any) -> None:
        """Record the metadata of the values that `node` saves, and drop the values."""
        self.metadata += _metadata(node)
        self.names.append(node.name())
        node.saved = _RecomputedValues(self, self.count, 0)
        if getattr(node, "aux", None) is not None:
            node.aux = _RecomputedValues(self, self.count, 1)
        self.count += 1

    def saved_values(self, index: int) -> tuple[Any, Any]:
        """The recomputed values of a node: saved and aux."""
        task = state.task or self
        if task not in self.recomputed:
            self.recomputed[task] = self._recompute()
        return self.recomputed[task][index]

    def _recompute(self) -> list[tuple]:
        run = _Recomputation(self)
        with enable_grad(), _Mode(handler=self.outer, saving=None), contextlib.suppress(_Stop), run:
            self.rerun()
        self._compare(run)
        return run.values

    def _compare(self, run: _Recomputation) -> None:
        metadata = run.metadata
        if len(run.values) < self.count or len(metadata) != len(self.metadata):
            raise CheckpointError(
                "tdt.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.metadata)}\n"
                f"Number of tensors saved during recomputation: {len(metadata)}.{self._hint(run)}"
            )
        different = [i for i, pair in enumerate(zip(self.metadata, metadata, strict=True)) if pair[0] != pair[1]]
        if self.check and different:
            listed = "".join(
                f"tensor at position {i}:\nsaved metadata: {self.metadata[i]}\nrecomputed metadata: {metadata[i]}\n"
                for i in different
            )
            raise CheckpointError(
                "tdt.utils.checkpoint: Recomputed values for the following tensors have different metadata than during "
                f"the forward pass.\n{listed}{self._hint(run)}"
            )

    def _hint(self, run: _Recomputation) -> str:
        if not self.debug:
            return "\nThe function must run the same ops each time; checkpoint(..., debug=True) lists the ops of both runs."
        return f"\nForward: {', '.join(self.names)}\nRecomputation: {', '.join(run.names)}"


class _Recomputation(Saving):
    """The second run of a checkpointed function: collects the values that its nodes save."""

    def __init__(self, frame: _Frame) -> None:
        self.frame, self.count = frame, frame.count
        self.values: list[tuple] = []
        self.metadata: list[tuple] = []
        self.names: list[str] = []

    def keep(self, node: Any) -> None:
        """Collect the values that `node` saves; ends the run after the last one that is needed."""
        self.values.append((node.saved, getattr(node, "aux", None)))
        self.metadata += _metadata(node)
        self.names.append(node.name())
        if len(self.values) == self.count and self.frame.early_stop:
            raise _Stop


class _RecomputedValues:
    """Placeholder for the saved (or aux) values of a node, which recomputes them when backward reads them."""

    def __init__(self, frame: _Frame, index: int, part: int) -> None:
        self.frame, self.index, self.part = frame, index, part

    def __iter__(self) -> Iterator[Any]:
        return iter(self.frame.saved_values(self.index)[self.part])

    def __getitem__(self, place: int) -> Any:
        return self.frame.saved_values(self.index)[self.part][place]

    def __setitem__(self, place: int, value: Any) -> None:
        """Ignored: an in-place op sets the values that its node saves, and sets them again in the recomputation."""


def checkpoint(
    function: Callable[..., R],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> R:
    """`function(*args, **kwargs)` without saving intermediate values: backward runs the function again.

    Args:
        use_reentrant: True records the call as one node (no keyword arguments, no `autograd.grad`, and an argument must
            require a gradient); False, which is recommended, has none of these limits.
        preserve_rng_state: whether the second run draws the same random numbers (default True).
        context_fn: returns two context managers, for the first and the second run; those of
            `create_selective_checkpoint_contexts` save the results of some ops.
        determinism_check: "default" compares shapes, dtypes and devices of the tensors that both runs save; "none" does not.
        debug: whether the error lists the ops of both runs.
        early_stop: end the second run after the last value that backward needs.
    Raises:
        CheckpointError: when the second run saves other tensors than the first (in backward).
        ValueError: when `determinism_check` is unknown, or an option needs use_reentrant=False.

    >>> import tdt
    >>> x = tdt.ones(3, requires_grad=True)
    >>> y = tdt.utils.checkpoint.checkpoint(lambda x: x.sin().cos(), x, use_reentrant=False)
    >>> y.sum().backward(); x.grad
    tensor([-0.4029, -0.4029, -0.4029])
    """
    if use_reentrant is None:
        warnings.warn(
            "tdt.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended; the default is use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        debug = debug if _settings["debug"] is None else bool(_settings["debug"])
        early_stop = early_stop if _settings["early_stop"] is None else bool(_settings["early_stop"])
        if determinism_check not in ("default", "none"):
            raise ValueError(f"determinism_check should be one of ['default', 'none'] but got {determinism_check}")
        options = (early_stop, determinism_check == "default", debug)
        return _checkpoint_frame(function, args, kwargs, preserve, context_fn, options)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    if context_fn is not noop_context_fn or debug:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve, *args)


def _checkpoint_frame(function: Any, args: tuple, kwargs: dict, preserve: bool, context_fn: Any, options: tuple) -> Any:
    first, second = context_fn()
    if not state.grad:
        with first:
            return function(*args, **kwargs)
    places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
    plain = [None if isinstance(x, Tensor) else x for x in args]
    holder = _Inputs.apply(empty(0, requires_grad=True, device="cpu"), *[args[i] for i in places])._edge[0]
    generators = _rng_states() if preserve else None

    def rerun() -> None:
        inputs = list(plain)
        for i, x in zip(places, holder.saved_tensors, strict=True):
            inputs[i] = x
        detached = detach_variable(tuple(inputs))
        with _restored_rng(generators), second:
            function(*detached, **kwargs)

    with _Frame(rerun, *options), first:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Sequential | Sequence[Callable[..., Any]],
    segments: int,
    input: Tensor,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """`functions` applied in sequence, in `segments` parts; all but the last part are checkpointed.

    >>> import tdt
    >>> from tdt import nn
    >>> model, x = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), tdt.ones(4, 2)
    >>> tdt.utils.checkpoint.checkpoint_sequential(model, 2, x, use_reentrant=False).shape
    tdt.Size([4, 1])
    """
    if use_reentrant is None:
        warnings.warn(
            "tdt.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended; the default is use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    layers = list(functions.children()) if isinstance(functions, Sequential) else list(functions)

    def chain(start: int, end: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for layer in layers[start:end]:
                x = layer(x)
            return x

        return run

    size = len(layers) // segments
    for start in range(0, size * (segments - 1), size) if size else ():
        input = checkpoint(chain(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return chain(size * (segments - 1), len(layers))(input)
