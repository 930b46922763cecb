"""`tdt init` on folders of images with masks, and with files that cannot be read: from a folder to predictions."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import tdt
from tdt import cli
from tdt.train.config import load
from tdt.train.logging.pictures import palette
from tdt.train.loop.evaluation import evaluate_checkpoint
from tests.commands.test_init import init, make_images, trains

COLORS = np.array([[0, 0, 0], [255, 0, 0], [0, 0, 255]], np.uint8)


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_pairs(root: Path | str, kind: str = "values", count: int = 12, width: int = 32, ending: str = "png") -> None:
    """Photos with a red disc and a blue square, and masks that show them."""
    rng = np.random.default_rng(0)
    for folder in ("images", "masks"):
        (Path(root) / folder).mkdir(parents=True)
    rows, columns = np.mgrid[:24, :width]
    for number in range(count):
        photo, mask = rng.integers(0, 60, (24, width, 3)).astype(np.uint8), np.zeros((24, width), np.uint8)
        row, column = rng.integers(4, 20, 2)
        mask[(rows - row) ** 2 + (columns - column) ** 2 < 16] = 1
        mask[4:10, width - 8 - number % 4 : width - 2 - number % 4] = 2
        photo[mask == 1], photo[mask == 2] = (200, 60, 60), (60, 60, 200)
        shown = {"values": mask, "binary": mask.clip(0, 1) * 255, "colors": COLORS[mask], "border": COLORS[mask]}[kind]
        if kind == "border":
            shown[0] = 0xE0, 0xE0, 0xC0
        Image.fromarray(photo).save(Path(root) / f"images/{number:02}.png")
        Image.fromarray(shown).save(Path(root) / f"masks/{number:02}.{ending}")


def test_a_folder_of_images_with_masks_becomes_a_config_that_learns_them(capsys, work):
    make_pairs("scenes", "colors")
    code, out, err = init(capsys, "scenes")
    assert (code, err) == (0, "") and out.splitlines()[:2] == [
        "scenes: 12 images in train, with masks, all 32 x 24",
        "  3 classes of pixels: background 89.5%, class1 4.7%, class2 5.8%",
    ]
    code = cli.run(["train", "scenes.yaml", "train.epochs=12", "optimizer.lr=1e-2", "device=cpu"])
    assert code == 0, capsys.readouterr().err
    scores = evaluate_checkpoint("runs/scenes/1/checkpoints/best.safetensors", "test").scores
    assert scores["iou"] > 0.6 and scores["dice"] > scores["iou"]
    last = "runs/scenes/1/checkpoints/last.safetensors"
    assert cli.run(["predict", last, "scenes/images", "--output", "found"]) == 0
    check_pictures(work / "runs/scenes/1", work / "found")


def check_pictures(run: Path, predicted: Path) -> None:
    """TensorBoard's reader finds, for each validation, the images beside their true and predicted masks."""
    found = EventAccumulator(str(run), size_guidance={"images": 0})
    found.Reload()
    shown = found.Images("valid/masks")
    assert [image.step for image in shown] == [2 * epoch for epoch in range(1, 13)]
    page = np.asarray(Image.open(io.BytesIO(shown[-1].encoded_image_string)).convert("RGB")).astype(int)
    data = tdt.vision.datasets.ImageMasks(**load(run / "config.yaml").data.valid.kwargs)
    colors = np.array(palette(3)).reshape(-1, 3)
    for row, (image, mask) in enumerate(data):
        top = 28 + row * (3 * 24 + 28)  # below the names of the classes; images are enlarged three times
        panels = [page[top : top + 72 : 3, left : left + 96 : 3] for left in (5, 111, 217)]
        stem = Path(data.samples[row][0]).stem
        assert np.corrcoef(panels[0].ravel(), np.asarray(image).ravel())[0, 1] > 0.999
        assert np.array_equal(panels[1], colors[mask])
        assert np.array_equal(panels[2], colors[np.asarray(Image.open(predicted / f"{stem}.png"))])
    assert page.shape == (28 + len(data) * 100, 3 * 106, 3)


@pytest.mark.parametrize(
    ("kind", "classes", "ignored"),
    [
        ("values", ["background", "class1", "class2"], ""),
        ("binary", {"background": 0, "foreground": 255}, ""),
        ("border", {"background": "#000000", "class1": "#0000ff", "class2": "#ff0000"}, "; #e0e0c0 does not count"),
    ],
)
def test_classes_are_found_in_masks(capsys, kind, classes, ignored):
    make_pairs("scenes", kind)
    assert init(capsys, "scenes")[1].splitlines()[1].endswith(f"%{ignored}")
    data = load("scenes.yaml").data.splits()
    assert data["train"].kwargs.get("ignore", 255) == {"binary": None, "border": "#e0e0c0"}.get(kind, 255)
    assert [split.kwargs["classes"] for split in data.values()] == [classes] * 3
    dataset = tdt.vision.datasets.ImageMasks(**data["train"].kwargs)
    assert {number for _, mask in dataset for number in np.unique(mask)} - {255} == {*range(len(classes))}
    assert (dataset[0][1][0] == 255).all() == (kind == "border")
    trains("scenes.yaml")


@pytest.mark.parametrize("layout", ["{split}/{kind}", "{kind}/{split}"])
def test_splits_in_folders_are_found_on_both_levels(capsys, layout):
    for split in ("train", "val"):
        make_pairs("made", count=4 if split == "train" else 2, width=200)
        for kind in ("images", "masks"):
            place = Path("scenes") / layout.format(kind=kind, split=split)
            place.parent.mkdir(parents=True, exist_ok=True)
            Path("made", kind).rename(place)
        Path("made").rmdir()
    assert init(capsys, "scenes")[1].startswith(
        "scenes: 4 images in train, 2 images in valid, with masks, all 200 x 24\n"
    )
    config = load("scenes.yaml")
    assert [*config.data.splits()] == ["train", "valid"] and config.data.transform[0].args == ((24, 192),)
    trains("scenes.yaml")


def test_masks_without_a_possible_config_are_reported(capsys):
    make_pairs("lossy", "colors", ending="jpg")
    make_pairs("empty")
    make_pairs("alone")
    make_pairs("other")
    for path in Path("empty/masks").iterdir():
        Image.new("L", (32, 24)).save(path)
    Path("alone/masks/03.png").unlink()
    Image.new("L", (9, 9), 1).save("other/masks/05.png")
    for folder, message in {
        "lossy": "colors; expected one for each class. JPEG and smooth borders add others: save masks as PNG",
        "empty": "all pixels of the masks have the value 0; at least two classes are needed",
        "alone": "alone/images/03.png has no mask",
        "other": "1 of 12 images cannot be used:; other/masks/05.png: is 9x9, but its image 32x24",
    }.items():
        code, out, err = init(capsys, folder)
        assert (code, out) == (2, "") and message in err and not Path(f"{folder}.yaml").exists()


@pytest.mark.parametrize("masks", [False, True])
def test_images_that_cannot_be_read_are_all_named_and_left_out_on_request(capsys, masks):
    if masks:
        make_pairs("pics")
        spoiled = ["pics/images/03.png", "pics/masks/05.png"]
    else:
        make_images(Path("pics"), ("cat", "dog"))
        spoiled = ["pics/cat/1.png", "pics/dog/4.png"]
    for path in spoiled:
        Path(path).write_bytes(b"")
    code, out, err = init(capsys, "pics")
    assert (code, out) == (2, "") and err.splitlines() == [
        "error: 2 of 12 images cannot be used:",
        *(f"  {path}: is empty: 0 bytes" for path in spoiled),
        "replace or remove them, or leave them out: tdt init pics --skip-damaged",
    ]
    code, out, _ = init(capsys, "pics", "--skip-damaged")
    assert code == 0 and "  left out: 2 of 12 images cannot be used:\n" in out
    assert cli.run(["train", "pics.yaml", "train.epochs=1", "device=cpu"]) == 0
    assert "left out: " in capsys.readouterr().out
    code, _, err = init(capsys, "digits-mlp", "--skip-damaged")
    assert code == 2 and "--skip-damaged needs a folder of images" in err


def test_photos_are_upright_from_init_to_load_model(capsys):
    """Half of the files are stored lying, with the EXIF orientation by which a camera says so."""
    for name, shade in (("cat", 60), ("dog", 190)):
        Path("pics", name).mkdir(parents=True)
        for number in range(8):
            photo = np.full((40, 30, 3), shade, np.uint8)
            photo[:9, :] = number * 9
            image, exif = Image.fromarray(photo), Image.Exif()
            if number % 2:
                image, exif[0x0112] = image.transpose(Image.Transpose.ROTATE_90), 6
            image.save(f"pics/{name}/{number}.png", exif=exif)
    assert "all 30 x 40" in init(capsys, "pics")[1]
    assert cli.run(["train", "pics.yaml", "train.epochs=1", "device=cpu"]) == 0
    model, path = tdt.load_model("runs/pics/1"), "pics/dog/3.png"
    with Image.open(path) as lying:
        upright = ImageOps.exif_transpose(lying)
        answers = [model.predict(one) for one in (path, lying, upright, np.asarray(upright))]
    assert len({tuple(answer.probabilities.items()) for answer in answers}) == 1
    capsys.readouterr()
    assert cli.run(["predict", "pics", path, "--json"]) == 0
    assert f'"probability": {answers[0].probability:.6}'[:20] in capsys.readouterr().out


def test_other_files_in_the_folder_are_counted(capsys):
    make_images(Path("pics"), ("cat", "dog"))
    for name in ("cat/moving.gif", "dog/photo.HEIC", "dog/b.heic", "dog/notes"):
        Path("pics", name).touch()
    assert (
        "  files that are not read: 2 .heic, 1 .gif, 1 without an ending; images end in .jpg" in init(capsys, "pics")[1]
    )
