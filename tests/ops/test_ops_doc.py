"""docs/ops.md is what the op table says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_document_of_the_ops_is_up_to_date():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "make_ops_doc", "--check"], cwd=ROOT, timeout=120)
    assert done.returncode == 0, "run scripts/make_ops_doc"
