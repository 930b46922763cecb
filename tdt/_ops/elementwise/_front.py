"""What elementwise ops share: making an op and its public function from a forward, a rule and a sentence."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tdt._core.dtype import ALL, FLOATING_AND_COMPLEX, SCALAR_NAMES
from tdt._core.dtype import bool as BOOL
from tdt._core.dtype import dtype as Dtype
from tdt._core.tensor import Tensor
from tdt._ops._common import tensor_argument
from tdt.autograd._dispatch import unary as run_unary
from tdt.autograd._op import Op, finish, op

TAKES: dict[str, str] = {}  # which operands of a binary op may be Python numbers; the in-place methods ask too


def ufunc(name: str) -> Callable[..., Any]:
    """A forward that applies the array library's function `name`, into `out` where one is given."""

    def forward(xp: ModuleType, x: Any, *, out: Any = None) -> Any:
        return getattr(xp, name)(x) if out is None else getattr(xp, name)(x, out=out)

    forward.ufunc = name
    return forward


def ufunc2(name: str) -> Callable[..., Any]:
    """As `ufunc`, for functions of two operands."""

    def forward(xp: ModuleType, x: Any, y: Any, *, out: Any = None) -> Any:
        return getattr(xp, name)(x, y) if out is None else getattr(xp, name)(x, y, out=out)

    return forward


def special(name: str) -> Callable[..., Any]:
    """As `ufunc`, for SciPy's special functions; SciPy is imported by the first call."""

    def forward(xp: ModuleType, x: Any, *, out: Any = None) -> Any:
        return getattr(special_functions(xp), name)(x, out=out)

    return forward


def special_functions(xp: ModuleType) -> ModuleType:
    """scipy.special, or CuPy's twin of it."""
    return importlib.import_module("scipy.special" if xp.__name__ == "numpy" else "cupyx.scipy.special")


def make_op(name: str, forward: Callable[..., Any], **record: Any) -> Op:
    """An op called `name` from a forward that is not a `def` of that name."""
    forward.__name__ = forward.__qualname__ = name
    return op(**record)(forward)


def unary(
    name: str,
    forward: Callable[..., Any],
    rule: Callable[..., Any] | None,
    doc: str,
    example: tuple[str, str],
    fast: Callable[..., Any] | None = None,
    dtypes: frozenset = FLOATING_AND_COMPLEX,
    to_float: bool = True,
    same_out: bool = False,
    bool_out: bool = False,
    check: Callable[..., None] | None = None,
    home: str = "tdt",
) -> Callable[..., Tensor]:
    """Define a unary op and return its public function; `example` is a list's content and the result's.

    home: the public module of the function. same_out, bool_out: `out=` must have input's dtype, or be bool, where others convert.
    """
    record = make_op(name, forward, dtypes=dtypes, to_float=to_float, ufunc=getattr(forward, "ufunc", ""), check=check)
    if rule is not None:
        record.vjp("x")(rule)
    if fast is not None:
        record.fast_vjp("x")(fast)

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        if out is None and input.__class__ is Tensor:
            return run_unary(record, input)
        tensor_argument(name, input)
        if same_out and out is not None and not (name == "abs" and input.is_complex()):
            refuse_out(out, input)
        if bool_out:
            refuse_out(out, BOOL)
        return finish(record, out, input)

    return _with_example(function, name, doc, f"{home}.{name}(tdt.tensor([{example[0]}]))\ntensor([{example[1]}])")


def binary(
    name: str,
    forward: Callable[..., Any],
    rules: dict[str, Callable[..., Any]],
    doc: str,
    example: tuple[str, str, str],
    fast: dict[str, Callable[..., Any]] | None = None,
    dtypes: frozenset = ALL,
    to_float: bool = False,
    numbers: str = "other",
    check: Callable[..., None] | None = None,
    same_out: bool = False,
    home: str = "tdt",
    **traits: Any,
) -> Callable[..., Tensor]:
    """Define a binary op and return its public function; `example` is two lists' contents and the result's.

    numbers: which operands may be a Python number: "other", "any" of the two, or "none". same_out, home: as for `unary`.
    traits: further ones of the op.
    """
    record = make_op(name, forward, dtypes=dtypes, to_float=to_float, check=check, **traits)
    TAKES[name] = numbers
    for operand, rule in rules.items():
        record.vjp(operand)(rule)
    for operand, rule in (fast or {}).items():
        record.fast_vjp(operand)(rule)

    def function(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
        if not isinstance(input, Tensor) or other.__class__ is not Tensor:
            check_operands(name, input, other, numbers)
        if out is None:
            return record(input, other)
        if same_out:
            refuse_out(out, input)
        return record.into(out, input, other)

    call = f"{home}.{name}(tdt.tensor([{example[0]}]), tdt.tensor([{example[1]}]))"
    return _with_example(function, name, doc, f"{call}\ntensor([{example[2]}])")


def named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    """`function`, made by another one, under its own name and docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _with_example(function: Callable[..., Tensor], name: str, doc: str, example: str) -> Callable[..., Tensor]:
    return named(function, name, f"{doc}\n\n>>> import tdt\n>>> {example}\n")


def check_operands(name: str, input: Any, other: Any, numbers: str = "other") -> None:
    """PyTorch's TypeError where an operand may not be a Python number; `numbers` as for `binary`."""
    if numbers != "any":
        if numbers == "other" and not isinstance(input, Tensor):
            got = ", ".join(type(value).__name__ for value in (input, other))
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got ({got}), but input must be a Tensor"
            )
        tensor_argument(name, input)
    if numbers == "none":
        tensor_argument(name, other, "other", 2)


def refuse_out(out: Any, like: Tensor | Dtype) -> None:
    """RuntimeError for an `out=` (the first of several) of another dtype, in ops that do not convert."""
    first = out[0] if isinstance(out, (tuple, list)) else out
    wanted = like.dtype if isinstance(like, Tensor) else like
    if isinstance(first, Tensor) and first.dtype is not wanted:
        raise RuntimeError(f"Found dtype {SCALAR_NAMES[first.dtype]} but expected {SCALAR_NAMES[wanted]}")
