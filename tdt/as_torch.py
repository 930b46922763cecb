"""Run a program written for PyTorch on tdt, unmodified: `python -m tdt.as_torch script.py`.

In that process, and in those it starts through `multiprocessing`, `torch` and its submodules are tdt's modules, and
`torchvision` is `tdt.vision`, whether PyTorch is installed or not. A submodule that tdt lacks is a ModuleNotFoundError
with that message. Arguments, `__main__`, the search path, tracebacks and the exit code are those of `python script.py`.
"""

from __future__ import annotations

import functools
import importlib
import os
import pathlib
import runpy
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.metadata import Distribution, DistributionFinder
from multiprocessing import spawn
from types import CodeType, ModuleType, TracebackType
from typing import Any

from tdt import _about, version
from tdt.compat import _torch_names
from tdt.compat._find import find_module

HELP = """\
usage: python -m tdt.as_torch [-h] (script.py | -m module | -c code) [argument ...]

Runs a program written for PyTorch with torch, its submodules and torchvision's
datasets, models, transforms and utils standing for tdt's.

  python -m tdt.as_torch train.py --epochs 3
  python -m tdt.as_torch -c "import torch; print(torch.ones(2, 3))"
"""

# The package that a program imports → the tdt package that it gets, and the version which that package reports.
ALIASES = {"torch": ("tdt", version.pytorch), "torchvision": ("tdt.vision", version.torchvision)}


class _Alias(ModuleType):
    """The module `torch` or `torchvision`: the names of tdt's package, with PyTorch's version number."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._home, self.__version__ = ALIASES[name]
        self.__file__ = importlib.import_module(self._home).__file__  # "cannot import name" shows it

    def __getattr__(self, name: str) -> Any:
        if name in ("_home", "__version__"):
            raise AttributeError(name)  # accessed before __init__ has finished
        try:
            value = getattr(importlib.import_module(self._home), name)
        except AttributeError:
            home = None if name.startswith("__") else _home(f"{self.__name__}.{name}")
            if home is None or (name.startswith("_") and not home.startswith("tdt.compat")):
                raise
            value = importlib.import_module(home)
        setattr(self, name, value)  # later lookups do not call __getattr__
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(importlib.import_module(self._home))})


class _Finder:
    """Import hook: maps `torch`, `torchvision` and their submodules to the modules of tdt that replace them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        root, _, below = name.partition(".")
        if root not in ALIASES:
            return None
        if below and _home(name) is None:
            raise _lacks(name)
        return ModuleSpec(name, self, is_package=not below)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return _Alias(spec.name) if spec.name in ALIASES else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if name not in ALIASES:  # one module under two names, so that classes and state are the same
            _torch_names.register(name, importlib.import_module(str(_home(name))))

    def find_distributions(self, context: DistributionFinder.Context) -> Iterator[Distribution]:
        """Answer `importlib.metadata.version("torch")`, by which programs check the installed release."""
        return (_Release(name) for name in ALIASES if context.name in (None, name))


class _Release(Distribution):
    """The metadata of an installed PyTorch or torchvision."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read_text(self, filename: str) -> str | None:
        text = f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {ALIASES[self._name][1]}\n"
        return text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return pathlib.Path(str(importlib.import_module(ALIASES[self._name][0]).__file__)).parent / path


@functools.cache
def _home(name: str) -> str | None:
    """tdt's name for a PyTorch module: torch.nn.init → tdt.nn.init; None if tdt has no such module."""
    root, _, below = name.partition(".")
    return find_module(f"{ALIASES[root][0]}.{below}".partition(".")[2])


def _lacks(name: str) -> ModuleNotFoundError:
    root, _, below = name.partition(".")
    reason = importlib.import_module("tdt.compat._absent").NOT_OFFERED.get(below) if root == "torch" else None
    why = reason or f"there is no {ALIASES[root][0]}.{below}"
    # `from torch import …` would replace an error that names its module by one without the reason.
    return ModuleNotFoundError(
        f"No module named '{name}' in tdt, which runs this program: {why}", name=None if reason else name
    )


def install() -> None:
    """Make `import torch` and `import torchvision` import tdt, in this process and in those that it starts.

    RuntimeError if PyTorch itself has been imported already: its objects and tdt's would be mixed.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if loaded := [name for name in ALIASES if name in sys.modules]:
        verb = "is" if len(loaded) == 1 else "are"
        raise RuntimeError(f"{' and '.join(loaded)} {verb} imported already; call tdt.as_torch.install() before that")
    _about.prefix = "torch"
    _torch_names.install()
    sys.meta_path.insert(0, _Finder())
    spawn.get_preparation_data = _taking_along(spawn.get_preparation_data)  # type: ignore[assignment]


class _Installed:
    """Unpickling it installs the alias: a spawned process unpickles it before it imports the program."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return install, ()


def _taking_along(prepare: Callable[[str], dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    """Wrap `multiprocessing`'s preparation data for a spawned process, so that it installs the alias."""

    @functools.wraps(prepare)
    def prepared(name: str) -> dict[str, Any]:
        return {"tdt.as_torch": _Installed(), **prepare(name)}

    return prepared


def main() -> None:
    """Run `python -m tdt.as_torch` with its command line."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP, end="", file=sys.stdout if arguments else sys.stderr)
        sys.exit(0 if arguments else 2)
    flag = arguments.pop(0) if arguments[0] in ("-m", "-c") else ""
    if not flag and arguments[0].startswith("-"):
        _refuse(f"unknown option {arguments[0]}; options for Python itself stand before -m tdt.as_torch")
    if not arguments:
        _refuse(f"argument expected for the {flag} option")
    install()
    sys.excepthook = _excepthook
    if flag == "-m":
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        (_run_code if flag else _run_script)(arguments)


def _refuse(what: str) -> None:
    print(f"tdt.as_torch: {what}", file=sys.stderr)
    sys.exit(2)


def _run_script(arguments: list[str]) -> None:
    sys.argv, path = arguments, os.path.abspath(arguments[0])
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    loader = SourceFileLoader("__main__", path)
    try:
        source = loader.get_data(path)
    except OSError as error:
        _refuse(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}")
    _run(compile(source, path, "exec"), __file__=path, __loader__=loader)


def _run_code(arguments: list[str]) -> None:
    sys.argv = ["-c", *arguments[1:]]
    _run(compile(arguments[0], "<string>", "exec"))


def _run(code: CodeType, **names: Any) -> None:
    """Run `code` as the module `__main__`, which it stays: pickling and spawned processes look there."""
    module = ModuleType("__main__")
    vars(module).update(names, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    exec(code, vars(module))


def _excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print Python's traceback without the frames of the launcher, beginning with those of the program."""
    launchers = (__file__, runpy.__file__, "<frozen runpy>")
    while trace and trace.tb_frame.f_code.co_filename in launchers:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


if __name__ == "__main__":
    # By its full name: the program becomes `__main__`, and spawned processes unpickle objects of this module.
    importlib.import_module("tdt.as_torch").main()
