"""Modules of devices, streams and memory, on a machine without a GPU as PyTorch without one answers."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import tdt
from tests.helpers import require_torch

NO_DEVICE = {
    "xpu": "is_available device_count current_device empty_cache synchronize get_device_name memory_allocated "
    "max_memory_allocated get_rng_state get_rng_state_all is_bf16_supported mem_get_info initial_seed is_initialized "
    "current_stream get_device_capability get_device_properties",
    "mps": "is_available device_count empty_cache synchronize seed current_allocated_memory driver_allocated_memory "
    "recommended_max_memory get_rng_state",
    "mtia": "is_available device_count synchronize empty_cache current_device is_initialized memory_allocated",
}
ACCELERATOR = """current_device_index current_stream empty_cache get_memory_info max_memory_allocated max_memory_reserved
memory_allocated memory_reserved memory_stats reset_peak_memory_stats synchronize""".split()


def outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        return type(error)


@pytest.mark.parametrize("module", NO_DEVICE)
def test_a_device_that_is_missing_answers_as_in_pytorch(module: str):
    torch = require_torch()
    ours, theirs = getattr(tdt, module), getattr(torch, module)
    for name in NO_DEVICE[module].split():
        assert outcome(getattr(ours, name)) == outcome(getattr(theirs, name)), name
    assert not [name for name in ours.__all__ if not hasattr(theirs, name)]


def test_seeding_a_missing_device_does_nothing():
    state = tdt.get_rng_state()
    tdt.xpu.manual_seed(1)
    tdt.xpu.manual_seed_all(1)
    tdt.mps.manual_seed(1)
    assert tdt.equal(state, tdt.get_rng_state())


def test_the_cpus_module_answers_as_pytorchs():
    torch = require_torch()
    for name in ("is_available", "device_count", "current_device", "is_initialized", "synchronize"):
        assert getattr(tdt.cpu, name)() == getattr(torch.cpu, name)()
    stream = tdt.cpu.Stream()
    before = tdt.cpu.current_stream()
    with tdt.cpu.stream(stream):
        assert tdt.cpu.current_stream() is stream
        with tdt.cpu.stream(None):
            assert tdt.cpu.current_stream() is stream
    assert tdt.cpu.current_stream() is before
    assert tdt.cpu.Event().query()
    with pytest.warns(FutureWarning), tdt.cpu.amp.autocast():
        assert (tdt.ones(2, 2) @ tdt.ones(2, 2)).dtype is tdt.bfloat16


@pytest.mark.skipif(tdt.cuda.is_available(), reason="what is so without a GPU")
@pytest.mark.parametrize("name", ACCELERATOR)
def test_without_an_accelerator_its_functions_raise_pytorchs_error(name: str):
    torch = require_torch()
    with pytest.raises(RuntimeError) as theirs:
        getattr(torch.accelerator, name)()
    with pytest.raises(RuntimeError) as ours:
        getattr(tdt.accelerator, name)()
    assert str(ours.value) == str(theirs.value)


@pytest.mark.skipif(tdt.cuda.is_available(), reason="what is so without a GPU")
def test_streams_events_and_ranges_without_a_gpu():
    torch = require_torch()
    for library in (tdt, torch):
        stream = library.Stream(device="cpu")
        assert (stream.device.type, stream.device_index, stream.stream_id) == ("cpu", -1, 0)
        assert repr(stream) == repr(torch.Stream(device="cpu"))
        with pytest.raises(RuntimeError):
            library.Stream(device="cuda")
        for function in (library.cuda.nvtx.mark, library.cuda.nvtx.range_push):
            with pytest.raises(RuntimeError, match="NVTX functions not installed"):
                function("name")
        with pytest.raises(RuntimeError, match="NVTX functions not installed"):
            library.cuda.nvtx.range_pop()
        with pytest.raises(RuntimeError, match="none is available"), library.accelerator.device_index(0):
            pass
        assert library.cuda._initialized is False
    assert tdt.Stream().query()
    assert tdt.Event("cpu").query()


def test_the_module_of_a_device_is_found_by_its_name():
    torch = require_torch()
    for library in (tdt, torch):
        assert library.get_device_module("cpu") is library.cpu
        assert library.get_device_module("cuda:1") is library.cuda
        assert library.get_device_module(library.device("cuda")) is library.cuda
        assert library.get_device_module("xpu") is library.xpu
        assert library.get_device_module().__name__.endswith(("cpu", "cuda"))
        for wrong in ("foo", 3):
            with pytest.raises(RuntimeError, match=r"^Expected one of|^Invalid value of device '3'"):
                library.get_device_module(wrong)


def test_a_program_sees_itself_and_the_modules():
    code = """
import torch, torch.xpu, torch.cpu.amp, torch.cuda.nvtx, torch.return_types
from torch.export import Dim, export
from torch.ao.quantization import ObserverBase
import torch.quantization, torch.nested, torch.fx.node, torch.fx.proxy, torch.utils.model_zoo
assert torch.torch is torch and torch.torch.Tensor is torch.Tensor and Dim.AUTO
assert not isinstance(torch.nn.ReLU(), torch.quantization.ObserverBase) and torch.hub._get_torch_home()
"""
    done = subprocess.run(
        [sys.executable, "-m", "tdt.as_torch", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("call", [
    lambda: tdt.nested.nested_tensor([tdt.ones(2)]), lambda: tdt.export.export(tdt.nn.ReLU(), ()), lambda: tdt.export.Dim("n"),
    lambda: tdt.ao.quantization.quantize_dynamic(tdt.nn.ReLU()), lambda: tdt.ao.quantization.QuantStub(),
])  # fmt: skip
def test_what_tdt_does_not_offer_raises_an_error_with_the_reason(call: Any):
    with pytest.raises(NotImplementedError, match="tdt"):
        call()
