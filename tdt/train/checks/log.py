"""Check that the run has what its `log` section shows."""

from __future__ import annotations

import math

from tdt import nn
from tdt._did_you_mean import did_you_mean
from tdt.autograd._meta import meta
from tdt.train._types import Json
from tdt.train.config import Config, ConfigErrors
from tdt.train.data.loading import batch_of
from tdt.train.logging.layers import layer_outputs
from tdt.train.logging.pictures import is_image, is_mask
from tdt.train.metrics import Reading
from tdt.train.model.objective import Objective

_MOST_CLASSES = 1000  # of a confusion matrix
_ONE_ANSWER = ("images", "misclassified", "confusion")
_PROBE_BATCH = 13  # batch size that no other dimension is likely to have


def check_log(config: Config, model: nn.Module, objective: Objective, facts: Json, errors: ConfigErrors) -> None:
    """Report every key of `log` whose split, images, classes or layer do not exist."""
    log = config.log
    enabled = [key for key in ("images", "misclassified", "confusion", "pr_curves", "embedding") if getattr(log, key)]
    if enabled and "valid" not in config.data.splits():
        for key in enabled:
            errors.add(f"log.{key}", "is taken from the validation data, but there is no data.valid")
        return
    shape, loss = (facts.get("input") or {}).get("shape", ()), objective.main
    classified = Reading.of(loss).threshold is not None or isinstance(loss, (nn.CrossEntropyLoss, nn.NLLLoss))
    target, classes = _target(objective)
    for key in enabled:
        if key in ("images", "misclassified") and not is_image(shape):
            errors.add(f"log.{key}", f"shows images, but the model's input has the shape {tuple(shape)}")
        elif key != "embedding" and not classified:
            errors.add(f"log.{key}", f"shows classes, but {type(loss).__name__} compares numbers")
        elif key == "images" and is_mask(target, tuple(shape)):
            continue
        elif key in _ONE_ANSWER and math.prod(target) > 1 and (key != "confusion" or not classes):
            errors.add(f"log.{key}", f"shows one class per sample, but there are {math.prod(target)} predictions")
        elif key == "confusion" and classes > _MOST_CLASSES:
            errors.add("log.confusion", f"draws {_MOST_CLASSES} classes at most, but there are {classes}")
    if log.embedding is not None:
        _check_layer(log.embedding.layer, model, facts["input"] if objective.last_call else None, errors)


def _target(objective: Objective) -> tuple[tuple[int, ...], int]:
    """Shape of a sample's target, and number of classes of each of its values (0 if binary); ((), 0) if unknown."""
    call = objective.last_call
    if not call:
        return (), 0
    output, target = objective.compared(call["output"], call["target"], call["input"])
    if Reading.of(objective.main).threshold is not None:
        return tuple(target.shape[1:]), 0
    if target.is_floating_point():  # a probability for each class
        target = target[:, 0]
    return tuple(target.shape[1:]), output.shape[1] if output.ndim > 1 else 0


def _check_layer(layer: str, model: nn.Module, form: Json | None, errors: ConfigErrors) -> None:
    """Report a layer that does not exist, does not run, or has no output row per sample. form: of the model's input."""
    names = [name for name, _ in model.named_modules() if name]
    if layer not in names:
        hint = did_you_mean(layer, names, f"layers are {', '.join(names[:20])}")
        errors.add("log.embedding", f"there is no layer {layer!r}; {hint}")
    elif form is not None:
        with meta():
            found = layer_outputs(model, [layer], batch_of(form, _PROBE_BATCH))
        if not found:
            errors.add("log.embedding", f"layer {layer!r} returns no tensor when the model runs")
        elif found[0][1].shape[:1] != (_PROBE_BATCH,):
            shape = tuple(found[0][1].shape)
            errors.add(
                "log.embedding", f"layer {layer!r} returns {shape} for {_PROBE_BATCH} samples; expected a row for each"
            )
