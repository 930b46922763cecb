"""Tab in bash, zsh and fish, on a terminal: what the shell has put on the command line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tdt.commands._shells import join
from tests.commands.running import SMALL, environment
from tests.commands.terminal import Terminal
from tests.helpers import require_program

SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": [
        "fish",
        "--no-config",
        "-i",
        "-C",
        "function fish_prompt; echo -n 'ready> '; end; function fish_greeting; end",
    ],
}
START = {
    "bash": "PS1='ready> '; bind 'set bell-style none'; source <(_TDT_COMPLETE=source_bash tdt)",
    "zsh": "PROMPT='ready> '; autoload -U compinit; compinit -u -d ./dump; source <(_TDT_COMPLETE=source_zsh tdt)",
    "fish": "_TDT_COMPLETE=source_fish tdt | source",
}


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path: Path) -> Iterator[Terminal]:
    """A shell whose completion of tdt is set up."""
    name = request.param
    require_program(name)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tdt").write_text(f'#!/bin/sh\nexec {sys.executable} -m tdt "$@"\n')
    (tmp_path / "bin/tdt").chmod(0o755)
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "runs/small/1").mkdir(parents=True)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    variables = environment(PATH=path, TERM="xterm", HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    with Terminal(SHELLS[name], cwd=tmp_path, environment=variables, width=150, height=60) as terminal:
        terminal.read(lambda text: bool(text.strip()))
        terminal.type(START[name] + "; echo set'up'\n")
        terminal.read(lambda text: re.search(r"^setup$", text, re.M) is not None and text.endswith("ready>"))
        yield terminal


def pressed(terminal: Terminal, line: str, until: str) -> str:
    """The command line after Tab, when it has become `until` (a pattern), or a list below it shows that."""
    terminal.type(f"\x15{line}\t")
    pattern = re.compile(until)
    return terminal.read(lambda text: pattern.search(text[text.rindex("ready>") :]) is not None, timeout=40)


def test_tab_completes_commands_runs_keys_and_values(shell: Terminal):
    for line, until in (
        ("tdt desc", r"tdt describe $|tdt describe\b"),
        ("tdt runs show sm", r"small\b"),
        ("tdt train small.yaml train.clip_grad_n", r"train\.clip_grad_norm=\S*$"),
        ("tdt train small.yaml optimizer.weight", r"optimizer\.weight_decay=$"),
        ("tdt train small.yaml optimizer=RM", r"optimizer=RMSprop"),
        ("tdt train small.yaml loss=CrossE", r"loss=CrossEntropyLoss"),
        ("tdt train small.yaml data.train=Im", r"data\.train=Image"),
        ("tdt train small.yaml train.amp=bf", r"train\.amp=bfloat16"),
        ("tdt train --device cu", r"cuda\b"),
    ):
        pressed(shell, line, until)


def test_a_key_is_completed_without_a_space_behind_it(shell: Terminal):
    pressed(shell, "tdt train small.yaml optimizer.weight", r"optimizer\.weight_decay=$")
    shell.type("0.5 ")
    text = shell.read(lambda text: "=0.5" in text.replace(" ", "") and "weight_decay" in text)
    assert "optimizer.weight_decay=0.5" in text


def test_files_are_offered_where_tdt_has_nothing(shell: Terminal):
    pressed(shell, "tdt predict small sma", r"small sma\S*ll\.yaml|small small\.yaml")


@pytest.mark.parametrize(
    ("words", "at", "joined"),
    [
        ("tdt\ntrain\nx=", 2, ("tdt\ntrain\nx=", 2, "")),  # = is no break in this shell
        ("tdt\ntrain\nx\n=", 3, ("tdt\ntrain\nx=", 2, "x=")),
        ("tdt\ntrain\nx\n=\n1\n", 5, ("tdt\ntrain\nx=1\n", 3, "")),
        ("tdt\ntrain\nx\n=\n1\ny\n=\nb", 7, ("tdt\ntrain\nx=1\ny=b", 3, "y=")),
        ("tdt\ntrain\n--device\ncuda\n:\n1", 5, ("tdt\ntrain\n--device\ncuda:1", 3, "cuda:")),
        ("tdt", 0, ("tdt", 0, "")),
        ("", 0, ("", 0, "")),
    ],
)
def test_words_that_bash_split_are_joined(words: str, at: int, joined: tuple[str, int, str]):
    assert join(words, at) == joined
