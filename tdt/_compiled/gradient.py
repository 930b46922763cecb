"""The backward pass of a recorded function as a Program: the walk of `tdt.autograd._engine`, with names beside the arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tdt import _kernels
from tdt._compiled import moves
from tdt._compiled.elements import folding_to, of_plus_zero, of_rule, of_sum
from tdt._compiled.parts import TYPES, PartGradient, Parts, joined, layers, plus_zero, views_of_many_parts
from tdt._compiled.places import Place
from tdt._compiled.program import Call, Program, Refusal
from tdt._core.tensor import LEAF, Tensor
from tdt.autograd._accumulate import accumulate, sum_of, unshared
from tdt.autograd._engine import is_linked
from tdt.autograd._node import Node, kind_of, sum_to, zeros
from tdt.autograd._op import Op
from tdt.autograd._views import NOWHERE, edge_of

if TYPE_CHECKING:
    from tdt._compiled.recorder import Recorder

ndarray = np.ndarray
_new = object.__new__


class Named:
    """An array of the recording with its name in the program."""

    __slots__ = ("array", "name")

    def __init__(self, array: Any, name: str):
        self.array, self.name = array, name


class Walk:
    """A backward pass from `edges`, with a gradient at each, or None, which `run` or `run_for` runs.

    Attributes:
        program: what it computes; its parameters are the saved values, and the gradients.
        saved: the names of the values that it takes from the forward pass.
        results: the gradient of each root that is reached, by its place; in the order in which the engine reaches them.
        lies: where these gradients lay in memory, and their strides.
        storages: of the tensors that the nodes have saved, by id.
        order: the nodes that it runs, and what they lead to.
        turns: whether the dimensions of an array are not in order in memory: others may lie as it does, or as the gradients do.
    """

    turns = False

    def __init__(self, recorder: Recorder, edges: Sequence[Any], grads: Sequence[Named | None]):
        self.recorder, self.program = recorder, Program(recorder.program)
        self.saved: dict[str, None] = {}
        self.results: dict[int, str] = {}
        self.lies: dict[int, tuple[Place, tuple[int, ...]]] = {}
        self.storages: dict[int, Any] = {}
        self._places = {}
        for k, t in enumerate(recorder.roots):
            edge = edge_of(t)
            if edge is not None and edge is not NOWHERE:
                self._places[t if edge is LEAF else edge] = k
        self._pending: dict[Any, list[Any]] = {}
        self._linked: set[Any] = set()  # as `GraphTask.linked`
        for edge, g in zip(edges, grads, strict=True):
            if g is not None:
                self._arrive(edge, g)
        self.order = self._order([*self._pending])
        nodes = [target for target in self.order if target.__class__ is Node]
        if any(map(is_linked, nodes)) and any(node.hooks is not None for node in nodes):
            raise Refusal("zeros flow to a node that has hooks")
        self._indices = views_of_many_parts(self.order, self._key)

    def _root(self, edge: Any) -> int | None:
        """The place of the root at an edge."""
        return self._places.get(edge[0] if isinstance(edge[0], Tensor) else edge)

    @property
    def leads_to(self) -> list[int]:
        """The places of the roots that the pass may reach."""
        return [self._places[target] for target in self.order if target in self._places]

    def run(self) -> None:
        """Compute the gradients, which are freed: what the nodes have saved remains."""
        for target in self.order:
            slots = self._taken(target)
            if slots is None:
                continue
            if target.__class__ is Node:
                self._pass_on(target, self._run(target, slots))
            else:
                self._reach(target, slots)

    def run_for(self, otherwise: Callable[..., list], keep: bool) -> Refusal | None:
        """Run the pass in the place of the engine's: free what the nodes have saved, unless `keep`, and add to `.grad`.

        otherwise: the engine, which runs the rest where something cannot be recorded; returns why.
        """
        slots: Any
        found: Any
        for place, target in enumerate(self.order):
            slots = self._taken(target)
            if slots is None:
                continue
            if target.__class__ is not Node:
                held = [self._reach(target, slots)]
                slots = None
                own = unshared(held, 0, 1)
                accumulate(target, held.pop(), own)
                continue
            try:
                found = self._run(target, slots)
            except Refusal as refusal:
                self._pending[target] = slots
                waiting = [(t, self._taken(t) or []) for t in self.order[place:]]
                rest = [((t, k), g.array) for t, some in waiting for k, g in enumerate(some) if g is not None]
                otherwise([edge for edge, _ in rest], [g for _, g in rest], keep, False)
                return refusal
            if not keep:
                target.release()
            slots = None
            self._pass_on(target, found)
            found = None
        return None

    def _reach(self, target: Any, slots: list) -> ndarray:
        """Take note of the gradient of a root. Those of leaves that the function creates go with them."""
        g = cast(Named, slots[0])
        if (place := self._places.get(target)) is not None:
            self.results[place], self.lies[place] = g.name, (self.recorder.places.of(g.array), g.array.strides)
        return g.array

    def _pass_on(self, node: Any, found: list[Named | None]) -> None:
        """Take the gradients of a node's operands to those before it."""
        for edge, g in zip(node.edges, found, strict=True):
            if g is not None and edge is not None:
                self._arrive(edge, g)
        if is_linked(node):
            self._link(node.edges[1:])

    def _link(self, edges: Sequence[Any]) -> None:
        """Note that zeros follow at these edges."""
        self._linked.update([self._key(edge) for edge in edges if edge is not None])

    def _key(self, edge: Any) -> Any:
        """The key of the place that an edge leads to: a leaf, an edge out of the function, or a node."""
        if self._root(edge) is not None:
            return edge[0] if isinstance(edge[0], Tensor) else edge
        if isinstance(edge[0], Tensor):
            if self.recorder.name_of(edge[0]._a) is None:
                raise Refusal("gradients flow to a tensor that is no argument, parameter or buffer")
            if has_hooks(edge[0]):
                raise Refusal("a tensor that a backward pass leads to has hooks")
            return edge[0]
        if edge[0].__class__ is not Node:
            raise Refusal(f"gradients flow to {edge[0].name()}")
        if edge[0].number < self.recorder.first:
            raise Refusal(f"gradients flow to {edge[0].name()}, which was recorded before the call")
        return edge[0]

    def _order(self, starts: list) -> list:
        """As `_engine._backward_order`."""
        places: dict[Any, float] = {}
        stack = []
        for target in starts:
            leaf = target.__class__ is not Node
            places[target] = float("inf") if leaf else target.number
            if not leaf:
                stack.append(target)
        while stack:
            node = stack.pop()
            for edge in node.edges:
                if edge is None:
                    continue
                target = self._key(edge)
                if target.__class__ is Node:
                    if target not in places:
                        places[target] = target.number
                        stack.append(target)
                elif places.get(target, float("inf")) > node.number - 0.5:
                    places[target] = node.number - 0.5
        return sorted(places, key=places.__getitem__, reverse=True)

    def _arrive(self, edge: Any, g: Named) -> None:
        """Add a gradient to what is pending where an edge leads to."""
        target = self._key(edge)
        k, count = (edge[1], len(target.outs)) if target.__class__ is Node and target.outs is not None else (0, 1)
        slots = self._pending.setdefault(target, [None] * count)
        if g.__class__ is PartGradient:
            if slots[k].__class__ is not Parts:
                slots[k] = Parts(slots[k])
            slots[k].parts.append(g)
            return
        before = self._joined(slots[k])
        slots[k] = g if before is None else self._sum(before, g)

    def _taken(self, target: Any) -> list[Named | None] | None:
        """The gradients that are pending at a target, which is reached now."""
        slots = self._pending.pop(target, None)
        if slots is None and target in self._linked:
            if target.__class__ is Node:
                self._link(target.edges)
                return None
            t = target if isinstance(target, Tensor) else self.recorder.roots[self._places[target]]
            return self._call(zeros, (kind_of(t),), None)
        return slots and [self._joined(each) for each in slots]

    def _joined(self, pending: Any) -> Named | None:
        """What is pending, with parts joined."""
        if pending.__class__ is not Parts:
            return pending
        total, groups = pending.whole, layers(pending.parts)
        for parts in groups:
            (found,) = self._call(joined(parts[0].shape, [p.part for p in parts]), [p.gradient for p in parts], None)
            total = found if total is None else self._sum(total, cast(Named, found))
        return total if len(groups[0]) == 1 else self._computed(plus_zero, [total], of_plus_zero)

    def _sum(self, before: Named, g: Named) -> Named:
        total = sum_of(before.array, g.array)
        if total.__class__ is not ndarray:
            raise Refusal("a gradient is sparse")
        return self._computed(_kernels.add if total.ndim else sum_of, [before, g], of_sum, total)

    def _computed(self, function: Any, operands: list[Named], element_of: Any, found: Any = None) -> Named:
        """The result of a function of arrays; `element_of` gives its element."""
        arrays, names = [each.array for each in operands], [each.name for each in operands]
        found = function(*arrays) if found is None else found
        result = Named(found, self.program.name(found))
        self.program.call(function, names, (result.name,), element=element_of(arrays, names, found))
        return result

    def _run(self, node: Any, slots: list) -> list[Any]:
        """The gradients of a node's operands."""
        back = node.backward_plan
        if node.hooks is not None:
            raise Refusal(f"{node.name()} has hooks")
        if node in self._indices and slots[0].array.dtype in TYPES:
            return [PartGradient(slots[0], self._indices[node], node.shapes[0])]
        if node.saved.__class__ not in (list, tuple):
            raise Refusal(f"{node.name()}: what it saves is kept by checkpointing or by hooks")
        saved = self._all_saved(node)
        aux = self._aux(node)
        if back.fast and not back.widens:
            return self._run_rules(node, slots, saved, aux)
        return self._run_node(node, slots, saved, aux)

    def _all_saved(self, node: Any) -> list:
        """What a node has saved, in the place of the arrays; a result that was overwritten is computed again where it may be."""
        back = node.backward_plan
        found: list = []
        for value, storage, version in node.saved:
            if storage is None or storage.version == version:
                found.append(self._saved(node, value))
                if storage is not None:
                    self.storages[id(storage)] = storage
            elif back.recomputes(len(found)):
                compute = functools.partial(back.computed_again, node.attributes, len(found))
                found += self._call(compute, found, None)
            else:
                raise Refusal(f"{node.name()}: a tensor that it has saved was modified in place")
        return found

    def _saved(self, node: Any, value: Any) -> Any:
        if value.__class__ is not ndarray:
            if value is None or value.__class__ in (bool, int, float, complex):
                return value
            raise Refusal(f"{node.name()} has saved a {type(value).__name__}")
        name = self.recorder.name_of(value)
        if name is None:
            raise Refusal(f"{node.name()} has saved an array that was computed without an op")
        self.saved[name] = None
        return Named(value, name)

    def _aux(self, node: Any) -> Any:
        if (
            node.aux is None or not node.backward_plan.op.aux
        ):  # as of `copy_slices`, which has the steps of a view there
            return None
        names = self.recorder.aux.get(id(node))
        if names is None:
            raise Refusal(f"{node.name()}: its intermediate values are not recorded")
        return [Named(value, name) for value, name in zip(node.aux, names, strict=False)]

    def _uses(self, value: Any) -> str:
        """The expression of an argument of a rule: names, and constants for all else."""
        if value.__class__ is Named:
            if value.name.startswith(("v", "r")) and value.name not in self.program.sizes:
                self.saved[value.name] = None
            return value.name
        if value.__class__ in (list, tuple) and _holds_names(value):
            parts = ", ".join(map(self._uses, value))
            return f"[{parts}]" if value.__class__ is list else f"({parts},)"
        return self.program.constant(value)

    def _run_rules(self, node: Any, slots: list, saved: list, aux: Any) -> list[Named | None]:
        """Call the array forms of the node's rules, as `Node.run` does."""
        back = node.backward_plan
        if back.fold is not None:
            at, n = back.fold
            saved = [*saved[:at], saved[at : at + n], *saved[at + n :]]
        values = [tuple(slots) if back.multiple_outputs else slots[0], np, None, None, *saved]
        stand_in = _StandIn(self, node, aux)
        values += [get(stand_in, slots) for get in back.named]
        results: list[Named | None] = [None] * len(node.edges)
        for function, pick, at, needs in back.fast_calls:
            if needs is None:
                if back.variadic:
                    values[3] = at - back.op.fixed
                (results[at],) = self._call(function, pick(values), None, (back.op, at))
            else:
                values[2] = needs
                for i, r in zip(at, self._call(function, pick(values), len(at)), strict=True):
                    if i is not None:
                        results[i] = r
        if node.shapes is not None and back.broadcasts:
            for i, r in enumerate(results):
                if r is not None and r.array.shape != node.shapes[i]:
                    (results[i],) = self._call(sum_to, (r, node.shapes[i]), None)
        return results

    def _call(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        count: int | None,
        rule: tuple[Op, int] | None = None,
    ) -> list[Named | None]:
        """Append the call of a function that gives `count` arrays in a tuple; None: an array alone.

        rule: the op of which the function is a rule, and the place of the operand whose gradient it gives.
        """
        names = [self._uses(value) for value in arguments]
        values = _real(list(arguments))
        found = function(*values)
        self.turns |= not in_order((*values, found))
        for value in arguments if count is None else ():
            if value.__class__ is Named and value.array is found:
                return [value]
        element = None
        if rule is not None and count is None:
            own_names = [value.name for value in arguments if value.__class__ is Named]
            element = of_rule(*rule, function, values, own_names, found) or moves.of_rule(rule[0], arguments, found)
        folding = folding_to(values[0], found) if function is sum_to else None
        program = self.program
        results: list[Named | None] = []
        for value in (found,) if count is None else found:
            array = np.asarray(value) if isinstance(value, np.generic) else value
            if array is not None and array.__class__ is not ndarray:
                raise Refusal("a gradient is not a dense CPU tensor")
            results.append(None if array is None else Named(array, program.name(array)))
        own = [program.name() if r is None or not r.array.ndim else r.name for r in results]
        outs = own if len(own) > 1 or count is None else [f"{own[0]},"]
        call = Call(*rule) if rule is not None and count is None else None
        program.call(function, names, outs, element=element, folding=folding, call=call)
        for number, r in zip(own, results, strict=True):
            if r is not None and number != r.name:
                program.call(np.asarray, (number,), (r.name,))
        return results

    def _run_node(self, node: Any, slots: list, saved: list, aux: Any) -> list[Named | None]:
        """Run a node like this one, whose rules are on tensors or in float32."""
        what = (node.backward_plan, len(node.edges), node.attributes, node.shapes, node.dtypes, node.outs)

        def run(grads: list, saved: list, aux: Any) -> list:
            again = _new(Node)
            again.backward_plan, count, again.attributes, again.shapes, again.dtypes, again.outs = what
            again.edges, again.saved, again.aux = [None] * count, [(value, None, 0) for value in saved], aux
            again.hooks = again.call = None
            return again.run(grads, False)

        return self._call(run, (slots, saved, aux), len(node.edges))


class _StandIn:
    """A node as the getters of its rules' arguments see it, with names beside the arrays."""

    def __init__(self, walk: Walk, node: Any, aux: Any):
        self.walk, self.aux, self.outs = walk, aux, node.outs
        self.attributes, self.shapes, self.dtypes = node.attributes, node.shapes, node.dtypes

    def _gradient(self, k: int, grads: list) -> Named:
        found = grads[k]
        return found if found is not None else self.walk._call(zeros, (self.outs[k],), None)[0]  # type: ignore[return-value]


def has_hooks(t: Tensor) -> bool:
    """Whether something is called when a gradient arrives at a tensor."""
    return bool(t._hooks or t._post_hooks) or t._node_hooks is not None


def _holds_names(value: Any) -> bool:
    return value.__class__ is Named or (value.__class__ in (list, tuple) and any(map(_holds_names, value)))


def _real(value: Any) -> Any:
    """A value of a rule's argument, with arrays in the place of `Named`."""
    if value.__class__ is Named:
        return value.array
    if value.__class__ in (list, tuple) and _holds_names(value):
        return value.__class__([_real(item) for item in value])
    return value


def in_order(value: Any) -> bool:
    """Whether results of ops on arrays, and on contiguous ones, are contiguous: dimensions are ordered in memory, or expanded."""
    if value.__class__ in (list, tuple):
        return all(map(in_order, value))
    if value.__class__ is not ndarray or value.flags.c_contiguous:
        return True
    strides = [stride for n, stride in zip(value.shape, value.strides, strict=True) if n > 1 and stride]
    return strides == sorted(strides, reverse=True) and not (strides and strides[-1] < 0)
