"""A resumed run detects that the files of its data have changed, of every kind, and reports it before it trains."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tdt.train.config import loads
from tdt.train.data import fingerprints as data_files
from tdt.train.data.datasets import NPZ, Table, Text
from tdt.train.data.fingerprints import differences, fingerprints, source_files
from tdt.train.logging.events import Event, Notice, StepDone
from tdt.train.runs import checkpoint
from tdt.train.runs.run import RunError
from tdt.train.session import Session
from tdt.vision.datasets import MNIST, ImageFolder
from tests.commands.running import tdt_here


def table(folder: Path) -> Any:
    (folder / "a.csv").write_text("x,y\n1,a\n2,b\n3,a\n")
    return Table(folder / "a.csv", "y")


def npz(folder: Path) -> Any:
    np.savez(folder / "a.npz", x=np.zeros((4, 2)), y=np.arange(4) % 2)
    return NPZ(folder / "a.npz")


def text(folder: Path) -> Any:
    (folder / "a.txt").write_text("abc" * 9)
    return Text(folder / "a.txt", length=4)


def images(folder: Path) -> Any:
    for name in ("cat/1", "dog/1", "dog/2"):
        path = folder / f"{name}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("L", (3, 3)).save(path)
    return ImageFolder(folder)


def mnist(folder: Path) -> Any:
    for name, dims in (("train-images-idx3-ubyte", (2, 28, 28)), ("train-labels-idx1-ubyte", (2,))):
        head = bytes([0, 0, 8, len(dims)]) + b"".join(size.to_bytes(4, "big") for size in dims)
        (folder / f"{name}.gz").write_bytes(gzip.compress(head + bytes(int(np.prod(dims)))))
    return MNIST(folder)


MAKERS: list[Callable[[Path], Any]] = [table, npz, text, images, mnist]


class CaptionedSample:
    """A data set of the user's own, which says where its samples come from."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths

    def source_files(self) -> list[str]:
        return list(self.paths)


def test_paths_that_a_dataset_returns_may_be_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).write_text(name)
    mixed = source_files(CaptionedSample("a", str(tmp_path / "b")))
    assert fingerprints({"train": mixed}) == fingerprints({"train": source_files(CaptionedSample("a", "b"))})


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RunError, match=r"data.train: cannot read .*gone, one of its source_files\(\): No such file"):
        fingerprints({"train": source_files(CaptionedSample(str(tmp_path / "gone")))})


def later(path: Path) -> None:
    """Give the file another time."""
    about = path.stat()
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns + 10**9))


@pytest.mark.parametrize("make", MAKERS)
def test_a_byte_that_changed_is_noticed_and_a_time_alone_is_not(tmp_path, make: Callable[[Path], Any]):
    files = {"train": source_files(make(tmp_path))}
    assert files["train"] and all(str(tmp_path) in path for path in files["train"])
    before = fingerprints(files)
    path = Path(files["train"][-1])
    later(path)
    assert differences(before, fingerprints(files, before)) == []
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert differences(before, fingerprints(files, before)) == ["data.train has changed: the contents differ"]
    path.write_bytes(content + b"12345")
    assert ["size was" in line for line in differences(before, fingerprints(files, before))] == [True]


def test_added_removed_and_renamed_files_are_noticed(tmp_path):
    before = fingerprints({"train": source_files(images(tmp_path))})
    (tmp_path / "dog" / "2.png").rename(tmp_path / "dog" / "3.png")
    now = fingerprints({"train": source_files(ImageFolder(tmp_path))})
    assert differences(before, now) == ["data.train has changed: the names of its files differ"]
    (tmp_path / "dog" / "3.png").unlink()
    now = fingerprints({"train": source_files(ImageFolder(tmp_path))})
    assert differences(before, now) == ["data.train has changed: its number of files was 3 and is 2"]


def test_contents_are_read_only_where_a_time_differs(tmp_path, monkeypatch):
    files = {"train": source_files(table(tmp_path))}
    before = fingerprints(files)
    monkeypatch.setattr(data_files, "_sample", lambda *_: pytest.fail("read"))
    assert fingerprints(files, before) == before


def test_of_large_data_blocks_from_all_over_are_read(tmp_path, monkeypatch):
    for name, value in (("WHOLE", 100), ("BLOCKS", 20), ("BLOCK", 4)):
        monkeypatch.setattr(data_files, name, value)
    rng = np.random.default_rng(0)
    paths = [tmp_path / str(number) for number in range(7)]
    for path in paths:
        path.write_bytes(rng.bytes(int(rng.integers(0, 90))))
    sizes = [path.stat().st_size for path in paths]
    blocks = list(data_files._sample([str(path) for path in paths], sizes))
    whole = b"".join(path.read_bytes() for path in paths)
    assert len(blocks) == 20 and all(block in whole for block in blocks)
    assert whole.startswith(blocks[0]) and whole.endswith(blocks[-1])


CONFIG = """
name: rows
device: cpu
data: {train: "Table('data.csv', 'y')", loader: {batch_size: 4}}
model: [LazyLinear(2)]
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {epochs: 3}
checkpoint: {every: 1 step}
"""


class Stop(BaseException):
    """Ends a run as suddenly as a signal that cannot be caught."""


def crash(event: Event) -> None:
    if isinstance(event, StepDone) and event.step == 3:
        raise Stop


@pytest.fixture
def killed(tmp_path, monkeypatch) -> Path:
    """A folder with a table, and a run that was killed."""
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text("x,y\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(8)))
    with pytest.raises(Stop), Session.start(loads(CONFIG, "rows.yaml")) as session:
        session.train(crash)
    return tmp_path


def test_a_run_whose_data_changed_stops_unless_allowed(killed):
    before = Path("data.csv").read_text()
    Path("data.csv").write_text(before.replace("7,b", "9,b"))
    stopped = tdt_here("train", "--resume", "rows", cwd=killed)
    assert stopped.returncode == 2 and stopped.stderr.startswith(
        "error: data.train has changed: the contents differ: a resumed run "
    )
    assert "--changed-data" in stopped.stderr
    with Session.resume("rows", changed_data=True) as session:
        events: list[Event] = []
        session.train(events.append)
    assert [e.text for e in events if isinstance(e, Notice)] == ["data.train has changed: the contents differ"]
    Session.resume("rows").close()  # it is the run's data now
    Path("data.csv").write_text(before)
    with pytest.raises(RunError, match="has changed"):
        Session.resume("rows")


def test_a_run_whose_data_were_rewritten_unchanged_resumes(killed):
    later(Path("data.csv"))
    assert tdt_here("train", "--resume", "rows", cwd=killed).returncode == 0


def test_a_run_of_an_older_version_resumes_whatever_its_data_are(killed):
    last = Path("runs/rows/1/checkpoints/last.safetensors")
    tensors, meta = checkpoint.load(last)
    del meta["data_files"]
    checkpoint.save(last, tensors, meta)
    Path("data.csv").write_text(Path("data.csv").read_text().replace("7,b", "9,b"))
    assert tdt_here("train", "--resume", "rows", cwd=killed).returncode == 0


def test_the_switch_is_for_resumed_runs(killed):
    done = tdt_here("train", "rows.yaml", "--changed-data", cwd=killed)
    assert done.returncode == 2 and "needs --resume RUN" in done.stderr
