"""Copies, streams, memory and two GPUs under the real CuPy: what the driver copies is real memory, so it has its values."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tdt
from tdt.train.config import bundled
from tests.gpu.null import wheel
from tests.on_gpu import check_config

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "gpu.md"
PROGRAMS = dict(re.findall(r'^```python title="([\w.]+)"\n(.*?)^```', PAGE.read_text(encoding="utf-8"), re.M | re.S))

LAYOUTS = {
    "C order": lambda: tdt.randn(3, 4),
    "transposed": lambda: tdt.randn(3, 4).t(),
    "permuted": lambda: tdt.randn(2, 3, 4).permute(1, 2, 0),
    "channels-last": lambda: tdt.randn(2, 3, 4, 5).contiguous(memory_format=tdt.channels_last),
    "bfloat16": lambda: tdt.randn(3, 4).bfloat16().t(),
    "pinned": lambda: tdt.randn(3, 4).pin_memory(),
    "empty": lambda: tdt.randn(0, 3).t(),
}


@pytest.mark.parametrize("what", LAYOUTS)
@pytest.mark.parametrize("non_blocking", [False, True])
def test_a_tensor_comes_back_with_its_strides_and_values(what: str, non_blocking: bool):
    x = LAYOUTS[what]()
    there = x.to("cuda", non_blocking=non_blocking)
    back = there.cpu()
    assert there.is_cuda and not back.is_cuda
    assert not x.numel() or there.stride() == x.stride() == back.stride()
    assert tdt.equal(back, x)


def test_a_pinned_tensor_is_uploaded_without_a_wait():
    x = tdt.randn(3, 4).pin_memory()
    x.to("cuda", non_blocking=True)
    with wheel.watch() as calls:
        x.to("cuda", non_blocking=True)
    kinds = Counter(call.kind for call in calls)
    assert kinds["pinned upload"] == 1 and not kinds["upload"] and not kinds["wait"]


def test_streams_and_events():
    stream, x = tdt.cuda.Stream(), tdt.ones(4, device="cuda")
    stream.wait_stream(tdt.cuda.current_stream())
    with tdt.cuda.stream(stream), wheel.watch() as calls:
        x * 3
        event = stream.record_event()
    assert {call.stream for call in calls if call.kind == "launch"} == {stream.cuda_stream} != {0}
    tdt.cuda.current_stream().wait_event(event)
    event.synchronize()
    assert event.query()
    start, end = (tdt.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    end.record()
    tdt.cuda.synchronize()
    assert start.elapsed_time(end) == 0


def test_memory_is_counted_and_an_error_reports_that_it_ran_out():
    before = tdt.cuda.memory_allocated()
    x = tdt.zeros(1 << 20, device="cuda")
    assert tdt.cuda.memory_allocated() - before == x.nbytes
    free, total = tdt.cuda.mem_get_info()
    assert total == tdt.cuda.get_device_properties().total_memory == 80 << 30
    assert total - free == tdt.cuda.memory_reserved() >= tdt.cuda.memory_allocated()
    with pytest.raises(
        tdt.cuda.OutOfMemoryError, match=r"Tried to allocate 100.00 GiB. GPU 0 has 80.00 GiB.*smaller batch"
    ):
        tdt.empty(25 << 30, device="cuda")
    reserved, size = tdt.cuda.memory_reserved(), x.nbytes
    del x
    tdt.cuda.empty_cache()  # but for what lies in one piece with arrays of other tests
    assert reserved - tdt.cuda.memory_reserved() >= size


def run_with_two_gpus(program: str, folder: Path) -> None:
    """Run a program in a process of its own: CuPy counts GPUs once."""
    start = f"from tests.gpu.null import wheel\nwheel.start(gpus=2)\n{program}\nassert wheel.refused == []\n"
    environment = os.environ | {"PYTHONPATH": str(PAGE.parents[2])}
    done = subprocess.run([sys.executable, "-c", start], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


OPS = """
import tdt
from tests.on_gpu import check_ops

names = ["add", "matmul", "sum", "softmax", "conv", "embedding", "batch_norm", "cross_entropy", "sort", "where", "cat"]
checks = list(check_ops(tdt.device("cuda:1"), names, ["float32"], values=False))
assert len(checks) > len(names)
assert {check.name: check.wrong for check in checks if check.wrong} == {}
assert tdt.cuda.current_device() == 0
"""
STEP = """
import tdt
from tdt import nn

model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 2)).to("cuda:1")
update = tdt.optim.AdamW(model.parameters())
x, y = tdt.randn(3, 4).to("cuda:1"), tdt.tensor([0, 1, 1], device="cuda:1")
nn.functional.cross_entropy(model(x), y).backward()
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
update.step()
assert {p.device for p in model.parameters()} == {tdt.device("cuda:1")}
assert tdt.equal(x.to("cuda:0").cpu(), x.cpu())
"""


@pytest.mark.parametrize("name", ["ops", "step", *PROGRAMS])
def test_a_program_runs_with_two_gpus(name: str, tmp_path: Path):
    run_with_two_gpus({"ops": OPS, "step": STEP, **PROGRAMS}[name], tmp_path)


@pytest.mark.parametrize("name", bundled())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_bundled_config_trains(name: str):
    assert check_config(name, "cuda", 2).wrong in (None, *(f"losses are not finite: {[float('nan')] * 2}",))  # 0 / 0


@pytest.mark.parametrize("amp", ["bfloat16", "float16"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_mixed_precision_trains(amp: str):
    done = check_config("digits-cnn", "cuda", 3, [f"train.amp={amp}"])
    assert done.losses and done.wrong in (None, f"losses are not finite: {[float('nan')] * 3}")
