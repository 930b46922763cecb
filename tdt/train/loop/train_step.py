"""One optimizer step: gradients of one or several batches, clipping, linear warm-up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tdt
from tdt import Tensor, no_grad
from tdt._kernels import on_one_gpu
from tdt.amp import GradScaler
from tdt.amp._on_gpu import ScaleOnGpu
from tdt.amp.grad_scaler import multiply
from tdt.train._types import Json
from tdt.train.checks.compiling import Compilation, compilation
from tdt.train.errors import CompileError
from tdt.train.loop.graphed_step import GraphedStep
from tdt.train.loop.mixup import Mixup
from tdt.train.loop.parts import Parts
from tdt.train.loop.shares import Shares
from tdt.train.loop.split_step import SplitStep
from tdt.train.loop.whole_step import NotFinite, WholeStep, clip, total_norm
from tdt.train.metrics import Metric
from tdt.train.model.computation import CHECK_EVERY, Losses


class TrainStep:
    """One training step with gradient accumulation: `forward` and `backward` for each batch, then `step`.

    The gradient is that of the loss over the union of the batches: of the mean over all samples (or class weights), also
    if batches differ in size. With `train.amp: float16` a GradScaler scales the loss; a step on which a gradient overflows
    changes no weights, and is counted in `skipped`.

    place: of what is loaded or computed now: the number of the batch in its step, and of its shard.
    """

    place = (0, 0)
    stops: Sequence[str | None] = ()  # why each of several ranks asks to stop

    def __init__(self, parts: Parts, steps_per_epoch: int) -> None:
        self.parts, self.train = parts, parts.config.train
        self.mixup = Mixup(self.train.mixup, parts.augment_generator) if self.train.mixup else None
        warmup = self.train.warmup
        self.warm_after = 0 if warmup is None else warmup.count * (steps_per_epoch if warmup.unit == "epoch" else 1)
        self.reading = parts.loss.reading
        self.scaler = GradScaler(parts.device.type, enabled=self.train.amp == "float16")
        self.skipped = 0
        self._norm: Tensor | None = None  # gradient norm of the last step, if clipping computed it
        self.computation = parts.computation(parts.model)
        self.whole: WholeStep | None = None  # once the computation of the loss is known to be small
        self.split: SplitStep | None = None  # the same, where a step is no function of one batch
        self.graphed: GraphedStep | None = None  # on a GPU
        self._metrics = {name: m for name, m in parts.new_metrics().items() if _may_be_in_graph(m)}
        self._sums: dict[str, Any] = {}  # what these have of the batch, if a graph has computed it
        self._number = 0
        self._takes_whole = True  # unless they turn out not to be compiled
        self._is_taken = False  # whether `forward` has taken the step
        self._is_counted = False  # whether `forward` has counted the batch, and added the gradients
        self.compares = False  # whether this step is computed both ways, compiled and not
        self.scale: ScaleOnGpu | None = None  # of split steps on a GPU
        self._lowered = 0  # how many steps have lowered that one, of those in `skipped`
        self._shares = Shares()

    def batches(self, group: Iterable[Any], number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """What of a step's batches is computed at a time: each of them. number: of the step, from 1."""
        return iter(group)

    def run(self, group: Iterable[Any], number: int, compute: Callable[[Tensor, Tensor], bool]) -> None:
        """Call `compute` with what is computed at a time, until it returns False. number: of the step, from 1."""
        self.compares, self._number = number % CHECK_EVERY == 0, number
        for inputs, targets in self.batches(group, number):
            if not compute(inputs, targets):
                break

    def forward(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the output and the target that metrics compare, and the loss.

        Raises:
            Difference: the compiled step of `compares` differs from the ordinary one.
        """
        objective, check = self.parts.loss, self.compares
        if self.whole is None and self._runs_whole():
            train = self.train
            self.whole = WholeStep(
                self.computation.forward, self.parts.optimizer, train.clip_grad_value, train.clip_grad_norm
            )
            self.computation.compiled["step"] = self.whole.compiled
        if self.whole is not None:
            return self._take_whole(self.whole, inputs, targets)
        self._begin_batch()
        if self.split is not None:
            factor, self._is_counted = self._factor(targets), True
            if factor is not None:
                return self._add(self.split, factor, inputs, targets)
        if self.graphed is None and self._runs_graphed():
            train = self.train
            clipping = train.clip_grad_value, train.clip_grad_norm
            self.graphed = GraphedStep(self.computation.forward, self.parts.optimizer, *clipping, self._measure)
        if self.graphed is not None and (found := self._replay(self.graphed, inputs, targets)) is not None:
            return found
        self._clear()
        if self.mixup is None:
            output, loss, terms, _ = self.computation("losses", inputs, targets, check=check)
        else:  # if the target is the input (an autoencoder), it is the mixed one
            inputs, others, share = self.mixup(inputs, targets)
            output, own, terms, theirs = self.computation("mixed", inputs, targets, others, check=check)
            loss = own.lerp(theirs, 1 - share)
        objective.remember(output, targets, inputs, terms)
        return *objective.compared(output, targets, inputs), loss

    def _begin_batch(self) -> None:
        """Begin the sum of the gradients before the first batch of a step."""
        if not self._shares.count:
            self._choose()
            if self.split is not None:
                self.split.begin()

    def _choose(self) -> None:
        """Choose, at the beginning of a step, whether it is split."""
        if self.split is not None:
            self.split.compares = self.compares
            if self.split.is_refused:  # the losses alone are compiled
                self.split, self._takes_whole = None, False
                if self.scale is not None:
                    self.read()
                    self.scale.close()
                    self.scale = None
        elif self._runs_split():
            train = self.train
            forward, device = self.computation.forward, self.parts.device
            clipping = train.clip_grad_value, train.clip_grad_norm
            self.split = SplitStep(forward, self.parts.optimizer, *clipping, device)
            self.computation.compiled.update(self.split.compiled)
            if self.scaler.is_enabled() and on_one_gpu(self.split.stages.parameters()) is not None:
                self.scale = ScaleOnGpu(self.scaler, self.parts.optimizer)
        if self.scale is not None:
            self.scale.begin()

    def _runs_split(self) -> bool:
        fits = self._takes_whole and not self._is_one_batch() and WholeStep.fits(self.parts.optimizer)
        if not fits or not SplitStep.fits(self.parts.model):
            return False
        if self.parts.device.type == "cuda":
            return self.parts.shards is None and self.parts.why_called_anew(self.parts.model) is None
        return self.computation.is_small(self._own_loss)

    def _add(
        self, split: SplitStep, factor: float | Tensor, inputs: Any, targets: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`forward` and `backward`."""
        factors = [] if not isinstance(factor, Tensor) and factor == 1 else [factor]
        if self.scale is not None:
            factors.append(self.scale.factor)
        elif self.scaler.is_enabled():
            factors.append(float(self.scaler.scale(tdt.ones((), dtype=tdt.float64))))
        others, share = None, 1.0
        if self.mixup is not None:
            inputs, others, share = self.mixup(inputs, targets)
        try:
            found = split.add(inputs, targets, factors, others, None if self.mixup is None else 1 - share)
        except NotFinite as error:
            return targets, targets, tdt.tensor(error.loss)  # of which the trainer reads the loss alone
        self.parts.loss.remember(found.output, targets, inputs, found.terms)
        return *self.parts.loss.compared(found.output, targets, inputs), found.loss

    def _runs_whole(self) -> bool:
        """Whether steps are computed as one function: those of small models, which spend most of their time between ops."""
        return self._takes_whole and self._is_one_batch() and self.computation.is_small("losses")

    def _runs_graphed(self) -> bool:
        is_on_gpu = self.parts.device.type == "cuda" and self._is_one_batch()
        return is_on_gpu and self.parts.why_called_anew(self.parts.model) is None

    def _is_one_batch(self) -> bool:
        """Whether a step is a function of one batch, and takes the optimizer's step in any case."""
        is_alone = self.train.accumulate == 1 and self.mixup is None and self.parts.shards is None
        return is_alone and not self.scaler.is_enabled() and WholeStep.fits(self.parts.optimizer)

    def _replay(self, graphed: GraphedStep, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        with self._warmed_up(self._number):
            found = graphed(inputs, targets)
        if found is None:
            return None
        (output, loss, terms, _), self._norm, self._sums = found
        self._is_taken = True
        self.parts.loss.remember(output, targets, inputs, terms)
        return *self.parts.loss.compared(output, targets, inputs), loss

    def _measure(self, losses: Losses, inputs: Any, targets: Any) -> dict[str, Any]:
        """What metrics take of a batch, which the next replay overwrites."""
        objective = self.parts.loss
        objective.remember(losses.output, targets, inputs, losses.terms)
        compared = objective.compared(losses.output, targets, inputs)
        return {name: metric.batch_sum(*compared, losses.loss) for name, metric in self._metrics.items()}

    def sums(self, metrics: Mapping[str, Metric], output: Tensor, target: Tensor, loss: Tensor) -> dict[str, Any]:
        """What metrics take of the batch of which `forward` has returned these."""
        known, self._sums = self._sums, {}
        return {
            name: known[name] if name in known else metric.batch_sum(output, target, loss)
            for name, metric in metrics.items()
        }

    def _take_whole(self, whole: WholeStep, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        objective = self.parts.loss
        try:
            with self._warmed_up(self._number):
                (output, loss, terms, _), self._norm = whole(inputs, targets, self.compares)
        except NotFinite as error:
            return targets, targets, tdt.tensor(error.loss)  # of which the trainer reads the loss alone
        self._is_taken = True
        if whole.compiled.refusals:  # the losses alone are compiled
            self.whole, self._takes_whole = None, False
        objective.remember(output, targets, inputs, terms)
        return *objective.compared(output, targets, inputs), loss

    @property
    def compilation(self) -> Compilation | None:
        """How steps are computed; None while that is not known yet."""
        if self.graphed is not None:
            return self.graphed.compilation
        names: tuple[str, ...] = (self._own_loss,)
        if self.whole is not None or self._runs_whole():
            names = ("step",)
        elif self.split is not None or "gradients" in self.computation.compiled or self._runs_split():
            names = self._stages()
        return compilation(self.parts, self.computation, names)

    def _stages(self) -> tuple[str, ...]:
        """The stages of a split step."""
        unscales = self.scaler.is_enabled() and self.parts.device.type == "cpu"
        return ("gradients", *(["unscaling"] if unscales else []), "update")

    @property
    def _own_loss(self) -> str:
        """The name of the function that computes the loss."""
        return "losses" if self.mixup is None else "mixed"

    def counts(self, targets: Tensor) -> bool:
        """Whether a loss that is NaN is an error; not for a shard whose targets are all ignored."""
        return True

    def fail(self, error: Exception) -> None:
        """End the step with an error."""
        raise error

    def _clear(self) -> None:
        """Clear the gradients before the first batch of a step."""
        if not self._shares.count:
            self.parts.optimizer.zero_grad()

    def backward(self, loss: Tensor, targets: Tensor) -> None:
        """Accumulate the gradients of a batch's loss."""
        if self._is_taken or self._is_counted:
            self._is_counted = False
        elif (factor := self._factor(targets)) is not None:
            self.scaler.scale(loss if factor == 1 else loss * factor).backward()

    def _factor(self, targets: Tensor) -> float | Tensor | None:
        """Count a batch. Returns by what its loss is multiplied; None if nothing in it counts."""
        alone = self.train.accumulate == 1 or self.reading.is_sum
        stays = self.split is not None and self.split.is_on_gpu
        return self._shares.add(1.0 if alone else self.reading.share(targets), stays)

    def step(self, number: int) -> None:
        """Clip the gradients and update the weights. number: of the step, from 1."""
        if self._is_taken:
            self._is_taken = False
            return
        factor = 1.0 if self.reading.is_sum else self._shares.factor
        self._shares.clear()
        if self.split is not None:
            self.split.put()
        self._update(number, factor)

    def _update(self, number: int, factor: float | Tensor) -> None:
        """Unscale and clip the gradients, and update the weights. factor: as in `_adjust`."""
        split = self.split
        if split is not None:
            split.take()
        self._unscale()
        with self._warmed_up(number):
            if split is not None and self.scale is not None:
                self._update_on_gpu(split, self.scale, factor)
            elif split is None or any(self.scaler._found.values()):
                self._adjust(factor)
                self._step_optimizer(lambda: self.scaler.step(self.parts.optimizer))
            else:
                self._step_optimizer(lambda: self._update_split(split, factor))
        if split is not None:
            split.leave()
        if self.compares:
            difference, where = None if split is None else split.difference, f"step {number}, after its gradients"
            self._agree(None if difference is None else CompileError.of(difference, self.parts.model, where))

    def _update_split(self, split: SplitStep, factor: float | Tensor) -> None:
        self._norm = split.update(factor, None)

    def _update_on_gpu(self, split: SplitStep, scale: ScaleOnGpu, factor: float | Tensor) -> None:
        """Update the weights, of which a step that is skipped changes none, and the scale.

        The host waits to know only where that is no replay, or where the optimizer's numbers depend on it, or callbacks see it.
        """
        if self.parts.callbacks or not (split.replays_updates and scale.may_wait()):
            scale.read()
        if scale.is_skipped:
            self._adjust(factor)
        else:
            self._update_split(split, factor)
        scale.end()
        self.parts.optimizer._opt_called = True
        if self.parts.callbacks:
            self.read()

    def read(self) -> None:
        """Let the scaler, the optimizer and `skipped` have what the GPU knows of the steps so far."""
        if self.scale is not None:
            self.scale.read()
            self.skipped += self.scale.lowered - self._lowered
            self._lowered = self.scale.lowered

    def _agree(self, error: CompileError | None) -> None:
        """Raise the error that a comparison has found."""
        if error is not None:
            raise error

    def _unscale(self) -> None:
        """Unscale the gradients, and take note of those that are not finite."""
        scaler, optimizer = self.scaler, self.parts.optimizer
        if self.scale is not None:
            grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
            self.scale.unscale(grads)
        elif self.split is None or self.split.is_on_gpu or not scaler.is_enabled():  # one launch on a GPU
            scaler.unscale_(optimizer)
        else:
            scaler._found[id(optimizer)] = not self.split.unscale(1 / scaler.get_scale())

    def _adjust(self, factor: float | Tensor) -> None:
        """Multiply the summed gradients by `factor` (the weight of the first batch relative to all) and clip them."""
        multiplies = isinstance(factor, Tensor) or factor != 1
        if not multiplies and self.train.clip_grad_value is None and self.train.clip_grad_norm is None:
            return
        parameters = list(self.parts.model.parameters())
        if multiplies:
            with no_grad():
                multiply([p.grad for p in parameters if p.grad is not None], factor)
        self._norm = clip(parameters, self.train.clip_grad_value, self.train.clip_grad_norm, self.total_norm)

    def total_norm(self) -> Tensor:
        """The norm of all gradients as one vector."""
        return total_norm(self.parts.model.parameters())

    def gather_gradients(self) -> None:
        """Let each rank have the gradients of all parameters; without `train.shard_optimizer` it has."""

    def warmup_factor(self, number: int) -> float:
        """Linear warm-up factor of the learning rate at step `number`."""
        return min(1.0, number / self.warm_after) if self.warm_after else 1.0

    def rates(self, number: int) -> dict[str, float]:
        """Learning rates and gradient norm (before clipping) of step `number`, by tag."""
        self.read()
        groups, warmup_factor = self.parts.optimizer.param_groups, self.warmup_factor(number)
        tags = ["lr"] if len(groups) == 1 else [f"lr/group{i}" for i in range(len(groups))]
        found = {tag: float(group["lr"]) * warmup_factor for tag, group in zip(tags, groups, strict=True)}
        norm = self._norm
        if norm is None:
            norm = self.total_norm()
        if self.scaler.is_enabled():
            found |= {"amp/scale": self.scaler.get_scale(), "amp/skipped_steps": float(self.skipped)}
        return found | {"grad_norm": float(norm)}

    def state_dict(self) -> Json:
        """The state of the loss scaling, in JSON types."""
        self.read()
        return {"scaler": self.scaler.state_dict(), "skipped": self.skipped}

    def load_state_dict(self, state: Json) -> None:
        """Restore a `state_dict`."""
        self.read()
        self.skipped = state["skipped"]
        self.scaler.load_state_dict(state["scaler"])

    @contextmanager
    def _warmed_up(self, number: int) -> Iterator[None]:
        """Let the learning rates be those of step `number` during a linear warm-up."""
        groups, factor = self.parts.optimizer.param_groups, self.warmup_factor(number)
        rates = [group["lr"] for group in groups]
        if factor != 1:
            for group, rate in zip(groups, rates, strict=True):
                group["lr"] = rate * factor
        try:
            yield
        finally:
            for group, rate in zip(groups, rates, strict=True):  # the scheduler's value
                group["lr"] = rate

    def _step_optimizer(self, step: Callable[[], object]) -> None:
        """Step, unless scaled gradients overflowed: then the scale is halved."""
        optimizer, before = self.parts.optimizer, self.scaler.get_scale()
        step()
        self.scaler.update()
        self.skipped += self.scaler.get_scale() < before
        optimizer._opt_called = True  # schedulers count skipped steps too, and would warn that none was taken


def _may_be_in_graph(metric: Metric) -> bool:
    """Whether a replay may compute what a metric takes of a batch: those of others may be more than a function of it."""
    return type(metric).__module__.startswith("tdt.") and not metric.keeps_batches
