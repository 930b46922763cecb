"""Summaries of runs, remembered beside them by the state of each run's files, so that a list of hundreds is fast."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tdt._files import read_file, replace_file
from tdt.train.runs import history
from tdt.train.runs.history import History
from tdt.train.runs.run import METRICS_FILE, PRUNED_FILE, RunFolder

INDEX_FILE = ".index.json"  # in the folder that contains all runs; it can be deleted at any time
FORMAT = 1  # of the file; increased whenever `History` reads something else from the same files
FILES = ("config.yaml", METRICS_FILE, PRUNED_FILE)
_FIELDS = ("step", "epochs", "ended", "began", "seconds")
_SETTINGS = ("metrics", "loss", "train.epochs", "checkpoint.best")  # what `History` derives something from


def summaries(runs: Sequence[RunFolder], root: Path) -> list[History]:
    """The history of each run, without the numbers per step. Of each series the best and the last point, of the settings
    those that decide which is best. Whether a run is being trained is always checked.
    """
    path = root / INDEX_FILE
    known, changed = _load(path), False
    histories = []
    for run in runs:
        state, entry = _state(run), known.get(run.name)
        one = _restored(run, entry[1]) if entry is not None and entry[0] == state else None
        if one is None:
            one, changed = _reduced(history.read(run, steps=False)), True
        else:
            history.read_holder(one)
        histories.append(one)
        if one.faults:
            known.pop(run.name, None)
        else:
            known[run.name] = [state, _record(one)]
    if changed:
        _store(path, {name: entry for name, entry in known.items() if os.path.lexists(root / name)})
    return histories


def _load(path: Path) -> dict[str, Any]:
    """The remembered states and summaries by name of run; empty if there are none, or not of this format."""
    try:
        found = json.loads(read_file(path))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("runs"), dict):
        return {}
    return {name: entry for name, entry in found["runs"].items() if isinstance(entry, list) and len(entry) == 2}


def _store(path: Path, runs: dict[str, Any]) -> None:
    try:
        replace_file(path, json.dumps({"format": FORMAT, "runs": runs}).encode())
    except OSError:
        return  # another user's folder, or a full disk: the next list takes longer


def _state(run: RunFolder) -> list[list[int] | None]:
    """What changes when a file of the run does: time, size and inode of each."""
    found: list[list[int] | None] = []
    for name in FILES:
        try:
            about = os.stat(os.path.join(run.folder, name), follow_symlinks=False)
            found.append([about.st_mtime_ns, about.st_size, about.st_ino])
        except OSError:
            found.append(None)
    return found


def _reduced(one: History) -> History:
    series = {}
    for tag, points in one.series.items():
        best = one.best(tag)
        series[tag] = [points[-1]] if best is None or best == points[-1] else [best, points[-1]]
    settings = {key: value for key, value in one.settings.items() if key.startswith(_SETTINGS)}
    return replace(one, series=series, settings=settings)


def _record(one: History) -> dict[str, Any]:
    return {name: getattr(one, name) for name in _FIELDS} | {"series": one.series, "settings": one.settings}


def _restored(run: RunFolder, record: Any) -> History | None:
    """The history that `_record` was made of; None if it is damaged."""
    try:
        series = {
            tag: [(int(step), float(value)) for step, value in points] for tag, points in record["series"].items()
        }
        settings = {str(key): str(value) for key, value in record["settings"].items()}
        ended = record["ended"] and (str(record["ended"][0]), str(record["ended"][1]))
        began = None if record["began"] is None else float(record["began"])
        step, epochs, seconds = int(record["step"]), int(record["epochs"]), float(record["seconds"])
        return History(run, series, settings, step, epochs, ended, began, seconds)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        return None
