"""`python -m tdt.as_torch`: the program sees tdt under PyTorch's names, and all else as with `python`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tdt import as_torch, version

ROOT = Path(__file__).parents[1]


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )


def on_tdt(program: str, tmp_path: Path, *arguments: str) -> str:
    """What `program` prints when it runs as a script on tdt; it must end well."""
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    done = python("-m", "tdt.as_torch", "program.py", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


IMPORTS = """
import torch
import torch.nn as nn, torch.nn.functional as F, torch.optim.lr_scheduler as schedules
import torch.nn.init
import torchvision, torchvision.transforms as T
from torch import Tensor, optim
from torch.autograd import Function
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader
from torch.nn.modules.utils import _pair, _triple
from torch.nn.modules.conv import _ConvNd
from torch.optim.lr_scheduler import _LRScheduler
from torch.cuda.amp import GradScaler
from torchvision import datasets, transforms
from torch.cuda.amp import autocast, custom_bwd, custom_fwd
from torch.distributions import Categorical, Normal, kl_divergence
from torch.functional import einsum
from torch.nn.common_types import _size_2_t
from torch.nn.modules.activation import MultiheadAttention
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import ProfilerActivity, profile, record_function
from torch.types import Device, Number
from torch.utils.hooks import RemovableHandle
import torch.distributed as dist
import tdt

assert torch.nn is nn is tdt.nn and F is tdt.nn.functional and Tensor is tdt.Tensor and schedules is tdt.optim.lr_scheduler
assert torch.optim is optim is tdt.optim and DataLoader is tdt.utils.data.DataLoader and clip_grad_norm_
assert torchvision.transforms is T is transforms is tdt.vision.transforms and datasets is torchvision.datasets
assert isinstance(nn.Linear(1, 2), torch.nn.Module) and isinstance(torch.ones(2), torch.Tensor)
assert issubclass(Function, torch.autograd.Function)
assert {"ones", "nn", "__version__"} <= set(dir(torch)) and not hasattr(torch, "zeroes")
assert str(torch.float32) == "torch.float32" and repr(torch.ones(2, 3).shape) == "torch.Size([2, 3])"
assert _pair(3) == (3, 3) and _triple((1, 2, 3)) == (1, 2, 3)
assert isinstance(nn.ConvTranspose1d(1, 1, 1), _ConvNd) and issubclass(schedules.StepLR, _LRScheduler)
names = {}
exec("from torch import *", names)
assert names["tensor"] is tdt.tensor
print(torch.__version__, torchvision.__version__, torch.__version__ >= "2.4", torch.version.cuda)
"""


def test_torch_and_its_submodules_are_tdts(tmp_path: Path):
    assert on_tdt(IMPORTS, tmp_path) == f"{version.pytorch} {version.torchvision} True None\n"


MISSING = """
for line in ("import torch.package", "from torch import package", "import torch.foo.bar", "import torchvision.datapoints",
             "from torch import zeroes"):
    try:
        exec(line)
    except ImportError as error:
        print(type(error).__name__, error)
"""


def test_names_that_tdt_lacks_raise_an_import_error_that_names_them(tmp_path: Path):
    lines = on_tdt(MISSING, tmp_path).splitlines()
    begin = "ModuleNotFoundError No module named '{}' in tdt, which runs this program: "
    assert lines[0].startswith(begin.format("torch.package") + "tdt does not package code")
    assert lines[1].startswith(begin.format("torch.package") + "tdt does not package code")
    assert lines[2] == begin.format("torch.foo") + "there is no tdt.foo"
    assert lines[3] == begin.format("torchvision.datapoints") + "there is no tdt.vision.datapoints"
    assert lines[4].startswith("ImportError cannot import name 'zeroes' from 'torch' (")


WORKERS = """
import multiprocessing, pickle, sys
import torch
from torch import nn


class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return torch.full((2,), float(i))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 3)


def answer(queue, net):
    queue.put((torch.__version__, type(net.fc) is nn.Linear, net.fc.weight.detach().numpy()))


if __name__ == "__main__":
    how = sys.argv[1]
    net = pickle.loads(pickle.dumps(Net()))
    print([batch.tolist() for batch in torch.utils.data.DataLoader(
        Numbers(), batch_size=2, num_workers=1, multiprocessing_context=how)])
    context = multiprocessing.get_context(how)
    queue = context.Queue()
    process = context.Process(target=answer, args=(queue, net))
    process.start()
    told, same, weight = queue.get()
    process.join()
    print(told, same, (weight == net.fc.weight.detach().numpy()).all())
"""


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_worker_processes_see_tdt_too(how: str, tmp_path: Path):
    output = on_tdt(WORKERS, tmp_path, how).splitlines()
    assert output == ["[[[0.0, 0.0], [1.0, 1.0]], [[2.0, 2.0], [3.0, 3.0]]]", f"{version.pytorch} True True"]


PROGRAMS = {
    "arguments": "import sys; print(sys.argv, sys.path[0], __name__, __file__, __loader__.name)",
    "exit code": "import sys; sys.exit(7)",
    "exit message": "raise SystemExit('stop')",
    "traceback": "def f():\n    raise ValueError('x') from KeyError(1)\nf()\n",
    "syntax error": "x = = 1\n",
    "interrupt": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n",
    "pickled class": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)\n",
    "relative import": "from . import x",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_program_runs_as_pythons_own(program: str, tmp_path: Path):
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    ours = python("-m", "tdt.as_torch", "program.py", "-m", "--lr", "1", cwd=tmp_path)
    own = python("program.py", "-m", "--lr", "1", cwd=tmp_path)
    assert (ours.returncode, ours.stdout, ours.stderr) == (own.returncode, own.stdout, own.stderr)


def test_a_module_and_code_run_as_pythons_own(tmp_path: Path):
    (tmp_path / "program.py").write_text("import sys; print(sys.argv, __name__); 1 / 0", encoding="utf-8")
    for arguments in (["-m", "program", "-h"], ["-c", "import sys; print(sys.argv, __name__)", "a", "-b"]):
        ours, own = python("-m", "tdt.as_torch", *arguments, cwd=tmp_path), python(*arguments, cwd=tmp_path)
        stderr = re.sub(r'  File "<frozen runpy>".*\n', "", own.stderr)
        assert (ours.returncode, ours.stdout, ours.stderr) == (own.returncode, own.stdout, stderr)


def test_the_command_line_is_explained():
    own = [sys.executable, "-m", "tdt.as_torch"]
    for arguments, code, words in (
        (["-h"], 0, "usage: python -m tdt.as_torch"),
        ([], 2, "usage: python -m tdt.as_torch"),
        (["-x"], 2, "unknown option -x"),
        (["-m"], 2, "argument expected for the -m option"),
        (["no.py"], 2, "No such file or directory"),
    ):
        done = subprocess.run([*own, *arguments], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == code
        assert words in (done.stderr if code else done.stdout)


@pytest.mark.parametrize(("loaded", "verb"), [(["torch"], "is"), (["torch", "torchvision"], "are")])
def test_pytorch_that_is_loaded_is_not_replaced(loaded: list[str], verb: str, monkeypatch: pytest.MonkeyPatch):
    for name in as_torch.ALIASES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in loaded:
        monkeypatch.setitem(sys.modules, name, sys)
    message = rf"^{' and '.join(loaded)} {verb} imported already; call tdt\.as_torch\.install\(\) before"
    with pytest.raises(RuntimeError, match=message):
        as_torch.install()
    assert not [finder for finder in sys.meta_path if isinstance(finder, as_torch._Finder)]


@pytest.mark.parametrize("other", ["1.10", "2.13", "2.13.0+cpu", "2.13.1a", (2, 13), (2, 4), "v3", [2, 13, 0, 1]])
def test_the_version_compares_by_its_numbers(other):
    from packaging.version import Version

    ours, theirs = Version("2.13.0"), Version(other if isinstance(other, str) else ".".join(map(str, other)))
    theirs = Version(theirs.base_version)
    assert (version.pytorch < other) == (ours < theirs)
    assert (version.pytorch <= other) == (ours <= theirs)
    assert (version.pytorch > other) == (ours > theirs)
    assert (version.pytorch >= other) == (ours >= theirs)
