"""Grad modes and the dispatch handler, per thread."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar, cast, overload

from tdt._core.wrapping import wraps

F = TypeVar("F", bound=Callable[..., Any])


INFERENCE: Any = 0  # in the place of False where nothing is recorded: new tensors are marked


class State(threading.local):
    """Per-thread settings of ops: grad mode, and the dispatch handler that intercepts them (None: the fast path)."""

    grad = True
    inference = False
    handler: Callable[..., Any] | None = None
    meta = False  # shape inference: tensors have shapes without values
    # Receives the tensors that nodes save for backward: saved-tensor hooks, or activation checkpointing.
    saving: Any = None
    saving_refused = ""  # the reason why saved-tensor hooks are disabled
    anomaly: Any = None  # anomaly detection: runs the nodes of a backward pass, and checks for NaN
    task: Any = None  # the current backward pass
    validates = __debug__  # distributions check their arguments, if they are not told; set for all threads
    recording: Any = None  # records the ops of a function that is being compiled
    subclasses = True  # classes of tensors may take calls over, by `__torch_function__`
    modes: tuple[Any, ...] = ()  # modes that take calls over, the innermost last
    batching: Any = None  # the run of a function that `vmap` computes for all entries at once
    # `grad`, or None if a handler or inference mode is active and ops take the general path.
    fast_record: bool | None = True
    # `grad` where the only handler is autocast, for the ops that it leaves as they are; INFERENCE, for all ops, in inference mode
    # without a handler; else None.
    uncast_record: Any = None


state = State()


def uncast_record() -> bool | None:
    """`fast_record`, and where the only handler is autocast that of the ops that it leaves as they are."""
    record = state.fast_record
    return state.uncast_record if record is None and not state.inference else record


def values_read(what: str) -> None:
    """Tell a recording that Python code reads the values of a tensor, on which what follows may depend."""
    if state.recording is not None:
        state.recording.refuse(f"{what} reads values of a tensor, which differ from call to call")


def waits_for_gpu(what: str) -> None:
    """Tell a recording that Python code waits for a GPU, or reads what it does, which a CUDA graph would not repeat."""
    if state.recording is not None:
        state.recording.refuse(f"{what} waits for the GPU, or reads how far it is or how much memory it has in use")


def relation_read(what: str) -> None:
    """Tell a recording that Python code reads how a tensor relates to others or to writes, no part of the kind of a call."""
    if state.recording is not None:
        state.recording.refuse(
            f"{what} reads where a tensor comes from or what happened to it, which may differ from call to call"
        )


def check_values(check: Callable[[Any], None], array: Any) -> None:
    """Call a check of a tensor's values, which raises an error; what records the ops repeats it."""
    check(array)
    if state.recording is not None:
        state.recording.check(check, array)


def computed(function: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    """The array that a function computes of arrays without an op; what records the ops repeats it."""
    result = function(*arrays)
    if state.recording is not None:
        state.recording.computed(function, arrays, result)
    return result


def _set(settings: dict[str, Any]) -> None:
    vars(state).update(settings)
    state.fast_record = state.uncast_record = None
    if state.inference:
        state.uncast_record = INFERENCE if state.handler is None else None
    elif state.handler is None:
        state.fast_record = state.grad
    elif getattr(state.handler, "alone", False):
        state.uncast_record = state.grad


def _set_grad(values: dict[str, Any], grad: bool) -> None:
    """Set the grad mode alone, among the settings of this thread."""
    values["grad"] = grad
    if values.get("fast_record", State.fast_record) is not None:
        values["fast_record"] = grad
    if values.get("uncast_record") is not None and not values.get("inference"):
        values["uncast_record"] = grad


def exchange_grad(grad: bool) -> bool:
    """Set the grad mode of this thread; the one of before."""
    values = vars(state)
    before = values.get("grad", True)
    _set_grad(values, grad)
    return before


def _replace(settings: dict[str, Any]) -> dict[str, Any]:
    """Change settings of this thread; the values of before."""
    before = {name: getattr(state, name) for name in settings}
    _set(settings)
    return before


class _Block:
    """Context manager and decorator that changes `settings` of `state`.

    Subclasses that take a function, too (`@no_grad` without brackets), have `__new__` and no `__init__`: of the two, type
    checkers read the result's type from `__new__` only then.
    """

    settings: dict[str, Any]
    _before: list[Any]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        block = super().__new__(cls)
        block._before = []
        return block

    def __enter__(self) -> None:
        self._before.append(_replace(self.settings))

    def __exit__(self, *exc: object) -> None:
        _set(self._before.pop())

    def __call__(self, function: F) -> F:
        """Decorate `function` to run in this mode; for a generator function, each of its steps."""

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            before = _replace(self.settings)
            try:
                return function(*args, **kwargs)
            finally:
                _set(before)

        @wraps(function)
        def steps(*args: Any, **kwargs: Any) -> Any:
            generator, sent = function(*args, **kwargs), None
            while True:
                before = _replace(self.settings)
                try:
                    item = generator.send(sent)
                except StopIteration as stop:
                    return stop.value
                finally:
                    _set(before)
                sent = yield item

        return cast(F, steps if inspect.isgeneratorfunction(function) else wrapped)


class _Mode(_Block):
    """A block with the given settings."""

    def __init__(self, **settings: Any):
        self.settings = settings


class no_grad(_Block):
    """Ops in this block (or decorated function) record nothing.

    >>> import tdt
    >>> x = tdt.ones(2, requires_grad=True)
    >>> with tdt.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    settings = {"grad": False}

    @overload
    def __new__(cls) -> Self: ...
    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]  # not an instance
    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        block = super().__new__(cls)
        return block if function is None else block(function)

    # As `_Block` does, in a third of the time: programs enter such blocks around every step.

    def __enter__(self) -> None:
        self._before.append(exchange_grad(self.settings["grad"]))

    def __exit__(self, *exc: object) -> None:
        _set_grad(vars(state), self._before.pop())


class enable_grad(no_grad):
    """Context manager or decorator in which operations are recorded, also inside `no_grad`.

    >>> import tdt
    >>> x = tdt.ones(1, requires_grad=True)
    >>> with tdt.no_grad(), tdt.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    settings = {"grad": True}


class inference_mode(_Block):
    """As `no_grad`, and the results can never take part in a graph again; with mode=False, ops record as usual.

    >>> import tdt
    >>> with tdt.inference_mode():
    ...     tdt.is_inference_mode_enabled()
    True
    """

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: F) -> F: ...  # type: ignore[misc]  # not an instance
    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        block = super().__new__(cls)
        block.settings = {"grad": not mode, "inference": bool(mode)}
        return block(mode) if callable(mode) else block


class set_grad_enabled(_Mode):
    """Turn recording on or off: at once when called, and back at the end of the block as a context manager.

    >>> import tdt
    >>> with tdt.set_grad_enabled(False):
    ...     tdt.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool):
        super().__init__(grad=bool(mode))
        super().__enter__()

    def __enter__(self) -> None:
        _set(self.settings)

    def __call__(self, function: F) -> F:
        self.__exit__()
        return super().__call__(function)


class handling(_Mode):
    """Set the dispatch handler `handler(op, operands, attributes, target)` in this block; it calls ops in `real()`."""

    def __init__(self, handler: Callable[..., Any] | None, meta: bool = False):
        super().__init__(handler=handler, meta=meta)


def real() -> _Mode:
    """Context manager without a handler: computes values also during shape inference, as lazy layers need for parameters."""
    return handling(None)


def is_grad_enabled() -> bool:
    """Whether ops of this thread record.

    >>> import tdt
    >>> with tdt.no_grad():
    ...     tdt.is_grad_enabled()
    False
    """
    return state.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`.

    >>> import tdt
    >>> tdt.is_inference_mode_enabled()
    False
    """
    return state.inference
