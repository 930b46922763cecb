"""Files of images as they are read: orientation, modes, and files that cannot be read, all named at once."""

from __future__ import annotations

import io
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest
from PIL import Image, ImageOps

from tdt.train.config import ConfigError, loads
from tdt.train.loop.build import build
from tdt.vision._images import as_rgb, upright
from tdt.vision.datasets import ImageFolder, ImageMasks, _unreadable
from tdt.vision.datasets.folder import pil_loader

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 9, 3)).astype(np.uint8)


def oriented(number: Any) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = number
    return exif


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP", "JPEG"])
@pytest.mark.parametrize("number", range(10))
def test_images_are_turned_as_pillows_exif_transpose_turns_them(kind: str, number: int):
    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, kind, exif=oriented(number), **({"lossless": True} if kind == "WEBP" else {}))
    with Image.open(file) as image:
        expected = ImageOps.exif_transpose(image).convert("RGB")
    with Image.open(file) as image:
        turned = as_rgb(image)
    assert np.array_equal(turned, expected) and turned.size == ((6, 9) if number in (5, 6, 7, 8) else (9, 6))
    assert np.array_equal(as_rgb(turned), turned)  # once only


def test_damaged_exif_data_leave_the_image_as_it_is(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "a.jpg", exif=oriented(6))
    data = (tmp_path / "a.jpg").read_bytes()
    place = data.index(b"Exif")
    (tmp_path / "b.jpg").write_bytes(data[: place + 6] + b"\xff" * 12 + data[place + 18 :])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pil_loader(tmp_path / "a.jpg").size == (6, 9) and pil_loader(tmp_path / "b.jpg").size == (9, 6)


def test_sixteen_bits_keep_their_high_byte(tmp_path):
    values = np.array([[0, 255, 256, 0x8001, 0xFFFF]], np.uint16)
    for ending in ("png", "tif"):
        Image.fromarray(values).save(tmp_path / f"x.{ending}")
        assert np.asarray(pil_loader(tmp_path / f"x.{ending}"))[0, :, 1].tolist() == [0, 0, 1, 128, 255]
    Image.fromarray(values.astype(np.float32)).save(tmp_path / "x.tif")
    with pytest.raises(ValueError, match=r"x\.tif: has pixels of 32 bits \(mode F\), of unknown range"):
        pil_loader(tmp_path / "x.tif")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "transparent P"])
def test_each_mode_becomes_pillows_rgb_without_a_warning(mode: str, tmp_path: Path):
    options: dict[str, Any] = {}
    image = Image.fromarray(PIXELS)
    if mode == "transparent P":
        image, options = image.quantize(5), {"transparency": bytes([0, 9, 255])}
    else:
        image = image.convert(mode)
    path = tmp_path / ("x.tif" if mode == "CMYK" else "x.png")
    image.save(path, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = pil_loader(path)
    assert np.array_equal(read, image.convert("RGB"))


def test_of_an_animation_the_first_frame_is_read(tmp_path):
    frames = [Image.new("RGB", (4, 3), color) for color in ("red", "blue")]
    frames[0].save(tmp_path / "x.gif", save_all=True, append_images=frames[1:])
    assert pil_loader(tmp_path / "x.gif").getpixel((0, 0)) == (255, 0, 0)


def write_folder(root: Path, count: int = 10) -> dict[str, str]:
    """Images of two classes, of which four cannot be read, with the reason of each."""
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(np.roll(PIXELS, number)).save(root / name / f"{number}.png")
    whole = (root / "cat/0.png").read_bytes()
    huge = b"IHDR" + 2 * (1 << 16).to_bytes(4, "big") + whole[24:29]
    spoiled = {
        "cat/1.png": (b"", "is empty: 0 bytes"),
        "cat/2.png": (b"<html>", "is not a readable image"),
        "dog/3.png": (whole[:90], "is damaged or truncated"),
        "dog/4.png": (whole[:12] + huge + zlib.crc32(huge).to_bytes(4, "big") + whole[33:], "has too many pixels"),
    }
    for name, (data, _) in spoiled.items():
        (root / name).write_bytes(data)
    return {name: why for name, (_, why) in spoiled.items()}


def test_images_that_cannot_be_read_are_left_out_of_splits_that_stay_the_same(tmp_path):
    spoiled = write_folder(tmp_path)
    paths = {str(tmp_path / name): why for name, why in spoiled.items()}
    found = {}
    for split in ("train", "valid"):
        every, data = (
            ImageFolder(tmp_path, split=split, valid=0.3, seed=2, damaged=damaged) for damaged in ("error", "skip")
        )
        assert data.samples == [sample for sample in every.samples if sample[0] not in paths]
        assert data.targets == [label for _, label in data.samples] and len([*data]) == len(data)
        assert len(data.left_out) == len(every) - len(data)
        found |= {line.partition(": ")[0]: line for line in data.left_out}
        [note] = data.notes()
        assert note.startswith(f"{len(data.left_out)} of {len(every)} images cannot be used, left out: {tmp_path}")
    assert found.keys() == paths.keys()
    assert [found[path] for path, why in paths.items() if why not in found[path]] == []
    assert ImageFolder(tmp_path / "..", allow_empty=True).notes() == []
    with pytest.raises(ValueError, match="ImageFolder: damaged is error or skip, got 'ignore'"):
        ImageFolder(tmp_path, damaged="ignore")


CONFIG = """
device: cpu
data:
  train: {type: ImageFolder, root: ROOT, split: train, valid: 0.3, damaged: HOW}
  valid: {type: ImageFolder, root: ROOT, split: valid, valid: 0.3, damaged: HOW}
  transform: [ToTensor]
  augment: [RandomHorizontalFlip]
model: [Flatten, LazyLinear(2)]
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {epochs: 1}
"""


def test_all_images_that_cannot_be_read_are_named_before_a_run(tmp_path):
    spoiled = write_folder(tmp_path)
    text = CONFIG.replace("ROOT", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        build(loads(text.replace("HOW", "error")))
    assert "or leave them out with damaged: skip" in caught.value.messages[0]
    for name, why in spoiled.items():
        assert sum(f"{tmp_path / name}: {why}" in message for message in caught.value.messages) == 1
    parts = build(loads(text.replace("HOW", "skip")))
    assert sum(parts.samples.values()) == 16 and all(
        "left out" in note for notes in parts.notes.values() for note in notes
    )


def test_a_check_that_took_long_is_saved_until_a_file_changes(tmp_path, monkeypatch):
    write_folder(tmp_path / "pets")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "cache"))
    ImageFolder(tmp_path / "pets", damaged="skip")
    assert not [*(tmp_path / "cache").rglob("*.json")]
    monkeypatch.setattr(_unreadable, "SAVED_AFTER", 0.0)
    first = ImageFolder(tmp_path / "pets", damaged="skip")
    [saved] = (tmp_path / "cache").rglob("*.json")
    calls: list[int] = []
    with _unreadable.showing(lambda done, of: calls.append(done)):
        assert ImageFolder(tmp_path / "pets", damaged="skip").left_out == first.left_out and not calls
        saved.write_text("[1")
        assert ImageFolder(tmp_path / "pets", damaged="skip").left_out == first.left_out and calls == [*range(1, 21)]
        Image.fromarray(PIXELS).save(tmp_path / "pets/cat/1.png")
        assert len(ImageFolder(tmp_path / "pets", damaged="skip").left_out) == 3 and len(calls) == 40
    saved.parent.chmod(0o777)  # others could write there what is left out
    calls.clear()
    with _unreadable.showing(lambda done, of: calls.append(done)):
        assert len(ImageFolder(tmp_path / "pets", damaged="skip").left_out) == 3 and len(calls) == 20


def test_a_loader_of_the_user_decides_which_images_can_be_read(tmp_path):
    write_folder(tmp_path)

    def loader(path: str) -> Image.Image:
        if path.endswith("7.png"):
            raise ValueError(f"{path}: sevens are refused")
        return Image.new("RGB", (1, 1))

    with pytest.raises(ValueError, match=r"2 of 20 images cannot be used:; .*cat/7\.png: sevens are refused; .*dog/7"):
        ImageFolder(tmp_path, loader=loader, damaged="skip")


def write_pairs(root: Path) -> None:
    for folder in ("photos", "masks"):
        (root / folder).mkdir()
    for number in range(5):
        Image.fromarray(PIXELS).save(root / f"photos/{number}.jpg")
        Image.fromarray(PIXELS[..., 0] % 2).save(root / f"masks/{number}.png")


def test_pairs_of_which_one_cannot_be_read_are_left_out_and_other_mistakes_are_all_named(tmp_path):
    write_pairs(tmp_path)
    (tmp_path / "photos/1.jpg").write_bytes(b"")
    (tmp_path / "masks/3.png").write_bytes(b"")
    places = tmp_path / "photos", tmp_path / "masks"
    data = ImageMasks(*places, ["a", "b"], damaged="skip")
    assert len(data) == 3 and [line.partition(": ")[0] for line in data.left_out] == [
        str(tmp_path / "photos/1.jpg"),
        str(tmp_path / "masks/3.png"),
    ]
    Image.new("L", (9, 6), 7).save(tmp_path / "masks/0.png")
    Image.new("L", (6, 9), 1).save(tmp_path / "masks/2.png")
    Image.fromarray(PIXELS).save(tmp_path / "photos/4.jpg", exif=oriented(6))
    with pytest.raises(ValueError) as caught:
        ImageMasks(*places, ["a", "b"], damaged="skip")
    for text in (
        "3 of 5",
        "0.png: has the value 7",
        "2.png: is 6x9",
        "image 6x9 once turned as its EXIF orientation says",
    ):
        assert text in str(caught.value)
    assert len(ImageMasks(*places, ["a", "b"]).check_files()) == 6


def test_masks_of_sixteen_bits_and_of_palettes_have_their_values(tmp_path):
    write_pairs(tmp_path)
    Image.fromarray(np.full((6, 9), 7001, np.uint16)).save(tmp_path / "masks/0.png")
    palette = Image.fromarray(np.full((6, 9), 3, np.uint8), "P")
    palette.putpalette([9] * 12)
    palette.save(tmp_path / "masks/1.png")
    Image.new("RGB", (9, 6), (5, 5, 5)).save(tmp_path / "masks/2.png")
    data = ImageMasks(tmp_path / "photos", tmp_path / "masks", {"x": 7001, "y": 3, "z": 5})
    assert [data[number][1].max() for number in range(3)] == [0, 1, 2]
    assert upright(palette) is palette
