"""A few of `scripts/forged_checkpoints`: metadata that no run wrote end in a message, not in a traceback."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest

from tdt.train.runs import checkpoint
from tests.fuzz.metadata import CONFIG, NUMBERS, VALUES, fault, killed_run, places

FIELDS = ("amp", "callbacks", "stopped_by", "data")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Runs that were killed, with the metadata of their last checkpoints."""
    place, found = tmp_path_factory.mktemp("runs"), {}
    for name, text in (("digits", CONFIG), ("numbers", NUMBERS)):
        run = killed_run(place / name / "run", text)
        found[name] = run, checkpoint.load(run / "checkpoints" / "last.safetensors")[1]
    return found


def changed(meta: dict[str, Any], keys: tuple[Any, ...], value: Any) -> dict[str, Any]:
    forged = copy.deepcopy(meta)
    parent: Any = forged
    for key in keys[:-1]:
        parent = parent[key]
    parent[keys[-1]] = value
    return forged


@pytest.mark.parametrize("field", FIELDS)
def test_fields_of_callbacks_scaled_targets_and_the_loss_scale_may_hold_anything(runs, tmp_path, field):
    run, meta = runs["numbers"]
    assert field in meta
    chance = random.Random(field)
    every = [(field,), *(keys for keys in places(meta) if keys[0] == field)]
    for keys in chance.sample(every, min(4, len(every))):
        value = chance.choice(VALUES)
        assert fault(run, tmp_path / "forged", changed(meta, keys, value)) is None, (keys, value)


@pytest.mark.parametrize("value", [[], [1.0], [1.0, 2.0, 3.0], 1.0])
def test_a_scale_of_other_targets_is_a_message(runs, tmp_path, value):
    run, meta = runs["numbers"]
    keys = ("data", "targets", "target", "scale")
    assert fault(run, tmp_path / "forged", changed(meta, keys, value)) is None


def test_a_schedule_that_has_ended_already_is_a_message(runs, tmp_path):
    run, meta = runs["digits"]
    assert fault(run, tmp_path / "forged", changed(meta, ("scheduler", "total_steps"), -1)) is None
