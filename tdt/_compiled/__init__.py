"""`tdt.compile`: the calls of a function are recorded once, and repeated without dispatch, graph and Python between its ops."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["compile"]

BACKENDS = "inductor", "eager", "aot_eager", "cudagraphs"
MODES = "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """`model` compiled: its ops are recorded in a first call, and further calls of the same kind compute the same bits.

    The second call is computed both ways, and the function is called as it is from then on if a bit differs. A call is of
    another kind, and recorded anew, if shapes, dtypes, strides, numbers among the arguments, the grad mode, or the modules,
    tensors and numbers that the function reads have changed. Python code runs only while a call is recorded: a function that
    prints, or branches on something else, does so once. What cannot be recorded (values read by `.item()`, shapes that depend on
    values, as of `nonzero`, hooks, custom autograd functions, sparse tensors) is called as it is, with one warning that says why
    and where; modules in it that read none can be compiled by themselves (`module.compile()`).

    On a GPU, the first three calls of a kind are computed as they are; the fourth is captured as a CUDA graph, and computed
    both ways. Further calls copy the arguments to where the graph reads them, launch it, and copy results and gradients, so that
    results stay when the function is called again. Gradients go back through a second graph. What waits for the GPU, uploads, or
    reads statistics of its memory is called as it is. So is a call while the backward passes of two others of its kind are to
    come.

    The function may be a whole training step, with `zero_grad`, `backward`, clipping and the `step` of an optimizer that has one
    formula for every element (all but Adafactor, LBFGS, Muon and SparseAdam). A call that finds gradients of an earlier one, to
    which it would add, is called as it is: clear them in the function, or between calls. The optimizer's step reads its options
    anew in each call; a function that itself reads `param_groups` is recorded anew where they have changed, and called as it is
    if it changes them.

    Args:
        model: a function or module; None returns a decorator.
        fullgraph: raise RuntimeError instead of the warning.
        dynamic, options, isolate_recompiles, shapes_spec: have no effect. Each shape is recorded.
        backend: None or "inductor" compiles; "eager", "aot_eager" and "cudagraphs" do not.
        mode: "default", "reduce-overhead" or "max-autotune", which are the same: on a GPU, CUDA graphs.
        name: of the function in warnings.
        disable: return `model` as it is.
        recompile_limit: recordings of the function (default 8); other calls are not compiled.
    Returns: a function; of a module, a module around it whose parameters are the same.
    Raises:
        RuntimeError: when both `mode` and `options` are passed, or `mode` or `backend` is unknown.
        NotImplementedError: when `backend` is a function.
        TypeError: when `model` cannot be called.

    >>> import tdt
    >>> @tdt.compile
    ... def f(x):
    ...     return (x * 2).tanh().sum()
    >>> x = tdt.tensor([0.5, 1.0], requires_grad=True)
    >>> for _ in range(3):
    ...     x.grad = None
    ...     f(x).backward()
    >>> x.grad
    tensor([0.8399, 0.1413])
    >>> optimizer = tdt.optim.SGD([x], lr=0.1)
    >>> @tdt.compile
    ... def step(target):
    ...     optimizer.zero_grad()
    ...     loss = (x - target).pow(2).sum()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    >>> [round(step(tdt.zeros(2)).item(), 4) for _ in range(4)]
    [1.25, 0.8, 0.512, 0.3277]
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    if callable(backend):
        raise NotImplementedError("tdt.compile: a backend of one's own takes PyTorch's graphs, which tdt does not make")
    if backend is not None and backend not in BACKENDS:
        raise RuntimeError(f"Invalid backend: {backend!r}, should be one of: {', '.join(BACKENDS)}")
    if model is None:
        return lambda function: compile(
            function, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, name=name,
            disable=disable, recompile_limit=recompile_limit,
        )  # fmt: skip
    if not callable(model):
        raise TypeError(f"tdt.compile: expected a function or a module, but got {type(model).__name__}")
    if disable or backend not in (None, "inductor"):
        return model
    from tdt._compiled.function import MOST_RECORDINGS, Compiled, compiled_function

    module = hasattr(model, "_parameters") and hasattr(model, "forward")
    function = model.forward if module else model  # type: ignore[attr-defined]
    name = name or (type(model).__name__ if module else None)
    compiled = Compiled(function, name, fullgraph, MOST_RECORDINGS if recompile_limit is None else recompile_limit)
    if module:
        return importlib.import_module("tdt.nn.modules._optimized").OptimizedModule(model, compiled)
    return compiled_function(compiled)


def compile_forward(module: Any, *args: Any, **kwargs: Any) -> None:
    """Put the compiled `forward` of a module in its place."""
    vars(module).pop("forward", None)
    name = kwargs.pop("name", None) or type(module).__name__
    compiled = compile(module.forward, *args, name=name, **kwargs)
    if hasattr(compiled, "_compiled"):
        vars(module)["forward"] = compiled._compiled  # unlike a plain function, it follows copies of the module
