"""The training objective: a loss, or a weighted sum of losses with their own outputs and targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tdt import Tensor, nn
from tdt.train._types import Json, Nested
from tdt.train.data.nested import mapped
from tdt.train.metrics import Loss, Metric, Reading
from tdt.train.model.target_scale import TargetScale


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
    `last_call` has the arguments of the last call, for metrics of other parts of these. scales: by the path of a target,
    how it is scaled for the loss (`targets` of the config); what `compared` and `output_part` return is in its own unit.

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
        self.scales = nn.ModuleDict()
        self.values: dict[str, tuple[Tensor, Tensor]] = {}
        self.saves_call = False
        self.last_call: dict[str, Nested] = {}

    def forward(self, output: Nested, target: Nested, input: Nested) -> Tensor:
        total, values = total_of(self.terms, self.scales, output, target, input)
        self.remember(output, target, input, values)
        return total

    def remember(self, output: Nested, target: Nested, input: Nested, values: dict[str, tuple[Tensor, Tensor]]) -> None:
        """Keep what metrics read of a call. values: its terms, as `total_of` returns them."""
        self.values = values
        if self.saves_call:
            self.last_call = {"output": mapped(Tensor.detach, output), "target": target, "input": input}

    def scale_targets(self, statistics: Mapping[str, Mapping[str, Any]]) -> None:
        """Compute the loss on scaled targets. statistics: the arguments of `TargetScale` by the path of the target."""
        self.scales = nn.ModuleDict({path: TargetScale(**values) for path, values in statistics.items()})

    def _in_unit(self, output: Tensor, target: str) -> Tensor:
        """What the model returns for the target with this path, in the unit of the data."""
        if target not in self.scales:
            return output
        scale = self.scales[target]
        assert isinstance(scale, TargetScale)
        return scale.undo(output.detach())

    @property
    def main(self) -> nn.Module:
        """The first term's loss, which determines how metrics and predictions interpret outputs."""
        return self.terms[0].loss

    def output_part(self, output: Nested, term: Term | None = None) -> Tensor:
        """The model's output that a term compares, by default the first, in the unit of the data."""
        term = term or self.terms[0]
        return self._in_unit(part_of(term.input, {"output": output}), term.target)

    def target_part(self, target: Nested, input: Nested) -> Tensor:
        """The target (or input) that the first term compares it with."""
        return part_of(self.terms[0].target, {"target": target, "input": input})

    @property
    def reading(self) -> Reading:
        """How the loss interprets outputs and targets."""
        return Reading.of(self.terms[0].loss) if len(self.terms) == 1 else Reading()

    def compared(
        self, output: Nested, target: Nested, input: Nested, term: Term | None = None
    ) -> tuple[Tensor, Tensor]:
        """Output and target of a term, in the unit of the data; by default of the first, which metrics compare."""
        term = term or self.terms[0]
        output_part, target_part = compared(term, output, target, input)
        return self._in_unit(output_part, term.target), target_part

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
            output_part = self._in_unit(part_of(parts[0], self.last_call), parts[1])
            return measured(output_part, part_of(parts[1], self.last_call), loss)

        metric.batch_sum = batch_sum  # type: ignore[method-assign]
        return metric


def total_of(
    terms: Sequence[Term], scales: nn.ModuleDict, output: Nested, target: Nested, input: Nested
) -> tuple[Tensor, dict[str, tuple[Tensor, Tensor]]]:
    """The weighted sum of the losses and, with several, the loss and the target of each, by name."""
    total: Any = None
    values = {}
    for term in terms:
        output_part, target_part = compared(term, output, target, input)
        if term.target in scales:
            target_part = scales[term.target](target_part)
        loss = term.loss(output_part, target_part)
        if len(terms) > 1:
            values[term.name] = loss.detach(), target_part
        weighted = loss if term.weight == 1 else loss * term.weight
        total = weighted if total is None else total + weighted
    return total, values


def compared(term: Term, output: Nested, target: Nested, input: Nested) -> tuple[Tensor, Tensor]:
    """Output and target of a term. Raises ValueError for a part that does not exist."""
    if term.input == "output" and term.target == "target":
        return output, target  # type: ignore[return-value]  # a loss without parts compares single tensors
    known = {"output": output, "target": target, "input": input}
    return part_of(term.input, known), part_of(term.target, known)


def tasks_of(terms: Iterable[Term]) -> dict[str, Term]:
    """The losses by name that compare an output of their own: one for each output of the model.

    >>> from tdt import nn
    >>> from tdt.train.model.objective import Term, tasks_of
    >>> list(tasks_of([Term("a", nn.MSELoss(), "output/a"), Term("b", nn.L1Loss(), "output/a")]))
    ['a']
    """
    tasks: dict[str, Term] = {}
    for term in terms:
        if term.input.startswith("output") and all(term.input != other.input for other in tasks.values()):
            tasks[term.name] = term
    return tasks


def class_names(facts: Json, first: Term, term: Term) -> list[str]:
    """The names of the classes of a term's target, from the facts about the data; `classes` are those of the first's."""
    own = (facts.get("classes_by_target") or {}).get(term.target.partition("/")[2])
    return own or (facts["classes"] if term.target == first.target else [])


def part_of(path: str, value: Any) -> Any:
    """What `path` names in nested dicts, lists and tuples: "target/price". Raises ValueError for a part that does not exist."""
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
