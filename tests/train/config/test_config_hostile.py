"""Configs that are large, endless, secret or odd: answered in little time and memory, with a place."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tdt.train.config import ConfigError, load, loads
from tdt.train.data.datasets import NPZ, Table, Text
from tdt.train.loop.build import build

BASE = """\
data: {train: Digits(split=train), transform: [ToTensor]}
model: [Flatten, "Linear(64, 10)"]
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {epochs: 1}
"""


def problems(text: str, *overrides: str, dry_run: bool = True):
    with pytest.raises(ConfigError) as caught:
        build(loads(text, "c.yaml", overrides), splits=(), dry_run=dry_run)
    return caught.value.problems


def with_model(model: str) -> str:
    return BASE.replace('[Flatten, "Linear(64, 10)"]', model)


MANY = range(3000)
BOMBS = {
    "repetitions": (with_model("Repeat(1000000000, ReLU)"), "more than 20,000 modules"),
    "nested repetitions": (with_model("Repeat(1000, [Repeat(1000, [Repeat(1000, ReLU)])])"), "more than 20,000 modules"),
    "recurrent layers": (with_model("LSTM(8, 8, num_layers=1000000000)"), "more than 20,000 modules"),
    "texts of references": (BASE + "".join(f"k{i}: ${{k{i + 1}}}${{k{i + 1}}}\n" for i in range(60)) + "k60: x\n",
                            "references expand to more than"),
    "lists of references": (BASE + "".join(f'k{i}: ["${{k{i + 1}}}", "${{k{i + 1}}}"]\n' for i in range(60)) + "k60: x\n",
                            "references expand to more than"),
    "references to references": (BASE + "".join(f"k{i}: ${{k{i + 1}}}\n" for i in range(60)) + "k60: x\n", "leads through"),
    "references to a missing one": (BASE + "".join(f"k{i}: ${{k{i + 1}}}${{k{i + 1}}}\n" for i in range(400) if i != 12),
                                    "the config has no k12"),
    "unknown keys": (BASE + "".join(f"key{i}: {i}\n" for i in MANY), "the search ends here"),
    "unknown arguments": (BASE.replace("SGD(lr=0.1)", "\n  type: SGD\n" + "".join(f"  key{i}: 1\n" for i in MANY)),
                          "the search ends here"),
    "values": (BASE + "log: [" + "1, " * 30_000 + "]\n", "more than 20,000 keys and values"),
    "a giant text": (BASE + f"name: {'x' * 200_000}\n", "expected a folder name"),
    "a cut list of many items": (BASE + "log: {" + ", ".join(f"a{i}: 1" for i in range(9000)) + "}\n", "unknown key"),
}  # fmt: skip


@pytest.mark.parametrize("case", BOMBS)
def test_a_bomb_is_refused_soon_in_short_lines_with_places(case: str):
    text, expected = BOMBS[case]
    began = time.process_time()
    found = problems(text)
    assert time.process_time() - began < 5
    assert any(expected in problem.message for problem in found)
    assert all(problem.source.line and len(str(problem)) <= 2000 for problem in found)


def test_a_dry_run_needs_no_memory_for_weights():
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, limit[1]))  # the weights alone would be 80 GB
    try:
        model = (
            '[Flatten, "Linear(64, 1000000)", ReLU, "BatchNorm1d(1000000)", "LazyLinear(20000)", "Linear(20000, 10)"]'
        )
        parts = build(loads(with_model(model)), splits=(), dry_run=True)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    assert sum(p.numel() for p in parts.model.parameters()) > 20_000_000_000


@pytest.mark.parametrize("node", ["Linear(64, 10", "*x", "Linear(64, # 10)"])
def test_a_node_that_cannot_be_read_is_reported_where_outputs_name_it(node: str):
    found = problems(with_model(f"\n  graph:\n    a: Flatten\n    b: {node}\n    c: Linear(64, 10)\n  outputs: [b, c]"))
    assert [(problem.source.line, problem.key) for problem in found] == [(5, "model.graph.b")]


@pytest.mark.parametrize(
    "text", ["&a [*a]\n", "a: &a\n  - *a\n", "a: &a {b: *a}\n", "? *a\n: &a x\n", "[1]\n", "x\n", "- a\n"]
)
def test_an_alias_to_itself_and_a_top_that_is_no_mapping_have_a_place(text: str):
    assert all(problem.source.line and problem.source.column for problem in problems(text))


@pytest.mark.parametrize(
    ("child", "place"),
    [
        ("optimizer: {lr: -1}", "2:17"),
        ("optimizer: {momentum: -3}", "2:23"),
        ("scheduler: {step_size: 0}", "2:24"),
        ("model:\n  drop: {p: 1.5}", "3:13"),
        ("model:\n  out: {in_features: 65}", "3:22"),
        ("model:\n  out: {in_features: -5}", "3:22"),
        ("train: {epochs: 0}", "2:17"),
    ],
)
def test_a_bad_value_of_a_config_that_extends_another_is_its_own(child: str, place: str, tmp_path: Path):
    base = with_model("\n  flat: Flatten\n  drop: Dropout(0.5)\n  out: Linear(64, 10)") + "scheduler: StepLR(3)\n"
    (tmp_path / "base.yaml").write_text(base)
    (tmp_path / "child.yaml").write_text(f"extends: base.yaml\n{child}\n")
    with pytest.raises(ConfigError) as caught:
        build(load(tmp_path / "child.yaml"), splits=())
    assert [str(problem.source) for problem in caught.value.problems] == [f"{tmp_path / 'child.yaml'}:{place}"]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("optimizer.lr", "hunter2-is-secret"),
        ("optimizer.lr", "-12345.5"),
        ("train.epochs", "-12345"),
        ("model.1", "Linear(64, hunter2)"),
        ("loss", "hunter2" * 40),
        ("data.train.split", "hunter2"),
        ("data.train", "Table(path=/no/hunter2.csv, target=x)"),
        ("device", "hunter2"),
        ("log.every", "hunter2 steps"),
    ],
)
def test_a_value_from_the_environment_is_not_shown(where: str, value: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TDT_SECRET", value)
    found = problems(BASE, f"{where}=${{env:TDT_SECRET}}")
    shown = "\n".join(f"{problem} {problem.message} {problem.suggestion}" for problem in found)
    assert "${env:TDT_SECRET}" in shown
    assert "hunter2" not in shown and "12345" not in shown


@pytest.fixture(params=["pipe", "device", "socket"])
def special_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    import socket

    path = tmp_path / "odd.yaml"
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as unix_socket:
            unix_socket.bind(str(path))
    return path


def test_special_files_are_refused_at_once(special_file: Path):
    for name, text in (("child.yaml", f"extends: {special_file}\n"), ("odd.yaml", None)):
        if text is not None:
            (special_file.parent / name).write_text(text)
        with pytest.raises(ConfigError, match=r":1:1: is not a regular file"):
            load(special_file.parent / name)
    for kind in (Text, NPZ, lambda path: Table(path, target="y")):
        with pytest.raises(OSError, match="is not a regular file"):
            kind(special_file)


def test_folders_that_link_to_each_other_are_read_once(tmp_path: Path):
    from PIL import Image

    from tdt.vision.datasets import ImageFolder

    for name in ("cat", "dog"):
        (tmp_path / name / "more").mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(tmp_path / name / "1.png")
        for link in range(6):
            (tmp_path / name / "more" / f"up{link}").symlink_to(tmp_path / name)
    os.mkfifo(tmp_path / "cat" / "pipe.png")
    assert len(ImageFolder(tmp_path)) == 2


def test_a_picture_that_unpacks_to_too_much_is_named_by_init(tmp_path: Path):
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        head = chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))
        (tmp_path / name / "1.png").write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", b"") + chunk(b"IEND", b""))
    completed = subprocess.run(
        [sys.executable, "-m", "tdt", "init", str(tmp_path), str(tmp_path / "new.yaml")], capture_output=True, text=True
    )
    assert completed.returncode == 2 and "1.png" in completed.stderr and "Traceback" not in completed.stderr
