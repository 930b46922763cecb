"""Run folders: `runs/<name>/<n>/`, made once, locked while training, found again by name or path.

config.yaml (resolved)  env.json  run.lock  metrics.jsonl  events.out.tfevents.*  checkpoints/
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from tdt.train._lock import Locked, lock
from tdt.train.checkpoint import CheckpointError, CheckpointStore
from tdt.utils._files import fsync_folder

ROOT = "runs"


class RunError(Exception):
    """A run that cannot be made, found or locked; the message says which and why."""


class Run:
    """One run's folder. Reading needs no lock; `create` and `lock` hold it until `close`, or the process ends.

    >>> import tempfile
    >>> with Run.create(tempfile.mkdtemp(), "digits", "seed: 0") as run:
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
    ) -> Run:
        """A new, locked run: `root/name/<n>` with the next free n, or exactly `folder`.

        config_text goes to `config.yaml`; where it ran, and `extra`, to `env.json`. Raises RunError for a name that
        is no plain folder name and for a `folder` that has anything in it.
        """
        where = Path(root, _checked(name)) if folder is None else Path(folder)
        try:
            run = cls(_next_folder(where) if folder is None else _claim(where)).lock()
        except OSError as error:
            raise OSError(error.errno, f"the run's folder could not be made: {error.strerror}", str(where)) from error
        try:
            run._describe(config_text, extra or {})
        except OSError as error:
            run.close()
            if isinstance(error, FileExistsError):  # somebody else was faster with the same `folder`
                raise RunError(f"{run.folder} already holds a run; give another folder") from error
            raise OSError(error.errno, f"the run could not be begun: {error.strerror}", str(run.folder)) from error
        return run

    def _describe(self, config_text: str, extra: Mapping[str, Any]) -> None:
        with open(self.folder / "config.yaml", "x", encoding="utf-8") as file:
            file.write(config_text)
        from tdt.train._environment import environment  # on use: it loads importlib.metadata and subprocess

        record = json.dumps(environment() | dict(extra), indent=2)
        (self.folder / "env.json").write_text(record + "\n", encoding="utf-8")
        fsync_folder(self.folder)
        fsync_folder(self.folder.parent)

    @classmethod
    def open(cls, where: str | os.PathLike[str], root: str | os.PathLike[str] = ROOT) -> Run:
        """The run at a path or called `name/n`; for `name` or its folder the newest. RunError names the nearest."""
        for path in (Path(where), Path(root, where)):
            if _is_run(path):
                return cls(path)
            numbers = [number for number in _numbers(path) if _is_run(path / str(number))]
            if numbers:
                return cls(path / str(numbers[-1]))
        raise RunError(_not_found(str(where), Path(root)))

    @classmethod
    def all(cls, root: str | os.PathLike[str] = ROOT) -> list[Run]:
        """Every run under `root`, by name and number."""
        names = sorted(path for path in Path(root).iterdir() if path.is_dir()) if Path(root).is_dir() else []
        folders = (name / str(number) for name in names for number in _numbers(name))
        return [cls(folder) for folder in folders if _is_run(folder)]

    @property
    def name(self) -> str:
        """`<name>/<n>`: the last two parts of the folder's path."""
        return "/".join(self.folder.absolute().parts[-2:])

    def checkpoints(self, keep: int | None = 3) -> CheckpointStore:
        """The run's checkpoints."""
        return CheckpointStore(self.folder / "checkpoints", keep)

    def config_text(self) -> str:
        """The resolved config that the run was made with."""
        return (self.folder / "config.yaml").read_text(encoding="utf-8")

    def rewrite_config(self, text: str) -> None:
        """Keep another config from here on. Only for who holds the lock."""
        temporary = self.folder / f".config.{os.getpid()}.tmp"
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, self.folder / "config.yaml")

    def lock(self) -> Run:
        """Make this process the one that trains here. Raises RunError while another one does."""
        try:
            self._lock = lock(self.folder / "run.lock")
        except Locked as error:
            raise RunError(f"{self.folder} is being trained {error}; wait for it, or stop it first") from error
        return self

    def close(self) -> None:
        """Let others train here."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def delete(self) -> None:
        """Remove the run, which must be locked, with everything in it.

        RunError where the folder is no run's own: it lacks what every run has. First it gets a name that is no run's, so
        that a deletion cut short leaves no half of a run behind.
        """
        assert self._lock is not None
        lacking = [name for name in ("config.yaml", "env.json") if not (self.folder / name).is_file()]
        if lacking or self.folder.is_symlink():
            what = "is a link" if self.folder.is_symlink() else f"has no {lacking[0]}"
            raise RunError(f"{self.folder} {what}: it may hold more than a run; remove it by hand")
        doomed = self.folder.with_name(f".{self.folder.name}.{os.getpid()}.deleted")
        self.folder.rename(doomed)
        shutil.rmtree(doomed)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def find_checkpoint(where: str | os.PathLike[str], root: str | os.PathLike[str] = ROOT) -> Path:
    """The checkpoint file `where`, or of the run `where` the best one, else the last.

    Raises RunError for no such run, CheckpointError for a run without a checkpoint.
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
    run = Run.open(where, root)
    for name in ("best", "last"):
        with suppress(CheckpointError):
            return run.checkpoints().resolve(name)
    beside = [one.name for one in Run.all(root) if one.folder.parent == run.folder.parent and one.checkpoints().steps()]
    advice = f"; {beside[-1]} has one" if beside else ""
    raise CheckpointError(f"{run.folder} has no checkpoint: the run has not come to its first{advice}")


def _checked(name: str) -> str:
    if re.fullmatch(r"\w[\w.+=,@-]{0,99}", name):
        return name
    raise RunError(f"run name {name!r} is no plain folder name; use letters, digits and _ . + = , @ -, at most 100")


def _next_folder(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    number = max(_numbers(parent), default=0)
    while True:
        number += 1
        try:
            (parent / str(number)).mkdir()  # the one step that two processes cannot both do
            return parent / str(number)
        except FileExistsError:
            continue


def _claim(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise RunError(f"{folder} is not empty, and a run never overwrites; give another folder or resume that run")
    return folder


def _numbers(parent: Path) -> list[int]:
    if not parent.is_dir():
        return []
    return sorted(int(path.name) for path in parent.iterdir() if re.fullmatch(r"[1-9][0-9]*", path.name))


def _is_run(folder: Path) -> bool:
    """Whether there is something to go on with: not where the disk was full before the config was written."""
    return (folder / "checkpoints").exists() or all((folder / part).exists() for part in ("run.lock", "config.yaml"))


def _not_found(where: str, root: Path) -> str:
    names = sorted(path.name for path in root.iterdir() if _numbers(path)) if root.is_dir() else []
    names += [f"{name}/{number}" for name in names for number in _numbers(root / name)]
    import difflib

    near = difflib.get_close_matches(where, names, n=1)
    if near:
        return f"no run {where!r}; did you mean {near[0]!r}?"
    there = f"{root} has {', '.join(names[:5])}" if names else f"{root.absolute()} has no runs"
    return f"no run {where!r}; {there}"
