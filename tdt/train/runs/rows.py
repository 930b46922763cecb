"""Per-sample state of metrics, saved beside the checkpoints in `checkpoints/rows/<step>.safetensors`.

Each file has the rows since the previous one, and a checkpoint lists the files that it needs. So checkpoints do not grow
with the data, and a run can still resume within an epoch with every score.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path

from tdt.train.metrics import Metric
from tdt.train.runs import checkpoint


class Rows:
    """The row files of one run, in `folder`, which is created when needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._first: dict[int, int] = {}  # checkpoint → the first file that it needs, or its own step

    def save(self, step: int, metrics: Mapping[str, Metric]) -> None:
        """Write the rows of `metrics` since the last call, before the checkpoint of `step`. Raises CheckpointError."""
        checkpoint.make_folder(self.folder.parent)
        arrays = {f"{name}/{key}": a for name, metric in metrics.items() for key, a in metric.take(step).items()}
        if arrays:
            checkpoint.make_folder(self.folder)
            checkpoint.save(self._file(step), arrays, {})
        self._first[step] = min((step, *(part for metric in metrics.values() for part in metric.parts)))

    def load(self, metrics: Mapping[str, Metric]) -> None:
        """Restore the rows of `metrics`, which list their files. Raises CheckpointError if a file is missing."""
        read = {part: checkpoint.load(self._file(part))[0] for part in {p for m in metrics.values() for p in m.parts}}
        for name, metric in metrics.items():
            for part in metric.parts:
                prefix = f"{name}/"
                metric.restore_rows(
                    {key.removeprefix(prefix): a for key, a in read[part].items() if key.startswith(prefix)}
                )

    def prune(self, steps: Iterable[int]) -> None:
        """Remove the files that none of the checkpoints of `steps` needs."""
        remaining = list(steps)
        if all(step in self._first for step in remaining):
            self._first = {step: self._first[step] for step in remaining}
            self._remove(lambda step: step < min(self._first.values()))

    def clean(self, parts: Mapping[int, Set[int]]) -> None:
        """Remove the files that no checkpoint needs. parts: step of a checkpoint → the files that it needs."""
        needed = set().union(*parts.values())
        self._first = {step: min((step, *files)) for step, files in parts.items()}
        self._remove(lambda step: step not in needed)

    def _remove(self, is_over: Callable[[int], bool]) -> None:
        """Remove files by step; other files and folders stay."""
        for path in self.folder.glob("*.safetensors"):
            step = int(path.stem) if re.fullmatch("[0-9]{8,19}", path.stem) else None
            if step is not None and path == self._file(step) and path.is_file() and is_over(step):
                path.unlink(missing_ok=True)

    def _file(self, step: int) -> Path:
        return self.folder / f"{step:08d}.safetensors"
