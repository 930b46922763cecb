"""Hooks on a module's backward: its inputs and outputs pass through two identities that tell when gradients come by."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tdt._core.mode import state
from tdt._core.tensor import Tensor
from tdt.autograd._function import Function

Gradients = tuple[Tensor | None, ...]


class _BackwardHook(Function):
    """Identity whose backward calls `hook(grads)`: what the hook returns replaces the gradients, unless it is None."""

    @staticmethod
    def forward(ctx: Any, hook: Callable[[Gradients], Gradients | None], fill: bool, *tensors: Tensor) -> Any:
        ctx.hook = hook
        ctx.set_materialize_grads(fill)
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        replaced = ctx.hook(grads)
        return (None, None, *(grads if replaced is None else replaced))


class Watch:
    """One call of a module that has backward hooks, from its inputs (`enter`) to its outputs (`leave`)."""

    def __init__(self, module: Any, hooks: list[Callable[..., Any]], pre_hooks: list[Callable[..., Any]]):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_output: Gradients | None = None

    def enter(self, args: tuple) -> tuple:
        """The arguments, watched."""
        self.inputs = len(args)
        args, self.tensors_in = _watched(args, self._into_inputs, True)
        return args

    def leave(self, result: Any) -> Any:
        """The result, watched where it is a tensor or a tuple of them."""
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}",
                stacklevel=4,
            )
        outputs = result if isinstance(result, tuple) else (result,)
        self.outputs = len(outputs)
        outputs, self.tensors_out = _watched(outputs, self._into_outputs, False)
        return outputs if isinstance(result, tuple) else outputs[0]

    def _into_outputs(self, grads: Gradients) -> Gradients:
        """The gradients of the outputs came: pass them through the pre-hooks."""
        found = _spread(grads, self.tensors_out, self.outputs)
        for hook in self.pre_hooks:
            found = _replaced(hook(self.module, found), found, "Backward pre hook", "grad_output")
        if self.tensors_in is None:
            self._without_inputs(found)
        else:
            self.grad_output = found
        return tuple([found[i] for i in self.tensors_out or ()])

    def _into_inputs(self, grads: Gradients) -> Gradients | None:
        """The gradients of the inputs came: pass them through the hooks."""
        if self.grad_output is None:
            return None  # not by way of the outputs: a second derivative, say
        found = _spread(grads, self.tensors_in, self.inputs)
        for hook in self.hooks:
            found = _replaced(hook(self.module, found, self.grad_output), found, "Backward hook", "grad_input")
        self.grad_output = None
        return tuple([found[i] for i in self.tensors_in or ()])

    def _without_inputs(self, grad_output: Gradients) -> None:
        """No input requires a gradient, so none will be computed: run the hooks now."""
        if self.hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
                "require gradients.",
                stacklevel=2,
            )
        nothing = (None,) * self.inputs
        for hook in self.hooks:
            result = hook(self.module, nothing, grad_output)
            if result is not None and not (isinstance(result, tuple) and all(g is None for g in result)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for all "
                    "gradients."
                )


def _watched(values: tuple, hook: Callable[..., Any], fill: bool) -> tuple[tuple, list[int] | None]:
    """`values` with their tensors passed through `_BackwardHook`, and their positions; None if none requires a gradient."""
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    if not (state.grad and any(values[i].requires_grad for i in places)):
        return values, None
    outputs = dict(enumerate(values)) | dict(
        zip(places, _BackwardHook.apply(hook, fill, *[values[i] for i in places]), strict=True)
    )
    return (type(values)(*outputs.values()) if hasattr(values, "_fields") else tuple(outputs.values())), places


def _spread(grads: Gradients, places: list[int] | None, count: int) -> Gradients:
    """The gradients at their places in a tuple of `count`, None elsewhere."""
    at = dict(zip(places or (), grads, strict=True))
    return tuple([at.get(i) for i in range(count)])


def _replaced(result: Any, found: Gradients, who: str, what: str) -> Gradients:
    if result is None:
        return found
    if not isinstance(result, (tuple, list)):
        raise RuntimeError(f"{who} must return None or a tuple of {what}, but got {type(result).__name__}")
    if len(result) != len(found):
        raise RuntimeError(f"{who} returned an invalid number of {what}, got {len(result)}, but expected {len(found)}")
    return tuple(result)
