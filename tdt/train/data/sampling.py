"""`data.loader.sampler`: weighted sampling by class."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt.train.config import ConfigErrors, Loader
from tdt.train.data.targets import targets_of
from tdt.utils.data import Dataset

KEY = "data.loader.sampler"


def check_sampler(dataset: Dataset, settings: Loader, errors: ConfigErrors) -> None:
    """Report weights that do not fit the classes of `dataset`."""
    try:
        if settings.sampler is not None:
            sample_weights(dataset, settings.sampler)
    except ValueError as error:
        errors.add(KEY, str(error))


def sample_weights(dataset: Any, class_weights: Any) -> np.ndarray:
    """The weight of each sample of `dataset`, float64 (n,). Raises ValueError if `class_weights` do not fit its classes.

    class_weights: "balanced" for equal class probabilities, or the weight of a sample of each class, by number or name.
    """
    targets = np.asarray(targets_of(dataset))
    if targets.ndim != 1 or targets.dtype.kind not in "iu" or (targets < 0).any():
        raise ValueError("samples by class, but the targets of data.train are not classes")
    counts = np.bincount(targets)
    if class_weights == "balanced":
        return 1.0 / counts[targets]
    if isinstance(class_weights, dict):
        names = [str(name) for name in getattr(dataset, "classes", range(len(counts)))]
        if set(class_weights) != set(names):
            raise ValueError(f"needs a weight for each class of data.train: {', '.join(names[:20])}; "
                             f"got {', '.join(class_weights)}")  # fmt: skip
        class_weights = [class_weights[name] for name in names]
    if len(class_weights) < len(counts):
        raise ValueError(f"has {len(class_weights)} weights, but data.train has classes up to {len(counts) - 1}")
    weights = np.asarray(class_weights, np.float64)[targets]
    if not weights.any():
        raise ValueError("leaves no samples: every class with samples has the weight 0")
    return weights
