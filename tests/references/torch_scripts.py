"""What the programs in examples/torch_scripts print on PyTorch 2.13, kept so that the tests hold without it.

`python -m tests.references.torch_scripts` writes `torch_scripts.json` (on a processor that is not Intel's: there PyTorch
draws dropout from MKL).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "torch_scripts"
FILE = Path(__file__).with_suffix(".json")
SCRIPTS = ("mlp", "cnn", "vae", "char_rnn", "dcgan", "regression", "reinforce", "transformer", "gcn", "lbfgs_sine")
RELATIVE = 1e-5  # float32 sums in another order; after dozens of steps of training some 1e-6 remain

# All of them in one process, which spares nine imports: each is run as `python script.py` would. `said` may hold more.
DRIVER = """
import contextlib, io, json, runpy, sys
folder, *names = sys.argv[1:]
sys.path.insert(0, folder)
said = {}
%s
for name in names:
    sys.argv = [f"{folder}/{name}.py"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(sys.argv[0], run_name="__main__")
    said[name] = out.getvalue()
print(json.dumps(said))
"""


def outputs(*python: str, first: str = "") -> dict[str, str]:
    """What each script prints when this Python, with these arguments before the program, runs it on one thread.

    first: code that runs before the scripts.
    """
    done = subprocess.run(
        [sys.executable, *python, "-c", DRIVER % first, str(FOLDER), *SCRIPTS],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def difference(ours: str, theirs: str) -> float:
    """The largest relative difference of two numbers that stand at the same place, beyond what printing rounds away.

    Infinite where the words, or two integers, differ.
    """
    if NUMBER.sub("#", ours) != NUMBER.sub("#", theirs):
        return float("inf")
    largest = 0.0
    for a, b in zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True):
        digits = len(b.partition(".")[2])
        if not digits and a != b:
            return float("inf")
        off = abs(float(a) - float(b)) - 10.0**-digits
        largest = max(largest, off / max(abs(float(b)), 1e-9))
    return largest


def stored() -> dict[str, str]:
    """PyTorch's output by script, from the file."""
    return json.loads(FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    FILE.write_text(json.dumps(outputs(), indent=1) + "\n", encoding="utf-8")
