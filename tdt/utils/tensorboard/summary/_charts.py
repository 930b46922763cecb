"""The layout of charts that draw several series of scalars together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.custom_scalar.layout_pb2 import (
    Category,
    Chart,
    Layout,
    MarginChartContent,
    MultilineChartContent,
)

from tdt.utils.tensorboard.summary._arrays import Charts
from tdt.utils.tensorboard.summary._common import of_plugin, shape_proto


def custom_scalars(layout: Charts) -> Summary:
    """A summary of the layout `{category: {chart: [kind, tags]}}`; kind is Multiline, or Margin with tags of the value,
    its lower and its upper bound.

    Raises ValueError for a chart without kind or tags, or a margin chart without exactly three tags.

    >>> from tdt.utils.tensorboard.summary._charts import custom_scalars
    >>> custom_scalars({"loss": {"both": ["Multiline", ["train/loss", "valid/loss"]]}}).value[0].tag
    'custom_scalars__config__'
    """
    categories = [
        Category(title=title, chart=[_chart(name, chart) for name, chart in charts.items()])
        for title, charts in layout.items()
    ]
    content = Layout(category=categories).SerializeToString()
    tensor = TensorProto(dtype=DT_STRING, string_val=[content], tensor_shape=shape_proto(()))
    return of_plugin("custom_scalars__config__", tensor, "custom_scalars")


def _chart(name: str, chart: Sequence[Any]) -> Chart:
    if len(chart) < 2:
        raise ValueError(f'chart {name!r} must be ["Multiline" or "Margin", tags], got {chart!r}')
    kind, tags = chart[:2]
    if kind != "Margin":
        return Chart(title=name, multiline=MultilineChartContent(tag=tags))
    if len(tags) != 3:
        raise ValueError(f"margin chart {name!r} takes 3 tags (value, lower bound, upper bound), got {len(tags)}")
    value, lower, upper = tags
    series = MarginChartContent.Series(value=value, lower=lower, upper=upper)
    return Chart(title=name, margin=MarginChartContent(series=[series]))
