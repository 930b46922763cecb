"""`loss:`: one loss, or several by name whose weighted sum is minimised.

    loss: CrossEntropyLoss                                  # of the model's output and the target
    loss: {type: MSELoss, target: input}                    # an autoencoder
    loss:                                                   # each is logged by its name, beside the total
      digit: {type: CrossEntropyLoss, input: output/digit}
      image: {type: MSELoss, input: output/image, target: input, weight_in_total: 0.5}

`input` and `target` say what the loss compares: `output`, `target` or `input` (the model's input), or with `/` an item of
it: a key of a dict, or an index of a tuple.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tdt._did_you_mean import closest
from tdt.train.config import registry
from tdt.train.config.components import check_call, read_call
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Call, Mapping, Node, Scalar, join, plain, present
from tdt.train.config.parts import Component
from tdt.train.config.scalars import spell

SOURCES = ("output", "target", "input")
OPTIONS = ("input", "target", "weight_in_total")


@dataclass(frozen=True)
class LossTerm:
    """The loss `component` of what `input` and `target` name ("output/digit"), with its `weight` in the total."""

    name: str
    component: Component
    input: str = "output"
    target: str = "target"
    weight: float = 1.0


def read_loss(node: Node, path: str, errors: ConfigErrors) -> tuple[LossTerm, ...]:
    """The terms; a single unnamed loss is called "loss"."""
    if not isinstance(node, Mapping) or not _is_named(node):
        term = _read_term("loss", node, path, errors)
        if isinstance(node, Mapping) and "weight_in_total" in node.items:
            where = node.items["weight_in_total"].key_source
            message = "is not used: there is one loss"
            errors.add(where, message, kind="unused", key=join(path, "weight_in_total"))
        return (term,) if term else ()
    terms = []
    for name, item in node.items.items():
        here = join(path, name)
        if not name.isidentifier() or name == "loss" or registry.metrics.find(name) is not None:
            message = f"{name!r} cannot name a loss: " + (
                "it is a metric" if name.isidentifier() else "use a plain word"
            )
            errors.add(item.key_source, message, key=here)
        elif (term := _read_term(name, item, here, errors)) is not None:
            terms.append(term)
    return tuple(terms)


def _is_named(node: Mapping) -> bool:
    """Whether a mapping has losses by name: its values are mappings or texts, and no key is a misspelt `type`."""
    if "type" in node.items or not node.items or closest("type", node.items):
        return False
    return all(
        isinstance(n, Mapping) or (isinstance(n, Scalar) and isinstance(n.value, str)) for n in node.items.values()
    )


def _read_term(name: str, node: Node, path: str, errors: ConfigErrors) -> LossTerm | None:
    call = read_call(node, path, errors, "a loss")
    if call is None:
        return None
    component = check_call(call, path, registry.losses, errors, also=OPTIONS)
    input, target = (
        read_part(call, "input", "output", path, errors),
        read_part(call, "target", "target", path, errors),
    )
    weight = _weight(call, path, errors)
    return None if component is None else LossTerm(name, component, input, target, weight)


def read_part(call: Call, key: str, default: str, path: str, errors: ConfigErrors) -> str:
    """The value of the option `key`: `output`, `target` or `input`, or an item of one."""
    node = present(call.kwargs.get(key))
    if node is None:
        return default
    value = plain(node)
    source = value.partition("/")[0] if isinstance(value, str) else ""
    if source not in SOURCES or not re.fullmatch(r"\w+(/\w+)*", str(value)):
        near = closest(source, SOURCES) if source and source not in SOURCES else None
        shown = spell(value) if isinstance(value, (str, int, float, bool)) else "something else"
        message = f"expected output, target or input, or a part of it as in output/key, got {shown}"
        errors.add(node.where, message, near, key=join(path, key))
    return str(value)


def _weight(call: Call, path: str, errors: ConfigErrors) -> float:
    node = present(call.kwargs.get("weight_in_total"))
    if node is None:
        return 1.0
    value = plain(node)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        shown = spell(value) if isinstance(value, (str, int, float, bool)) else "something else"
        errors.add(node.where, f"expected float, got {shown}", kind="wrong-type", key=join(path, "weight_in_total"))
        return 1.0
    return float(value)
