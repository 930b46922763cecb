"""`scripts/gpu_check`: what it finds, tried with the CPU in the GPU's place."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

import tdt
from tdt.autograd._op_table import OPS
from tests import gpu_speed
from tests.on_gpu import check_config, check_ops

ROOT = Path(__file__).parents[1]
CPU = tdt.device("cpu")


def run(monkeypatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["gpu_check", *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "scripts/gpu_check"), run_name="__main__")
    return ended.value.code


def test_the_script_prints_a_row_for_each_dtype_and_config(monkeypatch, capsys, tmp_path):
    arguments = ["--device", "cpu", "--ops", "tanh", "--dtypes", "float32", "bfloat16", "--configs", "digits-mlp"]
    assert not run(monkeypatch, "correctness", *arguments, "--steps", "2", "--results", str(tmp_path))
    assert {check["dtype"] for check in json.loads((tmp_path / "ops.json").read_text())} == {"float32", "bfloat16"}
    assert [done["name"] for done in json.loads((tmp_path / "configs.json").read_text())] == ["digits-mlp"]
    out = capsys.readouterr().out
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
    found = {"tdt": {"loss": 2.0, "ms": 2.0}, "torch": {"loss": 2.001, "ms": 1.0}, "torch compiled": {"error": "none"}}
    assert gpu_speed.apart(found) and gpu_speed.ratios(found) == {"torch": 0.5}
    assert not gpu_speed.apart({"tdt": {"loss": 2.0}, "torch": {"error": "none"}})
