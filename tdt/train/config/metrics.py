"""`metrics:`: what is measured beside the loss, under the metric's name or one of the config's own.

metrics: [accuracy, "f1(average=macro)"]
metrics: {top1: accuracy, top5: top_k(k=5), top3: top_k(k=3)}       # logged as valid/top1, ...
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tdt.train import registry
from tdt.train.config.components import Component, read_component, read_components
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Mapping, Node, join, present
from tdt.train.registry import nearest


def read_metrics(node: Node | None, path: str, losses: Sequence[str], errors: ConfigErrors) -> dict[str, Component]:
    """The metrics by name. losses: names that those of the config have."""
    node = present(node)
    if isinstance(node, Mapping) and "type" not in node.items and not nearest("type", node.items):
        read = [
            (name, read_component(item, join(path, name), registry.metrics, errors))
            for name, item in _named(node, path, losses, errors)
        ]
        return {name: metric for name, metric in read if metric is not None}
    found: dict[str, Component] = {}
    for metric in read_components(node, path, registry.metrics, errors):
        if metric.name in found:
            message = f"{metric.name} is there twice; remove one, or name them: metrics: {{one: {metric}, other: …}}"
            errors.add(metric, message, kind="duplicate-key")
        found.setdefault(metric.name, metric)
    return found


def _named(node: Mapping, path: str, losses: Sequence[str], errors: ConfigErrors) -> list[tuple[str, Node]]:
    """The entries whose names may be those of metrics; others are reported."""
    sound = []
    for name, item in node.items.items():
        if not re.fullmatch(r"[A-Za-z_][\w-]*", name):
            errors.add(item.key_source, f"{name!r} cannot name a metric; use a plain word", key=join(path, name))
        elif name in ("loss", *losses):
            message = f"{name!r} is the name of a loss, which is measured as it is; choose another one"
            errors.add(item.key_source, message, kind="duplicate-key", key=join(path, name))
        else:
            sound.append((name, item))
    return sound
