"""The wheel: what is in it, and what it says of itself."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tdt import _about

ROOT = Path(__file__).parents[1]
NOT_CODE = ("__pycache__", "tests", "scripts")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel made by the build backend itself, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def text(wheel: zipfile.ZipFile, end: str) -> str:
    (name,) = [name for name in wheel.namelist() if name.endswith(end)]
    return wheel.read(name).decode()


def test_the_wheel_holds_every_module_the_configs_and_the_data(wheel: zipfile.ZipFile):
    names = set(wheel.namelist())
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tdt").rglob("*.py")}
    configs = {f"tdt/configs/{path.name}" for path in (ROOT / "configs").iterdir()}
    data = {f"tdt/vision/datasets/data/{name}" for name in ("digits.npz", "ATTRIBUTION.md")}
    assert {"tdt/configs/digits-cnn.yaml", "tdt/configs/tdt.schema.json"} <= configs
    assert modules | configs | data | {"tdt/py.typed"} <= names


def test_the_wheel_holds_nothing_else(wheel: zipfile.ZipFile):
    assert not [name for name in wheel.namelist() if not name.startswith(("tdt/", "tdt_train-"))]
    assert not [name for name in wheel.namelist() if set(NOT_CODE) & set(Path(name).parts)]


def test_the_wheel_has_its_metadata(wheel: zipfile.ZipFile):
    metadata = Parser().parsestr(text(wheel, ".dist-info/METADATA"))
    assert metadata["Name"] == _about.DISTRIBUTION
    assert metadata["Version"] == _about.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "tdt = tdt.cli:main" in text(wheel, "entry_points.txt")
    assert "Apache License" in text(wheel, "licenses/LICENSE")


def test_the_wheel_needs_neither_pytorch_nor_a_gpu(wheel: zipfile.ZipFile):
    requires = Parser().parsestr(text(wheel, ".dist-info/METADATA")).get_all("Requires-Dist")
    always = [line for line in requires if "extra ==" not in line]
    assert not [line for line in always if line.startswith(("torch", "cupy", "nvidia"))]
    assert len(always) < len(requires)
