"""`@method` and `@tensor_property`: bind a function of a tensor to Tensor, where it is defined."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from tdt._core.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

IN_PLACE_FUNCTIONS: dict[str, Callable[..., Any]] = {}  # in-place methods that are functions of tdt, too


def method(
    name: str = "",
    *,
    aliases: tuple[str, ...] = (),
    in_place: Callable[[Callable[..., Any], str], Callable[..., Any]] | None = None,
    in_place_function: bool = False,
) -> Callable[[F], F]:
    """Bind a function whose first parameter is the tensor as a method of Tensor.

    Args:
        name: the method's name, if it differs from the function's because a public function has that name already.
        aliases: further names of the method; those of the in-place method follow.
        in_place: makes the in-place method `name_` of (function, name): `by_op`, `by_copy` or `by_view` of
            tdt/autograd/_in_place_methods.py.
        in_place_function: the in-place method is a function of tdt, too: `tdt.exp_(x)`.
    """

    def bind(function: F) -> F:
        if name:
            rename(function, name)
        forms: dict[str, Callable[..., Any]] = {"": function}
        if in_place is not None:
            forms["_"] = in_place(function, function.__name__)
        for ending, form in forms.items():
            for each in (function.__name__, *aliases):
                setattr(Tensor, each + ending, form)
        if in_place_function:
            IN_PLACE_FUNCTIONS.update({f"{each}_": forms["_"] for each in (function.__name__, *aliases)})
        return function

    return bind


def tensor_property(
    function: Callable[[Tensor], Any] | None = None,
    *,
    setter: Callable[[Tensor, Any], None] | None = None,
    deleter: Callable[[Tensor], None] | None = None,
) -> Any:
    """Bind a function of a tensor as a property of Tensor, under its own name: `@tensor_property` or with a setter."""
    if function is None:
        return functools.partial(tensor_property, setter=setter, deleter=deleter)
    setattr(Tensor, function.__name__, property(function, setter, deleter))
    return function


def rename(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Give `function` another name, in tracebacks too."""
    function.__name__ = name
    function.__qualname__ = f"Tensor.{name}"
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=function.__qualname__)
    return function


def named_like(function: Callable[..., Any], definition: Callable[..., Any]) -> Callable[..., Any]:
    """Give `function`, the implementation, the name, docstring, signature and parameter names of `definition`."""
    functools.update_wrapper(function, definition)
    code, shown = function.__code__, definition.__code__
    count = shown.co_argcount + shown.co_kwonlyargcount
    function.__code__ = code.replace(
        co_name=shown.co_name,
        co_qualname=shown.co_name,
        co_varnames=shown.co_varnames[:count] + code.co_varnames[count:],
    )
    return function
