"""A few trials of `scripts/killed_runs`: killed within calls of the system, or given errors by it, a run ends the same."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from tests.fuzz.killed_runs import run


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="needs Linux and gcc")
def test_runs_that_are_killed_or_get_errors_end_as_if_nothing_had_happened():
    done = run("--seed", 5, "--kills", 2, "--errors", 2, "--seconds", 40, "--no-workers")
    assert done.returncode == 0, done.stdout
    counts = json.loads(done.stdout.partition("\n")[2])
    assert counts["kills in a call"] + counts.get("kills at a time", 0) >= 2
    assert sum(count for what, count in counts.items() if "exit code" in what) >= 2
