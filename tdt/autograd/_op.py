"""`@op`: an operation defined once, and its call: promotion, forward, record.

@op(dtypes=FLOATING_AND_COMPLEX)
def tanh(xp, x):                       # operands are positional, attributes keyword-only
    return xp.tanh(x)

@tanh.vjp("x")                         # the rule's parameter names say what is kept for backward
def _(g, out):
    return g * (1 - out * out).conj()
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np

from tdt import _kernels
from tdt._backend.layout import dense, in_order
from tdt._core.dtype import ALL, dtype
from tdt._core.tensor import Tensor
from tdt._kernels import Kernel
from tdt.autograd._dispatch import apply, binary, unary
from tdt.autograd._inplace import write, write_out
from tdt.autograd._op_table import OPS
from tdt.autograd._plan import Plan

F = TypeVar("F", bound=Callable[..., Any])


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters. To ask `inspect.signature` 600 times took a tenth of the first import."""
    if hasattr(function, "__signature__"):
        return tuple(function.__signature__.parameters)
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


class Rule:
    """How the gradients of the operands `wrt` follow from the outputs'; `fast` is the same on arrays."""

    __slots__ = ("wrt", "function", "params", "fast", "fast_params", "joint", "generated", "prepare")

    def __init__(self, wrt: tuple[str, ...], function: Callable[..., Any]):
        self.wrt, self.function, self.joint = wrt, function, len(wrt) > 1
        self.params = _parameters(function)
        self.fast: Callable[..., Any] | None = None
        self.fast_params: tuple[str, ...] | None = None
        self.prepare: Callable[..., Any] | None = None
        self.generated = False  # whether `fast` is a formula of each element, which may write into the gradient


@dataclass(eq=False)
class Traits:
    """What `@op(...)` can say of an op beyond its forward and its rules."""

    dtypes: frozenset[int | dtype] = ALL  # categories, or single dtypes, allowed after promotion
    check: Callable[..., None] | None = None  # raises for operand types it refuses before promotion
    promote: str | tuple[str, ...] = "all"  # operands that share one promoted type
    to_float: bool = False  # integers compute in the default float type
    outputs: tuple[str, ...] = ("out",)  # their names, for several
    nondiff: tuple[str, ...] = ()  # outputs without gradients
    constant: tuple[str, ...] = ()  # operands that may not require grad, as PyTorch has no derivative for them
    aux: tuple[str, ...] = ()  # further values that the forward returns, for fast_vjp alone
    view: bool | str = False  # True: always aliases the first operand; "maybe": where it can
    multi_view: bool = False  # returns several views
    part: Callable[..., Any] | None = None  # of a view: the index of its elements in the operand, from the attributes
    absent: tuple[str, ...] = ()  # outputs without whose gradient an array-level rule on a GPU is called, with None
    # A result that rules name is computed again from the operands where it was overwritten, as PyTorch does not save it.
    recomputed: bool = False
    # The gradient does not change with the operand but at kinks. With a graph, it requires grad where the operand does, as in
    # PyTorch: the op `linked` links it to that, or to the result ("out") where PyTorch saves it instead.
    linked: bool | str = False
    random: bool = False  # draws from a generator
    data_dependent: bool = False  # the result's shape depends on values
    broadcasts: bool = True  # operands are broadcast against each other
    elementwise: bool | None = None  # operands decide how the result lies (None: if broadcast, or for a ufunc)
    same_shape: bool = False  # the result has the shape of the operands, broadcast; True for elementwise ops
    packed: bool = False  # the result's elements lie in the order of its dimensions, however the operand's do
    computes: bool = True  # False: only moves values, in half precision too
    shape: Callable[..., Any] | None = None  # the result's shape(s) from the operands' shapes and the attributes
    flops: Callable[..., Any] | None = None  # multiply-adds from the same
    repeats: bool = False  # in place, may write to memory that is several elements (after expand)
    sparse: bool = False  # its forward takes sparse operands
    # Of a sparse operand, maps the values of "all" entries, or (where f(0) = 0) the "coalesced" ones.
    sparse_values: str = ""
    sparse_gradients: bool = False  # its rules give a sparse gradient for a sparse one
    float8: frozenset[dtype] = frozenset()  # the float8 types that it takes
    tensors_only: bool = False  # no operand may be a Python number
    # PyTorch's name of the graph's node, or a function of the node; "" derives it from the op's name.
    node: str | Callable[..., str] = ""
    # "lower": in the dtype of an autocast block; "float32"; or a function of the operands.
    autocast: str | Callable[..., str] = ""
    ufunc: str = ""  # NumPy's name for the forward without attributes, for the fast paths
    kernels: tuple[Kernel, ...] = ()  # fast forms of the forward: the first whose condition holds is called
    lower: Callable[..., Any] | None = None  # the formula in half precision, of a forward that is NumPy's in others
    # Under autocast the operands after the first may stay float32: "converted" where the op is computed in float32, "packed"
    # also where it is computed by instructions for bfloat16.
    float32_weights: str = ""
    # Forward and array-level rules take half-precision arrays and round results once: NumPy's arrays with True, CuPy's too with
    # "everywhere".
    half: bool | str = False
    # The forward takes numbers rounded to half precision, as PyTorch's sums and comparisons do.
    rounds_numbers: bool = False
    # Operands that half precision takes in float32 where they are 0-d and of another type, as PyTorch does: forward the second,
    # and in gradients all of these.
    wide_scalars: tuple[str, ...] = ()
    formula: bool = False  # forward and array-level rules compute each element from the operands' at its place alone
    # The reduction that it is, with the attributes `dim` and `keepdim`, and with the defaults of all others.
    fold: str = ""


class Op(Traits):
    """An operation: its forward, its rules and what dispatch must know of it. Calling it with tensors runs it."""

    def __init__(self, forward: Callable[..., Any], name: str | None, traits: dict[str, Any]):
        super().__init__(**traits)
        self.name: str = name or forward.__name__.strip("_")
        self.forward: Any = forward
        self.__doc__ = forward.__doc__
        params, positional = _parameters(forward), forward.__code__.co_argcount
        self.operands = params[1:positional]
        variadic = forward.__code__.co_flags & inspect.CO_VARARGS
        self.variadic = forward.__code__.co_varnames[len(params)] if variadic else None
        self.fixed = len(self.operands)
        self.optional = self.operands[self.fixed - len(forward.__defaults__ or ()) :]  # may be None
        self.defaults = dict(forward.__kwdefaults__ or {})
        self.writes_out = self.defaults.pop("out", self) is None
        self.attributes = tuple(p for p in params[positional:] if p != "out")
        self.rules: dict[str, Rule] = {}
        # "forward", and operands whose gradients are meant: formulas of expressions, of an op that is elementwise but whose
        # `forward` is no formula. `tdt.compile` fuses them.
        self.traced: dict[str, Callable[..., Any]] = {}
        # Of a random op of one operand: what draws its second result, and what computes the first one of the operand and that.
        # `tdt.compile` records both; "drawn" in `traced` is the formula of the second, with the attribute `p` as an operand.
        self.parts: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        self.on_gpu: Any = False  # `_on_gpu.form_of` it, once that is known
        # Calls of `_layouts`, once there are some; False for what no program may repeat.
        draws = self.random and not hasattr(forward, "repeatable")
        self.layouts: Any = False if draws or self.data_dependent else None
        self.plans: dict[tuple, Plan] = {}
        self.writes: dict[tuple, Any] = {}  # what `_inplace.compute_into` calls, see `_kernels._writes.writer`
        _kernels.UFUNCS.extend((self.plans, self.writes))
        self.on_sparse: Callable[..., Any] | None = None
        self.view = self.view or self.multi_view
        self.computes = self.computes and not self.view
        if self.view and not self.multi_view:
            self.layouts = False
        # simple: nothing but the forward between operands and result. fast_path: `unary` and `binary` will do.
        self.simple = not (self.aux or self.sparse)
        self.direct: Callable[..., Any] | None = getattr(np, self.ufunc) if self.ufunc else None
        self.large = _kernels.arithmetic(self.ufunc) if self.ufunc else None  # `direct` for LARGE_ARITHMETIC elements
        self.ufuncs: Any = None  # of a formula, for `elementwise`, by types and numbers
        if self.formula:
            self.ufuncs = {}
            _kernels.UFUNCS.append(self.ufuncs)
            self.forward, self.direct = _kernels.from_formula(self.name, forward, self.fixed, self.attributes)
            if self.rounds_numbers:
                self.forward = _kernels.rounding_numbers(self.forward)
            self.writes_out = True
        if self.lower is not None:
            self.lower = _kernels.from_formula(f"{self.name}_lower", self.lower, self.fixed, self.attributes)[0]
            self.lower = _kernels.rounding_numbers(self.lower) if self.rounds_numbers else self.lower
        self.fast_path = self.simple and not self.variadic and not self.multi_view and len(self.outputs) == 1
        if self.elementwise is None:
            broadcasting = self.broadcasts and self.fixed > 1 and self.shape is None and not self.view
            self.elementwise = broadcasting or self.direct is not None
        self.same_shape = self.same_shape or self.elementwise
        self.lay = dense if self.packed else in_order if self.elementwise else None
        self._names: dict[int, tuple[str, ...]] = {}

    def names_for(self, count: int) -> tuple[str, ...]:
        """The operand name of each of `count` operands; a variadic name repeats."""
        names = self._names.get(count)
        if names is None:
            rest = (self.variadic,) * (count - self.fixed) if self.variadic else ()
            names = self._names[count] = self.operands[:count] + rest
        return names

    def vjp(self, *wrt: str) -> Callable[[Callable[..., Any]], Rule]:
        """Register the rule for one operand, or a joint rule for several (it takes `needs` and returns a tuple)."""

        def register(function: Callable[..., Any]) -> Rule:
            rule = Rule(wrt, function)
            for name in wrt:
                assert name in self.operands or name == self.variadic, f"{self.name} has no operand {name}"
                self.rules[name] = rule
            return rule

        return register

    def fast_vjp(self, *wrt: str) -> Callable[[Callable[..., Any]], Rule]:
        """Register the array form of a rule: parameters as the rule's, `xp` where named; it may name aux values."""

        def register(function: Callable[..., Any]) -> Rule:
            rule = self.rules[wrt[0]]
            assert rule.wrt == wrt, f"{self.name}: fast_vjp{wrt} has no rule for the same operands"
            rule.fast, rule.fast_params = function, _parameters(function)
            # A view launches nothing, but its gradient may.
            if self.view and hasattr(function, "repeatable") and not hasattr(function, "gives_views"):
                self.layouts = None
            # A rule of the gradient alone gives back the gradient, or zeros.
            if self.formula and not rule.joint and not {"xp", "g"}.issuperset(rule.fast_params):
                rule.fast, rule.fast_params = self._generated_rule(wrt[0], function)
                rule.generated = "g" in rule.fast_params
            return rule

        return register

    def prepares_vjp(self, *wrt: str) -> Callable[[F], F]:
        """Register what prepares calls of the array form of a rule, whose parameters it takes, by their shapes.

        It gets the arguments of a call and returns a function of the gradient, of the arrays that nodes save, in order, and of
        the op's aux values, if it has any; or None. That one computes what the array form does of other arrays of these types,
        shapes and strides, where only the first result has a gradient. It is asked by calls of `_remembered.calls_by_shape`.
        """

        def register(function: F) -> F:
            rule = self.rules[wrt[0]]
            assert _parameters(function) == rule.fast_params, f"{self.name}: parameters differ from those of fast_vjp"
            rule.prepare = function
            return function

        return register

    def sparse_form(self, function: F) -> F:
        """Register the function of tensors that does the work of the op where an operand is sparse."""
        self.on_sparse = function
        return function

    def _generated_rule(self, wrt: str, function: Callable[..., Any]) -> tuple[Callable[..., Any], tuple[str, ...]]:
        """A rule on arrays that is a formula of each element, and its parameters."""
        params = _parameters(function)
        arrays = [p for p in params if p != "xp" and p not in self.attributes]
        attributes = [p for p in params if p in self.attributes]
        ordered = ("xp", *arrays, *attributes)
        assert params in (ordered, ordered[1:]), f"{self.name}: xp, arrays and attributes come in this order in a rule"
        formula = function if params == ordered else lambda xp, *args, **named: function(*args, **named)
        return _kernels.from_formula(f"{self.name}_{wrt}_gradient", formula, len(arrays), attributes)[0], ordered

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        if len(operands) == 1:
            return unary(self, operands[0], attributes)
        return apply(self, operands, attributes) if attributes or len(operands) != 2 else binary(self, *operands)

    def inplace(self, x: Tensor, *rest: Any, **attributes: Any) -> Tensor:
        """Write the result into `x`, the first operand; see `_inplace.write`."""
        return write(self, x, rest, attributes)

    def into(self, out: Any, *operands: Any, **attributes: Any) -> Any:
        """Write the result into `out`, a tensor or a tuple of them; see `_inplace.write_out`."""
        return write_out(self, out, operands, attributes)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


@overload
def op(forward: Callable[..., Any], *, name: str | None = None, **traits: Any) -> Op: ...
@overload
def op(*, name: str | None = None, **traits: Any) -> Callable[[Callable[..., Any]], Op]: ...
def op(
    forward: Callable[..., Any] | None = None, *, name: str | None = None, **traits: Any
) -> Op | Callable[[Callable[..., Any]], Op]:
    """Make an Op of a forward `f(xp, *operands, **attributes)`; `traits` are those of `Traits`."""

    def make(forward: Callable[..., Any]) -> Op:
        created = Op(forward, name, traits)
        assert created.name not in OPS, f"two ops are named {created.name}"
        OPS[created.name] = created
        return created

    return make if forward is None else make(forward)


def finish(op: Op, out: Any, *operands: Any, **attributes: Any) -> Any:
    """`op(...)`, or the same into `out` where one is given: the last line of public functions that take `out=`."""
    if out is not None:
        return op.into(out, *operands, **attributes)
    if len(operands) == 1:
        return unary(op, operands[0], attributes)
    return apply(op, operands, attributes) if attributes or len(operands) != 2 else binary(op, *operands)
