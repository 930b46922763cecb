"""Run folders `runs/<name>/<n>/`: create, lock, find.

config.yaml (resolved)  env.json  run.lock  metrics.jsonl  events.out.tfevents.*  checkpoints/
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from tdt._did_you_mean import did_you_mean
from tdt._files import fsync_folder, read_file, remove_temporary, replace_file
from tdt.train.runs._lock import Locked, lock
from tdt.train.runs.checkpoint import CheckpointError, CheckpointStore

ROOT = "runs"
METRICS_FILE = "metrics.jsonl"
PRUNED_FILE = "pruned"  # in a trial of a sweep that was stopped since others are better
# The names in a run's folder that tdt writes.
_OWN = re.compile(
    r"run\.lock(\.owner)?|config\.yaml|env\.json|metrics\.jsonl|events\.out\.tfevents\..+|checkpoints|compile-difference\.txt|projector_config\.pbtxt"
    r"|[0-9]{5,}|\..+\.[0-9]+\.tmp",
    re.DOTALL,
)
_DELETED = re.compile(r"\.[0-9]+\.[0-9]+\.deleted")  # a run that is being deleted


class RunError(Exception):
    """A run cannot be created, found or locked; the message says which and why."""


class RunFolder:
    """A run's folder. Reading needs no lock; `create` and `lock` take it until `close` or the end of the process.

    >>> from tdt.train.runs.run import RunFolder
    >>> import tempfile
    >>> with RunFolder.create(tempfile.mkdtemp(), "digits", "seed: 0") as run:
    ...     run.name, run.config_text()
    ('digits/1', 'seed: 0')
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._lock: FileIO | None = None

    @classmethod
    def create(
        cls,
        root: str | os.PathLike[str],
        name: str,
        config_text: str,
        *,
        folder: str | os.PathLike[str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> RunFolder:
        """Create and lock a run: `root/name/<n>` with the next free n, or exactly `folder`.

        Writes config_text to `config.yaml`, and the environment with `extra` to `env.json`.

        Raises:
            RunError: the name is not a plain folder name, or `folder` is not empty.
        """
        where = Path(root, _checked(name)) if folder is None else Path(folder)
        try:
            run = cls(_next_folder(where) if folder is None else _claim(where)).lock()
        except OSError as error:
            raise OSError(
                error.errno, f"the run's folder could not be created: {error.strerror}", str(where)
            ) from error
        try:
            run._describe(config_text, extra or {})
        except OSError as error:
            run.close()
            if isinstance(error, FileExistsError):  # another process was faster with the same `folder`
                raise RunError(f"{run.folder} already contains a run; choose another folder") from error
            raise OSError(error.errno, f"the run could not be started: {error.strerror}", str(run.folder)) from error
        return run

    def _describe(self, config_text: str, extra: Mapping[str, Any]) -> None:
        config = self.folder / "config.yaml"
        if config.exists():
            raise FileExistsError
        from tdt.train.runs._environment import environment  # on use: it loads importlib.metadata and subprocess

        record = json.dumps(environment() | dict(extra), indent=2)
        replace_file(self.folder / "env.json", record.encode() + b"\n")
        replace_file(config, config_text.encode())  # last and atomic: it makes the folder a run
        fsync_folder(self.folder.parent)

    @classmethod
    def open(cls, where: str | os.PathLike[str], root: str | os.PathLike[str] = ROOT) -> RunFolder:
        """The run at a path or called `name/n`; for `name` or its folder, the newest. RunError suggests a similar name."""
        for path in (Path(where), Path(root, where)):
            if _is_run(path):
                return cls(path)
            numbers = [number for number in _numbers(path) if _is_run(path / str(number))]
            if numbers:
                return cls(path / str(numbers[-1]))
        raise RunError(_not_found(str(where), Path(root)))

    @classmethod
    def all(cls, root: str | os.PathLike[str] = ROOT) -> list[RunFolder]:
        """Every run under `root`, by name and number."""
        names = _folders(Path(root))
        folders = (name / str(number) for name in names for number in _numbers(name))
        return [cls(folder) for folder in folders if _is_run(folder)]

    @classmethod
    def open_exactly(cls, where: str | os.PathLike[str], root: str | os.PathLike[str] = ROOT) -> RunFolder:
        """The run `name/n` or at a path, even if killed before it had a config. Raises RunError for a bare name."""
        for path in (Path(where), Path(root, where)):
            if re.fullmatch("[1-9][0-9]*", path.name) and path.is_dir() and not _is_run(path) and _is_remnant(path):
                return cls(path)
        run = cls.open(where, root)
        if run.folder not in (Path(where), Path(root, where)):
            raise RunError(f"{where} means the newest run of that name; name one exactly, as {run.name}")
        return run

    @property
    def name(self) -> str:
        """`<name>/<n>`: the last two parts of the folder's path."""
        return "/".join(self.folder.absolute().parts[-2:])

    @property
    def has_config(self) -> bool:
        """Whether the run has begun: its config is written last."""
        return os.path.lexists(self.folder / "config.yaml")

    def checkpoints(self, keep: int | None = 3, checked: int | None = None) -> CheckpointStore:
        """The run's checkpoints. keep, checked: as `CheckpointStore`."""
        return CheckpointStore(self.folder / "checkpoints", keep, checked)

    def config_text(self) -> str:
        """The run's resolved config."""
        path = self.folder / "config.yaml"
        try:
            return read_file(path).decode()
        except UnicodeDecodeError as error:
            raise RunError(f"{path}: is not UTF-8 text: {error}") from error

    def rewrite_config(self, text: str) -> None:
        """Replace the config. The caller must hold the lock."""
        replace_file(self.folder / "config.yaml", text.encode())

    def check_links(self) -> None:
        """Raise RunError if a file or folder that tdt writes to is a link, which may lead out of the run."""
        for path in self._walk():
            if path.is_symlink():
                raise RunError(
                    f"{path} is a link, and a run writes only to its own folder: replace the link by its target"
                )

    def clean(self) -> None:
        """Remove temporary files of a killed process. The caller must hold the lock."""
        remove_temporary(self.folder)

    def size(self) -> int:
        """Bytes of all files, without following links."""
        return sum(path.lstat().st_size for path in self._walk() if path.is_symlink() or path.is_file())

    def _walk(self) -> Iterator[Path]:
        """All files and folders of tdt in the folder, without following links."""
        for path in sorted(self.folder.iterdir()):
            if _OWN.fullmatch(path.name):
                yield path
                if path.is_dir() and not path.is_symlink():
                    for place, folders, names in os.walk(path):
                        yield from (Path(place, name) for name in (*folders, *names))

    def lock(self) -> RunFolder:
        """Take the run's lock. Raises RunError if another process trains it."""
        try:
            self._lock = lock(self.folder / "run.lock")
        except Locked as error:
            raise RunError(f"{self.folder} is being trained {error}; wait for it, or stop it first") from error
        return self

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def delete(self) -> None:
        """Remove the run, which must be locked, with its files. Links are removed, their targets stay.

        The folder is renamed first, so that an interrupted deletion leaves no partial run; `remove_deleted` completes it.

        Raises:
            RunError: the folder may contain more than a run.
            OSError: names what could not be removed.
        """
        if self.folder.is_symlink():
            self.folder.unlink()
            return
        assert self._lock is not None
        self._check_only_a_run()
        doomed = self.folder.with_name(f".{self.folder.name}.{os.getpid()}.deleted")
        self.folder.rename(doomed)
        _remove(doomed)

    def _check_only_a_run(self) -> None:
        """Raise RunError if a folder lacks the files of every run, unless the run was killed at its beginning."""
        lacking = [name for name in ("config.yaml", "env.json") if not (self.folder / name).is_file()]
        foreign = sorted(name for name in os.listdir(self.folder) if not _OWN.fullmatch(name))
        if not os.path.lexists(self.folder / "run.lock"):
            foreign.append("no run.lock")
        if lacking and foreign:
            what = f"{self.folder} has no {lacking[0]}: it may contain more than a run (it has {foreign[0]})"
            raise RunError(f"{what}; remove it by hand")

    def remove_remnant(self) -> None:
        """Remove the folder if its run was killed before it had a config. RunError if it may contain more."""
        if self.folder.is_dir() and any(self.folder.iterdir()) and not self.has_config:
            self.lock_to_delete().delete()

    def lock_to_delete(self) -> RunFolder:
        """Like `lock`, for `delete`: removes a lock file that is a link, and does not lock a folder that is one."""
        if self.folder.is_symlink():
            return self
        self._check_only_a_run()
        if (self.folder / "run.lock").is_symlink():
            (self.folder / "run.lock").unlink()
        return self.lock()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def find_checkpoint(where: str | os.PathLike[str], root: str | os.PathLike[str] = ROOT) -> Path:
    """The checkpoint file `where`, or the best (else the last) checkpoint of the run `where`.

    Raises:
        RunError: there is no such run.
        CheckpointError: the run has no checkpoint.
    """
    if Path(where).is_file():
        if Path(where).suffix in (".yaml", ".yml"):
            raise CheckpointError(
                f"{where}: is a config; give a run of it, by its name or number as tdt runs lists them"
            )
        return Path(where)
    if Path(where).suffix == ".safetensors":
        what = "is a folder; a checkpoint is a file" if Path(where).is_dir() else "no such checkpoint file"
        raise CheckpointError(f"{where}: {what}")
    run = RunFolder.open(where, root)
    for name in ("best", "last"):
        with suppress(CheckpointError):
            return run.checkpoints().resolve(name)
    beside = [
        one.name for one in RunFolder.all(root) if one.folder.parent == run.folder.parent and one.checkpoints().steps()
    ]
    advice = f"; {beside[-1]} has one" if beside else ""
    raise CheckpointError(f"{run.folder} has no checkpoint: {_without_checkpoint(run.folder)}{advice}")


def _without_checkpoint(folder: Path) -> str:
    """Why a run has no checkpoint, as far as its folder shows."""
    try:
        log = read_file(folder / "metrics.jsonl")
    except OSError:
        log = b""
    if b'"reason": "done"' in log:
        return "the run is done, and its checkpoints have been removed"
    if log or (folder / "checkpoints").is_dir():
        return "the run has not reached its first, or its checkpoints have been removed"
    return "the run has not reached its first"


def remove_deleted(root: Path) -> list[str]:
    """Complete interrupted deletions of runs under `root`. Returns what still cannot be removed, and why."""
    failed = []
    found = [folder / name for folder in _folders(root) for name in _names(folder) if _DELETED.fullmatch(name)]
    for folder in found:
        try:
            _remove(folder)
        except FileNotFoundError:
            continue  # another process removes it
        except OSError as error:
            failed.append(f"{error.filename}: {error.strerror}")
    return failed


def _remove(doomed: Path) -> None:
    try:
        if doomed.is_symlink():
            doomed.unlink()
        else:
            shutil.rmtree(doomed)
    except OSError as error:
        rest = f"could not be removed: {error.strerror}; the rest of the run is in {doomed}"
        raise OSError(error.errno, f"{rest}; tdt runs delete and tdt runs list retry", error.filename) from error


def _checked(name: str) -> str:
    if re.fullmatch(r"\w[\w.+=,@-]{0,99}", name):
        return name
    raise RunError(f"run name {name!r} is not a plain folder name; use letters, digits and _ . + = , @ -, at most 100")


def _next_folder(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    number = max(_numbers(parent), default=0)
    while True:
        number += 1
        try:
            (parent / str(number)).mkdir()  # atomic: only one process succeeds
            return parent / str(number)
        except FileExistsError:
            continue


def _claim(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise RunError(f"{folder} is not empty, and a run never overwrites; choose another folder or resume that run")
    return folder


def _numbers(parent: Path) -> list[int]:
    return sorted(int(name) for name in _names(parent) if re.fullmatch(r"[1-9][0-9]*", name))


def _names(folder: Path) -> list[str]:
    """Names in `folder`, empty if it is none. Warns if it cannot be read, so that one folder does not hide the others."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        warnings.warn(f"{folder}: cannot be read: {error.strerror}")
        return []


def _is_run(folder: Path) -> bool:
    """Whether a folder is a run: it has a config or checkpoints."""
    there = os.path.lexists  # False without permission to enter the folder; follows no link
    return there(folder / "checkpoints") or all(there(folder / part) for part in ("run.lock", "config.yaml"))


def _is_remnant(folder: Path) -> bool:
    """Whether a folder is of a run that was killed before it had a config."""
    names = os.listdir(folder)
    return "run.lock" in names and all(_OWN.fullmatch(name) for name in names)


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def _not_found(where: str, root: Path) -> str:
    names = sorted(path.name for path in root.iterdir() if _numbers(path)) if root.is_dir() else []
    names += [f"{name}/{number}" for name in names for number in _numbers(root / name)]
    if where in names:
        return f"{root / where} is not a run: it has neither config.yaml nor checkpoints; remove the folder yourself"
    there = f"{root} has {', '.join(names[:5])}" if names else f"{root.absolute()} has no runs"
    return f"no run {where!r}; {did_you_mean(where, names, there)}"
