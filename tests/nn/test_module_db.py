"""Every layer that PyTorch exports: signature, repr, state, initial values, results, gradients, refusals.

The layers and their samples come from PyTorch's own module database; `scripts/nn_report` counts them.
"""

import pytest

from tests.helpers import require_torch

require_torch()

from tests.parity.modules import check, public_layers  # noqa: E402


@pytest.mark.parametrize("name", public_layers())
def test_a_layer_is_pytorchs(name):
    report = check(name)
    assert not report.problems, f"{len(report.problems)} differences; the first:\n" + "\n".join(report.problems[:5])
    assert report.cases, f"no sample asks {name}; add one to tests/parity/module_samples.py"
