"""The results of `scripts/gpu_check`: a file for each command, which holds what each stage has found so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESTART = 3  # exit code of a stage whose process has lost the GPU, and is to go on behind the check that failed


class Results:
    """What the stages of a command have found: {stage: record}.

    Args:
        again: whether to begin with the record that is in the file.
    """

    def __init__(self, folder: Path, command: str, stage: str, again: bool):
        self.path, self.stage = folder / f"{command}.json", stage
        known = self._read()
        self.record: Any = known.get(stage, {}) if again else {}

    def _read(self) -> dict[str, Any]:
        return json.loads(self.path.read_text()) if self.path.is_file() else {}

    def save(self) -> None:
        """Write the stage's record to the file, in which those of others stay."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = json.dumps(self._read() | {self.stage: self.record}, indent=1, default=str) + "\n"
        new = self.path.with_suffix(".new")
        new.write_text(whole)
        new.replace(self.path)


def found(folder: Path, stage: str) -> Any:
    """The record of a stage, of whichever command; None if there is none."""
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text()).get(stage)
        if record is not None:
            return record
    return None
