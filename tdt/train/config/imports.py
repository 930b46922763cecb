"""`imports:`: the user's own Python files, whose layers, losses, datasets and so on a config may name.

    imports: [./my_layers.py]                 # relative to this file; runs only with --trust

The base class decides what a definition is: a Module is a layer (`...Loss`: a loss), a Dataset a dataset, a Metric a
metric, a Callback a callback.
The config that a run keeps has the SHA-256 of each file, so the run is resumed and evaluated only with the same code.
"""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tdt.train._regular_file import open_regular
from tdt.train.config import registry
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Mapping, Node, Sequence, join, plain, present

PREFIX = "_tdt_import_"
_allowed = False
_ran: dict[str, tuple[str, bytes]] = {}  # module name → file and content that were executed


@dataclass(frozen=True)
class Import:
    """An executed Python file and the SHA-256 of its content."""

    file: str
    sha256: str


def trust(allowed: bool = True) -> None:
    """Allow configs to execute the Python files that they import, and configs in checkpoints and runs to download data.

    Holds for this process. `tdt ... --trust` calls it.
    """
    global _allowed
    _allowed = allowed


@contextmanager
def trusting(allowed: bool = True) -> Iterator[None]:
    """Context manager in which that is allowed; with False nothing changes."""
    before = _allowed
    trust(before or allowed)
    try:
        yield
    finally:
        trust(before)


def trusted() -> bool:
    """Whether `trust` has allowed that."""
    return _allowed


def read_imports(node: Node | None, errors: ConfigErrors) -> tuple[Import, ...]:
    """Execute the files and register their definitions.

    Raises:
        ConfigError: at once if that is not allowed or fails, as the rest of the config cannot be checked without them.
    """
    node = present(node)
    if node is None:
        return ()
    found = []
    for number, item in enumerate(node.items if isinstance(node, Sequence) else [node]):
        path = join("imports", number) if isinstance(node, Sequence) else "imports"
        imported = _read_import(item, path, errors)
        if imported is not None:
            found.append(imported)
    errors.raise_if_any()
    return tuple(found)


def _read_import(item: Node, path: str, errors: ConfigErrors) -> Import | None:
    written = plain(item)
    expected = written.get("sha256") if isinstance(written, dict) else None
    name = written.get("file") if isinstance(item, Mapping) and written.keys() <= {"file", "sha256"} else written
    if not isinstance(name, str) or not isinstance(expected, str | None):
        message = "expected the path of a Python file, or {file: path, sha256: its checksum}"
        errors.add(item.where, message, kind="wrong-type", key=path)
        return None
    written_at = item.items["file"].named_at if isinstance(item, Mapping) else item.named_at
    file = written_at.path(name)
    try:
        with open_regular(file) as opened:
            code = opened.read()
    except OSError as error:
        errors.add(item.where, f"{file} cannot be read: {error.strerror}", kind="file", key=path)
        return None
    digest = hashlib.sha256(code).hexdigest()
    if expected not in (None, digest):
        message = f"{file} has changed: its SHA-256 is {digest[:12]}…, not {expected[:12]}…; restore the old file"
        errors.add(item.where, message, kind="file", key=path)
    elif not _allowed:
        message = (
            f"runs the Python code in {file}, which may do anything; read it, then pass --trust (in Python: trust=True)"
        )
        errors.add(item.where, message, key=path)
    else:
        try:
            _register(_run(file, code, digest))
        except Exception as error:  # noqa: BLE001 - whatever a program may raise
            errors.add(item.where, f"{file} fails: {_describe(error, str(file))}", kind="file", key=path)
        else:
            return Import(str(file), digest)
    return None


def _run(file: Path, code: bytes, digest: str) -> types.ModuleType:
    """Execute the code as a module, once for each content."""
    name = f"{PREFIX}{digest[:16]}"
    if name not in sys.modules:
        module = types.ModuleType(name)
        module.__file__ = str(file)
        sys.modules[name] = module  # before executing: dataclasses and pickle look their module up
        try:
            exec(compile(code, str(file), "exec"), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
        _ran[name] = str(file), code
    return sys.modules[name]


def ran() -> list[tuple[str, bytes]]:
    """The executed files and their contents, to execute in another process by `run_again`."""
    return list(_ran.values())


def run_again(files: list[tuple[str, bytes]]) -> None:
    """Execute the files from `ran` of the trusted parent process."""
    for file, code in files:
        _run(Path(file), code, hashlib.sha256(code).hexdigest())


def _register(module: types.ModuleType) -> None:
    """Register the module's own definitions. Raises ValueError for a name that tdt has."""
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        for known in registry.ALL:
            if known.takes(name, value):
                before = known.find(name)
                if before is not None and not before.__module__.startswith(PREFIX):
                    raise ValueError(f"it defines {name}, but tdt has a {known.kind} of that name; choose another one")
                known.register(name, value)


def _describe(error: Exception, file: str) -> str:
    """The error with the last line of the file in its traceback."""
    line, trace = getattr(error, "lineno", None), error.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == file else line
        trace = trace.tb_next
    detail: Any = error.msg if isinstance(error, SyntaxError) else error
    return f"{type(error).__name__}: {detail}" + (f" (line {line})" if line else "")
