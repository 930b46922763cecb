"""Records a command in a real pseudo-terminal, and draws what its screen showed as an animated SVG."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import time
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import escape

import pyte

COLORS = {
    "default": "#d5dae3", "black": "#5c6370", "red": "#ff7b72", "green": "#7ee787", "brown": "#e3b341",
    "blue": "#79c0ff", "magenta": "#d2a8ff", "cyan": "#76e3ea", "white": "#f0f3f6",
}  # fmt: skip
BACKGROUND, PROMPT = "#161b22", "#7ee787"
WIDTH, HEIGHT, SIZE = 8.0, 18, 13  # pixels of a character, of a line, of the font
LONGEST, END = 0.3, 4.0  # seconds that a pause takes at most, and that the last screen stands
FRAMES = 30  # screens of a recording, at most

Run = tuple[str, str, bool]  # text, color, bold
Line = tuple[Run, ...]
Frame = tuple[float, list[Line]]  # seconds since the begin, lines


def record(arguments: list[str], folder: Path, columns: int, rows: int) -> list[Frame]:
    """The screens of a command with their times, in a terminal of `columns` × `rows` characters."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        arguments, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment | {"TERM": "xterm-256color"}
    )
    os.close(theirs)
    screen = pyte.Screen(columns, rows)
    stream = pyte.ByteStream(screen)
    start, frames = time.monotonic(), list[Frame]()
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the terminal is closed when the process has ended
            break
        if not data:
            break
        stream.feed(data)
        frames.append((time.monotonic() - start, lines(screen)))
    process.wait()
    os.close(ours)
    return shortened(frames)


def lines(screen: pyte.Screen) -> list[Line]:
    """The lines of a screen, each as runs of one color."""
    found = []
    for y in range(screen.lines):
        characters = [screen.buffer[y][x] for x in range(screen.columns)]
        runs = [
            ("".join(character.data for character in group), color, bold)
            for (color, bold), group in groupby(characters, key=lambda c: (c.fg, c.bold))
        ]
        while runs and not runs[-1][0].strip():
            runs.pop()
        found.append(tuple(runs))
    return found


def shortened(frames: list[Frame]) -> list[Frame]:
    """At most `FRAMES` screens that differ, with pauses cut to `LONGEST` seconds."""
    every = -(-len(frames) // FRAMES)
    chosen = [*frames[:-1][::every], *frames[-1:]]
    found, now, before = list[Frame](), 0.0, 0.0
    for when, shown in chosen:
        now, before = now + min(when - before, LONGEST), when
        if not found or shown != found[-1][1]:
            found.append((now, shown))
    return found


def drawn(command: str, frames: list[Frame], columns: int) -> str:
    """An SVG with the command and the screens that follow it. Without animation it shows the last screen."""
    used = max(y for _, shown in frames for y, line in enumerate(shown) if line) + 1
    width, height = round(columns * WIDTH) + 32, (used + 1) * HEIGHT + 48
    end = frames[-1][0] + (END if len(frames) > 1 else 0)
    prompt = text(0, (("$ ", PROMPT, True), (command, "default", True)))
    rules, body = [], [prompt]
    for y in range(used):
        for number, (first, last, line) in enumerate(periods(frames, y)):
            if not line:
                continue
            name = f"l{y}_{number}"
            if first or last is not None:
                stop = "" if last is None else f"{100 * last / end:.1f}%{{opacity:0}}"
                begin = "0%{opacity:0}" if first else ""
                rules.append(f"@keyframes {name}{{{begin}{100 * first / end:.1f}%{{opacity:1}}{stop}}}")
                rules.append(f"#{name}{{animation:{name} {end:.1f}s step-end infinite;opacity:{int(last is None)}}}")
            body.append(f'<g id="{name}">{text(y + 1, line)}</g>')
    style = "\n".join(
        [
            f"text{{font:{SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace;white-space:pre}}",
            *rules,
            "@media (prefers-reduced-motion){g{animation:none!important}}",
        ]
    )
    dots = "".join(f'<circle cx="{20 + 18 * i}" cy="18" r="5" fill="#30363d"/>' for i in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
        f"<title>$ {escape(command)}</title>\n<style>\n{style}\n</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>{dots}\n' + "\n".join(body) + "\n</svg>\n"
    )


def periods(frames: list[Frame], y: int) -> list[tuple[float, float | None, Line]]:
    """When line `y` shows what: begin, end (None for the last), content."""
    found: list[tuple[float, float | None, Line]] = []
    for when, shown in frames:
        line = shown[y]
        if found and found[-1][2] == line:
            continue
        if found:
            found[-1] = (found[-1][0], when, found[-1][2])
        found.append((when if len(frames) > 1 else 0.0, None, line))
    return found


def text(y: int, line: Line) -> str:
    """A line as SVG, every run at the place of its first character."""
    spans, column = [], 0
    for content, color, bold in line:
        shown = content.rstrip()
        if shown.strip():
            x, weight = 16 + column * WIDTH, ' font-weight="bold"' if bold else ""
            fill = COLORS.get(color.removeprefix("bright"), f"#{color}" if len(color) == 6 else color)
            spans.append(
                f'<tspan x="{x:g}" textLength="{len(shown) * WIDTH:g}" lengthAdjust="spacingAndGlyphs" '
                f'fill="{fill}"{weight}>{escape(shown)}</tspan>'
            )
        column += len(content)
    return f'<text y="{44 + y * HEIGHT}" xml:space="preserve">{"".join(spans)}</text>'
