"""`data.dataset` and `data.split`: one dataset for all splits → `data.train`, `data.valid` and `data.test`.

A dataset without an argument `split`, such as a class of the user's own, is divided from outside, by RandomSplit.

A split that is written beside `dataset`, on the command line or in a config that extends another, replaces that split; null
leaves it out. Both in one file are a mistake.
"""

from __future__ import annotations

from dataclasses import replace
from inspect import Parameter

from pydantic import ValidationError

from tdt.train.config import registry
from tdt.train.config.components import add_unknown_name, check_call, read_call
from tdt.train.config.config import SPLITS
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.inherit import extended
from tdt.train.config.nodes import Call, Mapping, Node, Scalar, join, plain, present
from tdt.train.config.parts import Component
from tdt.train.config.sections import Split
from tdt.train.config.signatures import choices, parameters_of
from tdt.train.config.source import COMMAND_LINE

PATH = "data.dataset"
SHARES = ("valid", "test")
DIVIDES = "RandomSplit"  # the dataset that is a part of another one
_EXAMPLE = "split: {valid: 0.1, test: 0.1}"


def expand(root: Mapping, errors: ConfigErrors) -> frozenset[str]:
    """Add the datasets of the splits to the section `data`, if it has one dataset for all. Reports mistakes.

    Returns:
        The names of the splits that are parts of that dataset.
    """
    data = root.items.get("data")
    if not isinstance(data, Mapping):
        return frozenset()
    node, split = present(data.items.get("dataset")), present(data.items.get("split"))
    if node is None:
        _report_nothing(data, split, errors)
        return frozenset()
    before, written = len(errors), _written(data, node, errors)
    data.items |= dict.fromkeys(SPLITS, Scalar(node.source, node.key_source, broken=True))  # reported, if it stays so
    divided = _Divided(node, split, errors).splits()
    if divided is None or len(errors) > before:
        return frozenset()
    for name in SPLITS:
        call, own = divided.get(name), written.get(name)
        data.items[name] = own or call or Scalar(node.source, node.key_source)
        if call and own and present(own):
            data.items[name] = extended(call, own)
    return frozenset(divided) - frozenset(written)


def _report_nothing(data: Mapping, split: Node | None, errors: ConfigErrors) -> None:
    """Report `dataset` without a value, and `split` without `dataset`."""
    if "dataset" in data.items and "train" not in data.items:
        errors.add(data.items["dataset"].where, "nothing is written here", kind="missing", key=PATH)
        data.items["train"] = Scalar(data.source, broken=True)
    if split is not None:
        message = "is not used: it divides the samples of data.dataset, which is not written"
        errors.add(split.key_source or split.source, message, kind="unused", key="data.split")


def _written(data: Mapping, dataset: Node, errors: ConfigErrors) -> dict[str, Node]:
    """The splits that replace those of the dataset. Reports others that are written beside it."""
    replacing: dict[str, Node] = {}
    for name in SPLITS:
        own = data.items.get(name)
        if own is None or (dataset.where.file == COMMAND_LINE != own.where.file):
            continue
        if present(own) is None or own.where.file != dataset.where.file:
            replacing[name] = own
        else:
            message = "is written beside data.dataset, which stands for all splits; remove one of them"
            errors.add(own.key_source or own.source, message, kind="duplicate-key", key=f"data.{name}")
    return replacing


class _Divided:
    """The splits of one dataset. node: `data.dataset`; split: `data.split`, if it is written."""

    def __init__(self, node: Node, split: Node | None, errors: ConfigErrors) -> None:
        self.node, self.split, self.errors = node, split, errors

    def splits(self) -> dict[str, Call] | None:
        """A call for each split; None after reporting mistakes."""
        call = read_call(self.node, PATH, self.errors, "a dataset")
        kind = None if call is None else registry.datasets.find(call.name)
        if call is None or kind is None:
            if call is not None:
                add_unknown_name(call.source, PATH, call.name, registry.datasets, self.errors)
            return None
        before, whole = len(self.errors), call
        if "split" not in parameters_of(kind):
            if issubclass(kind, registry.find_iterable_dataset()):
                self._report_stream(call)
                return None
            kind, whole = (
                registry.datasets.find(DIVIDES),
                replace(call, name=DIVIDES, args=[], kwargs={"dataset": call}),
            )
        options = self._options(call, whole, parameters_of(kind))
        found = {name: self._call(whole, {"split": Scalar(call.source, value=name, text=name)} | more)
                 for name, more in (options or {}).items()}  # fmt: skip
        checked = call if len(self.errors) > before or not found or whole is not call else found["train"]
        check_call(checked, PATH, registry.datasets, self.errors)
        return found or None

    def _report_stream(self, call: Call) -> None:
        where = call.source if self.split is None else self.split.key_source or self.split.source
        message = (
            f"{call.name} is an IterableDataset, whose samples cannot be divided; write data.train, and data.valid and "
        )
        self.errors.add(where, f"{message}data.test, instead", key=PATH if self.split is None else "data.split")

    def _call(self, call: Call, options: dict[str, Node]) -> Call:
        return replace(call, args=list(call.args), kwargs=call.kwargs | options)

    def _options(self, call: Call, whole: Call, parameters: dict[str, Parameter]) -> dict[str, dict[str, Node]] | None:
        """The arguments of each split but its name; None after reporting why the dataset cannot be divided.

        whole: what is divided: the dataset's own call, or that of RandomSplit around it.
        """
        by_column = present(whole.kwargs.get("split_column"))
        divides = all(name in parameters for name in SHARES) and by_column is None
        self._check_written_once(whole, parameters, ("split", *SHARES, "seed", "stratify") if divides else ("split",))
        if self.split is None and divides:
            message = f"{call.name} has no splits of its own; add {_EXAMPLE}, the shares of the samples"
            self.errors.add(self.node.where, message, kind="missing", key="data.split")
        elif self.split is None:
            return {name: {} for name in _names(parameters["split"])}
        elif not divides:
            why = f"{call.name} has its own splits" if by_column is None else "split_column names the split of each row"
            where = self.split.key_source or self.split.source
            self.errors.add(where, f"is not used: {why}; remove it", kind="unused", key="data.split")
        else:
            return self._shares(call, parameters)
        return None

    def _shares(self, call: Call, parameters: dict[str, Parameter]) -> dict[str, dict[str, Node]] | None:
        """The arguments by which the dataset divides its samples, for each split."""
        assert self.split is not None
        try:
            Split.model_validate(plain(self.split))
        except ValidationError:  # reported with the other sections
            return None
        assert isinstance(self.split, Mapping)
        shares = {key: item for key, item in self.split.items.items() if present(item) is not None}
        for key in ("seed", "stratify"):
            if key in shares and key not in parameters:
                message = f"is not used: {call.name} has no argument {key}; remove it"
                self.errors.add(
                    shares[key].key_source or shares[key].source, message, kind="unused", key=f"data.split.{key}"
                )
        defaults = {"valid": 0.0, "test": 0.0} | ({"seed": 0} if "seed" in parameters else {})
        place = self.split.source
        options: dict[str, Node] = {key: Scalar(place, value=value, text=str(value)) for key, value in defaults.items()}
        options |= {key: item for key, item in shares.items() if key in parameters and key != "train"}
        return dict.fromkeys(("train", *(name for name in SHARES if name in shares)), options)

    def _check_written_once(self, call: Call, parameters: dict[str, Parameter], keys: tuple[str, ...]) -> None:
        """Report arguments of the dataset among `keys`, which are set for each split."""
        for key, item in [*zip(parameters, call.args, strict=False), *call.kwargs.items()]:
            if key in keys:
                instead = (
                    "differs between the splits; remove it" if key == "split" else f"is written as data.split.{key}"
                )
                self.errors.add(item.key_source or item.source, instead, kind="duplicate-key", key=join(PATH, key))


def _names(parameter: Parameter) -> tuple[str, ...]:
    """The splits that a dataset has: those in the annotation of its argument `split`, by default all."""
    return tuple(name for name in SPLITS if name in choices(parameter.annotation)) or SPLITS


def undivided(component: Component) -> Component:
    """The dataset that a RandomSplit divides; any other dataset itself."""
    inner = component.args[0] if component.args else component.kwargs.get("dataset")
    return inner if component.name == DIVIDES and isinstance(inner, Component) else component
