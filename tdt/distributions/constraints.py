"""The sets that parameters and values of distributions lie in, and the tests of whether they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, overload

import tdt
from tdt import Tensor, linalg

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """Set of values: `check(value)` returns for each event, over the last `event_dim` dimensions, whether it lies in it.

    >>> import tdt
    >>> tdt.distributions.constraints.positive.check(tdt.tensor([1.0, -1.0]))
    tensor([ True, False])
    """

    if TYPE_CHECKING:  # attributes of most subclasses, properties of some

        @property
        def is_discrete(self) -> bool: ...
        @property
        def event_dim(self) -> int: ...

    else:
        is_discrete, event_dim = False, 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each event of `value` lies in the set.

        Raises:
            NotImplementedError: when a subclass does not write it.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value}" for name, value in vars(self).items() if name.endswith("_bound"))
        return f"{type(self).__name__.lstrip('_')}({numbers})"


class _Dependent(Constraint):
    """Set that depends on the other parameters of a distribution: known of an instance only."""

    def __init__(self, *, is_discrete: bool = NotImplemented, event_dim: int = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def _known(self, name: str) -> Any:
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    @property
    def is_discrete(self) -> bool:
        return self._known("is_discrete")

    @property
    def event_dim(self) -> int:
        return self._known("event_dim")

    def __call__(self, *, is_discrete: bool = NotImplemented, event_dim: int = NotImplemented) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        """Not possible: the set is known of an instance only.

        Raises:
            ValueError: always.
        """
        raise ValueError("Cannot determine validity of dependent constraint")


class dependent_property(property, _Dependent):
    """Property that returns the set of an instance; on the class it is a dependent constraint itself.

    Args:
        is_discrete, event_dim: what is known of the set without an instance.

    >>> import tdt
    >>> tdt.distributions.Uniform(0.0, 2.0).support
    Interval(lower_bound=0.0, upper_bound=2.0)
    """

    def __init__(
        self,
        fn: Callable[..., Constraint] | None = None,
        *,
        is_discrete: bool = NotImplemented,
        event_dim: int = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type, /) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type | None = None, /) -> Constraint: ...
        def __get__(self, instance: object, owner: type | None = None, /) -> Constraint: ...

    def __call__(self, fn: Callable[..., Constraint]) -> dependent_property:  # type: ignore[override]
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Constraint) -> bool:
    """Whether a constraint is known of an instance only.

    >>> import tdt
    >>> from tdt.distributions import constraints
    >>> constraints.is_dependent(constraints.dependent), constraints.is_dependent(constraints.positive)
    (True, False)
    """
    return isinstance(constraint, _Dependent)


class _Over(Constraint):
    """A set made of another one, `base_constraint`, which says what is discrete."""

    base_constraint: Constraint

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    def _all(self, valid: Tensor, value: Tensor, dims: int, expected: int) -> Tensor:
        if value.ndim < expected:
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.ndim}")
        return valid.reshape(*valid.shape[: valid.ndim - dims], -1).all(-1)


class _IndependentConstraint(_Over):
    """Constraint whose last `reinterpreted_batch_ndims` batch dimensions become part of the event.

    Raises:
        AssertionError: when `reinterpreted_batch_ndims` is negative.

    >>> import tdt
    >>> from tdt.distributions import constraints
    >>> constraints.independent(constraints.positive, 1).check(tdt.tensor([[1.0, 2.0], [1.0, -1.0]]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}")
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        valid = self.base_constraint.check(value)
        return self._all(valid, value, self.reinterpreted_batch_ndims, self.event_dim)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_Over):
    """Values that lie in the support of every component of a mixture.

    >>> import tdt
    >>> from tdt.distributions import constraints
    >>> constraints.MixtureSameFamilyConstraint(constraints.positive).check(tdt.tensor([1.0, -1.0]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        valid = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return self._all(valid, value, valid.ndim - (value.ndim - self.event_dim), self.event_dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Bounded(Constraint):
    """A set between bounds, numbers or tensors."""

    def __init__(self, lower_bound: Tensor | float, upper_bound: Tensor | float) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    @property
    def bounds(self) -> tuple[Tensor | float, Tensor | float]:
        return self.lower_bound, self.upper_bound


class _Interval(_Bounded):
    """Numbers in [lower_bound, upper_bound].

    Shape: bounds broadcastable to the value.

    >>> import tdt
    >>> tdt.distributions.constraints.interval(0.0, 1.0).check(tdt.tensor([0.5, 2.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounded):
    """Numbers in [lower_bound, upper_bound).

    Shape: bounds broadcastable to the value.

    >>> import tdt
    >>> tdt.distributions.constraints.half_open_interval(0.0, 1.0).check(tdt.tensor([0.0, 1.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    """Integers in [lower_bound, upper_bound].

    Shape: bounds broadcastable to the value.

    >>> import tdt
    >>> tdt.distributions.constraints.integer_interval(0, 2).check(tdt.tensor([0.5, 2.0]))
    tensor([False,  True])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class _GreaterThan(Constraint):
    """Numbers above `lower_bound`.

    Shape: lower_bound broadcastable to the value.

    >>> import tdt
    >>> tdt.distributions.constraints.greater_than(0.0).check(tdt.tensor([0.0, 1.0]))
    tensor([False,  True])
    """

    def __init__(self, lower_bound: Tensor | float) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(_GreaterThan):
    """Numbers not below `lower_bound`.

    Shape: lower_bound broadcastable to the value.

    >>> import tdt
    >>> tdt.distributions.constraints.greater_than_eq(0.0).check(tdt.tensor([0.0, 1.0]))
    tensor([True, True])
    """

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _IntegerGreaterThan(_GreaterThan):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _LessThan(Constraint):
    """Numbers below `upper_bound`.

    Shape: upper_bound broadcastable to the value.

    >>> import tdt
    >>> tdt.distributions.constraints.less_than(0.0).check(tdt.tensor([0.0, -1.0]))
    tensor([False,  True])
    """

    def __init__(self, upper_bound: Tensor | float) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # all but NaN


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(_Boolean):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return super().check(value).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(_LessThan):
    """Counts, not negative, whose sum along the last dimension is at most `upper_bound`.

    Shape: value (*, number of classes), upper_bound broadcastable to (*).

    >>> import tdt
    >>> tdt.distributions.constraints.multinomial(3).check(tdt.tensor([[1.0, 2.0], [3.0, 1.0]]))
    tensor([ True, False])
    """

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        square = value.shape[-2] == value.shape[-1]
        return tdt.full(value.shape[:-2], square, dtype=tdt.bool, device=value.device)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Tensor) -> Tensor:
        tolerance = tdt.finfo(value.dtype).eps * value.shape[-1] * 10  # of a row's length
        rows = linalg.norm(value.detach(), dim=-1)
        return super().check(value) & ((rows - 1).abs() <= tolerance).all(-1)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        return tdt.isclose(value, value.mT, atol=1e-6).all(-2).all(-1) if square.all() else square


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return (linalg.eigvalsh(value) >= 0).all(-1) if symmetric.all() else symmetric


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        try:
            linalg.cholesky(value.detach())  # what the distribution needs: eigenvalues near 0 may round below it
        except RuntimeError:
            return (linalg.eigvalsh(value) > 0).all(-1)
        return symmetric


class _Several(Constraint):
    """Constraints of the parts of a value, along the dimension `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> bool:
        return any(part.is_discrete for part in self.cseq)


class _Cat(_Several):
    """Constraints of the parts of a value, which are concatenated along the dimension `dim`.

    Args:
        lengths: length of each constraint's part; None stands for 1 each.
    Raises:
        AssertionError: when the lengths are not as many as the constraints.

    >>> import tdt
    >>> from tdt.distributions import constraints
    >>> constraints.cat([constraints.positive, constraints.real]).check(tdt.tensor([-1.0, -1.0]))
    tensor([False,  True])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")

    @property
    def event_dim(self) -> int:
        return max(part.event_dim for part in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self.dim)
        return tdt.cat([one.check(part) for one, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Several):
    """Constraints of the parts of a value, which are stacked along the dimension `dim`.

    >>> import tdt
    >>> from tdt.distributions import constraints
    >>> constraints.stack([constraints.positive, constraints.real]).check(tdt.tensor([-1.0, -1.0]))
    tensor([False,  True])
    """

    @property
    def event_dim(self) -> int:
        dims: int = max(part.event_dim for part in self.cseq)
        return dims + 1 if self.dim + dims < 0 else dims

    def check(self, value: Tensor) -> Tensor:
        parts = value.unbind(self.dim)
        return tdt.stack([one.check(part) for one, part in zip(self.cseq, parts, strict=True)], self.dim)


dependent = _Dependent()
independent = _IndependentConstraint
boolean, one_hot = _Boolean(), _OneHot()
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
integer_interval, interval, half_open_interval = _IntegerInterval, _Interval, _HalfOpenInterval
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
real, positive, nonnegative = _Real(), _GreaterThan(0.0), _GreaterThanEq(0.0)
real_vector = independent(real, 1)
unit_interval, simplex, multinomial = _Interval(0.0, 1.0), _Simplex(), _Multinomial
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
square, symmetric = _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
cat, stack = _Cat, _Stack
