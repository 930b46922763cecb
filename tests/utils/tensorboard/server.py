"""A TensorBoard at work, as the tests ask it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen


@contextmanager
def tensorboard(logdir: Path, load_fast: str) -> Iterator[str]:
    """The address of a TensorBoard that watches `logdir` and answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        f"--logdir={logdir.name}",
        "--host=127.0.0.1",
        f"--port={port}",
    ]
    command += [f"--load_fast={load_fast}", "--reload_interval=1"]
    log = logdir.parent / "tensorboard.log"
    with open(log, "wb") as output:
        environment = os.environ | {"NO_PROXY": "127.0.0.1"}
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=logdir.parent)
    address, end = f"http://127.0.0.1:{port}", time.monotonic() + 60
    try:
        while not _answers(address):
            assert process.poll() is None and time.monotonic() < end, "TensorBoard does not answer"
            time.sleep(0.1)
        yield address
    except AssertionError as error:
        error.add_note(log.read_text())
        raise
    finally:
        process.terminate()
        process.wait()


def _answers(address: str) -> bool:
    try:
        urlopen(address, timeout=10).close()
    except (URLError, ConnectionError):
        return False
    return True
