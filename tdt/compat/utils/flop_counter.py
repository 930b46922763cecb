"""`torch.utils.flop_counter`: floating-point operations of products, convolutions, attention and recurrences in a block."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from weakref import WeakKeyDictionary

from tdt._core.mode import _Mode, state
from tdt._core.tensor import Tensor
from tdt.autograd._dispatch import apply
from tdt.compat._refusal import refused
from tdt.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

__all__ = ["FlopCounterMode", "register_flop_formula"]

register_flop_formula = refused(
    "register_flop_formula", "tdt counts what its own operations compute; there is no table to extend"
)


class FlopCounterMode:
    """Count the floating-point operations of a block: 2 for each multiply-add, forward and backward.

    Args:
        mods: has no effect, as in PyTorch.
        depth: modules below this depth are left out of the table; None for all.
        display: print the table at the end of the block.
        custom_mapping: refused unless empty; the operations are tdt's own.

    >>> import tdt
    >>> from tdt.compat.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = tdt.nn.Linear(3, 5)(tdt.ones(2, 3))
    >>> counter.get_total_flops(), dict(counter.get_flop_counts()["Linear"])
    (60, {'linear': 60})
    """

    def __init__(
        self, mods: Any = None, depth: int | None = 2, display: bool = True, custom_mapping: Any = None
    ) -> None:
        if custom_mapping:
            register_flop_formula()
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[str, int]] = {}
        self._handles: list[Any] = []
        self._block: _Mode | None = None
        self._start()

    def _start(self) -> None:
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self._running: list[str] = []  # full names of the modules whose forward is running
        self._names: dict[int, str] = {}
        self._costs: WeakKeyDictionary[Any, tuple[str, int, list[str]]] = WeakKeyDictionary()

    def __enter__(self) -> FlopCounterMode:
        self._start()
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        self._outer, self._nodes = state.handler, state.anomaly
        self._block = _Mode(handler=self._handle, anomaly=self)
        self._block.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._block is not None:
            self._block.__exit__(*error)
        for handle in self._handles:
            handle.remove()
        if self.display:
            print(self.get_table(self.depth))

    def _before(self, module: Any, args: Any) -> None:
        if not self._running:  # a root module: the names of its submodules are relative to it
            root = type(module).__name__
            self._names = {id(m): f"{root}.{name}" if name else root for name, m in module.named_modules()}
        self._running.append(self._names.get(id(module), type(module).__name__))

    def _after(self, module: Any, args: Any, output: Any) -> None:
        if self._running:
            self._running.pop()

    def _count(self, name: str, flops: int, modules: list[str]) -> None:
        for owner in dict.fromkeys(["Global", *modules]):
            self.flop_counts[owner][name] += flops

    def _handle(self, op: Any, operands: tuple, fixed: dict, target: Any) -> Any:
        with _Mode(handler=self._outer):
            result = apply(op, operands, fixed, target)
        if op.flops is not None:
            shapes = [tuple(x.shape) if isinstance(x, Tensor) else None for x in operands]
            flops = 2 * int(op.flops(*shapes, **{**op.defaults, **fixed}))
            self._count(op.name, flops, self._running)
            self._remember(op, operands, result, flops)
        return result

    def _remember(self, op: Any, operands: tuple, result: Any, flops: int) -> None:
        """Store the cost of the node's backward: each factor that requires a gradient costs as much as the product."""
        first = result[0] if isinstance(result, tuple) else result
        differentiated = sum(isinstance(x, Tensor) and x.requires_grad for x in operands[:2])
        if differentiated and first.requires_grad and first.grad_fn is not None:
            self._costs[first._edge[0]] = (f"{op.name}_backward", flops * differentiated, list(self._running))

    def run(self, node: Any, slots: list, graph: bool) -> list:
        """Run a node of a backward pass, and count it; one that records its own operations is counted by these."""

        def compute() -> list:
            return node.run(slots, graph) if self._nodes is None else self._nodes.run(node, slots, graph)

        if graph:
            return compute()
        if node in self._costs:
            self._count(*self._costs[node])
        with _Mode(handler=self._outer):
            return compute()

    def get_total_flops(self) -> int:
        """Operations of the whole block."""
        return sum(self.flop_counts["Global"].values()) if "Global" in self.flop_counts else 0

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Operations by module ("Global" for all; "Model.layer.0") and name of the operation."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text, a line for each module."""
        limit = self.depth if depth is None else depth
        rows = [
            (name, sum(counts.values()))
            for name, counts in self.flop_counts.items()
            if limit is None or name.count(".") < limit
        ]
        width = max([len(name) for name, _ in rows], default=6)
        return "\n".join([f"{'Module':<{width}}  FLOP", *(f"{name:<{width}}  {flops}" for name, flops in rows)])
