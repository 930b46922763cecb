"""Runs in surroundings without what only Linux, or only Linux and macOS have. The systems themselves are not tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.running import SMALL, environment, tdt

# After the standard library's modules, which choose by the real system. msvcrt is Windows' module of file locks.
PROGRAM = """
import builtins, io, multiprocessing.popen_spawn_posix, os, pathlib, platform, selectors, shutil, signal, socket, subprocess
import sys, tempfile, types, uuid

for name in {modules}:
    sys.modules[name] = None
for name in {of_os}:
    delattr(os, name)
for name in {signals}:
    delattr(signal, name)
sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=lambda descriptor, mode, count: None)

def without_proc(function):
    def found(path, *args, **options):
        if str(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return function(path, *args, **options)
    return found

builtins.open, io.open, os.stat = map(without_proc, (open, io.open, os.stat))
from tdt.cli import main
main()
"""
MACOS = {
    "modules": (),
    "of_os": ("sched_getaffinity", "sched_setaffinity", "posix_fallocate", "memfd_create"),
    "signals": (),
}
WINDOWS = {
    "modules": ("fcntl", "resource", "termios", "pty", "pwd", "grp"),
    "of_os": (*MACOS["of_os"], "fork", "getuid", "geteuid", "sysconf", "fchmod", "register_at_fork", "mkfifo", "getloadavg",
              "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY"),
    "signals": ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGPIPE"),
}  # fmt: skip


@pytest.mark.parametrize("system", [MACOS, WINDOWS], ids=["macOS", "Windows"])
def test_a_run_trains_resumes_and_is_evaluated_without_what_linux_has(tmp_path: Path, system: dict):
    (tmp_path / "small.yaml").write_bytes(SMALL.replace("\n", "\r\n").encode())

    def there(*arguments: str) -> str:
        command = [sys.executable, "-c", PROGRAM.format(**system), *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    there("train", "small.yaml", "train.epochs=1")
    resumed = there("train", "--resume", "small", "train.epochs=2")
    whole = tdt("train", "small.yaml", "--run-dir", "whole", cwd=tmp_path).stdout
    scores = [line for line in whole.splitlines() if line.startswith("test loss")]
    assert scores and scores[0] in resumed
    assert there("eval", "small", "--split", "test").splitlines()[-1] in scores[0]
