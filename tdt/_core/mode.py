"""Grad modes and the dispatch handler, per thread."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any


class State(threading.local):
    """Settings of a thread's ops: whether they record, and the one handler that sees them first (None: the fast path)."""

    grad = True
    inference = False
    handler: Callable[..., Any] | None = None
    meta = False  # tensors stand for their shapes alone
    saving: Any = None  # takes what nodes keep for backward: saved-tensor hooks, a checkpoint
    saving_refused = ""  # why a block of saved-tensor hooks is not allowed now
    anomaly: Any = None  # runs the nodes of a backward, and looks for NaN
    task: Any = None  # the backward that is running
    quick: bool | None = True  # `grad`; None where a handler or inference mode is on, and ops take the general path


state = State()


def _set(settings: dict[str, Any]) -> None:
    vars(state).update(settings)
    state.quick = None if state.inference or state.handler is not None else state.grad


class _Mode:
    """Settings of `state` for a `with` block, or for every call of a decorated function."""

    def __init__(self, **settings: Any):
        self.settings = settings
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self._before.append({name: getattr(state, name) for name in self.settings})
        _set(self.settings)

    def __exit__(self, *exc: object) -> None:
        _set(self._before.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` with every call in this mode; a generator function, with each of its steps."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with _Mode(**self.settings):
                return function(*args, **kwargs)

        @functools.wraps(function)
        def steps(*args: Any, **kwargs: Any) -> Any:
            generator, sent = function(*args, **kwargs), None
            while True:
                with _Mode(**self.settings):
                    try:
                        item = generator.send(sent)
                    except StopIteration as stop:
                        return stop.value
                sent = yield item

        return steps if inspect.isgeneratorfunction(function) else wrapped


class no_grad(_Mode):  # noqa: N801
    """Ops in this block (or decorated function) record nothing.

    >>> import tdt
    >>> x = tdt.ones(2, requires_grad=True)
    >>> with tdt.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    on = False

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        mode = super().__new__(cls)
        mode.__init__()  # type: ignore[misc]  # `@no_grad` without brackets hands over the function at once
        return mode if function is None else mode(function)

    def __init__(self) -> None:
        super().__init__(grad=self.on)


class enable_grad(no_grad):  # noqa: N801
    """Ops in this block record, inside a `no_grad` block too."""

    on = True


class inference_mode(_Mode):  # noqa: N801
    """As `no_grad`, and the results can never take part in a graph again.

    >>> import tdt
    >>> with tdt.inference_mode():
    ...     tdt.is_inference_mode_enabled()
    True
    """

    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls) if isinstance(mode, bool) else cls(True)(mode)

    def __init__(self, mode: bool = True):
        super().__init__(**({"grad": False, "inference": True} if mode else {"inference": False}))


class set_grad_enabled(_Mode):  # noqa: N801
    """Turn recording on or off: at once when called, and back at the end where used as a context manager."""

    def __init__(self, mode: bool):
        super().__init__(grad=bool(mode))
        super().__enter__()

    def __enter__(self) -> None:
        _set(self.settings)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.__exit__()
        return super().__call__(function)


class handling(_Mode):  # noqa: N801
    """Put `handler(op, operands, attributes, target)` in the dispatch slot; it proceeds by calling the op in `real()`."""

    def __init__(self, handler: Callable[..., Any] | None, meta: bool = False):
        super().__init__(handler=handler, meta=meta)


def real() -> _Mode:
    """No handler in this block: inside a meta pass, values are computed after all, as lazy layers' parameters need."""
    return handling(None)


def is_grad_enabled() -> bool:
    """Whether ops of this thread record.

    >>> with no_grad():
    ...     is_grad_enabled()
    False
    """
    return state.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`.

    >>> is_inference_mode_enabled()
    False
    """
    return state.inference
