"""A run from its folder to its test score; resumed, refused, warned about."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import shutil
import signal
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import tdt
from tdt.train.config import ConfigError, loads
from tdt.train.errors import NonFiniteLoss
from tdt.train.logging.events import Event, Notice, RunStarted, RunStopped, StepDone, TestDone
from tdt.train.loop._signals import StopRequest, exit_code
from tdt.train.runs import checkpoint, history
from tdt.train.runs.checkpoint import CheckpointStore
from tdt.train.runs.run import RunError, RunFolder
from tdt.train.session import Session
from tests.commands.running import SMALL
from tests.fuzz import metadata


class Stop(BaseException):
    """Ends a run as suddenly as a signal that cannot be caught."""


@pytest.fixture(autouse=True)
def _threads() -> Any:
    before = tdt.get_num_threads()
    yield
    tdt.set_num_threads(before)


def crash_at(step: int) -> Any:
    def crash(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == step:
            raise Stop

    return crash


def run(root: Path, *listeners: Any, text: str = SMALL) -> Path:
    """A run under `root`; its folder."""
    with Session.start(loads(text, "small.yaml"), root=root) as session:
        session.train(*listeners)
        return session.run.folder


def resumed(root: Path, name: str = "small") -> tuple[str, list[Event]]:
    events: list[Event] = []
    with Session.resume(name, root=root) as session:
        return session.train(events.append).reason, events


def test_a_run_folder_has_the_documented_files(tmp_path):
    folder = run(tmp_path)
    assert folder == tmp_path / "small" / "1"
    names = {path.name.partition(".")[0] for path in folder.iterdir()}
    assert names == {"config", "env", "run", "metrics", "events", "checkpoints"}
    assert loads((folder / "config.yaml").read_text()) == loads(SMALL, "small.yaml")
    assert {"versions", "git", "command"} <= json.loads((folder / "env.json").read_text()).keys()


def test_the_test_split_is_scored_with_the_best_weights(tmp_path):
    events: list[Event] = []
    folder = run(tmp_path, events.append, text=SMALL + "checkpoint: {best: valid/accuracy, keep: 1}\n")
    [tested] = [event for event in events if isinstance(event, TestDone)]
    assert tested.checkpoint == folder / "checkpoints" / "best.safetensors"
    assert tested.step == checkpoint.load(tested.checkpoint)[1]["step"]
    assert isinstance(events[-1], RunStopped) and events[-1].reason == "done"


@pytest.mark.parametrize(
    ("change", "ended"),
    [
        ("train.epochs=1", ("done", "epochs")),
        ("train={epochs: 2, steps: 3}", ("done", "steps")),
        ("train={epochs: 9, early_stopping: {patience: 1, min_delta: 9.0}}", ("done", "early stopping")),
        ("train={time: 0.001 seconds}", ("done", "time limit")),
        ("optimizer=SGD(lr=1e39)", ("non-finite", "the loss became ")),
    ],
)
def test_a_run_keeps_what_it_ended_by(tmp_path, change: str, ended: tuple[str, str]):
    with Session.start(loads(SMALL, "small.yaml", [change, "data.test=null"]), root=tmp_path) as session:
        with nullcontext() if ended[0] == "done" else pytest.raises(NonFiniteLoss):
            assert session.train().by == ended[1]
        assert history.read(session.run).state == "running"
    logged = history.read(session.run)
    assert logged.state == ended[0] and (logged.ended_by or "").startswith(ended[1])


def test_an_interrupted_run_reports_the_reason_until_it_resumes(tmp_path):
    def stop(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == 8:
            os.kill(os.getpid(), signal.SIGTERM)

    def fail(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == 10:
            raise ValueError("so it failed")

    folder = run(tmp_path, stop)
    assert (logged := history.read(RunFolder(folder))).state == "interrupted" and logged.ended_by == "SIGTERM"
    for listener, error, state, by in (
        (fail, ValueError, "failed", "so it failed"),
        (crash_at(12), Stop, "killed", None),
    ):
        with pytest.raises(error), Session.resume(folder) as session:
            session.train(listener)
        assert (logged := history.read(RunFolder(folder))).state == state and logged.ended_by == by


def test_a_run_whose_folder_is_removed_ends_and_leaves_no_half_of_one(tmp_path):
    def remove(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == 3:
            shutil.rmtree(tmp_path / "small")

    with pytest.raises(checkpoint.CheckpointError, match="could not be created: .*small/1 has been removed"):
        run(tmp_path, remove)
    assert not list(tmp_path.iterdir())


def test_a_wrong_config_leaves_no_folder(tmp_path):
    with pytest.raises(ConfigError):
        run(tmp_path / "runs", text=SMALL.replace("Linear(64, 10)", "Linear(63, 10)"))
    assert not (tmp_path / "runs").exists()


def test_a_run_that_ended_before_its_first_checkpoint_starts_again(tmp_path):
    with pytest.raises(Stop):
        run(tmp_path, crash_at(4))
    assert (tmp_path / "small" / "1" / "metrics.jsonl").read_text() == ""
    reason, events = resumed(tmp_path)
    assert reason == "done" and [event.step for event in events if isinstance(event, StepDone)] == list(range(1, 19))
    lines = (tmp_path / "small" / "1" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines if "StepDone" in line] == [5, 10, 15]


def test_the_threads_of_the_first_part_are_set_again(tmp_path):
    tdt.set_num_threads(2)
    with pytest.raises(Stop):
        run(tmp_path, crash_at(12))
    tdt.set_num_threads(1)
    resumed(tmp_path)
    assert tdt.get_num_threads() == 2


def test_other_versions_and_kernels_are_reported(tmp_path, monkeypatch):
    with tdt.backends.kernels(True), pytest.raises(Stop):
        run(tmp_path, crash_at(12))
    monkeypatch.setattr("tdt.train.session.versions", lambda: {"numpy": "9.9"})
    with tdt.backends.kernels(False):
        _, events = resumed(tmp_path)
    texts = [event.text for event in events if isinstance(event, Notice)]
    assert any("numpy was 2." in text and "is 9.9" in text for text in texts)
    assert any("kernels were fast and are reference" in text for text in texts)
    assert isinstance(next(event for event in events if not isinstance(event, Notice)), RunStarted)


def test_the_same_environment_is_not_reported(tmp_path):
    with pytest.raises(Stop):
        run(tmp_path, crash_at(12))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, events = resumed(tmp_path)
    assert not [event for event in events if isinstance(event, Notice)]


def test_a_run_whose_config_file_is_gone_resumes_from_its_checkpoint(tmp_path):
    with pytest.raises(Stop):
        run(tmp_path, crash_at(12))
    (tmp_path / "small" / "1" / "config.yaml").unlink()
    assert resumed(tmp_path)[0] == "done"


def test_a_trained_run_that_died_before_all_logs_had_its_test_is_tested_on_resume(tmp_path):
    def crash(event: Event) -> None:
        if isinstance(event, TestDone):
            raise Stop

    with pytest.raises(Stop):
        run(tmp_path, crash)
    assert "TestDone" in (tmp_path / "small" / "1" / "metrics.jsonl").read_text()  # the event file's thread may wait
    _, events = resumed(tmp_path)
    assert not [event for event in events if isinstance(event, StepDone)]
    assert [event for event in events if isinstance(event, TestDone)]
    with Session.resume("small", root=tmp_path) as session:
        assert session.complete


def test_a_damaged_checkpoint_is_refused_and_the_run_let_go(tmp_path):
    folder = run(tmp_path)
    last = folder / "checkpoints" / "last.safetensors"
    last.write_bytes(last.read_bytes()[:-10])
    for _ in range(2):  # the second time too: the lock was let go
        with pytest.raises(checkpoint.CheckpointError, match="damaged"):
            Session.resume("small", root=tmp_path)


@pytest.mark.parametrize(
    "facts", [{"step": True}, {"step": 2**63}, {"logs": {"metrics.jsonl": "x"}}, {"logs": {"metrics.jsonl": -3}}]
)
def test_facts_of_the_wrong_kind_are_refused(tmp_path, facts: dict[str, Any]):
    last = run(tmp_path) / "checkpoints" / "last.safetensors"
    tensors, meta = checkpoint.load(last)
    checkpoint.save(last, tensors, meta | facts)
    with pytest.raises(
        checkpoint.CheckpointError,
        match=f"not the checkpoint of a run: {next(iter(facts))} missing or of the wrong type",
    ):
        Session.resume("small", root=tmp_path)


def test_a_run_trained_by_another_process_is_refused(tmp_path):
    with Session.start(loads(SMALL, "small.yaml"), root=tmp_path), pytest.raises(RunError, match="is being trained"):
        Session.resume("small", root=tmp_path)


def test_a_warm_start_is_a_checkpoint_of_its_own(tmp_path):
    source = run(tmp_path) / "checkpoints" / "best.safetensors"
    with pytest.raises(Stop):
        run(tmp_path, crash_at(2), text=SMALL.replace("small", "tuned") + f"weights: {{from: '{source}'}}\n")
    source.unlink()
    events = resumed(tmp_path, "tuned")[1]
    assert [event.step for event in events if isinstance(event, StepDone)] == list(range(1, 19))


def test_a_warm_start_is_no_resumed_run(tmp_path):
    source = run(tmp_path) / "checkpoints" / "best.safetensors"
    config = loads(SMALL.replace("small", "tuned") + f"weights: {{from: '{source}'}}\n", "tuned.yaml")
    events: list[Event] = []
    with Session.start(config, root=tmp_path) as session:
        session.train(events.append)
    assert [event.resumed for event in events if isinstance(event, RunStarted)] == [False]


def test_signals_have_the_exit_codes_of_shells():
    assert (exit_code("SIGINT"), exit_code("SIGTERM")) == (130, 143)


def test_a_stop_request_restores_the_signal_handlers(tmp_path):
    import os
    import signal

    before = signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        assert stop.reason is None
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.reason == "SIGINT"
    assert signal.getsignal(signal.SIGINT) is before


def test_signals_to_a_process_that_is_about_to_end_are_ignored():
    before = signal.getsignal(signal.SIGTERM)
    try:
        with StopRequest() as stop:
            stop.ignore()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.reason is None
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_in_another_thread_signal_handlers_are_unchanged(tmp_path):
    from threading import Thread

    outcomes: list[Any] = []
    thread = Thread(target=lambda: outcomes.append(run(tmp_path)))
    thread.start()
    thread.join()
    assert outcomes == [tmp_path / "small" / "1"]


def test_a_run_resumed_with_more_epochs_ends_as_one_that_had_them_from_the_start(tmp_path):
    long = run(tmp_path / "long", text=SMALL.replace("epochs: 2", "epochs: 3"))
    short = run(tmp_path / "short")
    with Session.resume("small", root=tmp_path / "short", overrides=["train.epochs=3"]) as session:
        assert not session.complete
        session.train()
    ours, theirs = (checkpoint.load(folder / "checkpoints" / "last.safetensors") for folder in (short, long))
    assert ours[0].keys() == theirs[0].keys()
    assert all(ours[0][name].tobytes() == array.tobytes() for name, array in theirs[0].items())
    assert ours[1]["config"] == theirs[1]["config"] == (short / "config.yaml").read_text()
    lines = [
        [{k: v for k, v in json.loads(line).items() if not k.startswith("time/")} for line in text.splitlines()]
        for text in ((folder / "metrics.jsonl").read_text() for folder in (short, long))
    ]
    assert lines[0] == lines[1]


def test_a_run_with_shards_resumes_with_another_number_of_loader_workers(tmp_path):
    text = SMALL.replace("train: {", "train: {shards: 2, ")
    assert text != SMALL
    whole = run(tmp_path / "whole", text=text)
    with pytest.raises(Stop):
        run(tmp_path, crash_at(13), text=text)
    with Session.resume("small", root=tmp_path, overrides=["data.loader.num_workers=2"]) as session:
        assert "data.loader.num_workers: 0 → 2" in session.changes
        session.train()
        folder = session.run.folder
    assert loads((folder / "config.yaml").read_text()).data.loader.num_workers == 2
    ours, theirs = (checkpoint.load(one / "checkpoints" / "last.safetensors")[0] for one in (folder, whole))
    for name, array in theirs.items():
        assert name.startswith("loader/") or ours[name].tobytes() == array.tobytes(), name


def test_overrides_of_a_resumed_run_persist_where_it_is_killed_at_once(tmp_path):
    run(tmp_path)
    with Session.resume("small", root=tmp_path, overrides=["train.epochs=4"]) as session, pytest.raises(Stop):
        session.train(crash_at(19))
    events = resumed(tmp_path)[1]
    assert next(event for event in events if isinstance(event, RunStarted)).epochs == 4


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("optimizer.lr=0.1", "cannot change on resume: its state was"),
        ("data.loader.batch_size=3", "the current epoch continues with the same batches"),
        ("train.mixup=0.2", "the result would differ from that of an uninterrupted run"),
        ("checkpoint.best=valid/loss", "the best score so far is of another metric"),
        ("data.loader.num_workers=1", "with train.shards: 1 the batches draw from each worker's generators"),
        ("train.epochs=1", "has already trained 18 steps, but would end after 9; set a larger number"),
    ],
)
def test_what_a_resumed_run_cannot_take_is_refused_with_the_reason(tmp_path, override: str, why: str):
    folder = run(tmp_path)
    before = (folder / "config.yaml").read_text()
    with pytest.raises(RunError, match=why):
        Session.resume("small", root=tmp_path, overrides=[override])
    assert (folder / "config.yaml").read_text() == before


def test_the_model_has_the_best_weights_at_the_end(tmp_path):
    with Session.start(loads(SMALL, "small.yaml"), root=tmp_path) as session:
        session.train()
        best = checkpoint.load(session.run.folder / "checkpoints" / "best.safetensors")[0]
        for name, value in session.parts.model.state_dict().items():
            assert value.numpy().tobytes() == best[f"model/{name}"].tobytes()


def test_a_run_starts_from_the_average_that_another_one_is_scored_by(tmp_path):
    text = SMALL.replace("epochs: 2", "epochs: 2, ema: 0.5")
    source = run(tmp_path, text=text) / "checkpoints" / "best.safetensors"
    config = loads(SMALL.replace("small", "tuned") + f"weights: {{from: '{source}'}}\n", "tuned.yaml")
    with Session.start(config, root=tmp_path) as session:
        averaged = checkpoint.load(source)[0]["ema/1.weight"]
        assert session.parts.model.state_dict()["1.weight"].numpy().tobytes() == averaged.tobytes()


EVERY = SMALL.replace("epochs: 2", "epochs: 2, ema: 0.5") + "checkpoint: {every: 4 steps}\n"


def test_a_resumed_session_has_the_weights_of_its_checkpoint_at_once(tmp_path):
    with pytest.raises(Stop):
        run(tmp_path, crash_at(14), text=EVERY)
    with Session.resume("small", root=tmp_path) as session:
        tensors, meta = checkpoint.load(session.run.folder / "checkpoints" / "last.safetensors")
        assert meta["step"] == 12
        for name, value in session.parts.model.state_dict().items():
            assert value.numpy().tobytes() == tensors[f"model/{name}"].tobytes()
        for name, value in session.parts.average.model.state_dict().items():
            assert value.numpy().tobytes() == tensors[f"ema/{name}"].tobytes()
        moments = [state["exp_avg"] for state in session.parts.optimizer.state.values()]
        saved = [array for name, array in tensors.items() if name.startswith("optimizer/exp_avg/")]
        assert sorted(m.numpy().tobytes() for m in moments) == sorted(array.tobytes() for array in saved)
        assert tdt.default_generator.get_state().numpy().tobytes() == tensors["rng/default"].tobytes()


def test_what_is_drawn_and_read_before_a_resumed_training_changes_nothing(tmp_path):
    text = EVERY.replace('"Linear', 'Dropout(0.5), "Linear')
    last = run(tmp_path / "whole", text=text) / "checkpoints" / "last.safetensors"
    with pytest.raises(Stop):
        run(tmp_path / "cut", crash_at(14), text=text)
    with Session.resume("small", root=tmp_path / "cut") as session:
        tdt.rand(3)
        next(iter(session.parts.loaders["train"]))
        session.train()
        ours = checkpoint.load(session.run.folder / "checkpoints" / "last.safetensors")[0]
    assert all(ours[name].tobytes() == array.tobytes() for name, array in checkpoint.load(last)[0].items())


@pytest.mark.parametrize("name", ["metrics.jsonl", "config.yaml", "run.lock", "checkpoints", "checkpoints/rows"])
def test_a_link_in_a_run_is_refused_before_anything_is_written(tmp_path, name: str):
    folder = tmp_path / "small" / "1"
    with pytest.raises(Stop):
        run(tmp_path, crash_at(12))
    (tmp_path / "outside").mkdir()
    for path in (folder, folder / "checkpoints"):
        assert path.is_dir()
    where, outside = folder / name, tmp_path / "outside" / "x"
    if where.exists():
        where.rename(outside)
    else:
        outside.mkdir()
    before = outside.read_bytes() if outside.is_file() else sorted(os.listdir(outside))
    where.symlink_to(outside)
    with pytest.raises(RunError, match=f"{where} is a link, and a run writes only to its own folder"):
        Session.resume("small", root=tmp_path)
    assert (outside.read_bytes() if outside.is_file() else sorted(os.listdir(outside))) == before


def test_an_event_file_that_is_a_link_is_refused(tmp_path):
    with pytest.raises(Stop):
        run(tmp_path, crash_at(12))
    [events] = (tmp_path / "small" / "1").glob("events.*")
    events.rename(tmp_path / "theirs")
    events.symlink_to(tmp_path / "theirs")
    with pytest.raises(RunError, match="is a link"):
        Session.resume("small", root=tmp_path)


def test_logs_that_a_backup_shares_by_hard_links_are_cut_in_the_run_alone(tmp_path):
    with pytest.raises(Stop):
        run(tmp_path, crash_at(12))
    log = tmp_path / "small" / "1" / "metrics.jsonl"
    os.link(log, tmp_path / "backup")
    before = log.read_bytes()
    resumed(tmp_path)
    assert (tmp_path / "backup").read_bytes() == before and len(log.read_bytes()) > len(before)


def test_what_killed_writes_left_behind_is_removed_on_resume(tmp_path):
    text = SMALL.replace("[accuracy]", "[accuracy, auroc]") + "checkpoint: {every: 2 steps, keep: 1}\n"
    with pytest.raises(Stop):
        run(tmp_path, crash_at(13), text=text)
    folder = tmp_path / "small" / "1"
    rows = folder / "checkpoints" / "rows"
    (folder / "00003" / "tag").mkdir(parents=True)
    left = [folder / "00003" / "tag" / ".tensors.tsv.7.tmp", folder / ".projector_config.pbtxt.7.tmp",
            rows / "00000099.safetensors", rows / "00000003.safetensors"]  # fmt: skip
    unrelated = [rows / "abc.safetensors", rows / "9.safetensors", rows / "00000001.safetensors"]
    for path in left + unrelated[:2]:
        path.touch()
    unrelated[2].mkdir()
    with Session.resume("small", root=tmp_path) as session:
        assert not any(path.exists() for path in left) and all(path.exists() for path in unrelated)
        needed = {int(path.stem) for path in rows.glob("000000[0-9][0-9].safetensors") if path.is_file()}
        assert needed == {10, 12}
        session.train()


def test_an_unreadable_checkpoint_is_not_to_be_removed_and_a_damaged_one_is(tmp_path, monkeypatch):
    last = run(tmp_path, text=SMALL + "checkpoint: {every: 4 steps}\n") / "checkpoints" / "last.safetensors"

    def refuse(path: Path, *_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuse)
        with pytest.raises(checkpoint.CheckpointError, match="cannot be read: Permission denied") as caught:
            Session.resume("small", root=tmp_path)
    assert not hasattr(caught.value, "__notes__")
    last.write_bytes(last.read_bytes()[:-10])
    with pytest.raises(checkpoint.CheckpointError, match="damaged") as caught:
        Session.resume("small", root=tmp_path)
    assert "to resume from the previous checkpoint" in caught.value.__notes__[0]


def test_an_edited_config_is_reported_to_have_no_effect(tmp_path):
    with pytest.raises(Stop):
        run(tmp_path, crash_at(12))
    config = tmp_path / "small" / "1" / "config.yaml"
    written = config.read_text()
    for old, new, expected in (
        (
            "epochs: 2",
            "epochs: 3",
            "train.epochs: 2 → 3), .*; give it on the command line: --resume small/1 train.epochs=3",
        ),
        (
            "lr=1e-2",
            "lr=0.5",
            "optimizer.lr: 0.01 → 0.5), .*; optimizer.lr=0.5: cannot change on resume: its state",
        ),
        ("name: small", "# a comment\nname: small", None),
    ):
        assert old in written
        config.write_text(written.replace(old, new))
        with Session.resume("small", root=tmp_path) as session:
            assert len(session.notices) == (expected is not None)
            assert expected is None or re.search(expected.replace(")", r"\)"), session.notices[0]), session.notices
            assert "has no effect" in "".join(session.notices) or expected is None
    for data in (b"\x00\xff", b"just a text", b"- a\n- b\n", b"a: [", b""):
        config.write_bytes(data)
        with Session.resume("small", root=tmp_path) as session:
            assert session.notices == [
                f"{config} is no longer a config; a resumed run uses the config in its checkpoint"
            ]
    config.write_text(written.replace("lr=1e-2", "lr=0.5"))
    _, events = resumed(tmp_path)
    assert [event.text for event in events if isinstance(event, Notice) and "has no effect" in event.text]


def test_no_metadata_of_a_checkpoint_is_a_traceback(tmp_path):
    """A few of `scripts/forged_checkpoints`, and what was one once."""
    run = metadata.killed_run(tmp_path / "run")
    _, meta = checkpoint.load(run / "checkpoints" / "last.safetensors")
    rng = random.Random(0)
    known = [("data", meta | {"data": None})]
    for *path, last, value in [
        ("loaders", "train", "epoch", "started", "generators", 0, {}),
        ("loaders", "train", "epoch", "drawn", []),
        ("metrics", "epoch/loss", "weight", {"array": 0}),
        ("optimizer", "groups", 0, "base_momentum", None),
    ]:
        known.append((last, changed := copy.deepcopy(meta)))
        for key in path:
            changed = changed[key]
        changed[last] = value
        if value is None:
            del changed[last]
    for what, changed in [*known, *(metadata.forged(meta, rng) for _ in range(10))]:
        assert metadata.fault(run, tmp_path / "forged", changed) is None, what


@pytest.mark.parametrize("linked", [[], ["best"]])
def test_a_first_checkpoint_that_was_cut_short_is_last_and_best_after_a_resume(
    tmp_path, monkeypatch, linked: list[str]
):
    point, names = CheckpointStore._point, []

    def point_some(store: CheckpointStore, name: str, target: Path) -> None:
        if len(names) == len(linked):
            raise Stop
        names.append(name)
        point(store, name, target)

    text = SMALL.replace("epochs: 2", "epochs: 1")
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointStore, "_point", point_some)
        with pytest.raises(Stop):
            run(tmp_path, text=text)
    assert names == linked and resumed(tmp_path)[0] == "done"
    files = {path.name: path for path in (tmp_path / "small" / "1" / "checkpoints").glob("*.safetensors")}
    assert sorted(files) == ["best.safetensors", "last.safetensors", "step-00000009.safetensors"]
    assert files["best.safetensors"].samefile(files["last.safetensors"])
