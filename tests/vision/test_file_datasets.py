"""MNIST, CIFAR and image folders from files in their original formats: found, read, downloaded, refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tdt
from tdt.vision._images import FORMATS
from tdt.vision.datasets import CIFAR10, CIFAR100, KMNIST, MNIST, FashionMNIST, ImageFolder
from tdt.vision.datasets._files import Remote, fetch, home
from tdt.vision.datasets.folder import pil_loader, read_image
from tests.fuzz import pickles as opcodes

RNG = np.random.RandomState(0)
IMAGES = RNG.randint(0, 256, (12, 28, 28)).astype(np.uint8)
LABELS = RNG.randint(0, 10, 12).astype(np.uint8)
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def write_mnist(folder: Path, packed: bool = True) -> None:
    folder.mkdir(parents=True)
    for name, array in zip(NAMES, (IMAGES, LABELS, IMAGES[:4], LABELS[:4]), strict=True):
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (folder / name).write_bytes(idx(array))


@pytest.mark.parametrize("kind", [MNIST, FashionMNIST, KMNIST])
@pytest.mark.parametrize("place", ["{}/raw", "{}", "."])
@pytest.mark.parametrize("packed", [True, False])
def test_mnist_reads_its_original_files_packed_or_not(tmp_path, kind, place, packed):
    write_mnist(tmp_path / "d" / place.format(kind.__name__), packed)
    train, test = kind(tmp_path / "d"), kind(tmp_path / "d", train=False)
    np.testing.assert_array_equal(train.data, IMAGES)
    np.testing.assert_array_equal(test.targets, LABELS[:4])
    image, label = train[3]
    assert (image.shape, image.dtype, label, type(label)) == ((28, 28), np.uint8, LABELS[3], int)


def test_splits_divide_the_training_part(tmp_path, monkeypatch):
    monkeypatch.setattr(MNIST, "held_out", 5)
    write_mnist(tmp_path / "raw")
    sizes = {split: len(MNIST(tmp_path / "raw", split=split)) for split in ("train", "valid", "test", None)}
    assert sizes == {"train": 7, "valid": 5, "test": 4, None: 12}
    np.testing.assert_array_equal(MNIST(tmp_path / "raw", split="valid").data, IMAGES[7:])
    with pytest.raises(ValueError, match="split 'dev' is not one of train, valid, test"):
        MNIST(tmp_path / "raw", split="dev")


def test_missing_files_are_reported_with_the_folder_to_put_them_in(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"put train-images.*gz, train-labels.*gz into {tmp_path}/MNIST/raw"):
        MNIST(tmp_path)
    with pytest.raises(FileNotFoundError, match=rf"put cifar-100-python.tar.gz into {tmp_path}"):
        CIFAR100(tmp_path)


def test_the_home_of_data_is_a_variable_or_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TDT_DATA", str(tmp_path))
    assert home(None) == tmp_path
    monkeypatch.delenv("TDT_DATA")
    assert home(None).name == "data"
    assert home("x") == Path("x")


@pytest.mark.parametrize("spoil, expected", [
    (lambda text: text[:-9], "should hold 9408 values for its shape"),
    (lambda text: text + b"x", "but holds more"),
    (lambda text: b"\0\0\x0d" + text[3:], "expected an IDX file of bytes with 3 axes"),
    (lambda text: text[:4] + b"\x7f" + text[5:], "more than a GiB"),
    (lambda text: text[:10], "expected an IDX file"),
])  # fmt: skip
def test_damaged_idx_files_are_refused(tmp_path, spoil, expected):
    write_mnist(tmp_path / "raw", packed=False)
    file = tmp_path / "raw" / NAMES[0]
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(ValueError, match=expected):
        MNIST(tmp_path / "raw")


def test_packed_files_cut_short_and_labels_of_other_data_are_refused(tmp_path):
    write_mnist(tmp_path / "raw")
    images, labels = (tmp_path / "raw" / f"{name}.gz" for name in NAMES[:2])
    whole = images.read_bytes()
    images.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="is damaged or truncated"):
        MNIST(tmp_path / "raw")
    images.write_bytes(whole)
    labels.write_bytes(gzip.compress(idx(LABELS + 10)))
    with pytest.raises(ValueError, match=r"labels are not all in 0\.\.9"):
        MNIST(tmp_path / "raw")
    labels.write_bytes(gzip.compress(idx(LABELS[:5])))
    with pytest.raises(ValueError, match="one for each label"):
        MNIST(tmp_path / "raw")


def test_blank_states_size_and_shape_without_files():
    for kind, split, shape in ((MNIST, "valid", (10_000, 28, 28)), (CIFAR10, "train", (45_000, 32, 32, 3))):
        blank = kind.blank("nowhere", split=split)
        assert isinstance(blank, kind)
        assert (blank.data.shape, blank.data.dtype, blank.data.strides[0]) == (shape, np.uint8, 0)
        assert (len(blank), blank[0][1]) == (shape[0], 0)


@pytest.fixture
def server(tmp_path) -> Iterator[tuple[Path, str]]:
    """A folder, and the address under which it is served."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{serving.server_address[1]}/"
        serving.shutdown()
        thread.join()


def test_download_gets_what_is_missing_and_checks_it(server, tmp_path, monkeypatch):
    served, address = server
    write_mnist(served / "mnist")
    sums = {name: hashlib.md5((served / "mnist" / f"{name}.gz").read_bytes()).hexdigest() for name in NAMES}
    monkeypatch.setattr(MNIST, "base", f"{address}mnist/")
    monkeypatch.setattr(MNIST, "md5", sums)
    np.testing.assert_array_equal(MNIST(tmp_path, download=True).data, IMAGES)
    assert sorted(p.name for p in (tmp_path / "MNIST" / "raw").iterdir()) == [f"{name}.gz" for name in NAMES[:2]]
    np.testing.assert_array_equal(MNIST(tmp_path).data, IMAGES)


@pytest.mark.parametrize(
    "name, expected", [("wrong", "MD5 checksum is .*, expected 00; nothing was kept"), ("none", "404")]
)
def test_a_download_that_is_not_what_it_should_be_leaves_nothing(server, tmp_path, name, expected):
    served, address = server
    (served / "wrong").write_bytes(b"something else")
    with pytest.raises(OSError, match=expected):
        fetch(Remote(name, "00", address), tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


COLOUR = RNG.randint(0, 256, (8, 3072)).astype(np.uint8)


def batch(first: int, labels: str = "labels") -> bytes:
    return pickle.dumps({"data": COLOUR[first : first + 2], labels: [first % 10, 1]}, protocol=4)


def write_cifar(root: Path, contents: dict[str, bytes]) -> None:
    with tarfile.open(root / "cifar-10-python.tar.gz", "w:gz") as archive:
        for name, text in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))


def test_cifar_reads_archive_and_folder_alike(tmp_path):
    names = [f"data_batch_{i}" for i in (1, 2, 3, 4)] + ["data_batch_5"]
    contents = {f"cifar-10-batches-py/{name}": batch(i % 4 * 2) for i, name in enumerate(names)}
    write_cifar(tmp_path, contents | {"../../escaped": b"x"})
    data = CIFAR10(tmp_path)
    expected = np.concatenate([COLOUR, COLOUR[:2]]).reshape(10, 3, 32, 32).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(data.data, expected)
    np.testing.assert_array_equal(data.targets, [0, 1, 2, 1, 4, 1, 6, 1, 0, 1])
    assert not (tmp_path.parent.parent / "escaped").exists()
    for name, text in contents.items():
        (tmp_path / "unpacked" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "unpacked" / name).write_bytes(text)
    np.testing.assert_array_equal(CIFAR10(tmp_path / "unpacked").data, expected)
    with pytest.raises(ValueError, match="does not contain test_batch"):
        CIFAR10(tmp_path, train=False)
    whole = (tmp_path / "cifar-10-python.tar.gz").read_bytes()
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="is damaged or truncated"):
        CIFAR10(tmp_path)


def test_cifar100_has_fine_labels(tmp_path):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    (folder / "test").write_bytes(batch(0, "fine_labels"))
    data = CIFAR100(tmp_path, train=False)
    assert (len(data), data.classes[data[1][1]]) == (2, "aquarium_fish")


def array_pickle(kind: str, data: bytes) -> bytes:
    """A batch as Python 2 wrote it, whose array has elements of `kind`."""
    text = b"T" + len(data).to_bytes(4, "little") + data
    rebuilt = opcodes.call(
        opcodes.name("numpy.core.multiarray", "_reconstruct"), opcodes.name("numpy", "ndarray"), (0,), "b"
    )
    dtype = (
        opcodes.call(opcodes.name("numpy", "dtype"), kind, 0, 1)
        + opcodes.value((3, "|", None, None, None, -1, -1, 0))
        + b"b"
    )
    array = rebuilt + b"(" + opcodes.value(1) + opcodes.value((1, 3072)) + dtype + opcodes.value(False) + text + b"tb"
    return b"\x80\x02" + opcodes.value({"data": opcodes.Raw(array), "labels": [7]}) + b"."


def test_cifar_reads_batches_as_python_2_wrote_them(tmp_path):
    (tmp_path / "test_batch").write_bytes(array_pickle("u1", bytes(range(256)) * 12))
    assert CIFAR10(tmp_path, train=False).data.reshape(-1, 3)[:3].tolist() == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]


class Hostile:
    def __reduce__(self):
        return (Path.touch, (Path("touched"),))


@pytest.mark.parametrize("content, expected", [
    (pickle.dumps(Hostile()), "it refers to pathlib"),
    (pickle.dumps({"data": eval}), "it refers to builtins.eval"),
    (b"no pickle", "is not a CIFAR batch"),
    (pickle.dumps({"data": COLOUR[:, :5], "labels": [0] * 8}), "row of 3,072 bytes"),
    (pickle.dumps([1, 2]), "is not a CIFAR batch"),
    (b"\x80\x02" + opcodes.call(opcodes.name("numpy", "ndarray"), 10**11) + b".", "is not a CIFAR batch"),  # allocates in NumPy
    (b"\x80\x02Nr\xff\xff\xff\x3f.", "is not a CIFAR batch"),  # 16 GB of memo in Python's own unpickler
    (array_pickle("O8", b"A" * 8), "contains 'O8', not bytes"),  # addresses of objects, of the file's choice
    (array_pickle("u1", b"A" * 5), "cannot reshape"),
])  # fmt: skip
def test_pickles_that_are_more_than_data_run_nothing(tmp_path, monkeypatch, content, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_batch").write_bytes(content)
    with pytest.raises(ValueError, match=expected):
        CIFAR10(tmp_path, train=False)
    assert not (tmp_path / "touched").exists()


def test_image_folder_sorts_classes_and_files_and_reads_rgb(tmp_path):
    for name, value in (("b/2.png", 2), ("b/deep/er/1.PNG", 1), ("a/3.jpg", 3)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (5, 4), value).save(tmp_path / name)
    (tmp_path / "a" / "notes.txt").write_text("no image")
    data = ImageFolder(tmp_path)
    assert (data.classes, data.class_to_idx, data.targets) == (["a", "b"], {"a": 0, "b": 1}, [0, 1, 1])
    assert [Path(path).name for path, _ in data.imgs] == ["3.jpg", "2.png", "1.PNG"]
    image, label = data[1]
    assert (image.mode, image.size, image.getpixel((0, 0)), label) == ("RGB", (5, 4), (2, 2, 2), 1)


def test_image_folder_shares_out_the_images_of_each_class(tmp_path):
    for name, count in (("a", 10), ("b", 20)):
        (tmp_path / name).mkdir()
        for i in range(count):
            Image.new("L", (1, 1)).save(tmp_path / name / f"{i}.png")
    parts = {
        name: ImageFolder(tmp_path, split=name, valid=0.2, test=0.1, seed=3) for name in ("train", "valid", "test")
    }
    assert {name: [part.targets.count(k) for k in (0, 1)] for name, part in parts.items()} == {
        "train": [7, 14], "valid": [2, 4], "test": [1, 2]}  # fmt: skip
    assert sorted(sample for part in parts.values() for sample in part.samples) == sorted(ImageFolder(tmp_path).samples)
    again = ImageFolder(tmp_path, split="valid", valid=0.2, test=0.1, seed=3)
    assert again.samples == parts["valid"].samples
    assert again.samples != ImageFolder(tmp_path, split="valid", valid=0.2, test=0.1, seed=4).samples
    with pytest.raises(ValueError, match="ImageFolder: split 'all' is not one of"):
        ImageFolder(tmp_path, split="all")


def test_image_folder_reports_what_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        ImageFolder(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="has no folders; it takes one for each class"):
        ImageFolder(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no images in .* for empty; .* or set allow_empty"):
        ImageFolder(tmp_path)
    assert len(ImageFolder(tmp_path, allow_empty=True)) == 0


def test_damaged_and_hostile_images_are_named(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "x.png"
    Image.fromarray(IMAGES[0]).save(file)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"x\.png: is damaged or truncated"):
        ImageFolder(tmp_path)[0]
    file.write_bytes(b"text")
    with pytest.raises(ValueError, match=r"x\.png: is not a readable image"):
        ImageFolder(tmp_path)[0]
    file.write_bytes(whole)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)  # a warning from here, an error from twice this
    with pytest.raises(ValueError, match=r"x\.png: has too many pixels"):
        ImageFolder(tmp_path)[0]


@pytest.mark.parametrize("how", ["read", "as bytes"])
def test_a_postscript_file_is_never_handed_to_ghostscript(tmp_path, monkeypatch, how):
    from PIL import EpsImagePlugin

    def started(*arguments, **options):
        raise AssertionError("Ghostscript would have run")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", started)
    file = tmp_path / "cat.jpg"
    Image.fromarray(IMAGES[0]).convert("RGB").save(file, format="EPS")
    with Image.open(file) as image:
        assert image.format == "EPS"
        with pytest.raises(AssertionError, match="Ghostscript"):
            image.load()  # what Pillow does by itself
    source = file if how == "read" else io.BytesIO(file.read_bytes())
    with pytest.raises(ValueError, match=r"cat\.jpg: is not a readable image"):
        read_image(source, "cat.jpg")


@pytest.mark.parametrize("kind", FORMATS)
def test_each_format_is_read_whatever_the_file_is_called(tmp_path, kind):
    picture = Image.new("RGB", (6, 4), (200, 30, 40))
    picture.save(tmp_path / "image.jpg", format=kind)
    read = pil_loader(tmp_path / "image.jpg")
    assert read.mode == "RGB" and read.size == (6, 4)
    assert np.abs(np.asarray(read, int) - (200, 30, 40)).max() <= 8


def test_pictures_of_several_views_are_read_as_jpeg(tmp_path):
    Image.new("RGB", (6, 4)).save(
        tmp_path / "phone.jpg", format="MPO", save_all=True, append_images=[Image.new("RGB", (6, 4))]
    )
    assert pil_loader(tmp_path / "phone.jpg").size == (6, 4)


def test_images_are_opened_in_one_place():
    package = Path(tdt.__file__).parent
    lines = [(path, line) for path in package.rglob("*.py") for line in path.read_text().splitlines()]
    calls = [path for path, line in lines if "Image.open(" in line and ">>>" not in line]
    assert calls == [package / "vision/_images.py"]
