"""Check the arguments of a component against its signature.

Reports unknown, missing, duplicate and surplus arguments, and values that do not fit the annotation. Supported are
bool, int, float, complex, str, None, Literal, unions, tuples, lists and their abstract forms, and Tensor, written as a
list of numbers; another annotation accepts a nested component, and a parameter without one takes its type
from a bool or str default.
"""

from __future__ import annotations

import collections.abc
import enum
import functools
import inspect
import itertools
import types
import typing
from typing import TYPE_CHECKING, Any, Literal

from tdt import _about
from tdt._did_you_mean import closest
from tdt.train._printable import counted
from tdt.train.config.errors import ConfigErrors, takes
from tdt.train.config.nodes import BROKEN, Call, Node, join
from tdt.train.config.parts import Component, Numbers, Part
from tdt.train.config.registry import MOST_STRANGERS, Registry
from tdt.train.config.scalars import hint, spell

if TYPE_CHECKING:
    from inspect import Parameter

BY_TDT = ("device", "dtype", "generator")  # one setting for the whole run, not one for each component
_MISFIT = object()
LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_NUMBERS = {int: (int,), float: (int, float), complex: (int, float)}


@functools.lru_cache(maxsize=512)
def parameters_of(target: Any, supplied: int = 0) -> dict[str, Parameter]:
    """The parameters that a config may set, without the first `supplied`; annotations are evaluated if possible."""
    names = getattr(inspect.unwrap(target.__init__ if inspect.isclass(target) else target), "__globals__", {})
    known = {}
    for parameter in list(inspect.signature(target).parameters.values())[supplied:]:
        annotation = parameter.annotation
        if isinstance(annotation, str):
            annotation = _evaluate(annotation, names)
        elif annotation is parameter.empty and isinstance(parameter.default, (bool, str)):
            annotation = type(parameter.default)
        known[parameter.name] = parameter.replace(annotation=annotation)
    return known


def _evaluate(annotation: str, names: dict[str, Any]) -> Any:
    """Evaluate a string annotation; Any if it uses names that only type checkers see."""
    try:
        return eval(annotation, names)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return Any


def argument_types(target: Any, positional_count: int, supplied: int = 0) -> dict[int | str, Any]:
    """The annotation of each argument: by name, and by number for the first `positional_count`."""
    known = parameters_of(target, supplied)
    types: dict[int | str, Any] = {name: p.annotation for name, p in known.items()}
    positional = [p for p in known.values() if p.kind is not p.KEYWORD_ONLY]
    for number in range(positional_count if positional else 0):
        parameter = positional[min(number, len(positional) - 1)]
        if number < len(positional) or parameter.kind is parameter.VAR_POSITIONAL:
            types[number] = parameter.annotation
    return types


def check_arguments(
    target: Any,
    call: Call,
    args: list[Any],
    kwargs: dict[str, Any],
    path: str,
    registry: Registry,
    errors: ConfigErrors,
    also: tuple[str, ...] = (),
) -> tuple[list[Any], dict[str, Any]]:
    """(args, kwargs) converted to the annotated types. Adds mismatches to `errors`.

    also: further allowed keywords, which are read elsewhere.
    """
    parameters = parameters_of(target, len(registry.supplied))
    args, kwargs = list(args), dict(kwargs)
    own = itertools.takewhile(lambda p: p.name not in BY_TDT, parameters.values())
    positional = [p for p in own if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p for p in parameters.values() if p.kind is p.VAR_POSITIONAL), None)
    if len(args) > len(positional) and rest is None:
        where = call.args[len(positional)].source
        message = f"{call.name} takes {_count(len(positional), 'argument')} by position, got {len(args)}"
        errors.add(where, message, kind="too-many", key=path)
    for number, value in enumerate(args):
        parameter = positional[number] if number < len(positional) else rest
        if parameter is not None:
            args[number] = _checked(parameter, value, call.args[number], join(path, parameter.name), errors)
    for name, value in list(kwargs.items()):
        node, here = call.kwargs[name], join(path, name)
        if not _is_settable(name, parameters, registry, call.name, node, here, errors, also):
            continue
        parameter = parameters.get(name)
        value = value if parameter is None else _checked(parameter, value, node, here, errors)
        place = positional.index(parameter) if parameter in positional else len(args)
        if place >= len(args):
            kwargs[name] = value
        elif (node.key_source or node.source).file != call.source.file:  # an override, or an extending config
            args[place], call.args[place] = value, node
            del kwargs[name], call.kwargs[name]
        else:
            message = f"{call.name} is given {name} twice, by position and by name; remove one"
            errors.add(node.where, message, kind="duplicate-key", key=here)
    _add_missing(parameters, positional, len(args), call, path, errors)
    return args, kwargs


def check_options(
    target: Any, name: str, options: dict[str, Node], values: dict[str, Any], path: str, known: Registry,
    errors: ConfigErrors,
) -> dict[str, Any]:  # fmt: skip
    """Check some arguments of `target` by name, as in a parameter group, where none is required."""
    parameters = parameters_of(target, len(known.supplied))
    checked = {}
    for key, node in options.items():
        here = join(path, key)
        if _is_settable(key, parameters, known, name, node, here, errors):
            checked[key] = _checked(parameters[key], values[key], node, here, errors)
    return checked


def _is_settable(
    name: str, parameters: dict[str, Parameter], registry: Registry, owner: str, node: Node, path: str,
    errors: ConfigErrors, also: tuple[str, ...] = (),
) -> bool:  # fmt: skip
    """Whether a config may set the argument `name`. Adds it to `errors` if not; `also` lists further allowed names."""
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    refused = getattr(registry.find(owner), "refused_arguments", {})
    where = node.key_source or node.source
    if name in BY_TDT and (name in parameters or open_ended):
        message = f"{name} is set for the whole run, not for one {registry.kind}; remove it"
    elif name in registry.supplied:
        message = f"{name} is given by tdt; remove it"
    elif name in parameters or open_ended:
        return True
    elif name in refused:
        message = f"{owner} has none: {refused[name]}"
    else:
        options = [p for p in parameters if p not in BY_TDT] + list(also)
        errors.add_unknown(where, f"unknown argument of {owner}", name, options, key=path, listing=takes(options))
        return False
    errors.add(where, message, kind="unknown-key", key=path)
    return False


def _add_missing(
    parameters: dict[str, Parameter], positional: list[Parameter], positional_count: int, call: Call, path: str,
    errors: ConfigErrors,
) -> None:  # fmt: skip
    by_position = {p.name for p in positional[:positional_count]}
    missing = [
        name
        for name, p in parameters.items()
        if p.default is p.empty
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and name not in by_position
        and name not in call.kwargs
    ]
    # A misspelt argument is also a missing one: report it once.
    strangers = [name for name in call.kwargs if name not in parameters][:MOST_STRANGERS]
    missing = [name for name in missing if not any(closest(stranger, [name]) for stranger in strangers)]
    if missing:
        key = join(path, missing[0]) if len(missing) == 1 else path
        message = f"{call.name} needs it" if len(missing) == 1 else f"{call.name} needs {_and(missing)}"
        errors.add(call.where, message, kind="missing", key=key)


def _checked(parameter: Parameter, value: Any, node: Node, path: str, errors: ConfigErrors) -> Any:
    """The value converted to the annotated type. Adds a mismatch to `errors`."""
    if value is BROKEN or (isinstance(value, list) and BROKEN in value):
        return None  # reported already
    annotation = parameter.annotation
    fitted = _as_tuple(value) if annotation in (parameter.empty, Any) else fit(annotation, value)
    if fitted is _MISFIT:
        _add_mismatch(annotation, value, node, path, errors)
    return fitted


def _as_tuple(value: Any) -> Any:
    """Convert a list of numbers to a tuple; return anything else unchanged."""
    is_numbers = isinstance(value, list) and all(isinstance(item, (int, float)) for item in value)
    return tuple(value) if is_numbers else value


def _add_mismatch(annotation: Any, value: Any, node: Node, path: str, errors: ConfigErrors) -> None:
    words = [choice for choice in choices(annotation) if isinstance(choice, str)]
    suggestion = closest(value, words) if isinstance(value, str) else None
    advice = None if suggestion else hint(value, set(_leaf_types(annotation)))
    kind = "missing" if value is None else "bad-value" if words and isinstance(value, str) else "wrong-type"
    message = f"expected {spell_type(annotation)}, got {_spell(value)}" + (f"; {advice}" if advice else "")
    errors.add(node.where, message, suggestion, kind=kind, key=path)


def _spell(value: Any) -> str:
    if isinstance(value, Part):
        return f"the component {value.name}" if isinstance(value, Component) else "several layers"
    return spell(value)


def fit(annotation: Any, value: Any) -> Any:
    """`value` converted to the annotated type (a list becomes a tuple), or a marker that it does not fit."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any or isinstance(annotation, (str, typing.TypeVar, typing.ForwardRef)):
        return value
    if origin is typing.Annotated:
        return fit(inner[0], value)
    if origin in (typing.Union, types.UnionType):
        return next((fitted for option in writable(inner) if (fitted := fit(option, value)) is not _MISFIT), _MISFIT)
    if is_tensor(annotation):
        return Numbers(value) if isinstance(value, list) and value and _are_numbers(value) else _MISFIT
    if annotation in (None, type(None)):
        return value if value is None else _MISFIT
    if origin is Literal:
        return value if any(value == x and type(value) is type(x) for x in inner) else _MISFIT
    if annotation in _NUMBERS:
        return value if isinstance(value, _NUMBERS[annotation]) and not isinstance(value, bool) else _MISFIT
    if annotation in (bool, str):
        return value if isinstance(value, annotation) else _MISFIT
    if tuple in (annotation, origin):
        return _fit_tuple(inner, value)
    if annotation in LISTS or origin in LISTS:
        if not isinstance(value, (list, tuple)):
            return _MISFIT
        items = [fit(inner[0] if inner else Any, item) for item in value]
        return _MISFIT if any(item is _MISFIT for item in items) else items
    if dict in (annotation, origin) or origin is collections.abc.Mapping:
        return value if isinstance(value, dict) else _MISFIT
    # A class or anything else that this checker does not know: only a nested component fits.
    return value if isinstance(value, Part) else _MISFIT


def is_tensor(annotation: Any) -> bool:
    """Whether the annotation is Tensor. Compares names: importing the class would load the core."""
    return inspect.isclass(annotation) and (_about.home(annotation), annotation.__name__) == (
        "tdt._core.tensor",
        "Tensor",
    )


def writable(options: tuple[Any, ...]) -> list[Any]:
    """The options of a union that a config can write: no enum, and a tensor only if a plain number is not an option."""
    number = any(option in _NUMBERS for option in options)
    enums = [option for option in options if inspect.isclass(option) and issubclass(option, enum.Enum)]
    return [option for option in options if option not in enums and not (number and is_tensor(option))]


def _are_numbers(value: list[Any]) -> bool:
    return all(_are_numbers(item) if isinstance(item, list) else fit(float, item) is not _MISFIT for item in value)


def _fit_tuple(inner: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        return _MISFIT
    if len(inner) == 2 and inner[1] is Ellipsis:
        item_types = inner[:1] * len(value)
    else:
        item_types = inner or (Any,) * len(value)
    if len(item_types) != len(value):
        return _MISFIT
    items = tuple(fit(option, item) for option, item in zip(item_types, value, strict=True))
    return _MISFIT if any(item is _MISFIT for item in items) else items


def _leaf_types(annotation: Any) -> list[type]:
    """The plain types that an annotation allows at its top level."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return [leaf for option in inner for leaf in _leaf_types(option)]
    if origin is Literal:
        return [type(choice) for choice in inner]
    return [type(None) if annotation is None else tuple if is_tensor(annotation) else origin or annotation]


def choices(annotation: Any) -> list[Any]:
    """The values that a Literal allows, also one in a union."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return list(inner)
    return [c for option in inner for c in choices(option)] if origin in (typing.Union, types.UnionType) else []


def spell_type(annotation: Any) -> str:
    """An annotation in words: `int or [int, int]`, `one of 'zeros', 'reflect'`."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        names = [spell_type(option) for option in writable(inner) if not _is_class_only(option)]
        return " or ".join(dict.fromkeys(names)) or "a component"
    if annotation in (None, type(None)):
        return "null"
    if origin is Literal:
        return ("one of " if len(inner) > 1 else "") + ", ".join(map(repr, inner))
    if tuple in (annotation, origin):
        ends = ["..." if option is Ellipsis else spell_type(option) for option in inner]
        return f"[{', '.join(ends)}]"
    if annotation in LISTS or origin in LISTS:
        return f"a list of {spell_type(inner[0])}" if inner else "a list"
    if annotation in (*_NUMBERS, bool, str):
        return annotation.__name__
    if is_tensor(annotation):
        return "a list of numbers"
    if dict in (annotation, origin) or origin is collections.abc.Mapping:
        return f"a mapping of {spell_type(inner[1])}" if inner else "a mapping"
    if layer_argument_kind(annotation):
        return "a layer"
    return f"a {getattr(annotation, '__name__', annotation)}"


def item_type(annotation: Any) -> Any:
    """The item type if the argument takes a list; else None."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return next(filter(None, map(item_type, inner)), None)
    return inner[0] if origin in LISTS and inner else None


def is_component(annotation: Any) -> bool:
    """Whether the annotation is a class of tdt that a config writes as a name or a call, such as a transform."""
    return inspect.isclass(annotation) and _about.home(annotation).startswith("tdt.") and not is_tensor(annotation)


def layer_argument_kind(annotation: Any) -> str | None:
    """Whether an argument takes a "layer", a "factory" (a function that returns one), or "layers" by index or name.

    None if it takes something else.
    """
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return next((found for option in inner if (found := layer_argument_kind(option))), None)
    if origin is collections.abc.Callable:
        return "factory" if layer_argument_kind(inner[1]) == "layer" else None
    if (origin in LISTS or origin is collections.abc.Mapping) and inner:
        return "layers" if layer_argument_kind(inner[-1]) == "layer" else None
    return "layer" if _is_module(annotation) else None


def _is_module(annotation: Any) -> bool:
    """Whether the annotation is Module, compared by name as for tensors."""
    bases = annotation.__mro__ if inspect.isclass(annotation) else ()
    return any((_about.home(base), base.__name__) == ("tdt.nn.modules.module", "Module") for base in bases)


def _is_class_only(option: Any) -> bool:
    """Whether an option of a union is a class that a config cannot write (a Path)."""
    plain = (*_NUMBERS, bool, str, tuple, list, dict, type(None))
    return inspect.isclass(option) and option not in plain and not (is_tensor(option) or _is_module(option))


def _count(number: int, noun: str) -> str:
    return counted(number, noun) if number else f"no {noun}s"


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
