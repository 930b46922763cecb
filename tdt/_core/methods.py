"""`@method` and `@tensor_property`: bind a function of a tensor to Tensor, where it is defined."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

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
                setattr(Tensor, each + ending, copy_of(form, each + ending, f"Tensor.{each}{ending}"))
                if ending and in_place_function:
                    IN_PLACE_FUNCTIONS[each + ending] = copy_of(form, each + ending, each + ending)
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


def copy_of(function: Callable[..., Any], name: str, qualname: str) -> Callable[..., Any]:
    """A function that does the same under another name: a method beside the public function, or an alias.

    Errors look at the names: `x.add("a")` is a call of Tensor.add, in which PyTorch counts no argument for `x`.
    """
    code = function.__code__.replace(co_name=name, co_qualname=qualname)
    copy = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    functools.update_wrapper(copy, function, assigned=("__doc__", "__annotations__", "__kwdefaults__", "__module__"))
    vars(copy).pop("__wrapped__")
    vars(copy).update(vars(function))
    copy.__qualname__ = qualname
    return copy


def function_alias(name: str, of: F) -> F:
    """The public function `of` under a second name of its own, which help and errors show."""
    alias = copy_of(of, name, name)
    alias.__module__ = sys._getframe(1).f_globals["__name__"]  # where pickle finds it, as it does named tuples
    summary, _, rest = (inspect.getdoc(of) or "").partition("\n\n")
    alias.__doc__ = f"{summary}\n\nAlias of `{of.__name__}`.\n\n{rest}"
    return cast("F", alias)


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
