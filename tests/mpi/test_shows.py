"""Runs on several ranks: equal bits, kills, failures, signals and scores. `scripts/ranks` shows the same at length."""

from __future__ import annotations

import pytest

from benchmarks.machines import missing
from tests.mpi import shows
from tests.mpi.launching import require_mpi


@pytest.fixture(autouse=True)
def mpi() -> None:
    require_mpi()


@pytest.mark.once  # tdt adds what it gets from MPI's messages in an order of its own; test_shards asks every MPI
@pytest.mark.parametrize(
    ("network", "cases"),
    [
        ("digits-cnn", ((1, 2), (2, 0), (4, 2))),
        ("resnet20", ((1, 0), (2, 2))),
        ("char-gpt", ((1, 0), (2, 0))),
    ],
)
def test_runs_have_the_same_bits_on_every_number_of_ranks(network: str, cases: tuple[tuple[int, int], ...], tmp_path):
    assert len(shows.same_bits(tmp_path, network, steps=4, cases=cases, shards=4)) == 64


def test_a_killed_run_ends_as_the_uninterrupted_one_on_fewer_ranks(tmp_path):
    counts = shows.killed(tmp_path, kills=1, seed=5, ranks=(2, 1), steps=20)
    assert counts["kills"] >= 1


@pytest.mark.parametrize(("how", "rank"), [("exception", 1), ("sys.exit", 0), ("memory", 1)])
def test_a_rank_that_fails_ends_the_job(how: str, rank: int, tmp_path):
    assert shows.fails(tmp_path, how, rank, ranks=2) < shows.SECONDS


def test_a_cut_link_ends_the_job(tmp_path):
    why = missing()
    if why is not None:
        pytest.skip(f"network namespaces: {why}")
    assert shows.cut_link(tmp_path, stall=4) < 9


def test_signals_at_other_times_on_each_rank_save_one_checkpoint(tmp_path):
    assert shows.terminated(tmp_path, seed=1, ranks=2) > 0


def test_scores_count_each_sample_once(tmp_path):
    assert shows.scored(tmp_path, ranks=(1, 2))["samples"] == 1001
