"""Folders that no other user can change: a path to one that another user may have prepared is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tdt._kernels._private import UntrustedFolder, private_folder

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the rights of files are POSIX's")


@pytest.fixture
def home(tmp_path) -> Path:
    """A folder like a user's own."""
    home = tmp_path.resolve() / "home"
    home.mkdir(mode=0o755)
    return home


def test_missing_folders_are_created_closed_to_others(home):
    before = os.umask(0)
    try:
        assert private_folder(home / "a/b/c") == home / "a/b/c"
    finally:
        os.umask(before)
    assert [(home / name).stat().st_mode & 0o777 for name in ("a", "a/b", "a/b/c")] == [0o700] * 3
    assert private_folder(home / "a/b/c") == home / "a/b/c"
    assert not list((home / "a/b/c").iterdir())


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o722])
@pytest.mark.parametrize("where", [".", "cache", "cache/tdt", "cache/tdt/kernels"])
def test_a_folder_on_the_way_that_others_may_write_to_is_refused(home, where, mode):
    (home / "cache/tdt/kernels").mkdir(parents=True, mode=0o700)
    (home / where).chmod(mode)
    with pytest.raises(UntrustedFolder, match=f"mode 0{mode:o}"):
        private_folder(home / "cache/tdt/kernels")


def test_a_sticky_folder_is_trusted_on_the_way_but_not_as_the_folder(home):
    home.chmod(0o1777)
    assert private_folder(home / "tdt-0/kernels") == home / "tdt-0/kernels"
    with pytest.raises(UntrustedFolder, match="not closed to other users"):
        private_folder(home)


def test_links_of_this_user_are_followed_and_the_last_folder_is_none(home):
    (home / "disk").mkdir()
    (home / "cache").symlink_to("disk/../disk")
    assert private_folder(home / "cache/kernels") == home / "disk/kernels"
    (home / "cache/link").symlink_to(home / "disk/kernels")
    with pytest.raises(NotADirectoryError, match="is a link"):
        private_folder(home / "cache/link")


def test_a_link_in_a_folder_of_strangers_and_one_into_such_a_folder_are_refused(home):
    (home / "open").mkdir()
    (home / "own/kernels").mkdir(parents=True, mode=0o700)
    (home / "open/cache").symlink_to(home / "own")
    (home / "in").symlink_to("open/cache")
    (home / "open").chmod(0o777)
    for place in ("open/cache/kernels", "in/kernels"):
        with pytest.raises(UntrustedFolder, match=f"other users may write to {home}/open"):
            private_folder(home / place)


def test_links_in_a_circle_and_files_on_the_way_are_refused(home):
    (home / "a").symlink_to("b")
    (home / "b").symlink_to("a")
    (home / "file").touch()
    for place in ("a/kernels", "file/kernels", "file"):
        with pytest.raises(NotADirectoryError):
            private_folder(home / place)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("owned", ["cache", "cache/link", "cache/tdt", "cache/tdt/kernels"])
def test_what_another_user_owns_is_refused(home, owned):
    (home / "cache/tdt/kernels").mkdir(parents=True, mode=0o700)
    (home / "cache/link").symlink_to("tdt")
    os.chown(home / owned, 12345, 12345, follow_symlinks=False)
    with pytest.raises(UntrustedFolder, match="belongs to another user .number 12345"):
        private_folder(home / ("cache/link/kernels" if owned == "cache/link" else "cache/tdt/kernels"))


def test_a_user_takes_folders_of_the_administrator_but_no_others_folder_as_its_own(home, monkeypatch):
    own_uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own_uid + 1)
    with pytest.raises(UntrustedFolder, match="belongs to another user|not closed to other users"):
        private_folder(home)
