"""Machine code that takes and makes tensors themselves, as far as kernels are on."""

from __future__ import annotations

from typing import Any

from tdt._kernels._registry import SWITCHES, lazy


def view_wrapper(kind: type, view: type, of: type) -> Any:
    """A function that makes tensors of views, as `_views.view_wrapper` says; None where there is none."""
    return _view_wrapper(kind, view, of) if SWITCHES.kernels else None


def finisher(classes: dict[str, type], leaf: tuple, numbers: Any, otherwise: Any) -> Any:
    """As `_nodes.finisher` says; `otherwise` while kernels are switched off."""
    return _finisher(classes, leaf, numbers, otherwise) if SWITCHES.kernels else otherwise


def gatherer(classes: dict[str, type]) -> Any:
    """A function that gathers operands, as `_operands.gatherer` says; None where there is none."""
    return _gatherer(classes) if SWITCHES.kernels else None


def writer(classes: dict[str, type]) -> Any:
    """A function that writes small results, as `_writes.writer` says; None where there is none."""
    return _writer(classes) if SWITCHES.kernels else None


def join_of(kind: type, view: type) -> Any:
    """A function that joins small tensors, as `_join.join_of` says; None where there is none."""
    return _join_of(kind, view) if SWITCHES.kernels else None


_view_wrapper, _finisher = lazy("_views:view_wrapper"), lazy("_nodes:finisher")
_gatherer, _writer, _join_of = lazy("_operands:gatherer"), lazy("_writes:writer"), lazy("_join:join_of")
