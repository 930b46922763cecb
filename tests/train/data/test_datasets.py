"""Tables, arrays and text: what they hold against what was written, and refusals by line."""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tdt
from tdt.train.data.datasets import NPZ, Table, Text
from tdt.train.data.datasets.text import UNKNOWN, own_source


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def iris(tmp_path) -> Path:
    """A hundred rows: two columns of numbers, one of a category, and a class; some values are missing."""
    rng = np.random.RandomState(0)
    with open(tmp_path / "iris.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["width", "length", "place", "kind", "part"])
        for i in range(100):
            width = "" if i % 17 == 3 else f"{rng.randn():.4f}"
            place = ["wood", "field, open", "NA"][i % 3]
            writer.writerow([width, i * 2, place, ["setosa", "virginica"][i % 2], ["train", "valid"][i >= 70]])
    return tmp_path / "iris.csv"


def column(path: Path, name: str) -> list[str]:
    with open(path, newline="") as file:
        return [row[name] for row in csv.DictReader(file)]


def test_a_table_standardises_by_the_training_rows_alone(iris):
    sklearn = pytest.importorskip("sklearn.preprocessing")
    train, valid = (Table(iris, "kind", split=split, split_column="part") for split in ("train", "valid"))
    assert (len(train), len(valid)) == (70, 30)
    length = np.array(column(iris, "length"), float)[:, None]
    scaler = sklearn.StandardScaler().fit(length[:70])
    np.testing.assert_allclose(train.data[:, 1:2], scaler.transform(length[:70]), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(valid.data[:, 1:2], scaler.transform(length[70:]), rtol=1e-6, atol=1e-6)
    missing = [i for i, text in enumerate(column(iris, "width")) if not text]
    assert missing[:2] == [3, 20]
    assert abs(train.data[missing[0], 0]) < 1e-7  # the mean


def test_categories_are_one_hot_and_missing_or_new_ones_zeros(iris):
    data = Table(iris, "kind", columns=["place"])
    np.testing.assert_array_equal(data.data[:3], [[0, 1], [1, 0], [0, 0]])  # "field, open" before "wood"
    np.testing.assert_array_equal(data.encode({"place": ["sea", " wood "]}), [[0, 0], [0, 1]])
    assert (data.classes, data[1][1]) == (["setosa", "virginica"], 1)


def test_columns_have_the_declared_type_and_normalisation(iris):
    data = Table(iris, "length", columns={"kind": "category", "width": "number"}, normalize="minmax")
    assert data.data.shape == (100, 3)
    assert (data.data.min(), data.data.max()) == (0, 1)
    inputs, target = data[4]
    assert (inputs.dtype, target.shape, target.item()) == (tdt.float32, (1,), 8.0)
    assert Table(iris, "kind", ["length"], normalize=None)[3][0].item() == 6
    assert Table(iris, "length", ["width"], "category").classes[:3] == ["0", "2", "4"]


def test_shares_are_drawn_with_the_seed_and_do_not_overlap(iris):
    rows = {s: Table(iris, "kind", ["length"], normalize=None, split=s, valid=0.2, test=0.1).data[:, 0].tolist()
            for s in ("train", "valid", "test")}  # fmt: skip
    assert [len(part) for part in rows.values()] == [70, 20, 10]
    assert sorted(sum(rows.values(), [])) == [2.0 * i for i in range(100)]
    again = Table(iris, "kind", ["length"], normalize=None, split="valid", valid=0.2, test=0.1, seed=1)
    assert again.data[:, 0].tolist() != rows["valid"]


def test_a_batch_is_the_items_one_by_one(iris, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(12.0).reshape(6, 2), y=np.arange(6))
    sets = (Table(iris, "kind"), Table(iris, "length"), NPZ(tmp_path / "a.npz"), Text(length=7, stride=3))
    for data in sets:
        inputs, targets = data.batch([1, 4])
        pairs = tdt.utils.data.default_collate([data[1], data[4]])
        assert inputs.equal(pairs[0]) and targets.equal(pairs[1]) and targets.dtype == pairs[1].dtype


def test_the_state_of_a_table_encodes_other_files_and_rows_without_a_file(iris, tmp_path):
    train = Table(iris, "kind", ["place", "length"], split="train", split_column="part")
    state = json.loads(json.dumps(train.state_dict()))
    other = write(tmp_path / "other.csv", "kind,length,place\nvirginica,10,wood\n")
    table = Table(other, "kind", ["place", "length"])
    table.load_state_dict(state)
    restored = Table.restored(state, "gone.csv", target="kind")
    for encoded in (table.data, restored.encode({"length": ["10"], "place": ["wood"]})):
        np.testing.assert_array_equal(
            encoded, train.data[:1] * [[1, 1, 0]] + [[0, 0, train.columns[1].encode(["10"], [2])[0, 0]]]
        )
    assert (table[0][1], restored.classes, len(restored)) == (1, train.classes, 1)
    with pytest.raises(ValueError, match="has no column 'place'"):
        restored.encode({"length": ["1"]})


@pytest.mark.parametrize("text, arguments, expected", [
    ("", {}, "the first line must name every column once"),
    ("a,a,k\n1,2,x\n", {}, "columns 1 and 2 are both called 'a'; rename one"),
    ("a,k\n", {}, "has no rows"),
    ("a,k\n1,x\n2\n", {}, "line 3: 1 fields, but the header names 2"),
    ("a,k\n1,x\n\n2,\n", {"target_type": "category"}, "line 4: k, the target, is missing"),
    ("a,k\n1,x\nb,y\n", {"columns": {"a": "number"}}, "line 3: a is 'b', which is not a number; is the column a category"),
    ('a,k\n"1\n2",x\nb,y\n', {"columns": {"a": "number"}}, "line 3: a is '1"),
    ("a,k\n1,x\n", {"columns": ["b"]}, "has no column 'b'"),
    ("length,k\n1,x\n", {"columns": ["lenght"]}, "did you mean 'length'"),
    ("a,k\n1,x\n", {"columns": ["k"]}, "'k' is the target"),
    ("a,k\n1,x\n", {"columns": []}, "no columns are left"),
    ("a,k\n,x\n", {"columns": {"a": "number"}}, "column a: the training rows have no finite value"),
    ('a,k\n"1,x\n', {}, "line 2: a quote is never closed"),
    ("a,k\n1,x\n", {"delimiter": "::"}, "delimiter is one character"),
    ("a,k\n1,x\n", {"valid": 1.0}, "must be fractions with a sum below 1"),
])  # fmt: skip
def test_tables_that_do_not_do_are_refused_by_line(tmp_path, text, arguments, expected):
    with pytest.raises(ValueError, match=expected):
        Table(write(tmp_path / "t.csv", text), "k", **arguments)


def test_the_classes_to_predict_are_those_of_all_rows_and_one_of_other_data_is_named(tmp_path):
    path = write(tmp_path / "t.tsv", "a\tk\ts\n1\tx\ttrain\n2\tz\tvalid\n")
    data = Table(path, "k", split="valid", split_column="s")
    assert data.classes == ["x", "z"] and data.targets.tolist() == [1]
    assert data.columns == Table(path, "k", split="train", split_column="s").columns
    other = Table(write(tmp_path / "o.csv", "a,k\n1,y\n"), "k")
    with pytest.raises(ValueError, match="line 2: k is 'y', which does not occur in the training rows"):
        other.load_state_dict(data.state_dict())
    with pytest.raises(ValueError, match="the target is 'a', but the model predicts 'k'"):
        Table(path, "a").load_state_dict(data.state_dict())


def test_a_column_in_which_nearly_every_row_has_another_text_is_a_category_only_if_declared(tmp_path):
    rows = "".join(f"n{i},{i % 3},{'xy'[i % 2]}\n" for i in range(600))
    path = write(tmp_path / "t.csv", "name,a,k\n" + rows)
    with pytest.raises(
        ValueError, match="column name has 600 different texts in 600 rows: leave it out, by naming the"
    ):
        Table(path, "k")
    assert Table(path, "k", ["a"]).data.shape == (600, 1)
    data = Table(path, "k", {"name": "category", "a": "number"})
    assert data.data.shape == (600, 601) and (data.data[:, :600].sum(1) == 1).all()


@pytest.mark.parametrize(
    "text", ["a;k\n1;x\n2;y\n", "a\tk\r\n1\tx\r\n2\ty\r\n", "\ufeffa|k\n1|x\n2|y", '"a",k\n1,x\n"2","y"\n']
)
def test_the_header_determines_the_delimiter(tmp_path, text: str):
    data = Table(write(tmp_path / "t.csv", text), "k", normalize=None)
    assert (data.data.tolist(), data.classes) == ([[1.0], [2.0]], ["x", "y"])


def test_a_column_without_a_name_is_called_by_its_place(tmp_path):
    data = Table(write(tmp_path / "t.csv", ",a,k\n0,5,x\n1,6,y\n"), "k", columns=["column 1"], normalize=None)
    assert data.data.tolist() == [[0.0], [1.0]]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_table_that_is_not_utf8_raises_an_error_with_a_remedy(tmp_path, encoding: str):
    (tmp_path / "t.csv").write_bytes("größe,k\n1,x\n".encode(encoding))
    with pytest.raises(
        ValueError, match=r"t\.csv: is not UTF-8 text: it has a byte 0xf[cf6]; save it as UTF-8, or conv"
    ):
        Table(tmp_path / "t.csv", "k")


@pytest.mark.parametrize("kind", ["Table", "Text"])
def test_utf_16_without_a_byte_order_mark_is_named(tmp_path, kind: str):
    (tmp_path / "t.csv").write_bytes("a,k\n1,x\n".encode("utf-16-le"))
    with pytest.raises(ValueError, match=r"t\.csv: is UTF-16 text; save it as UTF-8, or convert it: iconv -f UTF-16 "):
        Table(tmp_path / "t.csv", "k") if kind == "Table" else Text(tmp_path / "t.csv", 2)


@pytest.mark.parametrize("change", ["\r\n", "\r", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_change_no_text(tmp_path, change: str):
    text = "ab\ncd\n" * 40
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_bytes((change + text if change == "\ufeff" else text.replace("\n", change)).encode())
    plain, changed = (Text(tmp_path / name, 4) for name in ("a.txt", "b.txt"))
    assert changed.vocabulary_size == plain.vocabulary_size and len(changed) == len(plain)
    assert changed.decode(changed[0][0]) == plain.decode(plain[0][0]) == "ab\nc"


def test_npz_holds_tensors_or_images(tmp_path):
    images = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
    np.savez_compressed(tmp_path / "a.npz", x=images, y=np.array([0, 1, 2, 0, 1]), z=np.arange(5.0))
    inputs, target = NPZ(tmp_path / "a.npz", images=True)[2]
    assert isinstance(inputs, np.ndarray) and (inputs.dtype, target) == (np.uint8, 2)
    data = NPZ(tmp_path / "a.npz", y="z", split="valid", valid=0.4)
    assert (len(data), data[0][0].shape, data[0][1].dtype) == (2, (4, 3), tdt.float32)
    assert NPZ(tmp_path / "a.npz").classes == ["0", "1", "2"]
    assert NPZ(tmp_path / "a.npz", split="valid", valid=0.2).classes == ["0", "1", "2"]  # of all rows, not of one


def test_npz_refuses_objects_damage_bombs_and_arrays_that_do_not_fit(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros((3, 2)), y=np.zeros(2), o=np.array([{}, 1, 2], dtype=object))
    with pytest.raises(ValueError, match=r"x \(3, 2\) and y \(2,\).*a row for each target"):
        NPZ(path)
    with pytest.raises(ValueError, match="has no array w; it has x, y, o"):
        NPZ(path, y="w")
    with pytest.raises(ValueError, match=r"a\.npz: o contains objects, or is damaged: .*allow_pickle"):
        NPZ(path, y="o")
    np.savez(path, x=np.zeros((2, 2)), y=np.array([0, 10**12]))
    with pytest.raises(ValueError, match="y contains 1000000000000, which is too large for a class number"):
        NPZ(path)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match="is damaged or not a .npz file"):
        NPZ(path)
    monkeypatch.setattr("tdt.train.data.datasets.npz.LARGEST", 1000)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("x.npy", bytes(1_000_000))
    with pytest.raises(ValueError, match=r"x\.npy unpacks to 1000000 bytes from"):
        NPZ(path)
    with pytest.raises(FileNotFoundError):
        NPZ(tmp_path / "none.npz")


def test_text_windows_have_the_next_token_as_target(tmp_path):
    data = Text(write(tmp_path / "t.txt", "abcabcabdéx"), length=3, stride=2)
    assert data.classes == [*"abcdxé", UNKNOWN]
    assert [(data.decode(x), data.decode(y)) for x, y in (data[i] for i in range(len(data)))] == [
        ("abc", "bca"), ("cab", "abc"), ("bca", "cab"), ("abd", "bdé")
    ]  # fmt: skip
    assert data[-1][0].dtype == tdt.int64
    with pytest.raises(IndexError, match="window 4 is out of range for 4"):
        data[4]


def test_the_vocabulary_is_of_the_training_part_and_is_restored(tmp_path):
    path = write(tmp_path / "t.txt", "ab" * 20 + "cacb")
    train, valid = (Text(path, 2, split=split, valid=4 / 44) for split in ("train", "valid"))
    assert train.classes == valid.classes == ["a", "b", UNKNOWN]
    assert valid[0][0].tolist() == [2, 0]
    restored = Text.restored(json.loads(json.dumps(train.state_dict())), "gone.txt", 2)
    assert restored.encode("abz").tolist() == [0, 1, 2]
    assert (restored[0][0].shape, len(restored)) == ((2,), 1)


def test_bytes_need_no_vocabulary(tmp_path):
    data = Text(write(tmp_path / "t.txt", "é!" * 4), length=4, tokens="bytes")
    assert data[0][0].tolist() == list("é!é".encode()[:4])
    assert (len(data.classes), data.state_dict()) == (256, {"vocabulary": None})


def test_the_default_text_is_our_own_source():
    assert "def own_source() -> str:" in own_source()
    parts = [len(Text(length=64, tokens="bytes", split=split)) for split in ("train", "valid")]
    assert 8.5 < parts[0] / parts[1] < 9.5


def test_texts_that_do_not_do_are_refused(tmp_path):
    path = write(tmp_path / "t.txt", "short")
    with pytest.raises(ValueError, match="has 5 characters, fewer than a window of 5 and its target"):
        Text(path, 5)
    with pytest.raises(ValueError, match="its valid split has 0"):
        Text(path, 1, split="valid", valid=0.0)
    with pytest.raises(ValueError, match="length and stride are at least 1"):
        Text(path, 0)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        Text(path)
    with pytest.raises(FileNotFoundError):
        Text(tmp_path / "none")
