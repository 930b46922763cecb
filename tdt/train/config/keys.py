"""The keys and values that a config may have at a place, read from the bundled schema: without NumPy and the components."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tdt.train.config.find import SCHEMA, bundled_folder

# Key paths of components → their kind, as in the names of the schema's definitions.
KINDS = {
    "optimizer": "optimizer",
    "scheduler": "scheduler",
    "loss": "loss",
    "metrics": "metric",
    "model": "layer",
    "data.dataset": "dataset",
    "data.train": "dataset",
    "data.valid": "dataset",
    "data.test": "dataset",
    "data.transform": "transform",
    "data.augment": "transform",
}
Schema = dict[str, Any]


@functools.cache
def _text() -> str:
    return (bundled_folder() / SCHEMA).read_text(encoding="utf-8")


@functools.cache
def _whole() -> Schema:
    """The schema without its definitions."""
    schema: Schema = json.loads(_text().partition(',\n "$defs": {')[0] + "}")
    return schema


@functools.cache
def _definition(name: str) -> Schema:
    """A definition, which is a line of the file (`schema.as_json`): all of them take 50 ms to read."""
    text, begin = _text(), f'\n  "{name}": '
    if (at := text.find(begin)) < 0:
        return {}
    at += len(begin)
    schema: Schema = json.loads(text[at : text.index("\n", at)].rstrip(","))
    return schema


def keys(path: str, written: Mapping[str, str]) -> dict[str, Schema]:
    """The keys below the key path `path` ("" for the whole config), with the schema of each.

    written: the config's settings by key path: which component has the arguments.

    >>> from tdt.train.config.keys import keys
    >>> "clip_grad_norm" in keys("train", {}), "weight_decay" in keys("optimizer", {"optimizer": "SGD(lr=0.1)"})
    (True, True)
    """
    if path in KINDS:
        shared = written.get("data.dataset", "") if KINDS[path] == "dataset" else ""
        name = written.get(path, shared).partition("(")[0]
        found = _definition(f"{KINDS[path]}.{name}")
    elif not path:
        found = _whole()
    else:
        parent, _, key = path.rpartition(".")
        found = next(_objects(keys(parent, written).get(key, {})), {})
    properties: dict[str, Schema] = found.get("properties", {})
    return {key: schema for key, schema in properties.items() if key not in ("type", "extends")}


def values(path: str, written: Mapping[str, str]) -> list[str]:
    """The values that a key may have, if they can be listed: names of components, words, true and false.

    >>> from tdt.train.config.keys import values
    >>> values("train.amp", {}), values("optimizer", {})[:3]
    (['bfloat16', 'float16'], ['ASGD', 'Adadelta', 'Adafactor'])
    """
    if path in KINDS:
        names = re.findall(rf'^  "{KINDS[path]}\.(\w+)": ', _text(), re.MULTILINE)
        return sorted(name for name in names if name not in ("open", "block", "name"))
    parent, _, key = path.rpartition(".")
    schema = keys(parent, written).get(key)
    return [] if schema is None else list(dict.fromkeys(_words(schema)))


def explained(path: str) -> Schema | None:
    """The schema of a key, as `train.epochs`; of a component, as `Adam`; or of an argument of one, as `Adam.lr`."""
    parent, _, key = path.rpartition(".")
    found = keys(parent, {}).get(key)
    for kind in (*dict.fromkeys(KINDS.values()), "initializer") if found is None else ():
        component = _definition(f"{kind}.{parent or path}")
        if component and (not parent or key in component["properties"]):
            return component["properties"][key] if parent else component
    if found is None and parent in KINDS:  # an argument of any component of that kind
        found = next(
            (below[key] for name in values(parent, {}) if key in (below := keys(parent, {parent: name}))), None
        )
    return found


def below(path: str, schema: Schema) -> dict[str, Schema]:
    """The keys below the key or component that `explained` found."""
    found = next(_objects(schema), {}).get("properties", {})
    return {key: value for key, value in found.items() if key != "type"}


def accepted(schema: Schema) -> str:
    """The values that a schema accepts, in words.

    >>> from tdt.train.config.keys import accepted, explained
    >>> accepted(explained("train.epochs")), accepted(explained("train.amp")), accepted(explained("log.every"))
    ('whole number, at least 1', 'bfloat16, float16', '1 epoch or 20 steps')
    """
    if "$ref" in schema:
        return "" if schema["$ref"].endswith("/reference") else "keys below"
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "patternErrorMessage" in schema:
        return str(schema["patternErrorMessage"]).rpartition("as in ")[2]
    kinds = {
        "integer": "whole number",
        "number": "number",
        "boolean": "true, false",
        "string": "text",
        "array": "list",
        "object": "mapping",
    }
    words = kinds.get(schema.get("type", ""), "")
    bounds = {
        "minimum": "at least",
        "exclusiveMinimum": "more than",
        "maximum": "at most",
        "exclusiveMaximum": "less than",
    }
    limits = [f"{text} {schema[name]}" for name, text in bounds.items() if name in schema and schema[name] < 2**63]
    options = [accepted(option) for option in schema.get("anyOf", ())]
    return " or ".join(dict.fromkeys(filter(None, [", ".join(filter(None, [words, *limits])), *options])))


def has_keys(schema: Schema) -> bool:
    """Whether the schema of a key allows keys below it."""
    return any(_objects(schema))


def _objects(schema: Schema) -> Iterator[Schema]:
    """The alternatives of a schema that are mappings with known keys."""
    if "$ref" in schema:
        schema = _definition(schema["$ref"].removeprefix("#/$defs/"))
    if schema.get("properties"):
        yield schema
    for option in schema.get("anyOf", ()):
        yield from _objects(option)


def _words(schema: Schema) -> Iterator[str]:
    if "enum" in schema:
        yield from (word for word in schema["enum"] if isinstance(word, str))
    if "const" in schema and isinstance(schema["const"], str):
        yield schema["const"]
    if schema.get("type") == "boolean":
        yield from ("true", "false")
    for option in schema.get("anyOf", ()):
        yield from _words(option)
