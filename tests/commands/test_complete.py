"""Shell completion offers commands, configs, runs and checkpoints; without NumPy and the core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tdt import cli
from tests.test_startup import RUN, foreign, loaded_by


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with runs, a config and a checkpoint."""
    for folder in ("runs/small/2", "runs/small/10", "runs/other/1", "runs/empty", "there/far/1"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("mine.yaml", "table.csv", "notes.txt", "sub/deep.yml", "x.safetensors"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "table.csv").write_text('size;"site";kind\n')
    (tmp_path / "runs/small/2/run.lock").touch()
    (tmp_path / "runs/small/2/config.yaml").touch()
    (tmp_path / "runs/small/2/metrics.jsonl").write_text('{"event": "Validated", "step": 1, "valid/loss": 0.5}\n')
    return tmp_path


@pytest.fixture
def offered(work, monkeypatch, capsys) -> Any:
    """What bash is given for the last word of a line."""

    def ask(line: str) -> list[str]:
        for name, value in completion_environment(line).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit):
            cli.run([])
        out, err = capsys.readouterr()
        assert err == ""
        return out.split()

    monkeypatch.chdir(work)
    monkeypatch.setenv("XDG_CACHE_HOME", str(work / "cache"))
    return ask


def completion_environment(line: str) -> dict[str, str]:
    return {"_TDT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tdt tr", ["train"]),
        ("tdt train digits", ["digits-cnn", "digits-finetune", "digits-mlp"]),
        ("tdt train mi", ["mine.yaml"]),
        ("tdt train sub/", ["sub/deep.yml"]),
        ("tdt train nowhere/", []),
        ("tdt train --resume s", ["small", "small/2", "small/10"]),
        ("tdt train --resume runs/o", ["runs/other/1"]),
        ("tdt train --runs-root there --resume f", ["far", "far/1"]),
        ("tdt train --runs-root nowhere --resume f", []),
        ("tdt train digits-cnn optimizer.w", ["optimizer.weight_decay="]),
        ("tdt train digits-cnn optimizer=AdamW optimizer.b", ["optimizer.betas="]),
        ("tdt train digits-cnn optimizer=RM", ["optimizer=RMSprop"]),
        ("tdt train digits-cnn train.clip_grad_n", ["train.clip_grad_norm="]),
        ("tdt train digits-cnn data.train=Im", ["data.train=ImageFolder", "data.train=ImageMasks"]),
        ("tdt train digits-cnn data.loader.sh", ["data.loader.shuffle="]),
        ("tdt train digits-cnn data.loader.shuffle=", ["data.loader.shuffle=true", "data.loader.shuffle=false"]),
        ("tdt train digits-cnn model.features.conv", ["model.features.conv1=", "model.features.conv2="]),
        ("tdt train digits-cnn train.amp=", ["train.amp=bfloat16", "train.amp=float16"]),
        ("tdt train digits-cnn device=cu", ["device=cuda"]),
        ("tdt train digits-cnn ~sch", ["~scheduler", "~scheduler.T_max"]),
        ("tdt train digits-cnn nonsense.x=", []),
        ("tdt train digits-cnn checkp", ["checkpoint."]),
        ("tdt describe digits-cnn se", ["seed="]),
        ("tdt train nowhere.yaml se", ["seed="]),
        ("tdt runs co", ["compare"]),
        ("tdt runs show o", ["other", "other/1"]),
        ("tdt runs compare other/1 small/", ["small/2", "small/10"]),
        ("tdt init ta", ["table.csv"]),
        ("tdt init table.csv --target s", ["size", "site"]),
        ("tdt init notes.txt --target ", []),
        ("tdt runs list --by v", ["valid/loss"]),
        ("tdt runs list --runs-root nowhere --by v", []),
        ("tdt doc", ["doctor"]),
        ("tdt train --device cu", ["cuda"]),
        ("tdt eval o", ["other", "other/1"]),
        ("tdt eval x", ["x.safetensors"]),
        ("tdt eval small --split t", ["train", "test"]),
    ],
)
def test_a_shell_is_offered_what_fits(offered, line: str, words: list[str]):
    assert offered(line) == words


@pytest.mark.parametrize("line", ["tdt train dig", "tdt train --resume s"])
def test_completion_loads_neither_numpy_nor_the_core(line: str):
    modules = loaded_by(RUN.format([]), **completion_environment(line))
    lists_configs = {"tdt.train", "tdt.train.config.registry", "tdt.train.config", "tdt.train.config.find",
                     "tdt.train.config.errors", "tdt.train.config.source", "tdt.train._printable",
                     "tdt.train._regular_file", "tdt.train._encoding", "tdt._did_you_mean"}  # fmt: skip
    assert foreign(modules) <= lists_configs


def test_completion_of_keys_reads_a_config_once(tmp_path: Path):
    environment = completion_environment("tdt train digits-cnn optimizer.") | {"XDG_CACHE_HOME": str(tmp_path)}
    for roots in ({"tdt", "platformdirs", "yaml"}, {"tdt", "platformdirs"}):
        modules = foreign(loaded_by(RUN.format([]), **environment))
        assert {module.partition(".")[0] for module in modules if "cython" not in module} - {"_yaml"} == roots
        ours = {module for module in modules if module.startswith("tdt.") and module != "tdt.train"}
        assert all(
            name.startswith(("tdt.train.config", "tdt.train._", "tdt._did_you_mean", "tdt._files")) for name in ours
        )


def test_a_config_that_changes_is_read_again(offered, work: Path):
    for text, words in (
        ("a: 1\n", ["a"]),
        ("a: 1\nlonger: {key: SGD(lr=0.1)}\n", ["a", "longer.key", "longer.key.lr"]),
    ):
        (work / "mine.yaml").write_text(text)
        for _ in range(2):
            assert offered("tdt train mine.yaml ~") == [f"~{word}" for word in words]
    memory = work / "cache" / "tdt" / "completion.json"
    assert "SGD" not in memory.read_text()  # names of keys, and of components where their arguments are asked for
    memory.write_text("[")
    assert offered("tdt train mine.yaml ~a") == ["~a"]


def test_keys_are_offered_where_nothing_can_be_remembered(offered, work: Path, monkeypatch):
    (work / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(work / "file"))
    assert offered("tdt train digits-mlp optimizer=Ada") == [f"optimizer=Ada{end}" for end in ("delta", "factor", "grad", "m",
                                                                                              "mW", "max")]  # fmt: skip
    assert offered("tdt train digits-mlp data.loader.batch") == ["data.loader.batch_size="]


def test_every_key_of_the_sections_and_every_argument_is_offered(monkeypatch):
    from tdt.train.config import keys, registry, sections
    from tdt.train.config.signatures import BY_TDT, parameters_of

    top = sections.Top.model_fields
    assert set(keys.keys("", {})) == set(top) - {"extends"}
    for path, section in {"train": sections.Train, "data.loader": sections.Loader, "log": sections.Log}.items():
        assert set(keys.keys(path, {})) == {field.alias or name for name, field in section.model_fields.items()}
    for path, kind in {"optimizer": registry.optimizers, "data.train": registry.datasets}.items():
        monkeypatch.setattr(kind, "entries", {})  # without classes that other tests import
        assert keys.values(path, {}) == kind.names()
        for name in kind.names():
            parameters = parameters_of(kind.find(name), len(kind.supplied)).values()
            named = {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)} - set(BY_TDT)
            assert named <= set(keys.keys(path, {path: name}))
