"""A module called with other parameters than its own; `tdt.func.functional_call` is the public name."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tdt._core.tensor import Tensor
from tdt.nn.modules.module import Module

_MISSING: Any = object()


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Deprecated alias of `tdt.func.functional_call`, with a FutureWarning.

    >>> import tdt
    >>> from tdt.nn.utils import stateless
    >>> import warnings, tdt
    >>> layer = tdt.nn.Linear(1, 1)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     result = stateless.functional_call(layer, {"weight": tdt.ones(1, 1), "bias": tdt.zeros(1)}, tdt.tensor([2.0]))
    >>> result.tolist()
    [2.0]
    """
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future version of "
        "PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def call(module: Module, tensors: dict[str, Tensor], args: Any, kwargs: Any, *, tie_weights: bool, strict: bool) -> Any:
    """`module(*args, **kwargs)` with `tensors` in the place of those of the same names; see `tdt.func.functional_call`."""
    from tdt.nn.parallel import DataParallel  # it loads `distributed`

    if isinstance(module, DataParallel):
        raise RuntimeError("The stateless API can't be used with nn.DataParallel module")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, tensors, tie_weights, strict):
        return module(*args, **({} if kwargs is None else kwargs))


@contextmanager
def _replaced(module: Module, tensors: dict[str, Tensor], tie_weights: bool, strict: bool) -> Iterator[None]:
    """The block in which `tensors` stand in the module. What it assigns anew meanwhile is in `tensors` afterwards."""
    own: dict[str, Any] = {
        **dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))
    }  # fmt: skip
    replacements = _with_tied(own, tensors) if tie_weights else tensors
    if strict:
        differences = (("Unexpected", set(replacements) - set(own)), ("Missing", set(own) - set(replacements)))
        wrong = [f"{what} key(s): {', '.join(map(repr, sorted(keys)))}." for what, keys in differences if keys]
        if wrong:
            raise RuntimeError("\n\t".join([f"Error(s) in reparametrizing for {module._get_name()}:", *wrong]))
    before: dict[str, Any] = {}
    try:
        for name, tensor in replacements.items():
            before[name] = _swap(module, name, tensor)
        yield
    finally:
        after = {name: _swap(module, name, tensor) for name, tensor in before.items()}
        tensors.update({name: after[name] for name in tensors if name in after})


def _with_tied(own: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """`tensors` with an entry for every name of a tensor that has several; ValueError if they are given different values."""
    tied: dict[int, list[str]] = {}
    for name, tensor in own.items():
        tied.setdefault(id(tensor), []).append(name)
    replacements = dict(tensors)
    for name in tensors:
        names = tied[id(own[name])] if name in own else [name]
        if len({id(tensors[n]) for n in names if n in tensors}) > 1:
            raise ValueError(f"functional_call got multiple values for keys {sorted(names)}, which are tied. "
                             "Consider using tie_weights=False")  # fmt: skip
        replacements.update(dict.fromkeys(names, tensors[name]))
    return replacements


def _swap(module: Module, name: str, tensor: Any) -> Any:
    """Put `tensor` under a dotted name, or nothing for _MISSING; returns what was there."""
    if tensor is not None and tensor is not _MISSING and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    path, _, last = name.rpartition(".")
    owner = module.get_submodule(path)
    for registry in (owner._parameters, owner._buffers):
        if last in registry:
            before, registry[last] = registry[last], tensor
            return before
    before = getattr(owner, last, _MISSING)
    if before is not None and before is not _MISSING and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{last}`: {before} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(owner, last, tensor)
    elif before is not _MISSING:
        delattr(owner, last)
    return before


__all__ = ["functional_call"]
