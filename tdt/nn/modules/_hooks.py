"""Hooks around `forward` and `backward`: their registration, and the call that runs them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from tdt.autograd._hooks import RemovableHandle
from tdt.nn.modules._backward_hooks import Watch


class Hook(NamedTuple):
    """A registered function and the arguments that it is called with."""

    call: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


# Hooks on every module, with what they listen to: "forward_pre", "forward", "backward", "backward_pre", or the
# registration of a "parameter", "buffer" or "module". One dict, so that a call makes one test.
global_hooks: dict[int, tuple[str, Hook]] = {}


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before the `forward` of every module; what it returns replaces the arguments."""
    return RemovableHandle(global_hooks, ("forward_pre", Hook(hook)))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the `forward` of every module; what it returns replaces the output.

    >>> import tdt
    >>> from tdt.nn.modules._hooks import register_module_forward_hook
    >>> with register_module_forward_hook(lambda module, args, out: print(type(module).__name__)):
    ...     _ = tdt.nn.Sequential(tdt.nn.ReLU())(tdt.zeros(1))
    ReLU
    Sequential
    """
    return RemovableHandle(global_hooks, ("forward", Hook(hook, with_kwargs, always_call)))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """As `Module.register_full_backward_pre_hook`, for every module."""
    return RemovableHandle(global_hooks, ("backward_pre", Hook(hook)))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """As `Module.register_full_backward_hook`, for every module."""
    return _register_backward("as a global Module hook", _everywhere, global_hooks, ("backward", Hook(hook)), True)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """As `Module.register_backward_hook`, for every module."""
    return _register_backward("as a global Module hook", _everywhere, global_hooks, ("backward", Hook(hook)), False)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` when a parameter is registered; what it returns is registered instead."""
    return RemovableHandle(global_hooks, ("parameter", Hook(hook)))


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` when a buffer is registered; what it returns is registered instead."""
    return RemovableHandle(global_hooks, ("buffer", Hook(hook)))


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, child)` when a child is registered; what it returns is registered instead."""
    return RemovableHandle(global_hooks, ("module", Hook(hook)))


# What `_is_full_backward_hook` of a module is, for the hooks on every module.
_everywhere: dict[str, Any] = {}


def _register_backward(where: str, owner: dict[str, Any], hooks: dict[int, Any], hook: Any, full: bool,
                       prepend: bool = False) -> RemovableHandle:  # fmt: skip
    if owner.get("_is_full_backward_hook") is (not full):
        raise RuntimeError(f"Cannot use both regular backward hooks and full backward hooks {where}. "
                           "Please use only one of them.")  # fmt: skip
    owner["_is_full_backward_hook"] = full
    return RemovableHandle(hooks, hook, prepend)


def registered(module: Any, kind: str, name: str, value: Any) -> Any:
    """`value`, or what the global hooks on registering a `kind` make of it."""
    for _, hook in _hooks(kind, {}):
        replaced = hook.call(module, name, value)
        value = value if replaced is None else replaced
    return value


class Hooked:
    """The part of Module that registers hooks."""

    _forward_hooks: dict[int, Hook]
    _forward_pre_hooks: dict[int, Hook]
    _backward_hooks: dict[int, Hook]
    _backward_pre_hooks: dict[int, Hook]
    _is_full_backward_hook: bool | None = None

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False,
                                  with_kwargs: bool = False) -> RemovableHandle:  # fmt: skip
        """Call `hook(module, args)` before `forward`; what it returns replaces the arguments.

        >>> import tdt
        >>> layer = tdt.nn.Identity()
        >>> with layer.register_forward_pre_hook(lambda module, args: args[0] + 1):
        ...     layer(tdt.zeros(1))
        tensor([1.])
        """
        return RemovableHandle(self._forward_pre_hooks, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:  # fmt: skip
        """Call `hook(module, args, output)` after `forward`; what it returns replaces the output.

        >>> import tdt
        >>> layer = tdt.nn.Identity()
        >>> with layer.register_forward_hook(lambda module, args, out: out + 1):
        ...     layer(tdt.zeros(1))
        tensor([1.])
        """
        return RemovableHandle(self._forward_hooks, Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the gradients of the outputs are known; what it returns replaces them.

        grad_output: a tuple with a place for each output, None for what is no tensor or got no gradient.
        """
        return RemovableHandle(self._backward_pre_hooks, Hook(hook), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the inputs are known.

        grad_input: a tuple with a place for each positional argument, None for what is no tensor; what the hook returns
        replaces it. Both tuples must not be changed in place.

        >>> import tdt
        >>> layer, x = tdt.nn.Tanh(), tdt.zeros(1, requires_grad=True)
        >>> _ = layer.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 2,))
        >>> layer(x).backward()
        >>> x.grad
        tensor([2.])
        """
        return _register_backward("on a single Module", self.__dict__, self._backward_hooks, Hook(hook), True, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The deprecated form of `register_full_backward_hook`; RuntimeError for a module that has both.

        `hook` sees the gradients of the module's inputs, where PyTorch shows those of its last operation.
        """
        return _register_backward("on a single Module", self.__dict__, self._backward_hooks, Hook(hook), False)


def _hooks(kind: str, own: dict[int, Hook]) -> list[tuple[int, Hook]]:
    """The hooks of a kind with their keys: those on every module first."""
    return [*((key, hook) for key, (what, hook) in global_hooks.items() if what == kind), *own.items()]


def call_with_hooks(module: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`module.forward` between its pre-hooks, which may replace the arguments, and its hooks, which may replace the
    result. Hooks registered with `always_call` run even when something before them raises; what they then raise
    themselves is a warning, and the first error goes on."""
    hooks = _hooks("forward", module._forward_hooks)
    pending = {key: hook for key, hook in hooks if hook.always_call}
    result = None
    try:
        backward, backward_pre = (
            [hook.call for _, hook in _hooks(kind, own)]
            for kind, own in (("backward", module._backward_hooks), ("backward_pre", module._backward_pre_hooks))
        )
        for _, hook in _hooks("forward_pre", module._forward_pre_hooks):
            args, kwargs = _before(module, hook, args, kwargs)
        watch = Watch(module, backward, backward_pre) if backward or backward_pre else None
        if watch:
            args = watch.enter(args)
        result = module.forward(*args, **kwargs)
        for key, hook in hooks:
            pending.pop(key, None)
            result = _after(module, hook, args, kwargs, result)
        return watch.leave(result) if watch else result
    except Exception:
        for hook in pending.values():
            try:
                result = _after(module, hook, args, kwargs, result)
            except Exception as second:  # noqa: BLE001  (the first error is raised)
                warnings.warn(
                    f"module forward hook with ``always_call=True`` raised an exception, after another error: {second!r}",
                    stacklevel=3,
                )
        raise


def _before(module: Any, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    if hook.with_kwargs:
        replaced = hook.call(module, args, kwargs)
        if replaced is None:
            return args, kwargs
        if not (isinstance(replaced, tuple) and len(replaced) == 2):
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {replaced}."
            )
        return replaced
    replaced = hook.call(module, args)
    if replaced is None:
        return args, kwargs
    return (replaced if isinstance(replaced, tuple) else (replaced,)), kwargs


def _after(module: Any, hook: Hook, args: tuple, kwargs: dict[str, Any], result: Any) -> Any:
    replaced = hook.call(module, args, kwargs, result) if hook.with_kwargs else hook.call(module, args, result)
    return result if replaced is None else replaced
