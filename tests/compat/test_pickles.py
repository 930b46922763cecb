"""`pickle.load` under `tdt.as_torch` of what programs pickled with PyTorch."""

from __future__ import annotations

import base64
import io
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import tdt
from tests.helpers import require_torch

ROOT = Path(__file__).parents[2]
READ = """
import base64, json, pickle, sys
values = pickle.loads(base64.b64decode(sys.stdin.read()))
half, row, module, optimizer = values
loaded = str(half.dtype), row.tolist(), module.weight.tolist()
module(row).sum().backward()
optimizer.step()
print(json.dumps([*loaded, module.bias.item()]))
"""


def test_a_pickle_of_pytorch_s_tensors_modules_and_optimizers_loads_and_trains_on():
    torch = require_torch()
    module = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5)
    row = torch.tensor([[0.0, 1.0], [2.0, 3.0]]).t()[1]
    module(row).sum().backward()
    optimizer.step()
    weight = module.weight.tolist()
    pickled = pickle.dumps((torch.ones(2).bfloat16(), row, module, optimizer))
    done = subprocess.run(
        [sys.executable, "-m", "tdt.as_torch", "-c", READ], input=base64.b64encode(pickled).decode(),
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    optimizer.zero_grad()  # a pickled parameter has no gradient
    module(row).sum().backward()
    optimizer.step()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["torch.bfloat16", [1.0, 3.0], weight, pytest.approx(module.bias.item())]


def test_the_bytes_of_a_storage_are_read_without_running_code():
    from tdt.storage import _load_from_bytes

    file = io.BytesIO()
    tdt.save(tdt.arange(3), file)
    assert _load_from_bytes(file.getvalue()).tolist() == [0, 1, 2]
    with pytest.raises(pickle.UnpicklingError):
        _load_from_bytes(pickle.dumps(print))
