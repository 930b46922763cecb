"""TensorBoard summaries other than scalars, which the `log` section of the config selects.

All depend only on the weights and the data at their step, so that a resumed run logs the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import Tensor, nn
from tdt.autograd._meta import meta
from tdt.train._types import Nested
from tdt.train.config.sections import EmbeddingShown
from tdt.train.data.loading import batch_of
from tdt.train.logging.collectors import Collector, Confusion, Curves, EvaluatedBatch, Masks, Samples
from tdt.train.logging.events import Event, RunStarted, RunStopped, Validated, has_histograms
from tdt.train.logging.layers import layer_outputs
from tdt.train.logging.pictures import is_image, is_mask, normal
from tdt.train.logging.settings import settings
from tdt.train.metrics import Reading
from tdt.train.model.deciding import decided
from tdt.utils.tensorboard import SummaryWriter, summary

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts


class ModelLog:
    """Event subscriber that writes what the `log` section of the config selects."""

    def __init__(self, parts: Parts, writer: SummaryWriter) -> None:
        self.parts, self.writer, self.log = parts, writer, parts.config.log
        self.reading = Reading.of(parts.loss.main)
        self.makers = [*self._collectors()]
        self.collecting: list[Collector] | None = None

    def _collectors(self) -> Iterator[Callable[[bool], Collector]]:
        """Functions that make a collector, given whether the targets are masks."""
        log, ignored = self.log, self.reading.ignore_index
        if log.images:
            yield lambda masks: Masks(log.images, ignored) if masks else Samples(log.images, False, self.reading)
        if log.misclassified:
            yield lambda masks: Samples(log.misclassified, True, self.reading)
        if log.confusion:
            yield lambda masks: Confusion(ignored)
        if log.pr_curves:
            yield lambda masks: Curves(self.reading)

    def on_batch(self, inputs: Nested, output: Tensor, target: Tensor) -> None:
        """Collect from a batch of the validation what is written when the validation ends."""
        if not self.makers:
            return
        if target.is_floating_point() and self.reading.threshold is None:  # probabilities
            target = target.argmax(1)
        if self.collecting is None:
            masks = isinstance(inputs, Tensor) and is_mask(tuple(target.shape[1:]), tuple(inputs.shape[1:]))
            self.collecting = [make(masks) for make in self.makers]
        decisions, names = decided(self.reading, output, target, self.parts.facts["classes"])
        predictions, truth = (side.long().reshape(-1).cpu().numpy() for side in (decisions, target))
        batch = EvaluatedBatch(inputs, output, target, predictions, truth, names)
        for collector in self.collecting:
            collector.see(batch)

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted) and event.step == 0:
            self._begin()
        elif has_histograms(self.log.histograms, event):
            self._histograms(event.step)
        elif isinstance(event, Validated):
            for collector in self.collecting or ():
                collector.write(self.writer, event.step)
            self.collecting = None
            if self.log.embedding is not None:
                self._embedding(self.log.embedding, event.step)
        elif isinstance(event, RunStopped) and event.reason == "done" and self.log.hparams:
            self.writer.add_summary(summary.hparams({}, {})[2], event.step)
            self.writer.sync()

    def _begin(self) -> None:
        """Write config, settings, charts and graph before the first step."""
        parts, text = self.parts, self.parts.config.resolved()
        names = list(parts.new_metrics())
        if self.log.config:
            self.writer.add_text("config", f"```yaml\n{text}```", 0)
        if self.log.hparams:
            # Without an experiment summary: with one, TensorBoard shows only that run's settings, else those of all.
            _, start, _ = summary.hparams(dict(settings(parts)), {})
            self.writer.add_summary(start, 0)
        if self.log.charts and "valid" in parts.loaders:
            charts = {name: ["Multiline", [f"train_epoch/{name}", f"valid/{name}"]] for name in names}
            self.writer.add_custom_scalars({"train and validation": charts})
        if self.log.graph:
            with meta():
                self.writer.add_graph(parts.model, (batch_of(parts.facts["input"], 1),))

    def _histograms(self, step: int) -> None:
        """Write weights, the gradients of the last step, and activations for a batch of the validation data.

        TensorBoard sorts tags: the prefix puts these below the losses.
        """
        for name, p in self.parts.model.named_parameters():
            self._histogram(f"watch_weights/{name}", p, step)
            if p.grad is not None:
                self._histogram(f"watch_gradients/{name}", p.grad, step)
        if "valid" in self.parts.loaders:
            layers = [name for name, m in self.parts.model.named_modules() if next(m.children(), None) is None]
            count = self.parts.config.data.eval_loader.batch_size
            for name, tensor in self._outputs(self.parts.model, layers, count)[0]:
                self._histogram(f"watch_activations/{name}", tensor, step)

    def _histogram(self, tag: str, values: Tensor, step: int) -> None:
        array = values.detach().float().cpu().numpy()
        finite = array[np.isfinite(array)]
        if finite.size:  # if all are NaN, the loss ends the run
            self.writer.add_histogram(tag, finite, step)

    def _embedding(self, settings: EmbeddingShown, step: int) -> None:
        """Write a layer's outputs for the first samples, with their classes and images."""
        found, inputs, targets = self._outputs(self.parts.scored, [settings.layer], settings.samples)
        _, rows = found[0]
        if not isinstance(targets, Tensor):
            targets = self.parts.loss.target_part(targets, inputs)
        rows, targets = rows.reshape(len(targets), -1), targets.squeeze(tuple(range(1, targets.ndim)))
        labels, pictures = [self._label(target) for target in targets.tolist()], None
        if isinstance(inputs, Tensor) and is_image(inputs.shape[1:]):
            pictures = np.stack([normal(image) for image in inputs.cpu().numpy()])
        self.writer.add_embedding(rows, labels, pictures, step, settings.layer)

    def _label(self, target: Any) -> str:
        """The name of a class, or the numbers themselves, shortened."""
        names = self.parts.facts["classes"]
        is_class = isinstance(target, (int, float)) and target in range(len(names))
        return names[int(target)] if is_class else str(target)[:60]

    def _outputs(self, model: nn.Module, layers: list[str], count: int) -> tuple[list[tuple[str, Tensor]], Any, Any]:
        """Outputs of layers for a batch of the first samples of the validation data, with its inputs and targets.

        Restores the generators, so that the run is not affected.
        """
        restore_rng = self.parts.snapshot_rng()
        loader = self.parts.loaders["valid"]
        samples = [loader.dataset[i] for i in range(min(count, len(loader.dataset)))]
        inputs, targets = loader.collate_fn(samples)
        inputs = self.parts.place(inputs)
        found = layer_outputs(model, layers, inputs)
        restore_rng()
        return found, inputs, targets
