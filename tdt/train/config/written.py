"""What a config file writes, for completion: remembered by the state of the file, since loading PyYAML takes longer than all else
that Tab does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import platformdirs

from tdt._files import read_file, replace_file
from tdt.train.config.find import bundled_folder
from tdt.train.config.keys import KINDS

FORMAT = 1  # of the file; increased whenever `_names` gives something else for the same config
MOST = 50  # configs that are remembered


def written(name: str) -> dict[str, str]:
    """The key paths that a config writes, each with the name of its component, if it is one, else with "".

    Args:
        name: a file, or a bundled config. Empty if there is none that can be read.
    """
    path, memory = _path(name), Path(platformdirs.user_cache_dir("tdt")) / "completion.json"
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return {}
    state, known = [about.st_mtime_ns, about.st_size, about.st_ino], _load(memory)
    entry = known.pop(str(path), None)
    if isinstance(entry, list) and len(entry) == 2 and entry[0] == state and isinstance(entry[1], dict):
        return {str(key): str(component) for key, component in entry[1].items()}
    found = _names(path)
    _store(memory, dict([*known.items(), (str(path), [state, found])][-MOST:]))
    return found


def _path(name: str) -> Path:
    """The file of a config, as `find` finds it: an existing one, or else a bundled one of that name."""
    path = Path(name)
    if len(path.parts) > 1 or os.path.exists(path):
        return Path(os.path.abspath(path))
    return bundled_folder() / f"{path.stem if path.suffix in ('.yaml', '.yml') else path.name}.yaml"


def _names(path: Path) -> dict[str, str]:
    from tdt.train.config.errors import ConfigErrors
    from tdt.train.config.find import read_text
    from tdt.train.config.settings import settings

    text = read_text(path, ConfigErrors())
    found = {} if text is None else settings(text, str(path))
    return {key: value.partition("(")[0] if key in KINDS else "" for key, value in found.items()}


def _load(memory: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_file(memory))
    except (OSError, ValueError, RecursionError):  # none yet, or damaged
        return {}
    configs = found.get("configs") if isinstance(found, dict) and found.get("format") == FORMAT else None
    return configs if isinstance(configs, dict) else {}


def _store(memory: Path, configs: dict[str, Any]) -> None:
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        replace_file(memory, json.dumps({"format": FORMAT, "configs": configs}).encode())
    except OSError:
        return  # a folder that cannot be written, or a full disk: the next Tab takes longer
