"""NVIDIA's cuDNN itself, without a GPU: it describes, ranks and finalizes plans for the properties of one.

Run by test_cudnn.py in a process of its own, with the folder of NVIDIA's libraries; prints a line for each problem. cuDNN links
to CUDA's driver, and calls none of its functions here: a fake has their names.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tdt._kernels import _cudnn
from tdt._kernels._cudnn import FORWARD, INPUT_GRAD, WEIGHT_GRAD, Problem, steps
from tdt._kernels._cudnn_attention import Attention

# Functions of CUDA's driver to which cuDNN's libraries are linked or which they look up: those that give a handle, or a number.
HANDLES = ("cuModuleGetFunction", "cuModuleLoadData", "cuModuleLoadDataEx", "cuCtxGetCurrent", "cuCtxPopCurrent",
           "cuStreamGetCtx", "cuLibraryLoadData", "cuLibraryLoadFromFile", "cuLibraryGetKernel", "cuKernelGetFunction",
           "cuLinkCreate")  # fmt: skip
NUMBERS = ("cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuKernelGetAttribute", "cuOccupancyMaxPotentialClusterSize",
           "cuCtxGetLimit")  # fmt: skip
NAMES = "cuGetErrorString", "cuGetErrorName"
OTHERS = ("cuModuleUnload", "cuTensorMapEncodeIm2col", "cuTensorMapEncodeTiled",
          "cuCtxPushCurrent", "cuLinkAddData", "cuLinkComplete", "cuLinkDestroy", "cuLaunchKernel", "cuLaunchKernelEx",
          "cuLaunchCooperativeKernel", "cuLibraryUnload", "cuKernelSetAttribute")  # fmt: skip
DRIVER = {
    HANDLES: "int {}(void** made) {{ return *made = (void*)256, 0; }}\n",
    NUMBERS: "int {}(int* number) {{ return *number = 13000, 0; }}\n", OTHERS: "int {}(void) {{ return 0; }}\n",
    NAMES: 'int {}(int status, const char** name) {{ return *name = "an error", 0; }}\n',
}  # fmt: skip
DEVICE_PROPERTIES, JSON, CHAR = 38, 2702, 24
HEUR_DEVICE, PLAN_DEVICE = 204, 407
# Compute capability × 100, multiprocessors, bytes of shared memory a block may have, bytes of the second cache.
ARCHITECTURES = {
    "A100": (800, 108, 166912, 40 << 20),
    "H100": (900, 132, 232448, 50 << 20),
    "B200": (1000, 148, 232448, 126 << 20),
}
VARIES = ("deviceVer", "multiProcessorCount", "maxSharedMemoryPerBlockOptin", "l2CacheSize")
PROPERTIES: dict[str, int | list[int]] = {
    "driverVer": 13000, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
    "smCountOrigin": 0, "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "oversizedSharedMemoryPerBlock": 0,
    "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1980000,
    "memClockRateKHz": 2619000, "memoryBusWidth": 5120, "totalGlobalMem": 80 << 30, "cudaDeviceId": 0,
}  # fmt: skip
# x, w, y, stride, padding, dilation
CASES = {
    "3 x 3": ((8, 16, 32, 32), (32, 16, 3, 3), (8, 32, 32, 32), (1, 1), (1, 1), (1, 1)),
    "1 x 1": ((8, 16, 32, 32), (32, 16, 1, 1), (8, 32, 32, 32), (1, 1), (0, 0), (1, 1)),
    "first layer": ((2, 3, 32, 32), (16, 3, 3, 3), (2, 16, 32, 32), (1, 1), (1, 1), (1, 1)),
    "one channel": ((2, 1, 28, 28), (6, 1, 5, 5), (2, 6, 24, 24), (1, 1), (0, 0), (1, 1)),
    "depthwise": ((8, 16, 32, 32), (16, 1, 3, 3), (8, 16, 32, 32), (1, 1), (1, 1), (1, 1)),
    "groups": ((8, 16, 32, 32), (32, 4, 3, 3), (8, 32, 32, 32), (1, 1), (1, 1), (1, 1)),
    "strided and dilated": ((8, 16, 33, 33), (32, 16, 3, 3), (8, 32, 17, 17), (2, 2), (2, 2), (2, 2)),
    "uneven": ((3, 3, 13, 7), (5, 3, 3, 2), (3, 5, 11, 6), (1, 1), (0, 0), (1, 1)),
    "lines": ((4, 6, 1, 50), (8, 6, 1, 5), (4, 8, 1, 46), (1, 1), (0, 0), (1, 1)),
    "volumes": ((2, 8, 9, 9, 9), (16, 8, 3, 3, 3), (2, 16, 9, 9, 9), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
}
# N, H, L, S, E, D
HEADS = {
    "GPT": (4, 12, 1024, 1024, 64, 64), "ViT": (8, 16, 197, 197, 64, 64), "wide heads": (2, 8, 512, 512, 128, 128),
    "small heads": (4, 4, 64, 64, 8, 8), "long": (1, 16, 4096, 4096, 64, 64), "of others": (2, 4, 100, 333, 48, 48),
    "other values": (2, 4, 128, 256, 64, 32), "uneven": (3, 5, 65, 65, 40, 40),
}  # fmt: skip
OPERATIONS = {"forward": FORWARD, "input gradient": INPUT_GRAD, "weight gradient": WEIGHT_GRAD}


def load(folder: Path) -> None:
    """Load NVIDIA's libraries, and the fake of the driver."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place, "driver.c")
        source.write_text("".join(text.format(name) for names, text in DRIVER.items() for name in names))
        built = Path(place, "libcuda.so.1")
        subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", source, "-o", built], check=True)
        ctypes.CDLL(str(built), mode=ctypes.RTLD_GLOBAL)
    (blas,) = folder.glob("cu1*/lib/libcublasLt.so.1*")
    ctypes.CDLL(str(blas), mode=ctypes.RTLD_GLOBAL)
    found = ctypes.CDLL(str(folder / "cudnn/lib/libcudnn.so.9"))
    _cudnn.library = lambda: found  # type: ignore[assignment]


def properties(name: str) -> _cudnn.Descriptor:
    """cuDNN's description of a GPU."""
    varies = dict(zip(VARIES, ARCHITECTURES[name], strict=True))
    text = json.dumps(PROPERTIES | varies | {"deviceName": name}).encode()
    described = _cudnn.Descriptor(DEVICE_PROPERTIES)
    _cudnn.call("BackendSetAttribute", described.at, JSON, CHAR, len(text), text)
    return described.done()


def aim_at(device: _cudnn.Descriptor) -> None:
    """Make plans for a GPU by its description, which takes the place of a handle."""
    targets = {
        _cudnn.ENGINEHEUR: (HEUR_DEVICE, "descriptor", device.at),
        _cudnn.EXECUTION_PLAN: (PLAN_DEVICE, "descriptor", device.at),
    }
    _cudnn.target = lambda _: targets  # type: ignore[assignment]


def workspace(problem: _cudnn.Described) -> int:
    """Bytes of a plan's workspace; -1 without a plan."""
    try:
        plan = _cudnn.Plan(0, problem)
    except _cudnn.UnsupportedError:
        return -1
    plan.addresses(*range(256, 256 * (1 + len(problem.names)), 256), 256 if plan.workspace_size else None)
    return plan.workspace_size


def convolutions() -> Iterator[tuple[list, Problem]]:
    kinds = [("f", False), ("f", True), ("e", False), ("E", False)]
    for (case, sizes), (dtype, tf32), last, (name, operation), alignment in itertools.product(
        CASES.items(), kinds, (False, True), OPERATIONS.items(), (16, 0)
    ):
        bytes_of = alignment or (4 if dtype == "f" else 2)
        yield [case, name, dtype, tf32, last, bytes_of], Problem(operation, dtype, tf32, bytes_of, last, *sizes)


def attentions() -> Iterator[tuple[list, Attention]]:
    """Causal ones of bfloat16 in one array (N, L, 3 H E), as most models have it, with results (N, L, H, E); or contiguous."""
    for (case, sizes), causal, backward in itertools.product(HEADS.items(), (False, True), (False, True)):
        n, h, l, s, e, d = sizes
        shapes = [(l, e), (s, e), (s, d), (l, d), *([(l, d), (l, e), (s, e), (s, d)] if backward else [])]
        lie = [steps((n, h, *shape), False) for shape in shapes]
        if causal:
            lie = [(rows * m * h * w, w, m * h * w, 1) for (rows, w), m in zip(shapes, [3] * 3 + [1] * 5, strict=False)]
        problem = Attention(backward, "E" if causal else "e", causal, 1 / 8, sizes, tuple(lie))
        yield [case, "gradients" if backward else "result", causal], problem


def main() -> None:
    load(Path(sys.argv[1]))
    for gpu in ARCHITECTURES:
        device = properties(gpu)
        aim_at(device)
        for name, problem in itertools.chain(convolutions(), attentions()):
            print(json.dumps([gpu, *name, workspace(problem)]))


if __name__ == "__main__":
    main()
