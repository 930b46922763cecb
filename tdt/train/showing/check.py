"""Whether the run has what its `log` section wants to show."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any

from tdt import nn
from tdt.train.config import Config, ConfigErrors
from tdt.train.metrics import Reading
from tdt.train.shapes import Row


def is_image(shape: Iterable[int]) -> bool:
    """Whether an input of this shape is an image: (1 or 3 colours, height, width)."""
    sizes = tuple(shape)
    return len(sizes) == 3 and sizes[0] in (1, 3)


def check_log(
    config: Config, model: nn.Module, loss: Any, rows: list[Row], facts: dict[str, Any], errors: ConfigErrors
) -> None:
    """Report every key of `log` for which the split, the images, the classes or the layer are missing."""
    log, reading = config.log, Reading.of(loss)
    asked = [key for key in ("images", "misclassified", "confusion", "pr_curves", "embedding") if getattr(log, key)]
    if asked and "valid" not in config.data.splits():
        for key in asked:
            errors.add(f"log.{key}", "is taken from the validation data, but there is no data.valid")
        return
    classified = reading.threshold is not None or isinstance(loss, (nn.CrossEntropyLoss, nn.NLLLoss))
    answers = math.prod(rows[-1].shape) if rows and reading.threshold is not None else 1
    shape = (facts.get("input") or {}).get("shape", ())
    for key in asked:
        if key in ("images", "misclassified") and not is_image(shape):
            errors.add(f"log.{key}", f"shows images, but the model's input has the shape {tuple(shape)}")
        elif key != "embedding" and not classified:
            errors.add(f"log.{key}", f"shows classes, but {type(loss).__name__} compares numbers")
        elif key in ("images", "misclassified", "confusion") and answers > 1:
            errors.add(
                f"log.{key}", f"shows one class for each sample, but there are {answers} answers; pr_curves shows all"
            )
    names = [name for name, _ in model.named_modules() if name]
    if log.embedding is not None and log.embedding.layer not in names:
        close = difflib.get_close_matches(log.embedding.layer, names, n=1)
        hint = f"; did you mean '{close[0]}'?" if close else f"; layers are {', '.join(names[:20])}"
        errors.add("log.embedding", f"there is no layer {log.embedding.layer!r}{hint}")
