"""Parameters that are computed from others: `module.weight` becomes f(original), trained through `original`.

The originals live in `module.parametrizations.weight`, a ParametrizationList of the modules that are applied in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt.nn.modules.container import ModuleDict, ModuleList
from tdt.nn.modules.module import Module
from tdt.nn.parameter import Parameter


class _Cache:
    """Values of parametrized tensors by (module, name), kept while a `cached()` block is open."""

    def __init__(self) -> None:
        self.depth = 0
        self.values: dict[tuple[int, str], Tensor] = {}


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Inside this block every parametrized tensor is computed once, however often it is used.

    >>> import tdt
    >>> from tdt import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    >>> with tdt.nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values.clear()


def _register(module: Module, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _check_same(new: Any, old: Tensor, what: str, names: tuple[str, str], must: str) -> None:
    """ValueError unless `new`, which `what` returned, is a tensor of old's dtype and shape; `must` says what it would break."""
    if not isinstance(new, Tensor):
        raise ValueError(f"{what} must return a tensor. Got {type(new).__name__}.")
    for kind in ("dtype", "shape"):
        before, after = getattr(old, kind), getattr(new, kind)
        if before != after:
            raise ValueError(f"{must.format(kind)}\n{names[0]} {kind}: {before}\n{names[1]} {kind}: {after}")


_KEEPS = "Registering a parametrization may not change the {} of the tensor, unless the `unsafe` flag is enabled."


class ParametrizationList(ModuleList):
    """Parametrizations of one tensor, in the order they are applied, with the parameters that they start from.

    These are `original`, or `original0`, `original1`, … where the first one's `right_inverse` returns several tensors.
    `register_parametrization` constructs it.

    Args:
        unsafe: skip the checks that dtype and shape stay the same.
    Shape: original (*); result of a call, the parametrized tensor, the same shape unless `unsafe`.
    Raises:
        ValueError: when there are no modules or, unless `unsafe`, the dtype or shape would change.

    >>> import tdt
    >>> layer = tdt.nn.utils.parametrizations.weight_norm(tdt.nn.Linear(3, 2))
    >>> len(layer.parametrizations.weight)
    1
    """

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False):
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape_and_type = original.detach()
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                new = _inverse(module, new)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                             f"Got {type(new).__name__}")  # fmt: skip
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Tensor):
            for kind in ("dtype", "device"):
                if getattr(original, kind) != getattr(new, kind):
                    raise ValueError(
                        f"When `right_inverse` outputs one tensor, it may not change the {kind}.\n"
                        f"original.{kind}: {getattr(original, kind)}\nright_inverse(original).{kind}: {getattr(new, kind)}"
                    )
            original.data = new  # the same object, which an optimizer may know
            _register(self, "original", original)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, Tensor):
                    raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                                     f"Got element {i} of the sequence with type {type(part).__name__}.")  # fmt: skip
                part = Parameter(part, original.requires_grad) if isinstance(original, Parameter) else part
                _register(self, f"original{i}", part.requires_grad_(original.requires_grad))
        if not unsafe:
            _check_same(self(), shape_and_type, "A parametrization", ("unparametrized", "parametrized"), _KEEPS)

    def originals(self) -> list[Any]:
        """The tensors that the first parametrization takes."""
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    @no_grad()
    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the parametrized tensor becomes `value`, by every `right_inverse` from last to first.

        Raises:
            RuntimeError: when a parametrization has no `right_inverse`.
            ValueError: when one returns another number, type or dtype of tensors.
        """
        for module in reversed(list(self)):
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
            value = module.right_inverse(value)
        if self.is_tensor:
            if not isinstance(value, Tensor):
                raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
            value = [value]
        elif not isinstance(value, Sequence):
            raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
        elif len(value) != self.ntensors:
            raise ValueError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                             f"Got a sequence of length {len(value)}.")  # fmt: skip
        for i, (original, tensor) in enumerate(zip(self.originals(), value, strict=True)):
            if not isinstance(tensor, Tensor):
                raise ValueError("'right_inverse' must return a sequence of tensors. "
                                 f"Got element {i} of type {type(tensor).__name__}.")  # fmt: skip
            if tensor.dtype != original.dtype:
                which, name = ("The tensor", "original") if self.is_tensor else (f"Tensor {i}", f"original{i}")
                raise ValueError(f"{which} returned by `right_inverse` has dtype {tensor.dtype} "
                                 f"while `{name}` has dtype {original.dtype}")  # fmt: skip
            original.data = tensor

    def forward(self) -> Tensor:
        first, *rest = self
        value = first(*self.originals())
        for module in rest:
            value = module(value)
        return value


def _inverse(module: Module, value: Any) -> Any:
    """`right_inverse` of `value`, which is `value` itself where there is none."""
    if hasattr(module, "right_inverse"):
        try:
            return module.right_inverse(value)
        except NotImplementedError:
            pass
    return value


def _deepcopy(self: Any, memo: dict) -> Any:
    copied = self.__new__(type(self))
    copied.__class__ = _subclass(type(self).__bases__[0], self.parametrizations)  # the copy's are removed for itself
    memo[id(self)] = copied
    copied.__dict__ = deepcopy(self.__dict__, memo)
    return copied


def _getstate(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(); save that instead of the module"
    )


def _subclass(cls: type, names: Iterable[str] = ()) -> type:
    """A class for one module, on which its parametrized tensors are properties."""
    members: dict[str, Any] = {"__getstate__": _getstate, **{name: _property(name) for name in names}}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = _deepcopy
    return type(f"Parametrized{cls.__name__}", (cls,), members)


def _property(name: str) -> property:
    """What stands for the tensor `name` on the class of a parametrized module."""

    def get(self: Any) -> Tensor:
        parametrization = self.parametrizations[name]
        if not _cache.depth:
            return parametrization()
        key = (id(self), name)
        if key not in _cache.values:
            _cache.values[key] = parametrization()
        return _cache.values[key]

    def set_(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, set_)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute `module.<tensor_name>`, a parameter or buffer, as `parametrization(original)` from now on.

    A second one is applied to the result of the first. A method `right_inverse` allows assignment to the tensor; it
    need
    only satisfy f(right_inverse(f(x))) = f(x), and may return several tensors, which `forward` then takes as arguments.

    Args:
        unsafe: skip the checks that dtype and shape stay the same.
    Returns: the module, whose class is a new subclass.
    Raises:
        ValueError: when the module has no tensor of that name or, unless `unsafe`, the dtype or shape would change.

    >>> import tdt
    >>> from tdt import nn
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    >>> tdt.equal(layer.weight, layer.weight.T), list(layer.state_dict())
    (True, ['bias', 'parametrizations.weight.original'])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        known: Any = _parametrizations(module)[tensor_name]
        known.append(parametrization)
        known.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.__class__ = _subclass(type(module))
            setattr(module, "parametrizations", ModuleDict())  # noqa: B010
        setattr(type(module), tensor_name, _property(tensor_name))
        _parametrizations(module)[tensor_name] = parametrizations
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
                         f"'{tensor_name}'")  # fmt: skip
    return module


def _check_further(module: Module, name: str, parametrization: Any) -> None:
    """ValueError unless one more parametrization maps the tensor, and back, to its dtype and shape."""
    value = getattr(module, name)
    result = parametrization(value)
    _check_same(result, value, "A parametrization", (f"module.{name}", f"parametrization(module.{name})"), _KEEPS)
    if not hasattr(parametrization, "right_inverse"):
        return
    back = _inverse(parametrization, result)
    must = f"The tensor returned by parametrization.right_inverse must have the same {{}} as module.{name}"
    _check_same(back, value, "parametrization.right_inverse", (f"module.{name}", "returned"), must)


def _parametrizations(module: Module) -> ModuleDict:
    """The parametrizations of a module that has some, by parameter."""
    return module._modules["parametrizations"]


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the tensor of that name, or without a name any tensor of the module, is parametrized.

    >>> import tdt
    >>> from tdt import nn
    >>> tdt.nn.utils.parametrize.is_parametrized(nn.Linear(2, 2), "weight")
    False
    """
    known = getattr(module, "parametrizations", None)
    if not isinstance(known, ModuleDict):
        return False
    return len(known) > 0 if tensor_name is None else tensor_name in known


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrized tensor an ordinary one again.

    Args:
        leave_parametrized: keep the present value; else the original's.
    Returns: the module.
    Raises:
        ValueError: when the tensor is not parametrized, or several originals cannot be left.

    >>> import tdt
    >>> from tdt import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    >>> list(tdt.nn.utils.parametrize.remove_parametrizations(layer, "weight").state_dict())
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    known: Any = _parametrizations(module)
    if known[tensor_name].is_tensor:
        original = known[tensor_name].original
        if leave_parametrized:
            with no_grad():
                original.data = getattr(module, tensor_name)
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of "
                         "a sequence of tensors.")  # fmt: skip
    delattr(type(module), tensor_name)
    del known[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of the module, as it was before it got parametrizations.

    >>> from tdt.nn.utils import parametrize
    >>> from tdt import nn
    >>> parametrize.type_before_parametrizations(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))).__name__
    'Linear'
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give `to_module` the parametrizations of `from_module`, of one tensor or of all, with their original tensors.

    A tensor that `to_module` lacks is made. Returns `to_module`.

    >>> from tdt.nn.utils import parametrize
    >>> from tdt import nn
    >>> source, target = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), nn.Linear(2, 2)
    >>> bool((parametrize.transfer_parametrizations_and_params(source, target).weight == source.weight).all())
    True
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(_parametrizations(from_module)) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source: Any = _parametrizations(from_module)[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = _parametrizations(to_module)[name]
        for i, original in enumerate(source.originals()):
            setattr(target, "original" if source.is_tensor else f"original{i}", original)
    return to_module


__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
           "transfer_parametrizations_and_params", "type_before_parametrizations"]  # fmt: skip
