"""What a start loads: the command line neither NumPy nor the core, a part of the library its methods too."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# Typer, Rich and what they bring; not pydantic, with which Typer converts parameters and which takes as long as all of these.
LIBRARIES = {"annotated_doc", "click", "markdown_it", "mdurl", "pygments", "rich", "shellingham", "typer",
             "typing_extensions", "_distutils_hack"}  # fmt: skip
OURS = ("tdt.cli", "tdt.commands", "tdt._about", "tdt._launched")

PROGRAM = """
import atexit, json, sys
before = set(sys.modules)
atexit.register(lambda: print("MODULES" + json.dumps(sorted(set(sys.modules) - before))))
{}
"""


def loaded_by(code: str, **environment: str) -> set[str]:
    """The modules that a fresh interpreter loads while it runs `code`."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
    )
    assert "MODULES" in done.stdout, done.stderr
    return set(json.loads(done.stdout.rpartition("MODULES")[2]))


def foreign(modules: set[str]) -> set[str]:
    """Those that a start of the command line has no business with."""
    return {
        module
        for module in modules
        if module != "tdt"
        and not module.startswith(OURS)
        and module.partition(".")[0] not in LIBRARIES | sys.stdlib_module_names
        and not module.startswith("_sysconfigdata_")
    }


RUN = "import sys; sys.argv = ['tdt', *{!r}]; from tdt.cli import main; main()"


@pytest.mark.parametrize("arguments", [["--help"], ["runs", "list", "--help"], ["--version"]])
def test_help_loads_neither_numpy_nor_the_core(arguments: list[str]):
    modules = loaded_by(RUN.format(arguments))
    assert "tdt.cli" in modules
    assert not foreign(modules)


def test_shell_completion_loads_neither_numpy_nor_the_core():
    modules = loaded_by(
        RUN.format([]),
        _TDT_COMPLETE="complete_bash",
        _TYPER_COMPLETE_ARGS="tdt tr",
        COMP_WORDS="tdt tr",
        COMP_CWORD="1",
    )
    assert "tdt.cli" in modules
    assert not foreign(modules)


def test_importing_the_package_loads_only_its_version():
    modules = {module for module in loaded_by("import tdt; tdt.__version__") if module.partition(".")[0] not in
               sys.stdlib_module_names}  # fmt: skip
    assert modules == {"tdt", "tdt._about"}


def test_first_use_loads_no_library_but_numpy():
    modules = loaded_by("import tdt; x = tdt.ones(2, requires_grad=True); (x * x).sum().backward()")
    roots = {module.partition(".")[0] for module in modules if "cython" not in module} - set(sys.stdlib_module_names)
    assert roots - {"_distutils_hack"} == {"tdt", "numpy", "ml_dtypes"}
    assert not modules & {
        "numpy.random",
        "pathlib",
        "difflib",
        "urllib.parse",
    }  # 14 ms that a first op need not wait for


@pytest.mark.parametrize(
    "package", ["nn", "nn.functional", "optim", "utils.data", "vision.datasets", "vision.transforms"]
)
def test_a_part_imported_alone_has_tensors_with_their_methods(package: str):
    assert "tdt._public" in loaded_by(f"import tdt.{package}")


def test_submodules_come_with_the_package():
    code = "import tdt; tdt.nn.functional, tdt.nn.init, tdt.utils.data.DataLoader, tdt.optim.lr_scheduler.StepLR"
    assert "tdt.optim.lr_scheduler" in loaded_by(code)


def test_sparse_imported_alone_works():
    code = "from tdt.sparse import mm; import tdt; assert mm(tdt.eye(2).to_sparse(), tdt.ones(2, 1)).sum() == 2"
    assert "tabnanny" in loaded_by(f"{code}; import tabnanny")  # the last line was reached


def test_layers_and_optimizers_load_neither_processes_nor_schedules():
    modules = loaded_by("import tdt; tdt.optim.SGD(tdt.nn.Linear(2, 2).parameters(), lr=0.1)")
    assert {"tdt.nn.modules.linear", "tdt.optim.sgd"} <= modules
    assert (
        not {"socket", "tdt.distributed", "tdt.nn.parallel", "tdt.optim.lr_scheduler", "tdt.optim.swa_utils"} & modules
    )


@pytest.mark.parametrize(
    "name", ["nn.DataParallel", "nn.parallel.DataParallel", "optim.lr_scheduler.StepLR", "optim.swa_utils.SWALR"]
)
def test_what_is_loaded_on_first_use_is_listed_before(name):
    module, part = name.split(".")[:2]
    done = loaded_by(f"import tdt; assert '{part}' in dir(tdt.{module}); tdt.{name}")
    assert f"tdt.{module}" in done


def test_a_list_of_runs_loads_neither_yaml_nor_pydantic_once_it_is_known(tmp_path):
    folder = tmp_path / "runs/net/1"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("name: net\n")
    (folder / "run.lock").touch()
    arguments = ["runs", "list", "--runs-root", str(tmp_path / "runs")]
    assert "yaml" in loaded_by(RUN.format(arguments))
    roots = {module.partition(".")[0] for module in loaded_by(RUN.format(arguments))}
    assert not roots & {"yaml", "pydantic", "numpy", "rich"}


def test_a_run_loads_only_what_it_needs_before_its_first_loss(tmp_path):
    code = "from tdt.train.loop.trainer import Trainer; Trainer._after_step = lambda self: sys.exit(); "
    for run in ("compiles", "finds kernels"):
        command = ["train", "digits-mlp", "--run-dir", str(tmp_path / run)]
        modules = loaded_by(f"import sys; {code}{RUN.format(command)}")
    assert {"tdt.train.session", "tdt.vision.datasets.digits"} <= modules
    roots = {module.partition(".")[0] for module in modules}
    assert not roots & {
        "asyncio",
        "concurrent",
        "fsspec",
        "http",
        "llvmlite",
        "logging",
        "numba",
        "platformdirs",
        "ssl",
    }
    assert not {"tdt.text.models", "tdt.vision.models", "tdt.train.tune", "tdt.train.export", "tdt.onnx"} & modules


def test_a_command_collects_garbage_as_usual_once_it_has_started(tmp_path):
    code = (
        "import atexit, gc; usual = gc.get_threshold()\n"
        "atexit.register(lambda: print('AFTER', gc.get_threshold() == usual, gc.get_freeze_count() > 10_000))\n"
    )
    command = ["train", "digits-mlp", "train.epochs=1", "--run-dir", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-c", code + RUN.format(command)], capture_output=True, text=True, timeout=60
    )
    assert "AFTER True True" in done.stdout, done.stdout + done.stderr
