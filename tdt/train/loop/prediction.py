"""Predictions of a trained model for files outside any dataset: images, table rows, arrays, lines of text."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

import tdt
from tdt import Tensor, nn
from tdt._core.tensor import wrap
from tdt.nn.functional import softmax
from tdt.train._regular_file import open_regular
from tdt.train.checks.saved_config import restrict_saved_config
from tdt.train.config import loads, registry
from tdt.train.config.precision import default_dtype
from tdt.train.data.datasets.table import read_text, rows_of
from tdt.train.data.nested import leaves, mapped
from tdt.train.errors import EXPECTED_ERRORS, reason
from tdt.train.loop.build import build_alone
from tdt.train.loop.state import load_model, load_run, state_errors
from tdt.train.metrics import Reading
from tdt.train.model.deciding import named
from tdt.train.runs.checkpoint import CheckpointError
from tdt.utils.data import default_collate
from tdt.vision.transforms import Compose

STDIN = "-"
BATCH = 64
Named = tuple[str, Any]  # an input's name, and the input or the exception for it


@dataclass(frozen=True)
class Prediction:
    """The prediction for the input `name`, or why there is none (`error`).

    classes: (class, probability), the most likely first, of a classifier; `values` of any other model.
    """

    name: str
    classes: tuple[tuple[str, float], ...] = ()
    values: tuple[float, ...] = ()
    error: str | None = None


class Predictor:
    """A trained model, from a checkpoint alone: neither the dataset nor the run's folder is needed.

    Args:
        path: the checkpoint.
        device: by default that of the config.
    Raises:
        CheckpointError: it is damaged, or has no facts about the training data.
    """

    def __init__(self, path: str | os.PathLike[str], device: str | None = None) -> None:
        tensors, meta = load_run(path)
        self.config = loads(meta["config"], f"{path}:config", [] if device is None else [f"device={device}"])
        self.facts: dict[str, Any] = meta.get("data") or {}
        if not self.facts:
            raise CheckpointError(f"{path}: has no facts about the training data; an older version of tdt wrote it")
        tdt.set_num_threads(meta["threads"])
        with state_errors(path), restrict_saved_config():
            self.parts = build_alone(self.config, self.facts)
            load_model(self.parts, tensors)
            self.dataset = self._dataset()
        self.steps = Compose([registry.transforms.create(step) for step in self.config.data.transform])
        self.reading = Reading.of(self.parts.loss.main)

    def _dataset(self) -> Any:
        """The training dataset as it was fitted, without its files; None if it is not fitted."""
        component = self.config.data.train
        kind = registry.datasets.find(component.name)
        if self.facts["state"] is None or not hasattr(kind, "restored"):
            return None
        with default_dtype(self.config.dtype):
            return kind.restored(self.facts["state"], *component.args, **component.kwargs)  # type: ignore[union-attr]

    def predict(self, inputs: Iterable[Named]) -> Iterator[Prediction]:
        """A prediction for each of the inputs from `read`, in order; an invalid one gets an `error`."""
        inputs = iter(inputs)
        while chunk := [(name, self._prepared(item)) for name, item in islice(inputs, BATCH)]:
            for form, members in groupby(chunk, key=lambda named: _shapes(named[1])):
                names, items = zip(*members, strict=True)
                if form is None:
                    yield from (Prediction(name, error=reason(item)) for name, item in zip(names, items, strict=True))
                else:
                    yield from self._run(list(names), list(items))

    def _prepared(self, item: Any) -> Any:
        """The input with the transforms applied, or the exception that they raised."""
        if isinstance(item, Exception):
            return item
        try:
            prepared = self.steps(item) if self.steps.transforms else item
            prepared = mapped(lambda part: part if isinstance(part, Tensor) else wrap(np.array(part)), prepared)
            shape = _expected_shapes(self.facts["input"])
            if _shapes(prepared) != shape and not hasattr(self.dataset, "encode"):
                advice = "" if self.config.data.transform == () else " after the config's transforms"
                raise ValueError(f"is of shape {_shapes(prepared)}{advice}, but the model takes {shape}")
            return prepared
        except EXPECTED_ERRORS as error:
            return error

    def _run(self, names: list[str], items: list[Any]) -> Iterator[Prediction]:
        try:
            with tdt.no_grad(), default_dtype(self.config.dtype):
                outputs = self._scores(
                    self.parts.loss.output_part(self.parts.scored(self.parts.place(default_collate(items))))
                ).cpu()
            yield from (self._prediction(name, output) for name, output in zip(names, outputs, strict=True))
        except EXPECTED_ERRORS as error:
            if len(names) == 1:
                yield Prediction(names[0], error=reason(error))
            else:  # one input is at fault: run each alone to find it
                for name, item in zip(names, items, strict=True):
                    yield from self._run([name], [item])

    def _scores(self, output: Tensor) -> Tensor:
        """Probabilities of the classes (n, classes), binary probabilities (n, outputs), or numbers (n, outputs)."""
        if self.reading.threshold is not None:
            chances = output if isinstance(self.parts.loss.main, nn.BCELoss) else output.sigmoid()
            return chances.reshape(len(output), -1).double()
        if not isinstance(self.parts.loss.main, (nn.CrossEntropyLoss, nn.NLLLoss)):
            return output.reshape(len(output), -1).double()
        if output.ndim == 3 and hasattr(self.dataset, "decode"):  # (n, tokens, length): the token after the last
            output = output[..., -1]
        if output.ndim != 2:
            shape = tuple(output.shape[2:])
            raise ValueError(f"gets a class for each of {shape} positions; a prediction is one class per input")
        return softmax(output.double(), 1)

    def _prediction(self, name: str, scores: Tensor) -> Prediction:
        values, classes = scores.tolist(), self.facts["classes"]
        if self.reading.threshold is None and not isinstance(self.parts.loss.main, (nn.CrossEntropyLoss, nn.NLLLoss)):
            return Prediction(name, values=tuple(values))
        if self.reading.threshold is not None and len(values) == 1:
            values = [1 - values[0], values[0]]
            classes = classes if len(classes) == 2 else ["no", "yes"]
        ranked = sorted(zip(named(classes, len(values)), values, strict=True), key=lambda pair: -pair[1])
        return Prediction(name, classes=tuple(ranked))

    @property
    def outputs(self) -> Sequence[str]:
        """Names of the numbers of a prediction, if the dataset has them."""
        target = getattr(self.dataset, "target", None)
        return () if target is None else (target.name,)

    def read(self, wheres: Iterable[str], stdin: Callable[[], bytes]) -> Iterator[Named]:
        """The inputs in files and folders, by name; `-` reads `stdin`: an image, lines of text, or a table."""
        for where in wheres:
            try:
                yield from self._read(where, stdin)
            except EXPECTED_ERRORS as error:
                yield "stdin" if where == STDIN else where, error

    def _read(self, where: str, stdin: Callable[[], bytes]) -> Iterator[Named]:
        path, ending = Path(where), Path(where).suffix.lower()
        if where == STDIN:
            stream = io.BytesIO(stdin())
            if hasattr(self.dataset, "encode"):
                yield from self._text("stdin", read_text(stream))
            else:
                yield "stdin", self._image(stream, "stdin")
        elif path.is_dir():
            yield from self._folder(path)
        elif ending == ".npz":
            yield from self._arrays(path)
        elif ending in (".csv", ".tsv", ".txt"):
            yield from self._text(where, read_text(path))
        else:
            open_regular(path).close()  # a missing file is not a damaged image
            yield where, self._image(path, where)

    def _folder(self, folder: Path) -> Iterator[Named]:
        from tdt.vision.datasets.folder import IMG_EXTENSIONS, files_below

        found = sorted(path for path in map(Path, files_below(folder)) if path.suffix.lower() in IMG_EXTENSIONS)
        if not found:
            raise ValueError(f"contains no image; their names end in {', '.join(IMG_EXTENSIONS)}")
        for path in found:
            yield from self.read([str(path)], bytes)

    def _image(self, file: Path | io.BytesIO, name: str) -> Any:
        """An image, loaded as the dataset loads it."""
        from tdt.vision.datasets.folder import read_image

        item = self.facts["item"]
        shape = item.get("shape", ())
        if "mode" not in item and not (len(shape) == 2 or (len(shape) == 3 and shape[-1] == 3)):
            raise ValueError(f"this model takes no images; it was trained on {self.config.data.train}")
        image = read_image(file, name)
        if "mode" in item:
            return image.convert(item["mode"])
        array = np.asarray(image.convert("L" if len(shape) == 2 else "RGB"))
        return array if item["dtype"] == "uint8" else array.astype(item["dtype"]) / np.dtype(item["dtype"]).type(255)

    def _arrays(self, path: Path) -> Iterator[Named]:
        """The rows of the array `x`, or of the only array; with several inputs, those of one array for each."""
        chosen, parts = self.config.data.train.kwargs.get("x", "x"), self.facts["input"].get("parts")
        with open_regular(path) as file, np.load(file, allow_pickle=False) as stored:
            keys: Any = stored.files[0] if len(stored.files) == 1 else chosen
            if isinstance(parts, list):
                keys = tuple(f"arr_{number}" for number in range(len(parts)))  # NumPy's default names
            elif parts is not None:
                keys = chosen if isinstance(chosen, dict) else {name: name for name in parts}
            lacking = [key for key in leaves(keys) if key not in stored]
            if lacking:
                raise ValueError(f"has no array {lacking[0]!r}; it has {', '.join(stored.files)}")
            with default_dtype(self.config.dtype):
                rows = mapped(lambda key: _in_default_dtype(stored[key]), keys)
        if len({len(array) for array in leaves(rows)}) > 1:
            raise ValueError(f"has arrays of {' and '.join(str(len(array)) for array in leaves(rows))} rows")
        for i in range(len(next(leaves(rows)))):
            yield f"{path}[{i}]", mapped(itemgetter(i), rows)

    def _text(self, where: str, text: str) -> Iterator[Named]:
        """Lines of text, or the rows of a table."""
        if hasattr(self.dataset, "decode"):
            for number, line in enumerate(text.splitlines(), 1):
                tokens = self.dataset.encode(line)[-self.facts["input"]["shape"][0] :].astype(np.int64)
                yield (
                    f"{where}:{number}",
                    wrap(tokens) if len(tokens) else ValueError("is empty"),
                )
        elif hasattr(self.dataset, "encode"):
            yield from self._rows(where, text)
        else:
            raise ValueError(f"this model takes no text; it was trained on {self.config.data.train}")

    def _rows(self, where: str, text: str) -> Iterator[Named]:
        header, rows = rows_of(text, where, self.config.data.train.kwargs.get("delimiter"))
        lacking = [column.name for column in self.dataset.columns if column.name not in header]
        if lacking:
            known = ", ".join(header)
            known = known if len(known) < 200 else f"{known[:200]}…"
            raise ValueError(f"has no column {', '.join(map(repr, lacking))}; the header is {known}")
        line = 0
        for line, row in rows:
            yield f"{where}:{line}", self._row(row, header, line)
        if not line:
            raise ValueError("has no rows below its header")

    def _row(self, row: list[str], header: list[str], line: int) -> Any:
        try:
            if len(row) != len(header):
                raise ValueError(f"{len(row)} fields, but the header names {len(header)}")
            fields = {name: [value] for name, value in zip(header, row, strict=True)}
            with default_dtype(self.config.dtype):
                return mapped(lambda rows: wrap(rows[0]), self.dataset.encode(fields, [line]))
        except EXPECTED_ERRORS as error:
            return ValueError(reason(error).removeprefix(f"line {line}: "))  # the input's name has the line


def _shapes(value: Any) -> Any:
    """The shape of an input, or the shapes of several; None for anything else."""
    return None if isinstance(value, Exception) else mapped(lambda part: tuple(part.shape), value)


def _expected_shapes(form: dict[str, Any]) -> Any:
    """The same from the result of `data.form_of`."""
    parts = form.get("parts")
    if isinstance(parts, dict):
        return {name: _expected_shapes(part) for name, part in parts.items()}
    return tuple(form["shape"]) if parts is None else tuple(map(_expected_shapes, parts))


def _in_default_dtype(rows: np.ndarray) -> np.ndarray:
    """Convert floats to the default dtype, in which models compute."""
    return rows.astype(tdt.get_default_dtype().np) if rows.dtype.kind == "f" else rows
