"""The implementations of in-place methods, for `@method(in_place=…)`: by the op, by a copy, by a view."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.calls import check_call
from tdt._core.methods import rename
from tdt._core.mode import enable_grad, real, state
from tdt._core.tensor import LEAF, Tensor, View, alias
from tdt._core.writing import check_memory, check_overlap
from tdt.autograd._autocast import autocast
from tdt.autograd._inplace import check_inplace, is_plain, may_require_grad, write
from tdt.autograd._op_table import OPS
from tdt.autograd._remembered_writes import FEW
from tdt.autograd._views import edge_of, edge_without_hooks

if TYPE_CHECKING:
    from tdt.autograd._op import Op

InPlace = Callable[[Callable[..., Tensor], str], Callable[..., Tensor]]  # makes the in-place method of (function, name)
ndarray = np.ndarray


def by_op(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """The op of this name runs on the tensor's own memory."""
    record = OPS[name]
    signature, written = inspect.signature(function), getattr(function, "written", None)
    names = tuple(signature.parameters)[1 : len(record.operands)]

    def method(input: Tensor, *operands: Any, **attributes: Any) -> Tensor:
        if written is not None and not (attributes and "out" in attributes):
            if written(input, operands, attributes, False):
                return input
            if is_plain(input) and input._a.size <= FEW:
                if record.broadcasts:
                    check_overlap(input, operands)
                return overwrite(input, function(input, *operands, **attributes))
        if attributes:
            if "out" in attributes:
                raise _no_out(name)
            for operand in names[len(operands) :]:  # those that come by name
                if operand in attributes:
                    operands = (*operands, attributes.pop(operand))
        if len(operands) != len(names):
            signature.bind(input, *operands)  # raises TypeError for too few or too many
        if record.tensors_only and operands and not isinstance(operands[0], Tensor):
            check_call()
        return write(record, input, operands, attributes)

    return _in_place(method, function, name)


def by_copy(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """The function's result is copied into the tensor: for functions that check their arguments or call several ops."""
    uncast, written = autocast("keep")(function), getattr(function, "written", None)

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if kwargs and "out" in kwargs:
            raise _no_out(name)
        if written is not None and written(input, args, kwargs, False):
            return input
        call = function if state.handler is None else uncast
        try:
            if is_plain(input) and _have_no_graph(args) and (not kwargs or _have_no_graph(kwargs.values())):
                result, a = call(input, *args, **kwargs), input._a
                r = result._a
                if r.__class__ is ndarray and r.dtype is a.dtype and r.shape == a.shape:
                    a[...] = r
                    input._st.bump_version()
                    return input
                return overwrite(input, result)
            # The op may keep its input for backward, which must not change.
            recorded = False
            if state.grad:
                for x in (input, *args, *kwargs.values()):
                    if isinstance(x, Tensor) and (x._edge is not None or x._view is not None) and x.requires_grad:
                        recorded = True
            return overwrite(input, call(_recorded_copy(input) if recorded else input, *args, **kwargs))
        except (AttributeError, TypeError):
            check_call()
            raise

    return _in_place(method, function, name)


def _have_no_graph(values: Iterable[Any]) -> bool:
    """Whether none of the values is a tensor that may be recorded."""
    return all(not (isinstance(x, Tensor) and may_require_grad(x)) for x in values)


def _recorded_copy(x: Tensor) -> Tensor:
    """A copy of what is written to, of whose gradient hooks on a view hear nothing."""
    check_inplace(x)
    edge = edge_of(x) if x._view is not None else None
    if edge is not None and edge is not LEAF:
        x = alias(x._a, edge_without_hooks(x, edge), x._st)
    return OPS["clone"](x)


def by_op_of(op: Op, arguments: Callable[..., tuple[tuple, dict[str, Any]]]) -> InPlace:
    """`by_one_of` for a function that calls one op.

    Args:
        arguments: gives, for the function's arguments, the op's operands behind the tensor, and its attributes.
    """
    return by_one_of(lambda *args, **kwargs: (op, *arguments(*args, **kwargs)))


def by_one_of(arguments: Callable[..., tuple[Op, tuple, dict[str, Any]]]) -> InPlace:
    """`by_op` for a function that checks its arguments and writes at places of a tensor; small tensors are written `by_copy`.

    Args:
        arguments: gives, for the function's arguments, the op that it calls, the operands behind the tensor, and the attributes.
    """

    def make(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
        copied, written = by_copy(function, name), getattr(function, "written", None)

        def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            if kwargs and "out" in kwargs:
                raise _no_out(name)
            if written is not None and written(input, args, kwargs, False):
                return input
            try:
                if input._a.size <= FEW and input._a.flags.c_contiguous:
                    return copied(input, *args, **kwargs)
                op, operands, attributes = arguments(input, *args, **kwargs)
            except (AttributeError, TypeError):
                check_call()
                raise
            return write(op, input, operands, attributes)

        return _in_place(method, function, name)

    return make


def by_op_of_floats(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """`by_op` for tensors of one floating-point type and numbers, which need no check; `by_copy` for other operands."""
    record, copied = OPS[name], by_copy(function, name)

    def method(input: Tensor, *operands: Any, **attributes: Any) -> Tensor:
        is_plain = input.__class__ is Tensor and len(operands) + 1 == len(record.operands)
        if is_plain and attributes.keys() <= record.defaults.keys():
            dtype = input._a.dtype
            for x in operands:
                if x.__class__ is not float and (x.__class__ is not Tensor or x._a.dtype is not dtype):
                    break
            else:
                if dtype.kind == "f":
                    return write(record, input, operands, attributes)
        return copied(input, *operands, **attributes)

    return _in_place(method, function, name)


def small_overwritten(function: Callable[..., Tensor], input: Tensor, *args: Any) -> bool:
    """Whether `input` is small and now has the result of `function(input, *args)`, whose calls are remembered."""
    if function.written(input, args, {}, False):  # type: ignore[attr-defined]
        return True
    plain = input._a.size <= FEW and is_plain(input)
    if plain:
        overwrite(input, function(input, *args))
    return plain


def by_view(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """The tensor itself takes the shape and strides of the view that the function returns."""

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        try:
            return become_view(input, lambda: function(input, *args, **kwargs))
        except (AttributeError, TypeError):
            check_call()
            raise

    return _in_place(method, function, name)


def _no_out(name: str) -> TypeError:
    return TypeError(f"{name}_() got an unexpected keyword argument 'out'")


def _in_place(method: Callable[..., Tensor], function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    method.__wrapped__, signature = function, inspect.signature(function)  # type: ignore[attr-defined]
    remaining = [parameter for parameter in signature.parameters.values() if parameter.name != "out"]
    method.__signature__ = signature.replace(parameters=remaining)  # type: ignore[attr-defined]
    method.__doc__ = f"In-place version of `{name}`."
    return rename(method, f"{name}_")


def overwrite(input: Tensor, result: Tensor) -> Tensor:
    """Copy `result`, computed from `input`, over it; RuntimeError for another shape or a dtype that does not fit."""
    if is_plain(input) and is_plain(result) and input._a.dtype is result._a.dtype and input._a.shape == result._a.shape:
        input._a[...] = result._a
        input._st.bump_version()
        return input
    if result._a.shape != input._a.shape:
        raise RuntimeError(
            f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(result.shape)}"
        )
    if not _dtype.can_cast(result.dtype, input.dtype):
        raise RuntimeError(
            f"result type {_dtype.SCALAR_NAMES[result.dtype]} can't be cast to the desired output type "
            f"{_dtype.SCALAR_NAMES[input.dtype]}"
        )
    return OPS["copy"].inplace(input, result)


def become_view(input: Tensor, make_view: Callable[[], Tensor]) -> Tensor:
    """Give `input` shape and strides of `make_view()`, a view of it, as `transpose_` does. Counts as a write."""
    recording = state.grad and input.requires_grad
    if recording:
        if input._edge is LEAF:
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
        check_inplace(input)
    check_memory(input, repeats=True)
    viewed, view, storage = make_view(), input._view, input._st
    storage.bump_version()
    if view is not None:
        version = storage.version if recording else -1
        step = viewed._view.step  # type: ignore[union-attr]
        input._view = View(view.base, view, step, version, view.creation_meta, view.base_array)
    if recording:
        input._edge = viewed._edge
    elif view is None and input._edge not in (None, LEAF):
        with enable_grad(), real():
            input._edge = OPS["unaware"](alias(input._a, input._edge))._edge
    input._a = viewed._a
    return input
