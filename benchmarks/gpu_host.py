"""Time that operations on a GPU take on the host: tdt's, CuPy's for the same, and the difference. Needs no GPU.

python -m benchmarks.gpu_host
python -m benchmarks.gpu_host sort topk slice --backward

The real CuPy runs on the null driver (tests/gpu/null; pip install -e '.[nullgpu]', and gcc), which starts nothing, so that a
call takes the time of Python's and CuPy's own code. For each operation, in microseconds of processor time: tdt's, CuPy's, and
tdt's beyond CuPy's; with how many launches and allocations tdt's call makes. CuPy's is the operation by its public functions on
the same arrays, or the usual composition of these. Where CuPy has none, as for convolutions, it is a launch of a raw kernel and
an array for each launch and allocation of tdt's; these rows are marked with *.

--backward: what the operation adds to a backward pass, compared with the chain rule by CuPy's functions.

Both sides take turns; each number is the median of some rounds of many calls.
"""

from __future__ import annotations

import argparse
import functools
import gc
import statistics
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from tests.gpu.null import wheel

ROUNDS, SECONDS, WARM_UP, CALLS = 9, 0.004, 8, 8
BOUND = 3.0  # microseconds beyond CuPy's


class Row(NamedTuple):
    """Microseconds of one operation.

    Attributes:
        launches, arrays: how many a call of tdt's takes.
        composed: whether CuPy's time is that of its own functions.
    """

    name: str
    tdt: float
    cupy: float
    launches: float
    arrays: float
    composed: bool

    @property
    def beyond(self) -> float:
        """tdt's time beyond CuPy's."""
        return self.tdt - self.cupy


def medians(*functions: Callable[[], object]) -> list[float]:
    """Microseconds of a call of each function; they take turns."""
    counts = []
    with wheel.silent():
        for function in functions:
            for _ in range(WARM_UP):
                function()
            began = time.process_time()
            for _ in range(WARM_UP):
                function()
            counts.append(max(1, round(SECONDS * WARM_UP / max(time.process_time() - began, 1e-6))))
        found: list[list[float]] = [[] for _ in functions]
        gc.collect()
        gc.disable()
        for _ in range(ROUNDS):
            for function, count, times in zip(functions, counts, found, strict=True):
                began = time.process_time()
                for _ in range(count):
                    function()
                times.append((time.process_time() - began) / count * 1e6)
        gc.enable()
    return [*map(statistics.median, found)]


def counted(function: Callable[[], object]) -> tuple[int, int]:
    """Launches and allocations of a call."""
    cuda, arrays = _cupy().cuda, []
    allocate = cuda.get_allocator()
    cuda.set_allocator(lambda size: (arrays.append(size), allocate(size))[1])
    try:
        with wheel.watch() as calls:
            function()
    finally:
        cuda.set_allocator(allocate)
    return sum(call.kind in wheel.WORK for call in calls), len(arrays)


def _cupy() -> Any:
    from tdt import _backend

    return _backend.gpu()


def least() -> tuple[float, float]:
    """Microseconds of CuPy's to launch a raw kernel of four arguments, and to make an array."""
    cupy = _cupy()
    kernel = cupy.RawKernel(
        'extern "C" __global__ void nothing(float* a, float* b, float* c, long long n) {}', "nothing"
    )
    x, empty = cupy.empty((64, 64), "f"), (lambda: None)
    arguments = x, x, x, x.size
    call, launch, array = medians(empty, lambda: kernel((16,), (256,), arguments), lambda: cupy.ndarray((64, 64), "f"))
    return launch - call, array - call


def forward(name: str, case: Any, parts: tuple[float, float]) -> Row:
    """The row of an operation that is not recorded. parts: as of `least`."""
    from benchmarks._gpu_host_cases import inputs

    tensors = SimpleNamespace(**inputs())
    arrays = SimpleNamespace(**{key: each._a for key, each in vars(tensors).items()})
    ours = functools.partial(case.tdt, tensors)
    for _ in range(WARM_UP):
        ours()
    count = counted(ours)
    if case.cupy is None:
        return Row(name, medians(ours)[0], _price(count, parts), *count, False)
    return Row(name, *medians(ours, functools.partial(case.cupy, arrays)), *count, True)


def backward(name: str, case: Any, parts: tuple[float, float]) -> Row | None:
    """The row of what an operation adds to a backward pass; None for one without gradients."""
    import tdt
    from benchmarks._gpu_host_cases import inputs

    leaves = [SimpleNamespace(**inputs()) for _ in range(CALLS)]
    for v in leaves:
        for x in vars(v).values():
            x.requires_grad_(x.is_floating_point())
    try:
        out = _first(case.tdt(leaves[0]))
    except RuntimeError:  # it writes to a leaf
        return None
    if not out.requires_grad:
        return None
    used = [key for key, x in vars(leaves[0]).items() if x.requires_grad and _is_input(out, x)]
    slopes, ones = [tdt.ones_like(out)] * CALLS, [tdt.ones_like(vars(v)[key]) for v in leaves for key in used]

    def before() -> list[SimpleNamespace]:
        return [SimpleNamespace(**vars(v) | {key: vars(v)[key] * 1.0 for key in used}) for v in leaves]

    def results() -> list[Any]:
        return [_first(case.tdt(v)) for v in before()]

    def passed(roots: list[Any], grads: list[Any]) -> None:
        tdt.autograd.backward(roots, grads)
        for v in leaves:
            for key in used:
                vars(v)[key]._grad = None

    ours = lambda: passed(results(), slopes)  # noqa: E731
    without = lambda: passed([vars(v)[key] for v in before() for key in used], ones)  # noqa: E731
    for _ in range(WARM_UP):
        ours()
        without()
    n = [counted(each) for each in (ours, results, without, before)]
    count = tuple((n[0][k] - n[1][k] - n[2][k] + n[3][k]) / CALLS for k in range(2))
    arrays = SimpleNamespace(**{key: x._a for key, x in vars(leaves[0]).items()}, g=slopes[0]._a, out=out._a)
    theirs = (lambda: None) if case.grad is None else (lambda: case.grad(arrays))
    *times, cupy = medians(ours, results, without, before, theirs)
    own = (times[0] - times[1] - times[2] + times[3]) / CALLS
    return Row(name, own, _price(count, parts) if case.grad is None else cupy, *count, case.grad is not None)


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, (tuple, list)) else result


def _is_input(out: Any, x: Any) -> bool:
    """Whether a leaf gets a gradient of a result."""
    visited, left = set(), [out.grad_fn]
    while left:
        node = left.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        if getattr(node, "variable", None) is x:
            return True
        left += [each for each, _ in node.next_functions]
    return False


def _price(count: tuple, parts: tuple[float, float]) -> float:
    return sum(n * each for n, each in zip(count, parts, strict=True))


def rows(names: list[str], which: Callable[..., Row | None] = forward) -> list[Row]:
    """The rows of some operations, or of all without names, those that take longest beyond CuPy first."""
    from benchmarks._gpu_host_cases import CASES

    parts = least()
    found = [which(name, case, parts) for name, case in CASES.items() if not names or name in names]
    return sorted((row for row in found if row is not None), key=lambda row: -row.beyond)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="operations; default: all")
    parser.add_argument("--backward", action="store_true", help="gradients")
    args = parser.parse_args()
    if "cupy" not in sys.modules:
        wheel.start()
    found = rows(args.names, backward if args.backward else forward)
    print(f"{'':<22} {'tdt':>7} {'CuPy':>7} {'beyond':>7}  launches, arrays")
    for row in found:
        mark = " " if row.composed else "*"
        print(
            f"{row.name:<22} {row.tdt:7.1f} {row.cupy:6.1f}{mark} {row.beyond:7.1f}  {row.launches:g}, {row.arrays:g}"
        )
    above = sum(row.beyond > BOUND for row in found)
    print(f"{above} of {len(found)} take more than {BOUND:g} µs beyond CuPy: {100 * above / max(1, len(found)):.0f} %")


if __name__ == "__main__":
    main()
