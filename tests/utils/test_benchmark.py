"""tdt.utils.benchmark: what measurements say and look like is PyTorch's, number by number."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import tdt
from tdt.utils.benchmark import Compare, Language, Measurement, TaskSpec, Timer
from tests.helpers import require_torch


def _libraries():
    require_torch()
    return tdt.utils.benchmark, importlib.import_module("torch.utils.benchmark")


def _measured(lib, times, number=10, **task):
    return lib.Measurement(number, list(times), lib.TaskSpec(**{"stmt": "x + 1", "setup": "pass", **task}))


TIMES = {
    "one": [3e-4], "three": [3e-4, 3.1e-4, 2.9e-4], "steady": [1e-2 + 1e-6 * i for i in range(20)],
    "unsteady": [1e-2 * (1 + 0.01 * i) for i in range(20)], "wild": [1e-5 * (1 + 0.2 * i) for i in range(9)],
    "long": [200.0, 210.0, 190.0, 205.0],
}  # fmt: skip
TASKS = [
    {}, {"label": "sums", "sub_label": "small"}, {"stmt": "a = 1\nb = 2", "sub_label": "s"},
    {"num_threads": 2, "description": "d"}, {"setup": "x = 1"}, {"setup": "x = 1\ny = 2", "description": "two"},
]  # fmt: skip


@pytest.mark.parametrize("name", TIMES)
def test_statistics_are_pytorchs(name):
    actual, expected = (_measured(lib, TIMES[name]) for lib in _libraries())
    assert actual.times == expected.times
    for what in ("median", "mean", "iqr"):
        np.testing.assert_allclose(getattr(actual, what), getattr(expected, what), rtol=1e-12)
    for what in ("significant_figures", "has_warnings", "title", "as_row_name", "stmt", "num_threads", "label"):
        assert getattr(actual, what) == getattr(expected, what)
    assert [actual.meets_confidence(t) for t in (0.01, 0.1, 0.5)] == [
        expected.meets_confidence(t) for t in (0.01, 0.1, 0.5)
    ]


@pytest.mark.parametrize("task", TASKS, ids=str)
@pytest.mark.parametrize("name", TIMES)
def test_a_measurement_prints_as_pytorchs(name, task):
    actual, expected = (repr(_measured(lib, TIMES[name], **task)).split("\n") for lib in _libraries())
    assert actual[0].startswith("<tdt.utils.benchmark")
    assert [line.rstrip() for line in actual[1:]] == [line.rstrip() for line in expected[1:]]


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("highlight", [False, True])
@pytest.mark.parametrize("colour", [None, False, True])
def test_tables_are_pytorchs(trim, highlight, colour):
    tables = []
    for lib in _libraries():
        results = []
        for i, threads in enumerate((1, 1, 2, 2, 1)):
            for j, column in enumerate(("numpy", "a longer name")):
                if (i, j) != (1, 0):
                    times = [(1 + i + 3 * j) * 1.3e-5 * (1 + 0.002 * (i + 1) ** 4 * k) for k in range(8)]
                    results.append(_measured(lib, times, label=f"label {i % 2}", sub_label=f"row {i}", description=column,
                                             num_threads=threads, env="e" * (i + 1)))  # fmt: skip
        results.append(_measured(lib, [9e-5], label="label 0", sub_label="row 0", description="numpy", env="e"))
        table = lib.Compare(results[:3])
        table.extend_results(results[3:])
        if trim:
            table.trim_significant_figures()
        if highlight:
            table.highlight_warnings()
        if colour is not None:
            table.colorize(rowwise=colour)
        tables.append(str(table))
    assert tables[0] == tables[1]


def test_units_and_digits():
    ours, theirs = _libraries()
    for t in (3e-10, 2e-9, 5e-7, 1e-6, 0.02, 0.9, 1.0, 90.0, 5e4):
        assert ours.select_unit(t) == theirs.select_unit(t)
    for x, n in ((3.14159, 2), (314.159, 1), (0.0271, 3), (99.96, 3)):
        assert ours.trim_sigfig(x, n) == pytest.approx(theirs.trim_sigfig(x, n), rel=1e-6)
    assert [ours.unit_to_english(u) for u in ("ns", "us", "ms", "s")] == [
        theirs.unit_to_english(u) for u in ("ns", "us", "ms", "s")
    ]


def test_a_snippet_has_its_globals_and_setup_and_runs_the_stated_number_of_times():
    calls: list[int] = []
    timer = Timer("""
        calls.append(n)
        tdt.ones(n), torch.ones(n)
    """, "n = 2", globals={"calls": calls}, label="two")  # fmt: skip
    measurement = timer.timeit(300)
    assert (measurement.number_per_run, len(measurement.raw_times), len(calls)) == (300, 1, 303)
    assert measurement.stmt == "calls.append(n)\ntdt.ones(n), torch.ones(n)"
    assert measurement.label == measurement.title == "two"


def test_the_requested_threads_are_used_and_the_former_number_restored():
    before, counts = tdt.get_num_threads(), set()
    Timer("counts.add(tdt.get_num_threads())", globals={"counts": counts}, num_threads=3).timeit(2)
    assert counts == {3}
    assert tdt.get_num_threads() == before


def test_blocks_are_as_long_as_the_clock_requires():
    def took(n):  # 1 us a run, 10 ns a look at the clock
        return 1e-8 + n * 1e-6

    runs: list[int] = []
    timer = Timer("pass")
    timer._timeit = lambda n: (runs.append(n), took(n))[1]
    calls: list[tuple[int, float]] = []
    measurement = timer.blocked_autorange(lambda *call: calls.append(call), min_run_time=0.02)
    assert measurement.number_per_run == 100  # the first block of which the clock is a ten thousandth
    assert runs[:8] == [0, 0, 0, 0, 0, 1, 10, 100]
    assert len(measurement.raw_times) == 200
    assert calls == [(100, t) for t in measurement.raw_times]


def test_an_adaptive_run_continues_until_times_agree():
    times = iter([*[0.0] * 5, 1.0, 0.01, 0.05, 0.03, 0.09, *[0.04] * 100])
    timer = Timer("pass")
    timer._timeit = lambda n: max(next(times), 1e-9)
    measurement = timer.adaptive_autorange(threshold=0.1)
    assert measurement.meets_confidence(0.1)
    assert len(measurement.raw_times) > 8
    timer._timeit = lambda n, wild=iter([*[1e-9] * 5, 1.0, *[0.1, 3.0] * 100]): next(wild)
    assert sum(timer.adaptive_autorange(max_run_time=5.0).raw_times) > 5


def test_a_real_run():
    measurement = Timer("x + x", globals={"x": tdt.ones(64)}).blocked_autorange(min_run_time=0.01)
    assert 1e-8 < measurement.median < 1e-2
    assert sum(measurement.raw_times) >= 0.01


def test_what_cannot_be_timed_is_refused():
    ours, theirs = _libraries()
    for lib in (ours, theirs):
        with pytest.raises(ValueError, match="Currently only a `str` stmt is supported"):
            lib.Timer(lambda: None)
        with pytest.raises(ValueError, match="global_setup is C.. only"):
            lib.Timer("pass", global_setup="x")
        with pytest.raises(ValueError, match="Invalid language `java`"):
            lib.Timer("pass", language="java")
        with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
            lib.Compare([1.0])
    with pytest.raises(ValueError, match="only Python can be timed"):
        Timer("pass", language=Language.CPP)


def test_measurements_of_one_task_are_merged():
    task = TaskSpec("x", "pass")
    several = [Measurement(2, [2.0, 4.0], task), Measurement(1, [5.0], task), Measurement(1, [1.0], TaskSpec("y", ""))]
    merged = Measurement.merge(several)
    assert [m.raw_times for m in merged] == [[1.0, 2.0, 5.0], [1.0]]


def test_a_table_prints(capsys):
    Compare([Measurement(1, [2.0], TaskSpec("x", "pass"))]).print()
    assert "Times are in seconds (s)." in capsys.readouterr().out
