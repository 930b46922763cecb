"""Summaries of precision-recall curves."""

from __future__ import annotations

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_FLOAT
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

from tdt.utils.tensorboard.summary._arrays import Array, ArrayOrList, as_array
from tdt.utils.tensorboard.summary._common import of_plugin, shape_proto

_MOST_THRESHOLDS = 127  # the plugin reads no more
Curve = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def pr_curve(
    tag: str, labels: Array, predictions: Array, num_thresholds: int = 127, weights: ArrayOrList | None = None
) -> Summary:
    """A summary of precision and recall at `num_thresholds` thresholds, 127 at most, evenly from 0 to 1.

    labels: true or false for each sample; predictions: probabilities that it is true; weights: how much each counts.

    >>> import numpy as np
    >>> from tdt.utils.tensorboard.summary._curve import pr_curve
    >>> proto = pr_curve("cats", np.array([0, 1]), np.array([0.2, 0.9]), num_thresholds=3).value[0].tensor
    >>> list(proto.float_val)[-3:]  # recall above 0, 0.5 and 1
    [1.0, 1.0, 0.0]
    """
    steps = min(num_thresholds, _MOST_THRESHOLDS)
    truth, weight = as_array(labels).astype(np.float64), 1.0 if weights is None else weights
    bins = np.floor(as_array(predictions) * (steps - 1)).astype(np.int32)

    def at_least(share: np.ndarray) -> np.ndarray:
        """The weight of the samples whose prediction reaches each threshold."""
        counts, _ = np.histogram(bins, bins=steps, range=(0, steps - 1), weights=share * weight)
        return np.cumsum(counts[::-1])[::-1]

    return pr_curve_raw(tag, *curve(at_least(truth), at_least(1.0 - truth)), num_thresholds=steps)


def curve(tp: np.ndarray, fp: np.ndarray) -> Curve:
    """True and false positives at rising thresholds, true and false negatives, precision and recall.

    >>> import numpy as np
    >>> from tdt.utils.tensorboard.summary._curve import curve
    >>> [part.tolist() for part in curve(np.array([2.0, 1.0]), np.array([1.0, 0.0]))][-1]
    [1.0, 0.5]
    """
    tn, fn = fp[0] - fp, tp[0] - tp
    return tp, fp, tn, fn, tp / np.maximum(1e-7, tp + fp), tp / np.maximum(1e-7, tp + fn)


def pr_curve_raw(
    tag: str, tp: ArrayOrList, fp: ArrayOrList, tn: ArrayOrList, fn: ArrayOrList, precision: ArrayOrList, recall: ArrayOrList,
    num_thresholds: int = 127, weights: ArrayOrList | None = None,
) -> Summary:  # fmt: skip
    """A summary of a precision-recall curve computed elsewhere: six arrays of a number for each threshold.

    tp, fp, tn, fn: true positives, false positives, true negatives, false negatives. `weights` is ignored, as in PyTorch.

    >>> from tdt.utils.tensorboard.summary._curve import pr_curve_raw
    >>> one = [1.0]
    >>> pr_curve_raw("all", one, one, one, one, one, one, 1).value[0].tensor.tensor_shape.dim[0].size
    6
    """
    data = np.stack([as_array(part, lists=True) for part in (tp, fp, tn, fn, precision, recall)])
    settings = PrCurvePluginData(version=0, num_thresholds=min(num_thresholds, _MOST_THRESHOLDS))
    tensor = TensorProto(dtype=DT_FLOAT, float_val=data.reshape(-1).tolist(), tensor_shape=shape_proto(data.shape))
    return of_plugin(tag, tensor, "pr_curves", settings.SerializeToString())
