"""A release is refused unless version, changelog and tree agree; the changelog has a form that the check can read."""

from __future__ import annotations

import re
import runpy
import subprocess
import tomllib
from datetime import date
from pathlib import Path

import pytest
import yaml

from tdt._about import __version__

ROOT = Path(__file__).parents[1]
RELEASE = runpy.run_path(str(ROOT / "scripts" / "release"))
CHANGELOG = "# Changelog\n\n## 0.2.0 (unreleased)\n\n- Faster.\n\n## 0.1.0 (2026-01-31)\n\n- First.\n"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """A repository whose version 0.2.0 can be released."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")
    (tmp_path / "tdt").mkdir()
    (tmp_path / "tdt" / "_about.py").write_text('__version__ = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    git(tmp_path, "tag", "v0.1.0")
    return tmp_path


def test_a_dry_run_changes_nothing(root, capsys):
    assert RELEASE["main"](["0.2.0", "--dry-run"], root) == 0
    assert f"0.2.0 ({date.today():%Y-%m-%d})" in capsys.readouterr().out
    assert git(root, "tag") == "v0.1.0" and git(root, "status", "--porcelain") == ""
    assert (root / "CHANGELOG.md").read_text() == CHANGELOG


def test_a_release_dates_the_changelog_commits_and_tags(root):
    assert RELEASE["main"]([], root) == 0
    assert f"## 0.2.0 ({date.today():%Y-%m-%d})" in git(root, "show", "v0.2.0:CHANGELOG.md")
    assert RELEASE["main"](["--check-tag", "v0.2.0"], root) == 0
    assert RELEASE["main"](["0.2.0"], root) == 2  # once is enough


@pytest.mark.parametrize(
    ("file", "text", "version", "reason"),
    [
        ("new.txt", "", "0.2.0", "the tree has changes"),
        ("CHANGELOG.md", CHANGELOG.replace("- Faster.", ""), "0.2.0", "no line about 0.2.0"),
        ("CHANGELOG.md", CHANGELOG.replace("0.2.0", "0.3.0"), "0.2.0", "first entry of CHANGELOG.md is 0.3.0"),
        ("CHANGELOG.md", "# Changelog\n", "0.2.0", "has no heading"),
        (None, "", "0.3.0", "tdt/_about.py says 0.2.0, not 0.3.0"),
        (None, "", "0.2", "has the form 1.2.3, got '0.2'"),
    ],
)
def test_a_release_is_refused(root, capsys, file, text, version, reason):
    if file:
        (root / file).write_text(text)
    assert RELEASE["main"]([version, "--dry-run"], root) == 2
    assert reason in capsys.readouterr().err


def test_a_version_below_the_last_tag_is_refused(root, capsys):
    git(root, "tag", "v0.10.0")
    assert RELEASE["main"](["0.2.0"], root) == 2
    assert "0.10.0 is released" in capsys.readouterr().err


def test_a_tag_without_a_date_in_the_changelog_is_refused(root, capsys):
    assert RELEASE["main"](["--check-tag", "v0.2.0"], root) == 2
    assert "0.2.0 (unreleased)" in capsys.readouterr().err


def test_the_changelog_is_that_of_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version, when, _ = RELEASE["entry"](text)
    assert version == __version__
    headings = re.findall(r"^## .*$", text, re.M)
    assert headings == [f"## {name} ({day})" for name, day in RELEASE["HEADING"].findall(text)]
    assert [day for _, day in RELEASE["HEADING"].findall(text)][1:].count("unreleased") == 0
    numbers = [RELEASE["number"](name) for name, _ in RELEASE["HEADING"].findall(text)]
    assert numbers == sorted(numbers, reverse=True)


def test_the_workflows_test_every_python_that_the_package_names():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = workflow["jobs"]["suite"]["strategy"]["matrix"]["python"]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert project["requires-python"] == f">={versions[0]}"


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.stem)
def test_workflows_and_templates_are_yaml_without_secrets(path):
    text = path.read_text(encoding="utf-8")
    assert yaml.safe_load(text)
    assert "secrets." not in text
