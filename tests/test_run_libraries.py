"""`scripts/run_libraries`: how it compares, and that its table and its programs fit together. Nothing is installed here."""

from __future__ import annotations

import os
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "run_libraries"))


def test_each_library_of_the_table_has_a_program_or_tests():
    table = tomllib.loads((ROOT / "scripts" / "libraries.toml").read_text(encoding="utf-8"))
    assert table
    for name, record in table.items():
        assert {"version", "install", "tests", "at_least"} <= record.keys(), name
        program = SCRIPT["PROGRAMS"] / record["tests"]
        runs = record["pytest"] if record["tests"] in ("sdist", "package") else program.is_file()
        assert runs, name


@pytest.mark.parametrize(
    ("got", "want", "difference"),
    [
        ({"a": [1.0, 2]}, {"a": [1.0 + 1e-7, 2]}, None),
        ({"a": [1.0, 2]}, {"a": [1.1, 2]}, "[a] [0] is 1.0, not 1.1"),
        ({"a": 1}, {"b": 1}, "has the keys ['a'], not ['b']"),
        ([1], [1, 2], "has 1 entries, not 2"),
        ("x", "y", "is x, not y"),
        (True, 1.5, "is True, not 1.5"),
        ("nan", "nan", None),
    ],
)
def test_values_are_compared_within_the_tolerance(got, want, difference):
    assert SCRIPT["differs"](got, want, 1e-5, 1e-6) == difference


def test_only_what_passes_on_pytorch_counts():
    failure = SCRIPT["Failure"]
    pytorch = {"same": 1.0, "other": 2.0, "fails": 3.0, "missing": 4.0, "skipped": failure("skipped: no GPU")}
    tdt = {"same": 1.0, "other": 2.5, "fails": failure("RuntimeError"), "skipped": 5.0}
    count, same, wrong = SCRIPT["compare"]({}, pytorch, tdt)
    assert (count, same) == (4, 1)
    assert wrong == {"other": "is 2.5, not 2.0", "fails": "RuntimeError", "missing": "not run"}


def test_the_repository_is_not_on_the_path_of_a_library_s_tests(monkeypatch, tmp_path):
    """Both have a package named `tests`, and the repository's would be imported for the library's."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(tmp_path)]))
    arguments = ["-S", "-c", "import os; print(os.environ['PYTHONPATH'])"]
    path = SCRIPT["launch"]("PyTorch", Path(sys.executable), arguments, 60, {}).strip().split(os.pathsep)
    assert str(ROOT) not in path
    assert path[-1] == str(tmp_path)
