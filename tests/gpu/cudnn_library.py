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
from pathlib import Path

from tdt._kernels import _cudnn
from tdt._kernels._cudnn import FORWARD, INPUT_GRAD, WEIGHT_GRAD, Problem

# Functions of CUDA's driver to which cuDNN's libraries are linked.
DRIVER = ("cuGetErrorString", "cuModuleGetFunction", "cuModuleLoadData", "cuModuleUnload", "cuTensorMapEncodeIm2col",
          "cuTensorMapEncodeTiled")  # fmt: skip
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
OPERATIONS = {"forward": FORWARD, "input gradient": INPUT_GRAD, "weight gradient": WEIGHT_GRAD}


def load(folder: Path) -> None:
    """Load NVIDIA's libraries, and the fake of the driver."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place, "driver.c")
        source.write_text("".join(f"int {name}(void) {{ return 999; }}\n" for name in DRIVER))
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


def main() -> None:
    load(Path(sys.argv[1]))
    for gpu in ARCHITECTURES:
        device = properties(gpu)
        targets = {
            _cudnn.ENGINEHEUR: (HEUR_DEVICE, "descriptor", device.at),
            _cudnn.EXECUTION_PLAN: (PLAN_DEVICE, "descriptor", device.at),
        }
        _cudnn.target = lambda _, targets=targets: targets  # type: ignore[misc]
        kinds = [("f", False), ("f", True), ("e", False), ("E", False)]
        for (case, sizes), (dtype, tf32), last, (name, operation), alignment in itertools.product(
            CASES.items(), kinds, (False, True), OPERATIONS.items(), (16, 0)
        ):
            bytes_of = alignment or (4 if dtype == "f" else 2)
            problem = Problem(operation, dtype, tf32, bytes_of, last, *sizes)
            try:
                size = _cudnn.Plan(0, problem).workspace_size
                _cudnn.addresses(256, 512, 768, 1024 if size else None)
            except _cudnn.UnsupportedError:
                size = -1
            print(json.dumps([gpu, case, name, dtype, tf32, last, bytes_of, size]))


if __name__ == "__main__":
    main()
