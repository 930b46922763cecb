"""Module: the base of every layer and model. Holds parameters, buffers and sub-modules by name."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from tdt._core.constructors import own_constructor
from tdt._core.tensor import Tensor
from tdt.nn.modules._convert import Convertible
from tdt.nn.modules._forward import HasForward, P, R
from tdt.nn.modules._hooks import (  # noqa: F401  (PyTorch has them here)
    Hooked,
    call_with_hooks,
    global_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registered,
)
from tdt.nn.modules._lookup import NOT_COMPILED, Lookup
from tdt.nn.modules._state import _EXTRA_STATE_KEY_SUFFIX, StateDict, _IncompatibleKeys  # noqa: F401
from tdt.nn.parameter import Buffer, Parameter

_REGISTRIES = (
    "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
_READ_DIRECTLY = "weight", "bias", "running_mean", "running_var"  # what layers read by `_lookup.pair`
_lookups_of = operator.attrgetter("__getattr__", "__getattribute__")


def typename(value: Any) -> str:
    """The type of `value` as error messages name it: with its module unless built in."""
    if isinstance(value, Tensor):
        return value.type()
    kind = value if isinstance(value, type) else type(value)
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"


class Module(Lookup, Hooked, StateDict, Convertible):
    """Base class of layers and models: assign Parameters and Modules as attributes, write `forward`.

    >>> import tdt
    >>> from tdt import nn
    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.by = nn.Parameter(tdt.ones(1))
    ...     def forward(self, x):
    ...         return x * self.by
    >>> [name for name, _ in Scale().named_parameters()]
    ['by']
    """

    training: bool
    _hooks_of_all = global_hooks
    _reads_directly = True  # False for a class that computes one of _READ_DIRECTLY, as a property, or any attribute

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own_constructor(cls)
        plain = _lookups_of(cls) == _lookups_of(Module)
        cls._reads_directly = plain and not any(hasattr(cls, name) for name in _READ_DIRECTLY)

    def __init__(self) -> None:
        self.__dict__.update({name: {} for name in _REGISTRIES}, training=True, _non_persistent_buffers_set=set[str]())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass writes its own."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    if TYPE_CHECKING:

        def __call__(self: HasForward[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
            """`forward` between the hooks."""
            ...
    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            if (
                self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks or global_hooks
            ):  # fmt: skip
                return call_with_hooks(self, args, kwargs)
            return self.forward(*args, **kwargs)

    # Registration.

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under `name`; None reserves the name, as for a layer without bias.

        Raises:
            TypeError: when `param` is not a Parameter.
            ValueError: when `param` is the result of an operation.
        """
        self._check_new(name, "parameter", "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{typename(param)}' object to parameter '{name}' "
                            "(torch.nn.Parameter or None required)")  # fmt: skip
        if param is not None and param.grad_fn is not None:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                             f"explicitly. To express '{name}' as a function of another Tensor, compute the value in the "
                             "forward() method.")  # fmt: skip
        self._parameters[name] = registered(self, "parameter", name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not trained, such as running statistics.

        Args:
            persistent: whether `state_dict` contains it.
        Raises:
            TypeError: when `tensor` is not a Tensor.
        """
        self._check_new(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = registered(self, "buffer", name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under `name`.

        Raises:
            TypeError: when `module` is not a Module.
        """
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_new(name, "module", "_modules")
        self._modules[name] = registered(self, "module", name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Alias of `add_module`."""
        self.add_module(name, module)

    def _check_new(self, name: str, kind: str, registry: str) -> None:
        if registry not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in self.__dict__[registry] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    if not TYPE_CHECKING:  # to a checker a misspelt name is an error; buffers are declared: `mean: Tensor`

        def __getattr__(self, name: str) -> Any:
            own = self.__dict__
            for kind in ("_parameters", "_modules", "_buffers"):  # a name is in one of them
                if kind in own and name in own[kind]:
                    return own[kind][name]
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute '{name}'{NOT_COMPILED.get(name, '')}"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(f"cannot assign '{typename(value)}' as parameter '{name}' "
                                "(torch.nn.Parameter or None expected)")  # fmt: skip
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_buffers")
            own["_modules"][name] = registered(self, "module", name, value)
        elif name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            own["_modules"][name] = registered(self, "module", name, None)
        elif isinstance(value, Buffer) or name in own.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None "
                                "expected)")  # fmt: skip
            persistent = (
                value.persistent if isinstance(value, Buffer) else name not in own["_non_persistent_buffers_set"]
            )
            self.register_buffer(name, value, persistent)
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name: str, *kinds: str) -> None:
        self.__dict__.pop(name, None)
        for kind in kinds:
            self.__dict__.get(kind, {}).pop(name, None)
        self.__dict__.get("_non_persistent_buffers_set", set()).discard(name)

    def __delattr__(self, name: str) -> None:
        for kind in (self._parameters, self._buffers, self._modules):
            if name in kind:
                del kind[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[0].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        Module.__init__(self)  # what an older pickle may lack
        self.__dict__.update(state)

    # Traversal.

    def named_modules(self, memo: set[Module] | None = None, prefix: str = "",
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:  # fmt: skip
        """This module and all below it with their dotted names, parents first; a shared module once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once unless `remove_duplicate=False`."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct children with their names, each once."""
        visited: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in visited:
                visited.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The direct children, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(self, get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]], prefix: str = "",
                       recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:  # fmt: skip
        memo: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or id(value) in memo:
                    continue
                if remove_duplicate:
                    memo.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:  # fmt: skip
        """Every parameter with its dotted name; one that is shared appears once, under its first name.

        >>> from tdt import nn
        >>> [(name, tuple(p.shape)) for name, p in nn.Linear(2, 3).named_parameters(prefix="fc")]
        [('fc.weight', (3, 2)), ('fc.bias', (3,))]
        """
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Every parameter once; what an optimizer takes."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:  # fmt: skip
        """Every buffer with its dotted name."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Every buffer once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # Changing the whole tree.

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call `fn` on every module below and last on this one; returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch this module and all below it to training mode, or with `mode=False` to evaluation mode; returns self.

        Training mode lets dropout drop elements and batch normalisation use the batch's statistics.

        Raises:
            ValueError: when `mode` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Switch this module and all below it to evaluation mode; returns self."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether autograd computes gradients for the parameters; returns self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set every parameter's gradient to None, or with `set_to_none=False` to zeros."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach()
                parameter.grad.zero_()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the module's `forward` in place, as `tdt.compile` does, which takes the arguments. Hooks are not compiled.

        Raises:
            RuntimeError, NotImplementedError: as `tdt.compile`.
        """
        from tdt._compiled import compile_forward

        compile_forward(self, *args, **kwargs)

    # Printing.

    def extra_repr(self) -> str:
        """Settings that `repr` shows between the parentheses; layers override it."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = [f"({name}): {indent(repr(module))}" for name, module in self._modules.items()]
        return _brackets(self._get_name(), extra.split("\n") if extra else [], lines)


def _brackets(name: str, extra: list[str], lines: list[str]) -> str:
    if not lines and len(extra) <= 1:
        return f"{name}({''.join(extra)})"
    return f"{name}(\n  " + "\n  ".join([*extra, *lines]) + "\n)"


def indent(text: str) -> str:
    """`text` with every line but the first and those that are empty moved in by two."""
    first, *rest = text.split("\n")
    return "\n".join([first, *("  " + line if line.strip() else "" for line in rest)])
