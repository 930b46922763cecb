"""Scripts whose forked children compute what their parent did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHILDREN = """
import os, sys
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        try:
            child()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
"""


def check_children(script: str, after: str = "") -> None:
    """Run a script that defines `child`, which forked children call; then `after`. No child may raise or hang."""
    code = f"{script}{CHILDREN}{after}\nsys.exit(any(codes))"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
