"""Anomaly mode: nodes record where forward created them; backward stops at the first NaN and shows that place."""

from __future__ import annotations

import traceback
import warnings
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.mode import _Mode, _set, state
from tdt._core.tensor import Tensor
from tdt.autograd._dispatch import apply


class Anomaly:
    """Active anomaly mode: a handler of ops in forward, and a runner of nodes in backward.

    outer, nodes: the previous handler of ops and runner of nodes, which are called next.
    """

    def __init__(self, check_nan: bool, outer: Any, nodes: Any):
        self.check_nan, self.outer, self.nodes = check_nan, outer, nodes

    def handle(self, op: Any, operands: tuple, attributes: dict, target: Any) -> Any:
        """Run the op, and store the stack trace in its node."""
        with _Mode(handler=self.outer):
            result = apply(op, operands, attributes, target)
        for t in result if isinstance(result, tuple) else (result,):
            if t._edge is not None and t._edge[0] is not None and isinstance(t._edge[1], int):
                self.note(t._edge[0])
                break
        return result

    def note(self, node: Any) -> None:
        """Store the current stack trace in `node` and, during a backward pass, the node that is running."""
        node.metadata["traceback_"] = traceback.format_stack()[:-2]
        parent = state.task and state.task.current
        if parent is not None:
            node.metadata["parent_"] = parent

    def run(self, node: Any, slots: list, graph: bool) -> list:
        """`node.run`, with a warning that shows the forward call if it fails or makes NaN."""
        before, state.task.current = state.task.current, node
        try:
            results = node.run(slots, graph) if self.nodes is None else self.nodes.run(node, slots, graph)
        except Exception:
            self.explain(node)
            raise
        finally:
            state.task.current = before
        for i, g in enumerate(results) if self.check_nan else ():
            if g is not None and _has_nan(g):
                self.explain(node)
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")
        return results

    def explain(self, node: Any) -> None:
        """Warn with the forward call behind `node`, and behind the nodes in whose backward it was recorded."""
        text, stack = f"Error detected in {node.name()}. ", node.metadata.get("traceback_")
        if stack is None:
            text += (
                "No forward pass information available. Enable detect anomaly during forward pass for more information."
            )
        else:
            text += f"Traceback of forward call that caused the error:\n{''.join(stack)}"
        warnings.warn(text, stacklevel=6)
        parent = node.metadata.get("parent_")
        while parent is not None:
            stack = parent.metadata.get("traceback_")
            where = f"Traceback of forward call that induced the previous calculation:\n{''.join(stack)}" if stack else (
                "No forward pass information available.")  # fmt: skip
            warnings.warn(f"\n\nPrevious calculation was induced by {parent.name()}. {where}", stacklevel=6)
            parent = parent.metadata.get("parent_")


def _has_nan(g: Any) -> bool:
    a = g._a if isinstance(g, Tensor) else g
    a = getattr(a, "values", a) if getattr(a, "is_sparse", False) else a
    return bool((a != a).any()) if _backend.is_array(a) else bool(np.isnan(a))


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turn anomaly mode on or off for this thread. check_nan: look for NaN in gradients too.

    >>> import tdt
    >>> tdt.set_anomaly_enabled(False)
    """
    current = state.anomaly
    if isinstance(current, Anomaly):
        _set({"anomaly": current.nodes})
        if state.handler == current.handle:
            _set({"handler": current.outer})
    if mode:
        detector = Anomaly(check_nan, state.handler, state.anomaly)
        _set({"anomaly": detector, "handler": detector.handle})


def _current() -> Any:
    """The active Anomaly, which may be behind a profiler in the chain of node runners."""
    current = state.anomaly
    while current is not None and not isinstance(current, Anomaly):
        current = current.nodes
    return current


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on in this thread.

    >>> import tdt
    >>> tdt.is_anomaly_enabled()
    False
    """
    return _current() is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode checks gradients for NaN.

    >>> import tdt
    >>> tdt.is_anomaly_check_nan_enabled()
    True
    """
    current = _current()
    return current is None or bool(current.check_nan)


class set_detect_anomaly:
    """Turn anomaly mode on or off at once; as a context manager, restore the previous mode at the end of the block.

    >>> import tdt
    >>> with tdt.autograd.set_detect_anomaly(True):
    ...     tdt.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True):
        self._remember()
        set_anomaly_enabled(mode, check_nan)

    def _remember(self) -> None:
        self.prev, self.prev_check_nan = is_anomaly_enabled(), is_anomaly_check_nan_enabled()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        set_anomaly_enabled(self.prev, self.prev_check_nan)


class detect_anomaly(set_detect_anomaly):
    """In this block, a backward that fails or makes NaN warns with the stack of the forward call, and NaN is an error.

    >>> import tdt, warnings
    >>> x = tdt.tensor(0.0, requires_grad=True)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     with tdt.autograd.detect_anomaly():
    ...         (x.sqrt() * 0).backward()
    Traceback (most recent call last):
    RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True):
        self._remember()
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        set_anomaly_enabled(True, self.check_nan)
