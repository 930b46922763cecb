"""Random programs with views, in-place writes and backward passes do in tdt what they do in PyTorch.

The suite asks the same 2,000 programs each time. `TDT_SEED=n pytest -s tests/ops/test_programs.py` asks others (about one in
2,000 still finds a difference), `TDT_PROGRAMS=n` more of them.
A failure ends with the shortest program that shows it, as code that runs in both libraries.
"""

import os
import warnings

from hypothesis import HealthCheck, Phase, given, seed, settings

import tdt
from tests.helpers import require_torch

torch = require_torch()

from tests.parity.programs import disagreement, programs  # noqa: E402

SEED = int(os.environ.get("TDT_SEED", 11))
COUNT = int(os.environ.get("TDT_PROGRAMS", 2000))


def test_random_programs_agree_with_pytorch(record_property):
    print(f"TDT_SEED={SEED}")
    record_property("TDT_SEED", SEED)
    ran = wrote_views = 0

    @seed(SEED)
    @settings(max_examples=COUNT, deadline=None, database=None, phases=[Phase.generate, Phase.shrink],
              suppress_health_check=list(HealthCheck), print_blob=False)  # fmt: skip
    @given(programs())
    def agrees(program):
        nonlocal ran, wrote_views
        ran, wrote_views = ran + 1, wrote_views + (program.view_writes > 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = disagreement(program, torch, tdt)
        assert found is None, f"TDT_SEED={SEED}\n{found}\n{program}"

    agrees()
    assert ran >= COUNT, f"only {ran} programs ran"
    assert wrote_views >= 0.3 * ran, f"only {wrote_views} of {ran} programs wrote to a view"
    print(f"{ran} programs, {wrote_views / ran:.0%} wrote to a view")
