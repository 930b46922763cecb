"""Under `tdt.as_torch` classes name PyTorch's modules, and PyTorch's submodules are there after `import torch`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tdt import _about
from tdt.compat import _torch_names
from tests.helpers import require_torch

ROOT = Path(__file__).parents[2]
CLASSES = """
Tensor Size dtype device layout memory_format finfo no_grad enable_grad inference_mode autocast FloatStorage UntypedStorage
nn.Parameter nn.Module nn.Linear nn.Conv2d nn.BatchNorm1d nn.LSTM nn.MultiheadAttention nn.CrossEntropyLoss nn.Sequential
nn.utils.rnn.PackedSequence optim.Optimizer optim.SGD optim.AdamW optim.LBFGS optim.lr_scheduler.LRScheduler
optim.lr_scheduler.OneCycleLR optim.lr_scheduler.ReduceLROnPlateau utils.data.DataLoader utils.data.Dataset
utils.data.TensorDataset utils.data.RandomSampler utils.hooks.RemovableHandle distributions.Normal
distributions.Distribution distributions.transforms.AffineTransform autograd.Function FloatTensor
""".split()
PROGRAM = """
import functools, json, pickle, sys
import torch

def found(name):
    return functools.reduce(getattr, name.split("."), torch)

modules = {}
for name in sys.argv[1].split():
    kind = found(name)
    assert pickle.loads(pickle.dumps(kind)) is kind, name
    modules[name] = kind.__module__
assert "torch.nn.modules.linear.Linear'" in repr(torch.nn.Linear)
net = torch.nn.Linear(2, 3)
assert pickle.loads(pickle.dumps(net)).weight.tolist() == net.weight.tolist()
for name in sys.argv[2].split():
    found(name)
print(json.dumps(modules))
"""
SUBMODULES = """
amp.autocast_mode amp.grad_scaler autograd.function autograd.functional autograd.gradcheck autograd.graph backends.cuda
backends.cpu backends.cudnn backends.mkldnn backends.mps backends.openmp cuda.amp cuda.memory distributions.kl fft func linalg
multiprocessing nn.common_types nn.functional nn.init nn.modules.utils nn.parallel nn.parameter nn.utils.clip_grad
nn.utils.parametrizations nn.utils.rnn optim.lr_scheduler optim.swa_utils random serialization sparse special storage types
utils.checkpoint utils.data.dataloader utils.data.distributed utils.data.sampler utils.dlpack utils.hooks version
""".split()


def test_classes_are_found_in_pytorchs_modules_and_submodules_by_attribute(tmp_path: Path):
    torch = require_torch()
    command = [sys.executable, "-m", "tdt.as_torch", "-c", PROGRAM, " ".join(CLASSES), " ".join(SUBMODULES)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    modules = json.loads(done.stdout)
    for name in CLASSES:
        theirs = torch
        for part in name.split("."):
            theirs = getattr(theirs, part)
        assert modules[name] == theirs.__module__, name


def test_without_the_alias_classes_are_tdts_own():
    import tdt

    assert _about.home(tdt.Tensor) == tdt.Tensor.__module__ == "tdt._core.tensor"
    public = {
        "tdt": "torch",
        "tdt.nn": "torch.nn",
        "tdt.vision.models": "torchvision.models",
        "tdt.optim.lr_scheduler.cosine": "torch.optim.lr_scheduler",
    }
    assert {name: _torch_names.torch_name(name) for name in public} == public
    for private in ("tdt._core.tensor", "tdt.nn.modules._state", "tdt.train", "numpy"):
        assert _torch_names.torch_name(private) is None
