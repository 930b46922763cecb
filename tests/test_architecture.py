"""The order of layers, the size of files, and what a repository must not hold, read from the source."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tdt"

# Bottom to top: a module imports from its own layer and from those before it. A name stands for all modules below it,
# one that ends in "_" for all that begin so, "tdt" for the root module alone; the longest name that fits counts.
LAYERS: list[list[str]] = [
    ["tdt._about", "tdt.version", "tdt.compat._find", "tdt.utils._files"],
    ["tdt._core.dtype", "tdt._core.errors", "tdt._backend"],
    ["tdt._kernels"],
    ["tdt._core", "tdt._random", "tdt._"],
    # Promotion inserts `cast` and a write to a view `copy_slices`: the engine's own two ops.
    ["tdt.autograd._", "tdt.amp._autocast", "tdt._ops.shape.cast", "tdt._ops.shape.copy_slices"],
    ["tdt._ops"],
    # Names of PyTorch that `tdt` and Tensor have themselves: they are loaded with the ops.
    ["tdt.compat._absent", "tdt.compat._old_types", "tdt.compat._switches"],
    ["tdt.autograd", "tdt.testing", "tdt.amp", "tdt.backends", "tdt.compiler", "tdt.cuda", "tdt.accelerator", "tdt.linalg",
     "tdt.multiprocessing", "tdt.fft", "tdt.masked", "tdt.signal", "tdt.sparse", "tdt.special",
     "tdt.random", "tdt.serialization", "tdt.storage", "tdt.__config__",
     "tdt.distributed", "tdt.functional", "tdt.profiler", "tdt.types",
     "tdt.autograd._functional", "tdt.autograd._transforms", "tdt._public", "tdt"],
    ["tdt.nn", "tdt.func", "tdt.distributions"],
    ["tdt.optim", "tdt.utils", "tdt.utils.data"],
    ["tdt.vision", "tdt.utils.tensorboard"],
    ["tdt.compat"],
    ["tdt.train.errors", "tdt.train._"],
    ["tdt.train.config"],
    ["tdt.train.metrics"],
    ["tdt.train.runs"],
    ["tdt.train.data"],
    ["tdt.train.model"],
    ["tdt.train.logging"],
    ["tdt.train.checks"],
    ["tdt.train.loop"],
    ["tdt.train"],
    ["tdt.cli", "tdt.commands", "tdt.__main__", "tdt.as_torch"],
]  # fmt: skip
# The modules outside tdt/compat that may import from it: what has a name of PyTorch in public, and what looks names up.
COMPAT_USERS = {
    "tdt", "tdt._public", "tdt.as_torch", "tdt.backends.cuda", "tdt.compiler", "tdt.cuda", "tdt.sparse._methods",
    "tdt.utils",
}  # fmt: skip
JIT = ["_jit.py", "_compile.py"]


def name_of(path: Path) -> str:
    """The module that a file holds."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {name_of(path): path for path in FILES}


@cache
def layer_of(module: str) -> int:
    """The index in LAYERS of the longest name that covers `module`."""
    fits = {
        name: index
        for index, names in enumerate(LAYERS)
        for name in names
        if module == name or (name != "tdt" and module.startswith(name if name.endswith("_") else name + "."))
    }
    assert fits, f"{module} belongs to no layer: add it to LAYERS"
    return fits[max(fits, key=len)]


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All nodes of a file, but for what only type checkers read."""
    found: list[ast.AST] = [ast.parse(path.read_text(), str(path))]
    for node in found:  # which grows
        if not isinstance(node, ast.Name | ast.Constant):  # half of all nodes, and nothing below them counts
            found += (child for child in ast.iter_child_nodes(node) if not is_type_checking(child))
    return found


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of everything that a file imports at run time, inside functions too."""
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write the whole name"
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                found.append((node.lineno, below if below in MODULES else str(node.module)))
    return found


@pytest.mark.parametrize("module", [name for name in MODULES if name != "tdt"])
def test_a_module_imports_only_from_its_own_layer_and_below(module: str):
    wrong = [
        f"{MODULES[module]}:{line}: {module} must not import {target}"
        for line, target in imports(MODULES[module])
        if target.partition(".")[0] == "tdt" and layer_of(target) > layer_of(module)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_files_import_each_other():
    """Also inside functions: files that need each other are one file, or lack a third that both need."""
    targets = {
        module: {name for _, name in imports(path) if name in MODULES} - {module} for module, path in MODULES.items()
    }
    while done := {module for module in targets if not targets[module] & targets.keys()}:
        targets = {module: names for module, names in targets.items() if module not in done}
    # What is left imports one another, or something that does.
    assert not targets, {module: sorted(names & targets.keys()) for module, names in targets.items()}


def test_one_method_counts_in_place_writes():
    """`Storage.bump_version`; whoever writes into a tensor's array calls it, and grep finds all of them."""
    users = [name_of(path) for path in FILES if re.search(r"\.version \+= 1", path.read_text())]
    assert users == ["tdt._core.tensor"]


def test_nothing_but_public_namespaces_imports_compat():
    """Also inside functions. What serves programs written for PyTorch alone is needed by nothing else."""
    users = {m for m, path in MODULES.items() if any(name.startswith("tdt.compat") for _, name in imports(path))}
    assert {m for m in users if not m.startswith("tdt.compat")} <= COMPAT_USERS


def test_kernels_import_only_the_backend():
    wrong = [
        f"{path}:{line}: {target}"
        for module, path in MODULES.items()
        if module.startswith("tdt._kernels")
        for line, target in imports(path)
        if target.startswith("tdt") and not target.startswith(("tdt._kernels", "tdt._backend"))
    ]
    assert not wrong, "\n".join(wrong)


def test_one_file_decides_which_results_are_channels_last():
    """Ops call `output_is_channels_last` and related helpers; only what sets memory formats, as `Tensor.to`, looks at strides."""
    allowed = {"tdt._backend.layout", "tdt._ops.shape.memory", "tdt.train.model.memory_format"}
    names = (  # every name that is read, as `is_channels_last` or `layout.is_channels_last`
        (module, node.id if isinstance(node, ast.Name) else node.attr)
        for module, path in MODULES.items()
        for node in nodes(path)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    assert {module for module, name in names if name == "is_channels_last"} == allowed


def test_only_the_compiling_modules_call_numbas_compiler():
    wrong = []
    for path in FILES:
        for node in nodes(path):
            names = {node.attr} if isinstance(node, ast.Attribute) else set()
            if isinstance(node, ast.ImportFrom) and node.module == "numba":
                names = {alias.name for alias in node.names}
            if names & {"njit", "vectorize", "guvectorize"} and path.name not in JIT and "numba" in path.read_text():
                wrong.append(f"{path}:{node.lineno}: {names}; use tdt._kernels._jit.jit")
    assert not wrong, "\n".join(wrong)


def test_creation_ops_state_the_device_of_the_tensor():
    """Left out, it would be the CPU, whatever the operands' is."""
    silent = [
        f"{name_of(path)}:{node.lineno}: {node.func.id}"
        for path in sorted((PACKAGE / "_ops").rglob("*.py"))
        if any(module == "tdt._core.creation" for _, module in imports(path))
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in {"arange", "empty", "full", "ones", "zeros"}
        if not {keyword.arg for keyword in node.keywords} & {"device", None}
    ]
    assert not silent, silent


def test_every_library_that_is_imported_is_named_as_a_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    named = {re.match(r"[\w-]+", text)[0].lower() for text in requirements}
    named |= {"cupy", "cupyx"} if "cupy-cuda12x" in named else set()
    of = packages_distributions()
    used = {name.partition(".")[0]: path for path in FILES for _, name in imports(path)}
    missing = {
        name: path
        for name, path in used.items()
        if name != "tdt" and name not in sys.stdlib_module_names
        if name not in named and not named & {found.lower() for found in of.get(name, ())}
    }
    assert not missing


def test_the_type_checker_ignores_errors_in_kernels_alone():
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    assert [section["module"] for section in overrides if section.get("ignore_errors")] == [["tdt._kernels.*"]]


def test_torch_is_never_imported():
    wrong = [f"{path}:{line}" for path in FILES for line, name in imports(path) if name.partition(".")[0] == "torch"]
    assert not wrong, "\n".join(wrong)


def test_no_file_passes_600_lines():
    long = {name: n for name, path in MODULES.items() if (n := len(path.read_text().splitlines())) > 600}
    assert not long


def test_no_function_passes_60_lines():
    long = [
        f"{path}:{node.lineno}: {node.name} has {node.end_lineno - node.lineno} lines"
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef) and node.end_lineno and node.end_lineno - node.lineno > 60
    ]
    assert not long, "\n".join(long)


def test_no_path_of_a_machine_is_written_down():
    pattern = re.compile(r"/(wor[k]|roo[t]|far[m]|hom[e]/\w+|Users/\w+)/")
    folders = ["tdt", "tests", "scripts", "configs", "docs", "examples", "benchmarks", ".ci"]
    texts = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    texts += [path for path in ROOT.iterdir() if path.suffix in (".md", ".toml", ".yaml")]
    suffixes = {".py", ".pyi", ".md", ".toml", ".yaml", ".yml", ".json", ".txt", ".sh", ""}
    found = [
        f"{path}:{number}: {line.strip()}"
        for path in texts
        if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)
