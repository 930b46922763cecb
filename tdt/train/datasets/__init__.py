"""Data sets that are no pictures: tables, arrays, text. Each item is a pair (input, target) of tensors."""

from tdt.train.datasets.npz import NPZ as NPZ
from tdt.train.datasets.table import Table as Table
from tdt.train.datasets.text import Text as Text

__all__ = ["NPZ", "Table", "Text"]
