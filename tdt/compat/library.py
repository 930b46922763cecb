"""`torch.library`: custom operators, which are Python functions with their own gradients.

>>> import tdt
>>> from tdt.compat.library import custom_op
>>> @custom_op("example::double", mutates_args=())
... def double(x: tdt.Tensor) -> tdt.Tensor:
...     return x * 2
>>> double.register_autograd(lambda ctx, grad: grad * 2)
>>> x = tdt.ones(2, requires_grad=True)
>>> tdt.ops.example.double(x).sum().backward()
>>> x.grad
tensor([2., 2.])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt.autograd._function import Function
from tdt.compat._refusal import refused, unchanged

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl", "impl_abstract",
    "infer_schema", "register_autocast", "register_autograd", "register_fake", "register_kernel",
    "register_torch_dispatch", "register_vmap",
]  # fmt: skip

_NO_SCHEMA = "tdt's operators are Python functions without a schema"
infer_schema = refused("library.infer_schema", _NO_SCHEMA)
get_ctx = refused("library.get_ctx", "tdt does not trace with symbolic sizes")

# Every operator that was defined, by "namespace::name".
OPERATORS: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """A custom operator; calling it calls the function that it was created from.

    Args:
        name: "namespace::name".
        function: the implementation for any device; None until `register_kernel` is called.
    """

    def __init__(self, name: str, function: Callable[..., Any] | None = None) -> None:
        self._name, self._kernels = name, {} if function is None else {"": function}
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        self.__name__ = name.rpartition("::")[2]
        self.__doc__ = function.__doc__ if function else None

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._name})>"

    @property
    def default(self) -> CustomOpDef:
        """The operator: it has no overloads."""
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self._kernel(args)
        if self._backward is None:
            return function(*args, **kwargs)
        return _with_backward(function, self._backward, self._setup_context, kwargs).apply(*args)

    def _kernel(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        device = next((x.device.type for x in args if isinstance(x, Tensor)), "cpu")
        if (function := self._kernels.get(device, self._kernels.get(""))) is None:
            raise NotImplementedError(f"There was no kernel registered for operator {self._name} and device {device}.")
        return function

    def register_kernel(self, device_types: Any, func: Callable[..., Any] | None = None, /) -> Callable[..., Any]:
        """Register the implementation for these devices: a name, a list of names, or None for all."""
        if func is None:
            return lambda function: self.register_kernel(device_types, function)
        for device in (
            [""] if device_types is None else [device_types] if isinstance(device_types, str) else device_types
        ):
            self._kernels[device] = func
        return func

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:  # fmt: skip
        """Register the gradient: `backward(ctx, *grads)`, after `setup_context(ctx, inputs, output)` in forward."""
        self._backward, self._setup_context = backward, setup_context

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Return `fn` unchanged: the operator itself computes the shapes of meta tensors."""
        return fn

    register_vmap = register_torch_dispatch = register_autocast = unchanged


def _with_backward(
    function: Callable[..., Any], backward: Callable[..., Any], setup_context: Callable[..., Any] | None, kwargs: Any
) -> type[Function]:  # fmt: skip
    """The `Function` of one call, whose keyword arguments have no gradients."""

    class Operator(Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            with no_grad():
                output = function(*args, **kwargs)
            if setup_context is not None:
                keywords = {"keyword_only_inputs": kwargs} if kwargs else {}
                setup_context(ctx, args, output, **keywords)
            return output

    Operator.backward = staticmethod(backward)  # type: ignore[method-assign]
    return Operator


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any, device_types: Any = None,
    schema: str | None = None, tags: Any = None,
) -> Any:  # fmt: skip
    """Create a custom operator from a function. Also a decorator.

    Args:
        name: "namespace::name", under which `torch.ops.namespace.name` is the operator too.
        fn: the function.
        mutates_args: names of the arguments that it changes; ignored.
        device_types: the devices that it supports; None for all.
    """
    if fn is None:
        return lambda function: custom_op(name, function, mutates_args=mutates_args, device_types=device_types)
    operator = OPERATORS[_full(name)] = CustomOpDef(name)
    operator.__doc__ = fn.__doc__
    operator.register_kernel(device_types, fn)
    return operator


def _full(name: str) -> str:
    if name.count("::") != 1:
        raise ValueError(f"The operator's name must be 'namespace::name', but is {name!r}.")
    return name.partition("(")[0].removesuffix(".default")


def _operator(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if _full(op) not in OPERATORS:
        raise RuntimeError(f"operator {op} does not exist; define it with library.custom_op or library.define")
    return OPERATORS[_full(op)]


def define(qualname: str, schema: str = "", *, lib: Any = None, tags: Any = ()) -> Any:
    """Define an operator whose implementation is registered later. `schema` is ignored."""
    OPERATORS[_full(qualname)] = CustomOpDef(_full(qualname))


def impl(qualname: str, types: Any = None, func: Callable[..., Any] | None = None, *, lib: Any = None) -> Any:
    """Register the implementation of an operator for some devices. Also a decorator."""
    return _operator(qualname).register_kernel(None if types in (None, "default") else types, func)


def register_kernel(op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """`CustomOpDef.register_kernel` of an operator or its name."""
    return _operator(op).register_kernel(device_types, func)


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None, lib: Any = None
) -> None:  # fmt: skip
    """`CustomOpDef.register_autograd` of an operator or its name."""
    _operator(op).register_autograd(backward, setup_context=setup_context)


def register_fake(op: Any, func: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Return `func` unchanged: the operator itself computes the shapes of meta tensors. Also a decorator."""
    return unchanged(func)


impl_abstract = register_fake


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Return `func` unchanged: `vmap` maps the operations inside the operator. Also a decorator."""
    return unchanged(func)


def register_torch_dispatch(op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Return `func` unchanged: tdt's tensors have no `__torch_dispatch__`. Also a decorator."""
    return unchanged(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Do nothing: the operations inside the operator are autocast on their own."""


def fallthrough_kernel(*args: Any, **kwargs: Any) -> None:
    """The placeholder for a dispatch key without a kernel. NotImplementedError when it is called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """The operators of a namespace.

    Args:
        ns: the namespace.
        kind: "DEF", "IMPL" or "FRAGMENT".
        dispatch_key: the device of the implementations, by default every device.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError("Unsupported kind: ", kind)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Sequence[Any] = ()) -> str:
        """Define the operator that `schema` begins with. Returns its name."""
        name = schema.partition("(")[0].strip()
        define(f"{self.ns}::{name}")
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **options: Any) -> None:
        """Register the implementation of an operator; one for the key "Meta" is ignored."""
        key = dispatch_key or self.dispatch_key
        name = op_name if isinstance(op_name, str) else op_name._name
        if key not in ("Meta", "Autograd"):
            device = {"CPU": "cpu", "CUDA": "cuda"}.get(key)
            _operator(name if "::" in name else f"{self.ns}::{name}").register_kernel(device, fn)
