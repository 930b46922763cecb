"""Convert pydantic's errors to messages with positions."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from tdt._did_you_mean import closest, synonym
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import BROKEN, Mapping, Node, Sequence, child, join, plain, present
from tdt.train.config.registry import MOST_STRANGERS
from tdt.train.config.scalars import hint, spell
from tdt.train.config.sections import Section, Top

# pydantic's error type → (what was expected, its types for hints)
_EXPECTED: dict[str, tuple[str, set[type]]] = {
    "int_type": ("int", {int}),
    "int_from_float": ("int", {int}),
    "float_type": ("float", {float}),
    "bool_type": ("true or false", {bool}),
    "string_type": ("a string", {str}),
    "model_type": ("a mapping", {dict}),
    "model_attributes_type": ("a mapping", {dict}),
    "dict_type": ("a mapping", {dict}),
    "tuple_type": ("a pattern or a list of patterns", {list}),
}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_SECTIONS = ("data", "data.loader", "train", "checkpoint", "log")
_OF_OPTIMIZERS = ("lr", "momentum", "weight_decay", "betas", "param_groups")
_INSTEAD = {"data.train": "dataset"}  # required keys → one that may be written instead
_REQUIRED = ("data", "model", "loss", "optimizer", "train")


def validate(root: Mapping, errors: ConfigErrors) -> Top | None:
    """The fixed sections of a config; None after adding mistakes to `errors`."""
    before = len(errors)
    for name in _REQUIRED:
        if name in root.items and present(root.items[name]) is None:
            errors.add(root.items[name].where, "nothing is written here", kind="missing", key=name)
    try:
        top = Top.model_validate(plain(root))
    except ValidationError as error:
        found = error.errors(include_url=False)
        for item in found:
            _add(item, root, found, errors)
        return None
    return top if len(errors) == before else None


def _add(item: Any, root: Mapping, found: list[Any], errors: ConfigErrors) -> None:
    node, path = _locate(root, item["loc"])
    kind = item["type"]
    if kind == "extra_forbidden":
        _add_unknown(node, path, item["loc"], errors)
    elif kind == "missing":
        parent, parent_path = _locate(root, item["loc"][:-1])
        name = str(item["loc"][-1])
        strangers = [
            str(e["loc"][-1]) for e in found if e["type"] == "extra_forbidden" and e["loc"][:-1] == item["loc"][:-1]
        ]
        known, path = _keys(item["loc"][:-1]), join(parent_path, name)
        instead = _INSTEAD.get(path, name)
        if not any(closest(stranger, known) in (name, instead) for stranger in strangers[:MOST_STRANGERS]):
            where = parent.key_source or parent.source  # those are reported already
            message = "is missing" + (f"; write it, or {parent_path}.{instead}" if instead != name else "")
            errors.add(where, message, kind="missing", key=path)
    elif isinstance(value := plain(node), type(BROKEN)):
        return  # reported already
    elif kind in _EXPECTED:
        expected, types = _EXPECTED[kind]
        if value is None and path in _REQUIRED:
            return  # reported already
        advice = hint(value, types)
        message = f"expected {expected}, got {_shown(value)}" + (f"; {advice}" if advice else "")
        errors.add(node.where, message, kind="missing" if value is None else "wrong-type", key=path)
    elif kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        errors.add(node.where, f"must be {words} {item['ctx'][bound]}, got {spell(value)}", key=path)
    elif kind == "value_error":
        errors.add(node.where, str(item["ctx"]["error"]), key=path)
    else:
        message = item["msg"][:1].lower() + item["msg"][1:]
        errors.add(node.where, f"{message}, got {_shown(value)}", key=path)


def _shown(value: Any) -> str:
    return "a list" if isinstance(value, list) else "nothing" if value is None else spell(value)


def _add_unknown(node: Node, path: str, loc: tuple[Any, ...], errors: ConfigErrors) -> None:
    section = _section(loc[:-1])
    known, reason = _keys(loc[:-1]), section.refused.get(str(loc[-1]))
    where = node.key_source or node.source
    if reason:
        errors.add(where, f"unknown key: {reason}", kind="unknown-key", key=path)
    else:
        name = str(loc[-1])
        meant = None if synonym(name) in known else key_path(name)
        errors.add_unknown(where, "unknown key", name, known, key=path, meant=meant)


def key_path(name: str) -> str | None:
    """The key path of the setting `name`, if exactly one section has it, or of another library's name for it.

    >>> from tdt.train.config.validate import key_path
    >>> key_path("epochs"), key_path("learning_rate"), key_path("seed"), key_path("unheard_of")
    ('train.epochs', 'optimizer.lr', 'seed', None)
    """
    paths = [name] if name in _keys(()) else []
    paths += [join(path, name) for path in _SECTIONS if name in _keys(tuple(path.split(".")))]
    paths += [f"optimizer.{name}"] if name in _OF_OPTIMIZERS else []
    if not paths and (same := synonym(name)) is not None:
        return key_path(same)
    return paths[0] if len(paths) == 1 else None


def _keys(loc: tuple[Any, ...]) -> list[str]:
    """The keys of the section at `loc`, as written."""
    return [field.alias or name for name, field in _section(loc).model_fields.items()]


def _section(loc: tuple[Any, ...]) -> type[Section]:
    model: type[Section] = Top
    for part in loc:
        annotation = model.model_fields[part].annotation
        options = [annotation, *getattr(annotation, "__args__", ())]
        model = next(option for option in options if isinstance(option, type) and issubclass(option, Section))
    return model


def _locate(root: Node, loc: tuple[Any, ...]) -> tuple[Node, str]:
    """The deepest existing node on the way to `loc`, and its key path."""
    node, path = root, ""
    for part in loc:
        below = child(node, str(part)) if isinstance(node, (Mapping, Sequence)) else None
        if below is None:
            break
        node, path = below, join(path, part)
    return node, path
