"""Count what mypy and pyright catch of `planted_mistakes.py`, and which lines of `reveals.py` they get right."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MARKED = re.compile(r"  # mistake(?: \(type only\))?: ")
REVEAL = re.compile(r"^\s+reveal_type\(.*\)  # (.*)$", re.MULTILINE)
REVEALED = re.compile(r'(?:Revealed type is|Type of ".*" is) "(.*)"', re.DOTALL)


def messages(checker: str, path: Path) -> list[tuple[int, str, str]]:
    """(line, severity, message) for everything that the checker says of the file itself."""
    command = {
        "mypy": [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-codes", str(path)],
        "pyright": ["pyright", "--pythonpath", sys.executable, "--outputjson", str(path)],
    }[checker]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent.parent)
    if not done.stdout:
        sys.exit(f"{checker} did not run: {done.stderr}")
    if checker == "mypy":
        found = re.findall(rf"^\S*{path.name}:(\d+): (error|note): (.*)$", done.stdout, re.MULTILINE)
        return [(int(line), kind, text) for line, kind, text in found]
    items = json.loads(done.stdout)["generalDiagnostics"]
    return [(item["range"]["start"]["line"] + 1, item["severity"], item["message"]) for item in items]


def plain(shown: str) -> str:
    """A type without module names, `Union` as `|`, the members of a union at the top in alphabetical order."""
    shown = re.sub(r"\b\w+\.", "", shown.replace("builtins.", "")).replace("?", "").replace("*", "")
    shown = shown.replace("Tuple[", "tuple[").replace("List[", "list[")
    if match := re.fullmatch(r"Union\[(.*)\]", shown):
        shown = match[1].replace(", ", " | ")
    return shown if "[" in shown else " | ".join(sorted(shown.split(" | ")))


def count(checker: str, verbose: bool) -> tuple[int, int, int]:
    """Print the counts of a checker; the mistakes that it catches, its errors on other lines, and the wrong types."""
    path = HERE / "planted_mistakes.py"
    marked = {n for n, line in enumerate(path.read_text().splitlines(), 1) if MARKED.search(line)}
    wrong = {line for line, kind, _ in messages(checker, path) if kind == "error"}
    path = HERE / "reveals.py"
    text = path.read_text()
    expected = {1 + text.count("\n", 0, m.start(1)): m[1].split(" or ") for m in REVEAL.finditer(text)}
    reported = messages(checker, path)
    shown = {line: plain(match[1]) for line, _, message in reported if (match := REVEALED.search(message))}
    right = [n for n, types in expected.items() if shown.get(n) in [*types, *map(plain, types)]]
    errors = {line for line, kind, _ in reported if kind == "error"}
    print(f"{checker}: {len(marked & wrong)} of {len(marked)} mistakes caught, {len(wrong - marked)} errors on other lines; "
          f"{len(right)} of {len(expected)} revealed types right, {len(errors)} errors beside them")  # fmt: skip
    if verbose:
        print("  caught:", *sorted(marked & wrong), "\n  not caught:", *sorted(marked - wrong))
        print("  on other lines:", *sorted(wrong - marked), "\n  errors in reveals.py:", *sorted(errors))
        print(
            *(f"  line {n}: {shown.get(n)}, expected {' or '.join(expected[n])}" for n in expected if n not in right),
            sep="\n",
        )
    return len(marked & wrong), len(wrong - marked) + len(errors), len(expected) - len(right)


def within(least: int, caught: int, false: int, wrong: int) -> bool:
    """Whether the counts of a checker pass: enough mistakes caught, no other errors, every revealed type right."""
    return caught >= least and not false and not wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkers", nargs="*", metavar="CHECKER", help="mypy or pyright; both by default")
    parser.add_argument("-v", "--verbose", action="store_true", help="list the lines, and the types that are not right")
    parser.add_argument(
        "--least",
        type=int,
        metavar="N",
        help="exit 1 if fewer are caught, others reported, or a revealed type is wrong",
    )
    options = parser.parse_args()
    counts = [count(name, options.verbose) for name in options.checkers or ("mypy", "pyright")]
    sys.exit(options.least is not None and not all(within(options.least, *counted) for counted in counts))
