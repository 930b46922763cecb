"""What all transforms have, and those that are made of other transforms or of shapes alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tdt
from tdt import Size, Tensor
from tdt._core.constructors import own_constructor
from tdt.distributions import constraints
from tdt.distributions.utils import sum_rightmost


class Transform:
    """Base class of differentiable maps from `domain` to `codomain`, between events of the dimensions that these have.

    A subclass writes `_call`, `_inverse` and `log_abs_det_jacobian(x, y)`; `inv` is the inverse map.

    Args:
        cache_size: 1 keeps the last x and y, so that the inverse of a value just computed is exact.
    Shape: x (*, event of the domain); result (*, event of the codomain).
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> exp = tdt.distributions.ExpTransform()
    >>> exp.inv(exp(tdt.tensor(2.0)))
    tensor(2.)
    """

    if TYPE_CHECKING:  # attributes of most subclasses, properties of some

        @property
        def bijective(self) -> bool: ...
        @property
        def domain(self) -> constraints.Constraint: ...
        @property
        def codomain(self) -> constraints.Constraint: ...

    else:
        bijective = False

    @property
    def sign(self) -> Tensor | int:
        return _no_sign(self)

    _inv: Any = None
    _cached_x_y: Any = (None, None)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own_constructor(cls)

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1, not {cache_size}")
        super().__init__()  # a subclass may be a Module too
        self._cache_size = cache_size

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_inv": None}

    @property
    def event_dim(self) -> int:
        """The dimensions of an event, where x and y have as many."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return int(self.domain.event_dim)

    @property
    def inv(self) -> Transform:
        """The inverse function."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same function with that cache."""
        if self._cache_size == cache_size:
            return self
        new = type(self).__new__(type(self))
        vars(new).update(vars(self), _cache_size=cache_size, _inv=None, _cached_x_y=(None, None))
        return new

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        old, y = self._cached_x_y
        if not self._cache_size or x is not old:
            y = self._call(x)
        if self._cache_size:
            self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        x, old = self._cached_x_y
        if not self._cache_size or y is not old:
            x = self._inverse(y)
        if self._cache_size:
            self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Logarithm of |det dy/dx| of each event.

        Raises:
            NotImplementedError: when a subclass does not write it.
        """
        raise NotImplementedError

    def forward_shape(self, shape: Size) -> Size:
        """The shape of y for an x of `shape`."""
        return shape

    def inverse_shape(self, shape: Size) -> Size:
        """The shape of x for a y of `shape`."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _no_sign(transform: Transform) -> Any:
    raise NotImplementedError(f"{type(transform).__name__} neither rises nor falls everywhere")


class _InverseTransform(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv = transform

    @property
    def domain(self) -> constraints.Constraint:
        return self._inv.codomain

    @property
    def codomain(self) -> constraints.Constraint:
        return self._inv.domain

    @property
    def bijective(self) -> bool:
        return self._inv.bijective

    @property
    def sign(self) -> Tensor | int:
        return self._inv.sign

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Size) -> Size:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Size) -> Size:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"


class ComposeTransform(Transform):
    """Transforms applied one after the other; an empty list is the identity.

    Shape: x (*); result as the transforms give it.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> from tdt.distributions import AffineTransform, ExpTransform
    >>> tdt.distributions.ComposeTransform([AffineTransform(0.0, 2.0), ExpTransform()])(tdt.tensor(0.5))
    tensor(2.7183)
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> constraints.Constraint:
        return self._end([(part.domain, part.codomain) for part in reversed(self.parts)])

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> constraints.Constraint:
        return self._end([(part.codomain, part.domain) for part in self.parts])

    @staticmethod
    def _end(steps: list[tuple[Any, Any]]) -> constraints.Constraint:
        """Where the last step arrives, with the dimensions that any other needs more."""
        if not steps:
            return constraints.real
        dims = steps[0][1].event_dim
        for there, here in steps:
            dims = max(dims + there.event_dim - here.event_dim, there.event_dim)
        end: constraints.Constraint = steps[-1][0]
        return constraints.independent(end, dims - end.event_dim) if dims > end.event_dim else end

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Tensor | int:
        return math.prod(part.sign for part in self.parts)

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return tdt.zeros_like(x)
        total: Any = 0.0
        dims = self.domain.event_dim
        for part in self.parts:
            after = y if part is self.parts[-1] else part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, after), dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
            x = after
        return total

    def forward_shape(self, shape: Size) -> Size:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Size) -> Size:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Transform whose last `reinterpreted_batch_ndims` batch dimensions count as part of the event.

    Shape: x (*), as for `base_transform`; result the same shape.
    Raises:
        ValueError: when `cache_size` is neither 0 nor 1.

    >>> import tdt
    >>> t = tdt.distributions.IndependentTransform(tdt.distributions.ExpTransform(), 1)
    >>> t.log_abs_det_jacobian(tdt.ones(3), tdt.ones(3).exp())
    tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> constraints.Constraint:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> constraints.Constraint:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return self.base_transform.bijective

    @property
    def sign(self) -> Tensor | int:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        needs(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        needs(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Size) -> Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Size) -> Size:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


def needs(shape: Sequence[int], dims: int) -> None:
    if len(shape) < dims:
        raise ValueError(f"Too few dimensions on input: expected {dims} or more, but its shape is {tuple(shape)}")


class ReshapeTransform(Transform):
    """Events of shape `in_shape` reshaped to `out_shape`.

    Shape: x (*, *in_shape); result (*, *out_shape).
    Raises:
        ValueError: when the shapes have different numbers of elements.

    >>> import tdt
    >>> tdt.distributions.ReshapeTransform((4,), (2, 2))(tdt.zeros(3, 4)).shape
    tdt.Size([3, 2, 2])
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")

    @constraints.dependent_property
    def domain(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Size) -> Size:
        return _reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Size) -> Size:
        return _reshaped(shape, self.out_shape, self.in_shape)


def _reshaped(shape: Size, old: Size, new: Size) -> Size:
    needs(shape, len(old))
    cut = len(shape) - len(old)
    if shape[cut:] != old:
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return shape[:cut] + new
