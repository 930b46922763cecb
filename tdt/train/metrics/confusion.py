"""Confusion matrices, and the scores of each class from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class ClassScores(NamedTuple):
    """Precision, recall, F1 and number of samples of one class. A ratio x/0 is 0."""

    precision: float
    recall: float
    f1: float
    support: int


def confusion_matrix(targets: np.ndarray, predictions: np.ndarray, classes: int) -> np.ndarray:
    """The number of samples of class i that were predicted as class j, int64 (classes, classes).

    >>> import numpy as np
    >>> from tdt.train.metrics.confusion import confusion_matrix
    >>> confusion_matrix(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    places = targets.astype(np.int64).reshape(-1) * classes + predictions.astype(np.int64).reshape(-1)
    return np.bincount(places, minlength=classes * classes).reshape(classes, classes)


def confusion_matrices(targets: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """A binary confusion matrix for each label of multi-label samples (n, labels, …), int64 (labels, 2, 2).

    >>> import numpy as np
    >>> from tdt.train.metrics.confusion import confusion_matrices
    >>> confusion_matrices(np.array([[1, 0], [1, 1]]), np.array([[1, 0], [0, 1]])).tolist()
    [[[0, 0], [1, 1]], [[1, 0], [0, 1]]]
    """
    pairs = zip(np.moveaxis(targets, 1, 0), np.moveaxis(predictions, 1, 0), strict=True)
    return np.stack([confusion_matrix(actual, predicted, 2) for actual, predicted in pairs])


def by_class(matrix: np.ndarray) -> list[ClassScores]:
    """The scores of each class from a confusion matrix, or of each label from binary matrices.

    >>> import numpy as np
    >>> from tdt.train.metrics.confusion import by_class
    >>> by_class(np.array([[1, 1], [0, 1]]))[0]
    ClassScores(precision=1.0, recall=0.5, f1=0.6666666666666666, support=2)
    """
    hits, decided, right = matrix.diagonal(), matrix.sum(0), matrix.sum(1)
    if matrix.ndim == 3:
        hits, decided, right = matrix[:, 1, 1], matrix[:, :, 1].sum(1), matrix[:, 1].sum(1)
    pairs = ((hits, decided), (hits, right), (2 * hits, decided + right))
    ratios = [np.divide(above, below, out=np.zeros(len(hits)), where=below != 0).tolist() for above, below in pairs]
    return [ClassScores(*scores) for scores in zip(*ratios, right.tolist(), strict=True)]
