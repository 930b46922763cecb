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
    is_example = False  # between `>>>` and the next empty line
    for line, following in zip(inputs, [*inputs[1:], ""], strict=True):
        is_example = bool(line.strip()) and (is_example or line.startswith(">>> "))
        if (match := TITLE.match(line)) and match[1] == "Args" and match[2]:  # "Args: those of X, and", before entries
            section = "Args"
            lines += ["", f"Arguments: {match[2]}", *(["", "Args:"] if following.startswith("    ") else [])]
        elif match:
            section = match[1]
            lines += ["", f"{section}:", *([f"    {shown(section, match[2])}"] if match[2] else [])]
        elif section == "Args" and (match := ENTRY.match(line)):
            names, description = match[1].split(", "), match[2]
            lines += [f"    {name}: See `{names[-1]}`." for name in names[:-1]] + [f"    {names[-1]}: {description}"]
        elif is_example:
            section = ""
            lines.append(line)
        else:
            if line and not line.startswith(" "):
                section = ""
            lines.append(shown(section, line))
    return with_fences("\n".join(lines))


def shown(section: str, line: str) -> str:
    """A line as Markdown: the asterisk of a shape is no emphasis, `[i][j]` no link."""
    line = line.replace("*", r"\*") if section == "Shape" else line
    return "`".join(part if i % 2 else part.replace("][", r"]\[") for i, part in enumerate(line.split("`")))


def with_fences(text: str) -> str:
    """`text` with each example, from `>>>` to the next empty line, as a block of code."""
    return re.sub(r"^>>> .*?(?=\n\s*\n|\Z)", r"```pycon\n\g<0>\n```", text, flags=re.MULTILINE | re.DOTALL)
