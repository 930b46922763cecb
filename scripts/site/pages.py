"""MkDocs hook: pages that are made when the site is built, from the commands' help and files outside docs/."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "docs" / "measured"


def commands() -> str:
    """Every command and subcommand, with the arguments, options and examples of its help."""
    import typer

    from tdt.cli import app

    root: Any = typer.main.get_command(app)
    lines = [
        "---\nsearch: {boost: 3}  # who searches for an option means this page\n---",
        "# Command line",
        "Made from the commands' help: `tdt COMMAND --help` prints the same. `-h` and `--help` work everywhere.",
    ]
    with root.make_context("tdt", [], resilient_parsing=True) as context:
        for name in root.list_commands(context):
            lines += command(f"tdt {name}", root.get_command(context, name), context)
        lines += ["## tdt", "Options that stand before a command:", *table(root, context)]
    return "\n\n".join(lines) + "\n"


def command(path: str, target: Any, parent: Any) -> Iterator[str]:
    """The section of a command, and those of its subcommands."""
    with type(parent)(target, info_name=path.split()[-1], parent=parent, resilient_parsing=True) as context:
        yield f"## {path}" if path.count(" ") == 1 else f"### {path}"
        yield " ".join((target.help or "").split())
        yield f"```text\n{path} {' '.join(target.collect_usage_pieces(context))}\n```"
        yield from table(target, context)
        if target.epilog:
            yield "```text\n" + "\n".join(line.strip() for line in target.epilog.splitlines()[2:]) + "\n```"
        for name, below in getattr(target, "commands", {}).items():
            yield from command(f"{path} {name}", below, context)


def table(target: Any, context: Any) -> Iterator[str]:
    """The arguments and options of a command as a table."""
    records = []
    for parameter in target.get_params(context):
        if parameter.param_type_name == "argument":
            records.append((parameter.metavar or parameter.name.upper(), parameter.help or ""))
        elif record := parameter.get_help_record(context):
            records.append(record)
    rows = [f"| <code>{cell(left)}</code> | {cell(right)} |" for left, right in records]
    yield "\n".join(["| argument or option | meaning |", "|---|---|", *rows])


def cell(text: str) -> str:
    """Text of a table's cell."""
    return html.escape(text, quote=False).replace("|", "&#124;").replace("*", "&#42;").replace("_", "&#95;")


def gallery() -> str:
    """The configs that come with tdt, with the score and time of a run of each, as `scripts/measure_gallery` measured them."""
    measured = facts("gallery")
    lines = [
        "# Gallery",
        "These configs come with tdt: `tdt init NAME` copies one, `tdt train NAME` trains it. Scores are those of the test"
        " split with the best checkpoint, or of the validation split where there is no test split; times are processor seconds"
        " of the whole command, over all threads, with compiled kernels. Configs whose data are not part of tdt have not been"
        " measured: `tdt train NAME` asks before it downloads, `--yes` answers.",
        f"Measured by `scripts/measure_gallery` on {measured['date']}: tdt {measured['version']}, {measured['processor']},"
        f" {measured['threads']} threads, seed 0. On another processor the last digits of a score may differ.",
        "| config | what it is | parameters | data | epochs | score | processor time |\n|---|---|---|---|---|---|---|",
    ]
    for name, run in measured["configs"].items():
        time = f"{run['processor_seconds']:.0f} s" if "seconds" in run else ""
        lines[-1] += (
            f"\n| [`{name}`](#{name}) | {run['title']} | {run['parameters']:,} | {run['data']} | {run['epochs']} | "
            f"{score(run)} | {time} |"
        )
    for name in measured["configs"]:
        lines += [f"## {name}", f"```yaml\n{(ROOT / 'configs' / f'{name}.yaml').read_text(encoding='utf-8')}```"]
    return "\n\n".join(lines) + "\n"


def score(run: dict[str, Any]) -> str:
    """The scores of a run in the gallery, or what must be downloaded before one can be measured."""
    if "download" in run:
        return f"not measured: needs a download of {run['download']['bytes'] / 1e6:,.0f} MB from {run['download']['server']}"
    split = "test" if "test" in run else "valid"
    scores = ", ".join(f"{key} {value:.4g}" for key, value in run[split].items())
    trained = run.get("trained", run["epochs"])
    part = f", after {trained} epoch{'s' * (trained > 1)} of {run['epochs']}" if trained < run["epochs"] else ""
    return f"{split} {scores}{part}"


def facts(name: str) -> Any:
    """A file of measurements."""
    return json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))


def speed() -> str:
    """When, where and how the chart of the page "Speed" was measured."""
    measured = facts("training")
    ratios = [row["ratio"] for row in measured["networks"]]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    count = f"the first {len(ratios)} of {measured['families']} families"
    return (
        f"Measured on {measured['date']} with tdt {measured['version']} and PyTorch 2.13 on {measured['processor']}: "
        f"geometric mean {mean:.2f} of {count}, least {min(ratios):.2f}, while other programs ran.\n\n"
        f"```text\n{measured['command']}\n```"
    )


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Fill in what is measured."""
    return markdown.replace("<!-- measured -->", speed()) if page.file.src_uri == "guide/speed.md" else markdown


def copied(name: str) -> str:
    """A file of the repository's root, whose links to pages begin in docs/."""
    return (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")


PAGES = {
    "reference/cli.md": commands,
    "gallery.md": gallery,
    "changelog.md": lambda: copied("CHANGELOG.md"),
    "contributing.md": lambda: copied("CONTRIBUTING.md"),
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to the site's files."""
    from mkdocs.structure.files import File

    for path, make in PAGES.items():
        files.append(File.generated(config, path, content=make()))
    return files
