"""A run's settings under flat names for TensorBoard's comparison of runs: `optimizer.lr`, `train.epochs`, `model.0`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tdt.train.config import Chain, Component, Config, Graph, Loader, Part, Train, registry
from tdt.train.config.signatures import parameters_of
from tdt.train.config.splits import undivided

Setting = bool | int | float | str
ALWAYS = ("epochs", "steps", "accumulate")  # of `train`: written even if they are the default
MAIN_OPTIONS = ("lr", "momentum", "betas", "weight_decay", "nesterov")  # of an optimizer, likewise
MOST_LAYERS = 30  # layers of a model that have a setting each
LONGEST = 120  # characters of a text

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts


def settings(parts: Parts) -> dict[str, Setting]:
    """The main settings of a run, and all others that are not the default."""
    config = parts.config
    found: dict[str, Any] = {
        "seed": config.seed,
        "dtype": config.dtype,
        "data.train": undivided(config.data.train).name,
    }
    found |= _section("data.loader", config.data.loader, Loader(), ("batch_size", "shuffle"))
    for name in ("transform", "augment"):
        if steps := getattr(config.data, name):
            found[f"data.{name}"] = ", ".join(map(str, steps))
    found["model.parameters"] = sum(p.numel() for p in parts.model.parameters())
    found |= dict(list(_layers("model", config.model))[:MOST_LAYERS])
    found |= _losses(config)
    found |= _optimizer(parts)
    found["scheduler.type"] = "none"
    if config.scheduler is not None:
        found |= _component("scheduler", config.scheduler.component, registry.schedulers)
        found["scheduler.interval"] = config.scheduler.interval
    found |= _section("train", config.train, Train(), ALWAYS)
    return {name: _bounded(value) for name, value in found.items() if value is not None}


def _section(path: str, section: Any, default: Any, always: tuple[str, ...]) -> dict[str, Any]:
    """The settings of a section that are not the default, and those in `always`."""
    values, usual = (dict(_flat(path, one.model_dump(by_alias=True))) for one in (section, default))
    always_shown = [f"{path}.{name}" for name in always]
    return {key: value for key, value in values.items() if key in always_shown or value != usual.get(key)}


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{path}.{key}", item)
    elif isinstance(value, (list, tuple)):
        yield path, ", ".join(map(str, value))
    else:
        yield path, value


def _component(path: str, component: Component, known: registry.Registry) -> dict[str, Any]:
    """The type of a component and its arguments, by name."""
    target = known.find(component.name)
    names = [name for name in parameters_of(target) if name not in known.supplied]
    arguments = dict(zip(names, component.args, strict=False)) | component.kwargs
    found: dict[str, Any] = {f"{path}.type": component.name}
    for name, value in arguments.items():
        key = f"{path}.{name}"
        if isinstance(value, Component):
            found |= _component(key, value, known)
        elif isinstance(value, (list, tuple)) and any(isinstance(item, Component) for item in value):
            for number, item in enumerate(value):
                found |= _component(f"{key}.{number}", item, known)
        else:
            found |= dict(_flat(key, value))
    return found


def _losses(config: Config) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for term in config.loss:
        path = "loss" if len(config.loss) == 1 else f"loss.{term.name}"
        found |= _component(path, term.component, registry.losses)
        if term.weight != 1:
            found[f"{path}.weight_in_total"] = term.weight
    return found


def _optimizer(parts: Parts) -> dict[str, Any]:
    optimizer = parts.config.optimizer
    defaults = parts.optimizer.defaults
    found = {f"optimizer.{name}": defaults[name] for name in MAIN_OPTIONS if name in defaults}
    found = {key: item for name, value in found.items() for key, item in _flat(name, value)}
    found |= _component("optimizer", optimizer.component, registry.optimizers)
    for number, group in enumerate(optimizer.param_groups, 1):
        for name, value in group.options.items():
            found |= dict(_flat(f"optimizer.group{number}.{name}", value))
    return found


def _layers(path: str, part: Part) -> Iterator[tuple[str, str]]:
    """Each layer of the config, by its path in the model."""
    if isinstance(part, Component):
        yield path, str(part)
    elif isinstance(part, Chain):
        for name, entry in part.entries:
            yield from _layers(f"{path}.{name}", entry)
    elif isinstance(part, Graph):
        for name, node in part.nodes.items():
            yield from _layers(f"{path}.{name}", node)


def _bounded(value: Any) -> Setting:
    """A value that TensorBoard takes: a number, a truth value or a text that is not too long."""
    if isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
