"""`tdt check`: validate a config and list its layers, without training."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdt.commands._help import examples
from tdt.commands._options import ConfigName, Device, Json, Overrides, Root, Traceback, Trust, Verbose, Wide
from tdt.commands._output import print_lines
from tdt.commands._tables import print_json

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts

EXAMPLE = examples("tdt check digits-cnn", "tdt check my.yaml optimizer.lr=0.1 --json")


def check(
    config: ConfigName,
    overrides: Overrides = None,
    device: Device = None,
    verbose: Verbose = False,
    wide: Wide = False,
    json: Json = False,
    runs_root: Root = Path("runs"),
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Validate a config without training: report every mistake, or show its layers, samples and steps."""
    from tdt.train.config import ConfigError, draft

    try:
        read = draft(config, [*(overrides or ()), *([f"device={device}"] if device else ())])
        from tdt.train.loop.build import build
        from tdt.train.loop.warm_start import check_source

        parts = build(read, splits=(), dry_run=True)
        loading = check_source(parts, runs_root)
    except ConfigError as error:
        if not json:
            raise
        return print_json({"ok": False, "problems": [_flat(asdict(problem)) for problem in error.problems]}, 2)
    facts = _facts(parts)
    if json:
        return print_json({"ok": True, **facts, "weights": loading and loading.record()})
    from tdt.commands import _tables

    print_lines(_tables.layers(parts, wide=wide), whole=True, paint=_tables.paint)
    if verbose:
        print_lines(_tables.groups(parts, wide), whole=True, paint=_tables.paint)
    print_lines(_tables.steps(parts), *_tables.downloads(parts), *(loading.lines() if loading else ()))
    arguments = [config, *(overrides or ()), *(["--device", device] if device else ()), *(["--trust"] if trust else ())]
    print_lines(f"{parts.config.file}: no mistakes found; next: {shlex.join(['tdt', 'train', *arguments])}")
    return 0


def _facts(parts: Parts) -> dict[str, Any]:
    config = parts.config
    return {
        "name": config.name,
        "file": config.file,
        "device": str(parts.device),
        "parameters": sum(p.numel() for p in parts.model.parameters()),
        "layers": [asdict(row) for row in parts.rows],
        "samples": parts.samples,
        "steps_per_epoch": parts.length.steps_per_epoch,
        "steps": parts.length.steps,
        "warnings": [_flat(asdict(problem)) for problem in parts.warnings],
    }


def _flat(problem: dict[str, Any]) -> dict[str, Any]:
    from tdt.train._printable import shortened

    return problem.pop("source") | problem | {"message": shortened(problem["message"])}
