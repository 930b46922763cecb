"""JSON Schema (draft 2020-12) of configs, for editors: the sections from their models, components from their signatures.

What a schema cannot see (the arguments inside a call, patterns, shapes) is left to `tdt check`. Any value may be a
reference `${…}`.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from typing import Any, Literal

from tdt.train import registry
from tdt.train.config.losses import OPTIONS
from tdt.train.config.sections import Patterns, Top
from tdt.train.config.signatures import BY_TDT, LISTS, is_tensor, layers_wanted, parameters_of, writable
from tdt.train.registry import Registry

Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
ANY: Schema = {}
REFERENCE = {"$ref": "#/$defs/reference"}
_NAMES: dict[Any, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    complex: {"type": "number"},
    str: {"type": "string"},
    None: {"type": "null"},
    type(None): {"type": "null"},
}
_KINDS = {
    "layer": registry.layers,
    "loss": registry.losses,
    "metric": registry.metrics,
    "dataset": registry.datasets,
    "transform": registry.transforms,
    "optimizer": registry.optimizers,
    "scheduler": registry.schedulers,
    "initializer": registry.initializers,
}
_COMPONENTS = ("loss", "optimizer", "scheduler")  # sections that are one component
_BLOCK = r"^[A-Za-z_]\w*(\([\s\S]*\))?$"


def schema() -> Schema:
    """The schema of a whole config, as plain data for `json.dumps`."""
    made = Top.model_json_schema(by_alias=True)
    defs: Schema = {name: _with_references(section) for name, section in made.pop("$defs").items()}
    top = _with_references(made)
    defs["reference"] = {"type": "string", "pattern": r"\$\{"}
    for kind, known in _KINDS.items():
        defs |= _component(kind, known)
    defs |= _model("model", {"$ref": "#/$defs/layer.text"}) | _model("model.of_blocks", _text(_BLOCK))
    defs["loss.terms"] = {"type": "object", "additionalProperties": _ref("loss")}
    _place(defs["Data"]["properties"], dict.fromkeys(("train", "valid", "test"), _ref("dataset")))
    _place(defs["Data"]["properties"], dict.fromkeys(("transform", "augment"), _one_or_more(_ref("transform"))))
    properties = top["properties"]
    _place(properties, {key: _ref(key) for key in ("optimizer", "scheduler")})
    _place(properties, {"metrics": _one_or_more(_ref("metric")), "init": _init(), "blocks": {"type": "object"}})
    _place(properties, {"loss": _either("type", _ref("loss"), _ref("loss.terms"))})
    _place(properties, {"model": ANY})
    required = top.pop("required")
    return {"$schema": DRAFT, "title": "tdt config", **top, "$defs": defs, "allOf": _whole(required)}


def _whole(required: list[str]) -> list[Schema]:
    """What holds for the file: a config that extends another may leave out what that one says."""
    named = {"if": {"type": "object"}, "then": {"required": ["type"]}}
    alone = {"required": required, "properties": dict.fromkeys(("optimizer", "scheduler"), named)}
    models = [{"properties": {"model": _ref(name)}} for name in ("model.of_blocks", "model")]
    has_blocks = {"anyOf": [{"required": ["blocks"]}, {"required": ["extends"]}]}
    return [
        {"if": {"required": ["extends"]}, "else": alone},
        {"if": has_blocks, "then": models[0], "else": models[1]},
    ]


def _component(kind: str, known: Registry) -> Schema:
    """Definitions of a kind: as text (a name or a call), as a mapping with `type`, and the arguments of each name."""
    names = known.names()
    alternatives = []
    defs: Schema = {}
    for name in names:
        defs[f"{kind}.{name}"] = _arguments(kind, name, known)
        of_name = {"properties": {"type": {"const": name}}, "required": ["type"]}
        alternatives.append({"if": of_name, "then": _ref(f"{kind}.{name}")})
    defs[f"{kind}.text"] = {"anyOf": [_text(rf"^({'|'.join(names)})(\([\s\S]*\))?$"), REFERENCE]}
    defs[kind] = {
        "if": {"type": "object"},
        "then": {"properties": {"type": {"enum": names}}, "allOf": alternatives},
        "else": _ref(f"{kind}.text"),
    }
    return defs


def _arguments(kind: str, name: str, known: Registry) -> Schema:
    target = known.find(name)
    properties: Schema = {"type": {"const": name}}
    required, is_open = [], False
    for parameter in parameters_of(target, len(known.supplied)).values():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            is_open = True
        elif parameter.name not in BY_TDT:
            value = _value(parameter.annotation, kind)
            if parameter.default is parameter.empty:
                required.append(parameter.name)
            elif isinstance(parameter.default, (bool, int, float, str)):
                value = value | {"default": parameter.default}
            properties[parameter.name] = value
    options = {
        "loss": dict.fromkeys(OPTIONS, ANY),
        "scheduler": {"interval": {"enum": ["epoch", "step"]}},
        "optimizer": {"param_groups": _groups(properties)},
    }
    properties |= options.get(kind, {})
    described = (inspect.getdoc(target) or "").partition("\n\n")[0].replace("\n", " ")
    made = {"description": described, "type": "object", "properties": properties, "required": required}
    return made if is_open else made | {"additionalProperties": False}


def _groups(options: Schema) -> Schema:
    """`param_groups`: patterns, and what these parameters take instead of the optimizer's own options."""
    fields = {key: value for key, value in options.items() if key != "type"} | {"params": _patterns()}
    group = {"type": "object", "properties": fields, "required": ["params"], "additionalProperties": False}
    return {"type": "array", "items": group}


def _init() -> Schema:
    fields = {"params": _patterns(), "with": _ref("initializer")}
    rule = {"type": "object", "properties": fields, "required": ["params", "with"], "additionalProperties": False}
    return {"anyOf": [{"type": "array", "items": rule}, {"type": "null"}, REFERENCE]}


def _patterns() -> Schema:
    from pydantic import TypeAdapter

    return _or_reference(TypeAdapter(Patterns).json_schema())


def _model(name: str, text: Schema) -> Schema:
    """Models: a list, a mapping of layers, a component, a block or a graph. text: what a layer may be as text."""
    again = _ref(name)
    node = _either("from", {"properties": {"layer": again}}, again)
    graph = {"properties": {"graph": {"type": "object", "additionalProperties": node}}}
    layers = {"minProperties": 1, "propertyNames": {"pattern": r"^[^.]+$"}, "additionalProperties": again}
    mapping = _either("type", _ref("layer"), _either("block", ANY, _either("graph", graph, layers)))
    sequence = {"type": "array", "items": again, "minItems": 1}
    written = {"if": {"type": "array"}, "then": sequence, "else": {"anyOf": [text, REFERENCE]}}
    return {name: {"if": {"type": "object"}, "then": mapping, "else": written}}


def _value(annotation: Any, kind: str) -> Schema:
    """What may be written for an argument, as `signatures.fit` decides it."""
    found = _fitting(annotation, kind)
    return ANY if found == ANY else _or_reference(found)


def _fitting(annotation: Any, kind: str) -> Schema:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if layers_wanted(annotation):
        return ANY  # any model, whose blocks are not known here
    if origin is typing.Annotated:
        return _fitting(inner[0], kind)
    if annotation in _NAMES:
        return _NAMES[annotation]
    if origin in (typing.Union, types.UnionType):
        options = [_fitting(option, kind) for option in writable(inner)]
        return ANY if ANY in options else {"anyOf": options}
    if origin is Literal:
        return {"enum": list(inner)}
    if is_tensor(annotation):
        return {"type": "array", "minItems": 1}
    if tuple in (annotation, origin):
        return _tuple(inner, kind)
    if annotation in LISTS or origin in LISTS:
        return {"type": "array", "items": _value(inner[0], kind) if inner else ANY}
    if dict in (annotation, origin) or origin is collections.abc.Mapping:
        return {"type": "object"}
    return ANY


def _tuple(inner: tuple[Any, ...], kind: str) -> Schema:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return {"type": "array", "items": _value(inner[0], kind)}
    if not inner:
        return {"type": "array"}
    items = [_value(option, kind) for option in inner]
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def _with_references(section: Schema) -> Schema:
    """A section whose values may be references."""
    fields = {key: _or_reference(value) for key, value in section.get("properties", {}).items()}
    return section | {"properties": fields}


def _or_reference(value: Schema) -> Schema:
    about = {key: value[key] for key in ("description", "default", "title") if key in value}
    rest = {key: item for key, item in value.items() if key not in about}
    options = rest["anyOf"] if list(rest) == ["anyOf"] else [rest]
    return about | {"anyOf": [*options, REFERENCE]}


def _place(properties: Schema, values: Schema) -> None:
    """Say what stands in keys that the models leave open; null, where the key need not be there."""
    for key, value in values.items():
        optional = "default" in properties[key]
        properties[key] = {"anyOf": [value, {"type": "null"}]} if optional and value != ANY else value


def _one_or_more(item: Schema) -> Schema:
    return {"if": {"type": "array"}, "then": {"items": item}, "else": item}


def _either(key: str, with_it: Schema, without: Schema) -> Schema:
    """One schema for mappings that have `key`, and for what is no mapping; another for mappings without."""
    lacks = {"type": "object", "not": {"required": [key]}}
    return {"if": lacks, "then": without, "else": with_it}


def _text(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}
