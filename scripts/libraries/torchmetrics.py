"""torchmetrics: every functional metric of classification, for each task, averaging and threshold, has PyTorch's value."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torchmetrics.functional.classification as metrics

CLASSES, LABELS, SAMPLES = 4, 3, 40
SIZES = {"binary": {}, "multiclass": {"num_classes": CLASSES}, "multilabel": {"num_labels": LABELS}}
CURVE_LIMITS = {"min_precision": 0.6, "min_recall": 0.6, "min_specificity": 0.6, "min_sensitivity": 0.6}
# Values that an argument is tried with besides its default, where a metric has it.
OPTIONS: dict[str, list[Any]] = {
    "average": ["micro", "macro", "weighted", "none", None],
    "ignore_index": [0, -1],
    "multidim_average": ["samplewise"],
    "normalize": ["true", "pred", "all"],
    "norm": ["l2", "max"],
    "squared": [True],
    "multiclass_mode": ["one-vs-all"],
    "weights": ["linear", "quadratic"],
    "thresholds": [7, [0.1, 0.5, 0.9]],
    "top_k": [2],
    "threshold": [0.3],
    "max_fpr": [0.4],
    "zero_division": [1],
    "n_bins": [5],
}
SCORES = (
    "auroc",
    "average_precision",
    "calibration",
    "curve",
    "eer",
    "hinge",
    "logauc",
    "roc",
    "_at_",
    "ranking",
    "coverage",
)


def inputs(task: str, extra: tuple[int, ...], scores: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Predictions and targets; scores as logits for some seeds and as probabilities for others."""
    generator = torch.Generator().manual_seed(len(task) + len(extra))
    if task == "multiclass":
        shape = (SAMPLES, CLASSES, *extra)
        predictions = torch.randn(shape, generator=generator).softmax(1)
        target = torch.randint(0, CLASSES, (SAMPLES, *extra), generator=generator)
        return (predictions if scores else predictions.argmax(1)), target
    shape = (SAMPLES, LABELS, *extra) if task == "multilabel" else (SAMPLES, *extra)
    predictions = torch.rand(shape, generator=generator)
    target = torch.randint(0, 2, shape, generator=generator)
    return (predictions if scores else (predictions > 0.5).long()), target


def call(metric: Callable[..., Any], task: str, scores: bool, options: dict[str, Any]) -> Any:
    extra = (2,) if options.get("multidim_average") == "samplewise" else ()
    predictions, target = inputs(task, extra, scores)
    parameters = inspect.signature(metric).parameters
    needed = {name: value for name, value in {**SIZES[task], "beta": 2.0, **CURVE_LIMITS}.items() if name in parameters}
    if "groups" in parameters:
        groups = torch.arange(SAMPLES) % 2
        needed |= {"groups": groups} | ({"num_groups": 2} if "num_groups" in parameters else {})
    if options.get("ignore_index") == -1:
        target[::5] = -1
    return metric(predictions, target, **needed, **options)


def choices(metric: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """The default arguments, each option alone, and averagings with each other option."""
    parameters = inspect.signature(metric).parameters
    accepted = {name: values for name, values in OPTIONS.items() if name in parameters}
    yield {}
    for name, values in accepted.items():
        yield from ({name: value} for value in values)
    for average, (name, values) in itertools.product(accepted.get("average", []), accepted.items()):
        if name != "average":
            yield {"average": average, name: values[0]}


def cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name in sorted(metrics.__all__):
        task = name.partition("_")[0]
        metric = getattr(metrics, name)
        if task in SIZES:
            for options in choices(metric):
                for scores in (True,) if any(word in name for word in SCORES) else (True, False):
                    described = ", ".join(f"{key}={value}" for key, value in options.items())
                    yield (
                        f"{name}({described}){'' if scores else ' of labels'}",
                        partial(call, metric, task, scores, options),
                    )
        elif "task" in inspect.signature(metric).parameters:  # the ones that choose by task
            for chosen in SIZES:
                arguments = {"task": chosen}
                yield f"{name}(task={chosen})", partial(by_task, metric, chosen, arguments)


def by_task(metric: Callable[..., Any], task: str, arguments: dict[str, Any]) -> Any:
    predictions, target = inputs(task, (), True)
    needed = {k: v for k, v in {"beta": 2.0, **CURVE_LIMITS}.items() if k in inspect.signature(metric).parameters}
    return metric(predictions, target, **SIZES[task], **needed, **arguments)


CASES = dict(cases())
