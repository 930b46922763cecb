"""MkDocs hook: the pages of the API reference, one for each public namespace, generated from the docstrings."""

from __future__ import annotations

import importlib
import inspect
import runpy
from pathlib import Path
from typing import Any

google_style = runpy.run_path(str(Path(__file__).with_name("sections.py")))["google_style"]

# Namespace → names of the page's title in the navigation are the namespace's own.
NAMESPACES = [
    "tdt",
    "tdt.Tensor",
    "tdt.nn",
    "tdt.nn.functional",
    "tdt.nn.init",
    "tdt.nn.attention",
    "tdt.nn.parallel",
    "tdt.nn.parameter",
    "tdt.nn.utils",
    "tdt.nn.utils.parametrizations",
    "tdt.nn.utils.parametrize",
    "tdt.nn.utils.prune",
    "tdt.nn.utils.rnn",
    "tdt.onnx",
    "tdt.optim",
    "tdt.optim.lr_scheduler",
    "tdt.optim.swa_utils",
    "tdt.linalg",
    "tdt.fft",
    "tdt.special",
    "tdt.signal.windows",
    "tdt.sparse",
    "tdt.masked",
    "tdt.distributions",
    "tdt.distributions.constraints",
    "tdt.distributions.transforms",
    "tdt.autograd",
    "tdt.autograd.functional",
    "tdt.autograd.graph",
    "tdt.func",
    "tdt.amp",
    "tdt.random",
    "tdt.quasirandom",
    "tdt.utils.data",
    "tdt.utils.checkpoint",
    "tdt.utils.tensorboard",
    "tdt.text.models",
    "tdt.vision.datasets",
    "tdt.vision.models",
    "tdt.vision.ops",
    "tdt.vision.transforms",
    "tdt.vision.transforms.functional",
    "tdt.vision.utils",
    "tdt.cuda",
    "tdt.distributed",
    "tdt.multiprocessing",
    "tdt.profiler",
    "tdt.serialization",
    "tdt.testing",
]


def names(namespace: str) -> list[str]:
    """The functions and classes that a namespace exports, sorted."""
    if namespace == "tdt":
        from tdt import _public as module
    else:
        module = importlib.import_module(namespace)
    listed = getattr(module, "__all__", None) or [name for name in vars(module) if name[0] != "_"]
    found = []
    for name in listed:
        value = getattr(module, name)
        home = getattr(value, "__module__", None) or ""
        # Without `__all__` what a module imports from elsewhere is not its own.
        is_own = hasattr(module, "__all__") or namespace == "tdt" or home.startswith(namespace)
        if (inspect.isroutine(value) or inspect.isclass(value)) and home.startswith("tdt") and is_own:
            found.append(name)
    return sorted(found, key=str.lower)


def path(namespace: str) -> str:
    """The page of a namespace, relative to the documentation's folder."""
    return f"reference/{namespace}.md"


def load(namespace: str) -> None:
    """Store the names that a namespace loads when they are used, so that Griffe sees them when it inspects the module."""
    module = importlib.import_module(namespace)
    for name in names(namespace):
        setattr(module, name, getattr(module, name))


def page(namespace: str) -> str:
    """The Markdown of a namespace's page: its docstring, and a directive for each name."""
    if namespace == "tdt.Tensor":
        return "# tdt.Tensor\n\n::: tdt.Tensor\n    options:\n      show_root_heading: false\n      heading_level: 2\n"
    text = google_style(inspect.getdoc(importlib.import_module(namespace)) or "")
    load(namespace)
    return f"# {namespace}\n\n{text}\n\n" + "\n".join(f"::: {namespace}.{name}" for name in names(namespace)) + "\n"


def on_config(config: Any) -> Any:
    """Add the pages to the navigation."""
    config.nav.append({"API reference": [{namespace: path(namespace)} for namespace in NAMESPACES]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages to the site's files."""
    from mkdocs.structure.files import File

    for namespace in NAMESPACES:
        files.append(File.generated(config, path(namespace), content=page(namespace)))
    return files
