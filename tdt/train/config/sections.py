"""The fixed sections of a config, as pydantic models. Components (`Any` here) are read by `components`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictStr,
    field_validator,
    model_validator,
)

Count = Annotated[int, Field(ge=1, lt=2**63)]
Share = Annotated[float, Field(gt=0, lt=1)]


def _with_unit(count: float, unit: str) -> str:
    """A number with its unit, as a config writes it: without the separators of `counted`."""
    return f"{count} {unit}" + ("s" if count != 1 else "")


@dataclass(frozen=True)
class Every:
    """An interval: `Every(1, "epoch")`, written `1 epoch`."""

    count: int
    unit: Literal["epoch", "step"]

    def __str__(self) -> str:
        return _with_unit(self.count, self.unit)


def _parse_every(value: Any) -> Every:
    if isinstance(value, Every):
        return value
    match = re.fullmatch(r"([1-9]\d{0,17}) +(epoch|step)s?", value) if isinstance(value, str) else None
    if match is None:
        shown = "a list or mapping" if isinstance(value, (list, dict)) else repr(value)
        example = Every(value if isinstance(value, int) and value > 1 else 7, "step")
        raise ValueError(f"expected a number and a unit, '1 epoch' or '{example}', got {shown}")
    return Every(int(match[1]), "epoch" if match[2] == "epoch" else "step")


_EVERY = {"patternErrorMessage": "expected a number and a unit, as in 1 epoch or 20 steps"}
_EveryPattern = Annotated[str, Field(pattern=r"^[1-9]\d{0,17} +(epoch|step)s?$", json_schema_extra=_EVERY)]
EveryText = Annotated[Every, BeforeValidator(_parse_every, json_schema_input_type=_EveryPattern), PlainSerializer(str)]


UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


@dataclass(frozen=True)
class Duration:
    """A duration: `Duration(30, "minute")`, written `30 minutes`."""

    count: int | float
    unit: str

    @property
    def seconds(self) -> float:
        return self.count * UNITS[self.unit]

    def __str__(self) -> str:
        return _with_unit(self.count, self.unit)


def _parse_duration(value: Any) -> Duration:
    if isinstance(value, Duration):
        return value
    units = "|".join(UNITS)
    match = re.fullmatch(rf"(\d{{1,9}}(?:\.\d{{1,9}})?) +({units})s?", value) if isinstance(value, str) else None
    count = (float(match[1]) if "." in match[1] else int(match[1])) if match else 0
    if match is None or not count:
        shown = "a list or mapping" if isinstance(value, (list, dict)) else repr(value)
        raise ValueError(f"expected a number and a unit, '30 minutes' or '1.5 hours', got {shown}")
    return Duration(count, match[2])


DurationText = Annotated[Duration, BeforeValidator(_parse_duration, json_schema_input_type=str), PlainSerializer(str)]


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _one_or_more(value: Any) -> Any:
    return (value,) if isinstance(value, str) else _tuple(value)


_PatternsInput = StrictStr | Annotated[list[StrictStr], Field(min_length=1)]
Patterns = Annotated[
    tuple[StrictStr, ...], BeforeValidator(_one_or_more, json_schema_input_type=_PatternsInput), Field(min_length=1)
]


class Section(BaseModel):
    """Base of the sections: strict, immutable, without unknown keys.

    refused: keys that users may expect → why they do not exist.
    """

    refused: ClassVar[dict[str, str]] = {}
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _check_sampler(value: Any) -> Any:
    if value is None or value == "balanced":
        return value
    weights = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(weights, list) or not weights:
        raise ValueError(f"expected balanced, or the weight of each class as a list or a mapping, got {value!r}")
    if any(isinstance(w, bool) or not isinstance(w, (int, float)) or not 0 <= w < float("inf") for w in weights):
        raise ValueError(f"a weight is a number, at least 0, got {value!r}")
    return value


_CODE = "takes a Python function, and a config holds no code"
_PINNED = "has no effect here: batches are not pinned"
_REFUSED = {
    "batch_sampler": "set batch_size, drop_last and sampler",
    "collate_fn": _CODE,
    "worker_init_fn": _CODE,
    "dataset": "write it as data.dataset, or data.train",
    "generator": "seed is set for the whole run",
    "in_order": "a run whose batches have no fixed order cannot be resumed exactly",
    "pin_memory": _PINNED,
    "pin_memory_device": _PINNED,
    "num_samples": "an epoch draws as many samples as data.train has",
}
_WHOLE = dict.fromkeys(("shuffle", "drop_last", "sampler"), "the other splits are read whole and in order")
StartMethod = Literal["fork", "spawn", "forkserver"]


class Loader(Section):
    """`data.loader`: the loader of the training split, with the arguments of DataLoader.

    Keys:
        batch_size: Samples per batch.
        shuffle: Draw the samples of each epoch in random order.
        sampler: Draw samples with replacement, weighted by class: `balanced` for equal class probabilities, `[1, 2.5]` or
            `{cat: 1, dog: 2.5}` for the weight of a sample of each class. The length of an epoch does not change.
        drop_last: Leave out the last batch of an epoch if it is smaller than the others.
        samples: How many samples an epoch has, for an IterableDataset that has no length itself.
        num_workers: Processes that load batches; 0 loads them in the training process.
        prefetch_factor: Batches that each worker loads in advance.
        persistent_workers: Keep the workers between epochs.
        timeout: Seconds to wait for a batch of a worker; 0 for no limit.
        multiprocessing_context: Start method of the workers.
    """

    refused = _REFUSED
    batch_size: Count = 32
    shuffle: bool = True
    sampler: Annotated[
        Literal["balanced"] | list[float] | dict[StrictStr, float] | None, BeforeValidator(_check_sampler)
    ] = None
    drop_last: bool = False
    samples: Count | None = None
    num_workers: Annotated[int, Field(ge=0, le=1024)] = 0
    prefetch_factor: Count | None = None
    persistent_workers: bool = False
    timeout: Annotated[float, Field(ge=0)] = 0.0
    multiprocessing_context: StartMethod | None = None


class EvalLoader(Section):
    """`data.eval_loader`: settings of the other splits that differ from `loader`. They are read whole and in order.

    Keys:
        batch_size: Samples per batch.
        samples: How many samples the split has, for an IterableDataset that has no length itself.
        num_workers: Processes that load batches; 0 loads them in the training process.
        prefetch_factor: Batches that each worker loads in advance.
        persistent_workers: Keep the workers between validations.
        timeout: Seconds to wait for a batch of a worker; 0 for no limit.
        multiprocessing_context: Start method of the workers.
    """

    refused = _REFUSED | _WHOLE
    batch_size: Count | None = None
    samples: Count | None = None
    num_workers: Annotated[int, Field(ge=0, le=1024)] | None = None
    prefetch_factor: Count | None = None
    persistent_workers: bool | None = None
    timeout: Annotated[float, Field(ge=0)] | None = None
    multiprocessing_context: StartMethod | None = None


class Split(Section):
    """`data.split`: the shares of the samples of `data.dataset` in each split, drawn at random; of a `Text` in its order.

    At least one of valid and test. A dataset that has its own splits, such as Digits and MNIST, needs no shares. A class of your
    own without an argument `split` is divided too.

    Keys:
        train: Share of the samples for training: what the others leave, as without it.
        valid: Share of the samples for validation.
        test: Share of the samples for the test.
        seed: Seeds the division, which is the same for every `seed` of the run; by default 0.
        stratify: Divide each class alike. An `ImageFolder` always does.
    """

    train: Share | None = None
    valid: Share | None = None
    test: Share | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    stratify: bool | None = None

    @model_validator(mode="after")
    def _check_shares(self) -> Split:
        others = [share for share in (self.valid, self.test) if share is not None]
        if not others:
            raise ValueError("needs the share of a split besides train; write {valid: 0.1, test: 0.1}, or one of them")
        rest, names = 1 - math.fsum(others), " and ".join(key for key in ("valid", "test") if getattr(self, key))
        if rest <= 1e-9:
            raise ValueError(f"must leave samples for train: {names} add up to {1 - rest:.6g}; make them less than 1")
        if self.train is not None and abs(self.train - rest) > 1e-9:
            total = 1 - rest + self.train
            raise ValueError(
                f"must add up to 1, and adds up to {total:.6g}; write train: {rest:.6g}, or leave train out"
            )
        return self


class Data(Section):
    """`data`: a dataset for each split, or one for all, and how its samples are transformed and loaded.

    Keys:
        dataset: One dataset for all splits, in place of `train`, `valid` and `test`.
        split: The share of the samples of `dataset` in each split; a dataset with splits of its own needs none.
        train: The dataset that the model is trained on.
        valid: The dataset that chooses the best checkpoint, after each epoch or as `train.validate` sets.
        test: The dataset that is evaluated once, at the end, with the best checkpoint.
        transform: Transforms of the samples of every split.
        augment: Random transforms of the training samples alone, before `transform`.
        loader: The loader of the training split.
        eval_loader: Settings of the loaders of the other splits that differ from `loader`.
    """

    dataset: Any = None
    split: Split | None = None
    train: Any
    valid: Any = None
    test: Any = None
    transform: Any = None
    augment: Any = None
    loader: Loader = Loader()
    eval_loader: EvalLoader | None = None

    @field_validator("loader", mode="before")
    @classmethod
    def _empty_is_default(cls, value: Any) -> Any:
        return {} if value is None else value


class Targets(Section):
    """`targets`: train on scaled targets, if these are numbers (prices, temperatures).

    The statistics are those of the training rows, for each number of a target (one for all values of an image). The loss is
    computed and logged on scaled targets; metrics and predictions are in the unit of the data.

    Keys:
        scale: `standard`: (target - mean) / standard deviation; `minmax`: 0 to 1 between the smallest and the largest.
    """

    scale: Literal["standard", "minmax"]


class Weights(Section):
    """`weights`: start from the weights of a run, of a checkpoint, or of a file of another program.

    Keys:
        from: A run (by name), a checkpoint, a `.safetensors` file (also in parts, with its index), a folder that has one, or
            a state_dict in a `.pt`, `.pth` or `.bin` file.
        only: Patterns of parameter names to load; by default all.
        skip: Patterns of names that keep their initial values, such as those of a new head.
        strict: Every other name must exist with the same shape.
        map: Old name prefix → new name prefix, for the names in the file; `*` stands for every name. The prefixes `module.`,
            `model.` and `_orig_mod.` are removed where that makes names match.
    """

    source: StrictStr = Field(alias="from", min_length=1)
    only: Patterns | None = None
    skip: Patterns | None = None
    strict: bool = True
    map: dict[StrictStr, StrictStr] = {}


class Ema(Section):
    """`train.ema`: validate, test and save an exponential moving average of the weights: decay · average + (1 - decay) · new.

    The statistics of batch norms are averaged too. `ema: 0.999` sets the decay alone.

    Keys:
        decay: Share of the average that is kept at each step.
    """

    decay: Annotated[float, Field(ge=0, lt=1)] = 0.999


class Swa(Section):
    """`train.swa`: validate, test and save the mean of the weights at the ends of the epochs after the first `start`
    (stochastic weight averaging: Izmailov et al., 2018).

    The statistics of batch norms are recomputed for the averaged model in a pass over the training data before each
    validation. `swa: 10` sets the start alone.

    Keys:
        start: Number of epochs before the averaging begins.
        lr: Anneal to this learning rate instead of using the scheduler; by default the scheduler continues.
        anneal_epochs: Epochs in which the learning rate reaches `lr`.
        anneal_strategy: Form of the annealing: `cos` or `linear`.
    """

    start: Annotated[int, Field(ge=0, lt=2**63)]
    lr: Annotated[float, Field(gt=0)] | None = None
    anneal_epochs: Count = 10
    anneal_strategy: Literal["cos", "linear"] = "cos"


class EarlyStopping(Section):
    """`train.early_stopping`: end the run after `patience` validations in a row without an improvement. `early_stopping: 5` for
    short.

    Keys:
        patience: Validations without an improvement after which the run ends.
        min_delta: An improvement by less does not count.
        metric: `split/metric` that is watched; by default the one that chooses the best checkpoint.
    """

    patience: Count
    min_delta: Annotated[float, Field(ge=0)] = 0.0
    metric: StrictStr | None = None


def _short_for(key: str, section: Any, kind: Any = float) -> BeforeValidator:
    """A validator that lets the value of `key` alone stand for the section."""
    return BeforeValidator(
        lambda value: {key: value} if isinstance(value, (int, float, str)) else value,
        json_schema_input_type=kind | section | None,
    )


class Train(Section):
    """`train`: the length of the run, and the training step.

    At least one of epochs, steps and time; the first that is reached ends the run, with a validation.

    Keys:
        epochs: Passes over the training data after which the run ends.
        steps: Optimizer steps after which the run ends.
        time: Time after which the run ends, as in `30 minutes`.
        accumulate: Batches per optimizer step: its gradient is the mean over all of their samples.
        clip_grad_norm: Maximum norm of the gradient; a larger one is scaled down.
        clip_grad_value: Maximum magnitude of each element of the gradient.
        warmup: Linear warm-up of the learning rate over this number of steps or epochs.
        validate: Interval of validations, in addition to the one at the end.
        early_stopping: End the run after so many validations in a row without an improvement.
        ema: Validate, test and save an exponential moving average of the weights with this decay.
        swa: Validate, test and save the mean of the weights after each epoch from this one on.
        freeze: Patterns of parameters that are not trained.
        freeze_statistics: A batch norm whose parameters are all frozen also keeps its statistics.
        class_weights: `balanced` sets those of the loss to samples / (classes · samples of the class); set others as the
            loss's `weight`.
        mixup: Alpha of the Beta distribution of mixup (Zhang et al., 2018).
        shards: How many parts a batch is cut into, each with random numbers and batch norm statistics of its own; by default
            one for each process at the start. Their gradients are added in a fixed order, so that weights have the same bits
            on every number of processes for which shards ÷ processes is a power of two, and on one.
        shard_optimizer: Each of several processes keeps the optimizer's state of a part of the parameters and updates these
            (ZeRO, stage 1): less memory, the same bits, and about the same amount of data sent.
        sync_batchnorm: Batch norms take the statistics of all shards of a batch, as `SyncBatchNorm` does, not those of each.
            The shards of a process are then computed together, layer by layer, which takes the memory of all of them.
        reduce_dtype: `bfloat16` rounds the gradients of each shard, and each of their sums, to this dtype, so that half as
            many bytes are sent. Weights still have the same bits on every number of processes, but others than without it.
            One shard is not rounded.
        overfit: Use this number of fixed batches as every split: a model that cannot overfit them has a bug.
        amp: Automatic mixed precision: the model runs under `autocast` of this dtype, in training and evaluation; weights,
            loss and metrics stay float32. With float16 the loss is scaled so that small gradients do not vanish; a step on
            which gradients overflow is skipped, and counted as `amp/skipped_steps`.
        compile: Record the steps, and repeat them without Python between their operations, to the same bits; one step in 1,000
            is compared with an ordinary one. `auto` leaves models with layers or losses of your own as they are, since Python
            code in these runs only while a step is recorded; true compiles them too, false nothing.
        stall_timeout: Of a run on several processes: time without progress (a batch, a part of a checkpoint) after which it is
            aborted, with a message that names the process, its machine, step and last collective. Make it longer than the
            slowest batch.
    """

    epochs: Count | None = None
    steps: Count | None = None
    time: DurationText | None = None
    accumulate: Count = 1
    clip_grad_norm: Annotated[float, Field(gt=0)] | None = None
    clip_grad_value: Annotated[float, Field(gt=0)] | None = None
    warmup: EveryText | None = None
    validate_every: EveryText = Field(default=Every(1, "epoch"), alias="validate")
    early_stopping: Annotated[EarlyStopping | None, _short_for("patience", EarlyStopping)] = None
    ema: Annotated[Ema | None, _short_for("decay", Ema)] = None
    swa: Annotated[Swa | None, _short_for("start", Swa)] = None
    freeze: Patterns | None = None
    freeze_statistics: bool = True
    class_weights: Literal["balanced"] | None = None
    mixup: Annotated[float, Field(gt=0)] | None = None
    shards: Count | None = None
    shard_optimizer: bool = False
    sync_batchnorm: bool = False
    reduce_dtype: Literal["bfloat16"] | None = None
    overfit: Count | None = None
    amp: Literal["bfloat16", "float16"] | None = None
    compile: Literal["auto"] | bool = "auto"
    stall_timeout: DurationText = Duration(5, "minute")


class Checkpoint(Section):
    """`checkpoint`: when to save, how many files to keep, and what chooses the best.

    Keys:
        every: Interval of checkpoints, in addition to the one at the end.
        keep: How many of the newest checkpoints to keep; the best is kept in any case.
        best: `split/metric` that chooses the best checkpoint; by default the first metric of the validation data.
    """

    every: EveryText = Every(1, "epoch")
    keep: Count = 3
    best: StrictStr | None = None


class EmbeddingShown(Section):
    """`log.embedding`: show the outputs of a layer in TensorBoard's projector.

    Keys:
        layer: Name of the layer.
        samples: Number of samples, the first of the validation data.
    """

    layer: StrictStr
    samples: Count = 500


class Log(Section):
    """`log`: the interval of training loss, metrics, learning rates, gradient norm and throughput, and what else
    TensorBoard shows.

    Keys:
        every: Interval of the numbers of training.
        histograms: Interval of histograms of weights, gradients and, with validation data, activations.
        images: Number of samples shown with their predictions at every validation (with masks: image, truth and prediction
            side by side).
        misclassified: Number of misclassified samples shown at every validation.
        confusion: Show the confusion matrix at every validation.
        pr_curves: Show the precision-recall curve of each class at every validation.
        embedding: Show the outputs of a layer, by its name, at every validation.
        graph: Show the graph of the model.
        config: Show the config as text.
        hparams: Show settings and scores, for comparing runs.
        charts: Show training and validation in one chart.
    """

    every: EveryText = Every(20, "step")
    histograms: EveryText | None = None
    images: Annotated[int, Field(ge=0)] = 0
    misclassified: Annotated[int, Field(ge=0)] = 0
    confusion: bool = False
    pr_curves: bool = False
    embedding: Annotated[EmbeddingShown | None, _short_for("layer", EmbeddingShown, str)] = None
    graph: bool = False
    config: bool = True
    hparams: bool = True
    charts: bool = True


class Parallel(Section):
    """`sweep.parallel`: how many trials run at a time.

    Keys:
        cpus: Trials at a time on the CPU.
        gpus: GPUs, with one trial on each.
    """

    cpus: Annotated[int, Field(ge=1, le=1024)] | None = None
    gpus: Annotated[int, Field(ge=1, le=1024)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Parallel:
        if (self.cpus is None) == (self.gpus is None):
            raise ValueError("expected either cpus or gpus, as in {cpus: 2}")
        return self


class Sweep(Section):
    """`sweep`: how `tdt tune` searches for settings. The other commands check its form and ignore it.

    At least one of trials and time, unless the sampler is grid.

    Keys:
        metric: `split/metric` whose best value in a run is compared.
        mode: Whether `min` or `max` is best; by default as the metric's own.
        search: Key path → values to try: `log(1e-4, 1)`, `float(0, 0.5)`, `int(16, 128)`, `logint(16, 1024)` or a list.
        sampler: `tpe` (Bergstra et al., 2011), `random`, or `grid` for every combination once.
        pruner: Ends trials that are worse than others were after as many validations: median, halving, hyperband or none.
        trials: Number of trials, in all.
        time: No trial starts later than this after the command.
        parallel: Trials that run at a time; by default one, on the device of the config.
    """

    metric: StrictStr
    mode: Literal["min", "max"] | None = None
    search: Annotated[dict[str, Any], Field(min_length=1)]
    sampler: Literal["tpe", "random", "grid"] = "tpe"
    pruner: Literal["median", "halving", "hyperband", "none"] = "median"
    trials: Count | None = None
    time: DurationText | None = None
    parallel: Parallel | None = None

    @model_validator(mode="after")
    def _check(self) -> Sweep:
        if self.trials is None and self.time is None and self.sampler != "grid":
            raise ValueError("has no end; set trials, time or both")
        return self


def _check_device(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", value):
        raise ValueError(f"expected auto, cpu, cuda or cuda:N, got {value!r}")
    return value


def _check_name(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"\w[\w.-]{0,99}", value):
        raise ValueError(f"expected a folder name of at most 100 letters, digits, '-', '_' and '.', got {value[:40]!r}")
    return value


class Top(Section):
    """The whole file.

    Keys:
        extends: A file, or the name of a bundled config, whose values are inherited.
        name: Name of the runs, and of their folder; by default that of the file.
        seed: Seeds every generator: the same seed gives the same bits.
        device: `cpu`, `cuda`, `cuda:N`, or `auto` for the GPU if there is one.
        dtype: Default dtype, of weights and of floating-point inputs and targets: float64 is slower and exact to 16 digits.
        imports: Python files whose layers, losses, datasets, callbacks and so on the config may name.
        data: A dataset for each split, and how samples are transformed and loaded.
        targets: Scaling of targets that are numbers.
        blocks: Parts of the model that are used several times, by `name(parameters)`.
        model: A list of layers, a mapping of names to layers, a layer or network, or a graph.
        weights: Weights to start from.
        init: Rules that initialise parameters by their names, in order.
        loss: The loss, or several by name.
        metrics: Metrics that are computed in addition to the loss.
        optimizer: The optimizer with its arguments, and `param_groups` with others.
        scheduler: The learning-rate scheduler; `interval: step` steps it after every optimizer step.
        callbacks: Callbacks of the files in `imports`, called at fixed points of the run.
        train: The length of the run, and the training step.
        checkpoint: When to save, and which checkpoints to keep.
        log: What is logged, and how often.
        sweep: How `tdt tune` searches for settings.
    """

    extends: StrictStr | None = None
    name: Annotated[StrictStr, BeforeValidator(_check_name)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**64)] = 0
    device: Annotated[StrictStr, BeforeValidator(_check_device)] = "auto"
    dtype: Literal["float32", "float64"] = "float32"
    imports: Any = None
    data: Data
    targets: Targets | None = None
    blocks: Any = None
    model: Any
    weights: Weights | None = None
    init: Any = None
    loss: Any
    metrics: Any = None
    optimizer: Any
    scheduler: Any = None
    callbacks: Any = None
    train: Train
    checkpoint: Checkpoint = Checkpoint()
    log: Log = Log()
    sweep: Sweep | None = None

    @field_validator("checkpoint", "log", mode="before")
    @classmethod
    def _empty_is_default(cls, value: Any) -> Any:
        return {} if value is None else value
