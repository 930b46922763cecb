"""A terminal for tests: a program runs on a pseudo-terminal, whose screen a terminal emulator draws."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyte


class Terminal:
    """A program on a terminal. A context manager, which ends the program.

    screen: what the terminal shows. frames: the screen's text after each piece of output.
    """

    def __init__(
        self, command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], width: int = 80, height: int = 40
    ) -> None:
        self.screen = pyte.Screen(width, height)
        self.frames: list[str] = []
        self._stream = pyte.ByteStream(self.screen)
        self._pid, self._ours = pty.fork()
        if self._pid == 0:
            os.chdir(cwd)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
            own = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
            os.execvpe(command[0], list(command), own)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._ours)  # SIGHUP
        self._wait()

    @property
    def text(self) -> str:
        """The lines of the screen, without spaces at their ends."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def style_of(self, text: str) -> pyte.screens.Char:
        """Colour and weight of the first character of `text` on the screen."""
        for number, line in enumerate(self.screen.display):
            if text in line:
                return self.screen.buffer[number][line.index(text)]
        raise AssertionError(f"{text!r} is not on the screen:\n{self.text}")

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def read(self, until: Callable[[str], bool] = lambda text: False, timeout: float = 60.0) -> str:
        """Show output until the screen's text fulfils `until` or the program ends. Returns the text."""
        end = time.monotonic() + timeout
        while not until(self.text):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._ours], [], [], left)[0]:
                raise AssertionError(f"nothing for {timeout} s; the screen shows:\n{self.text}")
            try:
                data = os.read(self._ours, 1 << 16)
            except OSError:  # Linux's way to say that the program has ended
                break
            if not data:
                break
            self._stream.feed(data)
            self.frames.append(self.text)
        return self.text

    def exit_code(self) -> int:
        """Wait for the end of the program."""
        self.read()
        return self._wait()

    def _wait(self) -> int:
        if self._pid:
            _, status = os.waitpid(self._pid, 0)
            self._pid, self._status = 0, os.waitstatus_to_exitcode(status)
        return self._status
