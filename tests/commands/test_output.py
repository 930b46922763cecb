"""All output goes through one gate: no control characters, no endless lines, no formulas in CSVs, no prints past it."""

from __future__ import annotations

import ast
import io
import json
from pathlib import Path

import pytest

from tdt.cli import run
from tdt.commands._output import one_line, print_lines
from tdt.commands._predictions import delimited
from tdt.commands._tables import display_width, text
from tdt.train import _printable
from tdt.train.logging.events import MetricsLog, RunStopped
from tdt.train.model.predictions import Prediction

ROOT = Path(__file__).parents[2] / "tdt"
HOSTILE = "a\x1b[2J\x9b31m\r\u202e\u2066\x07\x00b"


def output_calls(path: Path) -> list[str]:
    """The calls in a file that write to the terminal."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            prints = name in ("print", "typer.echo", "typer.secho", "click.echo", "echo", "pprint") or name.endswith(
                ("stdout.write", "stderr.write", "onsole.print", "console.log", "traceback.print_exc")
            )
            gated = (
                node.args
                and isinstance(node.args[0], ast.Call)
                and ast.unparse(node.args[0].func) in ("message", "_escaped")
            )
            if prints and not gated:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {name}")
    return found


def test_nothing_is_printed_past_the_gate():
    files = [ROOT / "cli.py", *(ROOT / "commands").rglob("*.py"), *(ROOT / "train").rglob("*.py")]
    found = [call for path in files for call in output_calls(path)]
    assert [call.partition(":")[0] for call in found] == ["commands/_output.py"], found


def test_control_characters_are_spelt_out_and_lines_cut(capsys: pytest.CaptureFixture[str]):
    print_lines(HOSTILE, "x" * 5000)
    first, second = capsys.readouterr().out.splitlines()
    assert first == r"a\x1b[2J\x9b31m\r\u202e\u2066\x07\x00b" and first.isprintable()
    assert len(second) == 2000 and "3,0" in second
    assert one_line("a\nb") == "a\\nb"
    assert HOSTILE not in text(("name",), [(HOSTILE,), ("y" * 900,)])
    assert max(map(len, text(("name",), [("y" * 900,)]).splitlines())) <= 200


def test_hostile_names_in_configs_and_overrides_do_not_reach_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    file = tmp_path / "c.yaml"
    file.write_text(
        '"\\e[31mkey\\u202e": 1\nname: "\\e[2J"\nmodel: ["\\x9bLinear"]\noptimizer: {type: SGD, "\\rlr": 1}\n'
    )
    for arguments in (
        ["check", str(file)],
        ["check", "digits-mlp", "x\x1b[2J=1"],
        ["check", "no\x1b[2Jfile"],
        ["runs\x1b"],
    ):
        assert run(arguments) == 2
        stderr = capfd.readouterr().err
        assert stderr and all(line.isprintable() and len(line) <= 2000 for line in stderr.splitlines())


def test_a_value_from_the_environment_is_hidden_in_all_output(capsys: pytest.CaptureFixture[str], monkeypatch):
    monkeypatch.setattr(_printable, "_hidden", {})
    _printable.hide("correct horse battery", "${env:KEY}")
    print_lines("cannot open /correct horse battery/x", "cut: 'correct hor ...'")
    assert capsys.readouterr().out == "cannot open /${env:KEY}/x\ncut: '${env:KEY} ...'\n"


def test_a_value_from_the_environment_is_in_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_printable, "_hidden", {})
    _printable.hide("correct horse battery", "${env:KEY}")
    log = MetricsLog(tmp_path)
    log(RunStopped(step=1, epoch=0, reason="failed", by="cannot open /correct horse battery/x"))
    log.close()
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["by"] == "cannot open /${env:KEY}/x"


@pytest.mark.parametrize(
    ("cell", "written"),
    [("cat", "cat"), ("-0.5", "-0.5"), ("1e-05", "1e-05"), ("nan", "nan"), ("-inf", "-inf"), ("+3", "+3"), ("=1+1", "'=1+1"),
     ("@SUM(A1)", "'@SUM(A1)"), ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"), ("-2+3", "'-2+3"), ("\t=1", "'\t=1"),
     ("\r=1", "'\r=1")],
)  # fmt: skip
def test_text_in_a_csv_of_predictions_is_no_formula(cell: str, written: str):
    file = io.BytesIO()
    with delimited(file, ",", 1, ()) as write:
        write(Prediction(cell))
    assert file.getvalue().decode() == f"input\n{written}\n"


ROWS = [("model.features.conv1", "Conv2d(1, 32, 3)", "320", "8,192"), ("model.日本", "ReLU", "0", "16")]


@pytest.mark.parametrize("width", [30, 45, 60, 200])
def test_a_table_is_no_wider_than_the_terminal_and_cuts_no_number(width: int, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    lines = text(("layer", "what", "n", "bytes"), ROWS, right=(2, 3), fit=True, drop=(3,)).splitlines()
    assert all(display_width(line) <= width for line in lines)
    assert all("320" in line for line in lines[1:2]) and ("8,192" in lines[1]) == (width >= 45)
    assert ("…" in "".join(lines)) == (width < 60)
    assert lines[1].split()[0].endswith("conv1")  # the end of a path tells more than its beginning
    whole = text(("layer", "what", "n", "bytes"), ROWS, right=(2, 3))
    assert "Conv2d(1, 32, 3)" in whole and "…" not in whole


def test_a_table_in_a_file_is_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    assert "…" not in text(("layer", "what", "n", "bytes"), ROWS, fit=True)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_of_many_columns_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int):
    monkeypatch.setattr("tdt.commands._tables.terminal_width", lambda: width)
    names = [f"digits-mlp/{number}" for number in range(1, 7)]
    rows = [("optimizer.weight_decay", *(f"{number / 7:.6f}" for number in range(6))), ("seed", *"123456")]
    head, *others = lines = text(("setting", *names), rows, fit=True).splitlines()
    assert len(lines) == 3 and all(len(line) <= width for line in lines)
    assert [name[-1] for name in head.split()[1:]] == list("123456")  # what tells runs apart is kept
    assert others[-1].split()[1:] == list("123456")
