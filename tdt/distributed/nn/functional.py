"""Collectives that return their result and have gradients, as `torch.distributed.nn.functional`.

Every process of the group calls them in the same order, and calls backward in the same order. Gradients are those of the sum of
all processes' losses.

>>> import tdt
>>> from tdt.distributed.nn.functional import all_reduce
>>> tdt.distributed.init_process_group(rank=0, world_size=1)
>>> x = tdt.ones(2, requires_grad=True)
>>> all_reduce(x).sum().backward()
>>> x.grad
tensor([1., 1.])
>>> tdt.distributed.destroy_process_group()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdt._core.creation import empty_like, zeros_like
from tdt._core.tensor import Tensor
from tdt._ops.shape.join import stack
from tdt.autograd._function import Function
from tdt.distributed import _collectives as collectives
from tdt.distributed._group import ProcessGroup, ReduceOp, get_rank, get_world_size
from tdt.distributed._work import Reduction

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
    "scatter",
]  # fmt: skip

Group = ProcessGroup | None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Group, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        tensor = tensor.clone()
        collectives.broadcast(tensor, src, group)
        return tensor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        grad = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        return None, None, grad if ctx.src == get_rank() else zeros_like(grad)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Reduction, group: Group, tensor: Tensor) -> Tensor:
        ctx.dst, ctx.group = dst, group
        tensor = tensor.clone()
        collectives.reduce(tensor, dst, op, group)
        return tensor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Group, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.dst, ctx.group = dst, group
        parts = [zeros_like(tensor) for _ in range(get_world_size(group))]
        tensor = tensor.contiguous()
        collectives.gather(tensor, parts if get_rank(group) == dst else None, dst, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Group, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        part = zeros_like(tensors[0])
        parts = [t.contiguous() for t in tensors] if get_rank(group) == src else None
        collectives.scatter(part, parts, src, group)
        return part

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Group, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        parts = [empty_like(tensor) for _ in range(get_world_size(group))]
        collectives.all_gather(parts, tensor.contiguous(), group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        parts = [empty_like(g) for g in grads]
        return None, stack(_AllToAll.apply(ctx.group, parts, *grads)).sum(0)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Reduction, group: Group, output: Tensor, *parts: Tensor) -> Tensor:
        ctx.group = group
        collectives.reduce_scatter(output, [t.contiguous() for t in parts], op, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, None, *_AllGather.apply(ctx.group, grad)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Group, outputs: list[Tensor], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.like = group, [(t.shape, t.dtype) for t in tensors]
        collectives.all_to_all(outputs, [t.contiguous() for t in tensors], group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        parts = [grads[0].new_empty(shape, dtype=kind) for shape, kind in ctx.like]
        return None, None, *_AllToAll.apply(ctx.group, parts, *grads)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(
        ctx: Any, group: Group, output: Tensor, output_split_sizes: Any, input_split_sizes: Any, input: Tensor
    ) -> Tensor:
        ctx.group, ctx.shape = group, input.shape
        ctx.sizes = output_split_sizes, input_split_sizes
        collectives.all_to_all_single(output, input.contiguous(), output_split_sizes, input_split_sizes, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        part = grad.new_empty(ctx.shape)
        return None, None, None, None, _AllToAllSingle.apply(ctx.group, part, *reversed(ctx.sizes), grad.contiguous())


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Reduction, group: Group, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        tensor = tensor.clone()
        collectives.all_reduce(tensor, op, group)
        return tensor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


def broadcast(tensor: Tensor, src: int, group: Group = None) -> Tensor:
    """The tensor of the process `src`, in every process. Its gradient is the sum of all processes'.

    Shape: tensor (*), equal in all processes; result the same.
    """
    return _Broadcast.apply(src, group, tensor)


def reduce(tensor: Tensor, dst: int, op: Reduction = ReduceOp.SUM, group: Group = None) -> Tensor:
    """The tensors of all processes reduced, in the process `dst`; the others get their own.

    Shape: tensor (*), equal in all processes; result the same.
    """
    return _Reduce.apply(dst, op, group, tensor)


def gather(tensor: Tensor, dst: int = 0, group: Group = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, in the process `dst`; the others get zeros.

    Shape: tensor (*), equal in all processes; each result the same.
    """
    return _Gather.apply(dst, group, tensor)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Group = None) -> Tensor:
    """Of the tensors of the process `src` that of this process' rank.

    Shape: tensors (*), all equal; result the same.
    """
    return _Scatter.apply(src, group, *tensors)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Reduction = ReduceOp.SUM, group: Group = None
) -> Tensor:
    """The tensors at this process' place in the lists of all processes, reduced.

    Args:
        output: tensor that takes the result, and is returned.
    Shape: output, input_list (*), all equal; result the same.
    """
    return _ReduceScatter.apply(op, group, output, *input_list)


def all_gather(tensor: Tensor, group: Group = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, in the order of their ranks.

    Shape: tensor (*), equal in all processes; each result the same.
    """
    return _AllGather.apply(group, tensor)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: Sequence[Tensor], group: Group = None
) -> tuple[Tensor, ...]:
    """Send a tensor of the list to each process, and receive one from each.

    Args:
        output_tensor_list: tensors that take the results, and are returned.
    Shape: each (*), that of the tensor that is sent.
    """
    return _AllToAll.apply(group, output_tensor_list, *input_tensor_list)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Group = None,
) -> Tensor:  # fmt: skip
    """Send a part of the tensor, along its first dimension, to each process, and receive one from each.

    Args:
        output: tensor that takes the result, and is returned.
        output_split_sizes, input_split_sizes: rows for each process; None: equal parts.
    Shape: input (N, *); output (M, *).
    """
    return _AllToAllSingle.apply(group, output, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor: Tensor, op: Reduction = ReduceOp.SUM, group: Group = None) -> Tensor:
    """The tensors of all processes reduced, in every process. The gradients are reduced in the same way.

    Shape: tensor (*), equal in all processes; result the same.
    """
    return _AllReduce.apply(op, group, tensor)
