"""`unary_op` and `binary_op`: define an elementwise op and its public function from a forward and a gradient's rule."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, cast

from tdt._core.calls import check_call
from tdt._core.dtype import FLOATING_AND_COMPLEX, SCALAR_NAMES
from tdt._core.dtype import bool as BOOL
from tdt._core.dtype import dtype as Dtype
from tdt._core.methods import named_like
from tdt._core.tensor import Tensor
from tdt._ops._common import tensor_argument
from tdt._ops._operators import NUMBERS
from tdt.autograd._dispatch import binary as run_binary
from tdt.autograd._dispatch import unary as run_unary
from tdt.autograd._op import Op, finish, op

F = TypeVar("F", bound=Callable[..., Any])


def ufunc(name: str) -> Callable[..., Any]:
    """A forward that applies the ufunc `name` of NumPy or CuPy, and writes into `out` if given."""

    def forward(xp: ModuleType, x: Any, *, out: Any = None) -> Any:
        return getattr(xp, name)(x) if out is None else getattr(xp, name)(x, out=out)

    forward.ufunc = name  # type: ignore[attr-defined]
    return forward


def ufunc2(name: str) -> Callable[..., Any]:
    """Like `ufunc`, for functions of two operands."""

    def forward(xp: ModuleType, x: Any, y: Any, *, out: Any = None) -> Any:
        return getattr(xp, name)(x, y) if out is None else getattr(xp, name)(x, y, out=out)

    return forward


def special(name: str) -> Callable[..., Any]:
    """Like `ufunc`, for SciPy's special functions; the first call imports SciPy."""

    def forward(xp: ModuleType, x: Any, *, out: Any = None) -> Any:
        function = getattr(special_functions(xp), name)
        return function(x) if out is None else function(x, out=out)

    return forward


SPECIAL = {"numpy": "scipy.special", "cupy": "cupyx.scipy.special"}
_special_modules: dict[str, ModuleType] = {}


def special_functions(xp: ModuleType) -> ModuleType:
    """scipy.special, or its counterpart for CuPy or for expressions."""
    name = xp.__name__
    module = _special_modules.get(name)
    if module is None and name in SPECIAL:
        module = _special_modules[name] = importlib.import_module(SPECIAL[name])
    return module or xp


def in_dtype_of(g: Any, x: Any) -> Any:
    """An operand of a gradient rule, a Python number in the gradient's dtype: a function of it alone gives CuPy float64."""
    return x if hasattr(x, "dtype") else g.dtype.type(x)


def make_op(name: str, forward: Callable[..., Any], **record: Any) -> Op:
    """Define an op named `name` from a forward of another name or none."""
    forward.__name__ = forward.__qualname__ = name
    return op(**record)(forward)


def unary_op(
    forward: Callable[..., Any],
    vjp: Callable[..., Any] | None = None,
    *,
    fast_vjp: Callable[..., Any] | None = None,
    traced: dict[str, Callable[..., Any]] | None = None,
    same_out: bool | str = False,
    bool_out: bool = False,
    dtypes: frozenset = FLOATING_AND_COMPLEX,
    to_float: bool = True,
    **traits: Any,
) -> Callable[[F], F]:
    """Decorate the empty `def f(input, *, out=None)` of a public function: define its op and give it its body.

    The `def` states name, docstring and signature.

    Args:
        forward: on arrays, `forward(xp, x)`.
        vjp: the gradient's rule, on tensors; its parameters among `g`, `x` and `out`.
        fast_vjp: the same rule on arrays.
        traced: formulas, as of `Op.traced`.
        same_out: `out=` must have the dtype of input ("real": of an input that is real); other functions convert.
        bool_out: `out=` must be bool.
        traits: further traits of the op (`Traits` in tdt/autograd/_op.py).
    """

    def define(definition: F) -> F:
        name, first = definition.__name__, definition.__code__.co_varnames[0]
        record = make_op(name, forward, dtypes=dtypes, to_float=to_float, ufunc=getattr(forward, "ufunc", ""), **traits)
        if vjp is not None:
            record.vjp("x")(vjp)
        if fast_vjp is not None:
            record.fast_vjp("x")(fast_vjp)
        record.traced |= traced or {}

        def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
            if out is None and input.__class__ is Tensor:
                return run_unary(record, input)
            tensor_argument(name, input, first)
            if same_out and out is not None and not (same_out == "real" and input.is_complex()):
                refuse_out(out, input)
            if bool_out:
                refuse_out(out, BOOL)
            return finish(record, out, input)

        return cast("F", named_like(function, definition))

    return define


def binary_op(
    forward: Callable[..., Any],
    vjp: dict[str, Callable[..., Any]] | None = None,
    *,
    fast_vjp: dict[str, Callable[..., Any]] | None = None,
    numbers: str = "other",
    same_out: bool = False,
    **traits: Any,
) -> Callable[[F], F]:
    """Like `unary_op`, for a public function `f(input, other, *, out=None)` of two operands.

    Args:
        forward: on arrays, `forward(xp, x, y)`.
        vjp: the rules by operand, "x" and "y".
        fast_vjp: the same rules on arrays.
        numbers: which operands may be a Python number: "other", "any" of the two, or "none".
        same_out: as for `unary_op`.
        traits: further traits of the op.
    """

    def define(definition: F) -> F:
        name = definition.__name__
        record = make_op(name, forward, tensors_only=numbers == "none", **traits)
        second = definition.__code__.co_varnames[1]
        for operand, rule in (vjp or {}).items():
            record.vjp(operand)(rule)
        for operand, rule in (fast_vjp or {}).items():
            record.fast_vjp(operand)(rule)

        def function(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
            if not isinstance(input, Tensor) or other.__class__ is not Tensor:
                check_operands(name, input, other, numbers, second)
            if out is None:
                return run_binary(record, input, other)
            if same_out:
                refuse_out(out, input)
            return record.into(out, input, other)

        return cast("F", named_like(function, definition))

    return define


def check_operands(name: str, input: Any, other: Any, numbers: str = "other", second: str = "other") -> None:
    """PyTorch's TypeError where an operand may not be a Python number.

    Args:
        numbers: as for `binary_op`.
        second: the second parameter's name.
    """
    if numbers == "any":
        if not isinstance(input, NUMBERS):
            tensor_argument(name, input)
        if not isinstance(other, NUMBERS):
            tensor_argument(name, other, second, 2)
        return
    if numbers == "other" and not isinstance(input, Tensor):
        check_call()
        got = ", ".join(type(value).__name__ for value in (input, other))
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({got}), but input must be a Tensor"
        )
    tensor_argument(name, input)
    if numbers == "none":
        tensor_argument(name, other, second, 2)


def refuse_out(out: Any, like: Tensor | Dtype) -> None:
    """RuntimeError if `out` (or the first of several) has another dtype, for ops that do not convert."""
    if out is None:
        return
    first = out[0] if isinstance(out, (tuple, list)) else out
    expected = like.dtype if isinstance(like, Tensor) else like
    if isinstance(first, Tensor) and first.dtype is not expected:
        raise RuntimeError(f"Found dtype {SCALAR_NAMES[first.dtype]} but expected {SCALAR_NAMES[expected]}")
