"""The benchmarks of several machines: namespaces with links of a given rate, and predictions of the time of a step."""

from __future__ import annotations

import doctest
import subprocess
import sys

import pytest

from benchmarks import links, scale
from benchmarks.machines import Machines, missing
from tests.mpi.launching import require_mpi

PROGRAM = """
import socket, sys, time, tdt
from tdt import distributed
distributed.init_process_group("mpi")
x = tdt.ones(int(sys.argv[1]))
distributed.all_reduce(x)
distributed.barrier()
begin = time.perf_counter()
distributed.all_reduce(x)
print(socket.gethostname(), x[-1].item(), time.perf_counter() - begin, flush=True)
"""


def test_ranks_on_machines_add_at_the_rate_of_their_links():
    require_mpi()
    why = missing()
    if why is not None:
        pytest.skip(f"network namespaces: {why}")
    count = 1 << 18  # of four bytes: each of two ranks sends half of them twice
    with Machines(2, mbit=50) as machines:
        run = machines.mpirun([sys.executable, "-c", PROGRAM, str(count)], stdout=subprocess.PIPE)
        found = sorted(line.split() for line in run.communicate(timeout=60)[0].splitlines())
    assert run.returncode == 0
    assert [(name, float(total)) for name, total, _ in found] == [("machine-1", 4.0), ("machine-2", 4.0)]
    at_least = 4 * count * 8 / 50e6
    assert all(0.9 * at_least < float(seconds) < 5 * at_least for *_, seconds in found)


@pytest.mark.once
def test_predictions_follow_from_the_time_of_messages():
    for module in (links, scale):
        assert doctest.testmod(module).failed == 0
    one = scale.Measured(step=1.0, backward=0.8, buckets=((0.3, 4_000_000), (0.8, 1_000_000)))
    link = scale.link_of(1, alpha=1e-4)
    for ranks in scale.RANKS[1:]:
        alone, overlap = (scale.predicted(one, link, ranks, way) for way in (False, True))
        assert alone == pytest.approx(1.0 + link.all_reduce(4e6, ranks) + link.all_reduce(1e6, ranks))
        hidden = min(
            0.5, link.all_reduce(4e6, ranks)
        )  # what has been sent of the first bucket when the second is complete
        assert overlap == pytest.approx(alone - hidden)
    assert scale.predicted(one, link, 1, overlap=False) == 1.0


@pytest.mark.once
def test_the_benchmark_prints_predictions_as_such(tmp_path, capsys):
    plot = tmp_path / "scale.svg"
    scale.main(["MLP", "--size", "small", "--steps", "1", "--plot", str(plot)])
    out = capsys.readouterr().out
    measured, _, prediction = out.partition("PREDICTION: ")
    assert measured.startswith("MEASURED: MLP, small")
    assert [int(line.split()[0]) for line in prediction.splitlines()[2:-1]] == list(scale.RANKS)
    assert "PREDICTION, not measured" in plot.read_text()


@pytest.mark.once
def test_the_benchmark_refuses_an_unknown_family(capsys):
    with pytest.raises(SystemExit):
        scale.main(["MPL"])
    assert "no family 'MPL'; there are MLP" in capsys.readouterr().err
