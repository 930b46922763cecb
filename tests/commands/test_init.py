"""`tdt init` writes a config that trains, from a template, a table or images, and overwrites nothing."""

from __future__ import annotations

import errno
import json
import os
import random
from pathlib import Path

import pytest
from PIL import Image

from tdt import _files, cli
from tdt.train.config import bundled, load
from tdt.train.session import Session


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["init", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def trains(file: str) -> Session:
    with Session.start(load(file, ["train.epochs=1", "device=cpu"])) as session:
        assert session.train().reason == "done"
    return session


def make_table(path: Path, rows: int = 60) -> None:
    draw = random.Random(0)
    lines = ["id,length,the colour,same,price,species"]
    for i in range(rows):
        kind = draw.choice(["setosa", "virginica"])
        length = "" if i == 3 else f"{draw.random() + 3 * (kind == 'setosa'):.2f}"
        lines.append(f"r{i},{length},{draw.choice(['red', 'no'])},1,{100 + 9 * draw.random():.2f},{kind}")
    path.write_text("\n".join(lines) + "\n")


def make_images(folder: Path, names: tuple[str, ...], size: int = 32) -> None:
    for shade, name in enumerate(names, 1):
        (folder / name).mkdir(parents=True)
        for i in range(6):
            Image.new("RGB", (size + i * (size > 32), size), (60 * shade, i, 0)).save(folder / name / f"{i}.png")


def test_the_templates_are_listed(capsys):
    assert json.loads(init(capsys, "--json")[1])["templates"].keys() == bundled().keys()
    code, out, _ = init(capsys)
    assert code == 0 and "digits-mlp       A multi-layer perceptron on handwritten digits\n" in out
    assert out.endswith("to copy one: tdt init TEMPLATE\n") and max(map(len, out.splitlines())) < 80


def test_a_template_takes_the_name_of_its_file(capsys):
    assert init(capsys, "digits-mlp", "mine.yaml") == (0, "wrote mine.yaml; next: tdt train mine.yaml\n", "")
    assert load("mine.yaml").name == "mine" and "tdt train mine.yaml" in Path("mine.yaml").read_text()
    trains("mine.yaml")


def test_a_new_config_names_the_schema_for_editors(capsys):
    make_table(Path("flowers.csv"))
    Path("configs").mkdir()
    assert init(capsys, "digits-mlp", "configs/a.yaml")[0] == init(capsys, "flowers.csv", "b.yaml")[0] == 0
    for file in (Path("configs/a.yaml"), Path("b.yaml")):
        # yaml-language-server takes the path relative to the config: the line holds on every machine.
        assert file.read_text().startswith("# yaml-language-server: $schema=tdt.schema.json\n")
        assert json.loads((file.parent / "tdt.schema.json").read_text(encoding="utf-8"))["title"] == "tdt config"


def test_a_schema_in_the_folder_of_a_new_config_is_not_overwritten(capsys):
    Path("tdt.schema.json").write_text("of the team")
    assert init(capsys, "digits-mlp", "a.yaml")[0] == 0 and Path("tdt.schema.json").read_text() == "of the team"


def test_a_template_finds_its_table_from_wherever_it_is(capsys):
    assert init(capsys, "iris-mlp", "mine.yaml")[0] == 0
    trains("mine.yaml")


def test_nothing_is_overwritten(capsys):
    Path("digits-mlp.yaml").write_text("mine")
    code, _, err = init(capsys, "digits-mlp")
    assert code == 2 and "digits-mlp.yaml already exists and is not overwritten" in err
    assert Path("digits-mlp.yaml").read_text() == "mine"


def test_a_full_disk_is_named_and_holds_no_part_of_a_config(capsys, monkeypatch):
    def full(file, data):
        file.write(data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_files, "write_whole", full)
    assert init(capsys, "digits-mlp")[::2] == (1, "error: digits-mlp.yaml: No space left on device\n")
    assert os.listdir() == []


def test_a_table_becomes_a_config_that_classifies(capsys):
    make_table(Path("my flowers.csv"))
    code, out, err = init(capsys, "my flowers.csv", "flowers.yaml")
    assert (code, err) == (0, "")
    lengths = [float(row.split(",")[1] or 9) for row in Path("my flowers.csv").read_text().splitlines()[1:]]
    largest = max(length for length in lengths if length < 9)
    assert out.splitlines()[:3] == [
        "my flowers.csv: 60 rows",
        "  id: category, 60 values: r0 1, r1 1, r2 1, r3 1, r4 1, …; left out: nearly every row has another",
        f"  length: number, {min(lengths):g} to {largest:g}, 1 missing",
    ]
    assert "  same: 1 value; left out: the same in every row" in out and "  species: the target, 2 values: " in out
    session = trains("flowers.yaml")
    assert session.parts.model[0].in_features == 4 and session.parts.model[-1].out_features == 2
    assert {"train", "valid", "test"} == session.parts.loaders.keys()


def test_a_column_of_numbers_becomes_a_regression_on_scaled_targets(capsys):
    make_table(Path("data.csv"))
    assert init(capsys, "data.csv", "--target", "price")[0] == 0
    session = trains("data.yaml")
    assert session.parts.config.targets.scale == "standard"
    assert session.parts.facts["targets"]["target"]["shift"] == [pytest.approx(104.5, abs=2)]
    assert list(session.parts.config.metrics) == ["mae", "r2"]


def test_a_folder_of_images_becomes_a_config_that_classifies(capsys):
    make_images(Path("pics/train"), ("cat", "dog"))
    make_images(Path("pics/val"), ("cat", "dog"))
    code, out, _ = init(capsys, "pics/")
    assert code == 0 and out.startswith(
        "pics: 12 images in train, 12 images in valid, all 32 x 32\n  2 classes: cat 6, dog 6\n"
    )
    assert "Resize" not in Path("pics.yaml").read_text()
    session = trains("pics.yaml")
    assert session.parts.model[-1].out_features == 2 and "valid" in session.parts.loaders


def test_names_in_data_cannot_write_into_the_config(capsys):
    rows = "".join(f"{i / 7:.3f},{'ab'[i % 2]}\x1b[31m\n" for i in range(40))
    Path("data.csv").write_text('"a\nimports: [evil.py]",k\u2028ey\n' + rows)
    code, out, _ = init(capsys, "data.csv")
    assert code == 0 and "  a\\nimports: [evil.py]: number, 0 to 5.571" in out.splitlines() and "\x1b" not in out
    config = trains("data.yaml").parts.config
    assert config.data.train.kwargs["target"] == "k\u2028ey" and not config.imports
    code, _, err = init(capsys, "no\udcffname")
    assert code == 2 and "'no\\udcffname': a config cannot contain this path" in err


def make_messy_table(path: Path, rows: int = 120) -> None:
    """A table as offices export them: ids, dates, localized numbers, booleans, missing targets."""
    draw = random.Random(0)
    lines = ["customer_id;born;paid;share;member;city;churn;owns car;owns cat"]
    for i in range(rows):
        paid = f"{1000 + 900 * draw.random():,.2f}".translate(str.maketrans(",.", ".,"))
        churn = "" if i in (3, 9) else "yes" if i % 8 == 0 else "no"
        row = [7000 + 3 * i, f"{1 + i % 28:02}.{1 + i % 12:02}.19{60 + i % 40}", f"{paid} €", f"{i % 100} %"]
        row += [draw.choice(["yes", "No", ""]), draw.choice(["Ulm", "Köln"]), churn, "ny"[i % 2], "TF"[i % 3 == 0]]
        lines.append(";".join(map(str, row)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_a_class_that_reads_as_missing_is_named(capsys):
    rows = "".join(f"{i % 7}.5,{['None', 'mild', '', 'severe'][i % 4]}\n" for i in range(80))
    Path("grades.csv").write_text("x,grade\n" + rows)
    code, out, _ = init(capsys, "grades.csv")
    line = "  left out: 40 rows without grade (missing_target: drop); 'None' is read as missing"
    assert code == 0 and line in out.splitlines()


def test_dates_localized_numbers_booleans_and_missing_targets_are_read(capsys):
    make_messy_table(Path("messy.csv"))
    code, out, _ = init(capsys, "messy.csv", "--target", "churn")
    assert code == 0 and out.splitlines()[:6] == [
        "messy.csv: 120 rows",
        "  customer_id: number, 7000 to 7357; left out: another number in every row",
        "  born: date, 1960-01-01 to 1999-12-08, written as %d.%m.%Y",
        f"  paid: number, {out.partition('paid: number, ')[2].splitlines()[0]}",
        "  share: number, 0 to 99, written like 0 %",
        f"  member: boolean, {out.partition('member: boolean, ')[2].splitlines()[0]}",
    ]
    assert "  left out: 2 rows without churn (missing_target: drop)" in out.splitlines()
    session = trains("messy.yaml")
    assert sum(session.parts.samples.values()) == 118
    widths = {"born": 5, "paid": 1, "share": 1, "member": 1, "city": 2, "owns car": 1, "owns cat": 1}
    assert session.parts.model[0].in_features == sum(widths.values())
    assert session.parts.notes["train"] == ["2 rows of messy.csv left out: churn, the target, is missing"]
    columns = session.parts.config.data.train.kwargs["columns"]
    assert columns == {"born": "date", "paid": "number", "share": "number", "member": "boolean", "city": "category",
                       "owns car": "boolean", "owns cat": "boolean"}  # fmt: skip


def test_skewed_classes_get_f1_auroc_and_class_weights_and_others_do_not(capsys):
    make_messy_table(Path("messy.csv"))
    assert (
        init(capsys, "messy.csv", "--target", "churn")[0] == init(capsys, "messy.csv", "b.yaml", "--target", "city")[0]
    )
    skewed, even = load("messy.yaml"), load("b.yaml")
    assert (list(skewed.metrics), skewed.train.class_weights) == (["accuracy", "f1", "auroc"], "balanced")
    assert (list(even.metrics), even.train.class_weights) == (["accuracy"], None)
    assert skewed.train.early_stopping.patience == 10


def test_several_targets_become_labels_or_numbers(capsys):
    make_messy_table(Path("messy.csv"))
    assert init(capsys, "messy.csv", "labels.yaml", "--target", "owns car, owns cat")[0] == 0
    labels = trains("labels.yaml")
    assert labels.parts.loaders["train"].dataset[0][1].shape == (2,)
    assert (labels.parts.config.loss[0].component.name, labels.parts.facts["classes"]) == (
        "BCEWithLogitsLoss", ["owns car", "owns cat"])  # fmt: skip
    assert init(capsys, "messy.csv", "numbers.yaml", "--target", "paid,share")[0] == 0
    numbers = trains("numbers.yaml")
    assert numbers.parts.model[-1].out_features == 2 and list(numbers.parts.config.metrics) == ["mae", "r2"]
    capsys.readouterr()
    for name, head in (("labels", "labels"), ("numbers", "paid")):
        assert cli.run(["predict", name, "messy.csv"]) == 0
        assert capsys.readouterr().out.splitlines()[1].split()[1] == head


def test_texts_are_read_by_their_words(capsys):
    draw, moods = random.Random(0), {"good": "great lovely kind fresh", "bad": "cold slow rude stale"}
    rows = []
    for i in range(80):
        mood = draw.choice(list(moods))
        rows.append(f'"{" ".join(draw.choices(moods[mood].split(), k=8))}, {i}!",{i % 7},{mood}')
    Path("mixed.csv").write_text("\n".join(["review,stars,label", *rows]) + "\n")
    Path("reviews.csv").write_text(
        "\n".join(["review,label", *(row.replace(f",{i % 7},", ",") for i, row in enumerate(rows))])
    )
    for name in ("mixed", "reviews"):
        code, out, _ = init(capsys, f"{name}.csv")
        assert code == 0 and "  review: text, 9 words on average" in out.splitlines()
        with Session.start(load(f"{name}.yaml", ["train.epochs=12", "optimizer.lr=0.02", "device=cpu"])) as session:
            assert session.train().test["accuracy"] > 0.9
        capsys.readouterr()
        Path("new.csv").write_text('review,stars\n"Lovely, fresh and kind!",3\nso rude,\n,2\n')
        assert cli.run(["predict", name, "new.csv"]) == 0
        assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[2:4]] == ["good", "bad"]


def test_force_overwrites_the_config(capsys):
    Path("digits-mlp.yaml").write_text("mine")
    assert init(capsys, "digits-mlp", "--force")[0] == 0 and load("digits-mlp.yaml").name == "digits-mlp"


def test_images_without_folders_of_splits_are_shared_out(capsys):
    make_images(Path("pics"), ("cat", "dog"))
    assert init(capsys, "pics")[0] == 0
    parts = trains("pics.yaml").parts
    assert parts.samples == {"train": 10, "valid": 2}  # six of a class are too few for a test
    assert parts.config.checkpoint.best == "valid/loss"


def test_unusual_values_in_a_table_are_reported(capsys):
    rows = "".join(f"{i},{i / 7:.3f},{i % 3},{'ab'[i % 2]}\n" for i in range(40))
    Path("my data.csv").write_text(",width,3,k\n" + rows + "40,-?-,1,a\n")
    code, out, _ = init(capsys, "my data.csv")
    assert code == 0 and out.splitlines()[1:] == [
        "  column 1: number, 0 to 40; left out: the number of the row",
        "  width: number, 0 to 5.571; left out: '-?-' in line 42 is no number",
        "  3: number, 0 to 2",
        "  k: the target, 2 values: a 21, b 20",
        "  the names of columns are those in the first line, though 3 is a number",
        "wrote my data.yaml; next: tdt train 'my data.yaml'",
    ]


def test_images_of_several_sizes_are_resized(capsys):
    make_images(Path("flat"), ("a", "b", "c"), size=50)
    assert "50 to 55 pixels wide, 50 to 50 high" in init(capsys, "flat")[1]
    assert "Resize([32, 32])" in Path("flat.yaml").read_text()
    trains("flat.yaml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digits-mpl"], "no template; did you mean 'digits-mlp'?"),
        (["data.csv", "--target", "prize"], "data.csv has no column 'prize'; did you mean 'price'?"),
        (
            ["data.csv", "--target", "length,species"],
            "all numbers or all booleans (yes/no, true/false, 0/1), but species",
        ),
        (["data.csv", "--target", "id"], "id, the target, has 60 different values in 60 rows"),
        (["data.csv", "--target", "void"], "void, the target, is missing in every row"),
        (["data.csv", "--target", "day"], "day, the target, is a date"),
        (["data.csv", "--target", "same"], "same, the target, is '1' in every row"),
        (["one.csv"], "one.csv has one column, a; there is nothing to predict it from"),
        (["torn.csv"], "torn.csv: line 2: 1 fields, but the header names 2"),
        (["notes.txt"], "notes.txt: expected a .csv or .tsv file, a folder or a template"),
        (["empty"], "empty has no folders"),
        (["one"], "images of two classes are needed"),
        (["broken"], "broken/cat/0.png: is not a readable image\nreplace or remove them"),
        (["digits-mlp", "--target", "x"], "--target needs a table"),
    ],
)
def test_data_without_a_possible_config_are_reported(capsys, arguments: list[str], message: str):
    make_table(Path("data.csv"))
    rows = Path("data.csv").read_text().splitlines()
    extra = ["void,day", *(f",2024-01-{i % 28 + 1:02}" for i in range(60))]
    Path("data.csv").write_text("\n".join(f"{e},{row}" for e, row in zip(extra, rows, strict=True)) + "\n")
    Path("one.csv").write_text("a\n1\n2\n")
    Path("torn.csv").write_text("a,b\n1\n")
    Path("notes.txt").touch()
    Path("empty").mkdir()
    make_images(Path("one"), ("cat",))
    make_images(Path("broken"), ("cat", "dog"))
    Path("broken/cat/0.png").write_bytes(b"no image")
    before = sorted(Path().iterdir())
    code, out, err = init(capsys, *arguments)
    assert (code, out) == (2, "") and message in err
    assert sorted(Path().iterdir()) == before


def test_an_image_that_unpacks_to_too_many_pixels_is_named(capsys, monkeypatch):
    make_images(Path("pets"), ("cat", "dog"))
    for most in (1000, 300):  # Pillow warns above this, and refuses above twice as many
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
        assert cli.run(["init", "pets"]) == 2
        assert "pets/cat/0.png: has too many pixels: Image size (" in capsys.readouterr().err


def test_an_infinite_value_is_a_number_and_training_names_its_sample(capsys):
    rows = [f"{'-inf' if i == 13 else i * i % 7 / 7},{i / 60},{i % 11 / 11}" for i in range(60)]
    Path("table.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    assert init(capsys, "table.csv", "table.yaml")[0] == 0
    assert "a: number, -inf to 0.571429, 1 infinite\n" in Path("table.yaml").read_text()
    assert cli.run(["train", "table.yaml", "train.epochs=1"]) == 1
    assert "the input of sample" in (stderr := capsys.readouterr().err) and "holds -inf, at [0]" in stderr
