"""`torch.fx.experimental.symbolic_shapes`: conditions on sizes, which in tdt are numbers.

>>> from tdt.compat.fx.experimental.symbolic_shapes import free_symbols, guard_or_false
>>> guard_or_false(2 > 1), free_symbols(3)
(True, set())
"""

from __future__ import annotations


class GuardOnDataDependentSymNode(RuntimeError):
    """A condition on a size that is not known: never raised."""


def guard_or_false(a: object) -> bool:
    """Whether the condition holds."""
    return bool(a)


guard_or_true = statically_known_true = guard_or_false


def free_symbols(val: object) -> set[object]:
    """The symbols of a size: none."""
    return set()


free_unbacked_symbols = free_symbols
