"""`state_dict` and `load_state_dict`: a module's parameters and buffers by dotted name, out and in."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt.autograd._hooks import RemovableHandle
from tdt.nn.parameter import Parameter, is_lazy

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find in the state, and what it found and did not need."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    def __str__(self) -> str:
        return repr(self)


class StateDict:
    """The part of Module that writes and reads states."""

    _version: int = 1
    dump_patches: bool = False
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: dict[int, Callable[..., Any]]
    _state_dict_pre_hooks: dict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: dict[int, tuple[Callable[..., Any], bool]]  # with whether it takes the module first
    _load_state_dict_post_hooks: dict[int, Callable[..., Any]]

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before this module's part of `state_dict` is taken."""
        return RemovableHandle(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict`; it may change the dict in place.

        Raises:
            RuntimeError: when, at a later `state_dict`, the hook returns something other than None.
        """

        def checked(*args: Any) -> None:
            if hook(*args) is not None:
                raise RuntimeError("state_dict post-hook must return None")

        return RemovableHandle(self._state_dict_hooks, checked)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As the post-hook; what it returns replaces the dict."""
        return RemovableHandle(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`
        before this module and those below are loaded; it may change the dict, to rename an entry for instance."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return RemovableHandle(self._load_state_dict_pre_hooks, (hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after this module and those below were loaded.

        It may change the lists `missing_keys` and `unexpected_keys`: with strict=True what is left in them is an error.
        """
        return RemovableHandle(self._load_state_dict_post_hooks, hook)

    def get_extra_state(self) -> Any:
        """Additional state, of any type, to store in `state_dict`; override it together with `set_extra_state`.

        Raises:
            RuntimeError: when a subclass does not override it.
        """
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called: override it first"
        )

    def set_extra_state(self, state: Any) -> None:
        """Restore what `get_extra_state` returned; override both.

        Raises:
            RuntimeError: when a subclass does not override it.
        """
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called: override it first"
        )

    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not StateDict.get_extra_state

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, tensor in self._own_state():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if self._has_extra_state():
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def _own_state(self) -> list[tuple[str, Any]]:
        """This module's own parameters and persistent buffers, those that are None left out."""
        saved = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        return [(k, v) for k, v in (*self._parameters.items(), *saved.items()) if v is not None]

    def state_dict(self, *args: Any, destination: dict[str, Any] | None = None, prefix: str = "",
                   keep_vars: bool = False) -> dict[str, Any]:  # fmt: skip
        """Every parameter and persistent buffer under its dotted name, detached but sharing memory with the module.

        `keep_vars=True` gives the parameters themselves. Positional arguments are destination, prefix, keep_vars.

        >>> from tdt import nn
        >>> list(nn.Sequential(nn.Linear(2, 3), nn.ReLU()).state_dict())
        ['0.weight', '0.bias']
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead: state_dict(destination=…, prefix=…, keep_vars=…)",
                FutureWarning,
                stacklevel=2,
            )
            destination, prefix, keep_vars = (*args, *(destination, prefix, keep_vars)[len(args) :])[:3]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for pre_hook in self._state_dict_pre_hooks.values():
            pre_hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            destination = hook(self, destination, prefix, metadata) or destination
        return destination

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy `state_dict` into the parameters and buffers of this module and all below it.

        Args:
            strict: whether missing and unexpected names are errors.
            assign: take the tensors of `state_dict` themselves instead of copying their values.
        Returns: the names that were missing and those that were unexpected.
        Raises:
            RuntimeError: when a shape differs or, if `strict`, names do; one message lists every mismatch.
            TypeError: when `state_dict` is not a mapping.

        >>> from tdt import nn
        >>> nn.Linear(2, 3).load_state_dict(nn.Linear(2, 3).state_dict())
        <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        loading = _Loading(getattr(state_dict, "_metadata", None) or {}, assign)
        loading.visit(self, OrderedDict(state_dict), "")
        missing, unexpected, errors = loading.missing, loading.unexpected, loading.errors
        if strict:
            for found, what in ((unexpected, "Unexpected"), (missing, "Missing")):
                if found:
                    names = ", ".join(f'"{key}"' for key in found)
                    errors.insert(0, f"{what} key(s) in state_dict: {names}. ")
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
                              missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str]) -> None:  # fmt: skip
        """Load this module's own entries; override to read an older layout of the state."""
        for hook, with_module in self._load_state_dict_pre_hooks.values():
            module = (self,) if with_module else ()
            hook(*module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in self._own_state():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            problem = self._take(name, tensor, key, state_dict[key], assign)
            if problem:
                error_msgs.append(problem)
        if self._has_extra_state():
            key = prefix + _EXTRA_STATE_KEY_SUFFIX
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        if strict:
            known = {name for name, _ in self._own_state()} | (
                {_EXTRA_STATE_KEY_SUFFIX} if self._has_extra_state() else set()
            )
            for key in state_dict:
                if key.startswith(prefix):
                    head, dot, _ = key[len(prefix) :].partition(".")
                    if head not in (self._modules if dot else known):
                        unexpected_keys.append(key)

    def _take(self, name: str, tensor: Any, key: str, value: Any, assign: bool) -> str | None:
        """Put `value` into the entry `name`; what is wrong with it, or None."""
        if not isinstance(value, Tensor):
            return (f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
                    f"but received {type(value)}")  # fmt: skip
        if is_lazy(tensor):
            if not is_lazy(value):
                with no_grad():
                    tensor.materialize(value.shape)
            else:
                return None
        if tensor.dim() == 0 and value.dim() == 1 and value.shape[0] == 1:
            value = value[0]
        if value.shape != tensor.shape:
            return (f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                    f"the shape in current model is {tensor.shape}.")  # fmt: skip
        try:
            if not assign:
                with no_grad():
                    tensor.copy_(value)
            elif isinstance(tensor, Parameter):
                parameter = value if isinstance(value, Parameter) else Parameter(value, requires_grad=False)
                setattr(self, name, parameter.requires_grad_(tensor.requires_grad))
            else:
                setattr(self, name, value)
        except (RuntimeError, TypeError, ValueError) as error:
            return (f'While copying the parameter named "{key}", whose dimensions in the model are {tensor.shape} and whose '
                    f"dimensions in the checkpoint are {value.shape}, an exception occurred : {error.args}.")  # fmt: skip
        return None


class _Loading:
    """One walk of `load_state_dict` over the tree, and what it met."""

    def __init__(self, metadata: Mapping[str, Any], assign: bool):
        self.metadata, self.assign = metadata, assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []

    def visit(self, module: StateDict, state: dict[str, Any], prefix: str) -> None:
        """Load `state`, the part of the whole whose names begin with `prefix`: hooks may change it for all below."""
        metadata = self.metadata.get(prefix[:-1], {})
        if self.assign:
            metadata = {**metadata, "assign_to_params_buffers": True}
        module._load_from_state_dict(state, prefix, metadata, True, self.missing, self.unexpected, self.errors)
        for name, child in module._modules.items():
            if child is not None:
                below = f"{prefix}{name}."
                self.visit(child, {key: value for key, value in state.items() if key.startswith(below)}, below)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, _IncompatibleKeys(self.missing, self.unexpected)) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values; "
                    "change the lists of incompatible keys in place"
                )
