"""Config → YAML text that reads as the same config."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import yaml

from tdt.train.config import calls, reader, registry
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Call, Mapping, Node, Scalar, Sequence, child, present
from tdt.train.config.paths import by_name, has_paths
from tdt.train.config.scalars import resolve

if TYPE_CHECKING:
    from tdt.train.config.config import Config


Path = tuple[str, ...]  # keys from the root; a key may contain dots
LONGEST_ALIGNED = 80  # columns before the comments; longer lines push theirs to the right


class _Dumper(yaml.SafeDumper):
    """Quote every string that YAML 1.2 would read as another type; PyYAML knows the rules of 1.1 only."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_str(dumper: _Dumper, text: str) -> yaml.Node:
    try:
        is_text = resolve(text) == text
    except ValueError:
        is_text = False
    style = '"' if "\n" in text else None if is_text else "'"  # double quotes keep a text on one line
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_str)


def write(config: Config, root: Node) -> str:
    """Components as they were written, the fixed sections with their defaults, in a fixed order."""
    data: dict[str, Any] = {}
    for key in ("train", "valid", "test", "transform", "augment"):
        node = present(child(child(root, "data"), key))
        if node is not None:
            data[key] = _written(node)
    for key, component in config.data.splits().items():
        if has_paths(component, registry.datasets):
            data[key] = by_name(component, registry.datasets)
    data["loader"] = config.data.loader.model_dump(exclude_none=True)
    eval_loader = present(child(child(root, "data"), "eval_loader"))
    if eval_loader is not None:
        data["eval_loader"] = _written(eval_loader)
    top: dict[str, Any] = {"name": config.name, "seed": config.seed, "device": config.device}
    top |= {"dtype": config.dtype, "data": data}
    if config.targets is not None:
        top["targets"] = config.targets.model_dump()
    if config.imports:
        top["imports"] = [{"file": each.file, "sha256": each.sha256} for each in config.imports]
    for key in ("blocks", "model", "weights", "init", "loss", "metrics", "optimizer", "scheduler", "callbacks"):
        node = present(child(root, key))
        if key == "weights" and config.weights is not None:
            top[key] = _as_lists(config.weights.model_dump(by_alias=True, exclude_none=True))
        elif node is not None:
            top[key] = _written(node)
    top["train"] = _as_lists(config.train.model_dump(by_alias=True, exclude_none=True))
    top["checkpoint"] = config.checkpoint.model_dump(exclude_none=True)
    top["log"] = config.log.model_dump(exclude_none=True)
    top = _with_references(top, root)
    return yaml.dump(top, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6, default_flow_style=False)


def _written(node: Node) -> Any:
    if isinstance(node, Mapping):
        return {key: _written(item) for key, item in node.items.items()}
    if isinstance(node, Sequence):
        return [_written(item) for item in node.items]
    if isinstance(node, Call):
        return calls.unparse(node)
    assert isinstance(node, Scalar)
    return node.written or node.value


def flow(node: Node) -> str:
    """A value on one line, as it can be written in [ ] and in an override."""
    text = yaml.dump(_written(node), Dumper=_Dumper, allow_unicode=True, width=10**6, default_flow_style=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _with_references(data: Any, node: Node | None) -> Any:
    """`data` with values from the environment replaced by their references."""
    if isinstance(node, Scalar) and node.written:
        return node.written
    if isinstance(data, dict):
        return {key: _with_references(value, child(node, key)) for key, value in data.items()}
    if isinstance(data, list):
        return [_with_references(value, child(node, str(number))) for number, value in enumerate(data)]
    return data


def annotate(text: str, origin: Callable[[Path], str], depth: int | None = None) -> str:
    """Append the origin of each value to the lines from `write`, as a comment. depth: as `Config.annotated`."""
    lines, root = text.splitlines(), reader.read(text, "", ConfigErrors())
    ends = {}
    for path, node in leaves(root):
        if depth is None or len(path) <= depth:
            ends[node.source.line - 1] = path
    width = max((len(lines[number]) for number in ends if len(lines[number]) <= LONGEST_ALIGNED), default=0)
    for number, path in ends.items():
        lines[number] = f"{lines[number]:<{width}}  # {origin(path)}"
    if depth is not None and root is not None:
        lines = [lines[number] + end for number, end in _shallow(root, depth)]
    return "\n".join(lines) + "\n"


def _shallow(node: Node, depth: int) -> Iterator[tuple[int, str]]:
    """The number of each line down to a level of keys, and ` …` for one with something below."""
    below = node.items.values() if isinstance(node, Mapping) else node.items if isinstance(node, Sequence) else ()
    for item in below:
        number = (item.key_source or item.source).line - 1
        inner = list(_shallow(item, depth - 1)) if depth > 1 else []
        is_cut = depth == 1 and isinstance(item, (Mapping, Sequence)) and bool(item.items)
        yield number, " …" if is_cut else ""
        yield from (line for line in inner if line[0] != number)  # a mapping in a list begins in the line of its item


def leaves(node: Node | None, path: Path = (), inside_calls: bool = False) -> Iterator[tuple[Path, Node]]:
    """(keys, node) of every leaf value; an empty list or mapping is a leaf.

    inside_calls: whether the arguments of a call are leaves; by default the call is one.
    """
    below: Iterable[tuple[Any, Node]] = ()
    if isinstance(node, Mapping):
        below = node.items.items()
    elif isinstance(node, Sequence):
        below = enumerate(node.items)
    elif isinstance(node, Call) and inside_calls:
        below = [*enumerate(node.args), *node.kwargs.items()]
    if node is not None and not below:
        yield path, node
    for key, item in below:
        yield from leaves(item, (*path, str(key)), inside_calls)


def _as_lists(section: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in section.items()}
