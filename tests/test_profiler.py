"""`tdt.profiler`: what a block calls, forward and backward, with times that add up."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import tdt
from tdt.autograd import profiler as old
from tdt.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler
from tests.helpers import require_torch


def work() -> None:
    layer = tdt.nn.Linear(4, 3)
    with record_function("forward"):
        y = layer(tdt.ones(2, 4)).relu()
    y.sum().backward()


def test_ops_ranges_and_nodes_are_counted():
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        work()
        work()
    counts = {row.key: row.count for row in prof.key_averages()}
    assert counts["forward"] == counts["linear"] == counts["relu"] == counts["AddmmBackward0"] == 2
    shapes = [row.input_shapes for row in prof.key_averages(group_by_input_shape=True) if row.key == "linear"]
    assert shapes == [((2, 4), (3, 4), (3,))]
    assert tdt.ones(2).add(1).tolist() == [2, 2]
    assert len(prof.events()) == sum(counts.values())  # nothing is recorded after the block


def test_a_range_has_the_time_of_what_is_in_it():
    with profile() as prof, record_function("outer"), record_function("inner"):
        time.sleep(0.01)
    outer, inner = prof.events()
    assert outer.cpu_time_total >= inner.cpu_time_total >= 10_000
    assert outer.self_cpu_time_total == pytest.approx(outer.cpu_time_total - inner.cpu_time_total)
    table = prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=1)
    assert table.splitlines()[0].split()[:4] == ["Name", "Self", "CPU", "%"]
    assert table.splitlines()[1].split()[0] == "inner"
    with pytest.raises(ValueError, match="sort_by must be one of cpu_time_total"):
        prof.table(sort_by="cpu")


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode_and_a_profile_do_not_disturb_each_other():
    with tdt.autograd.detect_anomaly(), profile() as prof:
        assert tdt.is_anomaly_enabled()
        with pytest.warns(UserWarning, match="Traceback of forward call"), pytest.raises(RuntimeError, match="nan"):
            tdt.tensor([0.0], requires_grad=True).sqrt().mul(0).backward()
    assert "sqrt" in [event.name for event in prof.events()]
    with old.profile() as prof:
        with tdt.autograd.detect_anomaly():
            tdt.ones(1, requires_grad=True).exp().backward()
        tdt.ones(1, requires_grad=True).sin().backward()
        assert not tdt.is_anomaly_enabled()
    names = [event.name for event in prof.events()]
    assert [name for name in names if "exp" in name.lower() or "sin" in name.lower()] == [
        "exp", "ExpBackward0", "sin", "SinBackward0"
    ]  # fmt: skip


def test_schedules_are_pytorchs():
    torch = require_torch()
    for settings in ({"wait": 1, "warmup": 1, "active": 2}, {"wait": 2, "warmup": 0, "active": 1, "repeat": 2, "skip_first": 3},
                  {"wait": 2, "warmup": 1, "active": 2, "repeat": 2, "skip_first": 1, "skip_first_wait": 1}):  # fmt: skip
        ours, theirs = schedule(**settings), torch.profiler.schedule(**settings)
        assert [ours(n).name for n in range(20)] == [theirs(n).name for n in range(20)]


def test_a_scheduled_profile_writes_a_trace_of_each_recording(tmp_path: Path):
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=plan, on_trace_ready=tensorboard_trace_handler(str(tmp_path), "w")) as prof:
        for _ in range(10):
            with record_function("step"):
                tdt.ones(2) + 1
            prof.step()
    traces = [json.loads(path.read_text())["traceEvents"] for path in sorted(tmp_path.iterdir())]
    assert [[event["name"] for event in trace] for trace in traces] == [["step", "add"] * 2] * 2


@record_function("decorated")
def decorated(depth: int) -> int:
    return depth if depth == 0 else decorated(depth - 1)


def test_a_decorated_function_may_call_itself():
    assert decorated(1) == 0
    with profile() as prof:
        decorated(2)
    assert [event.name for event in prof.events()] == ["decorated"] * 3
