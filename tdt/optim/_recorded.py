"""A step of an optimizer as compiled functions take it: as a function of the gradients' arrays, or on a tape."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import TYPE_CHECKING, Any

from tdt._core.tensor import Tensor
from tdt._kernels._launches import Launch, watch
from tdt._kernels._table import Table
from tdt.optim import _hooks
from tdt.optim._plan import FIRST_STEPS, Plan

if TYPE_CHECKING:
    from tdt._kernels._references import References
    from tdt.optim._planned import PlannedOptimizer


class Update:
    """The update of the parameters `params` of a group, called with the arrays of their gradients.

    Attributes:
        others: the group's other parameters, which had no gradient.
    """

    def __init__(self, optimizer: PlannedOptimizer, group: dict[str, Any], params: list[Tensor]):
        self.optimizer, self.params = optimizer, params
        self._place = next(k for k, each in enumerate(optimizer.param_groups) if each is group)
        own = set(map(id, params))
        self.others = [p for p in group["params"] if id(p) not in own]
        self._members, self._groups = tuple(group["params"]), len(optimizer.param_groups)

    @property
    def group(self) -> dict[str, Any]:
        """The group, of which loading a state makes another dictionary."""
        return self.optimizer.param_groups[self._place]

    def __call__(self, *grads: Any) -> None:
        self.optimizer._opt_called = True
        self.optimizer._update(self.group, self.optimizer._plan(self.group, self.params), list(grads))

    def read_skips(self) -> None:
        """Read from the GPU whether this step is skipped, so that each way in which it is computed counts it or not."""
        if (skips := vars(self.optimizer).get("_skips")) is not None:
            skips.read()

    def has_state(self) -> bool:
        """Whether the state is where the step that was just taken left it."""
        plan, state = self.optimizer._plans.get(id(self.group)), self.optimizer.state
        return plan is None or (all(p in state for p in plan.live if plan.watched) and plan.holds(state))

    def holds(self) -> bool:
        """Whether a step of the optimizer is this update, whatever the values of the group's options."""
        optimizer = self.optimizer
        if len(optimizer.param_groups) != self._groups:
            return False
        own, group = vars(optimizer), self.group
        members = group["params"]
        if own["_optimizer_step_pre_hooks"] or own["_optimizer_step_post_hooks"]:
            return False
        if _hooks._global_step_pre_hooks or _hooks._global_step_post_hooks:
            return False
        if group["differentiable"] or (group.get("capturable") and not all(p.is_cuda for p in self.params)):
            return False
        return len(members) == len(self._members) and all(map(is_, members, self._members))

    def refer(self, references: References) -> None:
        """Name what `holds` looks at."""
        own, group = vars(self.optimizer), self.group
        own_hooks = [own[f"_optimizer_step_{kind}_hooks"] for kind in ("pre", "post")]
        hooks = *own_hooks, _hooks._global_step_pre_hooks, _hooks._global_step_post_hooks
        for values in (self.optimizer.param_groups, group["params"], *hooks):
            references.container(values)
        for name in ("param_groups", "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
            references.item(own, name)
        for name in ("params", "differentiable", "capturable"):
            references.item(group, name)

    def state_arrays(self) -> list[Any]:
        """The arrays of the parameters' state, which are created, or moved to their place, as by a step."""
        if self.params:
            self.optimizer._plan(self.group, self.params)
        states = [self.optimizer.state.get(p, {}) for p in self.params]
        return [value._a for state in states for value in state.values() if isinstance(value, Tensor)]

    def restores_fresh(self) -> Callable[[], None] | None:
        """As of the plan of its parameters, after `state_arrays`."""
        return self.optimizer._plan(self.group, self.params).restores_fresh() if self.params else None

    def taped(self, grads: list[Any]) -> TapedUpdate | None:
        """The update by gradients in these arrays, on a tape; None where NumPy is to compute some of it."""
        optimizer = self.optimizer
        plan = optimizer._plan(self.group, self.params)
        if not plan.tables and plan.kernel:  # from now on by its kernel, as after some steps it would be anyway
            plan.steps = FIRST_STEPS
            plan = optimizer._plan(self.group, self.params)
        if plan.pieces or len(plan.live) != len(grads) or not all(g.flags.c_contiguous for g in plan.ordered(grads)):
            return None
        return TapedUpdate(self, plan, plan.ordered(grads))


class TapedUpdate:
    """An update whose kernels a tape launches.

    Attributes:
        launches: of its kernels.
    """

    def __init__(self, update: Update, plan: Plan, grads: list[Any]):
        self.update, self.plan = update, plan
        self._keep: Any = None
        self._state: References | None = None  # where the plan holds
        self._steady: References | None = None  # where the options and the scalars that were read are the same, too
        self._group_options: list[Any] = []  # the options as the group has them
        self._zeros: Any = None  # which numbers of all parameters were 0
        self._writes: list[Callable[..., None]] = []  # what writes those of each table
        self.tables: list[tuple[list[int], Table, Any]] = []
        self.launches: list[Launch] = []
        self._options = options = update.optimizer._values(update.group)
        self._advance = update.optimizer._advancing(options)
        numbers, _ = plan.next_numbers(self._advance)
        for rows, table, kernel in plan.tables:
            own = table.with_column(1, [grads[i] for i in rows])
            own.launches = False
            with watch() as trace:
                kernel(own, own.numbered(plan.numbers_of(numbers, rows)), **options)
            self.launches += trace.launches
            self.tables.append((rows, own, plan.kernel.function))  # type: ignore[union-attr]
        self._known = [table.launched for _, table, _ in self.tables]

    def prepare(self) -> bool:
        """Write the numbers of the next step to where the kernels read them; whether the kernels still are the right ones.

        Nothing has changed until `keep`.
        """
        if self._steady is not None and self.plan.is_read and self._steady():
            numbers, self._keep = self.plan.next_numbers(self._advance)
            if len(numbers) == 1 and [*map(bool, numbers[0])] == self._zeros:
                for write in self._writes:
                    write(*numbers[0])
                return True
        return self._prepare_anew()

    def _prepare_anew(self) -> bool:
        """As `prepare`, whatever may have changed."""
        if not self._holds() or (is_known := self._read_options()) is None:
            return False
        numbers, self._keep = self.plan.next_numbers(self._advance)
        zeros = [*map(bool, numbers[0])] if len(numbers) == 1 else None
        is_known &= zeros is not None and zeros == self._zeros
        self._zeros = zeros
        for (rows, table, kernel), known in zip(self.tables, self._known, strict=True):
            now = table.numbered(self.plan.numbers_of(numbers, rows))
            if not is_known:  # kernels choose their code by the options, and by which numbers are 0
                kernel(table, now, **self._options)
            if table.launched is not known:
                return False
        self._writes = [table.write for _, table, _ in self.tables]
        return True

    def _read_options(self) -> bool | None:
        """Read the options; whether they are the same objects as before, or None where another plan must be made."""
        optimizer, group = self.update.optimizer, self.update.group
        options = [group[name] for name in optimizer._options]
        if len(options) == len(self._group_options) and all(map(is_, options, self._group_options)):
            if self._steady is None:
                references = self._named_state()
                for name in optimizer._options:
                    references.item(group, name)
                self.plan.refer(references)
                self._steady = references if references.complete else None
            return True
        if (*optimizer._arrays(group), *optimizer._scalars(group)) != self.plan.watched:
            return None
        self._options, self._steady = optimizer._values(group), None
        self._advance = optimizer._advancing(self._options)
        is_fixed = all(map(is_, options, self._options.values()))  # else a number is an element of a tensor
        self._group_options = options if is_fixed else []
        return False

    def _holds(self) -> bool:
        """Whether the plan does, and is that of the group. Reads the scalars."""
        plan, optimizer = self.plan, self.update.optimizer
        if self._state is not None and self._state():
            return plan.reads()
        if optimizer._plans.get(id(self.update.group)) is not plan or not plan.holds(optimizer.state):
            return False
        references = self._named_state()
        self._state, self._steady = references if references.complete else None, None
        return True

    def _named_state(self) -> References:
        """What `_holds` looks at, but for the scalars."""
        from tdt._kernels._references import References  # which no other step requires

        plan, optimizer, references = self.plan, self.update.optimizer, References()
        plans, state = optimizer._plans, optimizer.state
        for name in ("param_groups", "state", "_plans"):
            references.item(vars(optimizer), name)
        references.container(optimizer.param_groups)
        references.item(plans, id(self.update.group))
        references.container(state)
        for own in map(state.get, plan.live):
            references.container(own)
            for name in plan.watched:
                references.slot(own[name], "_a")  # type: ignore[index]
        return references

    def keep(self) -> None:
        """Count the step that the tape has taken."""
        self.update.optimizer._opt_called = True
        self._keep()
