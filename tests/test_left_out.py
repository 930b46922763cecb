"""What one step of CI lists as passed, another leaves out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import Passed, is_left_out

PHASES = ("passed", "passed", "passed")
REPORTS = {
    "tests/test_a.py::test_one": PHASES,
    "tests/test_a.py::test_two[x]": PHASES,
    "tests/test_b.py::test_one": PHASES,
    "tests/test_b.py::test_two": ("passed", "skipped", "passed"),
    "tests/test_b.py::test_three": ("skipped", "passed"),
    "tests/test_c.py::test_one": ("passed", "passed", "failed"),
}


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    passed = Passed(tmp_path / "passed")
    for name, outcomes in REPORTS.items():
        for outcome in outcomes:
            passed.pytest_runtest_logreport(SimpleNamespace(nodeid=name, passed=outcome == "passed"))
    passed.pytest_sessionfinish()
    return passed.file


def test_files_are_listed_that_passed_as_a_whole_and_single_tests_of_others(listed: Path):
    assert listed.read_text("utf-8") == "tests/test_a.py\ntests/test_b.py::test_one\n"


@pytest.mark.parametrize(
    ("source", "again"),
    [
        ("torch = require_torch()\n", False),
        ("text = 'PyTorch imports torch'\n", False),
        ("PROGRAM = 'import torch'\n", True),
        ("PROGRAM = 'from torch.nn import Linear'\n", True),
        ("run('-m', 'tdt.as_torch')\n", True),
    ],
)
def test_what_is_listed_runs_again_only_where_programs_import_torch(source: str, again: bool, listed: Path, tmp_path):
    file, config = tmp_path / "test_a.py", SimpleNamespace(getoption=lambda name: listed)
    file.write_text(source, encoding="utf-8")
    assert is_left_out(file, "tests/test_a.py", config) is not again
    assert is_left_out(file, "tests/test_b.py::test_one", config) is not again
    assert not is_left_out(file, "tests/test_b.py::test_two", config)


def test_nothing_is_left_out_without_a_list(tmp_path):
    assert not is_left_out(tmp_path / "test_a.py", "tests/test_a.py", SimpleNamespace(getoption=lambda name: None))
