"""`metrics:`: metrics besides the loss, under their own name or one given in the config.

metrics: [accuracy, "f1(average=macro)"]
metrics: {top1: accuracy, top5: top_k(k=5), top3: top_k(k=3)}       # logged as valid/top1, ...
metrics: {off: {type: mae, input: output/image, target: input}}     # else of what the first loss compares
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from tdt._did_you_mean import closest
from tdt.train.config import registry
from tdt.train.config.components import check_call, read_call
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.losses import read_part
from tdt.train.config.nodes import Mapping, Node, Sequence, join, present
from tdt.train.config.parts import Component, Part
from tdt.train.config.source import Source


@dataclass(frozen=True)
class Measure(Part):
    """A metric of what `input` and `target` name ("output/digit"), by default of what the first loss compares."""

    component: Component
    parts: tuple[str, str] | None = None
    source: Source = field(default=Source("", 1, 1), compare=False)
    key_path: str = field(default="", compare=False)


def read_metrics(node: Node | None, path: str, losses: Collection[str], errors: ConfigErrors) -> dict[str, Measure]:
    """The metrics by name. losses: the names of the config's losses."""
    node = present(node)
    if isinstance(node, Mapping) and "type" not in node.items and not closest("type", node.items):
        read = [(name, _read(item, join(path, name), errors)) for name, item in _named(node, path, losses, errors)]
        return {name: metric for name, metric in read if metric is not None}
    items = [(path, node)] if node else []
    if isinstance(node, Sequence):
        items = [(join(path, number), item) for number, item in enumerate(node.items)]
    found: dict[str, Measure] = {}
    for metric in filter(None, [_read(item, here, errors) for here, item in items]):
        name = metric.component.name
        if name in found:
            advice = f"remove one, or name them: metrics: {{one: {found[name].component}, other: …}}"
            errors.add(metric, f"{name} is declared twice; {advice}", kind="duplicate-key")
        found.setdefault(name, metric)
    return found


def _read(node: Node, path: str, errors: ConfigErrors) -> Measure | None:
    call = read_call(node, path, errors, "a metric")
    if call is None:
        return None
    component = check_call(call, path, registry.metrics, errors, also=("input", "target"))
    parts = read_part(call, "input", "output", path, errors), read_part(call, "target", "target", path, errors)
    if component is None:
        return None
    chosen = any(present(call.kwargs.get(key)) for key in ("input", "target"))
    return Measure(component, parts if chosen else None, component.source, component.key_path)


def _named(node: Mapping, path: str, losses: Collection[str], errors: ConfigErrors) -> list[tuple[str, Node]]:
    """The entries with valid names. Reports the others."""
    valid = []
    for name, item in node.items.items():
        if not re.fullmatch(r"[A-Za-z_][\w-]*", name):
            errors.add(item.key_source, f"{name!r} cannot name a metric; use a plain word", key=join(path, name))
        elif name in ("loss", *losses):
            message = f"{name!r} is the name of a loss, which is logged anyway; choose another one"
            errors.add(item.key_source, message, kind="duplicate-key", key=join(path, name))
        else:
            valid.append((name, item))
    return valid
