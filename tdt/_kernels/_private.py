"""Folders that no other user of this machine can change. What lies in one may be run as code."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

MAX_LINKS = 40
GROUP_OR_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class UntrustedFolder(OSError):
    """Another user can change what lies in the folder; the message says why, and what to do."""


def private_folder(folder: str | os.PathLike[str]) -> Path:
    """`folder` without links, made where it is missing (mode 0700), once nobody but this user can change what is in it.

    Goes down from the root. Every folder and link on the way must belong to this user or to whoever owns "/", so that
    nobody else can open it to others, and nobody else may write into a folder, since they could exchange what it holds;
    into one with the sticky bit, as /tmp, they may, since there they can exchange only what is theirs. The last folder
    itself must be this user's, no link, and closed to others without exception. What was checked stays as it is: only
    the users named can change it.

    Raises:
        UntrustedFolder: another user can change it.
        OSError: it is no folder, cannot be made, or takes no files.
    """
    path = Path(os.path.abspath(folder))
    if hasattr(os, "geteuid"):
        path = _checked(path)
    else:  # Windows: the folders in question lie under the user's profile, whose rights others do not have
        path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=path):
        return path


def belongs_to_user(status: os.stat_result) -> bool:
    """Whether a file or folder is this user's, and closed to the writes of others."""
    return not hasattr(os, "geteuid") or (
        status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & GROUP_OR_OTHERS_WRITE
    )


def _checked(path: Path) -> Path:
    place, names = Path(path.anchor), [*reversed(path.parts[1:])]
    _check_writers(place, place.stat())
    links = 0
    while names:
        name = names.pop()
        if name == "..":  # of a link's target; what is above a checked folder has been checked
            place = place.parent
            continue
        entry = place / name
        try:
            status = entry.lstat()
        except FileNotFoundError:
            entry.mkdir(mode=0o700, exist_ok=True)  # another process may have been faster
            status = entry.lstat()
        if stat.S_ISLNK(status.st_mode) and names and links < MAX_LINKS:
            _check_owner(entry, status)
            links += 1
            target = Path(os.readlink(entry))
            place = Path(target.anchor) if target.is_absolute() else place
            names += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            continue
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(f"{entry} is {'a link' if stat.S_ISLNK(status.st_mode) else 'no folder'}")
        _check_owner(entry, status)
        if not names and not belongs_to_user(status):  # what others have put there would stay
            raise UntrustedFolder(f"{entry} is not closed to other users{_mode(status)}; remove it")
        _check_writers(entry, status)
        place = entry
    return place


def _check_owner(entry: Path, status: os.stat_result) -> None:
    if status.st_uid not in (os.geteuid(), os.stat(entry.anchor).st_uid):
        raise UntrustedFolder(f"{entry} belongs to another user (number {status.st_uid})")


def _check_writers(folder: Path, status: os.stat_result) -> None:
    if status.st_mode & GROUP_OR_OTHERS_WRITE and not status.st_mode & stat.S_ISVTX:
        raise UntrustedFolder(f"other users may write to {folder}{_mode(status)}; chmod go-w {folder}")


def _mode(status: os.stat_result) -> str:
    return f" (mode {stat.S_IMODE(status.st_mode):04o})"
