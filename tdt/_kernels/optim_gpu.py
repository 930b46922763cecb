"""An optimizer's step on a GPU: one launch for all parameters of a group, generated from the optimizer's formula."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._kernels import _cuda, _lists, capture_gpu
from tdt._kernels._cuda import LETTERS, STORED
from tdt._kernels._cuda_formula import FUNCTIONS, Emitter
from tdt._kernels.expression import Expression, Variable, as_expression

GRADIENT, VALUE = 0, 1  # the first two inputs of a formula; the arrays of the state follow
Renewed = list[tuple[tuple, dict[str, Any]]]  # numbers and options, if none, one, … of the steps before were skipped


class Number(Expression):
    """A number of the host in a formula, such as the learning rate: an operand of the kernel.

    What is computed of such numbers alone is computed by the host, in double precision; comparisons are answered for the
    numbers that are there, and noted: the code is used again as long as the answers are the same.
    """

    __slots__ = ("place", "trace")

    def __init__(self, trace: _Trace, place: int):
        super().__init__("input", trace.arrays + place)
        self.trace, self.place = trace, place

    def _with(self, function: Callable, left: Any, right: Any) -> Any:
        return self.trace.add(function, left, right)

    def __neg__(self) -> Number:
        return self._with(operator.mul, self, -1.0)

    def __bool__(self) -> bool:
        return bool(self.trace.answer(operator.ne, self, 0))


def _arithmetic(name: str, function: Callable, reflected: bool) -> Callable:
    of_elements = getattr(Expression, name)

    def method(self: Number, other: Any) -> Any:
        if other.__class__ in (Number, float, int):
            return self._with(function, other, self) if reflected else self._with(function, self, other)
        return of_elements(self, other)

    return method


def _comparison(name: str, function: Callable) -> Callable:
    of_elements = getattr(Expression, name)

    def method(self: Number, other: Any) -> Any:
        if other.__class__ in (Number, float, int):
            return self.trace.answer(function, self, other)
        return of_elements(self, other)

    return method


for _name in ("add", "sub", "mul", "truediv"):
    setattr(Number, f"__{_name}__", _arithmetic(f"__{_name}__", getattr(operator, _name), False))
    setattr(Number, f"__r{_name}__", _arithmetic(f"__r{_name}__", getattr(operator, _name), True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Number, f"__{_name}__", _comparison(f"__{_name}__", getattr(operator, _name)))
Number.__hash__ = None  # type: ignore[assignment]


class _Trace:
    """What the host computes of its numbers: the values of one step, and how to compute those of another."""

    def __init__(self, arrays: int, leaves: Sequence[float]):
        self.arrays, self.values = arrays, list(leaves)
        self.steps: list[tuple[Callable, Any, Any]] = []
        self.answers: list[tuple[Callable, Any, Any, bool]] = []

    def add(self, function: Callable, left: Any, right: Any) -> Number:
        """The number that a function gives of two."""
        step = function, _operand(left), _operand(right)
        self.steps.append(step)
        self.values.append(_applied(step, self.values))
        return Number(self, len(self.values) - 1)

    def answer(self, function: Callable, left: Any, right: Any) -> bool:
        """The answer of a comparison."""
        step = function, _operand(left), _operand(right)
        result = bool(_applied(step, self.values))
        self.answers.append((*step, result))
        return result

    def values_of(self, leaves: Sequence[float]) -> list[float] | None:
        """All numbers of another step; None if a comparison has another answer there."""
        values = list(leaves)
        for step in self.steps:
            values.append(_applied(step, values))
        if any(bool(_applied(known[:3], values)) != known[3] for known in self.answers):
            return None
        return values


def _operand(value: Any) -> Any:
    """A number's place in the list of values; a constant as it is."""
    return (value.place,) if value.__class__ is Number else value


def _applied(step: tuple, values: list[float]) -> Any:
    function, left, right = step
    return function(
        values[left[0]] if left.__class__ is tuple else left, values[right[0]] if right.__class__ is tuple else right
    )


class Step:
    """The steps of a group of parameters of one dtype by `change(xp, g, p, state, numbers, options)`.

    change: what is added to the values `p`, descending `g`; writes to `state`, as arrays would be written.
    """

    def __init__(self, change: Callable[..., Any]):
        self.change = change
        self.targets: Any = None
        self.launches: list = []  # those for the targets, at their place in the state
        self.known: list[tuple[tuple, _Trace, Callable[..., None], list[int]] | None] = []

    def __call__(self, targets: Sequence[Any], grads: Sequence[Any], state: Sequence[Any], start: int, numbers: tuple,
                 options: dict[str, Any], renewed: Callable[[], Renewed] | None = None, skips: Any = None) -> bool:  # fmt: skip
        """Update dense arrays `targets`; False where the formula has functions that kernels lack.

        state: arrays that hold the elements of all targets, from `start` on. renewed: in a CUDA graph, what gives the numbers
        and options of a replay. skips: a `ScaleOnGpu` whose flag says whether a replay updates nothing, or None.
        """
        leaves: list[float] = []
        shape = _leaves((numbers, options), leaves)
        kind = targets[0].dtype
        for found in self.known:
            if found is None:
                return False
            fixed, trace, kernel, places = found
            if fixed == (shape, kind, len(state)) and (values := trace.values_of(leaves)) is not None:
                break
        else:
            built = self._compiled(kind, len(state), leaves, numbers, options)
            self.known.append(None if built is None else ((shape, kind, len(state)), *built))
            return self(targets, grads, state, start, numbers, options, renewed, skips)
        operands, live = [float(values[place]) for place in places], None
        if renewed is not None and places:
            capture = capture_gpu.current()
            assert capture is not None, "numbers are renewed for the replays of a graph"
            compute = functools.partial(_operands, trace, shape, places, renewed)
            live = capture.numbers(len(places), np.float64, compute, skips)
        flag = None if skips is None or renewed is None else skips.flag
        if self.targets is not targets:
            self.targets, self.launches = targets, _lists.launches(targets, 2, start)
        for arrays, blocks in _lists.of_launches(self.launches, [grads]):
            kernel((blocks,), (_cuda.THREADS,), (arrays, *state, live, flag, *operands))
        return True

    def _compiled(
        self, dtype: Any, count: int, leaves: list[float], numbers: tuple, options: dict[str, Any]
    ) -> tuple | None:
        """(trace of the numbers, kernel, which numbers it takes)."""
        from tdt._kernels import functions
        from tdt._kernels._double import Double

        trace = _Trace(2 + count, leaves)
        letter = LETTERS[dtype]
        ahead = iter(range(len(leaves)))
        traced_numbers, traced_options = _traced((numbers, options), trace, ahead)
        g, p, *state = (Expression("input", k) for k in range(2 + count))
        variables = [Variable(x) for x in state]
        xp = functions if letter != "d" else Double
        try:
            change = as_expression(self.change(xp, g, p, variables, traced_numbers, traced_options))
        except AttributeError:  # a function of NumPy's that expressions lack
            return None
        written = [k for k in range(count) if variables[k].now is not state[k]]
        outputs = [p + change, *(variables[k].now for k in written)]
        places = sorted(_inputs(outputs, 2 + count))
        source = _source(letter, count, written, outputs, places)
        return trace, _cuda.compiled(source, "optimizer_step"), places


def _operands(trace: _Trace, shape: Any, places: list[int], renewed: Callable[[], Renewed]) -> list[float]:
    """The numbers of a replay, one row after the other. OutdatedCaptureError where they would need other code."""
    found: list[float] = []
    for row in renewed():
        leaves: list[float] = []
        values = trace.values_of(leaves) if _leaves(row, leaves) == shape else None
        if values is None:
            raise capture_gpu.OutdatedCaptureError(
                "options of the optimizer changed so that its captured step no longer fits: capture the graph again"
            )
        found += [float(values[place]) for place in places]
    return found


def _leaves(value: Any, found: list[float]) -> Any:
    """What is not a number in nested tuples and dictionaries; the numbers are appended to `found`."""
    if value.__class__ is tuple:
        return tuple(_leaves(each, found) for each in value)
    if value.__class__ is dict:
        return tuple((name, _leaves(each, found)) for name, each in value.items())
    if value.__class__ in (float, int):
        found.append(float(value))
        return None
    return value


def _traced(value: Any, trace: _Trace, ahead: Any) -> Any:
    """The same nested values with a `Number` for each number."""
    if value.__class__ is tuple:
        return tuple(_traced(each, trace, ahead) for each in value)
    if value.__class__ is dict:
        return {name: _traced(each, trace, ahead) for name, each in value.items()}
    return Number(trace, next(ahead)) if value.__class__ in (float, int) else value


def _inputs(outputs: list[Expression], first: int) -> set[int]:
    """The places of the numbers among the inputs of expressions."""
    found: set[int] = set()
    visited: set[int] = set()
    stack = list(outputs)
    while stack:
        each = stack.pop()
        if id(each) in visited:
            continue
        visited.add(id(each))
        if each.op == "input" and each.args[0] >= first:
            found.add(each.args[0] - first)
        stack += [a for a in each.args if isinstance(a, Expression)]
    return found


def _source(letter: str, count: int, written: list[int], outputs: list[Expression], places: list[int]) -> str:
    """The kernel that writes the first of `outputs` to the parameters and the others to the state."""
    emitter, kind = Emitter(letter == "d"), STORED[letter]
    loads = ["g", "p", *(f"x{k}" for k in range(count)), *("" for _ in range(max(places, default=-1) + 1))]
    for place in places:
        loads[2 + count + place] = f"n{place}"
    known: dict = {}
    names = [emitter.value(output, loads, known) for output in outputs]
    lines = [
        f"{kind}* target = ({kind}*)all.at[0][array] + k;",
        f"const {emitter.real} g = load((({kind}*)all.at[1][array])[k]), p = load(*target);",
        *(["const long long place = all.start[array] + k;"] if count else []),
        *(f"const {emitter.real} x{k} = load(state{k}[place]);" for k in range(count)),
        *emitter.lines,
        f"store(target, {names[0]});",
        *(f"store(state{k} + place, {name});" for k, name in zip(written, names[1:], strict=True)),
    ]
    body = "\n        ".join(lines)
    parameters = ["arrays all", *(f"{kind}* state{k}" for k in range(count)), "const double* live", "const int* skip"]
    parameters += [f"double number{p}" for p in places]
    rounded = "".join(
        f"    const {emitter.real} n{p} = ({emitter.real})(live ? live[{k}] : number{p});\n"
        for k, p in enumerate(places)
    )
    return (
        f"{FUNCTIONS if emitter.calls_parts else ''}{_lists.source(2)}\n"
        f'extern "C" __global__ void optimizer_step({", ".join(parameters)}) {{\n    if (skip && *skip) return;\n{rounded}'
        f"    LOOP(all) {{\n        {body}\n    }}\n}}\n"
    )


@functools.cache
def _of_gradients(name: str, dtype: Any) -> Callable[..., None]:
    return _cuda.of_type(_lists.source(1) + _GRADIENTS, name, dtype)


_GRADIENTS = r"""
// The sum of the squares of the elements that a block goes over; and for a `norm`, the root of all `count` such sums.
extern "C" __global__ void squares(arrays all, double* sums, real* norm, unsigned int* tickets, long long first,
                                   long long count) {
    double sum = 0;
    LOOP(all) {
        const double x = (double)((const real*)all.at[0][array])[k];
        sum += x * x;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[first + blockIdx.x] = sum;
    if (!norm || !is_last_of(tickets, gridDim.x)) return;
    sum = 0;
    for (long long k = threadIdx.x; k < count; k += blockDim.x) sum += ((const volatile double*)sums)[k];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *norm = (real)sqrt(sum);
}

// Multiplies by most / (norm + 1e-6) where that is below 1, or NaN.
extern "C" __global__ void clip(arrays all, const real* norm, double most) {
    const real factor = (real)most / (*norm + (real)1e-6);
    if (factor >= 1) return;
    LOOP(all) ((real*)all.at[0][array])[k] *= factor;
}

// Multiplies by `inverse`, or divides 1 by *scale for it, and sets *found where an element is not finite, before or after.
extern "C" __global__ void unscale(arrays all, double inverse, int* found, const double* scale) {
    const real factor = (real)(scale ? 1 / *scale : inverse);
    bool wrong = false;
    LOOP(all) {
        real* at = (real*)all.at[0][array] + k;
        const real x = *at * factor;
        wrong |= x - x != 0;
        *at = x;
    }
    if (wrong) *found = 1;
}
"""


_ADD = r"""
extern "C" __global__ void add(arrays all) {
    LOOP(all) ((real*)all.at[0][array])[k] += ((const real*)all.at[1][array])[k];
}
"""
_ADD_NUMBERS = r"""
// From array `mixed` on, what is added is of integers; from `whole` on, the sums are too.
extern "C" __global__ void add_numbers(arrays all, long long mixed, long long whole) {
    LOOP(all) {
        const void* from = (const void*)all.at[1][array];
        double* sum = (double*)all.at[0][array];
        if (array < mixed) *sum += *(const double*)from;
        else if (array < whole) *sum += (double)*(const long long*)from;
        else *(long long*)sum += *(const long long*)from;
    }
}
"""


def add(targets: Sequence[Any], arrays: Sequence[Any]) -> None:
    """Add dense arrays to others of their sizes and dtype."""
    kernel = _cuda.of_type(_lists.source(2) + _ADD, "add", targets[0].dtype)
    for parameters, blocks in _lists.parameters([targets, arrays]):
        kernel((blocks,), (_cuda.THREADS,), (parameters,))


def add_numbers(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Add the second 0-d array of each pair to the first, both of float64 or int64: no float64 to an int64."""
    kinds = [target.dtype.kind + value.dtype.kind for target, value in pairs]
    pairs = [pairs[k] for k in sorted(range(len(pairs)), key=kinds.__getitem__)]
    mixed, whole = kinds.count("ff"), len(kinds) - kinds.count("ii")
    kernel = _cuda.compiled(_lists.source(2) + _ADD_NUMBERS, "add_numbers")
    for parameters, blocks in _lists.parameters([*zip(*pairs, strict=True)]):
        kernel((blocks,), (1,), (parameters, mixed, whole))
        mixed, whole = mixed - _lists.MOST, whole - _lists.MOST


def norm(arrays: Sequence[Any]) -> Any:
    """The norm of dense arrays of one dtype, as if they were one vector: 0-d, summed in double precision."""
    from tdt import _backend

    xp, dtype = _backend.gpu(), arrays[0].dtype
    launches = list(_lists.parameters([arrays]))
    if not launches:
        return xp.zeros((), dtype)
    most = [min(blocks, _cuda.MOST_BLOCKS) for _, blocks in launches]
    sums, result = xp.empty(sum(most), "d"), xp.empty((), dtype)
    first = 0
    for (all_arrays, _), blocks in zip(launches, most, strict=True):
        last = first + blocks == len(sums)
        arguments = all_arrays, sums, result if last else None, capture_gpu.tickets(), first, len(sums)
        _of_gradients("squares", dtype)((blocks,), (_cuda.THREADS,), arguments)
        first += blocks
    return result


def clip(arrays: Sequence[Any], total: Any, most: float) -> None:
    """Multiply dense arrays by most / (total + 1e-6) where that is below 1. total: 0-d, of their dtype."""
    for all_arrays, blocks in _lists.parameters([arrays]):
        _of_gradients("clip", arrays[0].dtype)((blocks,), (_cuda.THREADS,), (all_arrays, total, most))


def unscale(arrays: Sequence[Any], inverse: float, found: Any, scale: Any = None) -> None:
    """Multiply dense arrays by a number; `found`, an int32 of one element, becomes 1 if a product is not finite.

    scale: a float64 on the GPU, whose reciprocal is taken in place of `inverse`.
    """
    for all_arrays, blocks in _lists.parameters([arrays]):
        _of_gradients("unscale", arrays[0].dtype)((blocks,), (_cuda.THREADS,), (all_arrays, inverse, found, scale))


_SCALE = r"""
// As GradScaler.update. memory: the scale, steps since it changed, steps that were skipped, those of them that lowered the scale.
extern "C" __global__ void update_scale(double* memory, int* found, double growth, double backoff, long long interval) {
    if (blockIdx.x || threadIdx.x) return;
    const double before = memory[0];
    if (*found) {
        memory[0] = before * backoff;
        memory[1] = 0;
        memory[2] += 1;
        memory[3] += memory[0] < before;
        *found = 0;
    } else if ((memory[1] += 1) == interval) {
        const double larger = before * growth;
        if (larger - larger == 0) memory[0] = larger;
        memory[1] = 0;
    }
}

// The weight of a batch in the mean of a step. memory: by what the loss of this batch is multiplied, the first weight that is not
// 0, the sum of all; 256 bytes later, by what the sum of gradients is.
extern "C" __global__ void add_share(const double* share, double* memory, long long is_first) {
    if (blockIdx.x || threadIdx.x) return;
    if (is_first) memory[1] = memory[2] = 0;
    if (memory[1] == 0) memory[1] = *share;
    memory[2] += *share;
    memory[0] = *share == memory[1] ? 1 : *share / memory[1];
    memory[32] = 1 / (memory[2] / memory[1]);
}
"""


def update_scale(memory: Any, found: Any, growth: float, backoff: float, interval: int) -> None:
    """Raise or lower a loss scale on the GPU, and clear the flag `found`. memory: as of the kernel."""
    _cuda.compiled(_SCALE, "update_scale")((1,), (1,), (memory, found, float(growth), float(backoff), interval))


def add_share(share: Any, memory: Any, is_first: bool) -> None:
    """Count the weight of a batch, a float64 on the GPU. memory: as of the kernel."""
    _cuda.compiled(_SCALE, "add_share")((1,), (1,), (share, memory, int(is_first)))
