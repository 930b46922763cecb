"""Type-check the example programs with tdt in place of torch: exit 1 if mypy or pyright reports an error."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMPORTS = [  # (an import of PyTorch, the same of tdt)
    (r"^import torch$", "import tdt as torch"),
    (r"^import torch\.(\S+) as ", r"import tdt.\1 as "),
    (r"^import torch\.(\S+)$", r"import tdt.\1"),
    (r"^from torch\b", "from tdt"),
]
COMMANDS = {
    "mypy": [
        sys.executable,
        "-m",
        "mypy",
        "--no-error-summary",
        "--no-warn-unused-configs",
        "--cache-dir",
        str(ROOT / ".mypy_cache"),
    ],
    "pyright": ["pyright", "--pythonpath", sys.executable, "--project"],
}


def check(checker: str, folder: Path) -> int:
    """The exit code of the checker for the copied examples."""
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    return subprocess.run([*COMMANDS[checker], str(folder)], cwd=folder, env=environment).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkers", nargs="*", metavar="CHECKER", help="mypy or pyright; default: mypy")
    checkers = parser.parse_args().checkers or ["mypy"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in sorted((ROOT / "examples" / "torch_scripts").glob("*.py")):
            text = path.read_text(encoding="utf-8")
            for torch, tdt in IMPORTS:
                text = re.sub(torch, tdt, text, flags=re.MULTILINE)
            (folder / path.name).write_text(text, encoding="utf-8")
        settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        (folder / "pyproject.toml").write_text(
            f'{settings}\n[tool.pyright]\nextraPaths = ["{ROOT}"]\n', encoding="utf-8"
        )
        return max(check(checker, folder) for checker in checkers)


if __name__ == "__main__":
    sys.exit(main())
