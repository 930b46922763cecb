"""TensorBoard event files, with PyTorch's `SummaryWriter`.

>>> import tdt
>>> import tempfile
>>> with tdt.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
...     writer.add_scalar("train/loss", 0.25, global_step=1)
"""

from __future__ import annotations

from tdt.utils.tensorboard._record import RecordWriter as RecordWriter
from tdt.utils.tensorboard.writer import FileWriter as FileWriter
from tdt.utils.tensorboard.writer import SummaryWriter as SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
