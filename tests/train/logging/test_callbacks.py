"""Callbacks: called at fixed points of a run, stop it, and have their state in its checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import tdt
from tdt.train import Callback, Run, StopTraining, fit
from tdt.train.config import ConfigError, imports, registry
from tdt.train.errors import StepError
from tdt.train.runs import checkpoint
from tdt.train.runs.checkpoint import CheckpointError
from tests.commands.running import SMALL


class Crash(BaseException):
    """Ends a run as suddenly as a signal that cannot be caught."""


class Calls(Callback):
    """Keeps what it was called with; crashes before `crash`, stops at `stop`."""

    def __init__(self, crash: int = 0, stop: tuple[str, int] = ("", 0)) -> None:
        self.crash, self.stop = crash, stop
        self.calls: list[Any] = []
        self.total = np.zeros(2)

    def _note(self, name: str, event: Any) -> None:
        self.calls.append([name, event.step])
        if (name, event.step) == self.stop:
            raise StopTraining("enough")

    def on_start(self, event, parts):
        assert event.resumed == bool(self.calls)

    def on_step(self, event, parts):
        if event.step == self.crash:
            raise Crash
        self.total += [event.step, tdt.rand(()).item()]
        with tdt.no_grad():
            parts.model[1].bias.add_(1e-3 * len(self.calls))  # so that its state shows in the weights
        self._note("step", event)

    def on_validation(self, event, parts):
        assert set(event.scalars) == {"valid/loss", "valid/accuracy"}
        self._note("validation", event)

    def on_checkpoint(self, event, parts):
        assert Path(event.path).is_file()
        self._note(f"checkpoint{' best' if event.best else ''}", event)

    def on_end(self, event, parts):
        self.calls.append(["end", event.reason])

    def state_dict(self):
        return {"calls": self.calls, "total": self.total}

    def load_state_dict(self, state):
        self.calls, self.total = list(state["calls"]), state["total"]


STEPS: dict[str, Any] = {"quiet": True, "checkpoint__every": "2 steps", "checkpoint__keep": 9, "train__steps": 10}


def test_callbacks_are_called_in_the_order_of_the_run(tmp_path):
    called = Calls()
    fit(SMALL, run_dir=tmp_path / "run", callbacks=[called], **STEPS | {"checkpoint__every": "5 steps"})
    steps = [["step", step] for step in range(1, 11)]
    assert called.calls == [
        *steps[:5], ["checkpoint", 5], *steps[5:9], ["validation", 9], ["checkpoint best", 9],
        steps[9], ["validation", 10], ["checkpoint best", 10], ["end", "done"],
    ]  # fmt: skip


@pytest.mark.parametrize("crash", [3, 4, 10])
def test_a_run_that_is_killed_and_resumed_ends_with_the_same_states(crash, tmp_path):
    whole, killed, rest = Calls(), Calls(crash), Calls()
    fit(SMALL, run_dir=tmp_path / "whole", callbacks=[whole], **STEPS)
    with pytest.raises(Crash):
        fit(SMALL, run_dir=tmp_path / "parts", callbacks=[killed], **STEPS)
    fit(resume=tmp_path / "parts", callbacks=[rest], quiet=True)
    assert rest.calls == whole.calls and rest.total.tobytes() == whole.total.tobytes()
    ends = [checkpoint.load(Run(tmp_path / name).checkpoints[10])[0] for name in ("whole", "parts")]
    assert ends[0].keys() == ends[1].keys()
    assert all(ends[0][name].tobytes() == ends[1][name].tobytes() for name in ends[0])


@pytest.mark.parametrize(
    ("stop", "last"), [(("step", 3), 3), (("validation", 9), 9), (("checkpoint", 2), 3), (("step", 9), 9)]
)
def test_stop_training_ends_the_run_with_a_validation_a_checkpoint_and_the_test(stop, last, tmp_path):
    run = fit(SMALL, run_dir=tmp_path / "run", callbacks=[Calls(stop=stop)], **STEPS)
    assert (run.state, run.ended_by, run.step) == ("done", "Calls: enough", last)
    assert run.metrics["valid/accuracy"].steps[-1] == last and max(run.checkpoints) == last
    assert "test/accuracy" in run.metrics
    assert fit(resume=run, callbacks=[Calls()], quiet=True).step == last  # it is done


def test_an_exception_of_a_callback_fails_the_run_and_names_it(tmp_path):
    class Wrong(Callback):
        def on_step(self, event, parts):
            raise KeyError("x")

    class WrongEnd(Callback):
        def on_end(self, event, parts):
            raise ValueError("no space")

    with pytest.raises(StepError, match="^Wrong.on_step failed at step 1: KeyError: 'x'"):
        fit(SMALL, run_dir=tmp_path / "a", callbacks=[Wrong()], quiet=True)
    with pytest.raises(StepError, match="^WrongEnd.on_end failed at step 3: no space"):
        fit(SMALL, run_dir=tmp_path / "b", callbacks=[WrongEnd()], quiet=True, train__steps=3)
    assert [Run(tmp_path / name).state for name in "ab"] == ["failed", "failed"]


def test_a_run_is_resumed_only_with_its_callbacks(tmp_path):
    run = fit(SMALL, run_dir=tmp_path / "run", callbacks=[Calls(), Calls()], quiet=True, train__steps=2)
    with pytest.raises(CheckpointError, match="was trained with the callback Calls 2"):
        fit(resume=run, callbacks=[Calls()], train__steps=3, quiet=True)
    assert fit(resume=run, callbacks=[Calls(), Calls(), Callback()], train__steps=3, quiet=True).step == 3


def test_a_state_without_its_inverse_is_refused():
    with pytest.raises(NotImplementedError, match="Callback must define load_state_dict"):
        Callback().load_state_dict({"n": 1})
    Callback().load_state_dict(Callback().state_dict())


CODE = """
from tdt.train import Callback, StopTraining
class StopAfter(Callback):
    def __init__(self, steps: int):
        self.steps = steps
    def on_step(self, event: object, parts: object) -> None:
        if event.step == self.steps:
            raise StopTraining("so it is written")
"""


def test_a_config_names_callbacks_of_its_imports(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "_allowed", False)
    monkeypatch.setattr(registry.callbacks, "entries", {})
    (tmp_path / "mine.py").write_text(CODE)
    config = yaml.safe_load(SMALL) | {"imports": [str(tmp_path / "mine.py")], "callbacks": ["StopAfter(2)"]}
    with pytest.raises(ConfigError, match="trust=True"):
        fit(config, run_dir=tmp_path / "run")
    run = fit(config, run_dir=tmp_path / "run", trust=True, quiet=True)
    assert run.ended_by == "StopAfter: so it is written" and run.config["callbacks"] == ["StopAfter(2)"]
    with pytest.raises(ConfigError) as wrong:
        fit(config | {"callbacks": ["StopAfter(two)", "StopAfer(1)"]}, trust=True)
    first, second = str(wrong.value).splitlines()
    assert "callbacks.0" in first and "steps" in first
    assert "callbacks.1" in second and "did you mean 'StopAfter'" in second, second
