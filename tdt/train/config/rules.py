"""Rules for parameters by name: how to initialise them (`init`), and other optimizer options for some (`param_groups`).

Patterns are fnmatch patterns of parameter names, checked against the model when it is built.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tdt._did_you_mean import closest
from tdt.train.config import registry
from tdt.train.config.components import read_component
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import BROKEN, Mapping, Node, Scalar, Sequence, join, plain, present
from tdt.train.config.parts import Component
from tdt.train.config.scalars import spell
from tdt.train.config.signatures import check_options
from tdt.train.config.source import Source


@dataclass(frozen=True)
class InitRule:
    """Initialise every parameter that matches a pattern with `function`."""

    params: tuple[str, ...]
    function: Component
    source: Source = field(compare=False)
    key_path: str = field(compare=False)


@dataclass(frozen=True)
class ParamGroup:
    """Optimizer options for the parameters that match a pattern."""

    params: tuple[str, ...]
    options: dict[str, Any]
    source: Source = field(compare=False)
    key_path: str = field(compare=False)


def read_init(node: Node | None, path: str, errors: ConfigErrors) -> tuple[InitRule, ...]:
    """The rules of `init`, in order."""
    rules = []
    for item, here in _mappings(node, path, "{params: pattern, with: function}", errors):
        patterns = _patterns(item, here, errors)
        known = {key: value for key, value in item.items.items() if key in ("params", "with")}
        strangers = [key for key in item.items if key not in known]
        for key in strangers:
            place = item.items[key].key_source
            errors.add_unknown(place, "unknown key", key, ("params", "with"), key=join(here, key))
        function, written = None, present(known.get("with"))
        if written is not None:
            function = read_component(written, join(here, "with"), registry.initializers, errors)
        elif not any(closest(key, ("params", "with")) == "with" for key in strangers):
            errors.add(item.where, "is missing", kind="missing", key=join(here, "with"))
        if patterns and function:
            rules.append(InitRule(patterns, function, item.where, here))
    return tuple(rules)


def read_param_groups(node: Node | None, path: str, optimizer: str, errors: ConfigErrors) -> tuple[ParamGroup, ...]:
    """The groups of an optimizer, their options checked against its signature."""
    target = registry.optimizers.find(optimizer)
    groups = []
    for item, here in _mappings(node, path, "{params: pattern, lr: 1e-2}", errors):
        patterns = _patterns(item, here, errors)
        options = {key: value for key, value in item.items.items() if key != "params"}
        if patterns is not None and not options:
            message = "sets nothing: give it lr or another option, or remove it"
            errors.add(item.where, message, kind="unused", key=here)
        if target is None:
            continue
        if "params" not in item.items:  # the misspelt key is reported by _patterns, not as an unknown argument
            options = {key: value for key, value in options.items() if closest(key, ("params",)) is None}
        values = {key: plain(value) for key, value in options.items()}
        checked = check_options(target, optimizer, options, values, here, registry.optimizers, errors)
        if patterns:
            groups.append(ParamGroup(patterns, checked, item.where, here))
    return tuple(groups)


def _mappings(node: Node | None, path: str, example: str, errors: ConfigErrors) -> list[tuple[Mapping, str]]:
    """The mappings of a list, each with its path. Reports anything else."""
    node = present(node)
    if node is None or (isinstance(node, Scalar) and node.broken):
        return []
    if not isinstance(node, Sequence):
        errors.add(node.where, f"expected a list of {example}", kind="wrong-type", key=path)
        return []
    found = []
    for number, item in enumerate(node.items):
        here = join(path, number)
        if isinstance(item, Mapping):
            found.append((item, here))
        else:
            errors.add(item.where, f"expected {example}, got {_shown(item)}", kind="wrong-type", key=here)
    return found


def _patterns(item: Mapping, path: str, errors: ConfigErrors) -> tuple[str, ...] | None:
    """The patterns under `params`: a string or a list of strings; None after reporting mistakes."""
    node, here = present(item.items.get("params")), join(path, "params")
    if node is None:
        close = None if "params" in item.items else closest("params", item.items)
        if close:
            place = item.items[close].key_source
            errors.add(place, "unknown key", "params", kind="unknown-key", key=join(path, close))
        else:
            errors.add(item.where, "is missing", kind="missing", key=here)
        return None
    nodes = node.items if isinstance(node, Sequence) else [node]
    values = [plain(entry) for entry in nodes]
    if BROKEN in values:
        return None
    for entry, value in zip(nodes, values, strict=True):
        if not isinstance(value, str) or not value:
            message = f"expected a pattern like '*.bias', got {_shown(entry)}"
            errors.add(entry.where, message, kind="wrong-type", key=here)
            return None
    if not values:
        errors.add(node.where, "the list of patterns is empty", kind="missing", key=here)
    return tuple(values) or None


def _shown(node: Node) -> str:
    return "a list" if isinstance(node, Sequence) else spell(plain(node))
