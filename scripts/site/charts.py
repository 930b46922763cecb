"""Draws the rooms of the architecture and the benchmark as SVG, legible on light and dark pages."""

from __future__ import annotations

import math
import re
from typing import Any
from xml.sax.saxutils import escape

STYLE = """text{font:13px system-ui,sans-serif;fill:#24292f}.s{font-size:11px;fill:#57606a}.b{font-weight:600}
.p{fill:#fff}.r{fill:#eef1f8;stroke:#8c9bc8}.c{fill:#fff;stroke:#b8c2e0}.f{fill:#3f51b5}.l{stroke:#d0d7de}.o{stroke:#57606a}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#9da7b3}.p{fill:#161b22}.r{fill:#1f2535;stroke:#5d6ea8}
.c{fill:#161b22;stroke:#3d4a75}.f{fill:#7986cb}.l{stroke:#30363d}.o{stroke:#9da7b3}}"""


def svg(width: int, height: int, title: str, body: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
        f'<title>{escape(title)}</title>\n<style>{STYLE}</style>\n<rect class="p" width="{width}" height="{height}" rx="6"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def rooms(page: str) -> list[tuple[list[str], list[tuple[str, str]], str]]:
    """Of each line of the picture in docs/architecture.md: the rooms, their inner rooms with descriptions, and a description."""
    picture = page.partition("## Rooms")[2].split("```")[1].strip("\n")
    found: list[tuple[list[str], list[tuple[str, str]], str]] = []
    begins = True
    for line in picture.splitlines():
        arrow, content = "│" in line, line.replace("│", " ").strip()
        if line.startswith("   ") and not arrow and not line.startswith(" " * 8):
            name, _, words = content.partition("  ")
            found[-1][1].append((name, words.strip()))
            continue
        names = content.removesuffix(strip_names(content)).split()
        words = re.sub(r";\s+", "; ", strip_names(content))
        if names and begins:
            found.append((names, [], words))
        elif content:
            before = found[-1]
            found[-1] = (before[0] + names, before[1], "; ".join(filter(None, [before[2].rstrip(";"), words])))
        begins = arrow
    return found


def strip_names(line: str) -> str:
    """A line without the names of rooms that it begins with."""
    return re.sub(r"^(?:tdt/\S+\s*)*", "", line)


def shortened(text: str, most: int) -> str:
    """A text without Markdown's marks of code, cut to `most` characters."""
    text = text.replace("`", "")
    return text if len(text) <= most else f"{text[: most - 1]}…"


def architecture(page: str) -> str:
    """The rooms from the command line, above, to the arrays, below; a file imports only downwards."""
    body, y, width = list[str](), 16, 780
    for names, inner, words in rooms(page):
        rows = -(-len(inner) // 5)
        height = 46 + 26 * rows
        body.append(f'<rect class="r" x="16" y="{y}" width="{width - 32}" height="{height}" rx="6"/>')
        shown = "  ".join(names)
        body.append(f'<text class="b" x="28" y="{y + 19}">{escape(shortened(shown, 100))}</text>')
        body.append(f'<text class="s" x="28" y="{y + 36}">{escape(shortened(words, 124))}</text>')
        for number, (name, _) in enumerate(inner):
            left, top = 28 + 146 * (number % 5), y + 42 + 26 * (number // 5)
            body.append(f'<rect class="c" x="{left}" y="{top}" width="138" height="20" rx="4"/>')
            body.append(f'<text class="s" x="{left + 8}" y="{top + 14}">{escape(name)}</text>')
        y += height + 20
        body.append(f'<path class="o" fill="none" d="M{width // 2} {y - 19}v13m-4-5l4 5l4-5"/>')
    body.pop()
    return svg(width, y - 4, "The rooms of tdt: a file imports only from rooms below its own", body)


def speed(measured: dict[str, Any]) -> str:
    """A bar for each network: PyTorch's time over tdt's, on a logarithmic scale."""
    rows = sorted(measured["networks"], key=lambda row: -row["ratio"])
    left, width, step = 210, 780, 19
    most = max(row["high"] for row in rows)
    least = min(1.0, *(row["low"] for row in rows)) * 0.9

    def place(ratio: float) -> float:
        return left + (width - left - 70) * math.log(ratio / least) / math.log(most / least)

    height = 66 + step * len(rows)
    body = [
        '<text class="b" x="16" y="24">How many times faster tdt trains than PyTorch: one thread, processor time</text>'
    ]
    for ratio in (0.5, 1, 2, 4, 8, 16, 32):
        if least <= ratio <= most:
            x, kind = place(ratio), "o" if ratio == 1 else "l"
            body.append(f'<path class="{kind}" d="M{x:.0f} 48V{height - 12}"/>')
            body.append(f'<text class="s" x="{x:.0f}" y="42" text-anchor="middle">{ratio:g} ×</text>')
    for number, row in enumerate(rows):
        y = 54 + step * number
        begin, end = sorted((place(1), place(row["ratio"])))
        body.append(f'<text class="s" x="{left - 10}" y="{y + 11}" text-anchor="end">{escape(row["network"])}</text>')
        body.append(f'<rect class="f" x="{begin:.1f}" y="{y + 2}" width="{max(1, end - begin):.1f}" height="11"/>')
        body.append(f'<path class="o" d="M{place(row["low"]):.1f} {y + 7.5}H{place(row["high"]):.1f}"/>')
        body.append(f'<text class="s" x="{place(row["high"]) + 6:.0f}" y="{y + 11}">{row["ratio"]:.2f}</text>')
    return svg(width, height, "Training steps of networks: PyTorch's time divided by tdt's", body)
