"""What the optimizers that treat every element alike share: one formula, carried out on arrays, tables or tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.mode import enable_grad, state
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import Kernel, capture_gpu
from tdt.optim._params import number, run_closure
from tdt.optim._plan import Piece, Plan, scalar_dtypes
from tdt.optim._recorded import Update
from tdt.optim._subclass import Loss
from tdt.optim.optimizer import Optimizer

# Options that PyTorch's optimizers did not always have: a state saved without them means these values.
_ADDED_LATER = {
    "foreach": None, "fused": None, "maximize": False, "capturable": False, "differentiable": False, "nesterov": False,
    "amsgrad": False, "centered": False, "momentum": 0, "decoupled_weight_decay": False,
}  # fmt: skip


class PlannedOptimizer(Optimizer):
    """An optimizer whose step is the same formula for every element of every parameter.

    Subclasses name the options of the formula and the state they keep, and write the formula in `_change`. It is done on
    flat arrays (`Plan`), by a kernel where there is one for the group, or on tensors where autograd records the step.
    Before it, the gradient is negated by "maximize" and takes in the weight decay; decoupled decay is added after it.
    """

    _options: tuple[str, ...]
    _kernel: Kernel | None = None
    _reads_parameters = False  # whether the formula does, besides the decay
    _foreach_records = False  # whether PyTorch's step over lists of tensors can be recorded
    _captured = "params and state_steps"  # what PyTorch requires on a GPU to capture the step
    _recorded_scalar: Callable[[float], Any] = float  # how a recorded step sees the scalars

    def _arrays(self, group: dict[str, Any]) -> dict[str, float]:
        """The state as large as a parameter that the group's options call for, with the values before the first step."""
        raise NotImplementedError

    def _scalars(self, group: dict[str, Any]) -> dict[str, float]:
        """The state that is one number a parameter, with the values before the first step; see `scalar_dtype`."""
        return {"step": 0.0}

    def _advance(self, options: dict[str, Any], fresh: bool, *scalars: float) -> tuple[tuple, tuple]:
        """The scalars after this step, and what else the formula needs of them.

        options: those of the formula, and the scalars' dtypes as "scalar_dtypes". fresh: no step has been taken yet.
        """
        return (scalars[0] + 1,), ()

    def _change(self, xp: Any, g: Any, p: Any, state: list, numbers: tuple, **options: Any) -> Any:
        """What is added to the parameter values `p`, descending `g`; writes to the arrays `state`, `_arrays` in order.

        numbers: of `_advance`. xp: numpy, cupy or tdt, whose arrays or tensors (real ones) all of these are.
        """
        raise NotImplementedError

    def _kernel_for(self, group: dict[str, Any]) -> Kernel | None:
        """The kernel that carries out the formula with the group's options."""
        return self._kernel

    def _update_sparse(self, group: dict[str, Any], p: Tensor) -> None:
        """Update `p`, whose gradient is sparse."""
        raise RuntimeError(
            f"{type(self).__name__} does not support sparse gradients, please consider SparseAdam instead"
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name in _ADDED_LATER.keys() & self.defaults.keys():
                group.setdefault(name, _ADDED_LATER[name])

    def step(self, closure: Callable[[], Loss] | None = None) -> Loss | None:
        """Update every parameter that has a gradient.

        closure: computes the loss and its gradients again; it is run first, and what it returns is returned.
        Raises:
            AssertionError: when capturable=True and a parameter is on the CPU.
        """
        loss = run_closure(closure)
        for group in self.param_groups:
            live = [p for p in group["params"] if p._grad is not None]
            if group.get("capturable") and any(not p.is_cuda for p in live):
                raise AssertionError(f"If capturable=True, {self._captured} must be on supported devices: ['cuda'].")
            if group["differentiable"]:
                with enable_grad(), np.errstate(all="ignore"):
                    for p in live:
                        self._record(group, p)
            elif state.recording is None:
                self._step_arrays(group, live)
            else:
                state.recording.without_recording(self._step_arrays, group, live)
                state.recording.gradients.update(Update(self, group, list(dict.fromkeys(live))))
        return loss

    @property
    def is_recorded(self) -> bool:
        """Whether compiled functions may repeat a step of it: whether `step` is that of this class."""
        return type(self).step is PlannedOptimizer.step and "step" not in vars(self)

    def _step_arrays(self, group: dict[str, Any], live: list[Tensor]) -> None:
        """Update the parameters `live` of a group as arrays: no graph sees it."""
        skips = vars(self).get("_skips")
        if skips is not None and capture_gpu.current() is None:
            skips.read()
            if skips.is_skipped:
                return
        grads: list[Any] = [p._grad._a for p in live]  # type: ignore[union-attr]
        if SparseCOO in map(type, grads):
            for p in [p for p, g in zip(live, grads, strict=True) if g.__class__ is SparseCOO]:
                with np.errstate(all="ignore"):
                    self._update_sparse(group, p)
                p._st.bump_version()
            live = [p for p, g in zip(live, grads, strict=True) if g.__class__ is not SparseCOO]
        if live:
            plan = self._plan(group, live)
            self._update(group, plan, [p._grad._a for p in plan.live])  # type: ignore[union-attr]
            for p in plan.live:
                p._st.bump_version()

    def _plan(self, group: dict[str, Any], live: list[Tensor]) -> Plan:
        arrays, scalars = self._arrays(group), self._scalars(group)
        plans = vars(self).setdefault("_plans", {})  # a subclass may have skipped Optimizer.__init__
        plan = plans.get(id(group))
        if plan is None or not plan.fits(live, arrays, scalars, self.state):
            once = list(dict.fromkeys(live))
            plan = plans[id(group)] = Plan(once, arrays, scalars, self.state, self._kernel_for(group), plan)
        return plan

    def _values(self, group: dict[str, Any]) -> dict[str, Any]:
        """The formula's options as numbers."""
        return {name: number(group[name]) for name in self._options}

    def _advancing(self, options: dict[str, Any]) -> Callable[..., tuple[tuple, tuple]]:
        """`_advance` as a function of the scalars' dtypes, freshness and the scalars."""
        own = {**options}

        def advance(dtypes: Any, *now: Any) -> tuple[tuple, tuple]:
            own["scalar_dtypes"] = dtypes
            return self._advance(own, *now)

        return advance

    def _update(self, group: dict[str, Any], plan: Plan, grads: list) -> None:
        """Update the parameters of `plan`, whose gradients are the arrays `grads`."""
        capture = capture_gpu.current()
        if capture is not None:
            self._capture(capture, group, plan, plan.ordered(grads))
            return
        options = self._values(group)
        numbers = plan.advance(self._advancing(options))
        grads = plan.ordered(grads)
        for rows, table, kernel in plan.tables:
            contiguous = [g if (g := grads[i]).flags.c_contiguous else np.ascontiguousarray(g) for i in rows]
            table.point(1, contiguous)
            kernel(table, table.numbered(plan.numbers_of(numbers, rows)), **options)
        if plan.pieces:
            with np.errstate(all="ignore"):
                self._update_pieces(plan, grads, numbers, options)

    def _capture(self, capture: capture_gpu.Capture, group: dict[str, Any], plan: Plan, grads: list) -> None:
        """Let a CUDA graph update the parameters of `plan`: with each replay, steps are counted and options read anew."""
        options = self._values(group)
        now: dict[str, Any] = {"options": options, "numbers": [plan.next_numbers(self._advancing(options))[0]]}
        skips = vars(self).get("_skips")  # of a `ScaleOnGpu`

        def prepare() -> None:
            if vars(self).get("_plans", {}).get(id(group)) is not plan or not plan.holds(self.state):
                raise capture_gpu.OutdatedCaptureError(
                    "the optimizer's parameters or state were replaced since its step was captured: capture again"
                )
            now["options"] = self._values(group)
            advance = self._advancing(now["options"])
            numbers, now["count"] = plan.next_numbers(advance)
            skipped = range(1, 1 + (0 if skips is None else skips.unread))
            now["numbers"] = [numbers, *(plan.next_numbers(advance, fewer)[0] for fewer in skipped)]

        def count() -> None:
            if skips is None or not skips.is_skipped:
                now["count"]()

        capture.before.append(prepare)
        capture.after.append(count)
        for piece in plan.pieces:
            renewed = functools.partial(_of_piece, plan, piece, now)
            with _backend.on_gpu_of(piece.targets[0]):
                if piece.xp is np or not piece.update_at_once(self._whole_change, grads, *renewed()[0], renewed, skips):
                    kind = piece.targets[0].dtype
                    raise RuntimeError(f"a step of {type(self).__name__} over {kind} cannot be captured")
        if plan.tables:
            raise RuntimeError("parameters on the CPU cannot be updated by a CUDA graph")

    def _update_pieces(self, plan: Plan, grads: list, numbers: list, options: dict[str, Any]) -> None:
        for piece in plan.pieces:
            (own,) = plan.numbers_of(numbers, [piece.first])
            with _backend.on_gpu_of(piece.targets[0]):
                if not piece.update_at_once(self._whole_change, grads, own, options):
                    self._update_piece(piece, piece.gradient(grads), own, options)

    def _whole_change(self, xp: Any, g: Any, p: Any, state: list, numbers: tuple, options: dict[str, Any]) -> Any:
        """`_change`, with the gradient negated by "maximize" and the weight decay added to it or, decoupled, to the change."""
        decay, decoupled = options.get("weight_decay", 0), options.get("decoupled_weight_decay")
        if options["maximize"]:
            g = -g
        if decay != 0 and not decoupled:
            g = g + p * decay
        change = self._change(xp, g, p, state, numbers, **options)
        return change - p * (options["lr"] * decay) if decay != 0 and decoupled else change

    def _update_piece(self, piece: Piece, g: Any, numbers: tuple, options: dict[str, Any]) -> None:
        p = piece.values() if options.get("weight_decay", 0) != 0 or self._reads_parameters else None
        state = piece.state()
        change = self._whole_change(piece.xp, g, p, state, numbers, options)
        piece.keep(state)
        piece.apply(change)

    def _record(self, group: dict[str, Any], p: Any) -> None:
        """Update `p` by tensor operations that autograd records: gradients flow through the update."""
        import tdt

        if group["foreach"] and not self._foreach_records:
            raise AssertionError("_foreach ops don't support autograd: use foreach=None with differentiable=True")
        own, options, initial = self.state[p], {name: group[name] for name in self._options}, self._arrays(group)
        fresh = any(name not in own for name in initial)
        scalars = self._scalars(group)
        dtypes = scalar_dtypes(own, scalars)
        before = [
            np.asarray(float(own.get(name, first)), kind)
            for kind, (name, first) in zip(dtypes, scalars.items(), strict=True)
        ]
        now = [self._recorded_scalar(float(value)) for value in before]
        after, numbers = self._advance({**options, "scalar_dtypes": dtypes}, fresh, *now)
        for name, value, dtype in zip(scalars, after, dtypes, strict=True):
            own[name] = wrap(np.asarray(float(value), dtype))
        for name, first in initial.items():  # a copy: what an earlier step saved for its backward stays as it is
            value = complex(first, first) if p.is_complex() else first
            own[name] = own[name].clone() if name in own else tdt.full_like(p, value)
        real = tdt.view_as_real if p.is_complex() else _as_it_is
        state = [real(own[name]) for name in initial]
        real(p).add_(self._whole_change(tdt, real(p.grad), real(p).clone(), state, numbers, options))


def _of_piece(plan: Plan, piece: Piece, now: dict[str, Any]) -> list[tuple[tuple, dict[str, Any]]]:
    """The numbers of a piece and the options, of a step; if none, one, … of those before were skipped."""
    return [(plan.numbers_of(numbers, [piece.first])[0], now["options"]) for numbers in now["numbers"]]


def _as_it_is(x: Any) -> Any:
    return x


def check_implementation(foreach: bool | None, fused: bool | None, differentiable: bool) -> None:
    """RuntimeError for options that exclude each other. `foreach` and `fused` mean our one implementation."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if foreach and fused:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
