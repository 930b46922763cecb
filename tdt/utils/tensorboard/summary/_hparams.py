"""The three summaries of hyperparameters, by which TensorBoard compares runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.struct_pb2 import ListValue, Value
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.hparams.api_pb2 import (
    DATA_TYPE_FLOAT64,
    DATA_TYPE_STRING,
    STATUS_SUCCESS,
    Experiment,
    HParamInfo,
    MetricInfo,
    MetricName,
)
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

from tdt.utils.tensorboard.summary._arrays import Array, Hyperparameter

# Those of tensorboard.plugins.hparams.metadata, which would take a run 0.1 s to import.
PLUGIN_NAME, PLUGIN_DATA_VERSION = "hparams", 0
EXPERIMENT_TAG = "_hparams_/experiment"
SESSION_START_INFO_TAG = "_hparams_/session_start_info"
SESSION_END_INFO_TAG = "_hparams_/session_end_info"

Number = bool | int | float | str


def hparams(
    hparam_dict: Mapping[str, Hyperparameter], metric_dict: Mapping[str, Array],
    hparam_domain_discrete: Mapping[str, Sequence[Number]] | None = None,
) -> tuple[Summary, Summary, Summary]:  # fmt: skip
    """Summaries of an experiment's settings, of those of this run, and of its end.

    hparam_dict: settings by name: numbers, truth values, texts or tensors of one element; None is left out.
    metric_dict: the scalars to compare runs by; only their names are used here.
    hparam_domain_discrete: all values that a setting can take, for the filters of TensorBoard.
    Raises TypeError for anything but dicts, ValueError for a setting of another type.

    >>> from tdt.utils.tensorboard.summary._hparams import hparams
    >>> _, start, _ = hparams({"lr": 0.1}, {"accuracy": 0})
    >>> start.value[0].tag
    '_hparams_/session_start_info'
    """
    domains = hparam_domain_discrete or {}
    for name, mapping in {
        "hparam_dict": hparam_dict,
        "metric_dict": metric_dict,
        "hparam_domain_discrete": domains,
    }.items():
        if not isinstance(mapping, dict):
            raise TypeError(f"{name} must be a dict, got {type(mapping).__name__}")
    for name, domain in domains.items():
        kind = type(hparam_dict.get(name))
        if (
            name not in hparam_dict
            or not isinstance(domain, list)
            or not all(isinstance(item, kind) for item in domain)
        ):
            raise TypeError(f"hparam_domain_discrete[{name!r}] must be a list of what hparam_dict[{name!r}] can be")
    infos, start = [], SessionStartInfo()
    for name, argument in hparam_dict.items():
        if argument is not None:
            value = _value(name, argument)
            start.hparams[name].CopyFrom(value)
            choices = ListValue(values=[_value(name, item) for item in domains[name]]) if name in domains else None
            kind = DATA_TYPE_STRING if value.HasField("string_value") else DATA_TYPE_FLOAT64
            infos.append(HParamInfo(name=name, type=kind, domain_discrete=choices))
    metrics = [MetricInfo(name=MetricName(tag=name)) for name in metric_dict]
    return (
        _summary(EXPERIMENT_TAG, experiment=Experiment(hparam_infos=infos, metric_infos=metrics)),
        _summary(SESSION_START_INFO_TAG, session_start_info=start),
        _summary(SESSION_END_INFO_TAG, session_end_info=SessionEndInfo(status=STATUS_SUCCESS)),
    )


def _value(name: str, value: Any) -> Value:
    """A hyperparameter as a protobuf; bools are written as numbers, as by PyTorch."""
    if isinstance(value, str):
        return Value(string_value=value)
    if isinstance(value, (int, float)):
        return Value(number_value=value)
    if hasattr(value, "item") and math.prod(getattr(value, "shape", (0,))) == 1:
        return Value(number_value=value.item())
    kind = type(value).__name__
    raise ValueError(f"hparam_dict[{name!r}] must be a number, a bool, a string or a tensor of one element, got {kind}")


def _summary(tag: str, **part: Any) -> Summary:
    content = HParamsPluginData(version=PLUGIN_DATA_VERSION, **part).SerializeToString()
    about = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=PLUGIN_NAME, content=content))
    return Summary(value=[Summary.Value(tag=tag, metadata=about)])
