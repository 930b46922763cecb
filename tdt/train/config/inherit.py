"""`extends: base.yaml`: inherit from another config and write only the differences.

Mappings are merged key by key, any other value replaces that of the base, and null removes it. A component keeps the
base's arguments if its name stays: `optimizer: {lr: 0.1}` over `Adam(lr=1e-3)` is `Adam(lr=0.1)`.
"""

from __future__ import annotations

from pathlib import Path

from tdt.train.config import calls, find, reader
from tdt.train.config.config import SPLITS
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Call, Mapping, Node, Scalar, child, plain, present
from tdt.train.config.scalars import spell
from tdt.train.config.source import Source

_NAMING = ("type", "block", "graph")  # keys that say which component a mapping is


def inherit(root: Mapping, file: str, errors: ConfigErrors, above: tuple[Path, ...] = ()) -> Mapping | None:
    """Merge `root` with the config that its `extends` names, which may itself extend one.

    Args:
        file: the file of `root`, in whose folder relative paths start.
        above: the files that extend this one.
    Returns:
        The merged tree without `extends`; None after reporting that the base does not exist or cannot be read.
    """
    node = root.items.pop("extends", None)
    if node is None:
        return root
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        message = f"expected a file or the name of a bundled config, got {spell(plain(node))}"
        errors.add(node.where, message, kind="wrong-type", key="extends")
        return None
    path = find.find(node.value, errors, node.where, Path(file).parent)
    chain = (*above, Path(file).resolve())
    if path is not None and path.resolve() in chain:
        shown = " -> ".join(one.name for one in (*chain[chain.index(path.resolve()) :], path))
        errors.add(node.where, f"goes in a circle: {shown}", key="extends")
        return None
    text = None if path is None else find.read_text(path, errors)
    base = None if text is None else read(text, str(path), errors)
    under = None if base is None else inherit(base, str(path), errors, chain)
    if under is None:
        return None
    data = under.items.get("data")
    if isinstance(data, Mapping) and child(root.items.get("data"), "dataset"):  # it stands for all splits
        data.items = {key: node for key, node in data.items.items() if key not in SPLITS}
    return _merged(under, root)


def read(text: str, file: str, errors: ConfigErrors) -> Mapping | None:
    """The tree of a config's text; None after reporting that it cannot be read."""
    root = reader.read(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"), file, errors)
    if root is None and not errors:
        message = "the config is empty; it needs data, model, loss, optimizer, train"
        errors.add(Source(file, 1, 1), message, kind="missing")
    elif root is not None and not isinstance(root, Mapping):
        errors.add(root.source, "expected 'key: value' lines at the top level", kind="wrong-type")
    return root if isinstance(root, Mapping) else None


def _merged(base: Mapping, over: Mapping) -> Mapping:
    """The keys of `base` in their order, then the new ones of `over`; the position is that of `over`."""
    items = dict(base.items)
    for key, node in over.items.items():
        if key in items and present(node) is None:
            del items[key]
        else:
            items[key] = extended(items[key], node) if key in items else node
    return Mapping(over.source, over.key_source, items)


def extended(base: Node, over: Node) -> Node:
    """The value `over` in place of `base`, of which mappings and components keep what `over` does not write."""
    if not isinstance(over, Mapping):
        return over
    if isinstance(base, Scalar) and calls.looks_like_call(base):
        base = calls.parse(base, "", ConfigErrors())
    if isinstance(base, Call):
        if base.broken or _names_another(over, {"type": base.name}):
            return over
        options = Mapping(over.source, items={key: node for key, node in over.items.items() if key != "type"})
        kwargs = _merged(Mapping(base.source, items=base.kwargs), options).items
        return Call(base.source, over.key_source, base.name, base.args, kwargs)
    if isinstance(base, Mapping) and not _names_another(over, {key: plain(node) for key, node in base.items.items()}):
        return _merged(base, over)
    return over


def _names_another(over: Mapping, named: dict[str, object]) -> bool:
    """Whether `over` names a component other than that of `named`."""
    return any(key in over.items and plain(over.items[key]) != named.get(key) for key in _NAMING)
