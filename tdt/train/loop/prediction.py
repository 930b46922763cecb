"""Predictions of a trained model for files outside any dataset: images, table rows, arrays, lines of text.

Inputs are read and predicted in batches, so that a folder or a table of any size takes the memory of one batch.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, TextIO

import numpy as np

import tdt
from tdt import Tensor
from tdt._activity import ACTIVITY
from tdt._core.tensor import wrap
from tdt.train._agreement import loaded_by_first, shared
from tdt.train._encoding import not_utf8
from tdt.train._ranks import Ranks
from tdt.train._regular_file import open_regular
from tdt.train.checks.alike import share_threads
from tdt.train.checks.saved_config import restrict_saved_config
from tdt.train.config import loads, registry
from tdt.train.config.precision import default_dtype
from tdt.train.config.splits import undivided
from tdt.train.data.datasets.table import rows_of
from tdt.train.data.loading import is_picture
from tdt.train.data.nested import leaves, mapped
from tdt.train.errors import EXPECTED_ERRORS, reason
from tdt.train.loop.build import build_alone
from tdt.train.loop.state import load_model, load_run, state_errors
from tdt.train.model.objective import Term, class_names, tasks_of
from tdt.train.model.predictions import Prediction, predictions_of
from tdt.train.runs.checkpoint import CheckpointError
from tdt.train.runs.run import RunError
from tdt.utils.data import default_collate
from tdt.vision.transforms import Compose

STDIN = "-"
BATCH = 64
Named = tuple[str, Any]  # an input's name, and the input or the exception for it


class Predictor:
    """A trained model, from a checkpoint alone: neither the dataset nor the run's folder is needed.

    Args:
        path: the checkpoint.
        device: by default that of the config.
        batch_size: of the batches in which inputs are predicted.
        ranks: the processes that predict them together.
    Attributes:
        step: the optimizer steps before the checkpoint.
    Raises:
        CheckpointError: it is damaged, or has no facts about the training data.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        device: str | None = None,
        *,
        batch_size: int = BATCH,
        ranks: Ranks | None = None,
    ) -> None:
        self.ranks = ranks or Ranks.alone()
        tensors, meta = loaded_by_first(self.ranks, lambda: load_run(path))
        self.config = loads(meta["config"], f"{path}:config", [] if device is None else [f"device={device}"])
        self.facts: dict[str, Any] = meta.get("data") or {}
        if not self.facts:
            raise CheckpointError(f"{path}: has no facts about the training data; an older version of tdt wrote it")
        self.step: int = meta["step"]
        if self.ranks.size == 1:
            tdt.set_num_threads(meta["threads"])
        else:
            share_threads(self.ranks)
        with state_errors(path), restrict_saved_config():
            self.parts = build_alone(self.config, self.facts)
            load_model(self.parts, tensors)
            self.dataset = self._dataset()
        self.steps = Compose([registry.transforms.create(step) for step in self.config.data.transform])
        self.batch_size = batch_size
        self.tasks = tasks_of(self.parts.loss.terms)

    def _dataset(self) -> Any:
        """The training dataset as it was fitted, without its files; None if it is not fitted."""
        component = undivided(self.config.data.train)
        kind = registry.datasets.find(component.name)
        if self.facts["state"] is None or not hasattr(kind, "restored"):
            return None
        with default_dtype(self.config.dtype):
            return kind.restored(self.facts["state"], *component.args, **component.kwargs)  # type: ignore[union-attr]

    def predict(self, inputs: Iterable[Named]) -> Iterator[Prediction]:
        """A prediction for each of the inputs from `read`, in order; an invalid one gets an `error`.

        Of several processes each predicts a batch at a time, and all get the predictions of all. RunError if they have
        inputs of other names.

        Masks have the size of their images, unless a transform changes more than that.
        """
        inputs, ranks = iter(inputs), self.ranks
        while True:
            chunks = [list(islice(inputs, self.batch_size)) for _ in range(ranks.size)]
            ACTIVITY.report()
            names = zlib.crc32(repr([name for chunk in chunks for name, _ in chunk]).encode())
            found = ranks.exchange((names, list(self._predicted(chunks[ranks.rank]))), "predictions")
            if (other := next((rank for rank, one in enumerate(found) if one[0] != found[0][0]), None)) is not None:
                raise shared(
                    RunError(
                        f"{ranks.name(other)} has other inputs than {ranks.name(0)}: these files must be the same on all "
                        "machines"
                    )
                )
            if not chunks[0]:
                return
            for _, answers in found:
                yield from answers

    def _predicted(self, chunk: list[Named]) -> Iterator[Prediction]:
        """The predictions for a batch."""
        whole_images = _keeps_whole_images(self.steps)
        answers = self._answers([(name, self._prepared(item)) for name, item in chunk])
        for (_, item), answer in zip(chunk, answers, strict=True):
            yield answer.resized(item.height, item.width) if whole_images and is_picture(item) else answer

    def _answers(self, inputs: Iterable[Named]) -> Iterator[Prediction]:
        for form, members in groupby(inputs, key=lambda named: _shapes(named[1])):
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
            if self.facts["item"].get("tensor") and isinstance(
                item, np.ndarray
            ):  # transforms take what the dataset gives
                item = wrap(np.array(item))
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
                output = self.parts.evaluation("output", self.parts.place(default_collate(items)))
                found = list(self._predictions(output, names))
        except EXPECTED_ERRORS as error:
            if len(names) == 1:
                found = [Prediction(names[0], error=reason(error))]
            else:  # one input is at fault: run each alone to find it
                found = [one for pair in zip(names, items, strict=True) for one in self._run([pair[0]], [pair[1]])]
        yield from found

    def _predictions(self, output: Any, names: list[str]) -> Iterator[Prediction]:
        """The predictions for a batch: those of the first loss, and with several outputs those for each in `tasks`."""
        main, *_ = each = [list(self._of_task(term, output, names)) for term in self.tasks.values()]
        if len(each) == 1:
            yield from main
            return
        for first, parts in zip(main, zip(*each, strict=True), strict=True):
            yield replace(first, tasks=dict(zip(self.tasks, parts, strict=True)))

    def _of_task(self, term: Term, output: Any, names: list[str]) -> Iterator[Prediction]:
        part = self.parts.loss.output_part(output, term)
        if part.ndim == 3 and hasattr(self.dataset, "decode"):  # (n, tokens, length): the token after the last
            part = part[..., -1]
        shape = self.facts["input"].get("shape", ())
        classes = class_names(self.facts, self.parts.loss.terms[0], term)
        image = tuple(shape[-2:]) if len(shape) == 3 else ()
        return predictions_of(term.loss, part, names, classes, image)

    @property
    def outputs(self) -> Sequence[str]:
        """Names of the numbers of a prediction, if the dataset has them."""
        return tuple(column.name for column in getattr(self.dataset, "target_columns", ()))

    def notes(self) -> list[str]:
        """How many values of the inputs so far were replaced."""
        return self.dataset.notes() if hasattr(self.dataset, "notes") else []

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
                yield from self._text("stdin", stream)
            else:
                yield "stdin", self._image(stream, "stdin")
        elif path.is_dir():
            yield from self._folder(path)
        elif ending == ".npz":
            yield from self._arrays(path)
        elif ending in (".csv", ".tsv", ".txt"):
            with open_regular(path) as file:
                yield from self._text(where, file)
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

        self._check_takes_images()
        return self.image(read_image(file, name))

    def image(self, image: Any) -> Any:
        """The input for a Pillow image: in the mode, or as the array, that the dataset gives."""
        self._check_takes_images()
        from tdt.vision._images import as_rgb

        item, image = self.facts["item"], as_rgb(image)
        if "mode" in item:
            return image.convert(item["mode"])
        array = np.asarray(image.convert("L" if len(item["shape"]) == 2 else "RGB"))
        return array if item["dtype"] == "uint8" else array.astype(item["dtype"]) / np.dtype(item["dtype"]).type(255)

    def _check_takes_images(self) -> None:
        item = self.facts["item"]
        shape = item.get("shape", ())
        if "mode" not in item and not (len(shape) == 2 or (len(shape) == 3 and shape[-1] == 3)):
            raise ValueError(f"this model takes no images; it was trained on {self.config.data.train}")

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

    def _text(self, where: str, file: IO[bytes]) -> Iterator[Named]:
        """Lines of text, or the rows of a table, as they are read from the file."""
        if not hasattr(self.dataset, "encode"):
            raise ValueError(f"this model takes no text; it was trained on {self.config.data.train}")
        is_table = not hasattr(self.dataset, "decode")
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="" if is_table else None)
        try:
            yield from (self._rows if is_table else self._lines)(where, text)
        except UnicodeDecodeError as error:
            raise not_utf8(error) from error
        finally:
            text.detach()  # its caller closes the file

    def text(self, text: str) -> Any:
        """The input for a text, of which the model takes the end: its tokens, or a ValueError."""
        tokens = self.dataset.encode(text)[-self.facts["input"]["shape"][0] :].astype(np.int64)
        return wrap(tokens) if len(tokens) else ValueError("is empty")

    def _lines(self, where: str, text: TextIO) -> Iterator[Named]:
        for number, line in enumerate(text, 1):
            yield f"{where}:{number}", self.text(line.removesuffix("\n"))

    def _rows(self, where: str, text: TextIO) -> Iterator[Named]:
        header, rows = rows_of(text, where, self.config.data.train.kwargs.get("delimiter"))
        self.dataset.missing_columns(header)  # not an error in each row
        empty = True
        for chunk in _chunks(rows, self.batch_size):
            empty = False
            names = [f"{where}:{line}" for line, _ in chunk]
            yield from zip(names, self._encoded(header, chunk), strict=True)
        if empty:
            raise ValueError("has no rows below its header")

    def _encoded(self, header: list[str], rows: list[tuple[int, list[str]]]) -> Iterator[Any]:
        """The inputs for rows of a table, each with its line: all at once, or one by one if a row has a mistake."""
        try:
            if any(len(row) != len(header) for _, row in rows):
                raise ValueError("a row has another number of fields than the header")
            fields = dict(zip(header, zip(*(row for _, row in rows), strict=True), strict=True))
            with default_dtype(self.config.dtype):
                whole = self.dataset.encode(fields, [line for line, _ in rows])
        except EXPECTED_ERRORS:
            yield from (self.row(row, header, line) for line, row in rows)
        else:
            yield from (mapped(lambda part: wrap(part[i]), whole) for i in range(len(rows)))  # noqa: B023 - called here

    def row(self, row: list[str], header: list[str], line: int) -> Any:
        """The input for the texts of a table's row under `header`, or the exception that names its mistake."""
        try:
            if len(row) != len(header):
                raise ValueError(f"{len(row)} fields, but the header names {len(header)}")
            fields = {name: [value] for name, value in zip(header, row, strict=True)}
            with default_dtype(self.config.dtype):
                return mapped(lambda rows: wrap(rows[0]), self.dataset.encode(fields, [line]))
        except EXPECTED_ERRORS as error:
            return ValueError(reason(error).removeprefix(f"line {line}: "))  # the input's name has the line


def _chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """The items in lists of `size`; those before an exception come before it."""
    chunk: list[Any] = []
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) == size:
                whole, chunk = chunk, []
                yield whole
    except EXPECTED_ERRORS:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def _keeps_whole_images(steps: Compose) -> bool:
    """Whether the transforms resize images at most: no crop, no padding."""
    from tdt.vision.transforms import Resize

    return all(isinstance(step, Resize) or not getattr(step, "moves_pixels", True) for step in steps.transforms)


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
