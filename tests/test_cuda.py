"""`tdt.cuda`, `tdt.backends` and the switches answer as PyTorch's CPU build does where there is no GPU."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import tdt
from tdt.compat import _switches
from tests.helpers import require_torch

without_gpu = pytest.mark.skipif(tdt.cuda.is_available(), reason="says what happens without a GPU")


def answer(call: Callable[[], Any]) -> tuple[str, str]:
    """The value, or the error's class and the first clause of what it says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = call()
        except Exception as error:  # noqa: BLE001  (which it is, is the question)
            return type(error).__name__, str(error).partition(":")[0].rstrip(".").replace("tdt.", "torch.")
    plain = value is None or isinstance(value, (bool, int, str, tuple, list, dict))
    return ("value", repr(value)) if plain else ("object", type(value).__name__)


NAMES = """
    is_available() device_count() is_initialized() current_device() get_device_name() get_device_capability()
    get_device_properties(0) synchronize() init() is_bf16_supported() is_tf32_supported() get_arch_list()
    Stream() Event() current_stream() default_stream() stream(None) set_stream(None) device(0) device_of(ones(1))
    memory_allocated() max_memory_allocated() memory_reserved() max_memory_reserved() memory_stats() empty_cache()
    mem_get_info() manual_seed(1) manual_seed_all(1) seed() seed_all() initial_seed() get_rng_state()
    get_rng_state_all() set_rng_state(ones(1)) set_rng_state_all([]) default_generators
    set_device(-1) device(0).__enter__() device(-1).__enter__() stream(None).__enter__()
    memory_allocated(0) memory_reserved("cuda:1")""".split()


@without_gpu
@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_cuda_behaves_as_in_pytorchs_cpu_build(name: str):
    torch = require_torch()
    ours = answer(lambda: eval(f"cuda.{name}", {"cuda": tdt.cuda, "ones": tdt.ones}))
    assert ours == answer(lambda: eval(f"cuda.{name}", {"cuda": torch.cuda, "ones": torch.ones}))


@without_gpu
@pytest.mark.parametrize("name", ["set_device(0)", "reset_peak_memory_stats()", "memory_summary()"])
def test_names_missing_in_pytorchs_cpu_build_raise_the_common_error(name: str):
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled: CuPy sees no GPU; install"):
        eval(f"tdt.cuda.{name}")


MOVES = [
    "ones(2).cuda()", "ones(2).cuda(non_blocking=True)", "ones(2).to('cuda')", "ones(2).to(device('cuda', 1))",
    "ones(2, device='cuda:0')", "nn.Linear(2, 2).cuda()", "nn.Linear(2, 2).to('cuda:0')", "rand(2, device='cuda')",
    "tensor([1], device='cuda')", "device('cuda:0').index", "device('cuda').type", "str(device('cuda:1'))",
    "ones(2).is_cuda", "nn.Linear(2, 2, device='cuda')",
]  # fmt: skip


@without_gpu
@pytest.mark.parametrize("code", MOVES)
def test_moving_to_a_gpu_that_is_not_there_is_pytorchs_error(code: str):
    torch = require_torch()
    assert answer(lambda: eval(code, vars(tdt) | {"nn": tdt.nn})) == answer(lambda: eval(code, vars(torch)))


SETTINGS = """
    backends.cudnn.enabled backends.cudnn.benchmark backends.cudnn.deterministic backends.cudnn.allow_tf32
    backends.cudnn.benchmark_limit backends.cudnn.is_available() backends.cudnn.version()
    backends.cudnn.is_acceptable(ones(1)) backends.cudnn.fp32_precision
    backends.cuda.is_built() backends.cuda.matmul.allow_tf32 backends.cuda.flash_sdp_enabled()
    backends.cuda.math_sdp_enabled() backends.cuda.mem_efficient_sdp_enabled() backends.cuda.cudnn_sdp_enabled()
    backends.cuda.matmul.allow_fp16_reduced_precision_reduction backends.cuda.matmul.allow_fp16_accumulation
    backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    backends.cpu.get_cpu_capability() backends.mps.is_available() backends.mps.is_built() backends.mkldnn.allow_tf32
    get_float32_matmul_precision() set_float32_matmul_precision("x") are_deterministic_algorithms_enabled()
    is_deterministic_algorithms_warn_only_enabled() get_deterministic_debug_mode()
    set_deterministic_debug_mode("x") set_deterministic_debug_mode(5) set_deterministic_debug_mode(1.5)
    accelerator.is_available() accelerator.device_count() accelerator.current_accelerator()
    compiler.is_compiling() compile(ones,mode="default",options={}) version.cuda version.hip version.debug
    """.split()


@without_gpu
@pytest.mark.parametrize("code", SETTINGS)
def test_a_setting_has_pytorchs_default_or_error(code: str):
    torch = require_torch()
    ours = {name: getattr(tdt, name) for name in ("backends", "accelerator", "compiler", "version")}
    assert answer(lambda: eval(code, vars(tdt) | ours)) == answer(lambda: eval(code, vars(torch)))


def test_functions_take_pytorchs_arguments():
    torch = require_torch()
    wrong = {}
    for names in (tdt.cuda.__all__, _switches.__all__):
        home, theirs = (tdt.cuda, torch.cuda) if names is tdt.cuda.__all__ else (tdt, torch)
        for name in names:
            ours = getattr(home, name)
            if inspect.isfunction(ours) and inspect.isfunction(getattr(theirs, name)):
                our_parameters, their_parameters = (
                    inspect.signature(f).parameters.values() for f in (ours, getattr(theirs, name))
                )
                if [(p.name, p.default, p.kind) for p in our_parameters] != [
                    (p.name, p.default, p.kind) for p in their_parameters
                ]:
                    wrong[name] = list(our_parameters), list(their_parameters)
    assert not wrong


def test_flags_keep_what_a_script_writes():
    cudnn = tdt.backends.cudnn
    cudnn.benchmark, cudnn.deterministic = True, True
    with cudnn.flags(enabled=False):
        assert (cudnn.enabled, cudnn.benchmark, cudnn.benchmark_limit) == (False, False, 10)
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.benchmark_limit) == (True, True, True, None)
    cudnn.benchmark = cudnn.deterministic = False
    with tdt.backends.mkldnn.flags(enabled=True):
        assert tdt.backends.mkldnn.enabled
    assert not tdt.backends.mkldnn.enabled
    tdt.backends.cuda.enable_flash_sdp(False)
    assert not tdt.backends.cuda.flash_sdp_enabled()
    tdt.backends.cuda.enable_flash_sdp(True)


@pytest.mark.parametrize("precision", ["high", "medium", "highest"])
def test_the_precision_of_products_and_the_older_flag_are_one_setting(precision: str):
    tdt.set_float32_matmul_precision(precision)
    assert tdt.get_float32_matmul_precision() == precision
    assert tdt.backends.cuda.matmul.allow_tf32 == (precision != "highest")
    tdt.backends.cuda.matmul.allow_tf32 = precision == "highest"
    assert tdt.get_float32_matmul_precision() == ("high" if precision == "highest" else "highest")
    tdt.set_float32_matmul_precision("highest")


def test_the_determinism_switch_is_set_by_name_and_by_number():
    torch = require_torch()
    for mode, warn_only in ((True, False), (True, True), (False, True)):
        states = []
        for library in (tdt, torch):
            library.use_deterministic_algorithms(mode, warn_only=warn_only)
            states.append((library.are_deterministic_algorithms_enabled(), library.get_deterministic_debug_mode(),
                         library.is_deterministic_algorithms_warn_only_enabled()))  # fmt: skip
        assert states[0] == states[1]
    for mode in ("warn", 2, "default"):
        for library in (tdt, torch):
            library.set_deterministic_debug_mode(mode)
        assert tdt.get_deterministic_debug_mode() == torch.get_deterministic_debug_mode()
    with pytest.raises(TypeError, match="argument 'mode'"):
        tdt.use_deterministic_algorithms("yes")


def test_compile_takes_functions_of_numbers():
    net = tdt.nn.Linear(1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @tdt.compile(dynamic=True)
        def twice(x):
            return x * 2

        @tdt.compile
        def thrice(x):
            return x * 3

        assert (twice(2), thrice(2)) == (4, 6)
        assert tdt.compiler.disable(net) is net
        assert tdt.compiler.disable()(net) is net


def test_threads_between_operations_are_set_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_switches, "_interop_threads", None)
    assert tdt.get_num_interop_threads() == tdt.get_num_threads()
    tdt.set_num_interop_threads(3)
    assert tdt.get_num_interop_threads() == 3
    with pytest.raises(RuntimeError, match="cannot set number of interop threads"):
        tdt.set_num_interop_threads(4)


@pytest.mark.skipif(not tdt.cuda.is_available(), reason="needs a GPU")
def test_streams_events_and_memory_of_a_gpu():
    cuda = tdt.cuda
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    side = cuda.Stream()
    before = cuda.memory_allocated()
    with cuda.stream(side):
        assert cuda.current_stream() == side
        start.record()
        x = tdt.ones(1024, 1024, device="cuda")
        y = x @ x
        end.record()
    cuda.current_stream().wait_stream(side)
    cuda.synchronize()
    assert end.query() and start.elapsed_time(end) > 0
    assert float(y.sum()) == 1024.0**3
    assert cuda.memory_allocated() >= before + 2 * x.nbytes
    assert cuda.max_memory_allocated() >= cuda.memory_allocated()
    del x, y
    assert cuda.memory_allocated() < cuda.max_memory_allocated()
    cuda.manual_seed(1)
    state, drawn = cuda.get_rng_state(), tdt.rand(4, device="cuda")
    cuda.set_rng_state(state)
    assert tdt.equal(tdt.rand(4, device="cuda"), drawn)
    assert cuda.get_device_name() in cuda.memory_summary()


@pytest.mark.skipif(tdt.cuda.is_available(), reason="tests without a GPU")
def test_cuda_graphs_need_a_gpu():
    cuda = tdt.cuda
    assert not cuda.is_current_stream_capturing()
    for make in (cuda.CUDAGraph, cuda.graph_pool_handle, lambda: cuda.make_graphed_callables(abs, ())):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            make()
