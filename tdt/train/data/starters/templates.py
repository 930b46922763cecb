"""Configs that `tdt init` copies from those that come with tdt."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

from tdt._did_you_mean import did_you_mean
from tdt._files import replace_file
from tdt.train.config.find import SCHEMA, SCHEMA_LINE, bundled, bundled_folder
from tdt.train.data.starters.writing import UnsupportedDataError, run_name


def template(name: str, file: Path) -> str:
    """The text of the bundled config `name`, with `file` as its name."""
    known = bundled()
    if name not in known:
        meant = did_you_mean(name, known, f"templates: {', '.join(known)}")
        raise UnsupportedDataError(f"{name}: no such file or folder, and no template; {meant}")
    text = known[name].read_text(encoding="utf-8").replace(f"\nname: {name}", f"\nname: {run_name(file)}", 1)
    for data in bundled_folder().glob("*.csv"):  # paths are relative to the config file, which moves
        text = text.replace(f"path: {data.name},", f"path: {json.dumps(str(data))},")
    return text.replace(f"tdt train {name}", f"tdt train {shlex.quote(str(file))}")


def templates() -> dict[str, str]:
    """The bundled configs: name → description from the first comment after the schema line."""
    texts = {
        name: path.read_text(encoding="utf-8").removeprefix(f"{SCHEMA_LINE}{SCHEMA}\n")
        for name, path in bundled().items()
    }
    return {
        name: re.split(r" \(|[:,.]? *\n|[:,.] ", text.removeprefix("# "), maxsplit=1)[0] for name, text in texts.items()
    }


def copy_schema(folder: Path) -> None:
    """Copy the schema, which the first line of a config names to editors, to a config's folder if there is none yet.

    That line has a path relative to the config, so that it also holds on another machine.
    """
    if not os.path.lexists(folder / SCHEMA):
        replace_file(folder / SCHEMA, (bundled_folder() / SCHEMA).read_bytes())
