"""The available GPUs, and the current device."""

from __future__ import annotations

from typing import Any, NamedTuple

from tdt._backend import cuda_device_count, gpu, gpu_index, raise_pending
from tdt._backend.device import device as _device
from tdt._core.mode import waits_for_gpu
from tdt._core.tensor import Tensor

DeviceLike = Any  # a device, "cuda:1", a number, or None for the current GPU


class DeviceProperties(NamedTuple):
    """Properties of a GPU: name, compute capability, memory in bytes, number of multiprocessors."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def index_of(value: DeviceLike, optional: bool = True) -> int:
    """The index of the GPU `value`. ValueError if it is not a GPU, or lacks a required index."""
    if value is None:
        return current_device()
    where = value if isinstance(value, _device) else _device(value)
    if where.type != "cuda" or (where.index is None and not optional):
        raise ValueError(f"Expected a cuda device, but got: {where}")
    return gpu_index(where)


def is_available() -> bool:
    """Whether a GPU is available to CuPy."""
    return cuda_device_count() > 0


def device_count() -> int:
    """The number of GPUs available to CuPy."""
    return cuda_device_count()


def init() -> None:
    """Check that there is a GPU; CuPy initializes it at first use."""
    gpu()


def is_initialized() -> bool:
    """Whether CUDA is initialized: True if there is a GPU."""
    return is_available()


def current_device() -> int:
    """The index of the current device, which "cuda" without an index refers to."""
    return gpu().cuda.Device().id


def set_device(device: DeviceLike) -> None:
    """Set the current device. A negative index changes nothing."""
    if not (isinstance(device, int) and device < 0):
        gpu().cuda.Device(index_of(device)).use()


class device:
    """Context manager that sets the current device; None or a negative index changes nothing."""

    def __init__(self, device: DeviceLike) -> None:
        self._requested = device

    def __enter__(self) -> None:
        self._before = None
        if self._requested is None or (isinstance(self._requested, int) and self._requested < 0):
            return
        if not is_available():
            raise RuntimeError("PyTorch was compiled without CUDA support: CuPy sees no GPU")
        self._before = current_device()
        set_device(self._requested)

    def __exit__(self, *error: Any) -> None:
        if self._before is not None:
            set_device(self._before)


class device_of(device):
    """Context manager that makes the GPU of a tensor current; does nothing for a tensor on another device."""

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.device if obj.is_cuda else None)


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Name, compute capability, memory and multiprocessors of a GPU."""
    properties = gpu().cuda.runtime.getDeviceProperties(index_of(device))
    return DeviceProperties(
        properties["name"].decode(),
        properties["major"],
        properties["minor"],
        properties["totalGlobalMem"],
        properties["multiProcessorCount"],
    )


def get_device_name(device: DeviceLike = None) -> str:
    """The name of a GPU, such as 'NVIDIA H100 80GB HBM3'."""
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """A GPU's compute capability, such as (9, 0)."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def get_arch_list() -> list[str]:
    """The GPU architectures of precompiled code: empty, because CuPy compiles at run time."""
    return []


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current GPU computes with bfloat16, in hardware (from capability 8.0 on) or emulated."""
    return is_available() and (including_emulation or get_device_capability() >= (8, 0))


def is_tf32_supported() -> bool:
    """Whether the current GPU has TF32 products: from capability 8.0 on."""
    return is_available() and get_device_capability() >= (8, 0)


def synchronize(device: DeviceLike = None) -> None:
    """Wait until all work of a GPU is done. IndexError if a class or an index of an embedding was out of range there."""
    waits_for_gpu("synchronize()")
    gpu().cuda.Device(index_of(device)).synchronize()
    raise_pending()
