"""Shapes before values: one meta pass through the model finds the layer whose size does not fit, and what each costs."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from tdt import Tensor, nn
from tdt._meta import meta, stand_in
from tdt.train._failures import REFUSALS
from tdt.train.config import Component, ConfigErrors
from tdt.train.data import Split

BATCH = 2  # 1 would hide a batch that is folded into another dimension


@dataclasses.dataclass(frozen=True)
class Row:
    """A layer in the table of a dry run: output shape without the batch, own parameters, multiply-adds per sample."""

    name: str
    layer: str
    shape: tuple[int, ...]
    parameters: int
    flops: int


class Refused(nn.Module):
    """Stands for a layer whose constructor said no; what comes out of it nobody knows."""

    def forward(self, input: Tensor) -> Tensor:
        raise _Unknown


class _Unknown(Exception):
    """Ends the pass: what would be found beyond is no mistake of its own."""


class _Watch:
    """Hooks on every layer while a batch passes: which are at work, what came out, what it cost."""

    def __init__(self, model: nn.Module, sources: dict[nn.Module, Component], seen: meta):
        self.sources, self.seen = sources, seen
        self.names = {module: name for name, module in model.named_modules()}
        self.rows: list[Row] = []
        self.running: list[tuple[nn.Module, int]] = []
        self.came_from = "the data"
        self.handles = [
            handle
            for module in self.names
            for handle in (module.register_forward_pre_hook(self._before), module.register_forward_hook(self._after))
        ]

    def _before(self, module: nn.Module, args: Any) -> None:
        self.running.append((module, self.seen.flops))

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        _, flops = self.running.pop()
        if next(iter(module.children()), None) is None:
            shape = tuple(output.shape[1:]) if isinstance(output, Tensor) else ()
            own = sum(p.numel() for p in module.parameters())
            cost = (self.seen.flops - flops) // BATCH
            self.rows.append(Row(self.names[module], repr(module), shape, own, cost))
            self.came_from = self.called(module)

    def called(self, module: nn.Module) -> str:
        """A layer as its owner knows it: name, how it is written, and on which line."""
        part = self.sources.get(module)
        return self.names[module] if part is None else f"{self.names[module]} ({part}, line {part.source.line})"

    def failed(self) -> Component | None:
        """The innermost layer at work that the config has written."""
        return next((self.sources[module] for module, _ in reversed(self.running) if module in self.sources), None)

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


def check_shapes(
    model: nn.Module, sources: dict[nn.Module, Component], split: Split, loss: Any, errors: ConfigErrors
) -> list[Row]:
    """Run a batch of the data's shape through `model` and `loss` without values; lazy layers learn their sizes.

    Returns a row per layer. A layer that refuses its input is reported at its place in the config, together with the
    layer that the input came from.
    """
    inputs, target = split.sample()
    training = model.training
    model.eval()
    with meta() as seen:
        watch = _Watch(model, sources, seen)
        try:
            output = model(stand_in((BATCH, *inputs.shape), inputs._a.dtype))
        except _Unknown:
            return watch.rows
        except REFUSALS as error:
            failed = watch.failed()
            if failed is None:
                raise
            errors.add(failed, f"{str(error).rstrip('.')}; its input comes from {watch.came_from}", kind="shape")
            return watch.rows
        finally:
            watch.close()
            model.train(training)
        _check_loss(output, target, loss, split, watch, errors)
    return watch.rows


def _check_loss(output: Any, target: Any, loss: Any, split: Split, watch: _Watch, errors: ConfigErrors) -> None:
    """Whether the loss takes what the model gives: shapes, and a score for each class."""
    if loss is None:
        return
    targets = stand_in((BATCH, *target.shape), target._a.dtype) if isinstance(target, Tensor) else None
    if targets is None:
        targets = stand_in((BATCH,), "int64" if isinstance(target, int) else "float32")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # sizes that differ are broadcast: never what was meant
            value = loss(output, targets)
    except (*REFUSALS, UserWarning) as error:
        errors.add("loss", f"{str(error).rstrip('.')}; its input comes from {watch.came_from}", kind="shape")
        return
    if value.ndim:
        errors.add("loss", f"gives {tuple(value.shape)} where training needs one number; use reduction=mean or sum")
        return
    classes = len(getattr(split.dataset, "classes", ()))
    scores = isinstance(loss, (nn.CrossEntropyLoss, nn.NLLLoss)) and not targets.is_floating_point()
    if scores and classes > output.shape[1]:
        last = next((row for row in reversed(watch.rows) if row.parameters), watch.rows[-1])
        message = f"{last.layer} gives {output.shape[1]} scores, but {split.component} has {classes} classes"
        errors.add(f"model.{last.name}", message, kind="shape")
