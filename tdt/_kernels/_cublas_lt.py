"""cuBLASLt through ctypes: products of matrices on a GPU in one launch each, with a bias or its gradient.

CuPy's own products call cuBLAS through a handle whose stream it sets before each call, and CuPy refuses that while a stream is
captured for a graph. cuBLASLt is given the stream and the workspace with each call. Constants, types and sizes are those of
`cublasLt.h` of CUDA 12 and 13; the tests compare them with it.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any, NamedTuple

from tdt import _backend
from tdt._backend.waiting import CURRENT

# cudaDataType, by NumPy's letter ("E": bfloat16).
DATA_TYPES = {"f": 0, "d": 1, "e": 2, "E": 14}
COMPUTE_32F, COMPUTE_64F, COMPUTE_32F_FAST_TF32 = 68, 70, 77
OP_N, OP_T = 0, 1
DESC_TRANSA, DESC_TRANSB, DESC_EPILOGUE, DESC_BIAS_POINTER = 3, 4, 7, 8
EPILOGUE_DEFAULT, EPILOGUE_BIAS, EPILOGUE_BGRADB = 1, 4, 512
LAYOUT_BATCH_COUNT, LAYOUT_STRIDED_BATCH_OFFSET = 5, 6
PREF_MAX_WORKSPACE_BYTES, PREF_REDUCTION_SCHEME_MASK = 1, 3
PREF_MIN_ALIGNMENT_BYTES = (5, 6, 7, 8)  # of A, B, C, D
REDUCTION_COMPUTE_TYPE = 2  # sums of parts of a long product keep the precision in which they were computed
NOT_SUPPORTED = 15
WORKSPACE, WORKSPACE_OF_HOPPER = 8 << 20, 32 << 20  # bytes, as NVIDIA recommends for GPUs before and since sm_90

_POINTER, _INT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_OUT = ctypes.POINTER(_POINTER)
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "Create": (_OUT,),
    "MatmulDescCreate": (_OUT, _INT, _INT),
    "MatmulDescSetAttribute": (_POINTER, _INT, _POINTER, _SIZE),
    "MatrixLayoutCreate": (_OUT, _INT, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64),
    "MatrixLayoutSetAttribute": (_POINTER, _INT, _POINTER, _SIZE),
    "MatmulPreferenceCreate": (_OUT,),
    "MatmulPreferenceSetAttribute": (_POINTER, _INT, _POINTER, _SIZE),
    "MatmulPreferenceDestroy": (_POINTER,),
    "MatmulAlgoGetHeuristic": (*(_POINTER,) * 7, _INT, _POINTER, ctypes.POINTER(_INT)),
    "Matmul": (*(_POINTER,) * 14, _SIZE, _POINTER),
}  # fmt: skip


class HeuristicResult(ctypes.Structure):
    """`cublasLtMatmulHeuristicResult_t`."""

    _fields_ = (("algo", ctypes.c_uint64 * 8), ("workspace_size", _SIZE), ("state", _INT), ("waves", ctypes.c_float),
                ("reserved", _INT * 4))  # fmt: skip


class Matrix(NamedTuple):
    """How a matrix lies in memory, column by column as cuBLAS counts, and whether its transpose is meant."""

    op: int
    rows: int
    columns: int
    step: int  # elements between columns
    batch_step: int  # elements between matrices of a stack
    alignment: int  # of its address, in bytes


class Problem(NamedTuple):
    """What a plan is made for: D = A B, with a bias for each row of D, or the sums of the columns of B in its place."""

    dtype: str  # letter of A, B and D
    tf32: bool
    epilogue: int
    bias_alignment: int
    batch: int
    a: Matrix
    b: Matrix
    d: Matrix


@functools.cache
def library() -> Any:
    """The functions of cuBLASLt, by the part of their names after `cublasLt`; None where CUDA's libraries lack it."""
    found = _loaded()
    if found is None:
        return None
    functions = {}
    for name, types in SIGNATURES.items():
        function = functions[name] = getattr(found, f"cublasLt{name}")
        function.argtypes, function.restype = types, _INT
    return functions


def _loaded() -> ctypes.CDLL | None:
    cuda = _backend.gpu().cuda
    try:
        _ = cuda.Device().cublas_handle  # CuPy finds cuBLAS, which brings cuBLASLt
        return ctypes.CDLL(f"libcublasLt.so.{cuda.runtime.runtimeGetVersion() // 1000}")
    except (ImportError, OSError):  # CuPy's own product then says what is missing
        return None


def check(status: int, name: str) -> None:
    """RuntimeError unless cuBLASLt's function `name` was successful."""
    if status:
        raise RuntimeError(f"cublasLt{name} failed with status {status}")


def _call(name: str, *args: Any) -> None:
    check(library()[name](*args), name)


def _created(name: str, *args: Any) -> int:
    result = _POINTER()
    _call(name, ctypes.byref(result), *args)
    assert result.value is not None
    return result.value


def _set(name: str, owner: int, attribute: int, kind: Any, value: int) -> None:
    held = kind(value)
    _call(f"{name}SetAttribute", owner, attribute, ctypes.byref(held), ctypes.sizeof(held))


@functools.cache
def _handle(gpu: int) -> int:
    """The library's handle for a GPU, the current one."""
    return _created("Create")


@functools.cache
def _workspace(gpu: int, stream: int) -> Any:
    """Memory for a stream of the current GPU: products in one stream follow each other, and may share it."""
    return _backend.gpu().empty(workspace_size(gpu), "B")


@functools.cache
def _workspace_at(gpu: int, stream: int) -> tuple[Any, int]:
    """Address and size of `_workspace`."""
    memory = _workspace(gpu, stream)
    return _POINTER(memory.data.ptr), memory.nbytes


@functools.cache
def workspace_size(gpu: int) -> int:
    """Bytes of workspace on a GPU, the current one."""
    hopper = int(_backend.gpu().cuda.Device().compute_capability) >= 90
    return WORKSPACE_OF_HOPPER if hopper else WORKSPACE


class Plan:
    """The algorithm and the descriptions of a product on one GPU, for arrays of any address with the same alignment.

    Attributes:
        supported: False where cuBLASLt has no algorithm for it.
    """

    def __init__(self, gpu: int, problem: Problem):
        real, scale = DATA_TYPES[problem.dtype], DATA_TYPES["d" if problem.dtype == "d" else "f"]
        single = COMPUTE_32F_FAST_TF32 if problem.tf32 else COMPUTE_32F
        self.gpu, self.handle, self.lock = gpu, _handle(gpu), threading.Lock()
        self.has_bias = problem.epilogue != EPILOGUE_DEFAULT
        self.desc = _created("MatmulDescCreate", COMPUTE_64F if problem.dtype == "d" else single, scale)
        for attribute, value in ((DESC_TRANSA, problem.a.op), (DESC_TRANSB, problem.b.op)):
            _set("MatmulDesc", self.desc, attribute, ctypes.c_int32, value)
        if self.has_bias:
            _set("MatmulDesc", self.desc, DESC_EPILOGUE, ctypes.c_uint32, problem.epilogue)
            # The choice of an algorithm goes by the alignment of this address alone.
            _set("MatmulDesc", self.desc, DESC_BIAS_POINTER, _POINTER, problem.bias_alignment)
        self.layouts = [_layout(real, matrix, problem.batch) for matrix in (problem.a, problem.b, problem.d)]
        kind = ctypes.c_double if problem.dtype == "d" else ctypes.c_float
        self.one, self.zero = kind(1), kind(0)
        self.chosen = HeuristicResult()
        self.supported = self._choose(problem)
        a, b, d = self.layouts
        self._launch, self._set = library()["Matmul"], library()["MatmulDescSetAttribute"]
        self._bias = _POINTER()
        self._bias_at = ctypes.byref(self._bias), ctypes.sizeof(self._bias)
        self._current_stream = _backend.gpu().cuda.get_current_stream
        # As ctypes takes them at once.
        numbers = [ctypes.byref(each) for each in (self.one, self.zero, self.chosen.algo)]
        self._fixed = _POINTER(self.handle), _POINTER(self.desc), *numbers, *map(_POINTER, (a, b, d))

    def _choose(self, problem: Problem) -> bool:
        preference, count = _created("MatmulPreferenceCreate"), _INT(0)
        alignments = (problem.a.alignment, problem.b.alignment, problem.d.alignment, problem.d.alignment)
        _set("MatmulPreference", preference, PREF_MAX_WORKSPACE_BYTES, ctypes.c_uint64,
             workspace_size(self.gpu))  # fmt: skip
        _set("MatmulPreference", preference, PREF_REDUCTION_SCHEME_MASK, ctypes.c_uint32, REDUCTION_COMPUTE_TYPE)
        for attribute, value in zip(PREF_MIN_ALIGNMENT_BYTES, alignments, strict=True):
            _set("MatmulPreference", preference, attribute, ctypes.c_uint32, value)
        a, b, d = self.layouts
        status = library()["MatmulAlgoGetHeuristic"](
            self.handle, self.desc, a, b, d, d, preference, 1, ctypes.byref(self.chosen), ctypes.byref(count)
        )
        _call("MatmulPreferenceDestroy", preference)
        if status != NOT_SUPPORTED:
            check(status, "MatmulAlgoGetHeuristic")
        return status == 0 and count.value > 0 and self.chosen.state == 0

    def __call__(self, a: int, b: int, d: int, bias: int | None = None) -> None:
        """Launch the product of matrices at the addresses a and b, to the address d."""
        stream = self._current_stream().ptr
        if CURRENT.capture is None:
            at, size = _workspace_at(self.gpu, stream)
        else:
            memory = CURRENT.capture.workspace(workspace_size(self.gpu))
            at, size = _POINTER(memory.data.ptr), memory.nbytes
        handle, desc, one, zero, algo, a_layout, b_layout, d_layout = self._fixed
        rest = (one, a, a_layout, b, b_layout, zero, d, d_layout, d, d_layout, algo, at, size, stream)
        if not self.has_bias:
            if status := self._launch(handle, desc, *rest):
                check(status, "Matmul")
            return
        with self.lock:  # the address of a bias is a part of the description, which threads share
            if self._bias.value != bias:
                self._bias.value = bias
                if status := self._set(desc, DESC_BIAS_POINTER, *self._bias_at):
                    check(status, "MatmulDescSetAttribute")
            if status := self._launch(handle, desc, *rest):
                check(status, "Matmul")


def _layout(real: int, matrix: Matrix, batch: int) -> int:
    layout = _created("MatrixLayoutCreate", real, matrix.rows, matrix.columns, matrix.step)
    if batch > 1:
        _set("MatrixLayout", layout, LAYOUT_BATCH_COUNT, ctypes.c_int32, batch)
        _set("MatrixLayout", layout, LAYOUT_STRIDED_BATCH_OFFSET, ctypes.c_int64, matrix.batch_step)
    return layout


@functools.lru_cache(4096)
def plan(gpu: int, problem: Problem) -> Plan | None:
    """The plan of a product on the current GPU; None where cuBLASLt has no algorithm for it."""
    found = Plan(gpu, problem)
    return found if found.supported else None
