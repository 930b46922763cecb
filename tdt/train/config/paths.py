"""Make paths in a component's arguments absolute: they are relative to the config file."""

from __future__ import annotations

import dataclasses
import os
import typing
from typing import Any

from tdt.train.config.parts import Component
from tdt.train.config.signatures import parameters_of
from tdt.train.config.source import Source


def located(component: Component, target: Any) -> Component:
    """The component with absolute paths. Paths from the command line are relative to the working folder.

    A parameter of `target` takes a path if it is annotated with os.PathLike or a subclass, as in `str | Path`.
    """
    parameters = parameters_of(target)
    names = list(parameters)
    args = tuple(
        _absolute(value, component.arg_sources.get(i)) if i < len(names) and _is_path(parameters[names[i]]) else value
        for i, value in enumerate(component.args)
    )
    kwargs = {
        name: _absolute(value, component.arg_sources.get(name))
        if name in names and _is_path(parameters[name])
        else value
        for name, value in component.kwargs.items()
    }
    return dataclasses.replace(component, args=args, kwargs=kwargs)


def by_name(component: Component, target: Any) -> dict[str, Any]:
    """The component as a mapping of its type and all arguments by name."""
    arguments = dict(zip(parameters_of(target), component.args, strict=False)) | component.kwargs
    return {"type": component.name} | {name: list(v) if isinstance(v, tuple) else v for name, v in arguments.items()}


def has_paths(target: Any) -> bool:
    """Whether `target` takes a path."""
    return bool(path_parameters(target))


def path_parameters(target: Any) -> list[str]:
    """The names of the parameters of `target` that are paths."""
    return [name for name, parameter in parameters_of(target).items() if _is_path(parameter)]


def _is_path(parameter: Any) -> bool:
    options = typing.get_args(parameter.annotation) or (parameter.annotation,)
    kinds = (typing.get_origin(option) or option for option in options)
    return any(isinstance(kind, type) and issubclass(kind, os.PathLike) for kind in kinds)


def _absolute(value: Any, source: Source | None) -> Any:
    return str(source.path(value)) if isinstance(value, str) and source is not None else value
