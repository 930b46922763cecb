"""The training objective: a loss, or a weighted sum of losses, each of its own output and target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tdt import Tensor, nn
from tdt.train.data.nested import mapped
from tdt.train.metrics import Loss, Metric, Reading


class Term(NamedTuple):
    """`loss` of the parts that `input` and `target` name ("output/digit"), times `weight`."""

    name: str
    loss: nn.Module
    input: str = "output"
    target: str = "target"
    weight: float = 1.0


class Objective(nn.Module):
    """The weighted sum of its terms' losses. `values`: of several terms each one's own of the last
    call and its target, by name. `keeps`: whether `seen` has what the last call was given, for metrics of its parts.

    >>> import tdt
    >>> objective = Objective([Term("loss", nn.MSELoss(), target="input")])
    >>> objective(tdt.zeros(2), target=tdt.zeros(2), input=tdt.ones(2)).item()
    1.0
    """

    def __init__(self, terms: Sequence[Term]):
        super().__init__()
        self.terms = list(terms)
        self.losses = nn.ModuleList([term.loss for term in terms])  # so that class weights move with the model
        self.values: dict[str, tuple[Tensor, Tensor]] = {}
        self.keeps = False
        self.seen: dict[str, Any] = {}

    def forward(self, output: Any, target: Any, input: Any) -> Tensor:
        if self.keeps:
            self.seen = {"output": mapped(Tensor.detach, output), "target": target, "input": input}
        total: Any = None
        for term in self.terms:
            given, wanted = compared(term, output, target, input)
            loss = term.loss(given, wanted)
            if len(self.terms) > 1:
                self.values[term.name] = loss.detach(), wanted
            weighted = loss if term.weight == 1 else loss * term.weight
            total = weighted if total is None else total + weighted
        return total

    @property
    def main(self) -> nn.Module:
        """The first term's loss, by which metrics and predictions read what a model gives."""
        return self.terms[0].loss

    def given(self, output: Any) -> Tensor:
        """The part of a model's output that the first term compares."""
        return _part(self.terms[0].input, {"output": output})

    def wanted(self, target: Any, input: Any) -> Tensor:
        """The part of a batch's targets, or inputs, that the first term compares it with."""
        return _part(self.terms[0].target, {"target": target, "input": input})

    @property
    def alone(self) -> nn.Module | None:
        """The one loss, where it takes output and target as they are; else None."""
        first = self.terms[0]
        return first.loss if self.terms == [Term(first.name, first.loss)] and not self.keeps else None

    @property
    def reading(self) -> Reading:
        """How it reads outputs and targets; of several losses each has its own."""
        return Reading.of(self.terms[0].loss) if len(self.terms) == 1 else Reading()

    def compared(self, output: Any, target: Any, input: Any) -> tuple[Tensor, Tensor]:
        """What the first term compares, as (output, target): that is what metrics see."""
        return compared(self.terms[0], output, target, input)

    def measuring(self, metric: Metric, parts: tuple[str, str] | None) -> Metric:
        """`metric`, which sees what the first term compares, or the `parts` of output, target and input that it names; and
        reads them as the loss of the same parts."""
        if parts is None:
            metric.reading = Reading.of(self.main)
            return metric
        term = next((term for term in self.terms if (term.input, term.target) == parts), None)
        metric.reading = Reading() if term is None else Reading.of(term.loss)
        measured = metric.batch_sum

        def batch_sum(output: Tensor, target: Tensor, loss: Tensor) -> Any:
            return measured(_part(parts[0], self.seen), _part(parts[1], self.seen), loss)

        metric.batch_sum = batch_sum  # type: ignore[method-assign]
        return metric


def compared(term: Term, output: Any, target: Any, input: Any) -> tuple[Tensor, Tensor]:
    """What a term compares; KeyError for a part that is not there."""
    if term.input == "output" and term.target == "target":
        return output, target
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

    def __init__(self, objective: Objective, term: Term):
        super().__init__()
        self.objective, self.name = objective, term.name
        self.reading = Reading.of(term.loss)

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        value, wanted = self.objective.values[self.name]
        return super().batch_sum(output, wanted, value)
