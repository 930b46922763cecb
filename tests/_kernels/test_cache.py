"""The kernel cache: what is damaged is compiled again, and what another user can change is not used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from tdt._kernels import _cache
from tdt.train.checks import checkup
from tests._kernels.damage import damages

CODE = bytes(range(256)) * 9
NAME = "fold_cpu._rows-float-sum.o"

POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the rights of files are POSIX's")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A cache of this process, with one kernel in it."""
    folder = tmp_path / "kernels-0"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(_cache, "place", lambda: _cache.Place(folder, ()))
    _cache.keep(NAME, CODE)
    return folder


def test_saved_kernels_are_loaded_and_the_folder_has_nothing_else(folder):
    assert _cache.load(NAME) == CODE
    assert [path.name for path in folder.iterdir()] == _cache.names() == [NAME]
    assert (folder / NAME).read_bytes().startswith(CODE)  # so that objdump reads it


def test_loading_a_kernel_takes_memory_of_its_size(folder):
    tracemalloc.start()
    try:
        assert _cache.load(NAME) == CODE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * len(CODE) + 100_000


def test_a_damaged_kernel_counts_as_missing_and_is_replaced(folder):
    whole = (folder / NAME).read_bytes()
    kinds = 0
    for kind, wrong in damages(whole, seed=0):
        (folder / NAME).write_bytes(wrong)
        assert _cache.load(NAME) is None, kind
        kinds += 1
    assert kinds > 150
    _cache.keep(NAME, CODE)
    assert _cache.load(NAME) == CODE


def test_a_kernel_under_the_name_of_another_or_of_another_version_counts_as_missing(folder, monkeypatch):
    shutil.copy(folder / NAME, folder / "another.o")
    assert _cache.load("another.o") is None
    shutil.copytree(folder, folder.parent / "kernels-1")
    monkeypatch.setattr(_cache, "place", lambda: _cache.Place(folder.parent / "kernels-1", ()))
    assert _cache.load(NAME) is None


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _huge(path: Path) -> None:
    with open(path, "r+b") as file:
        file.truncate(1 << 40)


@POSIX
@pytest.mark.parametrize("make", [_link, _pipe, _folder, _huge, lambda path: path.chmod(0o620)])
def test_only_a_regular_file_that_is_closed_to_others_is_loaded(folder, make):
    make(folder / NAME)
    assert _cache.load(NAME) is None


@POSIX
def test_a_file_of_another_user_is_not_loaded(folder, monkeypatch):
    own_uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own_uid + 1)
    assert _cache.load(NAME) is None


@pytest.mark.parametrize(("module", "call"), [(_cache, "_checksum"), (os, "replace")])  # while it is written, and then
def test_where_a_kernel_cannot_be_saved_it_is_reported_and_nothing_is_left(folder, monkeypatch, module, call):
    def fails(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, call, fails)
    with pytest.warns(UserWarning, match="compiled kernels are not kept in .*No space left"):
        _cache.keep("other.o", CODE)
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_numba_settings_in_the_working_folder_use_another_cache(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = _cache._fingerprint.__wrapped__()
    (tmp_path / ".numba_config.yaml").write_text("opt: 0\n")
    assert _cache._fingerprint.__wrapped__() != plain


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has one place for caches")
def test_a_relative_cache_folder_is_ignored(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _cache._user_cache() == tmp_path / ".cache/tdt"


@POSIX
def test_the_working_folder_is_no_place_for_temporary_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert _cache._private_temporary() is None
    tmp_path.chmod(0o1777)  # as /tmp is
    assert _cache._private_temporary() == tmp_path / f"tdt-{os.geteuid()}"


DOCTOR = "import tdt.cli; raise SystemExit(tdt.cli.run(['doctor', '--json']))"


def doctor(cache: Path, temporary: Path) -> tuple[str, str]:
    """What `tdt doctor`, in a process of its own, says of the kernels."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "TMPDIR": str(temporary)}
    command = [sys.executable, "-W", "error", "-c", DOCTOR]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, cwd=Path.cwd())
    assert ended.returncode == 0, ended.stderr
    found = {one["what"]: one for one in json.loads(ended.stdout)["findings"]}
    assert found["gradient"]["state"] == "ok"
    return found["kernels"]["state"], found["kernels"]["said"]


@POSIX
@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has one place for caches")
@pytest.mark.skipif(os.environ.get("TDT_KERNELS") == "reference", reason="kernels are off")
def test_doctor_counts_damaged_kernels_and_names_a_cache_that_others_can_change(tmp_path, monkeypatch):
    list(checkup._gradient())  # whose kernels are those that doctor needs
    warm = _cache.cache_folder()
    cache, temporary = tmp_path / "cache", tmp_path / "tmp"
    temporary.mkdir()
    shutil.copytree(warm, cache / "tdt" / warm.name)
    kernels = sorted((cache / "tdt" / warm.name).glob("*.o"))
    for number, path in enumerate(kernels):
        kinds = [wrong for _, wrong in damages(path.read_bytes(), seed=number, every=2000, flips=3)]
        path.write_bytes(kinds[number % len(kinds)])
    state, message = doctor(cache, temporary)
    assert state == "note" and f"{len(kernels)} damaged or not of this user: compiled again" in message
    choose = _cache.place.__wrapped__
    monkeypatch.setattr(_cache, "place", lambda: _cache.Place(kernels[0].parent, ()))
    assert any(_cache.load(path.name) for path in kernels), "none was compiled again"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    cache.chmod(0o777)
    monkeypatch.setattr(_cache, "place", choose)
    (found,) = checkup._kernels()
    assert found.state == "note" and f"in {temporary}/tdt-{os.geteuid()}/" in found.message
    assert f"other users may write to {cache} (mode 0777); chmod go-w {cache}" in found.message
