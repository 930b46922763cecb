"""Sums over shards up one fixed binary tree, whatever the number of ranks: of gradients, and of buffers.

A rank's shards are neighbours, and their number is a power of two: it adds them up a subtree, which the tree over the ranks
(`Communicator.all_reduce`) continues. What a shard does not have (None) changes no sum; between ranks -0.0 takes its place,
since x + -0.0 has the bits of x for every x.

With `train.reduce_dtype` the gradients of each shard and each sum up the tree are rounded to that dtype: what ranks send to each
other is exact in it, wherever the tree is cut.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tdt
from tdt import Tensor, nn, no_grad
from tdt._core.tensor import wrap
from tdt._kernels._formulas import BFLOAT16, FLOAT32
from tdt.autograd._hooks import RemovableHandle
from tdt.distributed._communicator import Array, Progress, Steps, tree_reduce
from tdt.nn.parallel._reducer import in_buckets
from tdt.train._ranks import Ranks
from tdt.train.loop.lockstep import joined
from tdt.train.loop.shard_optimizer import Owners

BUCKET = 25 << 20  # bytes of gradients that are sent together
Values = list[Tensor | None]


def plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """a + b, in the memory of a; None is nothing."""
    if a is None or b is None:
        return b if a is None else a
    return a.add_(b)


def rounded(t: Tensor | None) -> Tensor | None:
    """t, rounded to bfloat16 if it is of float32."""
    return t if t is None or t.dtype is not tdt.float32 else t.bfloat16().float()


def rounded_sum(a: Array, b: Array) -> Array:
    """a + b of float32, rounded to bfloat16."""
    with np.errstate(over="ignore"):
        return (a + b).astype(BFLOAT16).astype(FLOAT32)


class GradientSum:
    """The sum of the shards' gradients of a step.

    `begin`, then for each shard `clear` and, but for the last, `push`; then `complete` and `finish`. With several ranks the
    sums of a bucket of parameters are sent as soon as the backward pass that `arm` announces has given all of its gradients.

    Args:
        owners: the rank that receives the sum of each parameter; None: all receive all.
        rounds: whether sums of float32 are rounded to bfloat16, and sent in it.
    """

    def __init__(
        self, parameters: Sequence[Tensor], ranks: Ranks, owners: Owners | None = None, rounds: bool = False
    ) -> None:
        self.parameters, self.ranks, self.owners, self.rounds = list(parameters), ranks, owners, rounds
        self.buckets = in_buckets(self.parameters, BUCKET)
        self._edges: list[list[int]] = []  # in each bucket, of the part of each owner
        if owners is not None:
            for members in self.buckets:
                members.sort(key=lambda i: owners.rank_of(self.parameters[i]))
                self._edges.append(self._edges_of(members, owners))
        self._place: dict[int, tuple[int, int, int]] = {}  # parameter → bucket, and bounds of its part there
        self._sizes: list[tuple[int, Any]] = []  # of the buckets, in elements, and their dtypes
        for number, members in enumerate(self.buckets):
            start = 0
            for i in members:
                end = start + self.parameters[i].numel()
                self._place[i], start = (number, start, end), end
            dtype = self.parameters[members[0]]._a.dtype
            self._sizes.append((start, BFLOAT16 if rounds and dtype == FLOAT32 else dtype))
        self._armed = False
        self._hooks: list[RemovableHandle] = []
        self.listen(True)

    def listen(self, listens: bool) -> None:
        """Whether buckets are sent while a backward pass goes on; else `complete` sends them all."""
        if self.ranks.size == 1 or listens is bool(self._hooks):
            return
        for hook in self._hooks:
            hook.remove()
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(lambda _, i=i: self._has_gradient(i))  # type: ignore[misc]
            for i, parameter in enumerate(self.parameters if listens else ())
        ]

    def _edges_of(self, members: list[int], owners: Owners) -> list[int]:
        sizes = [0] * self.ranks.size
        for i in members:
            sizes[owners.rank_of(self.parameters[i])] += self.parameters[i].numel()
        return [0, *itertools.accumulate(sizes)]

    @functools.cached_property
    def _flat(self) -> list[Array]:
        """Memory of the buckets, where ranks send it from."""
        return [self.ranks.transport.empty(size, dtype) for size, dtype in self._sizes]

    def _own(self, i: int) -> bool:
        return self.owners is None or self.owners.own(self.parameters[i])

    def begin(self) -> None:
        """Begin a step."""
        self._partial: list[tuple[int, Values]] = []  # level in the tree, and the sums there
        self._waiting = [set(members) for members in self.buckets]
        self._begun: list[Progress] = []
        self._armed = False
        self.used = np.zeros(len(self.parameters), bool)  # which parameters have a gradient on this rank

    def clear(self) -> None:
        """Begin a shard."""
        for parameter in self.parameters:
            parameter.grad = None

    def arm(self) -> None:
        """The next backward pass is the last one of this rank in this step."""
        self._armed = self.ranks.size > 1

    @no_grad()
    def push(self) -> None:
        """Add the gradients of a shard: as in a binary counter, two sums of one level become one of the next."""
        level, sums = 0, [self._rounded(parameter.grad) for parameter in self.parameters]
        while self._partial and self._partial[-1][0] == level:
            before = self._partial.pop()[1]
            level, sums = level + 1, [self._rounded(plus(a, b)) for a, b in zip(before, sums, strict=True)]
        self._partial.append((level, sums))

    @no_grad()
    def _total(self, i: int) -> Tensor | None:
        """The sum over this rank's shards, the last of which has its gradient in `.grad`."""
        total = self._rounded(self.parameters[i].grad)
        for _, sums in reversed(self._partial):
            total = self._rounded(plus(sums[i], total))
        return total

    def _rounded(self, t: Tensor | None) -> Tensor | None:
        return rounded(t) if self.rounds else t

    def _has_gradient(self, i: int) -> None:
        if not self._armed:
            return
        if i not in self._waiting[self._place[i][0]]:
            raise RuntimeError("a parameter got its gradient twice in one backward pass; with train.shards it may not")
        self._send(i)
        for progress in self._begun[-1:]:
            progress.poll()  # all that have begun

    def _send(self, i: int) -> None:
        """Put the sum of a parameter's gradients into its bucket; begin to send the buckets that are complete, in order."""
        bucket, start, end = self._place[i]
        total = self._total(i)
        self.used[i] = total is not None
        send = self.ranks.transport
        self._flat[bucket][start:end] = -0.0 if total is None else send.local(total.detach()._a).reshape(-1)
        self._waiting[bucket].discard(i)
        while len(self._begun) < len(self.buckets) and not self._waiting[len(self._begun)]:
            self._begun.append(send.begin(self._summed(len(self._begun)), "sum of gradients"))

    def _summed(self, bucket: int) -> Steps:
        """The collective that adds a bucket of all ranks, in place: for each rank, or for each parameter's owner."""
        flat, communicator = self._flat[bucket], self.ranks.transport
        combine = rounded_sum if flat.dtype == BFLOAT16 else np.add
        if self.owners is None:
            return communicator.all_reduce(flat, combine)
        edges, rank = self._edges[bucket], self.ranks.rank
        return communicator.reduce_scatter(flat, edges, flat[edges[rank] : edges[rank + 1]], combine)

    def complete(self) -> None:
        """Send what has not been sent. With one rank, put the sums into `.grad`."""
        self._armed = False
        if self.ranks.size > 1:
            for members in self.buckets:
                for i in members:
                    if i in self._waiting[self._place[i][0]]:
                        self._send(i)
            return
        for i, parameter in enumerate(self.parameters):
            total = self._total(i)
            self.used[i] = total is not None
            parameter.grad = None if total is None else total.contiguous()

    def finish(self, used: Array) -> None:
        """Put the sums over all ranks into `.grad`, those of other owners than this rank excepted.

        used: which parameters have a gradient on any rank.
        """
        for progress in self._begun:
            progress.wait()
        for i, parameter in enumerate(self.parameters if self.ranks.size > 1 else ()):
            bucket, start, end = self._place[i]
            total = self._flat[bucket][start:end].reshape(parameter.shape).astype(parameter._a.dtype, copy=False)
            parameter.grad = wrap(total).to(parameter.device) if used[i] and self._own(i) else None

    @no_grad()
    def gather(self, value: Callable[[Tensor], Tensor | None], put: Callable[[Tensor, Tensor], object]) -> None:
        """Send a tensor for each parameter, the owner's `value(parameter)`, to the other ranks, which `put` it."""
        send = self.ranks.transport
        for members, edges in zip(self.buckets, self._edges, strict=True):
            flat = send.empty(edges[-1], self.parameters[members[0]]._a.dtype)
            flat.fill(0)
            for i in filter(self._own, members):
                _, start, end = self._place[i]
                if (own := value(self.parameters[i])) is not None:
                    flat[start:end] = send.local(own.detach()._a).reshape(-1)
            own_part = flat[edges[self.ranks.rank] : edges[self.ranks.rank + 1]]
            send.begin(send.all_gather(own_part, flat, edges), "parameters of their owners").wait()
            for i in itertools.filterfalse(self._own, members):
                _, start, end = self._place[i]
                parameter = self.parameters[i]
                put(parameter, wrap(flat[start:end].reshape(parameter.shape)).to(parameter.device))


class BufferMean:
    """The buffers after a step, as running statistics: the mean of the values after each shard; of integers the maximum.

    Each shard begins with the values from before the step. A buffer that no shard has written keeps its value. `begin_sums`
    sends those that a step has written before, in the same order on all ranks, and `finish` the others.
    """

    def __init__(self, model: nn.Module, ranks: Ranks) -> None:
        self.model, self.ranks = model, ranks
        self._written: set[int] = set()  # by a shard of an earlier step, on any rank
        self._sums: list[tuple[list[int], bool, Array, Progress]] = []
        self._known: dict[int, tuple[Tensor, int, Tensor]] = {}  # a buffer, its version, and a copy of that version

    def begin(self, count: int) -> None:
        """Begin a step with `count` shards on this rank."""
        self.buffers = list(self.model.buffers())
        known, self._known = self._known, {}
        for i, buffer in enumerate(self.buffers):
            same = known.get(i)
            fresh = same is None or same[0] is not buffer or same[1] != buffer._version
            copy = buffer.detach().clone() if fresh else same[2]  # type: ignore[index]
            self._known[i] = buffer, buffer._version, copy
        # After each shard, of the buffers that it has written; None for a shard without samples.
        self._values: list[dict[int, Tensor] | None] = [None] * count
        self.changed: set[int] = set()
        self._held = {i: copy for i, (_, _, copy) in self._known.items()}  # the values that the buffers have now
        self._latest: dict[
            int, Tensor
        ] = {}  # the last values that a shard has written; others with the same bits share them

    @no_grad()
    def enter(self, place: int) -> None:
        """Give the buffers the values of a shard: at first those from before the step."""
        own = self._values[place] = self._values[place] or {}
        for i in self.changed:
            value = own.get(i, self._known[i][2])
            if self._held[i] is not value:
                self.buffers[i].copy_(value)
                self._held[i] = value
        self._versions = [buffer._version for buffer in self.buffers]

    def leave(self, place: int) -> None:
        """Keep the values of a shard."""
        own = self._values[place]
        assert own is not None
        now = {i for i, buffer in enumerate(self.buffers) if buffer._version != self._versions[i]}
        self.changed |= now
        for i in now:
            value, buffer = self._latest.get(i), self.buffers[i]
            if value is None or not _same_bits(value, buffer):
                value = self._latest[i] = buffer.detach().clone()
            own[i] = self._held[i] = value

    def begin_sums(self) -> None:
        """Begin to combine the values of all ranks, of the buffers that were written in an earlier step."""
        self._sums = []
        self._begin({i for i in self._written if i < len(self.buffers)})

    def _begin(self, members: set[int]) -> None:
        kinds: dict[tuple[Any, bool], list[int]] = {}
        for i in sorted(members):
            floating = self.buffers[i].is_floating_point() or self.buffers[i].is_complex()
            kinds.setdefault((self.buffers[i]._a.dtype, floating), []).append(i)
        send = self.ranks.transport
        for (dtype, floating), same in kinds.items():
            flat = send.xp.concatenate([self._of_rank(i, floating).reshape(-1) for i in same]).astype(dtype, copy=False)
            steps = send.all_reduce(flat, np.add if floating else np.maximum)
            self._sums.append((same, floating, flat, send.begin(steps, "mean of buffers")))

    def wait(self) -> None:
        """Wait for what has begun."""
        for *_, progress in self._sums:
            progress.wait()

    @no_grad()
    def finish(self, changed: set[int], count: int) -> None:
        """Combine the values of all ranks. changed: the buffers that any shard has written. count: shards with samples."""
        self._begin(changed - self._written)
        self._written |= changed
        self.wait()
        for members, floating, flat, _ in self._sums:
            mean, start = flat / flat.dtype.type(count) if floating else flat, 0
            for i in members:
                end = start + self.buffers[i].numel()
                if i in changed:
                    buffer, value = self.buffers[i], wrap(mean[start:end].reshape(self.buffers[i].shape))
                    buffer.copy_(value)
                    self._known[i] = buffer, buffer._version, value
                start = end

    def _of_rank(self, i: int, floating: bool) -> Array:
        """The sum (integers: maximum) over this rank's shards of a buffer's values, where ranks send it from."""
        send, before = self.ranks.transport, self._known[i][2]
        values = [None if one is None else send.local(one.get(i, before)._a) for one in self._values]
        if not floating:
            known = (value for value in values if value is not None)
            return functools.reduce(send.xp.maximum, [send.local(before._a), *known])
        total: Any = tree_reduce(values, joined)  # type: ignore[arg-type]
        return send.xp.full_like(send.local(before._a), -0.0) if total is None else send.xp.asarray(total)


def _same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors on the CPU have the same bits; on a GPU reading them would take longer than what it saves."""
    return isinstance(a._a, np.ndarray) and a.shape == b.shape and a._a.tobytes() == b._a.tobytes()
