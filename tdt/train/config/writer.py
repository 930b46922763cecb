"""Config → YAML text that reads as the same config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tdt.train.config import calls
from tdt.train.config.nodes import Call, Mapping, Node, Scalar, Sequence, child, present
from tdt.train.config.scalars import resolve

if TYPE_CHECKING:
    from tdt.train.config.config import Config


class _Dumper(yaml.SafeDumper):
    """Quotes every string that our rules (YAML 1.2's) would read as something else; PyYAML knows those of 1.1."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_str(dumper: _Dumper, text: str) -> yaml.Node:
    try:
        is_text = resolve(text) == text
    except ValueError:
        is_text = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_text else "'")


_Dumper.add_representer(str, _represent_str)


def write(config: Config, root: Node) -> str:
    """Components as they were written, the fixed sections with their defaults, in a fixed order."""
    data: dict[str, Any] = {}
    for key in ("train", "valid", "test", "transform", "augment"):
        node = present(child(child(root, "data"), key))
        if node is not None:
            data[key] = _written(node)
    data["loader"] = config.data.loader.model_dump(exclude_none=True)
    eval_loader = present(child(child(root, "data"), "eval_loader"))
    if eval_loader is not None:
        data["eval_loader"] = _written(eval_loader)
    top: dict[str, Any] = {"name": config.name, "seed": config.seed, "device": config.device, "data": data}
    for key in ("blocks", "model", "weights", "init", "loss", "metrics", "optimizer", "scheduler"):
        node = present(child(root, key))
        if key == "weights" and config.weights is not None:
            top[key] = _as_lists(config.weights.model_dump(by_alias=True, exclude_none=True))
        elif node is not None:
            top[key] = _written(node)
    top["train"] = _as_lists(config.train.model_dump(by_alias=True, exclude_none=True))
    top["checkpoint"] = config.checkpoint.model_dump(exclude_none=True)
    top["log"] = config.log.model_dump(exclude_none=True)
    return yaml.dump(top, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6, default_flow_style=False)


def _written(node: Node) -> Any:
    if isinstance(node, Mapping):
        return {key: _written(item) for key, item in node.items.items()}
    if isinstance(node, Sequence):
        return [_written(item) for item in node.items]
    if isinstance(node, Call):
        return calls.unparse(node)
    assert isinstance(node, Scalar)
    return node.value


def _as_lists(section: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in section.items()}
