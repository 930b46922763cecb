"""`tdt doctor` reports what is installed, missing and broken, and exits with 1 only if something is broken."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tdt import cli
from tdt._about import __version__
from tdt.train.checks import checkup


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def findings(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    code = cli.run(["doctor", "--json", *arguments])
    found = json.loads(capsys.readouterr().out)
    assert found["broken"] == sum(one["state"] == "broken" for one in found["findings"])
    return code, {one["what"]: (one["state"], one["said"]) for one in found["findings"]}


def test_a_working_installation_is_reported_as_such(capsys, tmp_path):
    code, found = findings(capsys)
    assert code == 0
    assert found["tdt"][1] == f"{__version__}, in {Path(cli.__file__).parent}" and re.match(
        r"\d+\.\d+", found["Python"][1]
    )
    for what in ("processor", "BLAS", "threads", "runs"):
        assert found[what][0] == "ok", what
    difference = re.search(r"differ by (\S+) of", found["gradient"][1])
    assert found["gradient"][0] == "ok" and difference is not None and 0 <= float(difference[1]) < 1e-5
    assert found["GPU"][0] == "ok" or re.search("pip install 'tdt-train.cuda12.'|none is visible", found["GPU"][1])
    assert not list(tmp_path.iterdir())


def test_the_text_reports_the_runs_state(capsys):
    assert cli.run(["doctor"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^BLAS +\S", out, re.M) and out.endswith("\neverything required works\n")


def test_packages_that_are_missing_or_old_are_broken(capsys, monkeypatch):
    declared = ["numpy>=99.0", "no-such-package>=1.2", "rich", 'cupy-cuda12x>=13.4; extra == "cuda12"',
                'no-such-onnx; extra == "onnx"']  # fmt: skip
    monkeypatch.setattr(checkup, "_declared", lambda: declared)
    code, found = findings(capsys)
    assert code == 1
    assert found["no-such-package"] == ("broken", "is not installed: pip install 'no-such-package>=1.2'")
    assert found["numpy"][0] == "broken" and found["numpy"][1].endswith("is too old: pip install 'numpy>=99.0'")
    assert found["rich"][0] == "ok"
    assert found["extra onnx"] == ("note", "needs no-such-onnx: pip install 'tdt-train[onnx]'")


def test_a_place_for_runs_that_takes_no_files_is_broken(capsys, tmp_path):
    (tmp_path / "file").touch()
    code, found = findings(capsys, "--runs-root", "file")
    assert code == 1 and found["runs"] == ("broken", "file takes no files: Not a directory; use another --runs-root")
    assert findings(capsys, "--runs-root", "not/yet")[1]["runs"][0] == "ok"


def test_a_look_that_fails_is_a_finding(capsys, monkeypatch):
    def broken():
        raise OSError("libfast.so: cannot open shared object file")
        yield

    monkeypatch.setattr(checkup, "_kernels", broken)
    code, found = findings(capsys)
    assert code == 1 and found["kernels"] == ("broken", "OSError: libfast.so: cannot open shared object file")
    assert found["runs"][0] == "ok"


def test_wrong_gradients_are_broken(capsys, monkeypatch):
    import tdt

    clean, calls = tdt.nn.functional.conv2d, []

    def faulty(*args, **kwargs):
        calls.append(1)
        return clean(*args, **kwargs) * (1 + 1e-3 * (len(calls) == 1))

    monkeypatch.setattr(tdt.nn.functional, "conv2d", faulty)
    assert findings(capsys)[1]["gradient"][0] == "broken"


def test_versions_are_compared_as_numbers():
    assert checkup._numbers("1.26") > checkup._numbers("1.9") and checkup._numbers("2.0rc1") == (2, 0)


def test_a_cupy_that_is_too_old_is_broken_before_it_is_tried(capsys, monkeypatch):
    monkeypatch.setattr(checkup, "_declared", lambda: ["numpy>=2.0", "cupy-cuda13x>=14.2; extra == 'cuda13'"])
    versions = {"cupy-cuda13x": "13.6.0"}
    monkeypatch.setattr(checkup, "_version", lambda package: versions.get(package))
    (old,) = checkup._gpu()
    assert (old.state, old.message) == ("broken", "cupy-cuda13x 13.6.0 is too old: pip install 'tdt-train[cuda13]'")
    versions["cupy-cuda13x"] = "14.2.0"
    monkeypatch.setattr("tdt._backend.cuda_device_count", lambda: 0)
    (new,) = checkup._gpu()
    assert new.state == "note" and "none is visible to cupy-cuda13x 14.2.0" in new.message
