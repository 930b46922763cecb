"""`${run.epochs}` and `${run.steps}`: the length of the whole run, which is known once the data are open.

With them, the config of a scheduler fits any length of the run:

    scheduler: CosineAnnealingLR(T_max=${run.epochs})
    scheduler: {type: OneCycleLR, max_lr: 0.1, total_steps: "${run.steps}", interval: step}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tdt.train.config import nodes
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Call, Node, Scalar, Sequence, join
from tdt.train.config.parts import Component

UNITS = ("epochs", "steps")


class RunLength(int):
    """Placeholder for the run's length in `unit`, which `fill` replaces. An int, so that signatures accept it.

    >>> from tdt.train.config.run_length import RunLength
    >>> RunLength("steps")
    ${run.steps}
    """

    unit: str

    def __new__(cls, unit: str) -> RunLength:
        length = super().__new__(cls, 1)
        length.unit = unit
        return length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunLength) and other.unit == self.unit

    def __hash__(self) -> int:
        return hash(self.unit)

    def __repr__(self) -> str:
        return f"${{run.{self.unit}}}"

    __str__ = __repr__


def fill(value: Any, lengths: Mapping[str, int | None]) -> Any:
    """`value`, an argument or a component, with every RunLength in it replaced by its number."""
    if isinstance(value, RunLength):
        return lengths[value.unit]
    if isinstance(value, Component):
        kwargs = {key: fill(item, lengths) for key, item in value.kwargs.items()}
        return replace(value, args=tuple(fill(item, lengths) for item in value.args), kwargs=kwargs)
    if isinstance(value, (list, tuple)):
        return type(value)(fill(item, lengths) for item in value)
    return value


def fill_nodes(node: Node, lengths: Mapping[str, int | None], path: str, errors: ConfigErrors) -> Node:
    """A copy of the tree `node` with lengths replaced. Reports the use of a length that is not known."""
    if isinstance(node, Scalar) and isinstance(node.value, RunLength):
        number = lengths[node.value.unit]
        if number is None:
            message = f"{node.value!r} is not known: train.time alone ends the run; write a number, or set train.epochs"
            errors.add(node.where, message, key=path)
        return replace(node, value=number, text=str(number), written=None)
    if isinstance(node, nodes.Mapping):
        items = {key: fill_nodes(item, lengths, join(path, key), errors) for key, item in node.items.items()}
        return replace(node, items=items)
    if isinstance(node, Sequence):
        return replace(node, items=[fill_nodes(x, lengths, join(path, i), errors) for i, x in enumerate(node.items)])
    if isinstance(node, Call):
        args = [fill_nodes(item, lengths, join(path, i), errors) for i, item in enumerate(node.args)]
        kwargs = {key: fill_nodes(item, lengths, join(path, key), errors) for key, item in node.kwargs.items()}
        return replace(node, args=args, kwargs=kwargs)
    return node
