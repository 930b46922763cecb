"""Docstrings of tdt (CONTRIBUTING.md) in the form that Griffe's Google parser reads.

A section may stand on one line and need no blank line above it; one entry of `Args:` may describe several parameters.
"""

from __future__ import annotations

import re

TITLE = re.compile(r"^(Args|Shape|Returns|Raises|Source):(?: (.*))?$")
ENTRY = re.compile(r"^    (\w+(?:, \w+)+): (.*)$")


def google_style(text: str) -> str:
    """`text` with a blank line above each section, its content indented, and one entry for each parameter."""
    lines: list[str] = []
    section = ""
    inputs = text.splitlines()
    for line, following in zip(inputs, [*inputs[1:], ""], strict=True):
        if (match := TITLE.match(line)) and match[1] == "Args" and match[2]:  # "Args: those of X, and", before entries
            section = "Args"
            lines += ["", f"Arguments: {match[2]}", *(["", "Args:"] if following.startswith("    ") else [])]
        elif match:
            section = match[1]
            lines += ["", f"{section}:", *([f"    {shown(section, match[2])}"] if match[2] else [])]
        elif section == "Args" and (match := ENTRY.match(line)):
            names, description = match[1].split(", "), match[2]
            lines += [f"    {name}: See `{names[-1]}`." for name in names[:-1]] + [f"    {names[-1]}: {description}"]
        else:
            if line and not line.startswith(" "):
                section = ""
            lines.append(shown(section, line))
    return "\n".join(lines)


def shown(section: str, line: str) -> str:
    """A line as Markdown: the asterisk of a shape is no emphasis."""
    return line.replace("*", r"\*") if section == "Shape" else line
