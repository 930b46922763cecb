"""Nodes of recorded ops: their inputs, the values saved for backward, and the calls of their gradient rules."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tdt import _backend, _kernels
from tdt._core.dtype import of
from tdt._core.errors import constant, freed, overwritten
from tdt._core.mode import _Mode
from tdt._core.sparse import SparseCOO, densify_unsupported
from tdt._core.tensor import Tensor, alias, wrap
from tdt._kernels.programs_gpu import OutdatedProgramError
from tdt.autograd._call_counts import CallCounts
from tdt.autograd._graph import GraphNode
from tdt.autograd._layouts import LayoutCall, run_by_program
from tdt.autograd._node_names import name_of
from tdt.autograd._on_gpu import rule_on_gpu
from tdt.autograd._op_table import OPS

if TYPE_CHECKING:
    from tdt.autograd._op import Op, Rule

numbers = itertools.count()
number = numbers.__next__
ndarray = np.ndarray
_new = object.__new__
NUMBERS = (bool, int, float, complex, type(None))
NOTHING: dict[str, Any] = {}
MOST_SUMS = 1000
RUNS = 100  # of nodes of a plan, after which code is written for the plan
MOST_WRITTEN = 16  # operands of a node for which code is written
PLAIN = (list, tuple)  # of what nodes save, unless hooks pack it


class BackwardPlan:
    """The values that an op saves for backward, and the rules that it runs, if the operands in the bit set `mask` need grad.

    For operands in `nowhere`, which are views created under no_grad, no gradients are computed, but as in PyTorch the
    values of an op with several rules are saved.

    A rule's arguments are selected by position from [g, xp, needs, index, *saved, *named]: index is the position in the
    variadic operand, saved are the operands and outputs that rules have as parameters, and named are shapes, dtypes,
    attributes, aux values and single gradients.

    Attributes:
        keep: places, among operands and outputs, of what a node saves; `keep_operands` and `keep_outputs` are those of each.
        fold: where the saved tensors of the variadic operand begin, and how many there are: rules get them as one list.
        named: getters of the named arguments.
        calls: of rules on tensors, see `_calls`; `fast_calls` on NumPy's arrays, where all rules have that form (`fast`), and
            `gpu_calls` on CuPy's.
        widens: the op computes half precision in float32, and its gradients are rounded to the operands' dtypes.
        in_place: the only call may write its result into the incoming gradient.
        numbers: the operands that are no tensors, as a bit set.
    """

    __slots__ = ("op", "names", "keep", "keep_operands", "keep_outputs",
                 "fold", "named", "calls", "fast_calls", "fast", "broadcasts", "multiple_outputs",
                 "variadic", "needs_shapes", "needs_dtypes", "widens", "wide_scalars", "has_rule", "numbers", "dtypes",
                 "in_place", "prepare", "gpu_calls", "specialized", "specialized_in_graph", "specialized_on_gpu",
                 "runs")  # fmt: skip

    def __init__(self, op: Op, mask: int, count: int, low: Any = None, nowhere: int = 0, kinds: tuple = ()):
        nowhere = nowhere if len(op.rules) > 1 else 0  # a single rule keeps and runs, as in PyTorch
        self.numbers = sum(1 << i for i, kind in enumerate(kinds) if kind in NUMBERS)  # operands that are not tensors
        # The dtypes of the results, when they can have gradients, None for one that the op says has none; of views, of the first.
        self.dtypes: tuple = ()
        self.op, self.names, self.variadic = op, op.names_for(count), op.variadic is not None
        for i, name in enumerate(self.names):
            if mask >> i & 1 and name in op.constant:
                raise constant(op.name, name)
        self.multiple_outputs = op.multi_view or len(op.outputs) > 1
        self.broadcasts = op.broadcasts and count > 1
        # Without a rule for an operand that needs a gradient, nothing is recorded.
        self.has_rule = any(mask >> i & 1 and n in op.rules for i, n in enumerate(self.names))
        needed = [i for i in range(count) if (mask & ~nowhere) >> i & 1]
        rules = list(dict.fromkeys(op.rules[self.names[i]] for i in needed if self.names[i] in op.rules))
        params = list(dict.fromkeys(p for rule in rules for p in (*rule.params, *(rule.fast_params or ()))))
        saved = self._choose_saved(params, nowhere)
        order = self._make_getters(params, saved)
        self._make_calls(rules, order, needed, low)
        # `Node.run` with code written for this plan, as `run(node, g)`: of small gradients on the CPU; of tensors, for a graph;
        # and on the only GPU, of calls without programs or of views; others go to their program. The result is None where
        # `Node.run` is to give it. False where there is no such code: to write it takes as long as it saves in some hundred runs.
        self.specialized: Any = False
        self.specialized_in_graph: Any = False
        self.specialized_on_gpu: Any = False
        if self._is_specializable(order):
            self.specialized_in_graph = partial(self._counted, rules, order, "specialized_in_graph")
            if self.fast and not op.part:
                self.specialized = partial(self._counted, rules, order, "specialized")
                self.specialized_on_gpu = run_by_program
                if op.layouts is False or all(hasattr(rule.fast, "gives_views") for rule in rules):
                    self.specialized_on_gpu = partial(self._counted, rules, order, "specialized_on_gpu")
        self.runs = 0

    def _is_specializable(self, order: list[str]) -> bool:
        """Whether no more belongs to a run than what `_specialize` writes; the engine adds to those of `linked`."""
        if not self.calls or self.widens or self.multiple_outputs or len(self.names) > MOST_WRITTEN:
            return False
        return not (self.op.recomputed or self.op.name == "linked" or any(name.startswith("g_") for name in order))

    def _counted(self, rules: list[Rule], order: list[str], which: str, node: Node, g: Any) -> None:
        """The specialized run in the first runs: leaves them to `Node.run`."""
        self.runs += 1
        if self.runs >= RUNS:
            setattr(self, which, self._specialize(rules, order, which))

    def _specialize(self, rules: list[Rule], order: list[str], which: str) -> Callable[[Node, Any], list | None]:
        """`Node.run` written out for this plan. which: the attribute."""
        graph, on_gpu = which == "specialized_in_graph", which == "specialized_on_gpu"
        count, places = len(order) - len(self.named), iter(range(len(self.keep)))
        values = {"g": "g", "xp": "np"}
        for name in order[4:count]:
            if name == self.op.variadic and self.fold is not None:
                values[name] = f"[{', '.join(f'a{next(places)}' for _ in range(self.fold[1]))}]"
            else:
                values[name] = f"a{next(places)}"
        values |= {name: f"get_{name}(node, None)" for name in order[count:]}
        scope: dict[str, Any] = {f"get_{name}": get for name, get in zip(order[count:], self.named, strict=True)}
        scope |= {"np": _backend.gpu() if on_gpu else np, "Saved": list if self.keep else tuple}
        scope |= {"sum_to": sum_to, "alias": alias, "ndarray": ndarray, "linked": linked}
        lines = ["saved = node.saved"]  # by a hook, it is of another class
        unprepared = " or node.call" * (self.prepare is not None and which == "specialized")
        lines.append(f"if saved.__class__ is not Saved{unprepared}: return None")
        lines.append("if g._a.__class__ is not ndarray: return None" if graph else "")
        for k, i in enumerate(self.keep):
            lines.append(f"a{k}, storage, version = saved[{k}]")
            lines.append("if storage is not None and storage.version != version: return None")
            if graph:
                edge = f"node.edges[{i}]" if i < len(self.names) else f"(node, {i - len(self.names)})"
                lines.append(f"if a{k}.__class__ is ndarray: a{k} = alias(a{k}, {edge}, storage)")
                lines.append("elif storage is not None: return None")
        params = {rule.function: rule.params for rule in rules} if graph else {r.fast: r.fast_params for r in rules}
        results = ["None"] * len(self.names)
        calls = self.calls if graph else self.fast_calls
        called = self.on_gpu() if on_gpu else calls
        for k, ((function, _, at, needs), (rule, *_)) in enumerate(zip(calls, called, strict=True)):
            scope |= {f"rule{k}": rule, f"needs{k}": needs}
            values["needs"] = f"needs{k}"
            if self.variadic and needs is None:
                values["index"] = str(at - self.op.fixed)
            arguments = ", ".join(values[p] for p in params[function] or ())
            for i in (at,) if needs is None else at:
                if i is not None:
                    results[i] = f"r{i}"
            targets = f"r{at}" if needs is None else "".join("_, " if i is None else f"r{i}, " for i in at)
            lines.append(f"{targets} = rule{k}({arguments})")
        if self.broadcasts:
            lines.append("shapes = node.shapes")
            for i, r in enumerate(results):
                if r != "None":
                    lines.append(f"if shapes is not None and {r} is not None and {r}.shape != shapes[{i}]:")
                    # A sum on a GPU has a program.
                    lines.append("    return None" if on_gpu else f"    {r} = sum_to({r}, shapes[{i}])")
        found = f"[{', '.join(results)}]"
        lines.append(f"return linked(node, {found})" if graph and self.op.linked else f"return {found}")
        exec("def specialized(node, g):\n    " + "\n    ".join(lines), scope)
        return scope["specialized"]

    def _choose_saved(self, params: list[str], nowhere: int) -> list[str]:
        """Choose the operands and outputs that a node saves: those that a rule's parameters name. Returns their names."""
        op, count = self.op, len(self.names)
        values = (*self.names, *op.outputs)
        named = set(params)
        if nowhere:
            named_by = [p for rule in set(op.rules.values()) for p in rule.params]
            named.update(v for v in values if named_by.count(v) > 1)
        if op.recomputed and not named.isdisjoint(op.outputs):
            named.update(self.names)
        self.keep = tuple(i for i, n in enumerate(values) if n in named)
        self.keep_operands = tuple(i for i in self.keep if i < count)
        self.keep_outputs = tuple(i - count for i in self.keep if i >= count)
        saved = list(dict.fromkeys(values[i] for i in self.keep))
        # The position of the first saved tensor of the variadic operand, which rules get as one list, and their number.
        self.fold = (saved.index(op.variadic), count - op.fixed) if op.variadic in saved else None
        return saved

    def _make_getters(self, params: list[str], saved: list[str]) -> list[str]:
        """Make getters of the parameters that are neither saved nor passed by the engine. Returns all names in order."""
        leading = ["g", "xp", "needs", "index" if self.variadic else ""]
        named = [p for p in params if p not in saved and p not in leading]
        self.named = [self._getter(p) for p in named]
        self.needs_shapes = any(p.endswith("_shape") for p in named)
        self.needs_dtypes = any(p.endswith("_dtype") for p in named)
        return [*leading, *saved, *named]

    def _make_calls(self, rules: list[Rule], order: list[str], needed: list[int], low: Any) -> None:
        """Make the calls of the rules on tensors, and on arrays where each rule has such a form."""
        self.calls = [c for rule in rules for c in self._calls(rule, rule.function, rule.params, order, needed)]
        # Gradients of sums, products and comparisons are elementwise ops, which take half precision as it is.
        self.fast = (low is None or self.op.lower is None) and all(rule.fast is not None for rule in rules)
        self.widens = low is not None
        self.wide_scalars = self.widens and self.op.wide_scalars
        self.needs_dtypes |= self.widens
        fast_rules = rules if self.fast else ()
        self.fast_calls = [
            c for rule in fast_rules for c in self._calls(rule, rule.fast, rule.fast_params, order, needed)
        ]
        self.gpu_calls: list[tuple] | None = None  # as fast_calls, on a GPU
        # Of the one rule, what prepares its calls by shapes.
        takes_low = not self.widens or self.op.half
        self.prepare = rules[0].prepare if len(fast_rules) == 1 and takes_low and not self.variadic else None
        # Whether the one call may write its result into the incoming gradient.
        self.in_place = len(self.fast_calls) == 1 and rules[0].generated and not (self.multiple_outputs or self.widens)

    def _calls(self, rule: Rule, function: Any, params: Any, order: list[str], needed: list[int]) -> list[tuple]:
        """(function, getter of its arguments, the operands that it has gradients for, its `needs` or None) for each call."""
        places = [order.index(p) for p in params]
        pick = itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))
        if rule.joint:
            at = tuple(self.names.index(n) if n in self.names else None for n in rule.wrt)
            return [(function, pick, at, tuple(i is not None and i in needed for i in at))]
        return [(function, pick, i, None) for i in needed if self.names[i] == rule.wrt[0]]

    def on_gpu(self) -> list[tuple]:
        """The calls of the rules on CuPy's arrays."""
        if self.gpu_calls is None:
            self.gpu_calls = [
                (rule_on_gpu(self.op, None if needs is not None else self.names[at], function), pick, at, needs)
                for function, pick, at, needs in self.fast_calls
            ]
        return self.gpu_calls

    def prepared(self, values: list, dtypes: Any) -> Callable[..., list] | Literal[False]:
        """A function of the gradient and the saved arrays, for such `values` of `Node.run`; False where nothing is prepared.

        dtypes: of the operands, to those of which that are of half precision gradients are rounded.
        """
        _, pick, at, needs = self.fast_calls[0]
        compute = self.prepare(*pick(values))  # type: ignore[misc]
        count = len(self.names)
        if compute is None:
            return False
        if self.widens:
            exact, some = compute, dtypes[at] if needs is None else [None if i is None else dtypes[i] for i in at]
            compute = lambda *arrays: _rounded(exact(*arrays), some)  # noqa: E731
        if needs is None:
            return lambda *arrays: [*(None,) * at, compute(*arrays), *(None,) * (count - at - 1)]
        if at == (*range(count),):
            return lambda *arrays: [*compute(*arrays)]

        def placed(*arrays: ndarray) -> list:
            results: list = [None] * count
            for i, r in zip(at, compute(*arrays), strict=True):
                if i is not None:
                    results[i] = r
            return results

        return placed

    def recomputes(self, place: int) -> bool:
        """Whether what is saved at a place is a result that is computed again where it was overwritten."""
        return self.op.recomputed and place >= len(self.keep_operands)

    def computed_again(self, attributes: dict, place: int, *saved: Any) -> Any:
        """The array of the result that is saved at a place, from the operands, which are saved first."""
        count = len(self.keep_operands)
        with _Mode(grad=False, handler=None, saving=None, recording=None):
            found = self.op(*[wrap(a) for a in saved[:count]], **attributes)
        return (found if isinstance(found, tuple) else (found,))[self.keep_outputs[place - count]]._a

    def _getter(self, name: str) -> Callable[[Node, list], Any]:
        """A function that gets the value of a rule's parameter that is neither saved nor passed by the engine."""
        op, names = self.op, self.names
        if name in op.attributes:
            return lambda node, grads: node.attributes[name]
        if name in op.aux:
            place = op.aux.index(name)
            return lambda node, grads: node.aux[place]
        what, _, kind = name.rpartition("_")
        if kind in ("shape", "dtype") and what in names:
            at = slice(op.fixed, None) if what == op.variadic else names.index(what)
            return (lambda node, grads: node.shapes[at]) if kind == "shape" else (lambda node, grads: node.dtypes[at])
        k = op.outputs.index(name.removeprefix("g_"))
        return lambda node, grads: node._gradient(k, grads)


def linked(node: Node, results: list) -> list:
    """Gradients for a graph, linked to the operands or to the result, as `Traits.linked` says; None as it is."""
    edges = [(node, 0)] * len(results) if node.backward_plan.op.linked == "out" else node.edges
    return [g if g is None else OPS["linked"](g, alias(g._a, e)) for g, e in zip(results, edges, strict=True)]


class Node(GraphNode):
    """A recorded call of an op. `edges[i]` is (node or leaf, output number) for operand i, or None without a gradient.

    In PyTorch's terms `edges` are the next edges, `saved` the saved tensors with their versions, and `number` is the sequence
    number. Numbers increase, and a node is created after its inputs: descending `number` is a valid order for backward.
    """

    __slots__ = ("backward_plan", "edges", "saved", "shapes", "dtypes", "attributes", "aux", "number", "hooks", "outs",
                 "label", "call", "__weakref__")  # fmt: skip
    hooks: Any
    outs: Any
    backward_plan: BackwardPlan
    edges: Any
    saved: Any
    attributes: dict[str, Any]
    aux: Any
    number: int
    call: Any
    dtypes: Any
    shapes: Any

    def name(self) -> str:
        """The node's name in PyTorch's spelling, e.g. `TanhBackward0`."""
        return name_of(self)

    def release(self) -> None:
        """Free the saved values; a node without saved values may run again."""
        if self.saved or self.aux is not None:
            self.saved = self.aux = None

    def run(self, grads: list, graph: bool, required: Any = None, own: bool = False) -> list:  # noqa: C901  (called per node: helper calls cost time)
        """Gradients of the operands (None if not needed) from those of the outputs: Tensors if `graph`, else arrays.

        required: the nodes and leaves that need them; None if all do. own: nothing else refers to the memory of `grads`.
        """
        back, call = self.backward_plan, self.call
        if self.saved is None:
            raise freed()
        saved: list[Any] = []
        again: set[int] = set()  # the places of what was computed again
        is_plain = self.saved.__class__ in PLAIN
        triples = self.saved if is_plain else [*self.saved]  # hooks unpack it
        for array, storage, version in triples:
            if storage is not None and storage.version != version:
                if not back.recomputes(len(saved)):
                    raise overwritten(array, storage, version, self)
                again.add(len(saved))
                array = back.computed_again(self.attributes, len(saved), *saved)
            saved.append(array)
        unprepared = None  # key of the function to prepare for such gradients
        if call is not None and not graph and required is None:
            if call.__class__ is LayoutCall:
                if is_plain and (gradient := call.gradients.of((back,), grads)) is not None:
                    if gradient.program is not None:
                        try:
                            return gradient.program((grads, saved, self.aux))
                        except OutdatedProgramError:
                            gradient.program = None
                    if gradient.takes_notes():
                        return gradient.noted(partial(self.run, grads, False), (grads, saved, self.aux), call.twice)
            elif back.prepare is not None and (unprepared := key_of(back, grads)) is not None:
                prepared = call.gradients.get(unprepared)
                if prepared:
                    return prepared(grads[0], *saved) if self.aux is None else prepared(grads[0], *saved, *self.aux)
                if prepared is not None:
                    unprepared = None
        grads = grads if grads[0].__class__ is ndarray else densify_unsupported(back.op, grads)
        fast = back.fast and not graph and grads[0].__class__ is not SparseCOO
        if not fast:
            saved = self._as_tensors(saved, triples, again)
            grads = [g if g is None or isinstance(g, Tensor) else wrap(g) for g in grads]
        if back.fold is not None:
            at, n = back.fold
            saved[at : at + n] = [saved[at : at + n]]
        values = [tuple(grads) if back.multiple_outputs else grads[0], np, None, None, *saved]
        for get in back.named:
            values.append(get(self, grads))
        into = {"out": grads[0]} if own and fast and _may_replace(grads[0], saved) else NOTHING
        results = self._call_rules(values, fast, required, into)
        if unprepared is not None:
            call.gradients[unprepared] = back.prepared(values, self.dtypes)
        if not (fast or graph):
            results = [None if r is None else r._a for r in results]
        if self.shapes is not None and back.broadcasts:
            for i, r in enumerate(results):
                if r is not None and r.shape != self.shapes[i]:
                    results[i] = sum_to(r, self.shapes[i])
        if back.wide_scalars:
            results = [_in_dtype(r, d) for r, d in zip(results, self.dtypes, strict=True)]
        if back.widens and fast:
            results = _rounded(results, self.dtypes)
        return linked(self, results) if graph and back.op.linked else results

    def _call_rules(self, values: list, fast: bool, required: Any, into: dict[str, Any]) -> list:
        """The results of the rules: of their forms for arrays if `fast`, else of those for tensors.

        Args:
            values: what they take, see `BackwardPlan`.
            into: the array into which a rule writes its result, as `out`.
        """
        back, calls = self.backward_plan, self.backward_plan.calls
        if fast:
            calls, g = back.fast_calls, values[0]
            if g.__class__ is not ndarray:
                xp = values[1] = _backend.namespace(
                    next(each for each in g if each is not None) if g.__class__ is tuple else g
                )
                calls = calls if xp is np else back.on_gpu()
            if back.widens and not (back.op.half and (values[1] is np or back.op.half == "everywhere")):
                values = _widened(values)
        results: list = [None] * len(self.edges)
        for function, pick, at, needs in calls:
            if required is not None:
                if needs is None:
                    if not self._leads_to(at, required):
                        continue
                else:
                    needs = tuple([need and self._leads_to(i, required) for need, i in zip(needs, at, strict=True)])
                    if True not in needs:
                        continue
            if needs is None:
                if back.variadic:
                    values[3] = at - back.op.fixed
                results[at] = function(*pick(values), **into)
            else:
                values[2] = needs
                for i, r in zip(at, function(*pick(values)), strict=True):
                    if i is not None:
                        results[i] = r
        return results

    def _leads_to(self, i: int, required: Any) -> bool:
        """Whether the edge of operand `i` goes to one of `required`."""
        edge = self.edges[i]
        return edge is not None and edge[0] in required

    def _gradient(self, k: int, grads: list) -> Any:
        """The gradient of output `k`; if it has none, zeros, or None for an array-level rule on a GPU that takes that."""
        if grads[k] is not None:
            return grads[k]
        if grads[0].__class__ is ndarray:
            return zeros(self.outs[k])
        graph = any(isinstance(g, Tensor) for g in grads)
        op = self.backward_plan.op
        if not graph and self.outs[k][2] is not np and op.outputs[k] in op.absent:
            return None
        nothing = zeros(self.outs[k])
        return wrap(nothing) if graph else nothing

    def _as_tensors(self, saved: list, triples: Any, again: set[int]) -> list:
        """The saved arrays as tensors with the edges that the originals had in the graph, and their storages but `again`."""
        edges, count, tensors = self.edges, len(self.edges), []
        for k, (a, i, triple) in enumerate(zip(saved, self.backward_plan.keep, triples, strict=True)):
            if a.__class__ is ndarray or a.__class__ is SparseCOO or _backend.is_array(a):
                a = alias(a, edges[i] if i < count else (self, i - count), None if k in again else triple[1])
            tensors.append(a)
        return tensors


def node_of(
    back: BackwardPlan, edges: Any, operands: tuple, arrays: Any, attributes: dict, outs: tuple, aux: Any = None,
    call: Any = None, layout: LayoutCall | None = None, whole: bool = True,
) -> Node:  # fmt: skip
    """The node of a call. Not `Node.__init__`: to call a class takes a third as long as all this does.

    Args:
        call: the remembered one (`_remembered._Call`) that this is; all results but the first are arrays then.
        layout: the one on a GPU.
        whole: False if all results but the first are arrays of a GPU.
    """
    node = _new(Node)
    node.backward_plan, node.edges, node.call = back, edges, call
    node.attributes, node.aux, node.number = attributes, aux, number()
    node.hooks = node.outs = node.dtypes = node.shapes = None
    if back.keep:
        saved = node.saved = []
        for i in back.keep_operands:
            t = operands[i]
            if t.__class__ is Tensor or isinstance(t, Tensor):
                st = t._st
                if st.inference:
                    raise RuntimeError(
                        f"Inference tensors cannot be saved for backward. Give {back.op.name} a clone() instead."
                    )
                saved.append((arrays[i], st, st.version))
            else:
                saved.append((t, None, 0))
        for k in back.keep_outputs:
            t = outs[k]
            saved.append((t._a, t._st, t._st.version) if not k or (whole and call is None) else (t, None, 0))
    else:
        node.saved = ()  # an empty list would be one more object for the garbage collector
    if back.needs_shapes or (back.broadcasts and (len(operands) != 2 or was_broadcast(*arrays))):
        node.shapes = (arrays[0].shape,) if len(operands) == 1 else tuple([getattr(a, "shape", ()) for a in arrays])
    if back.needs_dtypes:
        node.dtypes = tuple([getattr(a, "dtype", None) for a in arrays])
    if back.multiple_outputs:
        if layout is not None and layout.kinds is not None:
            node.outs = layout.kinds
        else:
            node.outs = (
                [kind_of(t if k == 0 or whole else wrap(t)) for k, t in enumerate(outs)] if call is None else call.kinds
            )
    if layout is not None:
        node.call = layout
        layout.kinds = node.outs
    return node


def _widened(values: list) -> list:
    """The arguments of rules with half-precision arrays as float32, also those in a list or tuple."""
    return [
        type(value)(_kernels.widen(value)) if value.__class__ in (list, tuple) else value
        for value in _kernels.widen(values)
    ]


def _rounded(results: Any, dtypes: Any) -> Any:
    """Gradients in float32 rounded to the half-precision types among `dtypes`; an array and a type, or one for each."""
    if results.__class__ is ndarray:
        return _kernels.narrow(results, dtypes) if dtypes in _kernels.LOWER else results
    return [
        r if r is None or d not in _kernels.LOWER or r.dtype is d else _kernels.narrow(r, d)
        for r, d in zip(results, dtypes, strict=True)
    ]


def _in_dtype(gradient: Any, dtype: Any) -> Any:
    """A tensor or array in the NumPy dtype; None stays."""
    if isinstance(gradient, Tensor):
        return gradient.to(of(dtype))
    return gradient if gradient is None or gradient.dtype == dtype else gradient.astype(dtype)


def _may_replace(g: Any, saved: list) -> bool:
    """Whether a formula's result, of the gradient `g` and the saved arrays, has the type and the strides of `g`."""
    dtype, strides, shape = g.dtype, g.strides, g.shape
    if dtype.char != "f" or not g.flags.writeable:  # of float64, NumPy computes some formulas: with temporary arrays
        return False
    return all(a.__class__ is ndarray and a.dtype is dtype and a.strides == strides and a.shape == shape for a in saved)


def kind_of(t: Tensor) -> tuple:
    """Shape, dtype and device of the array in `t`, for `zeros`."""
    a = t._a
    return a.shape, a.dtype, np if a.__class__ is ndarray else _backend.namespace(a)


def zeros(kind: tuple) -> Any:
    """An array of zeros of a kind noted by `kind_of`."""
    shape, dtype, xp = kind
    return xp.zeros(shape, dtype)


def key_of(back: BackwardPlan, grads: list) -> tuple | None:
    """What prepared gradients of a call depend on besides the call; None unless the first result alone has a gradient."""
    g = grads[0]
    if g.__class__ is not ndarray:
        return None
    for other in grads[1:]:
        if other is not None:
            return None
    return back, g.dtype, g.shape, g.strides


def was_broadcast(a: Any, b: Any) -> bool:
    """Whether one of two operands was (or, off NumPy, might have been) broadcast to the other's shape."""
    if a.__class__ is ndarray:
        return b.__class__ is ndarray and a.shape != b.shape
    return b.__class__ is not ndarray


def sum_to(value: Any, shape: tuple[int, ...]) -> Any:
    """Sum `value` (array or tensor) over the axes along which `shape` was broadcast to it."""
    if value.__class__ is ndarray and value.flags.c_contiguous:
        run = _SUMS.get(key := (value.dtype, value.shape, shape))
        if run is None and _SUM_COUNTS.often(key):
            if len(_SUMS) >= MOST_SUMS:
                _SUMS.clear()
            run = _SUMS[key] = _prepared_sum(*key) or False
        if run:
            return run(value)
    axes = _broadcast_axes(value.shape, shape)
    if isinstance(value, Tensor):
        return (value.sum(axes) if axes else value).reshape(shape)
    return (_kernels.total(value, axes, None, True) if axes else value).reshape(shape)


def _broadcast_axes(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of `shape` along which `target` was broadcast to it."""
    extra = len(shape) - len(target)
    return (*range(extra), *(i + extra for i, n in enumerate(target) if n == 1 and shape[i + extra] != 1))


def _prepared_sum(dtype: Any, shape: tuple[int, ...], target: tuple[int, ...]) -> Callable[[ndarray], ndarray] | None:
    """What gives `sum_to` of contiguous arrays of a type and shape without the steps between; None where nothing does."""
    axes = _broadcast_axes(shape, target)
    if dtype.kind != "f" or not axes or not math.prod(shape):
        return None
    keepdims = len(axes) > len(shape) - len(target)  # some of them are axes of `target`
    run = _kernels.prepared_fold("sum", dtype, shape, axes, keepdims, None)
    if run is None or (keepdims and len(shape) > len(target)):
        return run and (lambda value: run(value).reshape(target))
    return run if target else lambda value: np.asarray(run(value))


_SUMS: dict[tuple, Callable[[ndarray], ndarray] | Literal[False]] = {}  # by dtype and both shapes
_SUM_COUNTS = CallCounts()
_kernels.UFUNCS.append(_SUMS)
