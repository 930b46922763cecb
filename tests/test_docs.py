"""The user guide: every config in it loads, every command runs, the reference is that of the models."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tdt.cli import run
from tdt.train.config import imports, loads
from tdt.train.loop.build import build

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide"
PAGES = sorted(GUIDE.glob("*.md"))
BASE = yaml.safe_load((ROOT / "configs" / "digits-mlp.yaml").read_text(encoding="utf-8"))


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def write_files(page: Path, folder: Path) -> None:
    """The blocks of a page that have a title, as files."""
    for name, text in re.findall(r'^```\w+ title="([\w.]+)"\n(.*?)^```', page.read_text(encoding="utf-8"), re.M | re.S):
        (folder / name).write_text(text, encoding="utf-8")


CONFIGS = [
    pytest.param(page, text, id=f"{page.stem}-{n}") for page in PAGES for n, text in enumerate(blocks(page, "yaml"))
]


@pytest.mark.parametrize(("page", "text"), CONFIGS)
def test_every_config_loads(page, text, monkeypatch):
    monkeypatch.setenv("SEED", "3")
    part = yaml.safe_load(text)
    # A piece of a config stands beside the rest of a bundled one; what it says wins.
    rest = {} if "optimizer" in part and "data" in part else {k: v for k, v in BASE.items() if k not in part}
    written = yaml.safe_dump(rest, sort_keys=False) + text if rest else text
    config = loads(written, file=page.name)
    assert config.train.epochs or config.train.steps
    if page.stem == "configs":
        assert build(config, splits=()).rows


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")], ids=lambda page: page.stem)
def test_every_command_runs(page, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(imports, "_allowed", False)
    write_files(page, tmp_path)
    said = "".join(blocks(page, "console"))
    for command in re.findall(r"^\$ tdt (.*)$", said, re.M):
        assert run(shlex.split(command)) == 0, (command, capfd.readouterr())
    for command in re.findall(r"^\$ python (.*)$", said, re.M):
        subprocess.run([sys.executable, *command.split()], cwd=ROOT, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem)
def test_every_program_runs(page, tmp_path):
    for program in blocks(page, "python"):
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, timeout=60)


def test_the_reference_is_that_of_the_models():
    assert subprocess.run([sys.executable, str(ROOT / "scripts" / "make_config_doc"), "--check"]).returncode == 0


def test_the_site_has_every_page_and_links_that_lead_somewhere():
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert {ROOT / "docs" / path for path in listed} == {*PAGES, *(ROOT / "docs").glob("*.md")}
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_architecture_page_names_files_and_functions_that_are_there():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| `(tdt/[^`]+)` \| `(\w+)` \|$", page, re.MULTILINE)
    assert len(rows) >= 30
    for file, name in rows:
        text = (ROOT / file).read_text()
        assert re.search(rf"^\s*(def|class) {name}\b|^{name}\b.* = ", text, re.MULTILINE), f"{file} defines no {name}"
    files = {file.rstrip("/") for file in re.findall(r"`(tdt/[\w/.]+)`", page)}
    assert not [file for file in files if not (ROOT / file).exists()]
