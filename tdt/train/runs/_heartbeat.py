"""A lock for file systems that have none: a file beside the lock file that names its process, and is touched regularly.

It is outdated when its process has ended (on this machine), or has not touched it for `OUTDATED` seconds (on another).
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from tdt._files import open_file, read_file

HEARTBEAT = 10.0  # seconds between two touches
OUTDATED = 90.0  # seconds; covers a few missed touches and clocks of machines that differ a little
CHECK_AFTER = 0.05  # seconds until a lock that was taken from a dead process is compared with what the file holds
MOST = 1000  # bytes of the file that are read


def owner_file(path: Path) -> Path:
    """The file that stands for the lock of `path`."""
    return path.with_name(f"{path.name}.owner")


class HeartbeatLock(FileIO):
    """The held lock: closing it removes the file, and a thread touches the file until then."""

    def __init__(self, path: Path, text: bytes) -> None:
        super().__init__(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w")
        self._path, self._text, self._pid = path, text, os.getpid()
        self._ended = threading.Event()
        self.write(text)
        threading.Thread(target=self._touch, name="lock heartbeat", daemon=True).start()

    def _touch(self) -> None:
        while not self._ended.wait(HEARTBEAT):
            with suppress(OSError):  # the file system may be away for a moment
                os.utime(self._path)

    def is_ours(self) -> bool:
        """Whether the file still names this process."""
        return _read(self._path) == self._text

    def close(self) -> None:
        if not self.closed and os.getpid() == self._pid:  # not in a forked child, where the parent holds the lock
            self._ended.set()
            if self.is_ours():
                with suppress(FileNotFoundError):
                    self._path.unlink()
        super().close()


def take(path: Path) -> HeartbeatLock | None:
    """The lock of `path`; None if another process holds it."""
    file, start = owner_file(path), started(os.getpid())
    text = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "started": start, "id": os.urandom(8).hex()})
    for _ in range(3):
        try:
            held = HeartbeatLock(file, text.encode())
        except FileExistsError:
            found = _read(file)
            if found is not None and _is_outdated(file, found):
                _remove(file, found)
                continue
            return None
        time.sleep(CHECK_AFTER)  # another process may have taken an outdated file for ours
        if held.is_ours():
            return held
        held.close()
    return None


def holder(path: Path) -> str | None:
    """The holder of the lock, as "by process 12 on host"; None if there is none, or if it is outdated."""
    file = owner_file(path)
    found = _read(file)
    if found is None or _is_outdated(file, found):
        return None
    facts = _facts(found)
    return f"by process {facts.get('pid')} on {facts.get('host')}"


def started(pid: int) -> str:
    """When a process started, as the system counts it: two processes with one number differ in it. "" if unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _is_outdated(file: Path, text: bytes) -> bool:
    facts = _facts(text)
    pid = facts.get("pid")
    if facts.get("host") == socket.gethostname() and type(pid) is int and pid > 0 and os.name != "nt":
        return not _is_alive(pid) or started(pid) != facts.get("started")
    try:
        return time.time() - file.stat().st_mtime > OUTDATED
    except FileNotFoundError:
        return True


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _remove(file: Path, outdated: bytes) -> None:
    """Remove the file if it still holds `outdated`; one that another process has written meanwhile is put back."""
    aside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    with suppress(FileNotFoundError):
        os.rename(file, aside)
        if _read(aside) != outdated and not file.exists():
            os.rename(aside, file)
        else:
            aside.unlink()


def _read(file: Path) -> bytes | None:
    try:
        return read_file(file, MOST)
    except FileNotFoundError:
        return None


def _facts(text: bytes) -> dict[str, Any]:
    """The facts in the file; empty while it is being written."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
