"""The implementations of in-place methods, for `@method(in_place=…)`: by the op, by a copy, by a view."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tdt._core import dtype as _dtype
from tdt._core.calls import check_call
from tdt._core.methods import rename
from tdt._core.mode import enable_grad, real, state
from tdt._core.tensor import LEAF, Tensor, View, alias
from tdt._core.writing import check_memory
from tdt.autograd._inplace import check_writable, is_plain, write
from tdt.autograd._op_table import OPS


def by_op(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """The op of this name runs on the tensor's own memory; operands are passed by position, attributes by keyword."""
    record = OPS[name]

    def method(input: Tensor, *operands: Any, **attributes: Any) -> Tensor:
        if attributes and "out" in attributes:
            raise _no_out(name)
        if record.tensors_only and operands and not isinstance(operands[0], Tensor):
            check_call()
        return write(record, input, operands, attributes)

    return _in_place(method, function, name)


def by_copy(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """The function's result is copied into the tensor: for functions that check their arguments or call several ops."""

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if "out" in kwargs:
            raise _no_out(name)
        try:
            # The op may keep its input for backward, which must not change.
            recorded = False
            if state.grad:
                for x in (input, *args, *kwargs.values()):
                    if isinstance(x, Tensor) and (x._edge is not None or x._view is not None) and x.requires_grad:
                        recorded = True
            return overwrite(input, function(OPS["clone"](input) if recorded else input, *args, **kwargs))
        except (AttributeError, TypeError):
            check_call()
            raise

    return _in_place(method, function, name)


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
        check_writable(input)
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
