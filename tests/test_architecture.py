"""The order of rooms and of imports, and what a repository must not hold, read from the source."""

from __future__ import annotations

import ast
import gc
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

from tdt.autograd._op_table import CALLED_BY_AUTOGRAD, OPS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tdt"

# Modules that load one of a higher room by a string, when it is first asked for; and why.
LOADED_ON_FIRST_USE = {
    ("tdt", "tdt."): "public modules load when a program first asks for them, so that `import tdt` is quick",
    ("tdt.compat._find", "tdt.compat."): "a name that tdt lacks is looked up there when a program asks for it",
    ("tdt.compat._find", "tdt.compat._names"): "the same, for functions and classes",
    ("tdt._core.torch_function", "tdt."): "public functions are overridden, once a program uses a class that does",
    ("tdt._compiled", "tdt.nn.modules._optimized"): "a compiled module is wrapped in a module",
    ("tdt.serialization._rebuild", "tdt.nn.parameter"): "a file may hold parameters, whose class is one of tdt.nn",
}
# Classes of a higher room that annotations name, for type checkers alone; and why.
NAMED_IN_ANNOTATIONS = {
    "tdt.train.loop.parts": "Parts is what the trainer hands to checks, logs and schedulers",
}
# The modules outside tdt/compat that may import from it: what has a name of PyTorch in public, and what looks names up.
COMPAT_USERS = {
    "tdt", "tdt._public", "tdt.as_torch", "tdt.backends.cuda", "tdt.compiler", "tdt.cuda",
    "tdt.distributed", "tdt.sparse._types", "tdt.utils",
}  # fmt: skip
JIT = ["_jit.py", "_compile.py"]


def name_of(path: Path) -> str:
    """The module that a file holds."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {name_of(path): path for path in FILES}


@pytest.fixture(scope="module", autouse=True)
def _trees_of_all_files() -> Iterator[None]:
    """They are millions of objects, which no collection of garbage goes through, here or in later tests."""
    gc.disable()
    yield
    tree.cache_clear()
    nodes.cache_clear()
    gc.enable()


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All nodes of a file, but for what only type checkers read."""
    found: list[ast.AST] = [tree(path)]
    for node in found:  # which grows
        if not isinstance(node, ast.Name | ast.Constant):  # half of all nodes, and nothing below them counts
            found += (child for child in ast.iter_child_nodes(node) if not is_type_checking(child))
    return found


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of everything that a file imports at run time, inside functions too."""
    return imports_among(nodes(path), path)


@cache
def type_imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of everything that a file imports for type checkers alone."""
    return imports_among([n for top in tree(path).body if is_type_checking(top) for n in ast.walk(top)], path)


def imports_among(nodes: list[ast.AST], path: Path) -> list[tuple[int, str]]:
    found = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write the whole name"
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                found.append((node.lineno, below if below in MODULES else str(node.module)))
    return found


@cache
def string_imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of every `import_module("tdt.…")`; of an f-string the part before the first value."""
    found = []
    for node in nodes(path):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called.endswith(("import_module", "__import__")):
            target = node.args[0] if node.args else None
            if isinstance(target, ast.JoinedStr):
                target = target.values[0]
            if isinstance(target, ast.Constant) and str(target.value).startswith("tdt."):
                found.append((node.lineno, str(target.value)))
    return found


def rooms_of_the_picture() -> dict[str, int]:
    """Each path of the picture in docs/architecture.md, such as `tdt/_ops/`, with the number of its line."""
    picture = (ROOT / "docs" / "architecture.md").read_text().split("## Rooms")[1].split("```")[1]
    rooms = {}
    for line, text in enumerate(picture.splitlines()):
        paths = re.findall(r"tdt/\S*", text)
        if match := re.match(r" {3}(\S.*?)(?: {3}|$)", text):  # a folder of the trainer
            paths = [f"tdt/train/{path}" for path in match[1].split()]
        for path in paths:
            head, _, tail = path.partition("{")
            names, _, tail = tail.partition("}")
            rooms |= {f"{head}{name}{tail}": line for name in names.split(",")}
    return rooms


ROOMS = rooms_of_the_picture()


@cache
def room_of(module: str) -> str:
    """The longest path of the picture that covers a module, or the modules whose names begin so ("tdt.compat.")."""
    path = module.replace(".", "/")
    path += "" if module.endswith(".") else "/" if MODULES[module].name == "__init__.py" else ".py"
    path = "tdt/__init__.py" if path == "tdt/" else path
    fits = [
        room
        for room in ROOMS
        if (
            path.startswith(room) if room.endswith("/") else re.fullmatch(re.escape(room).replace(r"\*", "[^/]+"), path)
        )
    ]
    assert fits, f"{module} is in no room of the picture in docs/architecture.md"
    return max(fits, key=lambda room: len(room.replace("*", "")))


def test_every_room_of_the_picture_has_files():
    assert len(ROOMS) > 40
    assert ROOMS.keys() == {room_of(module) for module in MODULES}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_its_own_room_and_below(module: str):
    here, path = ROOMS[room_of(module)], MODULES[module]
    wrong = [
        f"{path}:{line}: {module} must not import {target}"
        for line, target in chain.from_iterable(
            find(MODULES[module]) for find in (imports, type_imports, string_imports)
        )
        if target.partition(".")[0] == "tdt" and (module, target) not in LOADED_ON_FIRST_USE
        if ROOMS[room_of(target)] < here and (target not in NAMED_IN_ANNOTATIONS or (line, target) in imports(path))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_import_by_a_string_that_is_excepted_is_there_and_goes_up():
    up = {
        (module, target)
        for module, path in MODULES.items()
        for _, target in string_imports(path)
        if target == "tdt." or ROOMS[room_of(target)] < ROOMS[room_of(module)]
    }
    assert up == LOADED_ON_FIRST_USE.keys()


def test_no_rooms_import_each_other():
    targets = {room: set() for room in ROOMS}
    for module, path in MODULES.items():
        targets[room_of(module)] |= {room_of(name) for _, name in imports(path) if name in MODULES} - {room_of(module)}
    assert not (left := left_in_circles(targets)), left


def test_autograd_looks_up_only_its_own_ops_and_those_that_it_states():
    """In the op table, by a constant name; any other reference would be an arrow from autograd up to the ops."""
    engine = {module: path for module, path in MODULES.items() if room_of(module) == "tdt/autograd/_*.py"}
    names = {
        ast.literal_eval(node.slice)
        for path in engine.values()
        for node in nodes(path)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "OPS" and isinstance(node.slice, ast.Constant)
    }
    own = {name for name, op in OPS.items() if op.forward.__module__ in engine}
    assert names - own == CALLED_BY_AUTOGRAD.keys()
    assert own == {"convert", "copy_slices", "linked", "unaware"}


def left_in_circles(targets: dict[str, set[str]]) -> dict[str, list[str]]:
    """What is left of a graph without what imports nothing of it, again and again: circles, and what imports them."""
    while done := {name for name in targets if not targets[name] & targets.keys()}:
        targets = {name: below for name, below in targets.items() if name not in done}
    return {name: sorted(below & targets.keys()) for name, below in targets.items()}


def test_no_files_import_each_other():
    """Also inside functions: files that need each other are one file, or lack a third that both need."""
    targets = {
        module: {name for _, name in imports(path) if name in MODULES} - {module} for module, path in MODULES.items()
    }
    assert not (left := left_in_circles(targets)), left


def test_no_number_of_a_module_is_replaced_by_another_one():
    """A second constant of a name changes what was written for the first one."""
    twice = []
    for path in PACKAGE.rglob("*.py"):
        assigned = [
            name.id
            for statement in tree(path).body
            if isinstance(statement, ast.Assign)
            and not any(isinstance(n, ast.Name | ast.Dict) for n in ast.walk(statement.value))
            for target in statement.targets
            for name in ast.walk(target)
            if isinstance(name, ast.Name) and name.id.isupper()
        ]
        twice += [f"{path.relative_to(ROOT)}: {name}" for name in set(assigned) if assigned.count(name) > 1]
    assert twice == []


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
        if "is_channels_last" in path.read_text()
        for node in nodes(path)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    assert {module for module, name in names if name == "is_channels_last"} == allowed


def test_only_the_compiling_modules_call_numbas_compiler():
    wrong = []
    for path in FILES:
        if path.name in JIT or "numba" not in path.read_text():
            continue
        for node in nodes(path):
            names = {node.attr} if isinstance(node, ast.Attribute) else set()
            if isinstance(node, ast.ImportFrom) and node.module == "numba":
                names = {alias.name for alias in node.names}
            if names & {"njit", "vectorize", "guvectorize"}:
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
