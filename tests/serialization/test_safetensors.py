"""safetensors' own `torch` module on tdt, and the memory-mapped storages that it is built on."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

import tdt
from tests.helpers import require_torch

ROOT = Path(__file__).parents[2]

PROGRAM = """
import os
import torch
import safetensors.torch as st
from safetensors import safe_open

kinds = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
tensors = {
    "w": torch.arange(12.0).reshape(3, 4), "half": torch.ones(2).half(), "b": torch.ones(3, dtype=torch.bfloat16),
    "i": torch.arange(3), "bool": torch.tensor([True, False]), "empty": torch.zeros(0, 3), "0-d": torch.tensor(3.0),
    "u16": torch.tensor([1, 2], dtype=torch.uint16), "complex": torch.tensor([1j, 2]), "double": torch.ones(2).double(),
    **{str(kind): torch.tensor([1.0, 2, -3]).to(kind) for kind in kinds},
}
st.save_file(tensors, "a.safetensors", metadata={"by": "test"})
for read in (lambda: st.load_file("a.safetensors"), lambda: st.load(open("a.safetensors", "rb").read()),
             lambda: st.load_file("a.safetensors", backend="pread"), lambda: st.load(st.save(tensors))):
    back = read()
    print([(name, back[name]) for name in sorted(back)])
with safe_open("a.safetensors", framework="pt", device="cpu") as file:
    part = file.get_slice("w")
    print(sorted(file.keys()), file.metadata(), file.get_tensor("i"), part[1:, ::1], part.get_shape())
back = st.load_file("a.safetensors")
back["w"][0, 0] = 7
print(back["w"][0], st.load_file("a.safetensors")["w"][0])


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.b.weight = self.a.weight


one, two = Tied(), Tied()
st.save_model(one, "m.safetensors")
print(st.load_model(two, "m.safetensors"), two.a.weight is two.b.weight)
print(all(torch.equal(x, y) for x, y in zip(one.state_dict().values(), two.state_dict().values())))
for wrong in ({"a": one.a.weight, "b": one.b.weight}, {"a": torch.ones(2, 3).t()}, {"a": torch.eye(2).to_sparse()}, {"a": 1}):
    try:
        st.save_file(wrong, "x.safetensors")
    except (RuntimeError, ValueError) as error:
        print(type(error).__name__, " ".join(str(error).split())[:60])
"""


def test_its_programs_run_on_tdt_as_on_pytorch(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir(), theirs.mkdir()
    (ours / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "tdt.as_torch", "program.py"], cwd=ours, env={"PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "True" in done.stdout and "float8_e4m3fn" in done.stdout
    torch, here, printed = require_torch(), os.getcwd(), StringIO()
    os.chdir(theirs)
    try:
        with redirect_stdout(printed):
            exec(compile(PROGRAM, "program.py", "exec"), {"__name__": "program", "torch": torch})
    finally:
        os.chdir(here)
    assert done.stdout == printed.getvalue()
    assert (ours / "a.safetensors").read_bytes() == (theirs / "a.safetensors").read_bytes()


def test_a_storage_is_mapped_from_a_file_under_pytorchs_rules(tmp_path):
    torch = require_torch()
    for lib in (torch, tdt):
        path = str(tmp_path / f"{lib.__name__}.bin")
        Path(path).write_bytes(bytes(range(16)))
        storage = lib.UntypedStorage
        private = storage.from_file(path, False, 8)
        private[0] = 99
        assert private.tolist()[:2] == [99, 1] and Path(path).read_bytes()[0] == 0 and private.filename is None
        shared = storage.from_file(path, shared=True, nbytes=20)
        lib.tensor([], dtype=lib.uint8).set_(shared)[1] = 98
        assert shared.filename == path and shared.is_shared() and len(shared) == os.path.getsize(path) == 20
        del shared
        assert Path(path).read_bytes()[:3] == bytes([0, 98, 2]) and storage.from_file(path).nbytes() == 0
        mapped = storage.from_file(path + ".new", True, 4)
        assert mapped.tolist() == [0] * 4 and mapped.untyped() is mapped
        assert lib.FloatStorage.from_file(path, False, 2).nbytes() == 8
        with pytest.raises(RuntimeError, match="size <20> is smaller than the required mapping size <21>"):
            storage.from_file(path, False, 21)
        with pytest.raises(
            RuntimeError, match=r"unable to open file <.*none> in read-only mode: No such file or directory \(2\)"
        ):
            storage.from_file(path + "none", False, 4)
        with pytest.raises(RuntimeError, match="unable to mmap -4 bytes"):
            storage.from_file(path, False, -4)
        with pytest.raises(RuntimeError, match="unable to open file .* in read-write mode: Is a directory"):
            storage.from_file(str(tmp_path), True, 4)


def test_tensors_are_created_on_storages_without_a_copy():
    torch = require_torch()
    for lib in (torch, tdt):
        memory = lib.UntypedStorage([0, 0, 128, 63, 1, 2, 3, 4])
        for tensor in (lib.asarray(memory[0:4], dtype=lib.float32), lib.tensor(memory, dtype=lib.float32)[:1]):
            assert tensor.tolist() == [1.0]
        view = lib.as_tensor(memory, dtype=lib.uint8)
        view[0] = 5
        assert memory[0] == 5 and lib.tensor(memory).dtype is lib.int64
        assert lib.tensor(lib.FloatStorage([1, 2])).tolist() == [1.0, 2.0]
        with pytest.raises(RuntimeError, match="Expected a Storage of type Long or an UntypedStorage, but got Float"):
            lib.tensor(lib.FloatStorage([1, 2]), dtype=lib.int64)
