"""`tdt runs` reads what runs have left behind, whole or torn, and deletes no run that is at work."""

from __future__ import annotations

import io
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tdt import cli
from tdt.commands._tables import sparkline, text
from tdt.train.config import registry
from tdt.train.runs import history
from tdt.train.runs.run import RunFolder

CONFIG = "name: net\ntrain: {epochs: 3}\ncheckpoint: {best: valid/accuracy}\noptimizer: Adam(lr=%s)\n"


def line(event: str, step: int, epoch: int, **scalars: Any) -> str:
    numbers = {tag.replace("__", "/"): value for tag, value in scalars.items()}
    return json.dumps({"event": event, "step": step, "epoch": epoch, "time/now": 1e9 + step, **numbers}) + "\n"


def make(root: Path, lr: str, accuracies: list[float], name: str = "net", by: str | None = None) -> RunFolder:
    """A run of ten steps an epoch, done by something or killed."""
    with RunFolder.create(root, name, CONFIG % lr) as run:
        pass
    with open(run.folder / "metrics.jsonl", "w") as file:
        for epoch, accuracy in enumerate(accuracies):
            step = 10 * (epoch + 1)
            file.write(line("StepDone", step - 5, epoch, train__loss=1 - accuracy, lr=0.1))
            file.write(line("EpochDone", step, epoch, train_epoch__loss=1 - accuracy))
            file.write(line("Validated", step, epoch, valid__loss=1 - accuracy, valid__accuracy=accuracy))
        if by is not None:
            file.write(line("RunStopped", step, epoch, reason="done", by=by))
    return run


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run that is done, and one that was killed in its third epoch."""
    monkeypatch.chdir(tmp_path)
    make(Path("runs"), "1e-3", [0.5, 0.9, 0.8], by="epochs")
    make(Path("runs"), "1e-2", [0.6, 0.7])
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["runs", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_list_shows_state_epochs_and_best_score(work, capsys):
    code, out, _ = run(capsys)
    head, *rows = [re.split(r"  +", text) for text in out.splitlines()]
    assert code == 0 and head == ["run", "state", "began", "took", "epochs", "best", "step", "by"]
    assert [[*row[:2], *row[3:]] for row in rows] == [
        ["net/1", "done", "25 s", "3/3", "0.9000", "20", "valid/accuracy"],
        ["net/2", "killed", "15 s", "2/3", "0.7000", "20", "valid/accuracy"],
    ]


def test_the_best_run_is_first_with_that_sort_order(work, capsys):
    names = {}
    for tag in ("valid/accuracy", "valid/loss", "train/loss"):
        names[tag] = [one["run"] for one in json.loads(run(capsys, "--by", tag, "--json")[1])["runs"]]
    make(Path("runs"), "1", [0.95], name="other")
    found = json.loads(run(capsys, "list", "--by", "valid/loss", "--json")[1])["runs"]
    assert set(map(tuple, names.values())) == {("net/1", "net/2")}
    assert [one["run"] for one in found] == ["other/1", "net/1", "net/2"]
    assert found[0]["scores"]["valid/loss"]["best"] == pytest.approx(0.05)
    assert [one["run"] for one in json.loads(run(capsys, "list", "oth*", "--json")[1])["runs"]] == ["other/1"]


def test_a_tag_that_no_run_has_gets_the_nearest_one_suggested(work, capsys):
    code, _, err = run(capsys, "--by", "valid/acuracy")
    assert code == 2 and "did you mean 'valid/accuracy'?" in err


def test_a_folder_without_runs_is_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(capsys) == (0, "no runs in runs; to start one: tdt train CONFIG\n", "")
    assert run(capsys, "--json") == (0, '{"runs": []}\n', "")


def test_a_run_is_shown_with_every_number(work, capsys):
    code, out, _ = run(capsys, "show", "net/1")
    assert code == 0 and out.startswith("net/1  done  runs/net/1\nepochs 3/3, steps 30, 25 s\ncommand: ")
    rows = {row[0]: row[1:] for row in (text.split() for text in out.splitlines()) if row}
    assert rows["valid/accuracy"] == ["0.9000", "20", "0.8000", "▁█▆"]
    assert rows["lr"] == ["0.1000", "▁▁▁"]
    found = json.loads(run(capsys, "show", "net/1", "--json")[1])
    assert found["series"]["valid/accuracy"] == [[10, 0.5], [20, 0.9], [30, 0.8]]
    assert found["settings"]["optimizer.lr"] == "0.001" and found["environment"]["versions"]["tdt"]


def test_runs_are_compared_by_score_and_setting(work, capsys):
    code, out, _ = run(capsys, "compare", "net/1", "net/2")
    assert code == 0
    assert re.search(r"^valid/accuracy\n\* net/1 +0\.9000 +20 +0\.8000  ▁█▆\n  net/2 +0\.7000 +20", out, re.M)
    assert "best by valid/accuracy: net/1 (0.9000 at step 20)" in out
    assert re.search(r"^optimizer\.lr  0\.001  0\.01$", out, re.M)
    assert "train.epochs" not in out and "time/now" not in out and "\nlr" not in out
    assert "\nlr" in run(capsys, "compare", "net/1", "net/2", "--all")[1]
    found = json.loads(run(capsys, "compare", "net", "net/1", "--by", "valid/loss", "--json")[1])
    assert (found["by"], found["best"], [one["run"] for one in found["runs"]]) == (
        "valid/loss",
        "net/1",
        ["net/2", "net/1"],
    )
    assert found["settings"] == {"optimizer.lr": ["0.01", "0.001"]}


def test_settings_are_compared(work, capsys):
    (work / "runs/net/2/config.yaml").write_text(CONFIG % "1e-3" + "log: {every: 3 steps}\n")
    assert run(capsys, "diff", "net/1", "net/2")[1].split() == [
        "setting",
        "net/1",
        "net/2",
        "log.every",
        "-",
        "3",
        "steps",
    ]
    assert json.loads(run(capsys, "diff", "net/1", "net/2", "--json")[1])["settings"] == {
        "log.every": [None, "3 steps"]
    }
    assert run(capsys, "diff", "net/1", "net/1")[1] == "no differences\n"
    assert run(capsys, "diff", "net/1")[::2] == (2, "error: tdt runs diff: expected another run to compare net/1 with\n"
                                                    "Try 'tdt runs diff --help'.\n")  # fmt: skip


def test_torn_missing_or_invalid_files_are_ignored(work, capsys):
    log = work / "runs/net/2/metrics.jsonl"
    with log.open("ab") as file:
        file.write(
            b'\xff\n[1]\n{"event": "Validated", "step": "x"}\n{"event": "Old", "step": 30, "what": {}, "up": true}\n'
        )
        file.write(line("Validated", 30, 2, valid__loss="nan", valid__accuracy=0.65).encode())
        file.write(b'{"event": "Validated", "step": 99, "valid/accu')
    for name in ("config.yaml", "env.json"):
        (work / "runs/net/2" / name).write_text("{")
    (work / "runs/net/3/checkpoints").mkdir(parents=True)
    one = history.read(RunFolder("runs/net/2"))
    assert one.series["valid/accuracy"] == [(10, 0.6), (20, 0.7), (30, 0.65)] and one.step == 30
    assert one.best("valid/loss") == (20, pytest.approx(0.3)) and one.unreadable == [7, 8, 9]
    code, out, err = run(capsys, "show", "net/2")
    assert code == 0 and re.search(r"^valid/loss +0\.3000 +20 +nan  █▁$", out, re.M)
    unreadable = "runs/net/2/config.yaml: damaged: its settings cannot be read\n"
    assert err == unreadable + "runs/net/2/metrics.jsonl: damaged, left out: line 7, 8, 9\n"
    assert "no differences" not in run(capsys, "diff", "net/2", "net/2")[1]
    assert run(capsys)[2] == err
    assert run(capsys, "compare", "net/1", "net/2", "net/3")[0] == 0
    assert re.search(r"^net/3  killed +0 s +0", run(capsys)[1], re.M)


def test_a_run_that_is_trained_is_listed_and_stays(work, capsys):
    with RunFolder("runs/net/2").lock():
        assert re.search(r"^net/2  running ", run(capsys)[1], re.M)
        code, _, err = run(capsys, "delete", "net/1", "net/2", "--yes")
        assert code == 2 and "runs/net/2 is being trained by process" in err
    assert (work / "runs/net/1").exists() and (work / "runs/net/2").exists()


def test_runs_are_deleted_when_agreed(work, capsys, monkeypatch):
    for answer, code, left in (("", 1, ["1", "2"]), ("n\n", 1, ["1", "2"]), ("y\n", 0, ["2"])):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        assert run(capsys, "delete", "net/1")[0] == code
        assert [path.name for path in sorted((work / "runs/net").iterdir())] == left
    assert run(capsys, "delete", "runs/net/2", "--yes", "--json") == (
        0,
        '{"deleted": ["runs/net/2"]}\n',
        "runs/net/2  0.0 MiB\ndeleted 1 run\n",
    )
    assert not list((work / "runs/net").iterdir())


def test_without_a_terminal_a_deletion_needs_yes(work, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    code, out, err = run(capsys, "delete", "net/1")
    assert (code, out) == (2, "") and "delete 1 run permanently? There is no terminal to answer on: give --yes" in err
    assert (work / "runs/net/1").exists()


def test_a_folder_with_more_than_a_run_is_not_deleted(work, capsys):
    code, _, err = run(capsys, "delete", "net", "--yes")
    assert code == 2 and err.startswith("error: net means the newest run of that name; name one exactly, as net/2")
    (work / "checkpoints").mkdir()
    (work / "mine.txt").touch()
    code, _, err = run(capsys, "delete", ".", "--yes")
    assert code == 2 and "has no config.yaml: it may contain more than a run" in err and (work / "mine.txt").exists()
    (work / "link").symlink_to(work / "runs/net/1")
    assert run(capsys, "delete", "link", "--yes")[0] == 0
    assert (work / "runs/net/1/config.yaml").exists() and not (work / "link").is_symlink()


def test_every_metric_declares_whether_higher_is_better():
    for name in registry.metrics.names():
        assert history.less_is_better(f"valid/{name}") != registry.metrics.find(name).higher_is_better, name


def test_a_long_log_is_read_quickly(work):
    with open("runs/net/1/metrics.jsonl", "w") as file:
        file.writelines(line("StepDone", n, 0, train__loss=0.5, train__accuracy=0.5, lr=0.1) for n in range(50_000))
    began = time.thread_time()
    assert history.read(RunFolder("runs/net/1"), steps=False).step == 49_999
    assert time.thread_time() - began < 0.5  # 0.02 s on an idle core
    assert len(history.read(RunFolder("runs/net/1")).series["train/loss"]) == 50_000


def test_a_table_is_aligned_plain_text_whatever_it_holds():
    rows = [("日本", "1"), ("a\x1b[31m\nb", "22"), ("e\u0301", "3")]
    lines = text(("name", "n"), rows, right=(1,)).splitlines()
    assert lines == ["name" + 11 * " " + "n", "日本" + 11 * " " + "1", "a\\x1b[31m\\nb  22", "e\u0301" + 14 * " " + "3"]


def test_a_table_fits_a_terminal(monkeypatch):
    row = ("conv", "Conv2d(1, 32, kernel_size=(3, 3))", "320")
    whole = text(("layer", "", "parameters"), [row], right=(2,), fit=True)
    assert row[1] in whole
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    fitting = text(("layer", "", "parameters"), [row], right=(2,), fit=True).splitlines()
    assert fitting[1] == "conv   Conv2d(1, 32, kernel…         320" and max(map(len, fitting)) == 40
    monkeypatch.setenv("COLUMNS", "200")
    assert text(("layer", "", "parameters"), [row], right=(2,), fit=True) == whole


def test_a_sparkline_has_a_width_and_gaps(monkeypatch):
    assert sparkline([0.0] * 30 + [1.0] * 30, 0, 1, width=4) == "▁▁██"
    assert sparkline([1, float("inf"), 1], 1, 1) == "▁ ▁"
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert sparkline([0, 1], 0, 1) == "_#"


NOW = b'{"event": "Validated", "step": 30, "epoch": 2, "time/now": %s, "valid/accuracy": %s}\n'
DAMAGED_LOGS = {
    "NaN": NOW % (b"NaN", b"NaN"),
    "infinite": NOW % (b"1e999", b"-1e999"),
    "huge": NOW % (b"1" * 400, b"9" * 400) + NOW % (b"253402300800", b"1" * 5000),
    "counts": NOW.replace(b"30", b"9" * 30) % (b"1", b"1") + NOW.replace(b"30", b"-1") % (b"1", b"1"),
    "no UTF-8": b"\xff\xfe\n" + NOW % (b"1", b"0.5"),
    "giant": b"x" * (3 << 20) + b"\n" + b'{"event": "' + b"y" * (2 << 20) + b'", "step": 1}\n',
    "deep": b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("damage", DAMAGED_LOGS)
def test_a_damaged_log_hides_no_other_run(work, capsys, damage: str):
    (work / "runs/net/2/metrics.jsonl").write_bytes(DAMAGED_LOGS[damage])
    for arguments in ([], ["--by", "valid/accuracy"], ["--json"]):
        code, out, err = run(capsys, *arguments)
        assert code == 0 and "net/1" in out and "net/2" in out and len(err) < 500
    assert "runs/net/2/metrics.jsonl: damaged, left out: line 1" in err
    for arguments in (["show", "net/2"], ["compare", "net/1", "net/2", "--all"], ["diff", "net/1", "net/2"]):
        assert run(capsys, *arguments)[0] == 0


@pytest.mark.parametrize("name", ["metrics.jsonl", "run.lock", "config.yaml"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_a_file_that_is_none_is_named_and_hides_no_other_run(work, capsys, name: str, kind: str):
    path = Path("runs/net/2", name)
    path.unlink()
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "link": lambda: path.symlink_to("/dev/zero")}[kind]()
    code, out, err = run(capsys)
    assert code == 0 and "net/1" in out and "net/2" in out
    assert err.startswith((f"{path}: is ", f"{path}: Is a directory"))
    found = json.loads(run(capsys, "--json")[1])["runs"]
    assert [len(one["faults"]) for one in found] == [0, 1]
    assert run(capsys, "compare", "net/1", "net/2")[0] == 0


def test_a_folder_that_cannot_be_read_hides_no_run(work, capsys, monkeypatch):
    (work / "runs/secret").mkdir()
    listdir = os.listdir

    def refuse(path: Any) -> list[str]:
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", str(path))
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.warns(UserWarning, match="runs/secret: cannot be read: Permission denied"):
        assert "net/1" in run(capsys)[1]


def test_names_that_are_no_text_are_no_traceback(work, capsys):
    os.mkdir(b"runs/\xff")
    os.makedirs(b"runs/net/2/checkpoints/\xff.safetensors")
    for arguments in ([], ["show", "net/2"], ["delete", "net/2", "--yes"]):
        assert run(capsys, *arguments)[0] == 0
    assert not (work / "runs/net/2").exists()


@pytest.mark.parametrize("left", [("run.lock",), ("run.lock", "config.yaml"), ("run.lock", ".config.yaml.7.tmp")])
def test_a_run_that_was_killed_at_its_beginning_can_be_deleted(work, capsys, left: tuple[str, ...]):
    folder = work / "runs/net/3"
    folder.mkdir()
    for name in left:
        (folder / name).touch()
    assert run(capsys, "delete", "net/3", "--yes")[0] == 0
    assert not folder.exists()


def test_a_deletion_that_fails_reports_what_is_left_and_is_continued(work, capsys, monkeypatch):
    unlink = os.unlink

    def refuse(path: Any, **options: Any) -> None:
        if str(path).endswith("env.json"):
            raise PermissionError(1, "Operation not permitted", str(path))
        unlink(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuse)
        code, _, err = run(capsys, "delete", "net/2", "--yes")
        [rest] = (work / "runs/net").glob(".*")
        assert code == 1 and f"the rest of the run is in {rest.relative_to(work)}" in err
        code, out, err = run(capsys)
        assert code == 0 and "net/2" not in out and "env.json: could not be removed: Operation not permitted" in err
    assert run(capsys)[2] == "" and not rest.exists()
    assert [path.name for path in (work / "runs/net").iterdir()] == ["1"]


def test_of_links_in_a_run_the_links_alone_are_deleted(work, capsys):
    outside = work / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_text("mine")
    (outside / "folder" / "file").write_text("mine")
    for name in ("run.lock", "metrics.jsonl"):
        (work / "runs/net/2" / name).unlink()
        (work / "runs/net/2" / name).symlink_to(outside / "file")
    (work / "runs/net/2/checkpoints").symlink_to(outside / "folder")
    assert run(capsys, "delete", "net/2", "--yes")[0] == 0
    assert not (work / "runs/net/2").exists()
    (work / "runs/net/2").symlink_to(work / "runs/net/1")
    assert run(capsys, "delete", "net/2", "--yes") == (0, "", "runs/net/2  a link\ndeleted 1 run\n")
    assert (work / "runs/net/1/config.yaml").exists() and not (work / "runs/net/2").is_symlink()
    assert [path.read_text() for path in (outside / "file", outside / "folder" / "file")] == ["mine", "mine"]


def test_a_list_remembers_what_it_read_and_reads_what_has_changed(work, capsys, monkeypatch):
    read = []
    real = history.read
    monkeypatch.setattr(history, "read", lambda run, **how: read.append(run.name) or real(run, **how))
    first = run(capsys, "list", "--json")[1]
    assert run(capsys, "list", "--json")[1] == first and run(capsys, "list", "net/1")[0] == 0
    assert read == ["net/1", "net/2"]
    with open("runs/net/2/metrics.jsonl", "a") as file:
        file.write(line("Validated", 30, 2, valid__loss=0.1, valid__accuracy=0.99))
    assert json.loads(run(capsys, "list", "--json")[1])["runs"][1]["scores"]["valid/accuracy"]["best"] == 0.99
    assert read == ["net/1", "net/2", "net/2"]


@pytest.mark.parametrize(
    "index",
    ["", "[]", "{}", "\xff", '{"format": 1, "runs": 3}', '{"format": 2, "runs": {}}', "[" * 100_000]
    + [f'{{"format": 1, "runs": {{"net/1": {entry}}}}}' for entry in ("3", "[1]", "[STATE, {}]", "[STATE, null]")],
)
def test_a_damaged_index_is_replaced(work, capsys, index: str):
    expected = run(capsys, "list")[1]
    file = Path("runs/.index.json")
    state = json.dumps(json.loads(file.read_bytes())["runs"]["net/1"][0])
    file.write_text(index.replace("STATE", state), encoding="latin-1")
    assert run(capsys, "list") == (0, expected, "")
    assert set(json.loads(file.read_bytes())["runs"]) == {"net/1", "net/2"}


def test_a_folder_that_cannot_be_written_is_listed_too(work, capsys, monkeypatch):
    from tdt.train.runs import index

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index, "replace_file", full)
    assert run(capsys, "list")[0] == 0 and not Path("runs/.index.json").exists()


def test_a_pruned_trial_is_not_called_interrupted(work, capsys):
    one = make(Path("runs"), "1e-1", [0.1], name="tuned")
    with open(one.folder / "metrics.jsonl", "a") as file:
        file.write(line("RunStopped", 10, 0, reason="interrupted", by="SIGTERM"))
    assert json.loads(run(capsys, "list", "tuned", "--json")[1])["runs"][0]["state"] == "interrupted"
    (one.folder / "pruned").touch()
    assert json.loads(run(capsys, "list", "tuned", "--json")[1])["runs"][0]["state"] == "pruned"
