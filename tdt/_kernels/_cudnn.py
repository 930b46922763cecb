"""cuDNN's backend API through ctypes: plans of convolutions, of attention (`_cudnn_attention`) and of their gradients, on a GPU.

A problem is described by descriptors: of a convolution three tensors, the strides and paddings, an operation, a graph of this
one operation. cuDNN's heuristics name engines for the graph, the fastest first. The first whose results are deterministic and
rounded as tdt's are becomes the plan, which is kept for all calls with these shapes. Nothing is timed: a plan depends on shapes,
settings, the GPU and the version of cuDNN alone. Constants and types are those of `cudnn_graph.h` of cuDNN 9; the tests compare
them with it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tdt import _backend
from tdt._backend._gpu_memory import OutOfMemoryError
from tdt._kernels import _cublas_lt, _registry, capture_gpu
from tdt._kernels.programs_gpu import OutdatedProgramError

# Descriptors.
CONVOLUTION, ENGINE, ENGINECFG, ENGINEHEUR, EXECUTION_PLAN = 1, 2, 3, 4, 5
FORWARD, WEIGHT_GRAD, INPUT_GRAD = 10, 11, 12
OPERATIONGRAPH, VARIANT_PACK, TENSOR = 15, 16, 17

# Their attributes.
COMP_TYPE, CONV_MODE, DILATIONS, STRIDES, POST_PADDINGS, PRE_PADDINGS, SPATIAL_DIMS = range(100, 107)
HEUR_MODE, HEUR_GRAPH, HEUR_RESULTS = 200, 201, 202
CFG_ENGINE = 300
PLAN_HANDLE, PLAN_CONFIG, PLAN_WORKSPACE_SIZE = 400, 401, 402
GRAPH_HANDLE, GRAPH_OPS = 800, 801
ALIGNMENT, DATA_TYPE, DIMENSIONS, TENSOR_STRIDES, UNIQUE_ID = 900, 901, 902, 903, 906
UNIQUE_IDS, DATA_POINTERS, WORKSPACE = 1000, 1001, 1003
ENGINE_INDEX, NUMERICAL_NOTE = 1301, 1303
OPERATIONS = {  # alpha, beta, the convolution, and the tensors x (N, C, *), w (O, C / groups, *) and y (N, O, *)
    FORWARD: (700, 701, 702, 704, 703, 705),
    INPUT_GRAD: (706, 707, 708, 710, 709, 711),
    WEIGHT_GRAD: (712, 713, 714, 716, 715, 717),
}

# Types of attributes, each with that of an element.
TYPES: dict[str, tuple[int, Any]] = {
    "handle": (0, ctypes.c_void_p),
    "data type": (1, ctypes.c_int),
    "bool": (2, ctypes.c_bool),
    "int64": (3, ctypes.c_int64),
    "float": (4, ctypes.c_float),
    "pointer": (6, ctypes.c_void_p),
    "convolution mode": (7, ctypes.c_int),
    "heuristics": (8, ctypes.c_int),
    "note": (11, ctypes.c_int),
    "pointwise": (14, ctypes.c_int),
    "descriptor": (15, ctypes.c_void_p),
    "reduction": (18, ctypes.c_int),
}
DATA_TYPES = {"f": 0, "e": 2, "E": 9}  # float32, float16, bfloat16
CROSS_CORRELATION = 1
HEURISTICS = (3, 2)  # "mode A", and what computes all else without a promise of speed

# What cuDNN notes of an engine. On float32, tensor cores round the operands to TF32.
TENSOR_CORE, DOWN_CONVERT_INPUTS, REDUCED_PRECISION_REDUCTION, FFT, NONDETERMINISTIC = range(5)
WINOGRAD = frozenset((5, 6, 7, 8))  # of any tile
MOST_NOTES = 16
# Numbers of engines whose float32 results are wrong in the third digit, with no note of it: seen on an H200 with cuDNN 9.19.
INEXACT = {WEIGHT_GRAD: 17}
REFUSED = WINOGRAD | {DOWN_CONVERT_INPUTS, REDUCED_PRECISION_REDUCTION, FFT, NONDETERMINISTIC}
MOST_WORKSPACE = 1 << 30  # bytes
OLDEST = 90300  # 9.3: versions before read wrong memory of tensors with 2^31 elements or more
NOT_INITIALIZED, NOT_SUPPORTED = 1001, range(3000, 4000)
PASSING = range(4000, 6000)  # errors inside cuDNN, of memory and of CUDA: another try may succeed
PAUSE = 10.0  # seconds until then
MOST_PLANS = 4096
MOST_PACKS = 64  # of a plan
X, W, Y = 1, 2, 3  # names of the tensors in a graph

_POINTER, _INT, _LONG, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_size_t
_OUT = ctypes.POINTER(_POINTER)
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "Create": (_OUT,),
    "SetStream": (_POINTER, _POINTER),
    "BackendCreateDescriptor": (_INT, _OUT),
    "BackendDestroyDescriptor": (_POINTER,),
    "BackendSetAttribute": (_POINTER, _INT, _INT, _LONG, _POINTER),
    "BackendGetAttribute": (_POINTER, _INT, _INT, _LONG, ctypes.POINTER(_LONG), _POINTER),
    "BackendFinalize": (_POINTER,),
    "BackendExecute": (_POINTER, _POINTER, _POINTER),
    "GetLastErrorString": (ctypes.c_char_p, _SIZE),
}


class Described(Protocol):
    """What a plan is made for.

    Attributes:
        names: of the tensors whose addresses a launch is handed, in this order.
        constants: numbers of the graph, by the names of their tensors.
    """

    @property
    def names(self) -> Sequence[int]: ...
    @property
    def constants(self) -> dict[int, float]: ...

    def operations(self, of: Callable[[int], Descriptor]) -> list[Descriptor]:
        """The finalized operations of its graph. of: makes descriptors of a kind, which are kept."""

    def admits(self, number: int, notes: list[int]) -> bool:
        """Whether the engine with a number may be used, of which cuDNN notes these."""


class Problem(NamedTuple):
    """A convolution or one of its gradients. All tensors are contiguous, or all are channels-last."""

    operation: int  # FORWARD, INPUT_GRAD or WEIGHT_GRAD
    dtype: str  # letter
    tf32: bool
    alignment: int  # of all addresses, in bytes
    last: bool
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def names(self) -> Sequence[int]:
        return X, W, Y

    @property
    def constants(self) -> dict[int, float]:
        return {}

    def operations(self, of: Callable[[int], Descriptor]) -> list[Descriptor]:
        convolution = of(CONVOLUTION).set(SPATIAL_DIMS, "int64", len(self.stride))
        convolution.set(COMP_TYPE, "data type", DATA_TYPES["f"]).set(CONV_MODE, "convolution mode", CROSS_CORRELATION)
        for attribute, values in (
            (DILATIONS, self.dilation), (STRIDES, self.stride),
            (PRE_PADDINGS, self.padding), (POST_PADDINGS, self.padding),
        ):  # fmt: skip
            convolution.set(attribute, "int64", *values)
        alpha, beta, how, *places = OPERATIONS[self.operation]
        operation = of(self.operation).set(alpha, "float", 1).set(beta, "float", 0)
        operation.set(how, "descriptor", convolution.done().at)
        for place, name, shape in zip(places, self.names, (self.x, self.w, self.y), strict=True):
            tensor = tensor_of(of(TENSOR), name, DATA_TYPES[self.dtype], shape, steps(shape, self.last), self.alignment)
            operation.set(place, "descriptor", tensor.done().at)
        return [operation.done()]

    def admits(self, number: int, notes: list[int]) -> bool:
        refused = REFUSED if self.tf32 or self.dtype != "f" else REFUSED | {TENSOR_CORE}
        return refused.isdisjoint(notes) and number != INEXACT.get(self.operation)


class CudnnError(RuntimeError):
    """A function of cuDNN was not successful.

    Attributes:
        status: `cudnnStatus_t`.
    """

    def __init__(self, name: str, status: int):
        reason = ctypes.create_string_buffer(512)
        functions()["GetLastErrorString"](reason, len(reason))
        super().__init__(f"cudnn{name} failed with status {status}: {reason.value.decode(errors='replace')}")
        self.status = status


def loaded() -> ctypes.CDLL | None:
    """cuDNN 9 as Python's packages or the system have it, in this order."""
    spec = importlib.util.find_spec("nvidia")
    wheels = [] if spec is None else [Path(p, "cudnn/lib/libcudnn.so.9") for p in spec.submodule_search_locations or ()]
    for path in (*filter(Path.is_file, wheels), "libcudnn.so.9"):
        try:
            return ctypes.CDLL(str(path))
        except OSError:  # the next one, or none
            continue
    return None


@functools.cache
def library() -> ctypes.CDLL | None:
    """cuDNN, if it is installed for the CUDA that CuPy uses, and is not too old."""
    if not _backend.cuda_device_count() or _cublas_lt.library() is None:  # cuDNN looks for cuBLASLt by its name
        return None
    found = loaded()
    if found is None:
        return None
    found.cudnnGetVersion.restype = found.cudnnGetCudartVersion.restype = _SIZE
    ours = _backend.gpu().cuda.runtime.runtimeGetVersion() // 1000
    fits = found.cudnnGetVersion() >= OLDEST and found.cudnnGetCudartVersion() // 1000 == ours
    return found if fits else None


def version() -> int | None:
    """cuDNN's version, as 91002 for 9.10.2; None where it is not installed, or does not support the current GPU."""
    found = library()
    return None if found is None or handle(_backend.gpu().cuda.Device().id) is None else found.cudnnGetVersion()


@functools.cache
def functions() -> dict[str, Any]:
    """The functions of cuDNN, by the part of their names after `cudnn`."""
    found: dict[str, Any] = {}
    for name, types in SIGNATURES.items():
        function = found[name] = getattr(library(), f"cudnn{name}")
        function.argtypes, function.restype = types, _INT
    return found


def call(name: str, *args: Any) -> None:
    """Call a function of cuDNN; CudnnError unless it is successful."""
    if status := functions()[name](*args):
        raise CudnnError(name, status)


class Descriptor:
    """A descriptor of cuDNN's: it is set, finalized and then read, and destroyed with this object."""

    def __init__(self, kind: int):
        self.at, self._destroy = _POINTER(), functions()["BackendDestroyDescriptor"]
        call("BackendCreateDescriptor", kind, ctypes.byref(self.at))

    def __del__(self) -> None:
        if self.at.value:
            self._destroy(self.at)

    def set(self, attribute: int, kind: str, *values: Any) -> Descriptor:
        """Set an attribute to values, and return the descriptor."""
        number, element = TYPES[kind]
        held = (element * len(values))(*values)
        call("BackendSetAttribute", self.at, attribute, number, len(values), held)
        return self

    def done(self) -> Descriptor:
        """Finalize and return the descriptor."""
        call("BackendFinalize", self.at)
        return self

    def get(self, attribute: int, kind: str, most: int, into: Any = None) -> list[Any]:
        """At most so many values of an attribute; descriptors are written to those of `into`."""
        number, element = TYPES[kind]
        held, count = into or (element * most)(), _LONG(0)
        call("BackendGetAttribute", self.at, attribute, number, most, ctypes.byref(count), held)
        return list(held)[: count.value]


_in_use = threading.RLock()  # of handles: one thread at a time makes them, and plans with them, or launches
_handles: dict[int, Any] = {}  # by GPU; None where cuDNN does not support it
_streams: dict[int, int] = {}  # by GPU: of its handle
_refused: dict[int, float] = {}  # GPU → when a handle that was not to be had is asked for again


def handle(gpu: int) -> Any:
    """The library's handle for a GPU, the current one; None where cuDNN does not support it, or cannot be initialized now."""
    with _in_use:
        if gpu not in _handles and time.monotonic() >= _refused.get(gpu, 0):
            _create(gpu)
        return _handles.get(gpu)


def _create(gpu: int) -> None:
    for last in (False, True):
        result = _POINTER()
        try:
            call("Create", ctypes.byref(result))
        except CudnnError as error:
            if error.status in NOT_SUPPORTED:
                _handles[gpu] = None
                return
            if error.status != NOT_INITIALIZED:
                raise
            if last:
                if gpu not in _refused:
                    warnings.warn(f"tdt's own kernels compute convolutions for now: {error}", stacklevel=2)
                _refused[gpu] = time.monotonic() + PAUSE
            elif capture_gpu.current() is None:  # CuPy's pool may hold what a handle needs
                _backend.gpu().get_default_memory_pool().free_all_blocks()
        else:
            _handles[gpu] = result
            return


def target(gpu: int) -> dict[int, tuple[int, str, Any]]:
    """The attribute by which descriptors of these kinds name the GPU that they are for, the current one."""
    return {OPERATIONGRAPH: (GRAPH_HANDLE, "handle", handle(gpu)), EXECUTION_PLAN: (PLAN_HANDLE, "handle", handle(gpu))}


def steps(shape: tuple[int, ...], last: bool) -> tuple[int, ...]:
    """Elements between neighbours in each dimension of (N, C, *), contiguous or channels-last."""
    found, size = [0] * len(shape), 1
    for d in (1, *range(len(shape) - 1, 1, -1), 0) if last else range(len(shape) - 1, -1, -1):
        found[d], size = size, size * shape[d]
    return tuple(found)


def tensor_of(
    descriptor: Descriptor, name: int, kind: int, shape: tuple[int, ...], lie: tuple[int, ...], alignment: int
) -> Descriptor:
    """A descriptor of a tensor, set but not finalized. kind: of its elements; lie: elements between neighbours."""
    descriptor.set(UNIQUE_ID, "int64", name).set(ALIGNMENT, "int64", alignment).set(DATA_TYPE, "data type", kind)
    return descriptor.set(DIMENSIONS, "int64", *shape).set(TENSOR_STRIDES, "int64", *lie)


class Plan:
    """An engine for a problem on one GPU.

    Args:
        most: bytes that a launch may need.
    Attributes:
        workspace_size: bytes that a launch needs.
        lasting: whether another try would find the same engine: no other had an error that may pass.
    Raises:
        UnsupportedError: where cuDNN has no engine.
    """

    def __init__(self, gpu: int, problem: Described, most: int = MOST_WORKSPACE):
        self.gpu, self.problem, self._target, self.lasting = gpu, problem, target(gpu), True
        self._parts: list[Descriptor] = []  # a descriptor may refer to those that it was made of
        self._packs: dict[
            tuple, Descriptor
        ] = {}  # the addresses of launches: those of one step are mostly those of the next
        self._constants = {name: ctypes.c_float(value) for name, value in problem.constants.items()}
        self._plan, self.workspace_size = self._first(problem, most)

    def _of(self, kind: int) -> Descriptor:
        part = Descriptor(kind)
        self._parts.append(part)
        return part.set(*self._target[kind]) if kind in self._target else part

    def _graph(self, problem: Described) -> Descriptor:
        operations = [operation.at for operation in problem.operations(self._of)]
        return self._of(OPERATIONGRAPH).set(GRAPH_OPS, "descriptor", *operations).done()

    def _engines(self, graph: Descriptor) -> Iterator[Descriptor]:
        """The configurations that cuDNN's heuristics name, in their order."""
        for mode in HEURISTICS:
            heuristics = self._of(ENGINEHEUR).set(HEUR_GRAPH, "descriptor", graph.at).set(HEUR_MODE, "heuristics", mode)
            try:
                heuristics.done()
            except CudnnError as error:
                if error.status not in NOT_SUPPORTED:
                    raise
                continue
            count, (number, element) = _LONG(0), TYPES["descriptor"]
            call("BackendGetAttribute", heuristics.at, HEUR_RESULTS, number, 0, ctypes.byref(count), None)
            found = [Descriptor(ENGINECFG) for _ in range(count.value)]
            into = (element * len(found))(*(each.at for each in found))
            yield from found[: len(heuristics.get(HEUR_RESULTS, "descriptor", len(found), into))]

    def _first(self, problem: Described, most: int) -> tuple[Descriptor, int]:
        """The plan of the first engine that is admitted, and its workspace."""
        for _, plan, size in self.admitted(problem):
            if size <= most:
                return plan, size
            self._parts.pop()  # the configuration of this plan
        raise UnsupportedError(problem, self.lasting)

    def admitted(self, problem: Described) -> Iterator[tuple[int, Descriptor, int]]:
        """(number of the engine, plan, workspace) of the engines that are admitted, in the order of cuDNN's heuristics."""
        for config in self._engines(self._graph(problem)):
            engine = Descriptor(ENGINE)
            config.get(CFG_ENGINE, "descriptor", 1, (_POINTER * 1)(engine.at))
            (number,) = engine.get(ENGINE_INDEX, "int64", 1)
            if not problem.admits(number, engine.get(NUMERICAL_NOTE, "note", MOST_NOTES)):
                continue
            plan = Descriptor(EXECUTION_PLAN).set(*self._target[EXECUTION_PLAN])
            try:
                plan.set(PLAN_CONFIG, "descriptor", config.at).done()
            except CudnnError as error:  # a GPU, a driver or its memory may refuse an engine
                if error.status not in NOT_SUPPORTED and error.status not in PASSING:
                    raise
                self.lasting &= error.status in NOT_SUPPORTED
                continue
            (size,) = plan.get(PLAN_WORKSPACE_SIZE, "int64", 1)
            self._parts.append(config)
            yield number, plan, size

    def __call__(self, *pointers: int) -> None:
        """Launch what computes with memory at these addresses, those of the problem's names, in the current stream.

        NoRoomError where there is no memory for a workspace; then nothing is launched.
        """
        xp, capture = _backend.gpu(), capture_gpu.current()
        memory = self._workspace(xp, capture) if self.workspace_size else None
        if capture is not None:
            capture.saved.append(self)
        with _in_use:
            key = *pointers, None if memory is None else memory.data.ptr
            pack = self._packs.get(key)
            if pack is None:
                if len(self._packs) >= MOST_PACKS:
                    self._packs.clear()
                pack = self._packs[key] = self.addresses(*key)
            found, stream = _handles.get(self.gpu) or handle(self.gpu), xp.cuda.get_current_stream().ptr
            if _streams.get(self.gpu) != stream:
                call("SetStream", found, stream)
                _streams[self.gpu] = stream
            call("BackendExecute", found, self._plan.at, pack.at)

    def addresses(self, *pointers: int | None) -> Descriptor:
        """What a launch is handed: the addresses of the tensors, and that of the workspace."""
        *tensors, workspace = pointers
        names = *self.problem.names, *self._constants
        constants = [ctypes.addressof(each) for each in self._constants.values()]
        pack = Descriptor(VARIANT_PACK).set(UNIQUE_IDS, "int64", *names)
        return pack.set(DATA_POINTERS, "pointer", *tensors, *constants).set(WORKSPACE, "pointer", workspace).done()

    def _workspace(self, xp: Any, capture: capture_gpu.Capture | None) -> Any:
        try:
            return xp.empty(self.workspace_size, "B")
        except OutOfMemoryError as error:
            if capture is not None:
                raise
            raise NoRoomError from error


class UnsupportedError(Exception):
    """cuDNN has no engine for a problem that may be used.

    Attributes:
        lasting: whether that stays so.
    """

    def __init__(self, problem: Described, lasting: bool):
        super().__init__(problem)
        self.lasting = lasting


class NoRoomError(OutdatedProgramError):
    """There is no memory for the workspace of a plan."""


_plans: dict[tuple[int, Described, int], tuple[Plan | None, float]] = {}  # plans, and until when each is kept


def plan(gpu: int, problem: Described, most: int = MOST_WORKSPACE) -> tuple[Plan | None, bool]:
    """The plan of a problem on the current GPU, None where cuDNN has no engine for it; and whether that stays so.

    most: bytes of its workspace.
    """
    with _in_use:
        key = gpu, problem, most
        found, until = _plans.get(key, (None, 0.0))
        if time.monotonic() >= until:
            if handle(gpu) is None:
                return None, gpu in _handles
            found, lasting = _planned(*key)
            until = math.inf if lasting else time.monotonic() + PAUSE
            if len(_plans) >= MOST_PLANS:
                _plans.clear()
            _plans[key] = found, until
        return found, until == math.inf


def _planned(gpu: int, problem: Described, most: int) -> tuple[Plan | None, bool]:
    try:
        found = Plan(gpu, problem, most)
        return found, found.lasting
    except UnsupportedError as error:
        return None, error.lasting
    except CudnnError as error:
        if error.status not in NOT_SUPPORTED and error.status not in PASSING:
            raise
        return None, error.status in NOT_SUPPORTED


def forget() -> None:
    """Look for the library again, and make plans anew."""
    for cache in (library, functions):
        cache.cache_clear()
    for found in (_handles, _streams, _refused, _plans):
        found.clear()
    _registry.forget()
