"""`tdt.load_model`: a trained model with its preprocessing, for programs."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

import tdt
from tdt import Tensor, nn
from tdt.text.generation import Sampling
from tdt.train._types import Nested
from tdt.train.config.imports import trusting
from tdt.train.data.datasets._columns import Column
from tdt.train.data.datasets._values import ISO
from tdt.train.data.nested import leaves, mapped
from tdt.train.errors import EXPECTED_ERRORS
from tdt.train.loop.generation import TextGenerator
from tdt.train.loop.prediction import Named, Prediction, Predictor
from tdt.train.runs.checkpoint import CheckpointError
from tdt.train.runs.run import ROOT, RunFolder, find_checkpoint

if TYPE_CHECKING:
    from PIL import Image

Row: TypeAlias = Mapping[str, Any]  # Any: a table's cells are numbers, texts, dates, or missing
Errors = Literal["raise", "return"]

IMAGE_CHANNELS = (1, 3, 4)


class TrainedModel(nn.Module):
    """A trained model: `model(x)` computes outputs, `model.predict(inputs)` labels or numbers. `load_model` returns it.

    Attributes:
        module: the model of the config, with the weights of the checkpoint; its `state_dict` has the config's names.
        path: the checkpoint.
        step: the optimizer steps that it was trained for.
        classes: their names; empty if the model predicts numbers.
    """

    def __init__(self, predictor: Predictor, path: Path, step: int) -> None:
        super().__init__()
        self.module = predictor.parts.scored
        self.path, self.step = path, step
        self.classes: list[str] = list(predictor.facts["classes"])
        self._predictor = predictor
        self.eval()

    def forward(self, input: Nested) -> Any:
        """The outputs of the model for a batch that is preprocessed already, as PyTorch's modules take it."""
        return self.module(input)

    @overload
    def predict(self, inputs: Image.Image | Row, *, errors: Errors = "raise") -> Prediction: ...
    @overload
    def predict(self, inputs: list[Any] | tuple[Any, ...], *, errors: Errors = "raise") -> list[Prediction]: ...
    @overload
    def predict(self, inputs: object, *, errors: Errors = "raise") -> Prediction | list[Prediction]: ...
    def predict(self, inputs: object, *, errors: Errors = "raise") -> Prediction | list[Prediction]:
        """Predictions for one or many inputs, preprocessed as the training data were.

        Args:
            inputs: what the model was trained on, one or many:

                - images: Pillow images, paths, or arrays (height, width) or (height, width, channels) of uint8
                - rows of a table: dicts by column, a DataFrame or a Series of one row; None and NaN are missing values
                - arrays and tensors of the shape of an input, or with a batch dimension before it
                - texts, for a model that was trained on text; give a file of texts as `pathlib.Path`
                - files and folders that `tdt predict` reads: CSV, NPZ, a folder of images

            errors: "raise" raises on invalid inputs; "return" gives those a prediction with an `error`.
        Returns:
            One prediction for one input. A list for several, which are a list or another iterable, a DataFrame, a batch, a
            folder or a file of several inputs. A classifier's predictions have `label`, `probability` and
            `probabilities`, those of other models `value` and `values`.
        Raises:
            ValueError: an input is invalid; the message names it, and says how many others are.
            TypeError: inputs of a kind that no model takes.
        """
        if errors not in ("raise", "return"):
            raise ValueError(f"errors must be 'raise' or 'return', got {errors!r}")
        several, named = self._named(inputs)
        self._follow_device()
        trained = self.training
        self.eval()
        try:
            answers = list(self._predictor.predict(named))
        finally:
            self.train(trained)
        failed = [answer for answer in answers if answer.error is not None]
        if failed and errors == "raise":
            more = f" ({len(failed) - 1} more of {len(answers)} inputs are invalid)" if len(failed) > 1 else ""
            rest = f"; errors='return' gives the predictions of the others{more}" if len(answers) > 1 else ""
            text = failed[0].error or ""
            raise ValueError((text if text.startswith(f"{failed[0].name}:") else f"{failed[0].name}: {text}") + rest)
        return answers if several or len(answers) != 1 else answers[0]

    @property
    def notes(self) -> list[str]:
        """What `predict` replaced so far, with counts: categories that no training row has, and columns that were missing."""
        return self._predictor.notes()

    def generate(
        self,
        prompt: str,
        *,
        length: int = 200,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> str:
        """The text by which a language model continues `prompt`, as `tdt generate` prints it.

        Args:
            prompt: at least one token.
            length: number of tokens to generate.
            temperature: below 1 makes likely tokens likelier; 0 takes the most likely.
            top_k: draw from so many most likely tokens.
            top_p: draw from the fewest most likely tokens whose probabilities add up to this.
            seed: of the random numbers; by default they come from tdt's default generator.
        Raises:
            ValueError: the model is no language model, an argument is out of range, or the prompt is empty or has
                characters that the model does not know.
        """
        return "".join(self.stream(prompt, length=length, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed))

    def stream(
        self,
        prompt: str,
        *,
        length: int = 200,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> Iterator[str]:
        """The text of `generate` piece by piece, as tokens complete it. Arguments and exceptions are those of `generate`."""
        self._follow_device()
        generator = TextGenerator(self._predictor)
        random = None if seed is None else tdt.Generator().manual_seed(seed)
        return generator.stream(prompt, length, Sampling(temperature, top_k, top_p), random)

    def _follow_device(self) -> None:
        """Compute where the weights are now: the program may have moved them."""
        weights = next(self.parameters(), None)
        if weights is not None:
            self._predictor.parts.device = weights.device

    def _named(self, inputs: Any) -> tuple[bool, Iterator[Named]]:
        """Whether the inputs are several, and each with its name."""
        if (rows := _rows_of(inputs)) is not None:
            return True, self._each(rows, "row")
        if (row := _row_of(inputs)) is not None:
            return False, self._each([row], "input", alone=True)
        if isinstance(inputs, (np.ndarray, Tensor)) or _is_structure(inputs, self._predictor.facts["item"]):
            return self._arrays(inputs)
        if isinstance(inputs, (str, os.PathLike, Mapping)) or _is_image(inputs):
            several = _is_path(inputs, self._takes_text) and (
                os.path.isdir(inputs) or Path(inputs).suffix.lower() in (".csv", ".tsv", ".npz", ".txt")
            )
            return several, self._each([inputs], "input", alone=True)
        if isinstance(inputs, Iterable) and not isinstance(inputs, (bytes, bytearray)):
            return True, self._each(inputs, "input")
        raise TypeError(
            "predict: expected an image, a path, a dict of a row, an array, a text, a DataFrame, or several of them, "
            f"got {type(inputs).__name__}"
        )

    @property
    def _takes_text(self) -> bool:
        return hasattr(self._predictor.dataset, "decode")

    def _each(self, inputs: Iterable[Any], kind: str, alone: bool = False) -> Iterator[Named]:
        for number, item in enumerate(inputs):
            if _is_path(item, self._takes_text) and os.fspath(item):
                yield from self._predictor.read([os.fspath(item)], _no_stdin)
                continue
            name = kind if alone else f"{kind} {number}"
            try:
                yield name, self._item(item, number)
            except EXPECTED_ERRORS as error:
                yield name, error

    def _item(self, item: Any, number: int) -> Any:
        """What the dataset of the training would have given for an input."""
        if isinstance(item, str):
            if not self._takes_text:
                raise ValueError("is an empty path")
            return self._predictor.text(item)
        if _is_image(item):
            return self._predictor.image(item)
        if isinstance(item, (np.ndarray, Tensor)) or _is_structure(item, self._predictor.facts["item"]):
            several, rows = self._arrays(item)
            if several:
                raise ValueError(f"is a batch of shape {_shape_of(item)}; give it to predict alone, not in a list")
            return next(rows)[1]
        if (row := _row_of(item)) is not None:
            return self._row(row, number)
        raise ValueError(f"expected an image, a path, a dict of a row, an array or a text, got {type(item).__name__}")

    def _row(self, row: Row, number: int) -> Any:
        dataset = self._predictor.dataset
        if not hasattr(dataset, "columns"):
            raise ValueError(f"this model takes no rows; it was trained on {self._predictor.config.data.train}")
        known = {column.name: column for column in dataset.columns}
        cells = [_cell(value, known.get(str(name))) for name, value in row.items()]
        return self._predictor.row(cells, [str(name) for name in row], number)

    def _arrays(self, arrays: Any) -> tuple[bool, Iterator[Named]]:
        """One array of the shape of an input, or the rows of a batch of them."""
        form = self._predictor.facts["item"]
        arrays = mapped(lambda array: array.detach().cpu().numpy() if isinstance(array, Tensor) else array, arrays)
        if "mode" in form:
            single = arrays.ndim == 2 or (arrays.ndim == 3 and arrays.shape[2] in IMAGE_CHANNELS)
            if arrays.ndim not in (2, 3, 4):
                raise ValueError(f"an image is (height, width) or (height, width, channels), got {arrays.shape}")
            return not single, self._pictures([arrays] if single else arrays, alone=single)
        ranks = [len(part["shape"]) for part in leaves_of(form)]
        batched = [array.ndim - rank for array, rank in zip(leaves(arrays), ranks, strict=True)]
        if {*batched} == {1}:
            sizes = {len(array) for array in leaves(arrays)}
            if len(sizes) > 1:
                raise ValueError(f"arrays of {' and '.join(map(str, sorted(sizes)))} rows; a row of each is one input")
            return True, ((f"input {i}", self._typed(mapped(itemgetter(i), arrays))) for i in range(min(sizes)))
        return False, iter([("input", self._typed(arrays))])

    def _pictures(self, arrays: Iterable[np.ndarray], alone: bool) -> Iterator[Named]:
        from PIL import Image

        for number, array in enumerate(arrays):
            name = "input" if alone else f"input {number}"
            try:
                if array.dtype != np.uint8:
                    raise ValueError(
                        f"an image is an array of uint8, 0 to 255, got {array.dtype}; for a batch that is preprocessed "
                        "already, call the model"
                    )
                picture = Image.fromarray(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array)
                yield name, self._predictor.image(picture)
            except EXPECTED_ERRORS as error:
                yield name, error

    def _typed(self, arrays: Any) -> Any:
        """The arrays with floats in the dtype of the model, in which the dataset gives them."""
        dtype = np.dtype(self._predictor.config.dtype)
        return mapped(lambda array: array.astype(dtype) if array.dtype.kind == "f" else array, arrays)

    def extra_repr(self) -> str:
        """The checkpoint, and what it predicts."""
        what = f", classes={len(self.classes)}" if self.classes else ""
        return f"path={str(self.path)!r}, step={self.step}{what}"


def load_model(
    path: str | os.PathLike[str],
    checkpoint: str | int = "best",
    *,
    device: str | tdt.device | None = None,
    trust: bool = False,
    root: str | os.PathLike[str] = ROOT,
) -> TrainedModel:
    """Load the model of a run, with its weights and its preprocessing, in eval mode.

    A checkpoint is all that is read: the data of the training are not needed. Nothing in it is executed. The
    configuration of a run with `imports` names Python files, which run only with `trust=True`.

    Args:
        path: a run's folder or its name ("digits/1", or "digits" for the newest), or a checkpoint file.
        checkpoint: "best" (the last, if none was chosen as best), "last", or the number of steps of a checkpoint.
        device: where the weights go; by default where the configuration says.
        trust: allow the Python files that the configuration imports to run.
        root: the folder of the runs.
    Returns:
        A module with a method `predict`.
    Raises:
        RunError: there is no such run.
        CheckpointError: there is no such checkpoint, or it is damaged.
        ConfigError: the configuration imports Python files, and `trust` is False.

    >>> import tdt
    >>> import tempfile
    >>> from tdt.train import fit
    >>> from tdt.vision.datasets import Digits
    >>> run = fit("digits-mlp", train__epochs=1, run_dir=tempfile.mkdtemp(), quiet=True)
    >>> model = tdt.load_model(run.folder)
    >>> answer = model.predict(Digits("test").data[0])
    >>> answer.label in model.classes, len(answer.probabilities)
    (True, 10)
    """
    file = checkpoint_file(path, checkpoint, root)
    threads = tdt.get_num_threads()
    try:
        with trusting(trust), tdt.random.fork_rng():
            predictor = Predictor(file, None if device is None else str(device))
            return TrainedModel(predictor, file, predictor.step)
    finally:
        tdt.set_num_threads(threads)


def checkpoint_file(path: str | os.PathLike[str], checkpoint: str | int, root: str | os.PathLike[str]) -> Path:
    """The file of a checkpoint: arguments and exceptions are those of `load_model`."""
    location = Path(path)
    if location.suffix in (".pt", ".pth") and location.is_file():
        raise CheckpointError(
            f"{path}: has weights alone; create the model and call model.load_state_dict(tdt.load(path)), or start a run "
            f"from them: weights: {{from: {path}}}"
        )
    if checkpoint == "best" or location.is_file():
        return find_checkpoint(path, root)
    store = RunFolder.open(path, root).checkpoints()
    if isinstance(checkpoint, int) and not isinstance(checkpoint, bool):
        with suppress(CheckpointError):
            return store.resolve(store.path(checkpoint))
        raise CheckpointError(
            f"no checkpoint of step {checkpoint}; {store.folder} has {', '.join(map(str, store.steps()))}"
        )
    if checkpoint != "last":
        raise ValueError(f"checkpoint must be 'best', 'last' or a number of steps, got {checkpoint!r}")
    return store.resolve("last")


def leaves_of(form: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The forms of single arrays in the form of an input (`data.form_of`)."""
    parts = form.get("parts")
    if parts is None:
        yield form
        return
    for part in parts.values() if isinstance(parts, dict) else parts:
        yield from leaves_of(part)


def _is_structure(value: Any, form: Mapping[str, Any]) -> bool:
    """Whether `value` nests arrays as the form does of an input with several parts."""
    parts = form.get("parts")
    if parts is None:
        return isinstance(value, (np.ndarray, Tensor))
    if isinstance(parts, dict):
        return (
            isinstance(value, Mapping)
            and value.keys() == parts.keys()
            and all(map(_is_structure, value.values(), parts.values()))
        )
    return isinstance(value, (tuple, list)) and len(value) == len(parts) and all(map(_is_structure, value, parts))


def _rows_of(inputs: Any) -> Iterable[Row] | None:
    """The rows of a DataFrame of pandas or Polars; None for anything else."""
    if hasattr(inputs, "to_dicts"):
        return inputs.to_dicts()
    if hasattr(inputs, "columns") and hasattr(inputs, "to_dict"):
        return inputs.to_dict("records")
    return None


def _row_of(value: Any) -> Row | None:
    """The row that a dict or a Series of pandas is, as `DataFrame.iloc[0]`; None for anything else."""
    if hasattr(value, "to_dict") and hasattr(value, "index") and not hasattr(value, "columns"):
        value = value.to_dict()
    return value if isinstance(value, Mapping) else None


def _is_image(value: Any) -> bool:
    """Whether `value` is a Pillow image."""
    return isinstance(getattr(value, "mode", None), str) and hasattr(value, "convert")


def _is_path(value: Any, takes_text: bool) -> bool:
    return isinstance(value, os.PathLike) or (isinstance(value, str) and not takes_text)


def _cell(value: Any, column: Column | None) -> str:
    """A value as the file of the training would write it in `column`; nothing for a missing one.

    Numbers get the decimal separator and dates the format of the column. Of a category pandas may have changed the spelling:
    integers become floats where one of them is missing, and true becomes True.
    """
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]")  # nanoseconds would become an integer
    value = value.item() if isinstance(value, (np.generic, Tensor)) else value
    if value is None or (isinstance(value, float) and math.isnan(value)) or str(value) in ("NaT", "<NA>"):
        return ""
    text = str(value)
    if column is None or isinstance(value, str):
        return text
    if column.kind == "date" and isinstance(value, datetime.date):
        return text if column.format == ISO else value.strftime(column.format)
    if column.kind == "number":
        return text.replace(".", column.format) if column.format else text
    if column.kind == "category":
        spellings = (text, text.removesuffix(".0"), *((text.lower(), text.upper()) if isinstance(value, bool) else ()))
        return next((spelling for spelling in spellings if spelling in column.categories), text)
    return text


def _shape_of(value: Any) -> Any:
    return mapped(lambda part: tuple(part.shape), value)


def _no_stdin() -> bytes:
    raise ValueError("'-' means standard input only for tdt predict; give the path of a file")
