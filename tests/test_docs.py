"""The user guide: every config in it loads, every command runs, the reference is that of the models."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import tdt
from tdt.cli import run
from tdt.train.config import bundled, imports, loads, registry
from tdt.train.loop.build import build
from tests.commands.running import python
from tests.disk import unflushed  # noqa: F401 - a fixture of all tests here
from tests.docstrings import ROOMS

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide"
PAGES = [ROOT / "docs" / "index.md", *sorted(GUIDE.glob("*.md"))]
BUILT = runpy.run_path(str(ROOT / "scripts" / "site" / "pages.py"))["PAGES"]  # when the site is built
MARK = "<!-- output: scripts/make_transcripts -->"
HOOK = runpy.run_path(str(ROOT / "scripts" / "site" / "reference.py"))
BASE = yaml.safe_load((ROOT / "configs" / "digits-mlp.yaml").read_text(encoding="utf-8"))


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def write_files(page: Path, folder: Path) -> None:
    """The blocks of a page that have a title, as files; a search is of one trial (scripts/make_transcripts has them all)."""
    for name, text in re.findall(r'^```\w+ title="([\w.]+)"\n(.*?)^```', page.read_text(encoding="utf-8"), re.M | re.S):
        (folder / name).write_text(re.sub(r"\btrials: \d+", "trials: 1", text), encoding="utf-8")


CONFIGS = [
    pytest.param(page, text, id=f"{page.stem}-{n}")
    for page in [*PAGES, ROOT / "README.md"]
    for n, text in enumerate(blocks(page, "yaml"))
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
    console = "".join(blocks(page, "console"))
    for program, command in re.findall(r"^\$ (tdt|python) (.*)$", console, re.M):
        if program == "tdt":
            code = run(shlex.split(command))
            assert code == (2 if "lrr" in command else 0), (command, capfd.readouterr())
        else:
            folder = tmp_path if (tmp_path / command).exists() else ROOT
            subprocess.run([sys.executable, *command.split()], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if MARK in page.read_text("utf-8")], ids=lambda page: page.stem
)
def test_every_command_of_a_tutorial_has_its_output(page):
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            assert part.startswith("python") or len(part.strip().splitlines()) > 1, part


def test_the_install_page_has_the_commands_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in blocks(GUIDE / "install.md", "bash"):
        assert command.strip() in readme


def test_every_command_of_the_comparison_runs(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    page = GUIDE / "comparison.md"
    write_files(page, tmp_path)
    rows = re.findall(r"^\| ([^|-][^|]*) \|(.*)\|$", page.read_text(encoding="utf-8"), re.M)
    assert len(rows) > 20
    for title, rest in rows:
        ours, *others = cells = [cell.strip() for cell in rest.split("|")]
        assert len(others) == 4, title
        assert all(re.match("(has|partly|lacks)\\b", cell) for cell in cells), title
        command, shown = re.search("`tdt (.+)`", ours), re.search(r"\]\(\w+\.md#[\w-]+\)", ours)
        assert bool(command or shown) == (ours.startswith("has")) or ours.startswith("partly"), title
        assert command is None or run(shlex.split(command[1])) == 0, (title, capfd.readouterr())


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem)
def test_every_program_runs(page, tmp_path):
    for program in blocks(page, "python"):
        done = python(program, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_the_reference_is_that_of_the_models():
    script = f"import runpy; runpy.run_path({str(ROOT / 'scripts' / 'make_config_doc')!r}, run_name='__main__')"
    assert python(script, "--check", cwd=ROOT).returncode == 0


def test_the_site_has_every_page_and_links_that_lead_somewhere():
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    built = {ROOT / "docs" / path for path in BUILT}
    assert {ROOT / "docs" / path for path in listed} == {*PAGES, *(ROOT / "docs").glob("*.md"), *built}
    built |= {ROOT / "docs" / HOOK["path"](namespace) for namespace in HOOK["NAMESPACES"]}
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (
                target.startswith("http")
                or Path(os.path.normpath(page.parent / target)) in built
                or (page.parent / target).exists()
            ), f"{page.name}: {target}"


# Public modules without a page: the trainer and the command line are what the guide is about, the others are empty or hold
# what programs written for PyTorch look up.
WITHOUT_PAGE = {
    "tdt.accelerator", "tdt.as_torch", "tdt.backends", "tdt.cli", "tdt.commands", "tdt.compat", "tdt.compiler",
    "tdt.functional", "tdt.signal", "tdt.storage", "tdt.text", "tdt.train", "tdt.types", "tdt.utils", "tdt.version",
    "tdt.vision",
}  # fmt: skip


def test_every_public_namespace_has_a_page_of_the_reference():
    modules = {f"tdt.{module.name}" for module in pkgutil.iter_modules(tdt.__path__) if module.name[0] != "_"}
    modules |= {module for room, modules in ROOMS.items() for module in modules} - {"tdt.nn.utils.stateless"}
    assert modules - WITHOUT_PAGE <= {*HOOK["NAMESPACES"]}


@pytest.mark.parametrize("namespace", HOOK["NAMESPACES"])
def test_every_directive_of_the_reference_names_an_object(namespace: str):
    directives = re.findall(r"^::: (\S+)$", HOOK["page"](namespace), re.M)
    assert directives
    for directive in directives:
        home, _, name = directive.rpartition(".")
        assert hasattr(importlib.import_module(home), name), directive


def test_docstrings_become_sections_that_griffe_reads():
    google_style = runpy.run_path(str(ROOT / "scripts" / "site" / "sections.py"))["google_style"]
    text = "Summary.\n\nArgs:\n    a, b: numbers.\nShape: x (*); result ().\nRaises:\n    ValueError: when a < b."
    assert google_style(text) == (
        "Summary.\n\n\nArgs:\n    a: See `b`.\n    b: numbers.\n\nShape:\n    x (\\*); result ().\n\nRaises:\n"
        "    ValueError: when a < b."
    )


def test_examples_of_docstrings_become_code():
    google_style = runpy.run_path(str(ROOT / "scripts" / "site" / "sections.py"))["google_style"]
    text = "Head: x[i][j], `x[i][j]`.\n\n>>> import tdt\n>>> [tdt.Size([2])][0]\ntdt.Size([2])\n\nEnd."
    assert google_style(text) == (
        "Head: x[i]\\[j], `x[i][j]`.\n\n```pycon\n>>> import tdt\n>>> [tdt.Size([2])][0]\ntdt.Size([2])\n```\n\nEnd."
    )


def test_arguments_that_are_another_classs_become_a_sentence():
    google_style = runpy.run_path(str(ROOT / "scripts" / "site" / "sections.py"))["google_style"]
    assert google_style("Head.\n\nArgs: those of Net, and\n    size: pixels.\nShape: x.") == (
        "Head.\n\n\nArguments: those of Net, and\n\nArgs:\n    size: pixels.\n\nShape:\n    x."
    )
    assert google_style("Head.\n\nArgs: those of Net.\nShape: x.") == (
        "Head.\n\n\nArguments: those of Net.\n\nShape:\n    x."
    )


def test_the_architecture_page_names_files_and_functions_that_are_there():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| `(tdt/[^`]+)` \| `(\w+)` \|$", page, re.MULTILINE)
    assert len(rows) >= 30
    for file, name in rows:
        text = (ROOT / file).read_text()
        assert re.search(rf"^\s*(def|class) {name}\b|^{name}\b.* = ", text, re.MULTILINE), f"{file} defines no {name}"
    files = {file.rstrip("/") for file in re.findall(r"`(tdt/[\w/.]+)`", page)}
    assert not [file for file in files if not (ROOT / file).exists()]


def test_each_topic_of_the_core_in_the_architecture_page_names_its_file():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    core = page.partition("\n## The core\n")[2].partition("\n## ")[0]
    topics = re.findall(r"^\*\*.*?(?=\n\n|\Z)", core, re.MULTILINE | re.DOTALL)
    assert len(topics) >= 14
    assert not [topic for topic in topics if not re.search(r"`(\w+/)+\w+(\.py|`)|`as_torch`|`serialization\.", topic)]


def test_the_answers_to_the_reading_questions_name_files_and_functions_that_are_there():
    questions = tomllib.loads((ROOT / "tests" / "reading" / "questions.toml").read_text(encoding="utf-8"))
    hops = [question["hops_after"] for question in questions["question"]]
    assert questions["mean_after"] == sum(hops) / len(hops)
    for question in questions["question"]:
        for file, names in re.findall(r"(tdt/[\w/]+\.py): ([^;]*)", question["answer_after"]):
            text = (ROOT / file).read_text(encoding="utf-8")
            for name in re.findall(r"(?:^|[ ,.])(_?[a-z]+_\w+|_[a-z]+)\b(?! \w)", re.sub(r"\(.*?\)", "", names)):
                assert re.search(rf"\b{name}\b", text), f"{file} has no {name}"


def test_contributing_names_files_that_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`(?:python )?((?:tdt|tests|scripts|docs|configs)/[\w/.]+)`", text))
    assert len(paths) > 20
    assert not [path for path in paths - {"tdt/commands/NAME.py"} if not (ROOT / path).exists()]


def test_files_and_names_in_the_architecture_page_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = [ROOT, ROOT / "tdt", ROOT / "tdt" / "train"]
    files = set(re.findall(r"`([\w/]+\.py)`", text))
    assert len(files) > 20
    assert not [file for file in files if not any((folder / file).is_file() for folder in folders)]
    known = {
        word for path in (ROOT / "tdt").rglob("*.py") for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    }
    names = {part for name in re.findall(r"`([A-Za-z_][\w.]*)`", text) for part in name.split(".")} - {"py"}
    assert len(names) > 100
    assert not names - known


@pytest.mark.parametrize("script", ["make_transcripts", "measure_gallery", "measure_speed"])
def test_scripts_that_write_documents_answer_help_and_write_nothing(script):
    files = [*(ROOT / "docs" / "measured").iterdir(), *GUIDE.glob("*.md")]
    before = [(file.stat().st_mtime_ns, file.read_bytes()) for file in files]
    command = [sys.executable, str(ROOT / "scripts" / script), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and f"usage: {script}" in done.stdout, done.stderr
    assert [(file.stat().st_mtime_ns, file.read_bytes()) for file in files] == before


def test_the_gallery_has_a_score_or_the_size_of_the_download():
    measured = json.loads((ROOT / "docs" / "measured" / "gallery.json").read_text(encoding="utf-8"))["configs"]
    assert set(measured) == set(bundled())
    for name, found in measured.items():
        row = next(line for line in BUILT["gallery.md"]().splitlines() if line.startswith(f"| [`{name}`]"))
        data = registry.datasets.find(found["data"])
        if hasattr(data, "download_size"):
            assert f"needs a download of {data.download_size / 1e6:,.0f} MB from" in row
            assert "test" not in found and "valid" not in found
        else:
            assert found["processor_seconds"] > 0 and re.search(r"\| (test|valid) loss [\d.]+", row), row


def test_every_picture_is_on_a_page_and_every_link_to_one_has_its_file():
    pages = [*PAGES, ROOT / "README.md", ROOT / "docs" / "architecture.md"]
    shown = {
        (page.parent / link).resolve()
        for page in pages
        for link in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text("utf-8"))
    }
    pictures = {file.resolve() for file in (ROOT / "docs").rglob("*.*") if file.suffix in (".png", ".svg")}
    assert shown == pictures
