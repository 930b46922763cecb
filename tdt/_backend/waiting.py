"""The capture of a CUDA graph that a thread is in, and what its elementwise kernels wait for (`chains_gpu`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class _Current(threading.local):
    capture: Any = None  # `_kernels.capture_gpu.Capture`
    notes: Any = None  # `_kernels.programs_gpu.Notes` of the call whose launches are noted


CURRENT = _Current()


def launch_waiting() -> None:
    """Launch the elementwise kernels that wait, before work that may depend on them."""
    capture = CURRENT.capture
    if capture is not None and capture.chains is not None:
        capture.chains.launch()


def stop_waiting() -> None:
    """Launch the kernels that wait; in the rest of the capture none does, and work of CuPy's own may follow any other."""
    capture = CURRENT.capture
    if capture is not None and capture.chains is not None:
        capture.chains.launch()
        capture.chains = None


def deferring(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a function whose generated kernels may wait: it launches nothing else after them."""
    capture = CURRENT.capture
    if capture is None or capture.chains is None:
        return function(*args, **named)
    capture.chains.defers = True
    try:
        return function(*args, **named)
    finally:
        capture.chains.defers = False


def ends_by_formula(function: Function) -> Function:
    """Decorate a forward that launches generated kernels last, or an array-level rule of nothing else: they may wait."""
    function.ends_by_formula = True  # type: ignore[attr-defined]
    return function


def takes_numbers(function: Function, but: Container[float] = ()) -> Function:
    """Decorate an array-level rule, or its formula, to which numbers are as arrays: its kernel takes them as arguments.

    Args:
        but: numbers for which it is another formula, of which they are constants.
    """
    function.constants = but  # type: ignore[attr-defined]
    return function


class _Every:
    """All numbers are in it."""

    def __contains__(self, number: object) -> bool:
        return True


def constants_of(function: Callable[..., Any]) -> Container[float]:
    """The numbers that are part of a function's kernel: all, unless it is marked by `takes_numbers`."""
    found: Container[float] = getattr(function, "constants", EVERY)
    return found


EVERY = _Every()


def repeatable(function: Function) -> Function:
    """Decorate a forward or an array-level rule whose launches may be noted for a program (`_kernels.programs_gpu`).

    With what kernels have computed it does nothing but view it and hand it to other kernels: writes by CuPy are not noted.
    """
    function.repeatable = True  # type: ignore[attr-defined]
    return function


def gives_views(function: Function) -> Function:
    """Decorate an array-level rule that gives the gradient or a view of it, and otherwise launches what waits by itself."""
    function.gives_views = True  # type: ignore[attr-defined]
    return repeatable(function)


def refuse_program() -> None:
    """Make no program of the call that is noted: it does what a program cannot repeat."""
    if CURRENT.notes is not None:
        CURRENT.notes.refuse()


def stop_deferring() -> None:
    """Let no kernel wait until the function returns that is called by `deferring`: work follows that only CuPy knows of."""
    refuse_program()
    capture = CURRENT.capture
    if capture is not None and capture.chains is not None:
        capture.chains.defers = False
        capture.chains.launch()
