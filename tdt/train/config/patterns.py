"""Patterns of parameter names in `init`, `param_groups` and `train.freeze`: fnmatch, whose `*` matches dots too."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Any

from tdt import Tensor, nn
from tdt.train.config import ConfigErrors, registry


def matching(model: nn.Module, patterns: tuple[str, ...]) -> Iterator[tuple[str, Tensor]]:
    """Name and tensor of the model's parameters that match a pattern."""
    for name, p in model.named_parameters():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            yield name, p


def check_patterns(model: nn.Module, patterns: tuple[str, ...], where: Any, key: str, errors: ConfigErrors) -> None:
    """Report each pattern that matches no parameter, at `where`."""
    names = [name for name, _ in model.named_parameters()]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            near = registry.closest(pattern, names)
            shown = "" if near else "; there are " + ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
            errors.add(where, f"'{pattern}' matches no parameter{shown}", near, kind="unused", key=key)
