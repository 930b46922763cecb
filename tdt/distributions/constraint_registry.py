"""Functions from all real numbers to a constraint's set: `biject_to` one to one, `transform_to` for optimizers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

from tdt.distributions import constraints, transforms
from tdt.distributions.constraints import Constraint
from tdt.distributions.transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

F = TypeVar("F", bound=Callable[..., Transform])


class ConstraintRegistry:
    """A table from kinds of constraints to what makes their transform; call it with a constraint.

    >>> import tdt
    >>> tdt.distributions.transform_to(tdt.distributions.constraints.positive)(tdt.zeros(2))
    tensor([1., 1.])
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Transform]] = {}

    @overload
    def register(self, constraint: Constraint | type[Constraint], factory: F) -> F: ...
    @overload
    def register(self, constraint: Constraint | type[Constraint], factory: None = None) -> Callable[[F], F]: ...
    def register(self, constraint: Constraint | type[Constraint], factory: F | None = None) -> F | Callable[[F], F]:
        """Let `factory(constraint)` make the transform of all constraints of this kind; a decorator without it."""
        if factory is None:
            return partial(self.register, constraint)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        if type(constraint) not in self._registry:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return self._registry[type(constraint)](constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _above(constraint: Any) -> Transform:
    to_bound = transforms.AffineTransform(constraint.lower_bound, 1)
    unbounded = isinstance(constraint.lower_bound, (int, float)) and constraint.lower_bound == 0
    return (
        transforms.ExpTransform() if unbounded else transforms.ComposeTransform([transforms.ExpTransform(), to_bound])
    )


def _below(constraint: Any) -> Transform:
    to_bound = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), to_bound])


def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _simple(kind: type[Transform]) -> Callable[[Any], Transform]:
    return lambda constraint: kind()


for registry in (biject_to, transform_to):

    def _independent(constraint: Any, to: ConstraintRegistry = registry) -> Transform:
        return transforms.IndependentTransform(to(constraint.base_constraint), constraint.reinterpreted_batch_ndims)

    def _cat(constraint: Any, to: ConstraintRegistry = registry) -> Transform:
        return transforms.CatTransform([to(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    def _stack(constraint: Any, to: ConstraintRegistry = registry) -> Transform:
        return transforms.StackTransform([to(c) for c in constraint.cseq], constraint.dim)

    registry.register(constraints.real, lambda constraint: transforms.identity_transform)
    registry.register(constraints.independent, _independent)
    registry.register(constraints.greater_than, _above)
    registry.register(constraints.greater_than_eq, _above)
    registry.register(constraints.less_than, _below)
    registry.register(constraints.interval, _between)
    registry.register(constraints.half_open_interval, _between)
    registry.register(constraints.corr_cholesky, _simple(transforms.CorrCholeskyTransform))
    registry.register(constraints.cat, _cat)
    registry.register(constraints.stack, _stack)

biject_to.register(constraints.simplex, _simple(transforms.StickBreakingTransform))
transform_to.register(constraints.simplex, _simple(transforms.SoftmaxTransform))
transform_to.register(constraints.lower_cholesky, _simple(transforms.LowerCholeskyTransform))
transform_to.register(constraints.positive_definite, _simple(transforms.PositiveDefiniteTransform))
transform_to.register(constraints.positive_semidefinite, _simple(transforms.PositiveDefiniteTransform))
