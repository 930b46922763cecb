"""Selective activation checkpointing: what an op has computed is saved or computed again, as a policy decides.

Both runs of a checkpointed function pass here, op by op. The first asks the policy and saves the results that it wants; the
second takes these where it comes to the same calls. Its nodes are recorded as those of any call.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import tdt
from tdt._core.mode import _Mode, no_grad, state
from tdt._core.tensor import Tensor, alias
from tdt.autograd._dispatch import apply

__all__ = ["CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


class CheckpointPolicy(enum.Enum):
    """What a checkpoint does with the result of an op.

    MUST_SAVE, PREFER_SAVE: save it. MUST_RECOMPUTE, PREFER_RECOMPUTE: compute it again in the backward pass. MUST_CPU_OFFLOAD,
    PREFER_CPU_OFFLOAD: save it in the host's memory.

    >>> import tdt
    >>> tdt.utils.checkpoint.CheckpointPolicy.MUST_SAVE.value
    0
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


SAVES = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
OFFLOADS = (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)


class SelectiveCheckpointContext:
    """What a policy is told of a call besides its arguments.

    Args:
        is_recompute: always False, as policies are asked in the first run alone.
        op_output: the result.

    >>> import tdt
    >>> tdt.utils.checkpoint.SelectiveCheckpointContext(is_recompute=False).op_output
    """

    def __init__(self, *, is_recompute: bool, op_output: Tensor | tuple[Tensor, ...] | None = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


class _Call(NamedTuple):
    """A call in the first run. saved: its results, with their versions and where they are needed; None: computed again."""

    op: Any
    saved: list[tuple[Tensor, int, Any]] | None = None
    aux: list | None = None


class _Run:
    """A block in which the calls of ops pass `handle`, in a run of a checkpointed function."""

    def __init__(self, calls: list[_Call]) -> None:
        self.calls = calls
        self.saving: Any = None
        self.mode: Any = None

    def __enter__(self) -> None:
        self.saving = state.saving  # None where gradients are disabled, so that nothing is saved
        self.mode = None if self.saving is None else _Mode(handler=self.handle)
        if self.mode is not None:
            self.mode.__enter__()

    def __exit__(self, *exc: object) -> None:
        if self.mode is not None:
            self.mode.__exit__(*exc)

    def handle(self, op: Any, operands: tuple, attributes: dict, target: Any) -> Any:
        """Run `op`."""
        raise NotImplementedError


class _FirstRun(_Run):
    def __init__(self, calls: list[_Call], policy: Callable[..., Any]) -> None:
        super().__init__(calls)
        self.policy = policy

    def __enter__(self) -> None:
        self.calls.clear()
        super().__enter__()

    def handle(self, op: Any, operands: tuple, attributes: dict, target: Any) -> Any:
        """Run `op`, and save what the policy wants."""
        outer = self.saving.outer
        with _Mode(handler=outer):
            result = apply(op, operands, attributes, target)
        with no_grad(), _Mode(handler=outer, saving=None):
            context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
            policy = self.policy(context, operator_of(op, operands, attributes), *operands, **attributes)
        if isinstance(policy, bool):
            policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        self.calls.append(self._call(op, result, policy, target))
        self.saving.keep_of(result)
        return result

    def _call(self, op: Any, result: Any, policy: Any, target: Any) -> _Call:
        # A view takes no memory of its own, what is written to changes, and drawing again keeps the generator in step.
        if policy not in SAVES + OFFLOADS or op.view or op.random or target is not None:
            return _Call(op)
        outs = result if isinstance(result, tuple) else (result,)
        node: Any = next((t._edge[0] for t in outs if t._edge), None)
        if op.aux and (node is None or node.aux is None):
            return _Call(op)
        saved = []
        with no_grad(), _Mode(handler=self.saving.outer, saving=None):
            for t in outs:
                device = t.device if policy in OFFLOADS and t.device.type != "cpu" else None
                stored = alias(t._a, None, t._st)
                stored = stored if device is None else stored.cpu()
                saved.append((stored, stored._st.version, device))
        return _Call(op, saved, list(node.aux) if op.aux else None)


class _SecondRun(_Run):
    def __init__(self, calls: list[_Call], allow_mutation: bool) -> None:
        super().__init__(calls)
        self.allow_mutation, self.count = allow_mutation, 0

    def __enter__(self) -> None:
        self.count = 0
        super().__enter__()

    def handle(self, op: Any, operands: tuple, attributes: dict, target: Any) -> Any:
        """Run `op`, or take its results from the first run."""
        call = self.calls[self.count] if self.count < len(self.calls) else None
        self.count += 1
        if call is None or call.op is not op:
            raise RuntimeError(
                f"{op} encountered during backward but not found in storage: the function must run the same ops each time"
            )
        called = op if call.saved is None else self._answering(call)
        with _Mode(handler=self.saving.outer):
            result = apply(called, operands, attributes, target)
        self.saving.keep_of(result)
        return result

    def _answering(self, call: _Call) -> Any:
        """The op of a call with another forward, which returns the saved results."""
        arrays = []
        for t, version, device in call.saved or ():
            if t._st.version != version and not self.allow_mutation:
                raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
            arrays.append((t if device is None else t.to(device))._a)
        results: Any = tuple(arrays) if len(arrays) > 1 else arrays[0]
        results = results if call.aux is None else (results, *call.aux)
        answering = copy.copy(call.op)
        answering.plans, answering.kernels, answering.half, answering.formula = {}, (), "everywhere", False
        answering.ufuncs = answering.lower = answering.lay = answering.direct = answering.large = answering.on_gpu = (
            None
        )
        answering.forward = lambda xp, *arrays, **attributes: results
        return answering


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., CheckpointPolicy | bool] | Sequence[Hashable],
    allow_cache_entry_mutation: bool = False,
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """The contexts of a checkpoint that saves results of some ops, for its `context_fn`.

    Ops have the names that PyTorch's operators have: `x @ w` of two matrices is `torch.ops.aten.mm.default`. Those that PyTorch
    does not have are tdt's own. Views, random numbers and results written in place are computed again whatever the policy says.

    Args:
        policy_fn_or_list: a function of a `SelectiveCheckpointContext`, the op and its arguments, which returns a
            `CheckpointPolicy`, or True to save; or a list of the ops whose results are saved.
        allow_cache_entry_mutation: whether saved results may be written to before the backward pass.
    Raises:
        ValueError: for a list with something else than overloads of operators.
        TypeError: for anything but a list and a function.
        RuntimeError: in backward, where a saved result was written to, or the second run calls other ops.

    >>> import functools
    >>> import tdt
    >>> from tdt.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> contexts = functools.partial(create_selective_checkpoint_contexts, [tdt.ops.aten.mm.default])
    >>> x = tdt.ones(2, 2, requires_grad=True)
    >>> checkpoint(lambda x: (x @ x).sin().sum(), x, use_reentrant=False, context_fn=contexts).backward()
    >>> x.grad
    tensor([[-1.6646, -1.6646],
            [-1.6646, -1.6646]])
    """
    policy: Any = policy_fn_or_list
    if isinstance(policy, list):
        packet = tdt.ops.aten.mm
        for op in policy:
            if not isinstance(op, type(packet.default)):
                hint = f" Name an overload, such as {op}.default." if isinstance(op, type(packet)) else ""
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.{hint}"
                )
        listed = frozenset(policy)
        policy = lambda context, op, *args, **kwargs: op in listed  # noqa: E731
    elif not callable(policy):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    calls: list[_Call] = []
    return _FirstRun(calls, policy), _SecondRun(calls, allow_cache_entry_mutation)


# PyTorch's operators for ops of other names.
NAMES = {
    "add_scaled": "add", "sub_scaled": "sub", "div_floor": "div", "div_trunc": "div", "conv": "convolution",
    "softmax": "_softmax", "log_softmax": "_log_softmax", "layer_norm": "native_layer_norm", "group_norm": "native_group_norm",
    "batch_norm": "native_batch_norm", "dropout": "native_dropout", "convert": "_to_copy", "max_dim": "max", "min_dim": "min",
    "max_pool_with_indices": "max_pool2d_with_indices", "log_sigmoid": "log_sigmoid_forward",
    "cross_entropy": "cross_entropy_loss",
}  # fmt: skip
PRODUCTS = {(2, 2): "mm", (3, 3): "bmm", (2, 1): "mv", (1, 1): "dot"}  # by the dimensions of the operands


def operator_of(op: Any, operands: tuple, attributes: dict) -> Any:
    """The overload of PyTorch's operator that an op is; the op itself where PyTorch has none."""
    name = NAMES.get(op.name, op.name)
    if name == "linear":
        name = "mm" if len(operands) < 3 or operands[2] is None else "addmm"
    elif name == "matmul":
        ranks = operands[0].ndim, operands[1].ndim
        name = PRODUCTS.get(ranks, "mm" if 2 in ranks else "bmm")
    elif name == "attention":
        name = "_scaled_dot_product_flash_attention" + ("" if operands[0].is_cuda else "_for_cpu")
    packet = getattr(tdt.ops.aten, name, None)
    if packet is None:
        return op
    known = ("default",) if name.startswith("_") else packet.overloads()
    expected = ["dim_IntList", "dim"] if attributes.get("dim") is not None else []
    expected += [f"Tensor_{'Tensor' if isinstance(operands[-1], Tensor) else 'Scalar'}", "Tensor", "default", "self"]
    return getattr(packet, next((overload for overload in expected if overload in known), known[0]))
