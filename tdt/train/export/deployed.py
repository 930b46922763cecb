"""A trained model as other programs run it: what it takes, with the preprocessing that can be a part of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

import tdt
from tdt import Tensor, nn
from tdt._about import __version__
from tdt._core.tensor import wrap
from tdt.train.checks.saved_config import restrict_saved_config
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.precision import default_dtype
from tdt.train.data.loading import open_splits
from tdt.train.data.nested import mapped
from tdt.train.loop.prediction import Predictor
from tdt.utils._nested import tensors_in
from tdt.utils.data import default_collate
from tdt.vision.transforms import Compose, Normalize, ToTensor

SAMPLES = 7  # on which an exported model is checked
NUMBERS = ("number", "boolean")
OUTPUTS = {"CrossEntropyLoss": "logits", "BCEWithLogitsLoss": "logits", "MultiLabelSoftMarginLoss": "logits",
           "NLLLoss": "log_probabilities"}  # fmt: skip


class ExportError(Exception):
    """A model could not be exported; the message says why. Nothing was written."""


class Deployed(nn.Module):
    """The model of a run between its inputs and outputs: preprocessing → model → the unit of the targets.

    Inputs are of one of four kinds. "image": pixels as Pillow has them, (n, height, width) or (n, height, width, channels),
    which the last transforms from ToTensor on prepare. "columns": the numbers of a table's columns, (n, columns), float64, where
    NaN is a missing value. "tokens": numbers of tokens. "input": what the model takes, prepared already.

    Attributes:
        kind: that of the inputs.
        before: the transforms that come before the exported model.
        inside: those that are part of it.
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor = predictor
        self.model = predictor.parts.scored
        steps: list[Any] = list(predictor.steps.transforms)
        self.before, self.inside = steps, steps[:0]
        columns = getattr(predictor.dataset, "columns", ())
        if columns and not steps and all(column.kind in NUMBERS for column in columns) and self._is_single:
            self.kind = "columns"
            how = [[column.fill, column.shift, column.scale] for column in columns]
            self.fill, self.shift, self.scale = tdt.tensor(how, dtype=tdt.float64).T.contiguous()
        elif (at := _pixels(steps)) is not None:
            self.kind, self.before, self.inside = "image", steps[:at], steps[at:]
        else:
            texts = hasattr(predictor.dataset, "decode") or (columns and all(one.kind == "text" for one in columns))
            self.kind = "tokens" if texts and self._is_single else "input"

    @property
    def _is_single(self) -> bool:
        """Whether the model takes one tensor."""
        return "parts" not in self.predictor.facts["input"]

    def forward(self, input: Any) -> Any:
        """The outputs of the model for a batch of inputs."""
        output = self.model(self.prepared(input))
        loss = self.predictor.parts.loss
        if not len(loss.scales):
            return output
        parts = {name: loss.output_part(output, term) for name, term in self.predictor.tasks.items()}
        return parts if len(parts) > 1 else next(iter(parts.values()))

    def prepared(self, input: Any) -> Any:
        """What the model takes."""
        dtype = getattr(tdt, self.predictor.config.dtype)
        if self.kind == "columns":
            return ((tdt.where(input.isnan(), self.fill, input) - self.shift) / self.scale).to(dtype)
        if self.kind == "image":
            input = input.unsqueeze(1) if input.ndim == 3 else input.permute(0, 3, 1, 2)
            input = input.to(dtype) / 255 if input.dtype is tdt.uint8 else input
            for step in self.inside[1:]:
                input = step.batch(input)
        return mapped(lambda part: part.to(dtype) if part.is_floating_point() else part, input)

    def batch(self, items: Sequence[Any]) -> Any:
        """Inputs of the dataset as a batch that `forward` takes: tensors on the CPU, nested as the model's input."""
        with default_dtype(self.predictor.config.dtype):
            if self.kind == "image":
                steps = Compose(self.before)
                return wrap(np.stack([np.asarray(steps(item) if self.before else item) for item in items]))
            batch = default_collate(self._prepared(items))
        if self.kind == "columns":
            return batch.double() * self.scale + self.shift
        return batch

    def expected(self, items: Sequence[Any]) -> list[Tensor]:
        """The outputs of tdt for inputs of the dataset, prepared as in `tdt predict`."""
        parts = self.predictor.parts
        self.eval()
        with tdt.no_grad(), default_dtype(self.predictor.config.dtype):
            output = self.model(parts.place(default_collate(self._prepared(items))))
            loss = parts.loss
            if len(loss.scales):
                output = [loss.output_part(output, term) for term in self.predictor.tasks.values()]
            return tensors_in(output)

    def _prepared(self, items: Sequence[Any]) -> list[Any]:
        prepared = [self.predictor._prepared(item) for item in items]
        for one in prepared:
            if isinstance(one, Exception):
                raise ExportError(f"an input of the run's data cannot be prepared: {one}")
        return prepared

    def samples(self) -> tuple[list[Any], str]:
        """A few inputs as the dataset gives them, and where they are from: a split, or "" for random ones."""
        config, errors = self.predictor.config, ConfigErrors()
        with restrict_saved_config(), default_dtype(config.dtype):
            opened = open_splits(config.data, errors, tuple(config.data.splits()), self.predictor.facts["state"])
            for name in ("valid", "test", "train"):
                if name in opened and opened[name].loaded and len(opened[name].dataset):
                    dataset = opened[name].dataset
                    return [dataset[i][0] for i in range(min(SAMPLES, len(dataset)))], name
            return list(islice(self._random(), SAMPLES)), ""

    def _random(self) -> Iterator[Any]:
        """Inputs of the form that the dataset's have."""
        facts, draw = self.predictor.facts, np.random.RandomState(0)
        while True:
            if "mode" in facts["item"]:
                from PIL import Image

                size = facts["input"]["shape"][-2:]
                yield Image.fromarray(draw.randint(0, 256, (*size, 3)).astype(np.uint8)).convert(facts["item"]["mode"])
            else:
                yield self._drawn(facts["item"], draw)

    def _drawn(self, form: Any, draw: np.random.RandomState) -> Any:
        parts = form.get("parts")
        if isinstance(parts, dict):
            return {name: self._drawn(part, draw) for name, part in parts.items()}
        if parts is not None:
            return tuple(self._drawn(part, draw) for part in parts)
        dtype = np.dtype(form["dtype"])
        if dtype.kind == "f":
            array = draw.rand(*form["shape"])
        else:
            array = draw.randint(0, 256 if dtype == np.uint8 else self._most(), form["shape"])
        return wrap(np.asarray(array, dtype))

    def _most(self) -> int:
        """The numbers of tokens that every embedding of the model has."""
        sizes = [module.num_embeddings for module in self.model.modules() if isinstance(module, nn.Embedding)]
        return min(sizes, default=2)

    def input_names(self, batch: Any) -> list[str]:
        """The names of the tensors in a batch that `forward` takes."""
        if isinstance(batch, Tensor):
            return [self.kind]
        keys = batch if isinstance(batch, dict) else [f"input_{number}" for number in range(len(batch))]
        return [str(key) for key in keys]

    def output_names(self, count: int) -> list[str] | None:
        """The names of what `forward` returns; None for the keys of the model's own result."""
        loss = type(self.predictor.parts.loss.main).__name__
        return [OUTPUTS.get(loss, "output")] if count == 1 else None

    def metadata(self) -> dict[str, str]:
        """What a program must know to use the exported model, as texts: JSON but for names."""
        predictor = self.predictor
        facts, dataset = predictor.facts, predictor.dataset
        found: dict[str, Any] = {
            "classes": facts["classes"] or None,
            "classes_by_target": facts.get("classes_by_target") or None,
            "input": self.kind,
            "preprocessing": {"before": list(map(repr, self.before)), "inside": list(map(repr, self.inside))},
            "columns": [column.state() for column in getattr(dataset, "columns", ())] or None,
            "outputs": list(predictor.outputs) or None,
            "step": predictor.step,
        }
        texts = {name: json.dumps(value, ensure_ascii=False) for name, value in found.items() if value is not None}
        return texts | {"input": self.kind, "name": predictor.config.name, "tdt_version": __version__}


def _pixels(steps: Sequence[Any]) -> int | None:
    """The place of ToTensor, if all transforms from there on can be exported."""
    at = next((i for i, step in enumerate(steps) if isinstance(step, ToTensor)), None)
    return at if at is not None and all(isinstance(step, Normalize) for step in steps[at + 1 :]) else None


__all__ = ["Deployed", "ExportError"]
