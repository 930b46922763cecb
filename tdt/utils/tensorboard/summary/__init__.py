"""What a summary of each kind holds, as TensorBoard's protobufs: a function a kind, under PyTorch's names.

`SummaryWriter` calls them; a program that writes its own events does too. A kind's module is imported when its name is
first used, since some need Pillow and some the protos of a TensorBoard plugin.

>>> from tdt.utils.tensorboard import summary
>>> summary.text("note", "hello").value[0].tag
'note/text_summary'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tdt.utils.tensorboard.summary._audio import audio as audio
    from tdt.utils.tensorboard.summary._charts import custom_scalars as custom_scalars
    from tdt.utils.tensorboard.summary._curve import pr_curve as pr_curve
    from tdt.utils.tensorboard.summary._curve import pr_curve_raw as pr_curve_raw
    from tdt.utils.tensorboard.summary._histogram import histogram as histogram
    from tdt.utils.tensorboard.summary._histogram import histogram_raw as histogram_raw
    from tdt.utils.tensorboard.summary._hparams import hparams as hparams
    from tdt.utils.tensorboard.summary._image import image as image
    from tdt.utils.tensorboard.summary._image import image_boxes as image_boxes
    from tdt.utils.tensorboard.summary._mesh import mesh as mesh
    from tdt.utils.tensorboard.summary._scalar import scalar as scalar
    from tdt.utils.tensorboard.summary._tensor import tensor_proto as tensor_proto
    from tdt.utils.tensorboard.summary._text import text as text
    from tdt.utils.tensorboard.summary._video import video as video

_HOMES = {
    "audio": "_audio", "custom_scalars": "_charts", "histogram": "_histogram", "histogram_raw": "_histogram",
    "hparams": "_hparams", "image": "_image", "image_boxes": "_image", "mesh": "_mesh", "pr_curve": "_curve",
    "pr_curve_raw": "_curve", "scalar": "_scalar", "tensor_proto": "_tensor", "text": "_text", "video": "_video",
}  # fmt: skip
__all__ = [
    "audio", "custom_scalars", "histogram", "histogram_raw", "hparams", "image", "image_boxes", "mesh", "pr_curve",
    "pr_curve_raw", "scalar", "tensor_proto", "text", "video",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
