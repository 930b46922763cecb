"""Make paths in a component's arguments absolute: they are relative to the config file."""

from __future__ import annotations

import dataclasses
import os
import typing
from typing import Any

from tdt.train.config.parts import Component
from tdt.train.config.registry import Registry
from tdt.train.config.signatures import parameters_of
from tdt.train.config.source import Source


def located(component: Component, known: Registry) -> Component:
    """The component with absolute paths, and those among its arguments. Paths from the command line are relative to the working
    folder.

    A parameter takes a path if it is annotated with os.PathLike or a subclass, as in `str | Path`.
    """
    paths = path_parameters(known.find(component.name))
    named: dict[int | str, str] = dict(enumerate(parameters_of(known.find(component.name))))

    def at_home(key: int | str, value: Any) -> Any:
        if isinstance(value, Component):
            return located(value, known)
        return _absolute(value, component.arg_sources.get(key)) if named.get(key, str(key)) in paths else value

    args = tuple(at_home(i, value) for i, value in enumerate(component.args))
    kwargs = {name: at_home(name, value) for name, value in component.kwargs.items()}
    return dataclasses.replace(component, args=args, kwargs=kwargs)


def by_name(component: Component, known: Registry) -> dict[str, Any]:
    """The component as a mapping of its type and all arguments by name, and so those among its arguments."""
    arguments = dict(zip(parameters_of(known.find(component.name)), component.args, strict=False)) | component.kwargs

    def written(value: Any) -> Any:
        if isinstance(value, Component):
            return by_name(value, known)
        return list(value) if isinstance(value, tuple) else value

    return {"type": component.name} | {name: written(value) for name, value in arguments.items()}


def has_paths(component: Component, known: Registry) -> bool:
    """Whether the component, or one among its arguments, takes a path."""
    inner = [value for value in (*component.args, *component.kwargs.values()) if isinstance(value, Component)]
    return bool(path_parameters(known.find(component.name))) or any(has_paths(one, known) for one in inner)


def path_parameters(target: Any) -> list[str]:
    """The names of the parameters of `target` that are paths."""
    return [name for name, parameter in parameters_of(target).items() if _is_path(parameter)]


def _is_path(parameter: Any) -> bool:
    options = typing.get_args(parameter.annotation) or (parameter.annotation,)
    kinds = (typing.get_origin(option) or option for option in options)
    return any(isinstance(kind, type) and issubclass(kind, os.PathLike) for kind in kinds)


def _absolute(value: Any, source: Source | None) -> Any:
    return str(source.path(value)) if isinstance(value, str) and source is not None else value
