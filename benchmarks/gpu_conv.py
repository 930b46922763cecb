"""Times of cuDNN's engines, of tdt's kernels and of PyTorch for convolutions on a GPU, in float32 without TF32.

python -m benchmarks.gpu_conv
python -m benchmarks.gpu_conv --only weight --layers LeNet --last

For each pass: milliseconds of PyTorch, of tdt as it is, of tdt's own kernels, and of each engine of cuDNN that tdt admits (it is
deterministic and does not round to TF32), by its number and in the order of cuDNN's heuristics, of which tdt takes the first;
with an error, relative to the largest number of the result, where it is above 1e-5. A weight gradient is also computed with the
batch in groups, by their number and the engine's: (N, C, *) is (N / G, G C, *) without a copy, and the G gradients are added up.
Each time is the median of some replays of a CUDA graph of ten calls.
"""

from __future__ import annotations

import argparse
import copy
import statistics
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

import tdt
from tdt import _backend
from tdt._kernels import _cudnn, conv_gpu, cudnn_gpu
from tdt._kernels._cudnn import FORWARD, INPUT_GRAD, WEIGHT_GRAD, Problem

CALLS, REPLAYS, ENGINES, FAR = 10, 7, 6, 1e-5
PASSES = {"forward": FORWARD, "input": INPUT_GRAD, "weight": WEIGHT_GRAD}
GROUPS = 4, 16, 64
# batch, channels, size, channels of the result, size of the kernel, stride, padding
LAYERS = {
    "LeNet, first": (1024, 1, 28, 32, 3, 1, 0), "LeNet, second": (1024, 32, 26, 64, 3, 1, 0),
    "ResNet-20, first": (512, 3, 32, 16, 3, 1, 1), "ResNet-20, 16 channels": (512, 16, 32, 16, 3, 1, 1),
    "ResNet-20, stride 2": (512, 16, 32, 32, 3, 2, 1), "ResNet-20, 64 channels": (512, 64, 8, 64, 3, 1, 1),
    "ResNet-20, batch 8": (8, 16, 32, 16, 3, 1, 1), "ResNet-18, first": (64, 3, 224, 64, 7, 2, 3),
    "ResNet-18, 64 channels": (64, 64, 56, 64, 3, 1, 1), "ResNet-18, 512 channels": (64, 512, 7, 512, 3, 1, 1),
    "ResNet-50, 1 x 1": (64, 256, 56, 64, 1, 1, 0), "VGG, 128 channels": (128, 128, 16, 128, 3, 1, 1),
}  # fmt: skip


def milliseconds(call: Callable[[], Any]) -> float:
    """Of one call, which only launches kernels."""
    cupy = _backend.gpu()
    stream, times = cupy.cuda.Stream(non_blocking=True), []
    with stream:
        for _ in range(2):
            call()
        stream.synchronize()
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeRelaxed)
        for _ in range(CALLS):
            call()
        graph = stream.end_capture()
        for _ in range(1 + REPLAYS):
            began, ended = cupy.cuda.Event(), cupy.cuda.Event()
            began.record(stream)
            graph.launch(stream)
            ended.record(stream)
            ended.synchronize()
            times.append(cupy.cuda.get_elapsed_time(began, ended))
    return statistics.median(times[1:]) / CALLS


def engines(problem: Problem, *arrays: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """What launches each of the first engines of cuDNN on arrays x, w and y."""
    plan = _cudnn.Plan(0, problem)
    for k, (number, found, size) in enumerate(plan.admitted(problem)):
        if k < ENGINES and size <= _cudnn.MOST_WORKSPACE:
            each = copy.copy(plan)
            each._plan, each.workspace_size = found, size
            yield f"engine {number}", lambda each=each: each(*(a.data.ptr for a in arrays))


def in_groups(problem: Problem, groups: int, x: Any, w: Any, y: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A weight gradient whose batch is cut into groups, by each of the first engines; a call returns the result."""
    cupy, (n, c, *size), (o, *rest) = _backend.gpu(), problem.x, problem.w
    shapes = (n // groups, groups * c, *size), (groups * o, *rest), (n // groups, groups * o, *problem.y[2:])
    parts = cupy.empty((groups, *w.shape), w.dtype)
    for name, launch in engines(problem._replace(x=shapes[0], w=shapes[1], y=shapes[2]), x, parts, y):
        yield f"{groups} groups, {name}", lambda launch=launch: (launch(), parts.sum(0))[1]


def torch_call(operation: int, x: Any, w: Any, y: Any, stride: int, padding: int) -> tuple[Any, float]:
    """PyTorch's result, and its milliseconds."""
    import torch

    torch.backends.cudnn.allow_tf32 = False
    a, b, g = (torch.from_dlpack(v.copy()) for v in (x, w, y))
    mask = [operation == INPUT_GRAD, operation == WEIGHT_GRAD, False]
    how = [stride] * 2, [padding] * 2, [1, 1]

    def call() -> Any:
        if operation == FORWARD:
            return torch.ops.aten.convolution(a, b, None, *how, False, [0, 0], 1)
        return torch.ops.aten.convolution_backward(g, a, b, None, *how, False, [0, 0], 1, mask)[mask.index(True)]

    for _ in range(3):
        result = call()
    return _backend.gpu().from_dlpack(result.contiguous()), replayed(torch, call)


def replayed(torch: Any, call: Callable[[], object]) -> float:
    """Milliseconds of a call of PyTorch's, by replays of a CUDA graph of CALLS of them."""
    graph, times = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    for _ in range(1 + REPLAYS):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        graph.replay()
        ended.record()
        ended.synchronize()
        times.append(began.elapsed_time(ended))
    return statistics.median(times[1:]) / CALLS


def contestants(
    operation: int, last: bool, x: Any, w: Any, y: Any, stride: int, padding: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What computes a pass: a name, and a call that returns its result, or None where it has written it to its operand."""
    cupy = _backend.gpu()
    how = {"stride": (stride,) * 2, "padding": (padding,) * 2, "dilation": (1, 1), "groups": 1}
    for name, kernels in (("tdt", cudnn_gpu), ("tdt's kernels", conv_gpu)):
        if operation == FORWARD:
            yield name, lambda kernels=kernels: kernels.conv(x, w, **how)
        elif operation == INPUT_GRAD:
            yield name, lambda kernels=kernels: kernels.conv_input_grad(y, w, size=x.shape[2:], **how)
        else:
            yield name, lambda kernels=kernels: kernels.conv_weight_grad(y, x, kernel=w.shape[2:], **how)
    problem = Problem(operation, "f", False, 16, last, x.shape, w.shape, y.shape,
                      how["stride"], how["padding"], how["dilation"])  # fmt: skip
    arrays = [x, w, y]
    k = {FORWARD: 2, INPUT_GRAD: 0, WEIGHT_GRAD: 1}[operation]
    arrays[k] = cupy.zeros_like(arrays[k])
    for name, launch in engines(problem, *arrays):
        yield name, lambda launch=launch: (launch(), arrays[k])[1]
    for groups in GROUPS if operation == WEIGHT_GRAD and not last else ():
        if not x.shape[0] % groups:
            yield from in_groups(problem, groups, x, w, y)


def layers(only: str | None = None, text: str = "", last: bool = False) -> Iterator[tuple[str, str]]:
    """(Layer and pass, milliseconds of each contestant) for the layers with a text in their names.

    Args:
        only: a pass; None: all.
        last: channels-last.
    """
    cupy, rng = _backend.gpu(), np.random.default_rng(0)
    for name, (n, c, h, o, k, stride, padding) in LAYERS.items():
        if text not in name:
            continue
        result = (h + 2 * padding - k) // stride + 1
        shapes = (n, c, h, h), (o, c, k, k), (n, o, result, result)
        arrays = [cupy.asarray(rng.standard_normal(shape, np.float32)) for shape in shapes]
        if last:
            arrays = [cupy.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for a in arrays]
        for which in (only,) if only else PASSES:
            found, exact = [], None
            if find_spec("torch"):
                exact, ms = torch_call(PASSES[which], *arrays, stride, padding)
                found.append(f"PyTorch {ms:.3f}")
            for title, call in contestants(PASSES[which], last, *arrays, stride, padding):
                value = call()
                apart = 0.0 if exact is None else float(abs(value - exact).max() / abs(exact).max())
                found.append(f"{title} {milliseconds(call):.3f}" + f" ({apart:.0e})" * (apart > FAR))
            yield f"{name}, {which}", "; ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PASSES, help="default: all passes")
    parser.add_argument("--layers", default="", metavar="TEXT", help="those with this in their names")
    parser.add_argument("--last", action="store_true", help="channels-last")
    args = parser.parse_args()
    version = tdt.backends.cudnn.version()
    if version is None:
        parser.exit(1, f"{parser.prog}: cuDNN 9 is not found: pip install 'tdt-train[cuda13]', or cuda12\n")
    tdt.backends.cudnn.allow_tf32 = False
    print(f"{tdt.cuda.get_device_name()}, cuDNN {version}, milliseconds")
    for title, found in layers(args.only, args.layers, args.last):
        print(f"{title}: {found}", flush=True)


if __name__ == "__main__":
    main()
