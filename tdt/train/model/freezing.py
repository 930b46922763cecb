"""Freeze parameters: `train.freeze`."""

from __future__ import annotations

from tdt import nn
from tdt.nn.modules.batchnorm import _BatchNorm
from tdt.train.config import Config, ConfigErrors
from tdt.train.config.patterns import matching

KEY = "train.freeze"
STATISTICS = "train.freeze_statistics"


def freeze(config: Config, model: nn.Module, errors: ConfigErrors) -> tuple[nn.Module, ...]:
    """Freeze the parameters that match `train.freeze`. Reports patterns that leave nothing to train, or to a group.

    Returns:
        The batch norms that keep their statistics: those whose parameters are all frozen.
    """
    patterns = config.train.freeze
    if patterns is None:
        return ()
    frozen = {name for name, p in matching(model, patterns) if not p.requires_grad_(False).requires_grad}
    if not any(p.requires_grad for p in model.parameters()):
        errors.add(KEY, "freezes every parameter; leave some to train")
    for group in config.optimizer.param_groups:
        names = {name for name, _ in matching(model, group.params)}
        if names and names <= frozen:
            message = "every parameter of this group is frozen; remove it, or freeze less"
            errors.add(group, message, kind="unused", key=f"{group.key_path}.params")
    norms = tuple(
        layer
        for layer in model.modules()
        if isinstance(layer, _BatchNorm) and (own := list(layer.parameters())) and not any(p.requires_grad for p in own)
    )
    if config.train.freeze_statistics:
        return norms
    if not norms:
        message = "is not used: there is no batch norm all of whose parameters are frozen"
        errors.add(STATISTICS, message, kind="unused")
    return ()
