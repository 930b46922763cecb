"""JSON Schema (draft 2020-12) of configs, for editors: the sections from their models, components from their signatures.

What a schema cannot express (arguments inside a call, patterns, shapes) is checked by `tdt check`. Any value may be a
reference `${…}`.
"""

from __future__ import annotations

import collections.abc
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from tdt.train.config import registry, sections
from tdt.train.config.descriptions import COMMON, descriptions, summary
from tdt.train.config.graph import RESERVED
from tdt.train.config.registry import Registry
from tdt.train.config.sections import Duration, Every, Patterns, Section, Top
from tdt.train.config.signatures import BY_TDT, LISTS, is_tensor, layer_argument_kind, parameters_of, writable

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
    "loss": registry.losses,
    "metric": registry.metrics,
    "dataset": registry.datasets,
    "transform": registry.transforms,
    "optimizer": registry.optimizers,
    "scheduler": registry.schedulers,
    "initializer": registry.initializers,
}
_OWN = {  # what tdt adds to the arguments of components
    "type": "Name of the class.",
    "input": "Which part of the model's output is compared: `output`, or `output/NAME`.",
    "target": "What it is compared with: `target`, `target/NAME` or `input`.",
    "weight_in_total": "Factor of this loss in the sum of several.",
    "interval": "When the scheduler steps: every `epoch` or every optimizer `step`.",
    "monitor": "`split/metric` that the scheduler watches; by default the loss of the validation data.",
    "param_groups": "Other options for the parameters that match patterns.",
    "from": "The nodes that are the inputs of this one in a graph.",
}
_CALL = r"^[A-Za-z_]\w*(\([\s\S]*\))?$"
_NAME = r"^[A-Za-z_]\w*$"
_PART = r"^(output|target|input)(/\w+)*$"


def schema() -> Schema:
    """The schema of a whole config, as plain data."""
    generated = Top.model_json_schema(by_alias=True)
    parts: Schema = generated.pop("$defs")
    needed = {name: part.pop("required", []) for name, part in parts.items()}
    defs: Schema = {name: _section(getattr(sections, name), part) for name, part in parts.items()}
    top = _section(Top, generated)
    required = top.pop("required")
    defs |= {"reference": {"type": "string", "pattern": r"\$\{"}, "layer.name": _layer_name()}
    for kind, known in _KINDS.items():
        defs |= {f"{kind}.{name}": _arguments(kind, name, known, _value) for name in known.names()}
        defs |= _choice(kind, known) | _choice(kind, known, "open")
    defs |= _models()
    for name in ("dataset", "train", "valid", "test", "transform", "augment"):
        _open(defs["Data"], name)
    for name in ("model", "blocks", "loss", "metrics", "init", "optimizer", "scheduler"):
        _open(top, name)
    own = {"anyOf": [{"type": "string", "pattern": _CALL}, {"type": "object", "required": ["type"]}]}
    _open(top, "callbacks").update(_one_or_more(own))
    _open(top, "imports").update(_one_or_more({"anyOf": [{"type": "string"}, _imported()]}))
    return {"$schema": DRAFT, **top, "title": "tdt config", "$defs": defs, "allOf": _whole(required, needed)}


def _section(section: type[Section], generated: Schema) -> Schema:
    """The schema of a section, with what each of its keys means, and without pydantic's titles."""
    found = _with_references(generated) | {"description": summary(section)}
    meanings = descriptions(section, found["properties"])
    defaults = {field.alias or name: field.default for name, field in section.model_fields.items()}
    for name, value in found["properties"].items():
        value.pop("title", None)
        value["description"] = meanings[name]
        if isinstance(defaults.get(name), (Every, Duration)):
            value["default"] = str(defaults[name])
    found.pop("title", None)
    return found


def _open(section: Schema, name: str) -> Schema:
    """Leave only the description of a key whose values depend on imports and blocks: `_components` has them."""
    found: Schema = {"description": section["properties"][name]["description"]}
    section["properties"][name] = found
    return found


def as_json(schema: Schema) -> str:
    """A schema as JSON text with one definition per line."""
    defs = (f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in schema["$defs"].items())
    rest = json.dumps({key: value for key, value in schema.items() if key != "$defs"}, indent=1, ensure_ascii=False)
    return rest.removesuffix("\n}") + ',\n "$defs": {\n' + ",\n".join(defs) + "\n }\n}\n"


def _whole(required: list[str], needed: dict[str, list[str]]) -> list[Schema]:
    """Conditions for the whole file.

    A file that extends another may leave out required sections and arguments; one with blocks or imports may use other
    names.
    """
    named = {"if": {"type": "object"}, "then": {"required": ["type"]}}
    needs = {name: {"required": keys} for name, keys in needed.items()}  # of mappings: other values have no keys
    alone: Schema = {
        "data": {
            "if": {"required": ["dataset"]},
            "then": _no_splits(),
            "else": needs["Data"] | {"properties": {"split": _NAMES[None]}},
        },
        "targets": needs["Targets"],
        "weights": needs["Weights"],
        "sweep": needs["Sweep"],
        "optimizer": named,
        "scheduler": named,
    }
    alone["train"] = {"properties": {"early_stopping": needs["EarlyStopping"], "swa": needs["Swa"]}}
    extends, imports = {"required": ["extends"]}, {"required": ["imports"]}
    own_layers = {"anyOf": [imports, {"required": ["blocks"]}]}
    model = {"if": own_layers, "then": _has("model", "model.open"), "else": _has("model", "model")}
    whole = {"properties": alone | {"blocks": _blocks()}, "required": required, "allOf": [model]}
    return [
        {"if": extends, "else": whole},
        {"if": {"anyOf": [extends, imports]}, "then": _components(".open"), "else": _components("")},
    ]


def _no_splits() -> Schema:
    """Of a section `data` with one dataset for all: another that is null leaves a split out."""
    return {"properties": {"train": False} | dict.fromkeys(("valid", "test"), _NAMES[None])}


def _has(key: str, name: str) -> Schema:
    return {"properties": {key: _ref(name)}}


def _components(variant: str) -> Schema:
    """Schemas of the sections that are components or lists of components. variant: "", or ".open" for any names."""
    optional = {"type": "null"}
    splits = {name: {"anyOf": [_ref(f"dataset{variant}"), optional]} for name in ("dataset", "valid", "test")}
    steps = {"anyOf": [_one_or_more(_ref(f"transform{variant}")), optional]}
    data = {"train": _ref(f"dataset{variant}")} | splits | {"transform": steps, "augment": steps}
    metric = _ref(f"metric{variant}")
    own = {"propertyNames": {"pattern": _NAME}, "additionalProperties": metric}
    loss = {"allOf": [_ref(f"loss{variant}"), {"properties": {"weight_in_total": False}}]}
    names = {"pattern": _NAME, "not": {"enum": ["loss", *registry.metrics.names()]}}
    terms = {"propertyNames": names, "additionalProperties": _ref(f"loss{variant}"), "minProperties": 1}
    return {
        "properties": {
            "data": {"properties": data},
            "metrics": {"anyOf": [_one_or_more(_either("type", metric, own)), optional]},
            "init": _init(f"initializer{variant}"),
            "loss": _either("type", loss, ANY if variant else terms) | {"defaultSnippets": _snippets("loss")},
            "optimizer": _ref(f"optimizer{variant}"),
            "scheduler": {"anyOf": [_ref(f"scheduler{variant}"), optional]},
        }
    }


def _imported() -> Schema:
    fields = {"file": {"type": "string"}, "sha256": {"type": "string"}}
    return {"type": "object", "properties": fields, "required": ["file"], "additionalProperties": False}


def _choice(kind: str, known: Registry, variant: str = "", own: Sequence[str] = ()) -> Schema:
    """A component of a kind: text (a name or a call), or a mapping with `type` and the arguments.

    variant: "" if all names are known; else the user's names are allowed too. own: names that the variant adds.
    """
    names = known.names()
    alternatives = [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": _ref(_joined(kind, variant if name in own else "", name)),
        }
        for name in names
    ]
    mapping: Schema = {"properties": {"type": _text(_NAME) if variant else {"enum": names}}, "allOf": alternatives}
    text = _text(
        _CALL if variant else rf"^({'|'.join(names)})(\([\s\S]*\))?$",
        f"expected {'an' if kind[0] in 'aeiou' else 'a'} {kind}, as {names[0]} or {names[0]}(...)",
    )
    mapping |= {} if variant else {"required": ["type"]}
    written: Schema = {"if": {"type": "object"}, "then": mapping, "else": {"anyOf": [text, REFERENCE]}}
    written |= {} if variant == "block" else {"defaultSnippets": _snippets(kind)}
    return {_joined(kind, variant): written}


def _snippets(kind: str) -> list[Schema]:
    """What editors offer for a component: its name, and a call with the arguments that are written most."""
    known = registry.layers if kind == "layer" else _KINDS[kind]
    found = []
    for name in known.names():
        for text in dict.fromkeys((name, _call(known, name))):
            label = re.sub(r"\$\{\d+:([^}]*)\}", r"\1", text)
            found.append({"label": label, "description": summary(known.find(name)), "body": text})
    return found


def _call(known: Registry, name: str) -> str:
    """The call as a snippet: `Linear(${1:in_features}, ${2:out_features})`; just the name if it needs no argument."""
    arguments: list[str] = []
    for parameter in _parameters(known, name):
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or parameter.name in BY_TDT:
            continue
        if parameter.default is parameter.empty:
            arguments.append(f"${{{len(arguments) + 1}:{parameter.name}}}")
        elif parameter.name in ("lr", "split"):
            value = parameter.default if isinstance(parameter.default, (int, float)) else "train"
            arguments.append(f"{parameter.name}=${{{len(arguments) + 1}:{value}}}")
    return f"{name}({', '.join(arguments)})" if arguments else name


def _parameters(known: Registry, name: str) -> list[inspect.Parameter]:
    return list(parameters_of(known.find(name), len(known.supplied)).values())


def _arguments(kind: str, name: str, known: Registry, value_of: Callable[[Any], Schema]) -> Schema:
    target = known.find(name)
    properties: Schema = {"type": {"const": name}}
    required, is_open = [], False
    for parameter in _parameters(known, name):
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            is_open = True
        elif parameter.name not in BY_TDT:
            value = value_of(parameter.annotation)
            if parameter.default is parameter.empty:
                required.append(parameter.name)
            elif isinstance(parameter.default, (bool, int, float, str)):
                value = value | {"default": parameter.default}
            properties[parameter.name] = value
    options: dict[str, Schema] = {
        "loss": dict.fromkeys(("input", "target"), _text(_PART)) | {"weight_in_total": {"type": "number"}},
        "metric": dict.fromkeys(("input", "target"), _text(_PART)),
        "scheduler": {"interval": {"enum": ["epoch", "step"]}},
        "optimizer": {"param_groups": _groups(properties)},
        "layer": {"from": _names()},  # allowed only in a graph (`_models`)
    }
    if name == "ReduceLROnPlateau":
        options["scheduler"] |= {"monitor": {"type": "string"}}
    properties |= {key: _or_reference(value) for key, value in options.get(kind, {}).items()}
    for key, meaning in (COMMON.get(kind, {}) | descriptions(target, properties) | _OWN).items():
        if key in properties:
            properties[key] = properties[key] | {"description": meaning}
    described_object = {
        "description": summary(target),
        "type": "object",
        "properties": properties,
        "required": required,
    }
    return described_object if is_open else described_object | {"additionalProperties": False}


def _names() -> Schema:
    return {"anyOf": [_text("."), {"type": "array", "items": _text("."), "minItems": 1}]}


def _layer_name() -> Schema:
    """A key that names a layer: no reserved word, and no attribute of a module."""
    attributes = [name for name in dir(registry.find_sequential()) if not name.startswith("__")]
    return {"pattern": r"^[^.]+$", "not": {"enum": [*RESERVED, "training", *attributes]}}


def _blocks() -> Schema:
    layer = _text(rf"^({'|'.join(registry.layers.names())})(\(|$)")
    signature = {"pattern": _CALL, "not": layer}
    written = {"type": "object", "propertyNames": signature, "additionalProperties": _ref("model.block")}
    return {"anyOf": [written, {"type": "null"}]}


def _groups(options: Schema) -> Schema:
    """`param_groups`: patterns, and the optimizer options for the matching parameters."""
    fields = {key: value for key, value in options.items() if key != "type"} | {"params": _patterns()}
    group = {"type": "object", "properties": fields, "required": ["params"], "additionalProperties": False}
    return {"type": "array", "items": group}


def _init(function: str) -> Schema:
    fields = {"params": _patterns(), "with": _ref(function)}
    rule = {"type": "object", "properties": fields, "required": ["params", "with"], "additionalProperties": False}
    return {"anyOf": [{"type": "array", "items": rule}, {"type": "null"}, REFERENCE]}


def _patterns() -> Schema:
    from pydantic import TypeAdapter

    return _or_reference(TypeAdapter(Patterns).json_schema())


def _models() -> Schema:
    """Models and layers in three variants.

    "": all names are known. ".open": with blocks or imports. In a block, any value may be the name of a parameter.
    """
    known = registry.layers
    taking = [
        name for name in known.names() if any(layer_argument_kind(p.annotation) for p in _parameters(known, name))
    ]
    definitions = {}
    for variant, own in (("", known.names()), ("open", taking), ("block", known.names())):
        value_of = partial(_argument, model=_joined("model", variant), free=variant == "block")
        for name in own:
            definitions[_joined("layer", variant, name)] = _arguments("layer", name, known, value_of)
        definitions |= _choice("layer", known, variant, own) | _model(variant)
    return definitions


def _argument(annotation: Any, model: str, free: bool) -> Schema:
    """An argument of a layer. model: definition of models; free: any other value is allowed."""
    layer_kind = layer_argument_kind(annotation)
    if layer_kind is None:
        return ANY if free else _value(annotation)
    one = _ref(model)
    several = {"propertyNames": _ref("layer.name"), "additionalProperties": one}
    found = {"if": {"type": "array"}, "then": {"items": one}, "else": several} if layer_kind == "layers" else one
    return {"anyOf": [found, {"type": "null"}]} if type(None) in typing.get_args(annotation) else found


def _model(variant: str) -> Schema:
    """A model: a list, a mapping of layers, a component, a block or a graph; and the graph with its nodes."""
    model, graph, node = (_joined(name, variant) for name in ("model", "graph", "node"))
    layer, again = _ref(_joined("layer", variant)), _ref(model)
    block = {"properties": {"block": _text(_NAME) if variant else False}}
    layers = {"minProperties": 1, "propertyNames": _ref("layer.name"), "additionalProperties": again}
    alone = {"properties": {"from": False}}  # only nodes of a graph have inputs
    mapping = _either("type", layer, _either("block", block, _either("graph", _ref(graph), layers)))
    written = {"if": {"type": "array"}, "then": {"items": again, "minItems": 1}, "else": layer}
    beside = {"properties": {"from": _names(), "layer": again}, "required": ["layer"], "additionalProperties": False}
    taking = _either("type", layer, _either("block", block, _either("graph", _ref(graph), beside)))
    named = {"properties": {"from": _names()}}
    nodes = {"type": "object", "minProperties": 1, "propertyNames": _ref("layer.name")}
    fields = {"graph": nodes | {"additionalProperties": _ref(node)}} | dict.fromkeys(("inputs", "outputs"), _names())
    return {
        model: {"if": {"type": "object"}, "then": mapping | alone, "else": written},
        graph: {"properties": fields | {"from": _names()}, "additionalProperties": False},
        node: {"if": {"type": "object", "required": ["from"]}, "then": taking | named, "else": again},
    }


def _value(annotation: Any) -> Schema:
    """The values that `signatures.fit` accepts for an annotation."""
    found = _fitting(annotation)
    return ANY if found == ANY else _or_reference(found)


def _fitting(annotation: Any) -> Schema:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if layer_argument_kind(annotation):
        return ANY  # any model, whose blocks are not known here
    if origin is typing.Annotated:
        return _fitting(inner[0])
    if annotation in _NAMES:
        return _NAMES[annotation]
    if origin in (typing.Union, types.UnionType):
        options = [_fitting(option) for option in writable(inner)]
        return ANY if ANY in options else {"anyOf": options} if len(options) > 1 else options[0]
    if origin is Literal:
        return {"enum": list(inner)}
    if is_tensor(annotation):
        return {"type": "array", "minItems": 1}
    if tuple in (annotation, origin):
        return _tuple(inner)
    if annotation in LISTS or origin in LISTS:
        return {"type": "array", "items": _value(inner[0]) if inner else ANY}
    if dict in (annotation, origin) or origin is collections.abc.Mapping:
        return {"type": "object"}
    return ANY


def _tuple(inner: tuple[Any, ...]) -> Schema:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return {"type": "array", "items": _value(inner[0])}
    if not inner:
        return {"type": "array"}
    items = [_value(option) for option in inner]
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def _with_references(section: Schema) -> Schema:
    """A section whose values may be references, or null to remove an inherited value."""
    fields = {key: _or_reference(value) for key, value in section.get("properties", {}).items()}
    for value in fields.values():
        if "default" in value:
            value["anyOf"] = [*value["anyOf"], *({"type": "null"},) * ({"type": "null"} not in value["anyOf"])]
    return section | {"properties": fields}


def _or_reference(value: Schema) -> Schema:
    if value == ANY:
        return value
    about = {key: value[key] for key in ("description", "default", "title") if key in value}
    rest = {key: item for key, item in value.items() if key not in about}
    options = rest["anyOf"] if list(rest) == ["anyOf"] else [rest]
    return about | {"anyOf": [*options, REFERENCE]}


def _one_or_more(item: Schema) -> Schema:
    return {"if": {"type": "array"}, "then": {"items": item}, "else": item}


def _either(key: str, with_it: Schema, without: Schema) -> Schema:
    """One schema for mappings with `key` and for other values; another for mappings without."""
    lacks = {"type": "object", "not": {"required": [key]}}
    return {"if": lacks, "then": without, "else": with_it}


def _text(pattern: str, message: str = "") -> Schema:
    """Text that matches a pattern. message: what editors show where it does not."""
    return {"type": "string", "pattern": pattern} | ({"patternErrorMessage": message} if message else {})


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _joined(*names: str) -> str:
    return ".".join(filter(None, names))
