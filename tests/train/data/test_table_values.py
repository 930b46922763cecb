"""Tables read numbers, dates, booleans and texts as people write them, and say what they replace."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import pytest

from tdt.train.data.datasets import Table
from tdt.train.data.datasets._detect import detect
from tdt.train.data.datasets._values import ISO, boolean, date, date_format, number, number_format, words


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("texts", "format", "values"),
    [
        (["1.234,50", "7"], ",", [1234.5, 7]),
        (["1,234.50", "1,234"], ".", [1234.5, 1234]),
        (["$15.01", "-$3", "($2.50)"], ".", [15.01, -3, -2.5]),
        (["15 %", "7.5%"], ".", [15, 7.5]),
        (["1\u2009234,5", "1\u202f000", "1\u00a0000\u00a0000"], ",", [1234.5, 1000, 1000000]),
        (["1'234.5", "EUR 3", "4 EUR"], ".", [1234.5, 3, 4]),
        (["\u22125,5 kr"], ",", [-5.5]),
        (["1.5", "1e3", "inf"], "", [1.5, 1000, float("inf")]),
        (["12,34,567"], ".", [1234567]),
        (["0,125", "1,250"], ",", [0.125, 1.25]),
    ],
)
def test_numbers_are_read_as_they_are_written(texts: list[str], format: str, values: list[float]):
    assert number_format([*texts, "", "NA"]) == format
    assert [number(text, format) for text in texts] == pytest.approx(values)


@pytest.mark.parametrize(
    "texts", [["1.5", "1,5"], ["$1", "€1"], ["5 %", "5"], ["12/3"], ["1,23,4.5.6"], ["R2D2"], ["."]]
)
def test_fields_that_are_no_numbers_of_one_form_have_no_format(texts: list[str]):
    assert number_format(texts) is None


@pytest.mark.parametrize(
    ("texts", "format"),
    [
        (["2024-02-29", "2024-03-01T10:30:00Z"], ISO),
        (["29.02.2024"], "%d.%m.%Y"),
        (["2/3/2024", "2/29/2024"], "%m/%d/%Y"),
        (["2/3/2024", "29/2/2024"], "%d/%m/%Y"),
        (["Feb 29, 2024"], "%b %d, %Y"),
        (["29 February 2024 10:30"], "%d %B %Y %H:%M"),
        (["2/29/24 3:04 PM"], "%m/%d/%y %I:%M %p"),
    ],
)
def test_dates_have_one_form_in_a_column(texts: list[str], format: str):
    assert date_format([*texts, ""]) == format
    assert all(isinstance(date(text, format), datetime.datetime) for text in texts)


def test_what_is_no_date_has_no_form():
    assert [date_format(texts) for texts in (["20240229"], ["2024-02-30"], ["ab"], ["2024"], [""])] == [None] * 5
    assert date("2024-01-01T00:00:00+02:00", ISO) == datetime.datetime(2023, 12, 31, 22)
    assert date_format(["3/4/2024"], day_first=True) == "%d/%m/%Y"


def test_booleans_are_read_in_any_case():
    assert [boolean(text) for text in ("Yes", "FALSE", " t ", "0", "maybe", "")] == [
        True,
        False,
        True,
        False,
        None,
        None,
    ]


def test_words_of_scripts_without_spaces_are_characters():
    assert words("Déjà-vu: it’s 漢字_ok") == ["déjà", "vu", "it's", "漢", "字", "ok"]


@pytest.mark.parametrize(
    ("name", "texts", "kind", "useless"),
    [
        ("PassengerId", [str(3 * i) for i in range(40)], "number", "another number in every row"),
        ("paid", [str(3 * i) for i in range(40)], "number", ""),
        ("year", [str(1980 + i) for i in range(40)], "number", ""),
        ("remark", [f"this is the remark of row {i}" for i in range(40)], "text", ""),
        ("name", [f"Ann {i}" for i in range(40)], "category", "nearly every row has another"),
        ("flag", ["yes", "No"] * 20, "boolean", ""),
        ("bit", ["0", "1"] * 20, "number", ""),
        ("when", [f"2024-01-{i + 1:02}" for i in range(30)], "date", ""),
    ],
)
def test_the_type_of_a_column_is_found(name: str, texts: list[str], kind: str, useless: str):
    found = detect(name, texts, range(2, len(texts) + 2))
    assert (found.kind, found.useless) == (kind, useless)


def test_a_date_becomes_its_parts_that_differ(tmp_path):
    path = write(tmp_path / "a.csv", "when,y\n2024-02-05,1.5\n,2.5\n2024-03-06,3.5\n")
    data = Table(path, "y", {"when": "date"}, normalize=None)
    assert [column.part for column in data.columns] == ["days", "month", "day", "weekday"]  # one year, no hours
    days = [(datetime.date(2024, 2, 5) - datetime.date(1970, 1, 1)).days, 19773 + 15, 19788]
    np.testing.assert_allclose(data.data[0], [days[0], 2, 5, 0])
    np.testing.assert_allclose(data.data[1], (data.data[0] + data.data[2]) / 2)  # the mean
    np.testing.assert_allclose(Table(path, "y", {"when": "date"}).data.mean(0), 0, atol=1e-6)
    with pytest.raises(ValueError, match=r"line 2: when is 'x', which is no date of the form ISO 8601"):
        data.encode({"when": ["x"]})


def test_types_of_columns_and_targets_survive_a_checkpoint(tmp_path):
    text = 'price,on,said,a,b\n$1.50,Yes,so good so,1,y\n$2.50,no,bad,0,n\n"$1,000",,,1,n\n'
    path = write(tmp_path / "a.csv", text)
    columns = {"plain": {"price": "number", "on": "boolean"}, "text": {"said": "text"}}
    table = Table(path, ["a", "b"], columns, "boolean", None, max_words=4, length=3)
    np.testing.assert_allclose(table.data["plain"], [[1.5, 1], [2.5, 0], [1000, 0.5]])
    np.testing.assert_array_equal(table.data["text"], [[2, 1, 2], [3, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(table.targets, [[1, 1], [0, 0], [1, 0]])
    assert table.classes == ["a", "b"]
    again = Table.restored(json.loads(json.dumps(table.state_dict())), "gone.csv", ["a", "b"])
    rows = again.encode({"price": ["$3"], "on": ["no"], "said": ["so bad, so"]})
    np.testing.assert_array_equal(rows["plain"], [[3, 0]])
    np.testing.assert_array_equal(rows["text"], [[2, 3, 2]])
    with pytest.raises(ValueError, match=r"on is 'x', which is neither yes nor no"):
        again.encode({"price": ["$3"], "on": ["x"], "said": [""]})


def test_rows_without_a_target_are_an_error_or_left_out_and_counted(tmp_path):
    path = write(tmp_path / "a.csv", "x,y\n1,a\n2,\n3,b\n4,?\n")
    with pytest.raises(
        ValueError, match=r"line 3: y, the target, is missing; missing_target: drop leaves such rows out"
    ):
        Table(path, "y")
    data = Table(path, "y", normalize=None, missing_target="drop")
    assert (data.data[:, 0].tolist(), data.targets.tolist()) == ([1, 3], [0, 1])
    assert data.notes() == ["2 rows of a.csv left out: y, the target, is missing"]


def test_unseen_categories_and_missing_columns_are_replaced_or_refused_by_config(tmp_path):
    path = write(tmp_path / "a.csv", "w,c,y\n1,red,1.5\n3,blue,2.5\n")
    new = {"w": ["2", "2", "2"], "c": ["green", "red", ""]}
    data = Table(path, "y")
    np.testing.assert_array_equal(data.encode(new)[:, 1:], [[0, 0], [0, 1], [0, 0]])
    assert data.notes() == ["in 1 row, c is a category that no training row has, encoded as zeros: 'green'"]
    with pytest.raises(ValueError, match="has no column 'w'"):
        data.encode({"c": ["red"]})
    with pytest.raises(
        ValueError, match=r"line 2: c is 'green', which does not occur in the training rows; unseen: zero"
    ):
        Table(path, "y", unseen="error").encode(new)
    filling = Table(path, "y", missing_column="fill")
    np.testing.assert_array_equal(filling.encode({"c": ["red", "blue"]}), [[0, 0, 1], [0, 1, 0]])
    assert filling.notes() == ["column w is missing in 2 rows; means or zeros are in its place"]


def test_a_table_with_a_state_reads_only_the_columns_of_it_and_fits_nothing(tmp_path):
    state = Table(write(tmp_path / "a.csv", "w,c,y\n1,red,1.5\n3,blue,2.5\n"), "y").state_dict()
    new = write(tmp_path / "b.csv", "y,more,c\n7,x,red\n,y,blue\n9,z,green\n")
    with pytest.raises(
        ValueError, match=r"b\.csv: has no column 'w'; it has y, more, c\. A model .* missing_column: fill"
    ):
        Table.fitted(state, new, "y", missing_target="drop")
    table = Table.fitted(state, new, "y", missing_target="drop", missing_column="fill")
    np.testing.assert_array_equal(table.data, [[0, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(table.targets, [[7], [9]])
    assert table.state_dict() == state
    assert table.notes() == [
        "1 row of b.csv left out: y, the target, is missing",
        "in 1 row, c is a category that no training row has, encoded as zeros: 'green'",
        "column w is missing in 2 rows; means or zeros are in its place",
    ]


def test_a_stratified_split_has_the_same_shares_of_every_class(tmp_path):
    rows = [f"{i},{'rare' if i % 20 == 7 else 'usual'}\n" for i in range(400)]
    path = write(tmp_path / "a.csv", "x,y\n" + "".join(rows))
    parts = {
        name: Table(path, "y", normalize=None, split=name, stratify=True, valid=0.25, test=0.25)
        for name in ("train", "valid", "test")
    }
    assert {name: np.bincount(part.targets).tolist() for name, part in parts.items()} == {
        "train": [10, 190], "valid": [5, 95], "test": [5, 95],
    }  # fmt: skip
    assert sorted(np.concatenate([part.data[:, 0] for part in parts.values()])) == list(range(400))
    again = Table(path, "y", normalize=None, split="test", stratify=True, valid=0.25, test=0.25, seed=1)
    assert not np.array_equal(again.data, parts["test"].data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stratify": True}, "stratify divides each class into splits, but y is a number; leave it out"),
        ({"stratify": True, "split_column": "c", "columns": ["w"]}, "but split_column names the split of each row"),
        (
            {"columns": {"c": "text", "w": "number"}},
            r"of its own, .*columns: \{features: \{w: number\}, c: \{c: text\}\}",
        ),
        ({"columns": {"c": "word"}}, "a column is number, category, boolean, date or text, not 'word'"),
        ({"target": ["y", "w"]}, "several targets need target_type: number or boolean"),
        ({"target": []}, "target names no column"),
        ({"columns": {"w": "boolean"}}, "line 3: w is '3', which is neither yes nor no"),
        ({"columns": {"w": "date"}}, "line 2: w is '1', which is no date"),
        ({"columns": {"w": "number"}, "decimal": ",", "length": 0}, "max_words is at least 3 and length at least 1"),
    ],
)
def test_wrong_settings_of_a_table_are_named(tmp_path, arguments: dict, message: str):
    path = write(tmp_path / "a.csv", "w,c,y\n1,red,1.5\n3,blue,2.5\n")
    with pytest.raises(ValueError, match=message):
        Table(path, **({"target": "y"} | arguments))
