"""Check shapes in one forward pass on meta tensors: find the layer whose input does not fit, and the cost of each layer."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

import tdt
from tdt import Tensor, _about, nn
from tdt.autograd._meta import meta, stand_in
from tdt.train._printable import counted
from tdt.train.checks.labels import activation_advice, label_out_of_range, target_advice
from tdt.train.config import Component, ConfigErrors
from tdt.train.config.metrics import Measure
from tdt.train.config.precision import input_dtype
from tdt.train.config.splits import undivided
from tdt.train.data.loading import Split
from tdt.train.data.nested import mapped
from tdt.train.data.targets import known_targets
from tdt.train.errors import reason
from tdt.train.metrics import Metric
from tdt.train.model.from_config import CONSTRUCTOR_ERRORS, UnknownShape
from tdt.train.model.objective import Objective, Term, compared
from tdt.utils._nested import tensors_in

BATCH = 2  # 1 would hide a batch that is folded into another dimension
BROADCAST = "Using a target size"  # the beginning of the warning of losses about different sizes
UNBATCHED: dict[type, int] = {
    nn.Dropout1d: 2,
    nn.Dropout3d: 4,
}  # input dimensions that these layers read as a single sample


@dataclasses.dataclass(frozen=True)
class Row:
    """A layer in the table of a dry run: output shape without the batch, own parameters, and per sample its multiply-adds
    and the bytes of its output."""

    name: str
    layer: str
    shape: tuple[int, ...]
    parameters: int
    flops: int
    bytes: int


class _Watch:
    """Hooks on every layer during a forward pass that record running layers, outputs and costs."""

    def __init__(self, model: nn.Module, sources: dict[nn.Module, Component], counts: meta) -> None:
        self.sources, self.counts = sources, counts
        self.names = {module: name for name, module in model.named_modules()}
        self.rows: list[Row] = []
        self.running: list[tuple[nn.Module, int, Any]] = []
        self.inputs: list[tuple[nn.Module, Any]] = []
        self.outputs: dict[int, tuple[Any, str, nn.Module]] = {}  # by id; kept alive so that ids stay unique
        self.caught: list[warnings.WarningMessage] = []  # the warnings of the running layer
        self.warned: list[tuple[nn.Module | None, warnings.WarningMessage]] = []
        self.handles = [
            handle
            for module in self.names
            for handle in (
                module.register_forward_pre_hook(self._before, prepend=True),  # before a lazy layer is initialised
                module.register_forward_hook(self._after),
            )
        ]

    def _before(self, module: nn.Module, args: Any) -> None:
        self.running.append((module, self.counts.flops, args))
        self.inputs += [(module, args[0])] if args and module in self.sources else []

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if type(module) in UNBATCHED and isinstance(args[0], Tensor) and args[0].ndim == UNBATCHED[type(module)]:
            whole = (
                f"drops whole samples of a batch of {list(args[0].shape[1:])}, which it takes for one sample's channels"
            )
            warnings.warn(f"{whole}; use Dropout", stacklevel=1)
        self.take_warnings()
        _, flops, _ = self.running.pop()
        for tensor in tensors_in(output):
            self.outputs.setdefault(id(tensor), (tensor, self.called(module), module))
        if next(iter(module.children()), None) is None:
            outputs = list(tensors_in(output))
            shape = tuple(outputs[0].shape[1:]) if outputs else ()
            own = sum(p.numel() for p in module.parameters())
            cost = (self.counts.flops - flops) // BATCH
            size = sum(tensor.numel() * tensor.element_size() for tensor in outputs) // BATCH
            self.rows.append(Row(self.names[module], repr(module), shape, own, cost, size))

    def take_warnings(self) -> None:
        """Record the warnings with the running layer."""
        failed = self.failed()
        self.warned += [(failed[0] if failed else None, warning) for warning in self.caught]
        self.caught.clear()

    def report_warnings(self, errors: ConfigErrors) -> None:
        """Add each UserWarning to `errors` at its layer; issue other warnings again."""
        self.take_warnings()
        for layer, warning in self.warned:
            if issubclass(warning.category, UserWarning):
                errors.warn("model" if layer is None else self.sources[layer], _sentence(warning.message))
            else:
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)

    def called(self, module: nn.Module) -> str:
        """A layer in messages: its name, its text in the config, and the line."""
        part = self.sources.get(module)
        if part is None:
            return self.names[module]
        block = f", of the block used in line {part.used.line}" if part.used else ""
        return f"{self.names[module]} ({part}, line {part.source.line}{block})"

    def origin(self, value: Any) -> str:
        """The layers that returned the tensors: "its input comes from …"."""
        origins = [self.outputs.get(id(tensor), (None, "the data", None))[1] for tensor in tensors_in(value)]
        names = list(dict.fromkeys(origins)) or ["the data"]
        return f"its input{'s come' if len(names) > 1 else ' comes'} from {' and '.join(names)}"

    def layer_of(self, output: Any) -> nn.Module | None:
        """The layer that returned `output`."""
        return self.outputs.get(id(output), (None, "", None))[2]

    def failed(self) -> tuple[nn.Module, Any] | None:
        """The innermost running layer that the config declares, and its arguments."""
        return next(((m, args) for m, _, args in reversed(self.running) if m in self.sources), None)

    def receivers(self, value: Any) -> list[nn.Module]:
        """The layers of the config whose input was `value` itself."""
        return [module for module, first in self.inputs if first is value]

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


def check_shapes(
    model: nn.Module, sources: dict[nn.Module, Component], split: Split, loss: Objective | None,
    metrics: list[tuple[Measure, Metric]], errors: ConfigErrors,
) -> list[Row]:  # fmt: skip
    """Run a meta batch through `model`, `loss` and `metrics`; lazy layers infer their sizes.

    Reports a layer that raises an exception at its position in the config, with the layer that its input comes from.

    Returns:
        A row per layer.
    """
    inputs, target = split.sample()
    training = model.training
    model.eval()
    with meta() as counts:
        watch = _Watch(model, sources, counts)
        try:
            batch = mapped(lambda part: stand_in((BATCH, *part.shape), input_dtype(part._a.dtype)), inputs)
            with warnings.catch_warnings(record=True) as watch.caught:
                output = model(batch)
        except UnknownShape:
            return watch.rows
        except (*CONSTRUCTOR_ERRORS, AttributeError) as error:  # a tuple in place of a tensor has no shape
            _add_refusal(error, watch, errors)
            return watch.rows
        finally:
            watch.close()
            watch.report_warnings(errors)
            model.train(training)
        _check_tokens(split.dataset, batch, watch, errors)
        if loss is not None:
            before = len(errors)
            _check_loss(output, batch, target, loss, split, watch, errors)
            if len(errors) == before:
                loss.last_call = {"output": output, "target": _target(target), "input": batch}
                _check_metrics(metrics, loss, *loss.compared(output, _target(target), batch), errors)
    return watch.rows


def _add_refusal(error: Exception, watch: _Watch, errors: ConfigErrors) -> None:
    """Report the layer that raised `error`."""
    failed = watch.failed()
    if failed is None:  # a graph is not a component
        errors.add("model", _sentence(error), kind="shape")
        return
    layer, args = failed
    part = watch.sources[layer]
    which = f", as {watch.names[layer]} of the block used in line {part.used.line}" if part.used else ""
    several = next((x for x in args if isinstance(x, (tuple, list, dict))), None)
    is_ours = _about.home(type(layer)).startswith("tdt.")
    message = _sentence(error) if is_ours else reason(error).rstrip(".")
    message += _dtype_advice(layer, args)
    if several is not None and is_ours:
        received = f"a {type(several).__name__} of {len(several)}"
        message = f"takes one tensor, but gets {received}; put Pick before it, as in Pick(0)"
    errors.add(part, f"{message}; {watch.origin(args)}{which}", kind="shape")


def _dtype_advice(layer: nn.Module, args: Any) -> str:
    """The end of a message about a layer with float parameters that gets integers."""
    received = next(iter(tensors_in(args)), None)
    own = next(layer.parameters(), None)
    if own is None or not own.is_floating_point() or received is None or received.is_floating_point():
        return ""
    if isinstance(args[0], (dict, tuple, list)):
        return "; inputs are integers: let data.train return floats"
    scaled = ", or ConvertImageDtype, which scales them to 0..1" if received.dtype is tdt.uint8 else ""
    name = str(received.dtype).rpartition(".")[2]
    return f"; inputs are {name}: put ToDtype into data.transform, which makes them floats{scaled}"


def _check_tokens(dataset: Any, batch: Any, watch: _Watch, errors: ConfigErrors) -> None:
    """Report an embedding with fewer rows than texts have tokens, and a model that takes padding for tokens."""
    tokens, tokenizer = getattr(dataset, "vocabulary_size", 0), getattr(dataset, "tokenizer", None)
    if not tokens and tokenizer is None:
        return
    from tdt.text.models._api import TextModel  # on use: it loads all networks

    for layer in watch.receivers(batch):
        rows = layer.config.vocab_size if isinstance(layer, TextModel) else getattr(layer, "num_embeddings", tokens)
        if rows < tokens:
            message = f"has {counted(rows, 'row')}, but the text has {counted(tokens, 'token')}"
            errors.add(watch.sources[layer], message, kind="shape")
        if isinstance(layer, TextModel) and tokenizer is not None and not hasattr(dataset, "decode"):
            padding, own = tokenizer.padding, getattr(layer.config, "pad_token_id", None)
            if own != padding:
                errors.warn(watch.sources[layer], f"pad_token_id is {own}, but the tokenizer pads texts with {padding}")
            elif not getattr(layer.config, "mask_padding", True):
                errors.warn(watch.sources[layer], "attends to padding; set mask_padding: true")


def _check_loss(output: Any, inputs: Any, target: Any, loss: Objective, split: Split, watch: _Watch,
                errors: ConfigErrors) -> None:  # fmt: skip
    """Whether each term takes what it is given: shapes, and a score for each class."""
    targets = _target(target)
    for term in loss.terms:
        place = "loss" if term.name == "loss" else f"loss.{term.name}"
        try:
            output_part, target_part = compared(term, output, targets, inputs)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                value = term.loss(output_part, target_part)
        except CONSTRUCTOR_ERRORS as error:
            advice = _advice(term, output, targets, inputs, split)
            errors.add(place, advice or f"{_sentence(error)}; {watch.origin(output)}", kind="shape")
            continue
        advice = _advice(term, output, targets, inputs, split)
        messages = [_sentence(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
        if broadcast := [text for text in messages if text.startswith(BROADCAST)]:  # never intended
            errors.add(place, advice or f"{broadcast[0]}; {watch.origin(output)}", kind="shape")
            continue
        if advice is not None:
            errors.warn(place, advice)
        last = watch.layer_of(output_part)
        if (wrong := activation_advice(term.loss, last)) is not None:
            errors.warn(watch.sources.get(last, place) if last else place, wrong)
        for text in messages:
            errors.warn(place, text)
        if value.ndim:
            message = f"gives {tuple(value.shape)} where training needs one number; use reduction=mean or sum"
            errors.add(place, message)
        else:
            _check_classes(term, output_part, target_part, split, watch, errors)


def _advice(term: Term, output: Any, targets: Any, inputs: Any, split: Split) -> str | None:
    """What to write if a loss of numbers compares classes of the data, or the other way round."""
    if term.target.split("/")[0] != "target":
        return None
    try:
        return target_advice(term.loss, *compared(term, output, targets, inputs), split)
    except CONSTRUCTOR_ERRORS:  # no such part
        return None


def _check_metrics(
    metrics: list[tuple[Measure, Metric]], loss: Objective, output: Tensor, target: Tensor, errors: ConfigErrors
) -> None:
    """Report metrics that are not defined for what they compare."""
    for measure, metric in metrics:
        try:
            loss.measuring(metric, measure.parts).batch_sum(output, target, tdt.zeros(()))
        except CONSTRUCTOR_ERRORS as error:
            errors.add(measure, _sentence(error), kind="shape")


def _check_classes(term: Term, output: Tensor, target: Any, split: Split, watch: _Watch, errors: ConfigErrors) -> None:
    classes = len(getattr(split.dataset, "classes", ()))
    scores = isinstance(term.loss, (nn.CrossEntropyLoss, nn.NLLLoss)) and not target.is_floating_point()
    if term.target != "target" or not scores or classes == output.shape[1]:
        return
    last = next((row for row in reversed(watch.rows) if row.parameters), watch.rows[-1])
    count = counted(output.shape[1], "score")
    data = undivided(split.component).name
    message = f"{last.layer} gives {count}, but {data} has {counted(classes, 'class', 'classes')}"
    part = next((part for module, part in watch.sources.items() if watch.names[module] == last.name), None)
    if classes < output.shape[1]:
        if classes > 1 and not hasattr(split.dataset, "decode"):  # a vocabulary may be padded
            errors.warn(part or "model", f"{message}; end the model with an output for each class")
        return
    labels = known_targets(split.dataset) if split.loaded else None
    if isinstance(labels, np.ndarray) and hasattr(split.dataset, "sample_name"):
        wrong = label_out_of_range(split.dataset, "train", labels, term.loss, output.shape[1])
        message += f": {wrong}" if wrong else ""
        if labels.min() == 1 and labels.max() == output.shape[1]:
            message += "; labels begin at 0: save them as y - 1"
    errors.add(part or "model", message, kind="shape")


def _target(target: Any) -> Any:
    """Meta targets of a batch like the sample `target`."""
    if isinstance(target, (dict, tuple, list)):
        return mapped(_target, target)
    if isinstance(target, Tensor):
        return stand_in((BATCH, *target.shape), input_dtype(target._a.dtype))
    return stand_in((BATCH,), "int64" if isinstance(target, int) else input_dtype("float32"))


def _sentence(error: BaseException | str) -> str:
    return str(error).rstrip(".")
