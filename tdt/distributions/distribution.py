"""What every distribution has: the shape of a sample, checks of parameters and values, and expansion to more of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

import tdt
from tdt import Size, Tensor, _about
from tdt._core.constructors import own_constructor
from tdt._core.mode import State, check_values, state
from tdt.distributions import constraints
from tdt.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Distribution"]


class Distribution:
    """Base class of distributions: `batch_shape` independent ones, each over values of shape `event_shape`.

    A subclass sets `arg_constraints` (its parameters and their sets) and `support`, and writes `log_prob` and `sample`,
    or
    `rsample` for samples with gradients.

    Args:
        validate_args: check parameters and values; None stands for the default, `set_default_validate_args`.
    Raises:
        ValueError: when a parameter is outside its set.

    >>> import tdt
    >>> from tdt.distributions import Normal
    >>> isinstance(Normal(0.0, 1.0), tdt.distributions.Distribution)
    True
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions that are constructed from now on check their parameters and values.

        Raises:
            ValueError: when `value` is not a bool.
        """
        if value not in (True, False):
            raise ValueError(f"value must be True or False, not {value!r}")
        Distribution._validate_args = State.validates = value

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own_constructor(cls)

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        super().__init__()  # a subclass may be a Module too
        if self._validate_args:
            self._validate_parameters()

    def _validate_parameters(self) -> None:
        try:
            required = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`: set `arg_constraints = {{}}`, or turn validation off "
                "with `validate_args=False`",
                stacklevel=4,
            )
            return
        for name, constraint in required.items():
            unset = name not in vars(self) and isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or unset:
                continue  # what is computed from a valid parameter is valid
            value = getattr(self, name)
            valid = constraint.check(value)
            if state.recording is not None:
                check_values(partial(_check_valid, f"parameter {name}", type(self), type(constraint)), valid._a)
            elif not valid.all():
                raise ValueError(f"Expected parameter {name} {_described(value)} of distribution {self!r} to satisfy the "
                                 f"constraint {constraint!r}, but found invalid values:\n{value}")  # fmt: skip

    def expand(self, batch_shape: Sequence[int], _instance: Self | None = None) -> Self:
        """The same distributions, broadcast to `batch_shape`."""
        shape, dims = Size(batch_shape), len(self._batch_shape)
        new = self._get_checked_instance(None, _instance)
        for name, value in vars(self).items():
            if isinstance(value, Distribution):
                value = value.expand(shape + value.batch_shape[dims:])
            elif isinstance(value, Tensor) and name in self.arg_constraints:
                value = value.expand(shape + value.shape[dims:])
            vars(new)[name] = value
        new._batch_shape = shape
        return new

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        """An instance without values, of a class whose own `__init__` leaves nothing else to set."""
        owner = next(kind for kind in type(self).__mro__ if "__init__" in vars(kind))
        ours = owner is cls if cls is not None else _about.home(owner).startswith("tdt.distributions.")
        if _instance is None and not ours:
            base = cls or owner.__mro__[1]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {base.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Size:
        """The shape of the parameters: how many distributions this is."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one sample of one of them."""
        return self._event_shape

    @property
    def arg_constraints(self) -> Mapping[str, constraints.Constraint]:
        """The constraint of each parameter, by name."""
        return _lacks(self, "arg_constraints")

    @property
    def support(self) -> constraints.Constraint:
        """The set that samples lie in."""
        return _lacks(self, "support")

    @property
    def mean(self) -> Tensor:
        return _lacks(self, "mean")

    @property
    def mode(self) -> Tensor:
        return _lacks(self, "mode")

    @property
    def variance(self) -> Tensor:
        return _lacks(self, "variance")

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples of shape sample_shape + batch_shape + event_shape, without gradients."""
        with tdt.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples as functions of the parameters, which get gradients through them."""
        return _lacks(self, "rsample")

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`, by its old name."""
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log of the density, or of the probability, of `value`."""
        return _lacks(self, "log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a value at most `value`."""
        return _lacks(self, "cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The value below which a sample lies with probability `value`."""
        return _lacks(self, "icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Every value of a discrete distribution, along a first dimension, expanded over `batch_shape`."""
        return _lacks(self, "enumerate_support")

    def entropy(self) -> Tensor:
        """Minus the mean of `log_prob`, in nats, of shape `batch_shape`."""
        return _lacks(self, "entropy")

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Values along a first dimension, over `batch_shape`."""
        values = values.view(-1, *(1 for _ in self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    def _validate_sample(self, value: Any) -> None:
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError(f"The value argument to log_prob must be a Tensor, but is {type(value).__name__}")
        expected, got = self._batch_shape + self._event_shape, value.shape
        if got[value.ndim - len(self._event_shape) :] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {got} vs {self._event_shape}.")
        if any(i != j and 1 not in (i, j) for i, j in zip(got[::-1], expected[::-1], strict=False)):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {got} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `support`: no value is checked against it", stacklevel=3)
            return
        valid = support.check(value)
        if state.recording is not None:
            check_values(partial(_check_valid, "value argument", type(self), type(support)), valid._a)
        elif not valid.all():
            raise ValueError(f"Expected value argument {_described(value)} to be within the support ({support!r}) of the "
                             f"distribution {self!r}, but found invalid values:\n{value}")  # fmt: skip

    def __repr__(self) -> str:
        parameters = {name: vars(self)[name] for name in self.arg_constraints if name in vars(self)}
        shown = (f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in parameters.items())
        return f"{type(self).__name__}({', '.join(shown)})"


def _lacks(distribution: Distribution, name: str) -> Any:
    raise NotImplementedError(f"{type(distribution)} does not implement {name}")


def _check_valid(what: str, kind: type, constraint: type, valid: Any) -> None:
    """The check of a call that `tdt.compile` records: it is repeated for other values, which the message cannot show."""
    if not valid.all():
        raise ValueError(f"Expected the {what} of {kind.__name__} to satisfy {constraint.__name__}, but found "
                         f"{valid.size - int(valid.sum())} invalid values of {valid.size}")  # fmt: skip


def _described(value: Tensor) -> str:
    return f"({type(value).__name__} of shape {tuple(value.shape)})"


class _LocScale(Distribution):
    """A distribution of a location and a positive scale, symmetric about the location."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class _OfProbs:
    """Parameters given as `probs` or as `logits`: the other one is computed when it is read."""

    _binary: bool
    probs: Tensor
    logits: Tensor

    @staticmethod
    def _either(probs: Tensor | float | None, logits: Tensor | float | None) -> Tensor | float:
        """The one that is given."""
        value = logits if probs is None else probs
        if value is None or (probs is not None and logits is not None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        return value

    @property
    def _param(self) -> Tensor:
        return vars(self)[self._parameter_name]  # type: ignore[attr-defined]

    @property
    def param_shape(self) -> Size:
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)


class _OfEvent(_OfProbs, Distribution):
    """A distribution of one event's probability or log-odds."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (value,) = broadcast_all(self._either(probs, logits))
        self._parameter_name = "logits" if probs is None else "probs"
        setattr(self, self._parameter_name, value)
        super().__init__(value.shape, validate_args=validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits, is_binary=True)


class _OfClasses(_OfProbs, Distribution):
    """A distribution of classes' probabilities, which are normalised, or logits, along the last dimension."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        value: Any = self._either(probs, logits)
        self._parameter_name = "logits" if probs is None else "probs"
        if value.ndim < 1:
            raise ValueError(f"`{self._parameter_name}` parameter must be at least one-dimensional.")
        value = value - value.logsumexp(-1, keepdim=True) if probs is None else value / value.sum(-1, keepdim=True)
        setattr(self, self._parameter_name, value)
        classes = value.shape[-1:]
        super().__init__(value.shape[:-1], classes if self._one_hot else (), validate_args=validate_args)

    _one_hot = True

    @property
    def _num_events(self) -> int:
        return self._param.shape[-1]

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits)
