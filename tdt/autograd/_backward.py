"""`backward` and `grad`: check the arguments and call the engine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from tdt._core.mode import exchange_grad, state
from tdt._core.old_arguments import refuses_removed_arguments
from tdt._core.tensor import LEAF, Tensor, wrap
from tdt.autograd import _engine
from tdt.autograd._graph import GradientEdge, edge_at
from tdt.autograd._op_table import OPS
from tdt.autograd._views import edge_of


def _as_tuple(value: Any) -> tuple:
    kind = value.__class__
    if kind is list or kind is tuple:
        return tuple(value)
    return (value,) if value is None or isinstance(value, (Tensor, GradientEdge)) else tuple(value)


def _grads_for(outputs: tuple, grad_outputs: Any) -> tuple:
    grads = (None,) * len(outputs) if grad_outputs is None else _as_tuple(grad_outputs)
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    return grads


def run_backward(
    outputs: tuple,
    grads: tuple,
    retain_graph: bool | None,
    create_graph: bool,
    inputs: tuple | None = None,
    accumulate_grad: bool = False,
) -> list:
    """Backward from `outputs` with `grads`, one for each, as `_engine.execute` says of edges and arrays."""
    if state.batching is not None:
        state.batching.refuse("a backward pass")
    edges, arrays = _engine.prepare(outputs, grads, create_graph)
    targets = None if inputs is None else _targets(inputs)
    keep_graph = create_graph if retain_graph is None else retain_graph
    before = exchange_grad(create_graph)
    try:
        return _engine.execute(edges, arrays, keep_graph, create_graph, targets, accumulate_grad)
    finally:
        exchange_grad(before)


@refuses_removed_arguments
def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Add the gradients of `tensors`, each times its entry of `grad_tensors`, to the `.grad` of the leaves.

    Args:
        grad_tensors: one for each tensor; may be left out for tensors with one element.
        retain_graph: keep the saved tensors for another backward pass; by default as `create_graph`.
        create_graph: record the backward pass, for higher derivatives.
        grad_variables: deprecated name of `grad_tensors`.
        inputs: only these tensors' `.grad` is added to.
    Shape: tensors (*); grad_tensors the same.
    Raises:
        RuntimeError: when `grad_tensors` is given twice, `inputs` is empty, or a tensor does not require grad.

    >>> import tdt
    >>> x = tdt.tensor(3.0, requires_grad=True)
    >>> tdt.autograd.backward(x**2)
    >>> x.grad
    tensor(6.)
    """
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only use "
                "`grad_tensors`."
            )
        grad_tensors = grad_variables
    tensors = _as_tuple(tensors)
    grads = _grads_for(tensors, grad_tensors)
    if inputs is not None:
        inputs = _as_tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        for x in inputs:
            if isinstance(x, Tensor) and x.grad_fn is not None:
                x.retain_grad()
    run_backward(tensors, grads, retain_graph, create_graph, inputs, accumulate_grad=True)


def _targets(inputs: tuple) -> list:
    edges = []
    for i, x in enumerate(inputs):
        if x.__class__ is not Tensor and isinstance(x, GradientEdge):
            edges.append(edge_at(x))
            continue
        if not isinstance(x, Tensor):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(x).__name__} at {i}")
        edge = x._edge if x._view is None else edge_of(x)
        if edge is None:
            raise RuntimeError(
                f"One of the differentiated Tensors does not require grad: input {i}, shape {list(x.shape)}"
            )
        edges.append((x, 0) if edge is LEAF else edge)
    return edges


@refuses_removed_arguments
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of the sum of `outputs`, each times its entry of `grad_outputs`, for `inputs`; `.grad` does not change.

    Args:
        grad_outputs: one for each output; may be left out for outputs with one element.
        retain_graph: keep the saved tensors for another backward pass; by default as `create_graph`.
        create_graph: record the backward pass, for higher derivatives.
        only_inputs: deprecated, without effect.
        allow_unused: return None for an input that the outputs do not depend on.
        is_grads_batched: `grad_outputs` have an additional first dimension, over which the pass is repeated.
        materialize_grads: return zeros for an input that the outputs do not depend on.
    Shape: outputs (*), grad_outputs the same; inputs (*), results the same.
    Raises:
        RuntimeError: when `inputs` is empty, a tensor does not require grad, or an input is not used and not allowed to be.
        ValueError: when `materialize_grads` is set and `allow_unused` is False.

    >>> import tdt
    >>> x = tdt.tensor(2.0, requires_grad=True)
    >>> (dx,) = tdt.autograd.grad(x**3, x, create_graph=True)
    >>> tdt.autograd.grad(dx, x)
    (tensor(12.),)
    """
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other "
            "parts of the graph, please use tdt.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    outputs, inputs = _as_tuple(outputs), _as_tuple(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if materialize_grads and any(isinstance(x, GradientEdge) for x in inputs):
        raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
    grads = _grads_for(outputs, grad_outputs)
    if is_grads_batched:
        results = _batched(outputs, grads, retain_graph, create_graph, inputs)
    else:
        results = run_backward(outputs, grads, retain_graph, create_graph, inputs)
    if materialize_grads:
        results = [x.new_zeros(x.shape) if g is None else g for x, g in zip(inputs, results, strict=True)]
    elif not allow_unused:
        _check_used(results)
    return tuple([g if g is None or isinstance(g, Tensor) else wrap(g) for g in results])  # type: ignore[misc]


def _check_used(gradients: list) -> None:
    for i, g in enumerate(gradients):
        if g is None:
            raise RuntimeError(
                f"The differentiated Tensor at index {i} appears to not have been used in the graph. Set allow_unused=True if "
                "this is the desired behavior."
            )


def _batched(outputs: tuple, grads: tuple, retain_graph: bool | None, create_graph: bool, inputs: tuple) -> list:
    """The results for each entry along the first dimension of the gradients, stacked."""
    for i, (t, g) in enumerate(zip(outputs, grads, strict=True)):
        if g is not None and g.shape[1:] != t.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. The "
                "sizes of the remaining dimensions are expected to match the shape of corresponding output, but a mismatch was "
                f"detected: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of {t.shape}."
            )
    rows = list(zip(*[g.unbind() for g in grads if g is not None], strict=True))
    found = []
    for k, row in enumerate(rows):
        each = iter(row)
        row_grads = tuple(g if g is None else next(each) for g in grads)
        keep = True if k < len(rows) - 1 else retain_graph
        found.append([g if g is None or isinstance(g, Tensor) else wrap(g)
                      for g in run_backward(outputs, row_grads, keep, create_graph, inputs)])  # fmt: skip
    return [None if g[0] is None else OPS["stack"](*g, dim=0) for g in zip(*found, strict=True)]
