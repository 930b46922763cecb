"""A package of tdt.compat beside a module of tdt of that name: `torch.<name>` stays tdt's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
import torch
import torch.distributed.fsdp, torch.nn.attention.flex_attention, torch.utils._pytree, torch._dynamo.eval_frame
from torch.distributed.tensor.placement_types import Shard
from torch.distributed import ReduceOp
from torch import ScriptModule
from torchvision import io, ops
names = ["torch.distributed", "torch.nn", "torch.nn.attention", "torch.utils", "torchvision"]
print(json.dumps([sys.modules[name].__name__ for name in names] + [torch.distributed.__name__, Shard.__module__]))
"""


def test_torchs_packages_stay_tdts_own_where_parts_of_them_are_in_compat(tmp_path: Path):
    command = [sys.executable, "-m", "tdt.as_torch", "-c", PROGRAM]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    *packages, attribute, shard = json.loads(done.stdout)
    assert packages == ["tdt.distributed", "tdt.nn", "tdt.nn.attention", "tdt.utils", "torchvision"]
    assert (attribute, shard) == ("tdt.distributed", "torch.distributed.tensor.placement_types")
