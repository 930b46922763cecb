"""Build the objects that a config declares: data, model, loss, optimizer, scheduler.

Config values end here: the objects know no config. Mistakes that only building reveals (a pattern that matches no
parameter, a layer whose size does not fit the previous one) are reported with their place, together with all others.
"""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import tdt
from tdt import nn
from tdt._launched import local_rank
from tdt.autograd._meta import meta
from tdt.optim.swa_utils import SWALR
from tdt.train._printable import counted
from tdt.train._ranks import Ranks
from tdt.train._types import Json
from tdt.train.checks.labels import check_labels
from tdt.train.checks.log import check_log
from tdt.train.checks.shapes import BATCH, Row, check_shapes
from tdt.train.checks.unused import check_used
from tdt.train.config import Component, Config, ConfigErrors, Draft, InitRule, ParamGroup, registry
from tdt.train.config.config import SPLITS
from tdt.train.config.metrics import Measure
from tdt.train.config.patterns import check_patterns, matching
from tdt.train.config.precision import default_dtype
from tdt.train.data.class_weights import balance_classes
from tdt.train.data.fingerprints import source_files
from tdt.train.data.loading import Split, batch_of, make_loader, open_splits, unsharded
from tdt.train.data.nested import InMemoryDataset, mapped
from tdt.train.data.overfit import few_batches
from tdt.train.data.sampling import check_sampler
from tdt.train.data.shards import Shards, possible_ranks, seed_all
from tdt.train.data.stream import check_streams, in_order, is_stream
from tdt.train.data.targets import known_targets
from tdt.train.errors import EXPECTED_ERRORS, reason
from tdt.train.loop.parts import Parts
from tdt.train.loop.shard_optimizer import Owners
from tdt.train.metrics import Metric
from tdt.train.model.freezing import KEY as FREEZE
from tdt.train.model.freezing import freeze
from tdt.train.model.from_config import CONSTRUCTOR_ERRORS, FailedLayer, build_model, build_objective, create
from tdt.train.model.memory_format import use_channels_last
from tdt.train.model.objective import Objective
from tdt.train.model.scheduling import build_scheduler
from tdt.train.model.target_statistics import check_targets, fit_targets, saved_targets
from tdt.utils.data import TensorDataset

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def build(
    config: Config | Draft,
    *,
    training: bool = True,
    splits: tuple[str, ...] = SPLITS,
    data_state: Json | None = None,
    resumed: bool = False,
    dry_run: bool = False,
    ranks: Ranks | None = None,
) -> Parts:
    """Build and check everything that `config` declares.

    The data order, the augmentation and the default generator are each seeded with `seed`: the model is built after
    `tdt.manual_seed(seed)`, and the default generator, which dropout uses, is seeded again at the end, as are Python's
    and NumPy's. Suspicious settings, such as a cosine schedule shorter than the run, raise a UserWarning.

    Args:
        training: False leaves out optimizer and scheduler, and reads the training split like the others.
        splits: the splits that get a loader; files that only the others need may be missing.
        data_state: facts about the training rows (`data_state` of a checkpoint), to which dataset and targets were
            fitted; by default they are fitted now.
        resumed: the run has already begun with this config: its length is not checked again, and its schedule stays.
        dry_run: nothing will be computed: weights are on the device meta. Missing files of all splits are reported.
        ranks: the processes that train together, each with its part of the batches; None: batches are not cut into shards.
    Raises:
        ConfigError: with every mistake, before the data are prepared.
    """
    draft = config.draft() if isinstance(config, Config) else config
    if draft.errors:
        with default_dtype("float32"):
            _check_readable_sections(draft, splits, data_state, dry_run)
    valid = draft.finish()
    if ranks is not None:
        ranks.set_stall_timeout(valid.train.stall_timeout.seconds)  # of this rank's data too
    if ranks is not None and training:
        valid = _choose_shards(valid, ranks, resumed, draft.errors)
    with default_dtype(valid.dtype):
        parts, opened = _build_parts(draft, valid, training, splits, data_state, resumed, dry_run)
        parts.ranks = ranks or parts.ranks
        if ranks is not None and training and (count := valid.train.shards or 1) > 1:
            parts.shards = Shards(count, ranks, valid.seed, valid.train.accumulate)
        if training:
            _build_training(parts, resumed, draft.errors)
        draft.errors.raise_if_any()
        for name in (name for name in opened if name in splits):
            _add_loader(parts, name, opened[name], training, draft.errors)
    draft.errors.raise_if_any()
    seed_all(valid.seed)
    _warn(parts, draft.errors)
    return parts


def _choose_shards(config: Config, ranks: Ranks, resumed: bool, errors: ConfigErrors) -> Config:
    """The config with the number of shards: as many as ranks, unless it has one. Reports other numbers of ranks."""
    if config.train.shards is None and ranks.size > 1 and not resumed:
        config = replace(config, train=config.train.model_copy(update={"shards": ranks.size}))
    shards = config.train.shards or 1
    if ranks.size not in (possible := possible_ranks(shards)):
        message = (
            f"{counted(shards, 'shard')} cannot be computed by {counted(ranks.size, 'process', 'processes')}; start "
            f"{' or '.join(map(str, possible))}" + ("" if resumed else ", or set another number of shards")
        )
        errors.add("train.shards", message)
        errors.raise_if_any()
    return config


def _check_readable_sections(draft: Draft, splits: tuple[str, ...], data_state: Json | None, dry_run: bool) -> None:
    """Check data and model of a config with mistakes, as far as these can be read. Raises ConfigError with all mistakes."""
    fitted = None if data_state is None else data_state["state"]
    opened = open_splits(draft.data, draft.errors, splits, fitted, dry_run) if draft.data else {}
    if draft.model:
        tdt.manual_seed(0)
        with tdt.device("meta") if dry_run else nullcontext():
            model, sources = build_model(draft.model, draft.errors)
            _check_model(draft, model, sources, opened, None, [])
    draft.errors.raise_if_any()


def _build_parts(
    draft: Draft,
    config: Config,
    training: bool,
    splits: tuple[str, ...],
    data_state: Json | None,
    resumed: bool,
    dry_run: bool,
) -> tuple[Parts, dict[str, Split]]:
    """Model, loss and data of a valid config, and its opened splits. Raises ConfigError with all mistakes so far."""
    errors = draft.errors
    needed = (*splits, "train") if splits and config.train.class_weights else splits
    fitted_to = None if data_state is None else data_state["state"]
    opened = open_splits(config.data, errors, needed, fitted_to, dry_run, config.seed)
    config = _for_streams(config, {name: split.dataset for name, split in opened.items()}, training, errors)
    rows_of_train = opened["train"].dataset if "train" in opened else None
    facts = opened["train"].facts() if "train" in opened else {}
    whole, opened = opened, few_batches(opened, config)
    train = opened.get("train")
    if training and train is not None:
        check_sampler(train.dataset, config.data.loader, errors)
    loss, metrics = build_objective(config.loss, errors), _metrics(config, errors)
    tdt.manual_seed(config.seed)
    with tdt.device("meta") if dry_run else nullcontext():
        model, sources = build_model(config.model, errors)
        rows = _check_model(draft, model, sources, opened, loss, metrics)
    if train is not None and rows and loss is not None and config.train.class_weights:
        balance_classes(train.dataset, rows[-1].shape[0], loss.main, errors)
    if config.train.sync_batchnorm and training:
        model = _synchronized(model, errors)
    if training and train is not None:
        _check_batches(config, train, model, rows, errors)
    if rows_of_train is not None and loss is not None and not errors:
        if config.targets is not None:
            fitted = (
                fit_targets(rows_of_train, loss, config.targets.scale, errors)
                if data_state is None
                else saved_targets(data_state.get("targets", {}), rows_of_train, loss, errors)
            )
            facts["targets"] = fitted
            if not errors:
                loss.scale_targets(fitted)
        elif training and not resumed:
            check_targets(rows_of_train, loss, errors)
    for name, split in whole.items() if loss is not None and not errors else ():
        if split.loaded and loss is not None and (labels := known_targets(split.dataset)) is not None:
            check_labels(name, split, labels, loss, errors)
    if training and rows and loss is not None:
        check_log(config, model, loss, facts, errors)
    device = find_device(config, errors)
    errors.raise_if_any()
    assert loss is not None

    initialize(config, model, errors)
    parts = _place(config, device, model, loss, rows, dry_run)
    parts.sources = sources
    parts.facts, parts.samples = facts, {name: len(split.dataset) for name, split in opened.items()}
    return parts, opened


def _synchronized(model: nn.Module, errors: ConfigErrors) -> nn.Module:
    """The model with a SyncBatchNorm for each batch norm."""
    if not any(isinstance(layer, BATCH_NORMS) for layer in model.modules()):
        errors.add("train.sync_batchnorm", "is not used: the model has no batch norm", kind="unused")
    return nn.SyncBatchNorm.convert_sync_batchnorm(model)


def _for_streams(config: Config, datasets: dict[str, Any], training: bool, errors: ConfigErrors) -> Config:
    """The config with the loader of a stream in order. Reports settings that do not fit streams."""
    uses = {"train.class_weights": config.train.class_weights, "targets": config.targets} if training else {}
    before = len(errors.problems)
    check_streams(config.data, datasets, uses, errors)
    if len(errors.problems) > before:  # to check the rest, all samples would be read
        errors.raise_if_any()
    if "train" not in datasets or not is_stream(datasets["train"]):
        return config
    return replace(config, data=replace(config.data, loader=in_order(config.data.loader)))


def _build_training(parts: Parts, resumed: bool, errors: ConfigErrors) -> None:
    """What trains the model: frozen parameters, length, optimizer and schedulers."""
    parts.frozen_norms = freeze(parts.config, parts.model, errors)
    parts.config = parts.config.with_length(parts.length.epochs, parts.length.steps, errors)
    build_optimizer(parts, errors, resumed)
    if parts.config.train.shard_optimizer and parts.ranks.size > 1:
        parts.owners = Owners([p for p in parts.model.parameters() if p.requires_grad], parts.ranks)
        if parts.optimizer is not None:
            parts.owners.drop_other_state(parts.optimizer)
    check_used(parts, resumed, errors)
    created = [create(registry.callbacks, callback, errors) for callback in parts.config.callbacks]
    parts.callbacks = tuple(callback for callback in created if callback is not None)


def _metrics(config: Config, errors: ConfigErrors) -> list[tuple[Measure, Metric]]:
    """The metrics besides the loss that could be created, each with its declaration."""
    declared = [measure for name, measure in config.metrics.items() if name != "loss"]
    created = [(measure, create(registry.metrics, measure.component, errors)) for measure in declared]
    return [(measure, metric) for measure, metric in created if metric is not None]


def _warn(parts: Parts, errors: ConfigErrors) -> None:
    parts.warnings = tuple(errors.warnings)
    for problem in parts.warnings:
        if problem.kind != "download":
            warnings.warn(str(problem), UserWarning, stacklevel=3)  # in the line that calls `build`


def build_alone(config: Config, facts: Json) -> Parts:
    """Model and loss of a checked config, without its data: `facts` about these come from a checkpoint."""
    with default_dtype(config.dtype):
        return _build_alone(config, facts)


def _build_alone(config: Config, facts: Json) -> Parts:
    errors = config.draft().errors
    model, _ = build_model(config.model, errors)
    loss = build_objective(config.loss, errors)
    device = find_device(config, errors)
    errors.raise_if_any()
    assert loss is not None
    with meta():  # lazy layers learn their sizes
        model.eval()(batch_of(facts["input"], BATCH))
    loss.scale_targets(facts.get("targets", {}))
    parts = _place(config, device, model, loss, [])
    parts.facts = facts
    return parts


def _check_model(
    draft: Draft,
    model: nn.Module,
    sources: dict[nn.Module, Component],
    opened: dict[str, Split],
    loss: Objective | None,
    metrics: list[tuple[Measure, Metric]],
) -> list[Row]:
    whole = not any(isinstance(layer, FailedLayer) for layer in model.modules())
    rules: tuple[InitRule | ParamGroup, ...] = (*draft.init, *draft.param_groups) if whole else ()
    for rule in rules:
        check_patterns(model, rule.params, rule, f"{rule.key_path}.params", draft.errors)
    if whole:
        check_patterns(model, draft.freeze, FREEZE, FREEZE, draft.errors)
    return check_shapes(model, sources, opened["train"], loss, metrics, draft.errors) if "train" in opened else []


def _place(
    config: Config, device: tdt.device, model: nn.Module, loss: Objective, rows: list[Row], dry_run: bool = False
) -> Parts:
    """Move model and loss to the device, and choose the memory format that `Parts.place` gives to the batches."""
    order, augment = (tdt.Generator().manual_seed(config.seed) for _ in range(2))
    model = model if dry_run else model.to(device)
    loss.saves_call = any(measure.parts for measure in config.metrics.values())
    return Parts(
        model=model,
        loss=loss.to(device),
        rows=rows,
        channels_last=use_channels_last(model),
        data_generator=order,
        augment_generator=augment,
        config=config,
        device=device,
    )


def find_device(config: Config, errors: ConfigErrors) -> tdt.device:
    """The device of the config; "auto" is a GPU, or the CPU if there is none. A GPU becomes the current one, which CuPy uses.

    A GPU without a number is the first one, or with several processes on this machine, each one's own.
    """
    count = _gpu_count() if config.device != "cpu" else 0
    own = local_rank() % count if count else 0
    device = tdt.device(("cuda" if count else "cpu") if config.device == "auto" else config.device)
    if device.type == "cuda":
        index = own if device.index is None else device.index
        device = tdt.device("cuda", index)
        if index >= count:
            errors.add("device", f"{config.device} is not available: {counted(count, 'GPU')} found; use cpu or auto")
            return device
    if device.type == "cuda":
        tdt.cuda.set_device(device)
    return device


def _gpu_count() -> int:
    from tdt._backend import cuda_device_count

    return cuda_device_count()


def _add_loader(parts: Parts, name: str, split: Split, training: bool, errors: ConfigErrors) -> None:
    """Create the split's loader; report a sample that cannot be read."""
    data = parts.config.data
    trains = training and name == "train"
    generators = (parts.data_generator, parts.augment_generator) if trains else ()
    parts.files[name] = source_files(split.dataset)
    parts.notes[name] = split.dataset.notes() if hasattr(split.dataset, "notes") else []
    try:
        how = {"shards": parts.shards} if trains else {"ranks": parts.ranks}
        loader = make_loader(split, data.loader if trains else data.eval_loader, *generators, **how)
        parts.loaders[name] = loader
        dataset = unsharded(loader)
        in_memory = isinstance(dataset, (TensorDataset, InMemoryDataset))
        if in_memory and known_targets(split.dataset) is None:  # those of others are checked already
            check_labels(name, split, mapped(lambda side: side.numpy(), dataset[:][1]), parts.loss, errors)
    except EXPECTED_ERRORS as error:
        errors.add(split.component, f"cannot be read: {reason(error)}")


def initialize(config: Config, model: nn.Module, errors: ConfigErrors) -> None:
    """Apply the `init` rules in order."""
    for rule in config.init:
        initializer = registry.initializers.find(rule.function.name)
        assert initializer is not None
        for name, p in matching(model, rule.params):
            try:
                initializer(p, *rule.function.args, **rule.function.kwargs)
            except CONSTRUCTOR_ERRORS as error:
                errors.add(rule.function, f"on {name} of shape {tuple(p.shape)}: {error}")
                break


def build_optimizer(parts: Parts, errors: ConfigErrors, resumed: bool = False) -> None:
    """Create the optimizer and the scheduler. Parameter group 0 has the parameters that no pattern matches.

    resumed: as in `build`.
    """
    config, model = parts.config, parts.model
    owner: dict[str, int] = {}
    for number, group in enumerate(config.optimizer.param_groups, 1):
        for name, _ in matching(model, group.params):
            if name in owner:
                other = config.optimizer.param_groups[owner[name] - 1]
                message = f"{name} is also in the group of line {other.source.line}; a parameter belongs to one group"
                errors.add(group, message, kind="duplicate-key", key=f"{group.key_path}.params")
            owner[name] = number
    if errors:
        return
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    members = [
        [(n, p) for n, p in named if owner.get(n, 0) == i] for i in range(len(config.optimizer.param_groups) + 1)
    ]
    options: list[dict[str, Any]] = [{}, *(group.options for group in config.optimizer.param_groups)]
    groups = [{"params": [p for _, p in m], **o} for m, o in zip(members, options, strict=True) if m]
    parts.groups = [(name, i) for i, m in enumerate(members) for name, _ in m]
    parts.optimizer = create(registry.optimizers, config.optimizer.component, errors, groups)
    if parts.optimizer is None:
        return
    numbers = [number for number, m in enumerate(members) if m]
    for number, settings in zip(numbers, parts.optimizer.param_groups, strict=True):
        if not (math.isfinite(settings["lr"]) and settings["lr"] >= 0):
            place = config.optimizer.param_groups[number - 1] if number else config.optimizer.component
            errors.add(place, f"lr must be a finite number, at least 0, got {float(settings['lr'])}")
    parts.scheduler = build_scheduler(parts, errors, resumed)
    swa = config.train.swa
    if swa is not None and swa.lr is not None:
        parts.swa_scheduler = SWALR(parts.optimizer, swa.lr, swa.anneal_epochs, swa.anneal_strategy)


def _check_batches(config: Config, split: Split, model: nn.Module, rows: list[Row], errors: ConfigErrors) -> None:
    """Report loaders whose epochs have no batch, or whose last batch is too small for a batch norm."""
    loader, samples = config.data.loader, len(split.dataset)
    if loader.drop_last and loader.batch_size > samples:
        message = (
            f"leaves no batch: {split.component} has {counted(samples, 'sample')}, batch_size is {loader.batch_size}"
        )
        errors.add("data.loader.drop_last", message)
    shards = config.train.shards or 1
    if loader.batch_size < shards:
        errors.add("train.shards", f"of {shards}, some have no sample: data.loader.batch_size is {loader.batch_size}")
    sizes = {loader.batch_size} if samples >= loader.batch_size else set()
    if samples % loader.batch_size and not loader.drop_last:
        sizes.add(samples % loader.batch_size)
    for row in rows:
        layer = model.get_submodule(row.name)
        parts = 1 if isinstance(layer, nn.SyncBatchNorm) else shards  # into which a batch is cut for its statistics
        alone = any(max(size // parts, 1) == 1 for size in sizes)  # whether a shard, or a batch, has one sample
        if alone and isinstance(layer, BATCH_NORMS) and math.prod(row.shape[1:]) == 1:
            advice = (
                "set drop_last: true, or another batch_size" if loader.batch_size // parts > 1 else "set a larger one"
            )
            what = "a shard" if parts > 1 else "a batch"
            message = f"leaves {what} of 1 sample, and {row.name} ({row.layer}) needs 2 to train; {advice}"
            errors.add("data.loader.batch_size", message)
    for row in rows if shards > 1 else ():
        layer = model.get_submodule(row.name)
        if getattr(layer, "sparse", False) is True:
            errors.add("train.shards", f"{row.name} ({row.layer}) has sparse gradients; set sparse: false")
