"""What an editor shows for a config: the schema as yaml-language-server, which editors use, reads it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tdt.train.config import find, registry, sections
from tdt.train.config.descriptions import descriptions
from tdt.train.config.keys import KINDS
from tdt.train.config.schema import schema
from tests.helpers import require_program

SCHEMA = schema()
CONFIG = """\
# yaml-language-server: $schema=tdt.schema.json
data:
  train: Digits(split=train)
  valid: Digits(split=valid)
  transform:
    - ToTensor
    - Normalize(0.5, 0.5)
  loader: {batch_size: 32}
model:
  - Flatten
  - Linear(64, 10)
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: Adam(lr=1e-3)
train:
  epochs: 2
  clip_grad_norm: 1.0
log:
  every: 20 steps
"""


class Editor:
    """A client of yaml-language-server with one open file."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number, self._version = folder, 0, 0
        self.problems: list[dict[str, Any]] | None = None
        command = [require_program("yaml-language-server"), "--stdio"]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
        features = {"completion": {"completionItem": {"snippetSupport": True, "documentationFormat": ["plaintext"]}}}
        self.request("initialize", processId=None, rootUri=folder.as_uri(), capabilities={"textDocument": features})
        self._send("initialized", {})
        settings = {"yaml": {"completion": True, "hover": True, "validate": True, "schemaStore": {"enable": False}}}
        self._send("workspace/didChangeConfiguration", {"settings": settings})

    def close(self) -> None:
        self._server.kill()
        self._server.communicate()

    def open(self, text: str) -> None:
        self._version += 1
        self._uri = (self._folder / f"c{self._version}.yaml").as_uri()
        self.problems = None
        file = {"uri": self._uri, "languageId": "yaml", "version": 1, "text": text}
        self._send("textDocument/didOpen", {"textDocument": file})

    def request(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._send(method, params, id=self._number)
        while True:
            message = self._receive()
            if message.get("id") == self._number and "method" not in message:
                return message.get("result")

    def diagnostics(self) -> list[dict[str, Any]]:
        while self.problems is None:
            self._receive()
        return self.problems

    def at(self, method: str, line: int, character: int) -> Any:
        place = {"line": line, "character": character}
        return self.request(f"textDocument/{method}", textDocument={"uri": self._uri}, position=place)

    def _send(self, method: str, params: Any, **more: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        self._write(body)

    def _write(self, body: bytes) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._server.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._server.stdout is not None
        length = 0
        while header := self._server.stdout.readline().strip():
            if header.lower().startswith(b"content-length:"):
                length = int(header.partition(b":")[2])
        assert length, "the server has ended"
        message: dict[str, Any] = json.loads(self._server.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == self._uri:
            self.problems = message["params"]["diagnostics"]
        if "method" in message and "id" in message:  # a request of the server's
            count = len(message.get("params", {}).get("items", ()))
            self._write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": [None] * count}).encode())
        return message


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    folder = tmp_path_factory.mktemp("editor")
    (folder / find.SCHEMA).write_bytes((find.bundled_folder() / find.SCHEMA).read_bytes())
    editor = Editor(folder)
    yield editor
    editor.close()


def place(text: str, before: str) -> tuple[int, int]:
    """Line and column after the text `before`."""
    lines = text[: text.index(before) + len(before)].split("\n")
    return len(lines) - 1, len(lines[-1])


def labels(editor: Editor, text: str, before: str) -> set[str]:
    editor.open(text)
    found = editor.at("completion", *place(text, before))
    return {item["label"] for item in (found["items"] if isinstance(found, dict) else found)}


def test_a_valid_config_has_no_mark(editor: Editor):
    editor.open(CONFIG)
    assert editor.diagnostics() == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Adam(lr", "Adm(lr", "expected an optimizer, as ASGD or ASGD(...)"),
        ("- Flatten", "- Flaten", "expected a layer, as "),
        ("- ToTensor", "- ToTensr", "expected a transform, as "),
        ("20 steps", "20 stps", "expected a number and a unit, as in 1 epoch or 20 steps"),
        ("epochs: 2", "epocs: 2", "Property epocs is not allowed"),
    ],
)
def test_a_mistake_has_a_short_message_at_its_place(editor: Editor, old: str, new: str, message: str):
    text = CONFIG.replace(old, new)
    editor.open(text)
    found = [one for one in editor.diagnostics() if one["message"].startswith(message)]
    assert found, [one["message"][:200] for one in editor.diagnostics()]
    assert found[0]["range"]["start"]["line"] == text[: text.index(new)].count("\n")
    assert len(found[0]["message"]) < 120


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("clip_grad_norm", "Maximum norm of the gradient"),
        ("epochs", "Passes over the training data"),
        ("optimizer", "The optimizer with its arguments"),
        ("train:\n", "the length of the run"),
        ("every", "Interval of the numbers of training"),
        ("transform", "Transforms of the samples of every split"),
        ("batch_size", "Samples per batch"),
    ],
)
def test_hovering_over_a_key_shows_what_it_means(editor: Editor, key: str, shown: str):
    editor.open(CONFIG)
    line, column = place(CONFIG, f"\n{key}" if key == "train:\n" else key)
    line, column = (line - 1, 2) if key == "train:\n" else (line, column - 1)
    hover = editor.at("hover", line, column)
    assert hover is not None and shown in json.dumps(hover["contents"])


@pytest.mark.parametrize(
    ("old", "new", "before", "offered"),
    [
        ("optimizer: Adam(lr=1e-3)", "optimizer: ", "optimizer: ", {"Adam", "SGD", "AdamW(lr=0.001)"}),
        ("loss: CrossEntropyLoss", "loss: ", "loss: ", {"CrossEntropyLoss", "MSELoss"}),
        ("- Flatten", "- ", "model:\n  - ", {"Flatten", "Linear(in_features, out_features)"}),
        ("- ToTensor", "- ", "transform:\n    - ", {"ToTensor", "Normalize(mean, std)"}),
        (
            "  train: Digits(split=train)",
            "  train: ",
            "  train: ",
            {"Digits", "Digits(split=train)", "MNIST(split=train)"},
        ),
        ("  epochs: 2", "  ep", "  ep", {"epochs"}),
        ("log:\n", "chec\nlog:\n", "chec", {"checkpoint"}),
    ],
)
def test_an_editor_completes(editor: Editor, old: str, new: str, before: str, offered: set[str]):
    found = labels(editor, CONFIG.replace(old, new), before)
    assert offered <= found, sorted(found)


def test_every_key_of_every_section_has_a_description():
    for name in dir(sections):
        section = getattr(sections, name)
        if isinstance(section, type) and issubclass(section, sections.Section) and section is not sections.Section:
            keys = [field.alias or key for key, field in section.model_fields.items()]
            found = descriptions(section, keys)
            assert list(found) == keys and all(text.endswith(".") for text in found.values()), name
            properties = SCHEMA["properties"] if name == "Top" else SCHEMA["$defs"][name]["properties"]
            assert {key: properties[key]["description"] for key in keys} == found


def test_every_argument_of_every_component_has_a_description():
    kinds = {*KINDS.values(), "initializer"}
    components = {
        name: one for name, one in SCHEMA["$defs"].items() if name.partition(".")[0] in kinds and "properties" in one
    }
    assert len(components) > 500
    lacking = [
        f"{name}: {key}"
        for name, one in components.items()
        for key, value in one["properties"].items()
        if not value.get("description", "").endswith(".")
    ]
    assert lacking == []


def test_a_function_is_described_by_the_class_whose_arguments_it_takes():
    block = descriptions(registry.layers.find("resnet18"), ["zero_init_residual", "weights"])
    assert block == {
        "weights": "None; tdt downloads no weights.",
        "zero_init_residual": "Start every block as the identity.",
    }
    own = descriptions(registry.layers.find("GPT2Model"), ["n_inner", "n_head"])
    assert own["n_inner"].endswith("None for four times n_embd.") and own["n_head"] == "Number of attention heads."
