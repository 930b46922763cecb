"""Deep learning under PyTorch's names, on NumPy and CuPy arrays: `import tdt as torch` works as PyTorch does.

Nothing is loaded until it is used. A submodule (`tdt.nn`, `tdt.train`) comes in by itself; the first other name loads
the core, all of it, because every op is also a method of Tensor. So the command line starts without NumPy. Type checkers
and editors read `__init__.pyi`.
"""

import importlib
import os

from tdt._about import __version__ as __version__

_HOMES = {"load_model": "train.trained_model"}  # names that PyTorch lacks, and their modules
_MISSING: dict[
    str, str
] = {}  # the message for a name that is in none: programs ask `hasattr(torch, "xpu")` in every step


def __getattr__(name: str) -> object:
    if name in _MISSING:
        raise AttributeError(_MISSING[name])
    # Private submodules come in by import; inspect and doctest ask for dunders.
    if name.startswith("_") and name not in ("__all__", "__config__") and (name.startswith("__") or _is_file(name)):
        raise AttributeError(f"module 'tdt' has no attribute '{name}'")
    if name in _HOMES:
        return getattr(importlib.import_module(f"tdt.{_HOMES[name]}"), name)
    if not name.startswith("_") or name == "__config__":
        try:
            return importlib.import_module(f"tdt.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"tdt.{name}":
                raise
    names = _load()
    if name == "__all__":
        return [*names]
    if name in names:
        return names[name]
    try:
        return importlib.import_module("tdt.compat._find").attribute(name)
    except AttributeError:
        _MISSING[name] = importlib.import_module("tdt.compat._absent").explain(name, __dir__())
        raise AttributeError(_MISSING[name]) from None


def _is_file(name: str) -> object:
    """Whether `name` is a module of this folder. Cheaper than asking the import system."""
    return name in [entry.partition(".")[0] for entry in os.listdir(os.path.dirname(__file__))]


def __dir__() -> list[str]:
    return [*{**_load(), **globals(), **_HOMES}]


def _load() -> dict[str, object]:
    """Load the core and make its public names this module's. Returns them."""
    from tdt import _public

    names = {name: value for name, value in vars(_public).items() if name[0] != "_"}
    # From here on `sum`, `float`, `all` mean tdt's in this module, so its functions call no such builtin.
    globals().update(names)
    return names
