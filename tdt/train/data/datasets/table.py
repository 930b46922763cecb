"""Table: rows of a CSV or TSV file with selected, normalised and one-hot encoded columns."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from tdt._did_you_mean import did_you_mean
from tdt.train._regular_file import open_regular
from tdt.train.data.datasets._base import Arrays
from tdt.train.data.datasets._columns import KINDS, Column, Lines, fit, fit_target
from tdt.utils.data._splits import Split, check_split, split_indices

Kind = Literal["number", "category"]


class Table(Arrays):
    """Rows of a CSV or TSV file with a header. Items are (features, target): a tensor (width,) of the default
    dtype, and a class number, or such a tensor (1,) where the target is a number.

    target: the column to predict. target_type: "category" or "number"; by default texts and few different integers
        are classes.
    columns: the feature columns: a list, or a mapping from each to "number" or "category"; by default all others. For a
        model with several inputs, a mapping from each input to its columns, `{body: [weight, length], looks: [colour]}`:
        features are a dict of tensors.
    normalize: scale numbers: "standard" to mean 0 and standard deviation 1, "minmax" to 0..1, null not at all.
        Categories are one-hot. A missing number becomes the mean, a missing or unknown category all zeros.
    split: "train", "valid" or "test": the rows with this value in `split_column`; without that column, shares of the
        rows, drawn with `seed`: `valid` and `test`, and the rest for "train". Without it all rows.
    delimiter: between fields; by default a comma, or if the header has none a semicolon, a tab or a bar.

    Means, deviations and categories are fitted to the training rows; the classes to predict are those of all rows.
    `state_dict()` has them: the other splits of a run use them, and its checkpoints keep them. classes: the names of the
    target's classes.

    Raises FileNotFoundError; ValueError with the line of damaged rows, missing values and invalid numbers.

    >>> from tdt.train.data.datasets.table import Table
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "pets.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("weight,colour,kind\\n4,black,cat\\n30,brown,dog\\n6,brown,cat\\n")
    >>> pets = Table(path, "kind", normalize=None)
    >>> pets.classes, pets[0]
    (['cat', 'dog'], (tensor([4., 1., 0.]), 0))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str,
        columns: list[str] | dict[str, Kind | list[str]] | None = None,
        target_type: Kind | None = None,
        normalize: Literal["standard", "minmax"] | None = "standard",
        *,
        split: Split | None = None,
        split_column: str | None = None,
        valid: float = 0.2,
        test: float = 0.0,
        seed: int = 0,
        delimiter: str | None = None,
    ) -> None:
        check_split("Table", split, valid, test)
        self._name, self._path = str(path), Path(path).expanduser()
        fields, lines = read_rows(self._path, delimiter)
        apart = [target, *([split_column] if split_column else [])]
        self.groups: dict[str, list[str]] | None = None
        if isinstance(columns, dict) and any(isinstance(group, list) for group in columns.values()):
            self.groups = {name: group if isinstance(group, list) else [name] for name, group in columns.items()}
            columns = [column for group in self.groups.values() for column in group]
        requested = dict.fromkeys([name for name in fields if name not in apart] if columns is None else columns)
        kinds: dict[str, Any] = requested | columns if isinstance(columns, dict) else dict(requested)
        self._check_columns(fields, [*apart, *kinds], target, kinds)
        if split_column:
            parts = {name: np.flatnonzero([text.strip() == name for text in fields[split_column]])
                     for name in ("train", "valid", "test")}  # fmt: skip
        else:
            parts = split_indices(len(lines), valid, test, seed)
        everything = np.arange(len(lines))
        train, own = (everything, everything) if split is None else (parts["train"], parts[split])
        self._fields, self._lines = take(fields, own), lines[own]
        self._fit(take(fields, train), lines[train], kinds, normalize)
        self._fit_target(target, fields[target], target_type, lines)
        self._encode_rows()

    def source_files(self) -> list[Path]:
        """The CSV or TSV file."""
        return [self._path]

    def _check_columns(self, fields: Mapping[str, Any], names: list[str], target: str, kinds: dict[str, Any]) -> None:
        for name in names:
            if name not in fields:
                meant = did_you_mean(name, fields, f"it has {', '.join(fields)}")
                raise ValueError(f"Table: {self._name} has no column {name!r}; {meant}")
        if target in kinds:
            raise ValueError(f"Table: {target!r} is the target; leave it out of columns")
        wrong = [kind for kind in kinds.values() if kind not in (None, *KINDS)]
        if wrong:
            raise ValueError(f"Table: a column is number or category, not {wrong[0]!r}")
        if not kinds:
            raise ValueError(f"Table: {self._name}: no columns are left to predict from")

    def _fit(
        self, fields: Mapping[str, list[str]], lines: np.ndarray, kinds: dict[str, Any], normalize: str | None
    ) -> None:
        if not len(lines):
            raise ValueError(f"Table: {self._name}: no rows are left to train on")
        try:
            self.columns = [fit(name, fields[name], kind, normalize, lines) for name, kind in kinds.items()]
        except ValueError as error:
            raise ValueError(f"Table: {self._name}: {error}") from error

    def _fit_target(self, name: str, texts: list[str], kind: Kind | None, lines: np.ndarray) -> None:
        try:
            self.target = fit_target(name, texts, kind, lines)
        except ValueError as error:
            raise ValueError(f"Table: {self._name}: {error}") from error

    def _encode_rows(self) -> None:
        if self.target.kind == "category":
            self.classes = list(self.target.categories)
        try:
            self.data = self.encode(self._fields, self._lines)
            self.targets = self.target.encode_target(self._fields[self.target.name], self._lines)
        except ValueError as error:
            raise ValueError(f"Table: {self._name}: {error}") from error

    def encode(self, fields: Mapping[str, Sequence[str]], lines: Lines | None = None) -> Any:
        """Features (n, width) from the texts of each column; for a model with several inputs, a dict of them.

        lines: numbers of the rows in errors, by default from 2. Raises ValueError for a missing feature column.
        """
        lacking = [column.name for column in self.columns if column.name not in fields]
        if lacking:
            raise ValueError(f"has no column {', '.join(map(repr, lacking))}")
        n = len(fields[self.columns[0].name])
        named = range(2, n + 2) if lines is None else [int(line) for line in lines]
        parts = {column.name: column.encode(fields[column.name], named) for column in self.columns}
        if self.groups is None:
            return np.concatenate(list(parts.values()), axis=1)
        return {name: np.concatenate([parts[one] for one in group], axis=1) for name, group in self.groups.items()}

    def state_dict(self) -> dict[str, Any]:
        """What was fitted to the training rows, in JSON types."""
        state = {"columns": [column.state() for column in self.columns], "target": self.target.state()}
        return state if self.groups is None else state | {"groups": self.groups}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Use the encoding of another table."""
        target, own = Column.of(state["target"]), getattr(self, "target", None)
        if own is not None and own.name != target.name:
            raise ValueError(f"Table: {self._name}: the target is {own.name!r}, but the model predicts {target.name!r}")
        self.columns = [Column.of(column) for column in state["columns"]]
        self.target, self.groups = target, state.get("groups")
        self._encode_rows()

    @classmethod
    def restored(cls, state: dict[str, Any], *args: Any, **kwargs: Any) -> Self:
        """A table with this state and without its file, to encode rows: it has one row, of missing values."""
        table = cls.__new__(cls)
        table._name = str(args[0] if args else kwargs["path"])
        table._lines = np.arange(2, 3)
        target = Column.of(state["target"])
        table._fields = {column["name"]: [""] for column in state["columns"]}
        table._fields[target.name] = [target.categories[0] if target.kind == "category" else "0"]
        table.load_state_dict(state)
        return table


def take(fields: Mapping[str, list[str]], rows: np.ndarray) -> dict[str, list[str]]:
    """The given rows of all columns."""
    return {name: [texts[row] for row in rows] for name, texts in fields.items()}


def read_rows(path: Path, delimiter: str | None = None) -> tuple[dict[str, list[str]], np.ndarray]:
    """The texts of each column of a CSV or TSV file, and the line on which each row ends.

    Raises ValueError with the line for an invalid file.
    """
    try:
        header, rest = rows_of(read_text(path), str(path), delimiter)
        lines, rows = [], []
        for line, row in rest:
            if len(row) != len(header):
                raise ValueError(f"line {line}: {len(row)} fields, but the header names {len(header)}")
            lines.append(line)
            rows.append(row)
    except ValueError as error:
        raise ValueError(f"Table: {path}: {error}") from error
    if len(set(header)) < len(header):
        raise ValueError(f"Table: {path}: the first line must name every column once, got {header}")
    if not rows:
        raise ValueError(f"Table: {path}: has no rows below its header")
    return {name: list(texts) for name, texts in zip(header, zip(*rows, strict=True), strict=True)}, np.array(lines)


def read_text(file: Path | io.BytesIO) -> str:
    """The text of a file, with its line ends unchanged."""
    try:
        return (_bytes_of(file) if isinstance(file, Path) else file.getvalue()).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(f"is not UTF-8 text: it has a byte {byte:#04x}; save it as UTF-8") from error


def _bytes_of(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read()


def rows_of(text: str, name: str, delimiter: str | None = None) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The names of the columns, and for each row the line on which it ends and its fields.

    A column without a name, such as the index that pandas writes, is called by its number: `column 1`.
    """
    if delimiter is not None and len(delimiter) != 1:
        raise ValueError(f"delimiter is one character, got {delimiter!r}")
    first = text.partition("\n")[0]
    usual = ["\t", ",", ";", "|"] if name.lower().endswith(".tsv") else [",", ";", "\t", "|"]
    found = delimiter or next((character for character in usual if character in first), usual[0])
    if not first.strip():
        raise ValueError("the first line must name every column once, but is empty")
    rows = _rows(csv.reader(io.StringIO(text, newline=""), delimiter=found, strict=True))
    _, header = next(rows)
    return [field.strip() or f"column {place}" for place, field in enumerate(header, 1)], rows


def _rows(reader: Any) -> Iterator[tuple[int, list[str]]]:
    last = 0
    try:
        for row in reader:
            last = reader.line_num
            if row:
                yield last, row
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise ValueError(f"line {last + 1}: a quote is never closed") from error
        raise ValueError(f"line {reader.line_num}: {error}") from error
