"""Reductions over any dimensions on a GPU, in one launch: sums, products, norms, extremes, variances and their like.

A block has `lanes` neighbouring results, for each of which `lines` threads go over the elements; their parts are joined in double
precision, pair by pair, and rounded once. Of few results with many elements each, several blocks have a part, and the last one
joins them. What is added to what follows from how the array lies alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels import _cuda, capture_gpu
from tdt._kernels._cuda_formula import FUNCTIONS, Emitter
from tdt._kernels._gpu_conditions import MOST_DIMENSIONS as MOST
from tdt._kernels.expression import Expression, as_expression
from tdt._kernels.programs_gpu import MEMORY

SHORT = 32  # elements of a row that a thread takes alone
PART = 4096  # elements for each result that a block goes over, at least, where several share it
ENOUGH = 512  # blocks that keep a GPU busy

# A part of a result's elements: `part_of` some, `joined`, and the result of all of them. kind: of `KINDS`; number: what it needs.
SUM = r"""
enum { WORDS = 1, SUM, MEAN, NORM1, NORM2 };
struct part { double v[WORDS]; };
__device__ part none() { return {{0}}; }
__device__ part joined(part a, part b) { return {{a.v[0] + b.v[0]}}; }
__device__ real finished(part p, long long kind, double number) {
    return kind == MEAN ? (real)p.v[0] / (real)number : kind == NORM2 ? (real)sqrt(p.v[0]) : (real)p.v[0];
}
#define PART_OF \
    sum_of_elements total; \
    EACH(total += kind == NORM2 ? x * x : kind == NORM1 ? fabs(x) : x;) \
    return {{total.value()}};
"""
EXTREME = r"""
enum { WORDS = 1, MAX, MIN, NORM_INF };
struct part { double v[WORDS]; };
__device__ part none() { return {{-(double)__int_as_float(0x7F800000)}}; }
__device__ part joined(part a, part b) { return b.v[0] > a.v[0] || b.v[0] != b.v[0] ? b : a; }
__device__ real finished(part p, long long kind, double number) { return (real)(kind == MIN ? -p.v[0] : p.v[0]); }
#define PART_OF \
    part best = none(); \
    EACH(best = joined(best, {{kind == MIN ? -x : kind == NORM_INF ? fabs(x) : x}});) \
    return best;
"""
# How many, their mean, and the sum of squared differences from it, corrected for the rounding of the mean; parts are joined as
# T. Chan, G. Golub and R. LeVeque (1979) do.
VARIANCE = r"""
enum { WORDS = 3, VAR, STD };
struct part { double v[WORDS]; };
__device__ part none() { return {{0, 0, 0}}; }
__device__ part joined(part a, part b) {
    if (!b.v[0]) return a;
    const double n = a.v[0] + b.v[0], apart = b.v[1] - a.v[1], share = b.v[0] / n;
    return {{n, a.v[1] + apart * share, a.v[2] + b.v[2] + apart * apart * (a.v[0] * share)}};
}
__device__ real finished(part p, long long kind, double number) {
    return (real)(kind == STD ? sqrt(p.v[2] / number) : p.v[2] / number);
}
#define PART_OF \
    if (from >= to) return none(); \
    const double n = (double)((to - from + step - 1) / step); \
    sum_of_elements total, left, squares; \
    EACH(total += x;) \
    const double mean = total.value() / n; \
    EACH(const double apart = x - mean; left += apart; squares += apart * apart;) \
    return {{n, mean, squares.value() - left.value() * left.value() / n}};
"""
# An extreme and its place in the order of the elements; of equal ones, and of several NaN, the first.
PLACE = r"""
enum { WORDS = 2, MAX_AT, MIN_AT };
struct part { double v[WORDS]; };
__device__ part none() { return {{0, -1}}; }
__device__ part joined(part a, part b) {
    if (a.v[1] < 0 || b.v[1] < 0) return a.v[1] < 0 ? b : a;
    const bool a_is_nan = a.v[0] != a.v[0], b_is_nan = b.v[0] != b.v[0];
    if (a_is_nan != b_is_nan) return b_is_nan ? b : a;
    const bool alike = a_is_nan || a.v[0] == b.v[0];
    return (alike ? b.v[1] < a.v[1] : b.v[0] > a.v[0]) ? b : a;
}
__device__ real finished(part p, long long kind, double number) { return (real)(kind == MIN_AT ? -p.v[0] : p.v[0]); }
#define PART_OF \
    part best = none(); \
    EACH(best = joined(best, {{kind == MIN_AT ? -x : x, (double)k}});) \
    return best;
"""
PRODUCT = r"""
enum { WORDS = 1, PROD };
struct part { double v[WORDS]; };
__device__ part none() { return {{1}}; }
__device__ part joined(part a, part b) { return {{a.v[0] * b.v[0]}}; }
__device__ real finished(part p, long long kind, double number) { return (real)p.v[0]; }
#define PART_OF \
    double all = 1; \
    EACH(all *= x;) \
    return {{all}};
"""
# The largest element, and the sum of the exponentials of the others' distances from it.
LOGSUMEXP = r"""
enum { WORDS = 2, LOGSUMEXP };
struct part { double v[WORDS]; };
__device__ part none() { return {{-(double)__int_as_float(0x7F800000), 0}}; }
__device__ double share(double x, double top) { return x == top ? 1.0 : (double)exp((real)(x - top)); }
__device__ part joined(part a, part b) {
    if (a.v[1] == 0 || b.v[1] == 0) return b.v[1] == 0 ? a : b;
    const double top = b.v[0] > a.v[0] || b.v[0] != b.v[0] ? b.v[0] : a.v[0];
    return {{top, a.v[1] * share(a.v[0], top) + b.v[1] * share(b.v[0], top)}};
}
__device__ real finished(part p, long long kind, double number) { return (real)(p.v[0] + log(p.v[1])); }
#define PART_OF \
    double top = none().v[0]; \
    EACH(top = x > top || x != x ? x : top;) \
    sum_of_elements total; \
    EACH(total += share(x, top);) \
    return {{top, total.value()}};
"""
WORDS = {"variance": 3, "place": 2, "logsumexp": 2}  # numbers of a part; of others one
SOURCES = {
    "sum": SUM,
    "extreme": EXTREME,
    "variance": VARIANCE,
    "place": PLACE,
    "product": PRODUCT,
    "logsumexp": LOGSUMEXP,
}
KINDS = {
    "sum": ("sum", 2), "mean": ("sum", 3), "norm1": ("sum", 4), "norm2": ("sum", 5),
    "max": ("extreme", 2), "min": ("extreme", 3), "norm_inf": ("extreme", 4), "var": ("variance", 4), "std": ("variance", 5),
    "max_at": ("place", 3), "min_at": ("place", 4), "prod": ("product", 2), "logsumexp": ("logsumexp", 3),
    "any": ("extreme", 2), "all": ("extreme", 3),
}  # fmt: skip

SOURCE = (
    f"""
struct places {{ whole remaining[{MOST}], remaining_step[{MOST}], size[{MOST}], step[{MOST}]; }};
"""
    + r"""
struct plain_sum {  // in double precision, of elements that have less
    double total = 0;
    __device__ void operator+=(double x) { total += x; }
    __device__ double value() const { return total; }
};

__device__ __forceinline__ whole place(whole k, const whole* size, const whole* step, long long rank) {
    whole at = 0;
    for (int d = (int)rank - 1; d > 0; d--) {
        at += k % size[d] * step[d];
        k /= size[d];
    }
    return at + k * step[0];
}

#define EACH(...) for (long long k = from; k < to; k += step) { \
        const whole at = first + place((whole)k, z.size, z.step, rank); \
        ELEMENT \
        __VA_ARGS__ \
    }
__device__ part part_of(PARAMETERS, whole first, long long from, long long to, long long step, const places& z, long long rank,
                        long long kind) {
    PART_OF
}

__device__ void join_lines(part* parts, long long lanes, long long lines) {
    __syncthreads();
    for (long long half = lines / 2; half; half /= 2) {
        for (long long t = threadIdx.x; t < lanes * half; t += blockDim.x) parts[t] = joined(parts[t], parts[t + lanes * half]);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(1024) NAME(
    PARAMETERS, RESULTS, double* memory, unsigned int* tickets, long long results, long long count, long long lanes,
    long long lines, long long along, long long parts, long long remaining_rank, long long rank, long long kind,
    double number, const __grid_constant__ places z) {
    __shared__ part found[1024];
    const long long tiles = (results + lanes - 1) / lanes, each = (count + parts - 1) / parts;
    for (long long b = blockIdx.x; b < tiles * parts; b += gridDim.x) {
        const long long own = b / parts * lanes, from = b % parts * each, to = min(from + each, count);
        for (long long t = threadIdx.x; t < lanes * lines; t += blockDim.x) {
            const long long lane = along ? t / lines : t % lanes, line = along ? t % lines : t / lanes, r = own + lane;
            found[line * lanes + lane] = r >= results ? none() : part_of(
                ARRAYS, place((whole)r, z.remaining, z.remaining_step, remaining_rank), from + line, to, lines, z, rank, kind);
        }
        join_lines(found, lanes, lines);
        if (parts > 1) {
            for (long long k = threadIdx.x; k < lanes * WORDS; k += blockDim.x)
                memory[b * lanes * WORDS + k] = found[k / WORDS].v[k % WORDS];
            if (!is_last_of(tickets + b / parts, (unsigned int)parts)) continue;
            const volatile double* all = memory + b / parts * parts * lanes * WORDS;
            for (long long t = threadIdx.x; t < lanes * lines; t += blockDim.x) {
                part sum = none();
                for (long long p = t / lanes; p < parts; p += lines) {
                    part other;
                    for (int w = 0; w < WORDS; w++) other.v[w] = all[(p * lanes + t % lanes) * WORDS + w];
                    sum = joined(sum, other);
                }
                found[t] = sum;
            }
            join_lines(found, lanes, lines);
        }
        for (long long t = threadIdx.x; t < lanes && own + t < results; t += blockDim.x) {
            store(out + own + t, finished(found[t], kind, number));
            STORE_PLACE
        }
        __syncthreads();
    }
}
"""
)


class _Plan(NamedTuple):
    """How an array is folded.

    Attributes:
        shape: of the result.
        parts: blocks that share a result.
        results: of which these have memory for a part each.
        whole: the typedef of the type that counts elements.
        sizes: what the kernel gets of sizes.
        places: how the dimensions lie.
    """

    shape: tuple[int, ...]
    blocks: int
    threads: int
    parts: int
    results: int
    whole: str
    sizes: tuple[int, ...]
    places: Any


@functools.lru_cache(_cuda.MOST_STRUCTS)
def _plan(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, axes: Any, keepdims: bool) -> _Plan:
    folded = (
        {*range(len(shape))}
        if axes is None
        else {d % len(shape) for d in (axes if axes.__class__ is tuple else (axes,))}
    )
    steps = [s // itemsize for s in strides]
    inner = sorted((d for d in folded if shape[d] != 1), key=lambda d: -abs(steps[d]))
    sizes, size_steps = _joined([shape[d] for d in inner], [steps[d] for d in inner])
    outer = [d for d in range(len(shape)) if d not in folded and shape[d] != 1]
    remaining, remaining_steps = _joined([shape[d] for d in outer], [steps[d] for d in outer])
    results, count = math.prod(remaining), math.prod(sizes)
    if results > 1 and abs(remaining_steps[-1]) < abs(size_steps[-1]):
        lanes, lines, along = 32, min(32, _power_of_two(-(-count // 8))), 0
    else:
        lines = 1 if count <= SHORT else min(_cuda.LONGEST_BLOCK, _power_of_two(-(-count // 2)))
        lanes, along = max(1, min(_cuda.THREADS // lines, _power_of_two(results))), 1
    tiles = -(-results // lanes)
    parts = min(-(-count // PART), -(-ENOUGH // tiles)) if tiles <= capture_gpu.TICKETS else 1
    long = max(sum((n - 1) * abs(s) for n, s in zip(shape, steps, strict=True)), results, count) >= _cuda.MOST_INT
    places = np.zeros((4, MOST), np.int64 if long else np.int32)
    for row, numbers in zip(places, (remaining, remaining_steps, sizes, size_steps), strict=True):
        row[: len(numbers)] = numbers
    of_result = tuple([1 if d in folded else n for d, n in enumerate(shape) if keepdims or d not in folded])
    whole = f"typedef {'long long' if long else 'int'} whole;\n"
    numbers = results, count, lanes, lines, along, parts, len(remaining), len(sizes)
    blocks, threads = min(tiles * parts, _cuda.MOST_BLOCKS), max(32, lanes * lines)
    return _Plan(of_result, blocks, threads, parts, lanes * tiles, whole, numbers, _cuda.opaque(places.reshape(-1)))


def _joined(shape: list[int], steps: list[int]) -> tuple[list[int], list[int]]:
    """Sizes and steps, outermost first, of dimensions that are joined where memory allows it; of none, one of size 1."""
    sizes: list[int] = []
    found: list[int] = []
    for n, step in zip(shape, steps, strict=True):
        if sizes and found[-1] == step * n:
            sizes[-1], found[-1] = sizes[-1] * n, step
        else:
            sizes.append(n)
            found.append(step)
    return sizes or [1], found or [0]


def _power_of_two(n: int) -> int:
    """The smallest one that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


@functools.cache
def _kernel(of: str, dtype: Any, whole: str, formula: Callable[..., Any] | None = None, count: int = 1) -> Any:
    """The kernel of `SOURCES` of elements, or of what a formula gives of `count` elements; None without one."""
    letter = _cuda.LETTERS[dtype]
    kinds = f"typedef {_cuda.STORED[letter]} stored;\ntypedef {'double' if letter == 'd' else 'float'} real;\n{whole}"
    kinds += f"#define sum_of_elements {'long_sum<double>' if letter == 'd' else 'plain_sum'}\n"
    element: str | None = "const double x = load(a0[at]);"
    parts = ""
    if formula is not None:
        element, parts = _element(formula, count, letter == "d")
    if element is None:
        return None
    source = SOURCE.replace("ELEMENT", element).replace(
        "PARAMETERS", ", ".join([f"const stored* a{k}" for k in range(count)])
    )
    source = source.replace("ARRAYS", ", ".join([f"a{k}" for k in range(count)])).replace("NAME", f"fold_{of}")
    places = of == "place"
    source = source.replace("RESULTS", "stored* out, long long* indices" if places else "stored* out")
    source = source.replace("STORE_PLACE", "indices[own + t] = (long long)found[t].v[1];" if places else "")
    return _cuda.compiled(parts + source, f"fold_{of}", kinds + SOURCES[of])


def _element(formula: Callable[..., Any], count: int, double: bool) -> tuple[str | None, str]:
    """The statements that compute x of the elements at a place, None where float64 has none, and the functions that they call."""
    from tdt._kernels import functions
    from tdt._kernels._double import Double

    inputs = [Expression("input", k) for k in range(count)]
    try:
        output = as_expression(formula(Double if double else functions, *inputs))
    except AttributeError:  # of a function that Double lacks
        if not double:
            raise
        return None, ""
    emitter = Emitter(double)
    value = emitter.value(output, [f"x{k}" for k in range(count)], {})
    reads = [f"const real x{k} = load(a{k}[at]);" for k in range(count)]
    lines = " ".join([*reads, *emitter.lines, f"const double x = {value};"])
    return lines, FUNCTIONS if emitter.calls_parts else ""


def fold(name: str, x: Any, axis: Any, keepdims: bool, number: float = 0.0) -> Any:
    """An array that is not empty, folded over `axis` (an int, a tuple, None for all), in its dtype.

    Args:
        name: of `KINDS`.
        number: the number of elements of a mean; of a variance what the sum of squares is divided by.
    """
    return _launched(name, (x,), axis, keepdims, number, None)


def fold_of(name: str, formula: Callable[..., Any], *arrays: Any) -> Any:
    """What a formula gives of the elements of arrays that lie alike, folded to one number; None where float64 has no kernel."""
    return _launched(name, arrays, None, False, arrays[0].size, formula)


def max_at(x: Any, *, dim: int | None, keepdim: bool = False) -> tuple[Any, Any]:
    """(the largest elements along `dim`, their indices); None: of all elements of a contiguous array."""
    return _launched("max_at", (x,), dim, keepdim, 0.0, None)  # type: ignore[no-any-return]


def min_at(x: Any, *, dim: int | None, keepdim: bool = False) -> tuple[Any, Any]:
    """As `max_at`, of the smallest elements."""
    return _launched("min_at", (x,), dim, keepdim, 0.0, None)  # type: ignore[no-any-return]


def argmax(x: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The indices of `max_at`."""
    return max_at(x, dim=dim, keepdim=keepdim)[1]


def argmin(x: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The indices of `min_at`."""
    return min_at(x, dim=dim, keepdim=keepdim)[1]


def _launched(name: str, arrays: tuple, axis: Any, keepdims: bool, number: float, formula: Any) -> Any:
    like = arrays[0]
    plan = _plan(like.shape, like.strides, like.itemsize, axis, keepdims)
    of, kind = KINDS[name]
    kernel = _kernel(of, like.dtype, plan.whole, formula, len(arrays))
    if kernel is None:
        return None
    results = [MEMORY.empty(plan.shape, like.dtype)]
    if of == "place":
        results.append(MEMORY.empty(plan.shape, np.dtype(np.int64)))
    memory = tickets = None
    if plan.parts > 1:
        words = WORDS.get(of, 1)
        memory, tickets = MEMORY.empty(plan.results * plan.parts * words, np.dtype("d")), capture_gpu.tickets()
    arguments = *arrays, *results, memory, tickets, *plan.sizes, kind, float(number), plan.places
    kernel((plan.blocks,), (plan.threads,), arguments)
    return results[0] if len(results) == 1 else tuple(results)
