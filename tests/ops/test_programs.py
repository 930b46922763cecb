"""Random programs with views, in-place writes and backward passes do in tdt what they do in PyTorch.

Each run asks 2,000 others and says their seed, which `TDT_SEED=n pytest tests/ops/test_programs.py` asks for again;
`TDT_PROGRAMS=n` asks more of them. A failure ends with the shortest program that shows it, as code that runs in both libraries.
"""

import os
import random
import textwrap
import warnings

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import tdt
from tests.helpers import require_torch

torch = require_torch()

from tests.parity.programs import Program, disagreement, programs  # noqa: E402

SEED = int(os.environ.get("TDT_SEED") or random.randrange(10**6))
COUNT = int(os.environ.get("TDT_PROGRAMS", 2000))


@pytest.mark.long
def test_random_programs_agree_with_pytorch(capsys, record_property):
    with capsys.disabled():
        print(f"\nTDT_SEED={SEED}")
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


# Where tdt was once at odds with PyTorch, too rare for 2,000 programs to find again each time.
FOUND = {
    "a view that cannot follow its base is refused before shapes that do not fit, also by a call made before": """
        a = torch.ones(6, dtype=torch.float64, requires_grad=True)
        b = a * torch.ones(1, dtype=torch.float64, requires_grad=True)
        c, *d = torch.split(a, 2)
        with torch.no_grad(): c.add_(2)
        (a * c).sum().backward()""",
    "an op keeps nothing for a view made under no_grad": """
        a = torch.ones(2, dtype=torch.float64, requires_grad=True)
        c = a * 2
        with torch.no_grad(): e = a[:]
        f = e * c
        c.add_(1)
        f.sum().backward()""",
    "and backward may run again": """
        b = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        with torch.no_grad(): e = b.squeeze()
        f = e * 2
        f.backward()
        f.backward()""",
    "but what two rules need is kept": """
        b = torch.ones(2, dtype=torch.float64, requires_grad=True)
        a = torch.ones(2, dtype=torch.float64)
        with torch.no_grad(): d = b[:1]
        e = d / a
        a.add_(a)
        e.sum().backward()""",
    "an expanded tensor without a gradient gives one to what is written": """
        a = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        c = torch.tensor(0.0, dtype=torch.float64).expand(2)
        c.index_put_((torch.tensor([0, 0]),), a)
        (c * c).sum().backward()""",
    "an expanded tensor with a gradient refuses to": """
        a = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        c = (a * 2).expand(2)
        c.index_put_((torch.tensor([0, 0]),), a)
        (c * c).sum().backward()""",
    "an expanded tensor is filled, not written to by index": """
        a = torch.ones(3, dtype=torch.float64).expand(2, 3)
        a.fill_(2)
        a.fill_(torch.tensor(2.0))
        a.copy_(a)
        a[0] = 3
        a[:, 0:1] = 4
        a[...] = 4""",
    "x[...] = v makes no view": """
        a = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        b = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
        d = torch.ones(3, dtype=torch.float64)
        e = d[1]
        d.mul_(a)
        e[...] = a
        b[..., 0:2, 0:3] = 1
        b[:, 0:2] = 1""",
    "a tensor may not be put into itself": """
        a = torch.ones(3, dtype=torch.float64)[:0]
        a.index_put_((torch.tensor([0, 0]),), a)""",
    "a view that cannot follow is refused before its shape": """
        a = torch.ones(2, 3, dtype=torch.float64, requires_grad=True) * 2
        d, *e = a.split(1, 0)
        a.add_(1)
        b = torch.ones(3, 5, dtype=torch.float64)
        torch.matmul(d, d)
        d.reshape(5)
        g, *h = (torch.ones(2, 3, dtype=torch.float64, requires_grad=True) * 2).t().split(2, 0)
        with torch.no_grad(): g.add_(1)
        g.reshape(5)
        torch.cat([d, d[0, 0]])
        torch.stack([d, b])
        b[0:2] = d
        b.index_put_((torch.tensor([0, 0]),), d)
        b.add_(d)""",
}


@pytest.mark.parametrize("code", FOUND.values(), ids=FOUND)
def test_names_that_programs_have_looked_up_stay_available(code):
    program = Program(textwrap.dedent(code).strip().splitlines())
    assert disagreement(program, torch, tdt) is None
