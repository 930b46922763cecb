"""Errors of one process among several are errors of all; differing processes are refused."""

from __future__ import annotations

import pytest

import tdt
from tdt.commands._errors import failure
from tdt.train._agreement import OtherRankError, by_first, together
from tdt.train._ranks import Ranks
from tdt.train.checks import alike
from tdt.train.checks.alike import check_alike, share_threads, threads_of
from tdt.train.config import loads
from tdt.train.loop import evaluation, prediction
from tdt.train.loop.evaluation import evaluate_checkpoint
from tdt.train.loop.prediction import Predictor
from tdt.train.runs.run import RunError
from tdt.train.session import Session
from tests.commands.running import SMALL
from tests.train.several import ThreadRanks, run

CPU = tdt.device("cpu")


def test_results_of_work_without_errors_are_each_ones_own():
    assert run(3, lambda ranks: together(ranks, lambda: ranks.rank)) == [0, 1, 2]
    assert run(3, lambda ranks: by_first(ranks, lambda: ranks.rank + 7)) == [7, 7, 7]


def test_an_error_that_all_have_is_each_ones_own_and_printed_once():
    def work() -> None:
        raise RunError("no data")

    for error in run(3, lambda ranks: together(ranks, work)):
        assert type(error) is RunError and str(error) == "no data" and error.shared


def test_an_error_of_some_names_them_on_all():
    def work(ranks: Ranks) -> None:
        if ranks.rank != 1:
            raise RunError(f"no data{ranks.rank}")

    for error in run(3, lambda ranks: together(ranks, lambda: work(ranks))):
        assert type(error) is OtherRankError and error.shared
        assert failure(error, []) == ("error: rank 0 on node0: no data0\nrank 2 on node2: no data2", 2)


def test_an_error_of_rank_0_keeps_its_class_and_exit_code():
    def work() -> None:
        raise RunError("is being trained")

    first, second = run(2, lambda ranks: by_first(ranks, work))
    assert type(first) is RunError and type(second) is OtherRankError
    assert failure(first, []) == failure(second, []) == ("error: is being trained", 2)


def test_processes_that_differ_are_refused_with_their_values(monkeypatch: pytest.MonkeyPatch):
    config = loads(SMALL)
    assert run(3, lambda ranks: check_alike(ranks, config, {}, CPU)) == [None] * 3
    files = [{"train": {"size": size, "times": time}} for size, time in ((3, 1), (3, 2), (4, 3))]
    for error in run(3, lambda ranks: check_alike(ranks, config, files[ranks.rank], CPU)):
        assert type(error) is RunError and error.shared
        assert str(error).startswith("the processes differ, and would not compute the same numbers:\n  data: ")
        assert " on rank 0 on node0, rank 1 on node1; " in str(error) and str(error).endswith(" on rank 2 on node2")
    configs = [config, loads(SMALL, overrides=["seed=1"])]
    assert "\n  config: " in str(run(2, lambda ranks: check_alike(ranks, configs[ranks.rank], {}, CPU))[0])
    found = iter([{"tdt": "1", "numpy": "2.1"}, {"tdt": "1", "numpy": "2.3"}])
    monkeypatch.setattr(alike, "versions", lambda: next(found))
    errors = run(2, lambda ranks: check_alike(ranks, config, {}, CPU))
    assert "  numpy: 2." in str(errors[0]) and "tdt" not in str(errors[0])
    monkeypatch.undo()
    monkeypatch.setattr(tdt.cuda, "get_device_name", lambda device: f"GPU of kind {device.index}")
    devices = [CPU, tdt.device("cuda", 0)]
    error = run(2, lambda ranks: check_alike(ranks, config, {}, devices[ranks.rank]))[0]
    assert str(error).endswith("\n  device: cpu on rank 0 on node0; GPU of kind 0 on rank 1 on node1")


@pytest.mark.parametrize(
    ("places", "threads"),
    [
        ([("a", 0, 8)], 8),
        ([("a", 0, 8)] * 3, 2),
        ([("a", 0, 4), ("a", 4, 8)], 4),  # the launcher has bound them
        ([("a", 0, 8), ("a", 0, 8), ("b", 0, 8)], 4),  # one number for all
        ([("a", 0, 2)] * 5, 1),
    ],
)
def test_processes_share_the_cores_of_their_machine(places: list[tuple[str, int, int]], threads: int):
    assert threads_of([(host, frozenset(range(first, last))) for host, first, last in places]) == threads


def test_omp_num_threads_has_precedence_over_shared_cores(monkeypatch: pytest.MonkeyPatch):
    chosen: list[int] = []
    monkeypatch.setattr(tdt, "set_num_threads", chosen.append)
    monkeypatch.setattr(tdt, "get_num_threads", lambda: 7)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(8), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert run(2, share_threads) == [None, None] and chosen == [8, 8], "each of them has a machine of its own"
    monkeypatch.setattr(ThreadRanks, "host", "one")
    assert run(4, share_threads) == [None] * 4 and chosen[2:] == [2] * 4
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert run(2, share_threads) == [None, None] and chosen[6:] == [7, 7]


def test_processes_that_read_other_files_score_and_predict_nothing(tmp_path, monkeypatch: pytest.MonkeyPatch):
    for rank, rows in enumerate((40, 90)):
        (tmp_path / f"{rank}.csv").write_text("a,kind\n" + "".join(f"{i % 7},{i % 2}\n" for i in range(rows)))
    text = f"data: {{train: {{type: Table, path: {tmp_path}/0.csv, target: kind}}, loader: {{batch_size: 8}}}}\n"
    text += 'model: ["LazyLinear(2)"]\nloss: CrossEntropyLoss\noptimizer: SGD(lr=0.1)\ntrain: {epochs: 1}\n'
    with Session.start(loads(text), folder=tmp_path / "run") as session:
        session.train()
    last = tmp_path / "run" / "checkpoints" / "last.safetensors"
    for module in (evaluation, prediction):
        monkeypatch.setattr(module, "loaded_by_first", lambda ranks, load: load())

    for error in run(2, lambda ranks: evaluate_checkpoint(last, data=f"{tmp_path}/{ranks.rank}.csv", ranks=ranks)):
        assert type(error) is RunError and "the processes differ" in str(error) and "\n  data: " in str(error)

    def predict(ranks: Ranks, rows: int) -> list[object]:
        predictor = Predictor(last, batch_size=16, ranks=ranks)
        found = predictor.predict((f"row {i}", tdt.tensor([float(i % 7)])) for i in range(rows))
        return [(one.name, one.label) for one in found]

    whole = predict(Ranks.alone(), 90)
    assert len(whole) == 90 and run(2, lambda ranks: predict(ranks, 90)) == [whole, whole]
    for rows in ((40, 90), (90, 40)):
        for error in run(2, lambda ranks, rows=rows: predict(ranks, rows[ranks.rank])):
            assert type(error) is RunError and error.shared
            assert str(error).startswith("rank 1 on node1 has other inputs than rank 0 on node0")
