"""YAML's traps each have their message; hostile files get a position, never a traceback."""

# ruff: noqa: E501  a trap reads best on one line

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tdt.train.config import ConfigError, Problem, load, loads
from tdt.train.config.scalars import resolve
from tests.train import fakes

GOOD = (Path(__file__).parents[1] / "configs" / "good.yaml").read_text()


@pytest.fixture(autouse=True, scope="module")
def _fakes():
    with pytest.MonkeyPatch.context() as patch:
        fakes.install(patch)
        yield


def problems(text: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        loads(text, file="c.yaml")
    return caught.value.problems


# (what is written in the good config, what instead, line, column, key, message)
TRAPS = [
    ('"*.bias"', "*.bias", 23, 14, "init.1.params", 'an unquoted *.bias is an alias in YAML; quote it: "*.bias"'),
    ('"*.bias"', "*bias", 23, 14, "init.1.params", 'an unquoted *bias is an alias in YAML; quote it: "*bias"'),
    ('"*.bias"', "%x", 23, 14, "init.1.params", 'an unquoted % begins a directive in YAML; quote it: "%x"'),
    ('"*.bias"', "@x", 23, 14, "init.1.params", 'an unquoted @ is reserved in YAML; quote it: "@x"'),
    ("lr: 5e-2", "lr: `x`", 30, 7, "optimizer.lr", 'an unquoted ` is reserved in YAML; quote it: "`x`"'),
    ("lr: 1e-2", "lr: ${a.b}", 33, 36, "optimizer.param_groups.0.lr", '${a.b} inside { } or [ ] opens a mapping; quote it: "${a.b}"'),
    ("ToTensor", "${a.b}", 9, 15, "data.transform.0", '${a.b} inside { } or [ ] opens a mapping; quote it: "${a.b}"'),
    ("lr: 5e-2", "lr: ${a.b}", 30, 7, "optimizer.lr", "${a.b}: the config has no a"),
    ("seed: 0", "seed: ${a.b}", 2, 7, "seed", "${a.b}: the config has no a"),
    ('"Linear(128, 10)"', "Linear(128, 10)", 19, 53, "model.classifier.3", 'quote a call inside [ ]: "Linear(128, 10)"'),
    ('"Normalize(0.5, 0.5)"', "Normalize((0.5,), (0.5,))", 9, 25, "data.transform.1", 'quote a call inside [ ]: "Normalize((0.5,), (0.5,))"'),
    ('"Normalize(0.5, 0.5)"', "Normalize([0.5], [0.5])", 9, 25, "data.transform.1", 'quote a call inside [ ] or { }: "Normalize([0.5], [0.5])"'),
    ('"kaiming_normal_(mode=fan_out, nonlinearity=relu)"', "kaiming_normal_(a=1, mode=fan_in)", 22, 41, "init.0.with", 'quote a call inside { }: "kaiming_normal_(a=1, mode=fan_in)"'),
    ("flatten: Flatten", "flatten: Wrap(ReLU(), text=a #b)", 18, 12, "model.flatten", "'Wrap(ReLU(), text=a' is cut at '#', which begins a comment; quote it: \"Wrap(ReLU(), text=a #b)\""),
    ('"RandomCrop(8, padding=1)"', "RandomCrop(s=a #b)", 10, 13, "data.augment.0", "'RandomCrop(s=a' is cut at '#', which begins a comment; quote it: \"RandomCrop(s=a #b)\""),
    ("shuffle: true", "shuffle: yes", 11, 37, "data.loader.shuffle", "expected true or false, got 'yes'; write true"),
    ("shuffle: true", "shuffle: Off", 11, 37, "data.loader.shuffle", "expected true or false, got 'Off'; write false"),
    ("momentum: 0.9", "nesterov: on", 31, 13, "optimizer.nesterov", "expected bool, got 'on'; write true"),
    ("ReLU\n", "ReLU(inplace=yes)\n", 16, 25, "model.features.relu1.inplace", "expected bool, got 'yes'; write true"),
    ("Conv2d(1, 32, 3, padding=1)", "Conv2d(1, 32,  # in, out\n           3)", 15, 12, "model.features.conv1", "'Conv2d(1, 32,' is cut at '#', which begins a comment; move the comment out of the call"),
    ("loss: CrossEntropyLoss", 'loss: "CrossEntropyLoss', 25, 7, "", "this quote ends only in line 33; is one missing before?"),
    ("lr: 5e-2", "lr: 0,05", 30, 7, "optimizer.lr", "expected float, got '0,05'; the decimal point is '.'; thousands are written without ','"),
    ("log: {every: 20 steps}", "log:\n  every:10", 39, 3, "log", "expected a mapping, got 'every:10'; write 'every: 10', with a blank after the colon"),
    ("epochs: 10", "epochs: 017", 36, 17, "train.epochs", "expected int, got '017'; a number has no leading zero: write 17"),
    ("epochs: 10", "epochs: 12:30", 36, 17, "train.epochs", "expected int, got '12:30'; a number with ':' is a string here, not base 60 as in YAML 1.1: write it in seconds or as one number"),
    ("epochs: 10", "epochs: 2024-01-02", 36, 17, "train.epochs", "expected int, got '2024-01-02'; a date is a string here"),
    ("epochs: 10", "epochs: 1_000", 36, 17, "train.epochs", "expected int, got '1_000'; write 1000"),
    ("epochs: 10", 'epochs: "10"', 36, 17, "train.epochs", "expected int, got '10'; write 10 without quotes"),
    ("epochs: 10", "epochs: 1e1", 36, 17, "train.epochs", "expected int, got 10.0; write 10"),
    ("lr: 5e-2", "lr: 1e999", 30, 7, "optimizer.lr", "1e999 is too large for a float; infinity is written .inf"),
    ("name: digits-cnn", "name: 12", 1, 7, "name", "expected a string, got 12; quote it: '12'"),
    ("  type: SGD\n  lr: 5e-2\n  momentum: 0.9\n", "  type: Adam\n  betas: (0.9, 0.99)\n", 30, 10, "optimizer.betas", "expected [float, float], got '(0.9, 0.99)'; write [0.9, 0.99]"),
    ("lr: 1e-2}", "dampening: (1, 2)}", 33, 43, "optimizer.param_groups.0.dampening", "a tuple is written with [ ]: [1, 2]"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "column", "key", "expected"), TRAPS, ids=lambda v: str(v)[:30])
def test_each_yaml_trap_has_its_message(old, new, line, column, key, expected):
    assert old in GOOD
    found = problems(GOOD.replace(old, new, 1))
    assert [(p.source.line, p.source.column, p.key, p.message) for p in found] == [(line, column, key, expected)]


def test_numbers_are_those_of_yaml_1_2():
    for text, value in {
        "1e-5": 1e-5, "5e-2": 0.05, "1E5": 1e5, ".5": 0.5, "5.": 5.0, "-0": 0, "+7": 7, "0x1F": 31, "0o17": 15,
        "~": None, "": None, "null": None, "true": True, "False": False, "-.inf": float("-inf"),
    }.items():  # fmt: skip
        assert resolve(text) == value, text
        assert type(resolve(text)) is type(value), text
    for text in (
        "no",
        "yes",
        "on",
        "off",
        "y",
        "017",
        "12:30",
        "2024-01-02",
        "1_000",
        "0b1",
        "1e",
        "e5",
        ".",
        "-",
        "nan",
    ):
        assert resolve(text) == text


def test_a_trap_does_not_hide_the_mistakes_around_it():
    text = GOOD.replace('"*.bias"', "*.bias").replace("lr: 1e-2", "lr: ${x}").replace("seed: 0", "seed: %1")
    text = text.replace('"Normalize(0.5, 0.5)"', "Normalize([0.5], [0.5])").replace("momentum", "momentun")
    text = text.replace('"RandomCrop(8, padding=1)"', "RandomCrop(s=a #b)").replace("CrossEntropyLoss", "CrossEntropy")
    assert [(p.source.line, p.key) for p in problems(text)] == [
        (2, "seed"), (9, "data.transform.1"), (10, "data.augment.0"), (23, "init.1.params"),
        (25, "loss"), (31, "optimizer.momentun"), (33, "optimizer.param_groups.0.lr"),
    ]  # fmt: skip


SYNTAX = {
    "a: b: c": (1, 5, "a ':' is not expected here; quote the value that contains it, or correct the indentation"),
    "a: 'x": (1, 4, "this quote is never closed"),
    "a: [1, 2\nb: 3\n": (1, 4, "this [ is not closed: a ',' or ']' is missing after an item"),
    "a: {b: 1": (1, 4, "this { is not closed: a ',' or '}' is missing after an item"),
    "a: 1\nfoo\nb: 2": (2, 1, "expected 'key: value', got 'foo'"),
    "a:\n  - b\n  -c\nd: 2": (3, 3, "expected 'key: value', got '-c'; a list item has a space after its dash: '- c'"),
    "a:\n\tb: 1": (2, 1, "a tab cannot stand here; YAML indents with spaces"),
    "a: 1\n---\nb: 2": (2, 1, "a second document begins here; a config is one document"),
    "- a\nb: 1": (2, 1, "the indentation matches nothing above; align it with its neighbours"),
    "a: !!python/object/apply:os.system [x]": (1, 4, "the tag !!python/object/apply:os.system is not supported; a config holds plain values only"),
    "a: !custom x": (1, 4, "the tag !custom is not supported; a config holds plain values only"),
    "a: &anchor {b: 1}": (1, 4, "anchors are not supported; write the value out, or quote it: '&anchor ...'"),
    "a: {<<: {b: 1}}": (1, 5, "merge keys are not supported; write the keys out"),
    "[a]: 1": (1, 1, "a key must be plain text, not a list or mapping; is a value in { } or [ ] meant to be quoted?"),
    "'': 1": (1, 1, "a key is missing before ':'"),
    "a: " + "[" * 50: (1, 43, "nested deeper than 40 levels"),
    "a: {: 1}": (1, 5, "a value or a closing bracket is missing here"),
    "a: \x00": (1, 4, "the character U+0000 is not allowed in YAML; delete it"),
    "a: b\x07": (1, 5, "the character U+0007 is not allowed in YAML; delete it"),
    "": (1, 1, "the config is empty; it needs data, model, loss, optimizer, train"),
    "# only a comment\n": (1, 1, "the config is empty; it needs data, model, loss, optimizer, train"),
    "- a\n- b\n": (1, 1, "expected 'key: value' lines at the top level"),
    "text": (1, 1, "expected 'key: value' lines at the top level"),
}  # fmt: skip


@pytest.mark.parametrize("text", SYNTAX)
def test_broken_yaml_is_explained_where_it_breaks(text: str):
    line, column, expected = SYNTAX[text]
    assert (line, column, expected) in [(p.source.line, p.source.column, p.message) for p in problems(text)]


@pytest.mark.parametrize("change", ["\r\n", "\r", "\ufeff"], ids=["CRLF", "CR", "BOM"])
def test_line_ends_and_byte_order_marks_change_nothing(change: str, tmp_path: Path):
    file = tmp_path / "c.yaml"
    text = change + GOOD if change == "\ufeff" else GOOD.replace("\n", change)
    file.write_bytes(text.encode())
    assert load(file) == loads(GOOD)
    file.write_bytes(text.replace("lr: 5e-2", "lrr: 5e-2").encode())
    with pytest.raises(ConfigError, match=r"c.yaml:30:3: optimizer.lrr"):
        load(file)


FILES = {
    "latin1": (b"name: b\xe4r\n", ":1:8: the byte 0xe4 is not UTF-8; save the file as UTF-8"),
    "utf16": ("name: x".encode("utf-16"), ":1:1: is UTF-16; save it as UTF-8"),
    "large": (b"#" * 300_000, ":1:1: is larger than 256 KiB; is it a config?"),
    "empty": (b"", ":1:1: the config is empty; it needs data, model, loss, optimizer, train"),
    "binary": (bytes(range(256)), ":2:118: the byte 0x80 is not UTF-8; save the file as UTF-8"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_no_text_is_refused(case: str, tmp_path: Path):
    data, expected = FILES[case]
    file = tmp_path / "c.yaml"
    file.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value) == f"{file}{expected}"


def test_a_directory_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r":1:1: is a directory; a config is a file"):
        load(tmp_path)
    with pytest.raises(ConfigError, match=r": cannot be opened"):
        load("x" * 5000)


HOSTILE = {
    "deep lists": "a: " + "[" * 5000,
    "deep mappings": "".join(f"{' ' * i}k:\n" for i in range(300)),
    "deep call": GOOD.replace("Flatten\n", "Flatten(" + "(" * 900 + ")" * 900 + ")\n"),
    "deep minus": GOOD.replace("Flatten\n", "Flatten(" + "-" * 1900 + "1)\n"),
    "deep nesting of calls": GOOD.replace("Flatten\n", "Wrap(" * 150 + "1" + ")" * 150 + "\n"),
    "long call": GOOD.replace("Flatten\n", "Flatten(" + "1, " * 2000 + ")\n"),
    "long number": GOOD.replace("seed: 0", "seed: " + "9" * 100_000),
    "huge number": GOOD.replace("seed: 0", "seed: " + "9" * 39),
    "huge batch": GOOD.replace("batch_size: 64", "batch_size: " + "9" * 30),
    "not a number": GOOD.replace("5e-2", "x").replace("clip_grad_norm: 1.0", "clip_grad_norm: .nan"),
    "open calls": "a: [" + "F(, " * 3000 + "]",
    "many traps": "a: [" + "*.x, " * 3000 + "]",
    "long word": "a: [" + "x" * 100_000 + "{",
    "laughs": "a: &a [x]\n" + "".join(f"k{i}: &k{i} [*a, *a]\n" for i in range(50)),
    "odd line ends": "a: \u2028b\u2029c: \x85 *.x\n d",
    "lone surrogate": "a: \ud800",
    "keys of every type": "1: a\n2.5: b\nnull: c\ntrue: d\n'': e\n? |\n  x\n: f\n",
    "wrong shapes": "data: [1]\nmodel: 3\nloss: []\noptimizer: {}\ntrain: x\ninit: {a: 1}\nmetrics: {b: 2}\nweights: []\n"
    "scheduler: 3\ncheckpoint: []\nlog: {every: {a: [b]}}\nname: [1]\nseed: {}\ndevice: 1.5\n",
    "wrong shapes deeper": GOOD.replace("type: SGD", "type: {a: b}").replace("Digits(split=test)", "[x]")
    + "weights: {from: [1], only: {a: 1}, map: {a: [1]}, strict: [no]}\n",
    "wrong groups": GOOD.replace('{params: "classifier.*", lr: 1e-2}', "[{}, {params: []}, {params: {a: b}}, 3, null]"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_config_gets_positions_and_no_traceback(case: str):
    start = time.thread_time()  # of this thread alone: a machine that is busy elsewhere must not fail the test
    found = problems(HOSTILE[case])
    assert time.thread_time() - start < 5
    assert found
    for problem in found:
        assert problem.source.line >= 1
        assert problem.source.column >= 1
        assert problem.message
        assert len(str(problem)) < 600


def is_answered(text: str, *overrides: str) -> bool:
    """Whether reading works, and the resolved text reads as the same, or raises ConfigError with places that exist."""
    try:
        config = loads(text, file="c.yaml", overrides=overrides)
    except ConfigError as error:
        lines = {"c.yaml": len(text.splitlines()) + 1, "<command line>": len(overrides)}
        return len(error.problems) > 0 and all(1 <= p.source.line <= lines[p.source.file] for p in error.problems)
    return loads(config.resolved(), file="other.yaml") == config


PIECES = st.sampled_from(
    ["*", "&", "!", "%", "@", "`", "#", " #", "{", "}", "[", "]", "(", ")", ":", ": ", ", ", "-", "- ", "?", "? ", "|",
     ">", "'", '"', "\n", "\t", "  ", "${", "}", "<<", "\\", "~", "null", "yes", "1e999", "017", "Linear(", "type", "=",
     "\u00e4", "\U0001f600", "\r\n", "---", "..."]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(GOOD)), st.integers(0, 12), st.lists(PIECES, max_size=4))
def test_no_text_inserted_into_a_config_causes_a_traceback(at: int, cut: int, pieces: list[str]):
    assert is_answered(GOOD[:at] + "".join(pieces) + GOOD[at + cut :])


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES | st.text(max_size=5), max_size=30))
def test_no_text_causes_a_traceback(pieces: list[str]):
    assert is_answered("".join(pieces))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(GOOD.splitlines()), st.sampled_from(GOOD.splitlines()))
def test_no_exchange_of_lines_in_a_config_causes_a_traceback(one: str, other: str):
    assert is_answered("\n".join(other if line == one else line for line in GOOD.splitlines()))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(["optimizer", "lr", "model", "0", "features", "conv1", "data", "train", "x", ""]), max_size=5
    ),
    st.lists(PIECES | st.text(max_size=3), max_size=5),
)
def test_no_override_causes_a_traceback(key: list[str], value: list[str]):
    assert is_answered(GOOD, ".".join(key) + "=" + "".join(value))


def test_an_override_of_several_lines_has_errors_in_its_own_place():
    assert is_answered(GOOD, "optimizer={\r\n*")
    config = loads(GOOD, file="c.yaml", overrides=["optimizer={type: SGD,\n lr: 0.25}"])
    assert config.optimizer.component.kwargs == {"lr": 0.25}
