"""One optimizer step with `train.shards`: the same bits on one rank and on several."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import tdt
from tdt import Tensor, _backend, nn
from tdt.nn.utils.clip_grad import _joint_norm, _norm
from tdt.train._agreement import shared
from tdt.train._types import Callback
from tdt.train.data.shards import snapshot_all
from tdt.train.errors import CompileError, NonFiniteLoss
from tdt.train.loop.evaluation import reason_to_stop
from tdt.train.loop.lockstep import Lockstep
from tdt.train.loop.parts import Parts
from tdt.train.loop.shard_sums import BufferMean, GradientSum
from tdt.train.loop.split_step import SplitStep
from tdt.train.loop.train_step import TrainStep
from tdt.train.model.computation import Computation

LOADING = -1  # in `place`, while the shards of a batch are loaded


class Result(NamedTuple):
    """What a rank knows of a step. shares: weight of each shard in the mean. samples: how many they have together.
    shards: how many of them have samples. used: parameters with a gradient. changed: buffers that were written.
    error: the one that ends the run. stop: why the run is to stop after this step.
    """

    shares: list[float]
    samples: int
    shards: int
    used: bytes
    changed: set[int]
    error: Exception | None
    stop: str | None


class ShardedStep(TrainStep):
    """A training step over the shards of its batches, of which each rank computes its own.

    A shard's loss counts by its samples (or weights), as in the mean over the union of all batches. Before a shard the
    generators are seeded with a hash of seed, step and shard, and buffers have their values from before the step.
    """

    def __init__(self, parts: Parts, steps_per_epoch: int, check_stop: Callback = lambda: None) -> None:
        super().__init__(parts, steps_per_epoch)
        assert parts.shards is not None
        self.shards, self.check_stop = parts.shards, check_stop
        if self.mixup is not None:
            self.mixup.generator = tdt.default_generator
        # Gradients are summed relative to this weight, that of a step with full batches, so that their size is that of a mean.
        self.nominal = float(parts.config.data.loader.batch_size * self.train.accumulate)
        trained = [p for p in parts.model.parameters() if p.requires_grad]
        rounds = self.train.reduce_dtype == "bfloat16"
        self.gradients = GradientSum(trained, parts.ranks, parts.owners, rounds)
        self.buffers = BufferMean(parts.model, parts.ranks)
        self.lockstep = self._synchronized()
        if self.lockstep is not None:
            reason = "SyncBatchNorm layers exchange statistics between the shards of a batch, which is computed layer by layer"
            self.computation = Computation(self.computation.forward, self.computation.reason or reason)
        self._saved: dict[int, tuple[list[Tensor | None], tuple[int, int], Callable[[], None]]] = {}
        self._errors: dict[int, Exception] = {}  # found in this step by this rank, by shard
        self.samples = 0  # of the last step, on all ranks
        self.place = 0, LOADING

    def _synchronized(self) -> Lockstep | None:
        """Let the SyncBatchNorm layers of the model take the statistics of all shards; None if it has none."""
        norms = [layer for layer in self.parts.model.modules() if isinstance(layer, nn.SyncBatchNorm)]
        lockstep = Lockstep(self.shards, self._enter, self._leave) if norms else None
        for norm in norms:
            norm.process_group = lockstep
        return lockstep

    def batches(self, group: Iterable[Any], number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The parts of the batches that this rank computes, shard by shard; a shard begins and ends between them."""
        own = self.shards.own
        self._begin()
        for shard, parts in self._loaded(group):
            self.gradients.clear()
            if (part := next(parts, None)) is not None:
                self.buffers.enter(shard - own.start)
                self.shards.seed_for("step", number, shard)
            while part is not None:
                (batch, (inputs, targets)), part = part, next(parts, None)
                self.place = batch, shard
                if shard == own[-1] and part is None:
                    self.gradients.arm()
                yield self.parts.place(inputs), self.parts.place(targets)
                if part is None:
                    self.buffers.leave(shard - own.start)
            if self.split is not None:
                self.split.put(copies=shard != own[-1])
            if shard != own[-1]:
                self.gradients.push()

    def _begin(self) -> None:
        """Begin a step."""
        count = len(self.shards.own)
        self._choose()
        self.gradients.listen(self.split is None)
        if self.split is not None:
            self.split.begin()
        self.gradients.begin()
        self.buffers.begin(count)
        self._of_shards, self._sizes = [0.0] * count, [0] * count

    def _loaded(self, group: Iterable[Any]) -> Iterator[tuple[int, Iterator[tuple[int, Any]]]]:
        """This rank's shards, each with its parts of the batches, by their number.

        The batches of several shards are loaded first, since a shard is computed after the other; those of one, as they come.
        """
        own, each = self.shards.own, self._numbered(group)
        items = each if len(own) == 1 else list(each)
        for i, shard in enumerate(own):
            yield shard, ((batch, item[i]) for batch, item in items if item[i] is not None)

    def _numbered(self, group: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """The batches with their numbers. Loading one changes no state of the generators that a shard draws from."""
        each = iter(group)
        for number in range(self.train.accumulate):
            restore_generators = snapshot_all() if number else None
            self.place = number, LOADING
            item = next(each, None)
            if restore_generators is not None:
                restore_generators()
            if item is None:
                return
            yield number, item

    def run(self, group: Iterable[Any], number: int, compute: Callable[[Tensor, Tensor], bool]) -> None:
        if self.lockstep is None:
            super().run(group, number, compute)
            return
        self._begin()
        shards, self._saved = [(shard, list(parts)) for shard, parts in self._loaded(group)], {}
        work = {shard: partial(self._compute, number, shard, parts, compute) for shard, parts in shards if parts}
        self.lockstep.run(work)
        for shard, _ in shards:
            self._set_gradients(shard)
            if shard != shards[-1][0]:
                self.gradients.push()
        self._saved = {}

    def _compute(
        self, number: int, shard: int, parts: list[tuple[int, Any]], compute: Callable[[Tensor, Tensor], bool]
    ) -> None:
        """Compute a shard, in a thread of its own, which begins on the first GPU."""
        assert self.lockstep is not None
        self.shards.seed_for("step", number, shard)
        with _backend.current(self.parts.device):
            for batch, (inputs, targets) in parts:
                self.place = batch, shard
                self.lockstep.begin(batch)
                if not compute(self.parts.place(inputs), self.parts.place(targets)):
                    return

    def _enter(self, shard: int) -> None:
        """Restore what belongs to a shard: buffers, gradients, generators, place."""
        self.buffers.enter(shard - self.shards.own.start)
        self._set_gradients(shard)
        if shard in self._saved:
            _, self.place, restore_generators = self._saved[shard]
            restore_generators()

    def _leave(self, shard: int) -> None:
        """Keep what belongs to a shard."""
        self.buffers.leave(shard - self.shards.own.start)
        self._saved[shard] = [p.grad for p in self.gradients.parameters], self.place, snapshot_all()

    def _set_gradients(self, shard: int) -> None:
        parameters = self.gradients.parameters
        saved = self._saved[shard][0] if shard in self._saved else [None] * len(parameters)
        for p, gradient in zip(parameters, saved, strict=True):
            if p.grad is not gradient:
                p.grad = gradient

    def _begin_batch(self) -> None:
        """Sums begin shard by shard."""

    def _factor(self, targets: Tensor) -> float | None:
        share, place = self.share(targets), self.place[1] - self.shards.own.start
        self._of_shards[place] += share
        self._sizes[place] += len(targets)
        return None if not share else 1.0 if self.reading.is_sum else share / self.nominal

    def counts(self, targets: Tensor) -> bool:
        return bool(self.share(targets))

    def fail(self, error: Exception) -> None:
        """Remember an error until all ranks know of it."""
        self._errors.setdefault(self.place[1], error)

    def share(self, targets: Tensor) -> float:
        """The weight of a part in the mean: its samples that count, by the weights of their classes."""
        return float(len(targets) if self.reading.is_sum else self.reading.share(targets))

    def step(self, number: int) -> None:
        """Add the gradients of all shards, on all ranks, and update the weights.

        Raises the error that a rank has found, on all of them.
        """
        results = self._exchange()
        self.stops = [one.stop for one in results]
        bits = np.bitwise_or.reduce([np.frombuffer(one.used, np.uint8) for one in results])
        self._used = np.unpackbits(bits, count=len(self.gradients.parameters))
        self.gradients.finish(self._used)
        self.buffers.wait()
        if (found := _first_error(one.error for one in results)) is not None:
            raise shared(found)
        changed = set().union(*(one.changed for one in results))
        self.buffers.finish(changed, sum(one.shards for one in results))
        self.samples = sum(one.samples for one in results)
        total = math.fsum(share for one in results for share in one.shares)
        if not total:
            raise shared(NonFiniteLoss(number, math.nan))
        self._update(number, 1.0 if self.reading.is_sum else 1 / (total / self.nominal))
        self.shards.seed_for("after", number)  # a state that all ranks share
        self.place = 0, LOADING

    def _exchange(self) -> list[Result]:
        """Begin all that the ranks send to each other in a step, so that they wait once. Returns the results of all."""
        ranks = self.parts.ranks
        self.gradients.complete()
        error = _first_error(self._errors[shard] for shard in sorted(self._errors))
        self._errors.clear()
        used = np.packbits(self.gradients.used).tobytes()
        sizes = [size for size in self._sizes if size]
        stop = reason_to_stop(self.check_stop) if ranks.size > 1 else None
        own = Result(self._of_shards, sum(sizes), len(sizes), used, self.buffers.changed, error, stop)
        results: list[Result] = []
        begun = ranks.begin(ranks.communicator.exchange(own, results), "results of the step")
        self.buffers.begin_sums()
        begun.wait()
        return results

    def _agree(self, error: CompileError | None) -> None:
        found = _first_error(self.parts.ranks.exchange(error, "comparison of the step"))
        if found is not None:
            raise shared(found)

    def _update_split(self, split: SplitStep, factor: float | Tensor) -> None:
        self._norm = split.update(factor, None if self.parts.owners is None else self._total_of)

    def _stages(self) -> tuple[str, ...]:
        clips = self.parts.owners is not None and self.train.clip_grad_norm is not None
        first, *others = super()._stages()
        return first, *others[:-1], *(["norms"] if clips else []), *others[-1:]

    def _total_of(self, norms: Tensor) -> Tensor:
        """The norm of the gradients of all owners. norms: of each of this rank's."""
        assert self.parts.owners is not None
        return self.parts.owners.joint_norm(self._used_parameters(), norms.tolist())

    def _used_parameters(self) -> list[Tensor]:
        return [p for p, is_used in zip(self.gradients.parameters, self._used, strict=True) if is_used]

    def _unscale(self) -> None:
        """Unscale the gradients; all ranks skip the step if one has found a gradient that is not finite."""
        super()._unscale()
        if self.parts.owners is not None and self.scaler.is_enabled():
            found = self.scaler._found
            number = id(self.parts.optimizer)
            found[number] = any(self.parts.ranks.exchange(found[number], "overflow of gradients"))

    def total_norm(self) -> Tensor:
        if self.parts.owners is None:
            # Tensor by tensor, as the owners of parts: in one pass over all of them, a GPU's sum has other bits.
            norms = [_norm(p.grad, 2.0) for p in self.parts.model.parameters() if p.grad is not None]
            return _joint_norm(norms, 2.0) if norms else super().total_norm()
        return self.parts.owners.total_norm(self._used_parameters())

    def _step_optimizer(self, step: Callable[[], object]) -> None:
        super()._step_optimizer(step)
        if self.parts.owners is not None:
            self.gradients.gather(lambda p: p, Tensor.copy_)

    def gather_gradients(self) -> None:
        if self.parts.owners is not None:
            self.gradients.gather(lambda p: p.grad, lambda p, value: setattr(p, "grad", value))
            for p, used in zip(self.gradients.parameters, self._used, strict=True):
                p.grad = p.grad if used else None

    def _clear(self) -> None:
        """Gradients are cleared shard by shard."""


def _first_error(errors: Iterable[Exception | None]) -> Exception | None:
    """The first error; of the data, if there is one: with synchronised batch norm NaN in a sample makes all losses NaN."""
    return min(filter(None, errors), key=lambda error: isinstance(error, NonFiniteLoss), default=None)
