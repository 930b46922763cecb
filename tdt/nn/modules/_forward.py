"""For type checkers: a call of a module takes and gives what its `forward` does."""

from __future__ import annotations

from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class HasForward(Protocol[P, R]):
    """An object with a method `forward`."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """What a call computes."""
        ...
