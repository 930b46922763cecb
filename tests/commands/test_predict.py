"""`tdt predict` says what new inputs are, from a checkpoint alone, and names those that it cannot read."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tdt.cli import run
from tdt.train.loop.evaluation import evaluate_checkpoint
from tdt.train.loop.prediction import Predictor
from tdt.train.runs import checkpoint
from tdt.train.runs.run import find_checkpoint
from tdt.vision.datasets import Digits
from tests.commands.running import SMALL, tdt


def lines(out: str) -> list[Any]:
    """The objects of JSON lines."""
    return [json.loads(line) for line in out.splitlines()]


def trained(folder: Path, config: str, *overrides: str) -> Path:
    """The best checkpoint, else the last, of a run in `folder`, alone in a folder of its own."""
    (folder / "small.yaml").write_text(config)
    assert run(["train", str(folder / "small.yaml"), "--run-dir", str(folder / "run"), *overrides]) == 0
    (folder / "alone").mkdir()
    path = folder / "alone" / "model.safetensors"
    shutil.copy(find_checkpoint(folder / "run"), path)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A checkpoint of a model of the digits, with a lazy layer."""
    return trained(tmp_path_factory.mktemp("work"), SMALL.replace("Linear(64, 10)", "LazyLinear(10)"))


@pytest.fixture
def answered(model, tmp_path, monkeypatch, capsys) -> Any:
    """What `tdt predict MODEL ...` prints and returns in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, of: Path = model) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["predict", str(of), *arguments])
        return code, *capsys.readouterr()

    return call


def picture(path: str, number: int = 0, mode: str = "L") -> None:
    """A test digit as a file, as near as 8 bits come."""
    Path(path).parent.mkdir(exist_ok=True)
    Image.fromarray(np.round(Digits("test").data[number] * 255).astype(np.uint8)).convert(mode).save(path)


def test_integers_of_an_npz_file_become_floats_by_a_transform(answered, tmp_path):
    rng = np.random.default_rng(0)
    np.savez("whole.npz", x=rng.integers(0, 9, (40, 3)), y=rng.integers(0, 2, 40))
    config = (
        "data:\n  train: NPZ('whole.npz')\n  transform: [ToDtype]\nmodel: Linear(3, 2)\nloss: CrossEntropyLoss\n"
        "optimizer: SGD(lr=0.1)\ntrain: {epochs: 1}\n"
    )
    path = trained(tmp_path, config)
    code, out, err = answered("whole.npz", "--json", of=path)
    scored = evaluate_checkpoint(path, "train")
    assert (code, err) == (0, "")
    assert [int(answer["class"]) for answer in lines(out)] == scored.predictions


def test_a_table_is_read_and_predicted_a_batch_at_a_time_and_mistakes_cost_their_row_alone(tmp_path, monkeypatch):
    rows = [f"{i % 7},{'ab'[i % 2]}" for i in range(1000)]
    (tmp_path / "a.csv").write_text("\n".join(["x,c,y", *(f"{row},{i % 2}" for i, row in enumerate(rows))]))
    config = (
        f"data:\n  train: {{type: Table, path: {tmp_path}/a.csv, target: y}}\nmodel: LazyLinear(2)\n"
        "loss: CrossEntropyLoss\noptimizer: SGD(lr=0.1)\ntrain: {epochs: 1}\n"
    )
    path = trained(tmp_path, config)
    rows[70:73] = ["x,b", "1", "1,new"]
    (tmp_path / "new.csv").write_text("\n".join(["x,c", *rows]))
    predictor, alone, sizes = Predictor(path), Predictor(path), list[int]()
    encode = predictor.dataset.encode
    monkeypatch.setattr(
        predictor.dataset, "encode", lambda fields, lines: (sizes.append(len(lines)), encode(fields, lines))[1]
    )
    answers = predictor.predict(predictor.read([str(tmp_path / "new.csv")], bytes))
    next(answers)
    assert sizes == [64]
    found = [next(answers) for _ in range(72)]
    assert sizes == [64, *[1] * 63]  # the batch of 64 is refused for the row of one field
    assert [found[69].error, found[70].error] == [
        "x is 'x', which is not a number; is the column a category?", "1 fields, but the header names 2"
    ]  # fmt: skip
    assert [len(list(answers)), predictor.notes()] == [
        927, ["in 1 row, c is a category that no training row has, encoded as zeros: 'new'"]
    ]  # fmt: skip
    (same,) = alone.predict([("row", alone.row(["0", "b"], ["x", "c"], 2))])
    assert same.classes == found[6].classes


def test_predictions_equal_those_of_an_evaluation_to_the_bit(answered, model):
    np.savez("digits.npz", x=Digits("test").data)
    code, out, err = answered("digits.npz", "--json", "--top", "10")
    answers = lines(out)
    assert (code, err) == (0, "") and len(answers) == 360
    assert [answer["input"] for answer in answers[:2]] == ["digits.npz[0]", "digits.npz[1]"]
    scored = evaluate_checkpoint(model, "test")
    assert [int(answer["class"]) for answer in answers] == scored.predictions
    chances = [{top["class"]: top["probability"] for top in answer["top"]} for answer in answers]
    assert all(sum(chance.values()) == pytest.approx(1) for chance in chances)
    mean = np.mean([-np.log(chance[str(t)]) for chance, t in zip(chances, scored.targets, strict=True)])
    assert mean == pytest.approx(scored.scores["loss"], rel=1e-6)


@pytest.mark.parametrize("mode", ["L", "RGB", "P"])
def test_an_image_is_read_as_by_the_dataset(answered, mode: str):
    picture("a.png", mode=mode)
    np.savez("a.npz", x=np.round(Digits("test").data[:1] * 255).astype(np.float32) / np.float32(255))
    code, out, _ = answered("a.png", "a.npz", "--json")
    image, array = lines(out)
    assert code == 0 and image["input"] == "a.png"
    assert (image["class"], image["probability"]) == (array["class"], array["probability"])


def test_a_folder_stands_for_its_images(answered):
    for name in ("pics/b.png", "pics/sub/a.png", "pics/c.bmp"):
        picture(name)
    Path("pics/notes.md").touch()
    code, out, _ = answered("pics", "--json")
    assert code == 0
    assert [answer["input"] for answer in lines(out)] == ["pics/b.png", "pics/c.bmp", "pics/sub/a.png"]


def test_invalid_inputs_are_reported_one_by_one_and_the_others_are_predicted(answered):
    picture("a.png")
    picture("z.png", 1)
    Image.new("L", (9, 8)).save("wide.png")
    Path("broken.png").write_text("no image")
    Path("t.csv").write_text("a,b\n1,2\n")
    Path("none").mkdir()
    np.savez("other.npz", a=np.zeros(1), b=np.zeros(1))
    wrong = ["broken.png", "wide.png", "gone.png", "t.csv", "none", "other.npz"]
    code, out, err = answered("a.png", *wrong, "z.png", "--csv", "out.csv")
    assert code == 1
    assert err.splitlines() == [
        "error: broken.png: is not a readable image",
        "error: wide.png: is of shape (1, 8, 9) after the config's transforms, but the model takes (1, 8, 8)",
        "error: gone.png: No such file or directory",
        "error: t.csv: this model takes no text; it was trained on Digits(split='train')",
        "error: none: contains no image; their names end in .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff, .webp",
        "error: other.npz: has no array 'x'; it has a, b",
    ]
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["input", "a.png", "z.png"]
    with open("out.csv") as file:
        assert [row["input"] for row in csv.DictReader(file)] == ["a.png", "z.png"]
    _, out, _ = answered("broken.png", "a.png", "--json")
    assert lines(out)[0] == {"input": "broken.png", "error": "broken.png: is not a readable image"}


def test_an_image_may_be_read_from_stdin(answered, monkeypatch):
    picture("a.png")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("a.png").read_bytes())))
    piped, named = (lines(answered(where, "--json")[1])[0] for where in ("-", "a.png"))
    assert piped == named | {"input": "stdin"}
    assert answered("a.png", "-")[2] == "error: stdin: is not a readable image\n"  # which is at its end


def test_the_table_shows_the_likeliest_classes(answered, model):
    picture("a.png")
    _, out, _ = answered("a.png", "--top", "2", "--csv", "out.csv")
    path, head, row = out.splitlines()
    assert path == str(model)
    assert head.split("  ") == ["input", "class", "probability", "class 2", "probability 2"]
    cells = row.split()
    assert cells[0] == "a.png" and float(cells[2]) > float(cells[4])
    with open("out.csv") as file:
        [written] = csv.DictReader(file)
    assert list(written) == ["input", "class", "probability", "class_2", "probability_2"]
    assert f"{float(written['probability']):.4f}" == cells[2]


@pytest.mark.parametrize("flag", ["--csv", "--output"])
def test_a_file_that_cannot_be_written_is_reported_before_anything_is_predicted(answered, flag: str):
    picture("a.png")
    assert answered("a.png", flag, "none/out.csv") == (1, "", "error: none/out.csv: No such file or directory\n")


def test_a_run_is_named_as_for_eval_and_nothing_else_of_it_is_needed(model, tmp_path):
    np.savez(tmp_path / "x.npz", x=Digits("test").data[:1])
    done = tdt("predict", model.parents[1] / "run", "x.npz", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith(str(model.parents[1] / "run" / "checkpoints" / "best.safetensors"))
    lost = tdt("predict", "nothing", "x.npz", cwd=tmp_path)
    assert lost.returncode == 2 and "no run 'nothing'" in lost.stderr


def test_a_checkpoint_without_facts_of_its_data_is_refused(answered, model, tmp_path):
    tensors, meta = checkpoint.load(model)
    del meta["data"]
    checkpoint.save(tmp_path / "old.safetensors", tensors, meta)
    code, _, err = answered("x.png", of=tmp_path / "old.safetensors")
    assert code == 1 and "has no facts about the training data; an older version of tdt wrote it" in err


PETS = """\
name: pets
device: cpu
data: {train: "Table('pets.csv', kind)"}
model: ["LazyLinear(2)"]
loss: CrossEntropyLoss
optimizer: Adam(lr=0.1)
train: {epochs: 2}
"""
TEXT = """\
name: text
device: cpu
data: {train: "Text('text.txt', length=4)"}
model: ["Embedding(5, 8)", "Linear(8, 5)", "Transpose(1, 2)"]
loss: CrossEntropyLoss
optimizer: Adam(lr=0.3)
train: {epochs: 5}
"""


def test_rows_of_a_table_are_encoded_as_in_training_without_its_file(tmp_path, capsys):
    rows = [
        f"{4 + 20 * (i % 2) + i / 9:.2f},{('black', 'brown')[i % 3 // 2]},{('cat', 'dog')[i % 2]}" for i in range(30)
    ]
    (tmp_path / "pets.csv").write_text("\n".join(["weight,colour,kind", *rows]))
    model = trained(tmp_path, PETS)
    loss = evaluate_checkpoint(model, "train").scores["loss"]
    (tmp_path / "pets.csv").unlink()
    swapped = [",".join(row.split(",")[1::-1]) for row in rows]
    (tmp_path / "new.csv").write_text("\n".join(["colour,weight", *swapped, "black,heavy", "black"]))
    capsys.readouterr()
    assert run(["predict", str(model), str(tmp_path / "new.csv"), "--json", "--top", "2"]) == 1
    out, err = capsys.readouterr()
    answers = [answer for answer in lines(out) if "error" not in answer]
    chances = [{top["class"]: top["probability"] for top in answer["top"]} for answer in answers]
    losses = [-np.log(chance[row.split(",")[2]]) for chance, row in zip(chances, rows, strict=True)]
    assert np.mean(losses) == pytest.approx(loss, rel=1e-6)
    assert err.splitlines() == [
        f"error: {tmp_path}/new.csv:32: weight is 'heavy', which is not a number; is the column a category?",
        f"error: {tmp_path}/new.csv:33: 1 fields, but the header names 2",
    ]


def test_a_regression_names_its_values_and_invalid_tables_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("pets.csv").write_text("height,kind\n" + "".join(f"{i},{i / 2}\n" for i in range(30)))
    model = trained(tmp_path, PETS.replace("LazyLinear(2)", "LazyLinear(1)").replace("CrossEntropyLoss", "MSELoss"))
    capsys.readouterr()
    assert run(["predict", str(model), "pets.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["input", "kind"]
    Path("head.csv").write_text("height\n")
    Path("latin.csv").write_bytes("height\nü".encode("latin-1"))
    Path("open.csv").write_text('height\n1\n"2\n')
    Path("other.csv").write_text("a,b\n1,2\n")
    assert run(["predict", str(model), "head.csv", "latin.csv", "other.csv"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", [
        "error: head.csv: has no rows below its header",
        "error: latin.csv: is not UTF-8 text: it has a byte 0xfc; save it as UTF-8, or convert it: iconv -f "
            "WINDOWS-1252 -t UTF-8",
        "error: other.csv: has no column 'height'; it has a, b. A model that was trained with missing_column: fill predicts "
            "without it",
    ])  # fmt: skip
    assert run(["predict", str(model), "open.csv"]) == 1
    out, err = capsys.readouterr()
    assert "open.csv:2" in out and err == "error: open.csv: line 3: a quote is never closed\n"


def test_lines_of_text_are_continued(tmp_path, monkeypatch, capsys):
    (tmp_path / "text.txt").write_text("abc " * 50)
    model = trained(tmp_path, TEXT)
    (tmp_path / "text.txt").unlink()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"abc\n\n abc ab\n")))
    capsys.readouterr()
    assert run(["predict", str(model), "-", "--json"]) == 1
    out, err = capsys.readouterr()
    assert [answer.get("class") for answer in lines(out)] == [" ", None, "c"]
    assert err == "error: stdin:2: is empty\n"
    (tmp_path / "more.txt").write_text("abc")
    assert run(["predict", str(model), str(tmp_path / "more.txt")]) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[1:3] == ["'", "'"]
