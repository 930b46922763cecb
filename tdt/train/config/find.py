"""Find a config by path, or by name among the configs that come with tdt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tdt._did_you_mean import closest
from tdt.train._encoding import is_utf16
from tdt.train._regular_file import open_regular
from tdt.train.config.source import Source

if TYPE_CHECKING:  # Tab needs the names alone
    from tdt.train.config.errors import ConfigErrors

LARGEST = 256 * 1024  # bytes of a config file
SCHEMA_LINE = "# yaml-language-server: $schema="  # the first line of a config: names its schema to editors
SCHEMA = "tdt.schema.json"  # the output of `tdt schema`, beside the bundled configs


def bundled() -> dict[str, Path]:
    """The configs that come with tdt: name → file."""
    return {path.stem: path for path in sorted(bundled_folder().glob("*.yaml"))}


def bundled_folder() -> Path:
    """Folder of the bundled configs: in the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[2]
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def find(name: str | Path, errors: ConfigErrors, where: Source | None = None, folder: Path = Path()) -> Path | None:
    """The file of a config: an existing path, else a bundled config; None after reporting that there is none.

    where: position of the `extends` that names it. folder: base of a relative path.
    """
    path = folder / name
    key, where = ("extends", where) if where else ("", Source(str(name)))
    try:
        if path.exists():
            return path
    except (OSError, ValueError) as error:
        errors.add(where, f"cannot be opened: {getattr(error, 'strerror', None) or error}", kind="file", key=key)
        return None
    known = bundled()
    stem = path.stem if path.suffix in (".yaml", ".yml") else path.name
    if len(Path(name).parts) == 1 and stem in known:
        return known[stem]
    written = dict(zip(known, known, strict=True))
    written |= {other.stem: str(Path(name).parent / other.name) for other in sorted(path.parent.glob("*.y*ml"))}
    suggestion = written.get(closest(stem, written) or "")
    listed = "" if suggestion else f"; bundled: {', '.join(known)}" if known else ""
    errors.add(where, f"no such file, and no bundled config{listed}", suggestion, kind="file", key=key)
    return None


def read_text(path: Path, errors: ConfigErrors) -> str | None:
    """The text of a config file; None after reporting a read error."""
    whole = Source(str(path), 1, 1)
    if path.is_dir():
        inside = path / "config.yaml"
        suggestion = str(inside) if inside.is_file() else None
        errors.add(whole, "is a directory; a config is a file", suggestion, kind="file")
        return None
    try:
        with open_regular(path) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        message = error.strerror or str(error)
        message = message if message.startswith("is ") else f"cannot be read: {message}"
        errors.add(whole, message, kind="file")
        return None
    if len(data) > LARGEST:
        errors.add(whole, f"is larger than {LARGEST // 1024} KiB; is it a config?", kind="file")
        return None
    return decode(data, str(path), errors)


def decode(data: bytes, file: str, errors: ConfigErrors) -> str | None:
    """UTF-8 bytes, with or without a byte order mark, as text; None after reporting the first invalid byte."""
    if is_utf16(data):
        errors.add(Source(file, 1, 1), "is UTF-16; save it as UTF-8", kind="file")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", errors="replace")
        source = Source(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
        errors.add(source, f"the byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8", kind="file")
        return None
