"""The training objective: a loss, or a weighted sum of losses with their own outputs and targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tdt import Tensor, nn
from tdt.train._types import Nested
from tdt.train.data.nested import mapped
from tdt.train.metrics import Loss, Metric, Reading


class Term(NamedTuple):
    """A loss with its `weight`, of what `input` and `target` name ("output/digit")."""

    name: str
    loss: nn.Module
    input: str = "output"
    target: str = "target"
    weight: float = 1.0


class Objective(nn.Module):
    """The weighted sum of its terms' losses.

    values: with several terms, the loss and the target of each in the last call, by name. saves_call: whether
    `last_call` has the arguments of the last call, for metrics of other parts of these.

    >>> import tdt
    >>> from tdt.train.model.objective import Objective, Term
    >>> objective = Objective([Term("loss", tdt.nn.MSELoss(), target="input")])
    >>> objective(tdt.zeros(2), target=tdt.zeros(2), input=tdt.ones(2)).item()
    1.0
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        super().__init__()
        self.terms = list(terms)
        self.losses = nn.ModuleList([term.loss for term in terms])  # so that class weights move with the model
        self.values: dict[str, tuple[Tensor, Tensor]] = {}
        self.saves_call = False
        self.last_call: dict[str, Nested] = {}

    def forward(self, output: Nested, target: Nested, input: Nested) -> Tensor:
        if self.saves_call:
            self.last_call = {"output": mapped(Tensor.detach, output), "target": target, "input": input}
        total: Any = None
        for term in self.terms:
            output_part, target_part = compared(term, output, target, input)
            loss = term.loss(output_part, target_part)
            if len(self.terms) > 1:
                self.values[term.name] = loss.detach(), target_part
            weighted = loss if term.weight == 1 else loss * term.weight
            total = weighted if total is None else total + weighted
        return total

    @property
    def main(self) -> nn.Module:
        """The first term's loss, which determines how metrics and predictions interpret outputs."""
        return self.terms[0].loss

    def output_part(self, output: Nested) -> Tensor:
        """The model's output that the first term compares."""
        return _part(self.terms[0].input, {"output": output})

    def target_part(self, target: Nested, input: Nested) -> Tensor:
        """The target (or input) that the first term compares it with."""
        return _part(self.terms[0].target, {"target": target, "input": input})

    @property
    def alone(self) -> nn.Module | None:
        """The only loss, if it takes output and target directly; else None."""
        first = self.terms[0]
        return first.loss if self.terms == [Term(first.name, first.loss)] and not self.saves_call else None

    @property
    def reading(self) -> Reading:
        """How the loss interprets outputs and targets."""
        return Reading.of(self.terms[0].loss) if len(self.terms) == 1 else Reading()

    def compared(self, output: Nested, target: Nested, input: Nested) -> tuple[Tensor, Tensor]:
        """Output and target of the first term, which are also those of the metrics."""
        return compared(self.terms[0], output, target, input)

    def measuring(self, metric: Metric, parts: tuple[str, str] | None) -> Metric:
        """Bind `metric` to what the first term compares, or to `parts` of output, target and input.

        It interprets them like the loss of the same parts.
        """
        if parts is None:
            metric.reading = Reading.of(self.main)
            return metric
        term = next((term for term in self.terms if (term.input, term.target) == parts), None)
        metric.reading = Reading() if term is None else Reading.of(term.loss)
        measured = metric.batch_sum

        def batch_sum(output: Tensor, target: Tensor, loss: Tensor) -> Any:
            return measured(_part(parts[0], self.last_call), _part(parts[1], self.last_call), loss)

        metric.batch_sum = batch_sum  # type: ignore[method-assign]
        return metric


def compared(term: Term, output: Nested, target: Nested, input: Nested) -> tuple[Tensor, Tensor]:
    """Output and target of a term. Raises ValueError for a part that does not exist."""
    if term.input == "output" and term.target == "target":
        return output, target  # type: ignore[return-value]  # a loss without parts compares single tensors
    known = {"output": output, "target": target, "input": input}
    return _part(term.input, known), _part(term.target, known)


def _part(path: str, value: Any) -> Any:
    whole: list[str] = []
    for key in path.split("/"):
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, (tuple, list)) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            parts = (
                list(value)
                if isinstance(value, dict)
                else range(len(value))
                if isinstance(value, (tuple, list))
                else ()
            )
            there = f"it has {', '.join(map(str, parts))}" if parts else "it is one tensor"
            raise ValueError(f"there is no {path}: {'/'.join(whole)} has no part {key!r}, {there}")
        whole.append(key)
    return value


class TermMean(Loss):
    """The mean of one term of an objective, without its weight in the total."""

    def __init__(self, objective: Objective, term: Term) -> None:
        super().__init__()
        self.objective, self.name = objective, term.name
        self.reading = Reading.of(term.loss)

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        value, target_part = self.objective.values[self.name]
        return super().batch_sum(output, target_part, value)
