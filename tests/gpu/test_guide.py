"""The programs of the guide's page on GPUs run, on a stand-in with two."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "gpu.md"
PROGRAMS = dict(re.findall(r'^```python title="([\w.]+)"\n(.*?)^```', PAGE.read_text(encoding="utf-8"), re.M | re.S))


def test_the_page_has_programs():
    assert {"devices.py", "graph.py", "amp.py", "compiled.py", "memory.py", "several.py"} == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs(name: str, tmp_path):
    (tmp_path / name).write_text(PROGRAMS[name])
    path = os.pathsep.join([str(PAGE.parents[2]), str(Path(__file__).parent / "standin")])
    environment = os.environ | {"CUPY_STANDIN_GPUS": "2", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, name], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
