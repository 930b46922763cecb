"""Configs: YAML text → a checked `Config`, or a `ConfigError` that lists every mistake with file, line and column.

    text ─ reader ─ nodes ─ overrides ─ validate (fixed sections) + components (the rest) ─ Config

Names are imported on first use, so that listing the bundled configs does not load pydantic.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tdt.train.config.config import Config, DataConfig, Draft, OptimizerConfig, SchedulerConfig
    from tdt.train.config.errors import ConfigError, ConfigErrors, Problem
    from tdt.train.config.find import bundled
    from tdt.train.config.loading import draft, load, loads
    from tdt.train.config.losses import LossTerm
    from tdt.train.config.parts import Chain, Component, Factory, Graph, Part
    from tdt.train.config.rules import InitRule, ParamGroup
    from tdt.train.config.sections import Checkpoint, Every, Loader, Log, Targets, Train, Weights
    from tdt.train.config.source import Source

__all__ = [
    "Chain", "Checkpoint", "Component", "Config", "ConfigError", "ConfigErrors", "DataConfig", "Draft", "Every",
    "Factory", "Graph", "InitRule", "Loader", "Log", "LossTerm", "OptimizerConfig", "ParamGroup", "Part", "Problem",
    "SchedulerConfig", "Source", "Targets", "Train", "Weights", "bundled", "draft", "load", "loads",
]  # fmt: skip

_HOMES = {
    "config": ("Config", "DataConfig", "Draft", "OptimizerConfig", "SchedulerConfig"),
    "errors": ("ConfigError", "ConfigErrors", "Problem"),
    "find": ("bundled",),
    "loading": ("draft", "load", "loads"),
    "losses": ("LossTerm",),
    "parts": ("Chain", "Component", "Factory", "Graph", "Part"),
    "rules": ("InitRule", "ParamGroup"),
    "sections": ("Checkpoint", "Every", "Loader", "Log", "Targets", "Train", "Weights"),
    "source": ("Source",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
