"""Datasets other than images: tables, arrays, text. Each item is a pair (input, target) of tensors."""

from tdt.train.data.datasets.npz import NPZ as NPZ
from tdt.train.data.datasets.random_split import RandomSplit as RandomSplit
from tdt.train.data.datasets.table import Table as Table
from tdt.train.data.datasets.text import Text as Text

__all__ = ["NPZ", "RandomSplit", "Table", "Text"]
