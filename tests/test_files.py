"""Files that are written safely: whole or not at all, never through a link, and where a file system lacks something."""

from __future__ import annotations

import errno
import os
import warnings
from pathlib import Path

import pytest

from tdt import _files
from tdt._files import fsync_folder, open_file, read_file, remove_temporary, replace_file, replacing


def failing(number: int):
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP])
def test_a_file_system_without_fsync_is_warned_of_once_and_used(tmp_path, monkeypatch, number: int):
    monkeypatch.setattr(os, "fsync", failing(number))
    monkeypatch.setattr(_files, "_warned", set())
    with pytest.warns(UserWarning, match="this file system cannot fsync"):
        replace_file(tmp_path / "x", b"1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fsync_folder(tmp_path)
    assert (tmp_path / "x").read_bytes() == b"1"


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_an_fsync_that_fails_names_the_file_and_leaves_the_old_one(tmp_path, monkeypatch, number: int):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", failing(number))
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        replace_file(path, b"new")
    assert (caught.value.errno, caught.value.filename) == (number, str(path))
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["x"]
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        fsync_folder(tmp_path)
    assert caught.value.filename == str(tmp_path)


@pytest.mark.parametrize("temporary", [False, True])
def test_a_write_that_fails_names_the_file_and_leaves_none(tmp_path, temporary: bool):
    path = tmp_path / "x"
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as caught, replacing(path):
        raise OSError(
            errno.ENOSPC, os.strerror(errno.ENOSPC), *([f"{tmp_path}/.x.{os.getpid()}.tmp"] if temporary else [])
        )
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    with pytest.raises(OSError, match="Connection refused") as caught, replacing(path):
        raise OSError(errno.ECONNREFUSED, "Connection refused")
    assert caught.value.filename is None
    with pytest.raises(OSError, match="other") as caught, replacing(path):
        raise OSError(errno.EIO, "of a file that is read", "other")
    assert caught.value.filename == "other" and os.listdir(tmp_path) == []


def test_a_link_is_replaced_and_never_written_through(tmp_path):
    other = tmp_path / "other"
    other.write_text("somebody else's")
    path = tmp_path / "run" / "x"
    path.parent.mkdir()
    path.symlink_to(other)
    path.with_name(f".x.{os.getpid()}.tmp").symlink_to(other)  # in the place of the temporary file
    with pytest.raises(OSError, match="is a symbolic link") as caught:
        open_file(path, os.O_RDWR | os.O_CREAT)
    assert caught.value.filename == str(path)
    replace_file(path, b"ours")
    assert path.read_bytes() == b"ours" and not path.is_symlink() and os.listdir(path.parent) == ["x"]
    assert other.read_text() == "somebody else's"


def test_special_files_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for ever
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="is not a regular file"):
            read_file(path)


def test_temporary_files_are_removed_and_nothing_else(tmp_path):
    (tmp_path / "00005" / "tag").mkdir(parents=True)
    for name in (".x.12.tmp", "00005/tag/.tensors.tsv.7.tmp", "x.tmp", ".x.tmp", "00005/.12.tmp"):
        (tmp_path / name).touch()
    (tmp_path / ".folder.12.tmp").mkdir()
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (outside / ".x.12.tmp").touch()
    (tmp_path / "link").symlink_to(outside)
    remove_temporary(tmp_path)
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if not path.is_dir()}
    assert left == {"x.tmp", ".x.tmp", "00005/.12.tmp"} and (outside / ".x.12.tmp").exists()
