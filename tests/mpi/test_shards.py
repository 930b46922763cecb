"""Training with `train.shards` has the same bits on every number of ranks."""

from __future__ import annotations

import json

from tests.mpi.launching import mpirun, require_mpi


def test_one_two_and_four_ranks_train_to_the_same_bits(tmp_path):
    require_mpi()
    found = []
    for ranks in (1, 2, 4):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        done = mpirun(ranks, "-m", "mpi4py", "-m", "tests.mpi.shards", str(folder))
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 11
    for name in ("accumulate", "weights", "rounded"):
        assert found[0][f"{name}, sharded"] == found[0][name], name


def test_a_sharded_state_of_every_optimizer_updates_to_the_same_bits(tmp_path):
    require_mpi()
    done = mpirun(2, "-m", "mpi4py", "-m", "tests.mpi.shards", str(tmp_path), "optimizers")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) >= 14


def test_compiled_stages_have_the_bits_of_eager_on_any_number_of_ranks(tmp_path):
    require_mpi()
    found = []
    for ranks in (1, 2, 4):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        done = mpirun(ranks, "-m", "mpi4py", "-m", "tests.mpi.shards", str(folder), "compiled")
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 6 and found[0]["stages"] != found[0]["stages, rounded"]


def test_a_stage_that_differs_on_one_rank_ends_the_run_on_all_in_the_same_step(tmp_path):
    require_mpi()
    done = mpirun(2, "-m", "mpi4py", "-m", "tests.mpi.shards", str(tmp_path), "differing")
    assert done.returncode == 0, done.stderr
    error = json.loads(done.stdout)["differing"]
    assert error.startswith("step 19: step 20, after its gradients: compiled, it differs from the ordinary one"), error


def test_a_rank_with_a_loss_that_is_not_finite_ends_the_run_on_all(tmp_path):
    require_mpi()
    done = mpirun(2, "-m", "mpi4py", "-m", "tests.mpi.shards", str(tmp_path), "diverging")
    assert done.returncode == 0, done.stderr
    error = json.loads(done.stdout)["diverging"]
    assert error.startswith("NonFiniteLoss: the loss became nan at step 1, on the training samples [50, 51, 52,")
