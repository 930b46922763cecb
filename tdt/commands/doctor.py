"""`tdt doctor`: check the installation."""

from __future__ import annotations

from pathlib import Path

from tdt.commands._help import examples
from tdt.commands._options import Json, Root, Traceback
from tdt.commands._output import print_lines
from tdt.commands._tables import print_json, text

EXAMPLE = examples("tdt doctor", "tdt doctor --json")
MARKS = {"ok": "", "note": "note", "broken": "BROKEN"}


def doctor(
    json: Json = False,
    runs_root: Root = Path("runs"),
    traceback: Traceback = False,
) -> int:
    """Check versions, processor, kernels, GPU, folders and extras; exits with 1 if something is broken."""
    from tdt.train.checks.checkup import checkup

    findings = checkup(runs_root)
    broken = [finding for finding in findings if finding.state == "broken"]
    if json:
        found = {
            "broken": len(broken),
            "findings": [{"what": one.what, "state": one.state, "said": one.message} for one in findings],
        }
        return print_json(found, 1 if broken else 0)
    rows = [(finding.what, MARKS[finding.state], finding.message) for finding in findings]
    print_lines(text(("", "", ""), rows).lstrip("\n"))
    print_lines(f"\n{len(broken)} broken" if broken else "\neverything required works")
    return 1 if broken else 0
