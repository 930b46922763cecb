"""Sum the gradients of several processes in buckets, each as soon as its last gradient is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tdt import distributed
from tdt._core.tensor import Tensor, wrap
from tdt.distributed._communicator import Array, Progress

FIRST_BUCKET = 1 << 20  # bytes; small, so that the sum begins early in the backward pass


def in_buckets(parameters: Sequence[Tensor], limit: float) -> list[list[int]]:
    """Numbers of the parameters of each bucket, the last parameter first: of one dtype, and at most `limit` bytes."""
    buckets: list[list[int]] = []
    dtype, filled = None, 0.0
    for i in reversed(range(len(parameters))):
        size = parameters[i].numel() * parameters[i].element_size()
        room = min(FIRST_BUCKET, limit) if len(buckets) == 1 else limit
        if not buckets or parameters[i].dtype != dtype or filled + size > room:
            buckets.append([])
            dtype, filled = parameters[i].dtype, 0.0
        buckets[-1].append(i)
        filled += size
    return buckets


def leaves_of(outputs: Any) -> set[int]:
    """The identities of the leaf tensors that the tensors in `outputs`, which may be nested, depend on."""
    nodes, visited, found = [], set[int](), set[int]()
    for t in tensors_in(outputs):
        nodes.append(t.grad_fn if t.grad_fn is not None else t)
    while nodes:
        node = nodes.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, Tensor):
            found.add(id(node))
            continue
        nodes += [edge[0] for edge in node.edges if edge is not None]
    return found


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested lists, tuples, dicts and objects."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)
    elif isinstance(value, list | tuple | set):
        for each in value:
            yield from tensors_in(each)
    elif hasattr(value, "__dataclass_fields__"):
        yield from tensors_in(vars(value))


class Reducer:
    """Replaces each gradient by its mean over the processes of `group`, at the end of a backward pass.

    Args:
        parameters: those that require gradients, in the same order in every process.
        limit: bytes of a bucket.
        may_be_unused: whether a step may leave parameters without a gradient, other ones in each process.
    """

    def __init__(
        self, parameters: Sequence[Tensor], group: distributed.ProcessGroup, limit: float, may_be_unused: bool
    ) -> None:
        self.parameters, self.group, self.may_be_unused = list(parameters), group, may_be_unused
        self.buckets = in_buckets(self.parameters, limit)
        self._bucket_of = {i: b for b, members in enumerate(self.buckets) for i in members}
        self._armed = False  # a forward pass has ended, and its backward pass has not
        self._waiting: list[set[int]] = []  # for each bucket, the parameters whose gradients are not there yet
        self._used = np.zeros(len(self.parameters), np.uint8)
        self._begun: list[tuple[Array, Progress]] = []
        if group.size() > 1:
            for i, parameter in enumerate(self.parameters):
                parameter.register_post_accumulate_grad_hook(lambda _, i=i: self._has_gradient(i))  # type: ignore[misc]

    def _rebuild_buckets(self) -> bool:
        """False: buckets keep their parameters."""
        return False

    def prepare_for_backward(self, outputs: Any) -> None:
        """Expect the backward pass of `outputs`.

        Raises:
            RuntimeError: when parameters had no gradient in the last one.
        """
        if self.group.size() == 1:
            return
        if self._armed and self._used.any():
            missing = sorted(i for members in self._waiting for i in members)
            raise RuntimeError(
                "Expected to have finished reduction in the prior iteration before starting a new one: parameters "
                f"{missing[:10]} had no gradient, since the loss does not depend on them; pass "
                "find_unused_parameters=True to DistributedDataParallel, or let the loss depend on all parameters"
            )
        self._armed, self._begun = True, []
        self._waiting = [set(members) for members in self.buckets]
        self._used[:] = 0
        if self.may_be_unused:
            reached = leaves_of(outputs)
            for i, parameter in enumerate(self.parameters):
                if id(parameter) not in reached:
                    self._is_ready(i)

    def _has_gradient(self, i: int) -> None:
        if self._armed:
            self._used[i] = 1
            self._is_ready(i)

    def _is_ready(self, i: int) -> None:
        self._waiting[self._bucket_of[i]].discard(i)
        while len(self._begun) < len(self.buckets) and not self._waiting[len(self._begun)]:
            self._begin(self.buckets[len(self._begun)])
        for _, progress in self._begun:
            progress.poll()
        if len(self._begun) == len(self.buckets) and self._used.any():
            self._finish()

    def _begin(self, members: list[int]) -> None:
        """Begin the sum of a bucket's gradients, divided by the number of processes before, as PyTorch does."""
        gradients = [self.parameters[i].grad for i in members]
        send = self.group.transport(self.parameters[members[0]])
        kind = self.parameters[members[0]].detach()._a.dtype
        share = kind.type(1 / self.group.size())
        flat = send.empty(sum(self.parameters[i].numel() for i in members), kind)
        flat.fill(0)
        start = 0
        for i, gradient in zip(members, gradients, strict=True):
            end = start + self.parameters[i].numel()
            if gradient is not None:
                send.xp.multiply(send.local(gradient.detach()._a).reshape(-1), share, out=flat[start:end])
            start = end
        self._begun.append((flat, self.group.begin(send.all_reduce(flat), "all_reduce of gradients", send)))

    def _finish(self) -> None:
        self._armed = False
        used = self._used
        if self.may_be_unused:
            self.group.begin(
                self.group.communicator.all_reduce(used, np.maximum), "all_reduce of used parameters"
            ).wait()
        for (flat, progress), members in zip(self._begun, self.buckets, strict=True):
            progress.wait()
            start = 0
            for i in members:
                parameter, end = self.parameters[i], start + self.parameters[i].numel()
                if used[i]:
                    mean = wrap(flat[start:end].reshape(parameter.shape)).to(parameter.device)
                    if parameter.grad is None:
                        parameter.grad = mean
                    else:
                        parameter.grad.detach().copy_(mean)
                start = end
        self._begun = []
