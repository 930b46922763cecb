"""Table: rows of a CSV or TSV file with selected, normalised and one-hot encoded columns."""

from __future__ import annotations

import csv
import inspect
import io
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self, TextIO

import numpy as np

from tdt._did_you_mean import did_you_mean
from tdt.train._encoding import decode
from tdt.train._printable import counted
from tdt.train._regular_file import open_regular
from tdt.train.data.datasets._base import Arrays
from tdt.train.data.datasets._columns import KINDS, Column, Lines, Reading, fit, fit_target
from tdt.train.data.datasets._values import is_missing
from tdt.train.data.tokenizer import Tokenizer
from tdt.utils.data._splits import SPLITS, Split, check_split, split_indices, stratified_indices

Kind = Literal["number", "category", "boolean", "date", "text"]
TargetKind = Literal["number", "category", "boolean"]
MOST_WORDS = 10_000
NAMED = 3  # unseen categories that a note lists


class Table(Arrays):
    """Rows of a CSV or TSV file with a header. Items are (features, target): a tensor (width,) of the default
    dtype, and a class number, or such a tensor (1,) where the target is a number or a boolean.

    target: the column to predict, or a list of columns of one type, numbers or booleans: then a target is a tensor
        (columns,). target_type: "category", "number" or "boolean" (0 or 1, for BCEWithLogitsLoss); by default texts and
        few different integers are classes.
    columns: the feature columns: a list, or a mapping from each to its type, see below; by default all others. For a
        model with several inputs, a mapping from each input to its columns, `{body: [weight, length], looks: [colour]}`
        or `{body: {weight: number, born: date}, remarks: {remark: text}}`: features are a dict of tensors.
    normalize: scale numbers and dates: "standard" to mean 0 and standard deviation 1, "minmax" to 0..1, null not at all.
    split: "train", "valid" or "test": the rows with this value in `split_column`; without that column, shares of the
        rows, drawn with `seed`: `valid` and `test`, and the rest for "train"; with `stratify` the same shares of each class.
        Without it all rows.
    delimiter: between fields; by default a comma, or if the header has none a semicolon, a tab or a bar.
    decimal: the decimal separator of columns of type number; by default the one with which every field is a number.
    day_first: read 3/4/2024 as the third of April where a column may be month/day or day/month.
    max_words, length: of columns of type text: size of the vocabulary, and the number of words that are kept of a text.
    tokenizer: of columns of type text: a `tokenizer.json`, or a folder with one, whose tokens take the place of words.
    missing_target: what happens to rows without a target: "error", or "drop" leaves them out.
    missing_column: a feature column that a file to predict or evaluate lacks: "error", or "fill" as if it were missing in
        every row.
    unseen: a category that no training row has, in the other splits and in files to predict: "zero", all zeros, or "error".

    Types of columns: number, also 1.234,50, $1,234.50 or 15 %, of which 15 is read; category, one-hot; boolean (yes, no,
    true, false, 1, 0); date: days since 1970, year, month, day, weekday and hour, as far as they differ; text, the numbers
    of its words: those of the `max_words` most frequent in the training rows, 1 for any other, 0 after the last. Without a
    type a column of numbers as Python writes them is number, any other category. A missing number, boolean or date
    becomes the mean, a missing category all zeros.

    Means, deviations, categories and words are fitted to the training rows; the classes to predict are those of all rows.
    `state_dict()` has them: the other splits of a run use them, and its checkpoints keep them. classes: the names of the
    target's classes. `notes()` counts rows that were left out and values that were replaced.

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
        target: str | list[str],
        columns: list[str] | dict[str, Kind | list[str] | dict[str, Kind]] | None = None,
        target_type: TargetKind | None = None,
        normalize: Literal["standard", "minmax"] | None = "standard",
        *,
        split: Split | None = None,
        split_column: str | None = None,
        stratify: bool = False,
        valid: float = 0.2,
        test: float = 0.0,
        seed: int = 0,
        delimiter: str | None = None,
        decimal: Literal[".", ","] | None = None,
        day_first: bool = False,
        max_words: int = MOST_WORDS,
        length: int = 256,
        tokenizer: str | os.PathLike[str] | Tokenizer | None = None,
        missing_target: Literal["error", "drop"] = "error",
        missing_column: Literal["error", "fill"] = "error",
        unseen: Literal["zero", "error"] = "zero",
    ) -> None:
        if tokenizer is not None and max_words != MOST_WORDS:
            raise ValueError("Table: max_words has no effect with a tokenizer, whose tokens take the place of words")
        if max_words < 3 or length < 1:
            raise ValueError(f"Table: max_words is at least 3 and length at least 1, got {max_words} and {length}")
        self.tokenizer = None if tokenizer is None else Tokenizer.of(tokenizer)
        fields, lines, parts = self._read(locals())
        targets = names_of(target)
        apart = [*targets, *([split_column] if split_column else [])]
        self.groups, requested = grouped(columns)
        kinds = requested or dict.fromkeys(name for name in fields if name not in apart)
        if columns is not None and not requested:
            kinds = {}
        self._check_columns(fields, list(kinds))
        self._check_kinds(targets, kinds)
        how = Reading(normalize, decimal, day_first, max_words, length, self.tokenizer)
        self._fit(fields, np.arange(len(lines)) if split is None else parts["train"], lines, kinds, how)
        self._fit_targets(targets, fields, target_type, how, lines)
        if stratify and (split_column or self.target.kind == "number"):
            why = "split_column names the split of each row" if split_column else f"{self.target.name} is a number"
            raise ValueError(f"Table: stratify divides each class into splits, but {why}; leave it out")
        self._encode_rows()

    @classmethod
    def fitted(cls, state: dict[str, Any], *args: Any, **kwargs: Any) -> Self:
        """Like the constructor, with the encoding of another table in place of one fitted to these rows.

        Of this file only the columns of that encoding are read. `columns` and `normalize` have no effect.
        """
        bound = inspect.signature(cls).bind(*args, **kwargs)
        bound.apply_defaults()
        table = cls.__new__(cls)
        table._read(bound.arguments)
        table.load_state_dict(state)
        return table

    def _read(self, settings: Mapping[str, Any]) -> tuple[dict[str, list[str]], np.ndarray, dict[str, np.ndarray]]:
        """The rows of the file that have a target, with their lines and the places of each split among them.

        settings: the constructor's arguments. Keeps the rows of the split.
        """
        split, valid, test = (settings[name] for name in ("split", "valid", "test"))
        check_split("Table", split, valid, test)
        targets, split_column = names_of(settings["target"]), settings["split_column"]
        self._name, self._path = str(settings["path"]), Path(settings["path"]).expanduser()
        self.missing_column, self.unseen = settings["missing_column"], settings["unseen"]
        fields, lines = read_rows(self._path, settings["delimiter"])
        self._check_columns(fields, [*targets, *([split_column] if split_column else [])])
        fields, lines = self._with_target(fields, lines, targets, settings["missing_target"] == "drop")
        if split_column:
            places = {name: np.flatnonzero([text.strip() == name for text in fields[split_column]]) for name in SPLITS}
        else:
            shares = valid, test, settings["seed"]
            classes = zip(*(map(str.strip, fields[name]) for name in targets), strict=True)
            stratify = settings["stratify"]
            places = stratified_indices(classes, *shares) if stratify else split_indices(len(lines), *shares)
        own = np.arange(len(lines)) if split is None else places[split]
        self._fields, self._lines = take(fields, own), lines[own]
        return fields, lines, places

    def sample_name(self, index: int) -> str:
        """The line of the sample in the file."""
        return f"line {self._lines[index]} of {self._name}"

    def source_files(self) -> list[Path]:
        """The CSV or TSV file."""
        return [self._path]

    @property
    def vocabulary_size(self) -> int:
        """Number of different tokens of texts; 0 without a tokenizer."""
        return 0 if self.tokenizer is None else len(self.tokenizer.tokens)

    def _check_columns(self, fields: Mapping[str, Any], names: list[str]) -> None:
        for name in names:
            if name not in fields:
                meant = did_you_mean(name, fields, f"it has {', '.join(fields)}")
                raise ValueError(f"Table: {self._name} has no column {name!r}; {meant}")

    def _check_kinds(self, targets: list[str], kinds: dict[str, Any]) -> None:
        for target in targets:
            if target in kinds:
                raise ValueError(f"Table: {target!r} is the target; leave it out of columns")
        wrong = [kind for kind in kinds.values() if kind not in (None, *KINDS)]
        if wrong:
            raise ValueError(f"Table: a column is {', '.join(KINDS[:-1])} or {KINDS[-1]}, not {wrong[0]!r}")
        if not kinds:
            raise ValueError(f"Table: {self._name}: no columns are left to predict from")
        texts = [name for name, kind in kinds.items() if kind == "text"]
        if self.tokenizer is not None and not texts:
            raise ValueError(
                "Table: tokenizer has no effect, as no column is of type text; write columns: {NAME: text}"
            )
        inputs = [list(kinds)] if self.groups is None else list(self.groups.values())
        if any(len(group) > 1 and set(texts) & set(group) for group in inputs):
            rest = ", ".join(f"{name}: {kind or 'number'}" for name, kind in kinds.items() if name not in texts)
            apart = ", ".join(f"{name}: {{{name}: text}}" for name in texts)
            written = f"{{features: {{{rest}}}, {apart}}}" if rest else f"{{{apart}}}"
            raise ValueError(
                f"Table: a column of type text is an input of its own, beside other inputs: columns: {written}"
            )

    def _with_target(
        self, fields: dict[str, list[str]], lines: np.ndarray, targets: list[str], drop: bool
    ) -> tuple[dict[str, list[str]], np.ndarray]:
        """Without the rows that lack a target, if these are left out."""
        lacking = np.array([any(map(is_missing, row)) for row in zip(*(fields[name] for name in targets), strict=True)])
        self.dropped = int(lacking.sum()) if drop else 0
        if not self.dropped:
            return fields, lines
        if lacking.all():
            raise ValueError(f"Table: {self._name}: {', '.join(targets)}, the target, is missing in every row")
        remaining = np.flatnonzero(~lacking)
        return take(fields, remaining), lines[remaining]

    def _fit(
        self, fields: Mapping[str, list[str]], train: np.ndarray, lines: np.ndarray, kinds: dict[str, Any], how: Reading
    ) -> None:
        if not len(train):
            raise ValueError(f"Table: {self._name}: no rows are left to train on")
        try:
            own, columns = take(fields, train), []
            for name, kind in kinds.items():
                columns += fit(name, own[name], kind, how, lines[train], how.format(kind, fields[name]))
        except ValueError as error:
            raise ValueError(f"Table: {self._name}: {error}") from error
        self.columns: list[Column] = columns

    def _fit_targets(
        self,
        names: list[str],
        fields: Mapping[str, list[str]],
        kind: TargetKind | None,
        how: Reading,
        lines: np.ndarray,
    ) -> None:
        if len(names) > 1 and kind not in ("number", "boolean"):
            raise ValueError("Table: several targets need target_type: number or boolean")
        try:
            self.target_columns = [fit_target(name, fields[name], kind, how, lines) for name in names]
        except ValueError as error:
            raise ValueError(f"Table: {self._name}: {error}") from error

    @property
    def target(self) -> Column:
        """The encoding of the target, of several the first."""
        return self.target_columns[0]

    def _encode_rows(self) -> None:
        if self.target.kind == "category":
            self.classes = list(self.target.categories)
        elif self.target.kind == "boolean":
            several = len(self.target_columns) > 1
            self.classes = [column.name for column in self.target_columns] if several else ["no", "yes"]
        self._unseen: dict[str, Counter[str]] = {}
        self._filled: Counter[str] = Counter()
        try:
            self.data = self.encode(self._fields, self._lines)
            encoded = [column.encode_target(self._fields[column.name], self._lines) for column in self.target_columns]
        except ValueError as error:
            raise ValueError(f"Table: {self._name}: {error}") from error
        self.targets = encoded[0] if len(encoded) == 1 else np.concatenate(encoded, axis=1)

    def missing_columns(self, names: Sequence[str]) -> list[str]:
        """The feature columns that are not among `names`. Raises ValueError for them unless missing_column is "fill"."""
        lacking = list(dict.fromkeys(column.name for column in self.columns if column.name not in names))
        if lacking and self.missing_column == "error":
            known = ", ".join(map(str, names))
            known = known if len(known) < 200 else f"{known[:200]}…"
            raise ValueError(
                f"has no column {', '.join(map(repr, lacking))}; it has {known}. A model that was trained with "
                "missing_column: fill predicts without it"
            )
        return lacking

    def encode(self, fields: Mapping[str, Sequence[str]], lines: Lines | None = None) -> Any:
        """Features (n, width) from the texts of each column; for a model with several inputs, a dict of them.

        lines: numbers of the rows in errors, by default from 2. Raises ValueError for a missing feature column.
        """
        lacking = self.missing_columns(list(fields))
        n = len(next(iter(fields.values()), []))
        named = range(2, n + 2) if lines is None else [int(line) for line in lines]
        parts: dict[str, list[np.ndarray]] = {}
        unseen: dict[str, list[str]] = {}
        for column in self.columns:
            texts = fields.get(column.name, [""] * n)
            unseen[column.name] = self._unseen_in(column, texts, named)
            parts.setdefault(column.name, []).append(column.encode(texts, named))
        self._filled.update(dict.fromkeys(lacking, n))  # counted last: an error above leaves the counts as they were
        for name, found in unseen.items():
            if found:
                self._unseen.setdefault(name, Counter()).update(found)
        if self.groups is None:
            return np.concatenate([part for some in parts.values() for part in some], axis=1)
        return {
            name: np.concatenate([part for one in group for part in parts[one]], axis=1)
            for name, group in self.groups.items()
        }

    def _unseen_in(self, column: Column, texts: Sequence[str], lines: Sequence[int]) -> list[str]:
        """The categories that no training row has. Raises ValueError for the first if they are an error."""
        rows = column.unseen(texts)
        if rows and self.unseen == "error":
            text, line = texts[rows[0]].strip(), lines[rows[0]]
            raise ValueError(f"line {line}: {column.name} is {text!r}, which does not occur in the training rows; "
                             "unseen: zero encodes it as zeros")  # fmt: skip
        return [texts[row].strip() for row in rows]

    def notes(self) -> list[str]:
        """How many rows were left out, and how many values were replaced, here and by `encode`."""
        notes = []
        if self.dropped:
            names = ", ".join(column.name for column in self.target_columns)
            notes.append(
                f"{counted(self.dropped, 'row')} of {self._path.name} left out: {names}, the target, is missing"
            )
        for name, counts in self._unseen.items():
            shown = ", ".join(repr(text[:30]) for text, _ in counts.most_common(NAMED)) + ", …" * (len(counts) > NAMED)
            where = (
                f"in {counted(counts.total(), 'row')}, {name} is a category that no training row has, encoded as zeros"
            )
            notes.append(f"{where}: {shown}")
        notes += [
            f"column {name} is missing in {counted(rows, 'row')}; means or zeros are in its place"
            for name, rows in self._filled.items()
        ]
        return notes

    def state_dict(self) -> dict[str, Any]:
        """What was fitted to the training rows, in JSON types."""
        targets = [column.state() for column in self.target_columns]
        state: dict[str, Any] = {
            "columns": [column.state() for column in self.columns],
            "target": targets[0] if len(targets) == 1 else targets,
        }
        state |= {} if self.tokenizer is None else {"tokenizer": self.tokenizer.state()}
        return state if self.groups is None else state | {"groups": self.groups}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Use the encoding of another table."""
        targets = _targets_of(state)
        names = [column.name for column in targets]
        own = [column.name for column in getattr(self, "target_columns", targets)]
        if own != names:
            raise ValueError(
                f"Table: {self._name}: the target is {', '.join(map(repr, own))}, but the model predicts "
                f"{', '.join(map(repr, names))}"
            )
        self.tokenizer = Tokenizer.restored(state["tokenizer"]) if "tokenizer" in state else None
        self.columns = [Column.of(column, self.tokenizer) for column in state["columns"]]
        self.target_columns, self.groups = targets, state.get("groups")
        self._encode_rows()

    @classmethod
    def restored(cls, state: dict[str, Any], *args: Any, **kwargs: Any) -> Self:
        """A table with this state and without its file, to encode rows: it has one row, of missing values."""
        table = cls.__new__(cls)
        table._name = str(args[0] if args else kwargs["path"])
        table.missing_column, table.unseen = kwargs.get("missing_column", "error"), kwargs.get("unseen", "zero")
        table._lines, table.dropped = np.arange(2, 3), 0
        table._fields = {column["name"]: [""] for column in state["columns"]}
        for target in _targets_of(state):
            table._fields[target.name] = [target.categories[0] if target.kind == "category" else "0"]
        table.load_state_dict(state)
        return table


def _targets_of(state: dict[str, Any]) -> list[Column]:
    targets = state["target"] if isinstance(state["target"], list) else [state["target"]]
    return [Column.of(target) for target in targets]


def names_of(target: str | list[str]) -> list[str]:
    """The names of the columns to predict. Raises ValueError if there is none."""
    names = [target] if isinstance(target, str) else list(dict.fromkeys(target))
    if not names:
        raise ValueError("Table: target names no column")
    return names


def grouped(columns: Any) -> tuple[dict[str, list[str]] | None, dict[str, Any]]:
    """The columns of each input, None for a model with one, and the type of each column, None if it is to be guessed."""
    if not isinstance(columns, dict):
        return None, dict.fromkeys(columns or ())
    if not any(isinstance(group, (list, dict)) for group in columns.values()):
        return None, dict(columns)
    groups = {name: list(group) if isinstance(group, (list, dict)) else [name] for name, group in columns.items()}
    kinds: dict[str, Any] = {}
    for name, group in columns.items():
        kinds |= (
            group if isinstance(group, dict) else dict.fromkeys(group) if isinstance(group, list) else {name: group}
        )
    return groups, kinds


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
    if twice := [f"columns {header.index(name) + 1} and {place} are both called {name!r}"
                 for place, name in enumerate(header, 1) if header.index(name) + 1 < place]:  # fmt: skip
        raise ValueError(f"Table: {path}: {twice[0]}; rename one of them in the first line")
    if not rows:
        raise ValueError(f"Table: {path}: has no rows below its header")
    return {name: list(texts) for name, texts in zip(header, zip(*rows, strict=True), strict=True)}, np.array(lines)


def read_text(file: Path | io.BytesIO) -> str:
    """The text of a file, with its line ends unchanged."""
    return decode(_bytes_of(file) if isinstance(file, Path) else file.getvalue())


def _bytes_of(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read()


def rows_of(
    text: str | TextIO, name: str, delimiter: str | None = None
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The names of the columns, and for each row the line on which it ends and its fields. Rows of a file, opened with
    newline="", are read one by one.

    A column without a name, such as the index that pandas writes, is called by its number: `column 1`.
    """
    if delimiter is not None and len(delimiter) != 1:
        raise ValueError(f"delimiter is one character, got {delimiter!r}")
    stream = io.StringIO(text, newline="") if isinstance(text, str) else text
    first = stream.readline()
    usual = ["\t", ",", ";", "|"] if name.lower().endswith(".tsv") else [",", ";", "\t", "|"]
    found = delimiter or next((character for character in usual if character in first), usual[0])
    if not first.strip():
        raise ValueError("the first line must name every column once, but is empty")
    rows = _rows(csv.reader(chain([first], stream), delimiter=found, strict=True))
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
