"""The public names: complete, unique, documented, and with examples that run."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import linecache
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import tdt
from tdt import _about, _public
from tdt._core.methods import IN_PLACE_FUNCTIONS
from tdt.compat import _absent
from tests.helpers import require_torch

ROOT = Path(__file__).parents[1]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted((ROOT / "tdt").rglob("*.py"))}
PUBLIC = [name for name in MODULES if not any(part.startswith("_") for part in name.split("."))]
STARRED = [
    str(node.module)
    for node in ast.parse(MODULES["tdt._public"].read_text()).body
    if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
]
NAMES = {name for name in vars(_public) if name[0] != "_"}


def exports(module: ModuleType) -> list[str]:
    """A module's `__all__`; without one, the public functions and classes that it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_"
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    ]


@pytest.mark.parametrize("name", STARRED)
def test_tdt_exports_what_the_modules_of_the_core_declare(name: str):
    module = importlib.import_module(name)
    assert hasattr(module, "__all__"), f"{name} is in tdt/_public.py, so it must define __all__"
    for export in module.__all__:
        assert getattr(tdt, export) is getattr(module, export), f"tdt.{export} is not {name}.{export}"


def test_every_family_of_ops_that_lists_names_is_exported():
    files = [path.relative_to(ROOT) for path in (ROOT / "tdt" / "_ops").rglob("[!_]*.py")]
    families = [".".join(path.with_suffix("").parts) for path in files]
    listed = {name for name in families if getattr(importlib.import_module(name), "__all__", ())}
    # Those of a package that is starred are exported by it.
    missing = {name for name in listed - set(STARRED) if name.rpartition(".")[0] not in STARRED}
    assert not missing


def test_no_public_name_hides_a_submodule():
    assert not {name for name in NAMES if f"tdt.{name}" in MODULES}


def test_every_public_name_is_one_of_pytorchs():
    torch = require_torch()
    assert not {name for name in NAMES if not hasattr(torch, name)}


def test_a_star_import_has_the_public_names():
    names: dict[str, object] = {}
    exec("from tdt import *", names)
    assert names["Tensor"] is tdt.Tensor
    assert set(names) >= NAMES
    assert set(names) - {"__builtins__"} <= set(dir(tdt))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_export_exists(name: str):
    module = importlib.import_module(name)
    assert not [export for export in exports(module) if not hasattr(module, export)]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_functions_and_classes_have_docstrings(name: str):
    module = importlib.import_module(name)
    names = [n for n in dir(module) if n[0] != "_"] if name == "tdt" else exports(module)
    values = {n: getattr(module, n) for n in names}
    bare = [n for n, value in values.items() if (inspect.isroutine(value) or inspect.isclass(value))
            and not inspect.getdoc(value)]  # fmt: skip
    assert not bare


def documented(module: ModuleType) -> dict[str, object]:
    """The functions and classes that are at home in a module, also those that a factory of another one made."""
    found: dict[str, object] = {}
    for name, value in vars(module).items():
        home = sys.modules.get(getattr(value, "__module__", None) or "")
        defined_elsewhere = name in getattr(module, "__all__", ()) and getattr(home, name, None) is not value
        if callable(value) and (home is module or defined_elsewhere):
            found[name] = value
    return found


def examples(module: ModuleType) -> list[doctest.DocTest]:
    """The examples of a module and of what is at home in it. Their globals are those of a fresh interpreter."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    names = {"__name__": "__main__"}
    objects = {module.__name__: module.__doc__ or "", **documented(module)}
    found = [test for name, value in objects.items() for test in finder.find(value, name, module=module, globs=names)]
    return [test for test in found if test.examples]


@pytest.mark.parametrize("name", [name for name in MODULES if name != "tdt"])
def test_examples_in_docstrings_run_when_pasted_into_an_interpreter(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    linecache.clearcache()  # doctest's debugger looks at each file in it, once a docstring
    for example in examples(importlib.import_module(name)):
        report: list[str] = []
        result = doctest.DocTestRunner().run(example, out=report.append)
        assert not result.failed, "".join(report)


def test_examples_import_the_submodules_that_they_use():
    """In the interpreter of the tests `tdt.nn.utils.prune` is there without an import, in a fresh one it is not."""
    sources = (
        step.source
        for name in MODULES
        if name != "tdt"
        for example in examples(importlib.import_module(name))
        for step in example.examples
        if not step.source.startswith(("import ", "from "))
    )
    used = {name for source in sources for name in re.findall(r"(?<![\w.\"'])tdt\.[\w.]+\w", source)}
    modules = sorted({name.rpartition(".")[0] for name in used} & {*MODULES})
    program = f"import tdt\nfor name in {modules}:\n    eval(name)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "namespace",
    [
        "tdt",
        "tdt.nn.functional",
        "tdt.linalg",
        "tdt.fft",
        "tdt.special",
        "tdt.nn.init",
        "tdt.nn.utils",
        "tdt.signal.windows",
    ],
)
def test_a_public_function_has_a_def_of_its_name_which_tracebacks_show(namespace: str):
    module = importlib.import_module(namespace)
    functions = {name: getattr(module, name) for name in exports(module)} if namespace != "tdt" else {
        name: getattr(tdt, name) for name in NAMES
    }  # fmt: skip
    wrong = []
    for name, function in functions.items():
        if not inspect.isfunction(function) or name in IN_PLACE_FUNCTIONS:
            continue
        home = sys.modules[function.__module__].__file__  # where an alias may stand
        source = Path(inspect.unwrap(function).__code__.co_filename).read_text() + Path(str(home)).read_text()
        if not re.search(rf"^ *def {name}\(|^{name} = ", source, re.MULTILINE):
            wrong.append(f"{name}: no def, and no assignment of an alias")
        if not name == function.__name__ == function.__code__.co_name:
            wrong.append(f"{name}: {function.__name__}, {function.__code__.co_name}")
    assert not sorted(wrong)


def test_every_public_function_of_the_core_has_an_example_that_was_run():
    private = [name for name in MODULES if "._" in name or name == "tdt.serialization"]
    run = {example.name for name in private for example in examples(importlib.import_module(name))}
    named = NAMES - IN_PLACE_FUNCTIONS.keys()  # whose examples are those of the functions out of place
    bare = [name for name in named if inspect.isroutine(getattr(tdt, name)) and getattr(tdt, name).__name__ not in run]
    assert not sorted(bare)


@pytest.mark.parametrize("name", _absent.REMOVED)
def test_a_removed_name_reports_its_replacement(name: str):
    with pytest.raises(AttributeError, match=f"use tdt.{_absent.REMOVED[name]}"):
        getattr(tdt, name)


def test_a_missing_name_reports_the_reason_or_a_close_name():
    with pytest.raises(AttributeError, match=r"tdt\.package is not offered: "):
        tdt.package  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'zeroes'; did you mean 'zeros'\?"):
        tdt.zeroes  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'zeroes'"):
        exec("from tdt import zeroes")


def test_no_name_is_both_offered_and_absent():
    assert not [name for name in [*_absent.REMOVED, *_absent.NOT_OFFERED] if name in dir(tdt)]


def test_the_distribution_has_one_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == _about.DISTRIBUTION
    assert _about.install_hint("cuda12") == "pip install 'tdt-train[cuda12]'"
    extras = project["optional-dependencies"]
    for path in MODULES.values():
        assert path.name == "_about.py" or _about.DISTRIBUTION not in path.read_text(), path
    assert set(extras) >= {"cuda12", "cuda13", "test", "parity"}


def test_the_package_has_the_type_marker_and_a_version():
    assert (ROOT / "tdt" / "py.typed").is_file()
    assert tdt.__version__ == _about.__version__


def test_the_stubs_are_what_the_script_writes():
    stubs = runpy.run_path(str(ROOT / "scripts" / "make_stub.py"))["STUBS"]
    for path, stub in stubs.items():
        assert path.read_text() == stub(), f"{path}; run: python scripts/make_stub.py"
