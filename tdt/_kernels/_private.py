"""Folders that no other user of this machine can change, so that their files may be run as code."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

MAX_LINKS = 40
GROUP_OR_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class UntrustedFolder(OSError):
    """Another user can change files in the folder; the message gives the reason and the remedy."""


def private_folder(folder: str | os.PathLike[str]) -> Path:
    """Resolve the links of `folder`, create it if it is missing (mode 0700), and check that only this user can change it.

    All folders and links from the root down are checked. Each must belong to this user or to the owner of "/", as other
    owners could change its mode, and must not be writable by other users, as they could replace its entries. Folders with
    the sticky bit, such as /tmp, may be writable, as users can replace only their own entries there. The last folder must
    belong to this user, must not be a link, and must not be writable by others even with the sticky bit. Checked folders
    cannot change afterwards, since only those owners could change them.

    Raises:
        UntrustedFolder: when another user can change the folder.
        OSError: when it is not a folder, cannot be created, or files cannot be created in it.
    """
    path = Path(os.path.abspath(folder))
    if hasattr(os, "geteuid"):
        path = _checked(path)
    else:  # Windows: the folders in question lie under the user's profile, whose rights others do not have
        path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=path):
        return path


def belongs_to_user(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user and is not writable by others."""
    return not hasattr(os, "geteuid") or (
        status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & GROUP_OR_OTHERS_WRITE
    )


def _checked(path: Path) -> Path:
    place, names = Path(path.anchor), [*reversed(path.parts[1:])]
    _check_writers(place, place.stat())
    links = 0
    while names:
        name = names.pop()
        if name == "..":  # in a link's target; the parents of a checked folder have been checked
            place = place.parent
            continue
        entry = place / name
        try:
            status = entry.lstat()
        except FileNotFoundError:
            entry.mkdir(mode=0o700, exist_ok=True)  # another process may have created it in the meantime
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
        if not names and not belongs_to_user(status):  # files that others created there would remain
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
