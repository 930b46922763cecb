"""`tdt generate`: continue a text by a language model."""

from __future__ import annotations

import contextlib
import json as json_format
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from tdt.commands import _startup
from tdt.commands._help import examples
from tdt.commands._options import Checkpoint, Device, Root, Traceback, Trust
from tdt.commands._output import print_lines

if TYPE_CHECKING:
    from tdt import Generator

EXAMPLE = examples(
    "tdt generate char-gpt --prompt 'def ' --temperature 0.8",
    "cat story.txt | tdt generate gpt2 --prompt - --length 500 --top-p 0.9 --seed 1",
    "tdt generate char-gpt --prompt 'class ' --count 10 --output samples.jsonl",
)
ENDINGS = (".txt", ".jsonl")
BETWEEN = "\n---\n"  # samples of a text file and of the terminal
Put = Callable[[str], None]
Sinks = list[tuple[Put, bool]]


def generate(
    checkpoint: Checkpoint,
    prompt: Annotated[
        str,
        typer.Option(
            "--prompt", metavar="TEXT", show_default="a line break", help="The text to continue; - for stdin."
        ),
    ] = "\n",
    length: Annotated[int, typer.Option("--length", min=1, metavar="N", help="Tokens to generate.")] = 200,
    temperature: Annotated[
        float, typer.Option("--temperature", min=0, metavar="T", help="Below 1 is more likely text; 0 the most likely.")
    ] = 1.0,
    top_k: Annotated[
        int | None, typer.Option("--top-k", min=1, metavar="K", help="Draw from the K most likely tokens.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option("--top-p", metavar="P", help="Draw from the fewest tokens whose probabilities add up to P."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="S", help="The same seed gives the same text.")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", min=1, metavar="N", help="Texts to generate, one after the other.")
    ] = 1,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a .txt or .jsonl file instead; - for stdout."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per text: prompt, text (what follows it), tokens, seed.")
    ] = False,
    device: Device = None,
    runs_root: Root = Path("runs"),
    trust: Trust = False,
    traceback: Traceback = False,
) -> int:
    """Continue a text by a language model: one that a run trained on the dataset Text.

    The text is printed as it is generated. A model with a limited context reads on until that is full, and then the last half
    of it again (a sliding window), so that a text may have any length. Uses the best (or else last) checkpoint of a run, and
    no other file.
    """
    from tdt.text.generation import Sampling
    from tdt.train.loop.generation import TextGenerator
    from tdt.train.loop.prediction import Predictor
    from tdt.train.runs.checkpoint import CheckpointError
    from tdt.train.runs.run import find_checkpoint

    try:
        path = find_checkpoint(checkpoint, runs_root)
        sampling = Sampling(temperature, top_k, top_p)
        text = _read_stdin() if prompt == "-" else prompt
        generator = TextGenerator(Predictor(path, device))
        generator.encoded(text)
    except (CheckpointError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    seed = secrets.randbelow(1 << 32) if seed is None else seed
    _startup.finish()
    started = time.perf_counter()
    with _sinks(output, json) as sinks:
        _write_texts(sinks, partial(generator.stream, text, length, sampling), text, length, seed, count)
    rate = length * count / (time.perf_counter() - started)
    print_lines(f"{path}: {length * count:,} tokens, {rate:,.0f} per second, seed {seed}", file=sys.stderr)
    return 0


def _write_texts(
    sinks: Sinks, stream: Callable[[Generator], Iterator[str]], prompt: str, length: int, seed: int, count: int
) -> None:
    """Write `count` texts, each piece by piece as it is generated, and as a line of JSON where that is asked for.

    Args:
        stream: generates the pieces of a text of `length` tokens with a generator of random numbers.
    """
    from tdt import Generator

    random = Generator().manual_seed(seed)
    as_text = [put for put, is_json in sinks if not is_json]
    as_json = [put for put, is_json in sinks if is_json]
    for number in range(count):
        _put((BETWEEN if number else "") + prompt, as_text)
        pieces = []
        for piece in stream(random):
            pieces.append(piece)
            _put(piece, as_text)
        found = {"prompt": prompt, "text": "".join(pieces), "tokens": length, "seed": seed, "number": number}
        _put(json_format.dumps(found) + "\n", as_json)
    _put("\n", as_text)


@contextlib.contextmanager
def _sinks(output: str | None, json: bool) -> Iterator[Sinks]:
    """Where texts go, each with whether it takes JSON lines: a file, standard output, or both."""
    from tdt._files import replacing

    sinks: Sinks = []
    if json or output in (None, "-"):
        sinks.append((_show, json))
    if output in (None, "-"):
        yield sinks
        return
    ending = Path(output).suffix.lower()
    if ending not in ENDINGS:
        raise typer.BadParameter(f"{output}: its ending says no format; use {' or '.join(ENDINGS)}")
    with replacing(output) as file:
        yield [*sinks, (lambda text: _write(file, text), ending == ".jsonl")]


def _put(text: str, sinks: list[Put]) -> None:
    for put in sinks if text else ():
        put(text)


def _write(file: IO[bytes], text: str) -> None:
    file.write(text.encode())


def _show(text: str) -> None:
    """Print at once, with control characters escaped but for line breaks and tabs."""
    *cells, last = text.split("\t")
    for cell in cells:
        print_lines(cell, end="\t", whole=True)
    print_lines(last, end="", flush=True, whole=True)


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")  # which echo adds
    except UnicodeDecodeError as error:
        raise ValueError(f"the prompt on stdin is not UTF-8 text: {error}") from error
