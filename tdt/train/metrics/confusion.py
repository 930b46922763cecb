"""Which classes are taken for which."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class ClassScores(NamedTuple):
    """Of one class: the share of decisions for it that were right, the share of it that was found, their harmonic mean,
    and how many samples it has. A ratio x/0 is 0."""

    precision: float
    recall: float
    f1: float
    support: int


def confusion_matrix(targets: np.ndarray, predictions: np.ndarray, classes: int) -> np.ndarray:
    """How many samples of class i were taken for class j, int64 (classes, classes).

    >>> confusion_matrix(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    places = targets.astype(np.int64).reshape(-1) * classes + predictions.astype(np.int64).reshape(-1)
    return np.bincount(places, minlength=classes * classes).reshape(classes, classes)


def confusion_matrices(targets: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Of each label, which samples (n, labels, …) have or have not, a matrix of its no and yes, int64 (labels, 2, 2).

    >>> confusion_matrices(np.array([[1, 0], [1, 1]]), np.array([[1, 0], [0, 1]])).tolist()
    [[[0, 0], [1, 1]], [[1, 0], [0, 1]]]
    """
    pairs = zip(np.moveaxis(targets, 1, 0), np.moveaxis(predictions, 1, 0), strict=True)
    return np.stack([confusion_matrix(wanted, given, 2) for wanted, given in pairs])


def by_class(matrix: np.ndarray) -> list[ClassScores]:
    """The scores of each class from their matrix, or of the yes of each label from theirs.

    >>> by_class(np.array([[1, 1], [0, 1]]))[0]
    ClassScores(precision=1.0, recall=0.5, f1=0.6666666666666666, support=2)
    """
    hits, decided, right = matrix.diagonal(), matrix.sum(0), matrix.sum(1)
    if matrix.ndim == 3:
        hits, decided, right = matrix[:, 1, 1], matrix[:, :, 1].sum(1), matrix[:, 1].sum(1)
    pairs = ((hits, decided), (hits, right), (2 * hits, decided + right))
    ratios = [np.divide(above, below, out=np.zeros(len(hits)), where=below != 0).tolist() for above, below in pairs]
    return [ClassScores(*scores) for scores in zip(*ratios, right.tolist(), strict=True)]
