"""`scripts/gpu_check`: what it finds, tried with the CPU in the GPU's place."""

from __future__ import annotations

import json
import runpy
import sys
import time
from pathlib import Path

import pytest

import tdt
from tdt.autograd._op_table import OPS
from tests import gpu_kernels, gpu_results, gpu_speed
from tests.gpu_results import RESTART, Results
from tests.gpu_workers import check_in_processes
from tests.on_gpu import check_config, check_ops

ROOT = Path(__file__).parents[1]
CPU = tdt.device("cpu")


def run(monkeypatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["gpu_check", *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "scripts/gpu_check"), run_name="__main__")
    return ended.value.code


def test_the_script_prints_a_row_for_each_dtype_and_config(monkeypatch, capfd, tmp_path):
    arguments = ["--device", "cpu", "--ops", "tanh", "--dtypes", "float32", "bfloat16", "--configs", "digits-mlp"]
    assert not run(monkeypatch, "correctness", *arguments, "--steps", "2", "--results", str(tmp_path))
    found = json.loads((tmp_path / "correctness.json").read_text())
    assert {check["dtype"] for check in found["ops"].values()} == {"float32", "bfloat16"}
    assert [*found["configs"]] == ["digits-mlp"]
    out = capfd.readouterr().out
    assert "\nfloat32 " in out and "\nbfloat16 " in out and "\ndigits-mlp " in out and out.endswith("\nall agree\n")


@pytest.mark.skipif(tdt.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_reports_what_is_missing(monkeypatch, capsys):
    assert run(monkeypatch, "--only", "ops") == 2
    assert "CuPy sees no GPU: pip install 'tdt-train[cuda13]'" in capsys.readouterr().err


def test_ops_that_fail_or_differ_are_found(monkeypatch):
    clean, calls = OPS["tanh"].forward, []

    def faulty(xp, x, **attributes):
        calls.append(x.dtype)
        if len(calls) % 2:  # first the CPU, then the device
            return clean(xp, x, **attributes)
        if x.ndim == 0:
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        return clean(xp, x, **attributes) * 1.01

    monkeypatch.setattr(OPS["tanh"], "forward", faulty)
    monkeypatch.setattr(OPS["tanh"], "direct", None)
    monkeypatch.setattr(OPS["tanh"], "ufuncs", None)
    (check,) = (check for check in check_ops(CPU, ["tanh"], ["float64"]) if check.name == "tanh")
    assert any("differs by 9" in wrong for wrong in check.wrong)
    assert any("TypeError: Unsupported type" in wrong and "tdt/" in wrong for wrong in check.wrong)


def test_a_config_that_fails_reports_the_reason():
    done = check_config("digits-mlp", "cuda:7", 2)
    assert done.wrong is not None and done.losses == []


def test_what_there_is_no_time_for_counts_as_failed(monkeypatch, capsys, tmp_path):
    arguments = ["--device", "cpu", "--only", "configs", "--configs", "digits-mlp", "--results", str(tmp_path)]
    assert run(monkeypatch, *arguments, "--minutes", "0") == 1
    assert "out of time before digits-mlp" in capsys.readouterr().out


def test_losses_that_differ_from_pytorchs_and_slower_steps_are_found():
    found = {
        "tdt": {"exact loss": 2.0, "ms": 2.0},
        "torch": {"exact loss": 2.001, "ms": 1.0},
        "torch compiled": {"error": "none"},
    }
    assert gpu_speed.apart(found) and gpu_speed.ratios(found) == {"torch": 0.5}
    assert not gpu_speed.apart({"tdt": {"exact loss": 2.0}, "torch": {"error": "none"}})
    assert len(gpu_speed.behind(found, "small", False)) == 2  # its loss, and its speed


def test_small_steps_must_be_three_times_as_fast_and_large_ones_take_no_more_memory():
    of = lambda ms, peak: {"exact loss": 1.0, "ms": ms, "peak_bytes": peak}  # noqa: E731
    found = {"tdt": of(1.0, 110), "tdt graph": of(0.5, 200), "torch": of(1.4, 99)}
    assert gpu_speed.behind(found, "medium", True) == []
    assert gpu_speed.behind(found, "small", True) == ["at best 2.80 times as fast as PyTorch's eager steps"]
    assert gpu_speed.behind(found, "large", True) == ["1.11 times PyTorch's memory"]
    found["torch"] = of(1.5, 100)
    assert gpu_speed.behind(found, "small", True) == gpu_speed.behind(found, "large", True) == []
    found["tdt graph"] = {"error": "none"}
    assert gpu_speed.behind(found, "large", True) == ["tdt graph failed"]


WORKER = f"""
import json, os, sys, time
for name in sys.argv[1:]:
    if name.startswith("hangs"): time.sleep(60)
    if name.startswith("crashes"): print("a message", file=sys.stderr); os._exit(9)
    print(json.dumps({{"checked": name}}), flush=True)
    if name.startswith("breaks"): sys.exit({RESTART})
"""


def test_a_name_that_ends_or_hangs_its_process_costs_itself_alone():
    names = ["a", "crashes", "b", "hangs", "breaks", "c", "d", "breaks too", "crashes last"]
    command = [sys.executable, "-c", WORKER]
    found = dict(check_in_processes(command, names, 2, time.monotonic() + 60, silence=2))
    assert {name: {"checked": name} for name in names if name[:5] not in ("crash", "hangs")}.items() <= found.items()
    assert found["crashes"] == found["crashes last"] == "exit code 9: a message"
    assert found["hangs"] == "no result in 2 seconds" and {*found} == {*names}


def test_what_processes_have_no_time_for_has_no_result():
    began = time.monotonic()
    found = dict(check_in_processes([sys.executable, "-c", WORKER], ["a", "hangs", "b"], 1, began + 2))
    assert found == {"a": {"checked": "a"}} and time.monotonic() < began + 20


def test_a_stage_goes_on_behind_what_it_has_done(tmp_path):
    before = Results(tmp_path, "correctness", "kernels", again=False)
    before.record["sums"] = None
    before.save()
    other = Results(tmp_path, "correctness", "ops", again=True)
    other.record["tanh"] = {}
    other.save()
    assert Results(tmp_path, "correctness", "kernels", again=True).record == {"sums": None}
    assert Results(tmp_path, "correctness", "kernels", again=False).record == {}
    assert gpu_results.found(tmp_path, "ops") == {"tanh": {}} and gpu_results.found(tmp_path, "speed") is None
    names = [name for name, _ in gpu_kernels.check_kernels("cpu", {*gpu_kernels.CASES} - {"sums", "softmax"})]
    assert names == ["sums", "softmax"]
