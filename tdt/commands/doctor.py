"""`tdt doctor`: whether all that tdt needs is there and works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tdt.commands._options import Json, Root, Traceback

if TYPE_CHECKING:
    from tdt.train.checkup import Finding

EXAMPLE = "Examples:  tdt doctor  |  tdt doctor --json"
MARKS = {"ok": "", "note": "note", "broken": "BROKEN"}


def doctor(
    json: Json = False,
    runs_root: Root = Path("runs"),
    traceback: Traceback = False,
) -> int:
    """Look at versions, processor, kernels, GPU, folders and extras; exits with 1 if something is broken."""
    from tdt.train.checkup import checkup

    findings = checkup(runs_root)
    broken = [finding for finding in findings if finding.state == "broken"]
    if json:
        from dataclasses import asdict
        from json import dumps

        print(dumps({"broken": len(broken), "findings": [asdict(finding) for finding in findings]}))
    else:
        _show(findings)
        print(f"\n{len(broken)} broken" if broken else "\nall that is needed works")
    return 1 if broken else 0


def _show(findings: list[Finding]) -> None:
    from tdt.commands._tables import text

    rows = [(finding.what, MARKS[finding.state], finding.said) for finding in findings]
    print(text(("", "", ""), rows).lstrip("\n"))
