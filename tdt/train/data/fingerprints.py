"""Fingerprints of data files, by which a resumed run detects changes.

Names, sizes and modification times are compared first, and contents only if a time differs; of large datasets a sample.
A dataset takes part if it has a method `source_files()` that returns the paths.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tdt.train.runs.run import RunError
from tdt.utils.data import Subset

WHOLE = 1 << 26  # bytes up to which the whole contents are read
BLOCKS, BLOCK = 1024, 1 << 14  # number and bytes of the blocks that are read of larger ones, equally spaced
MOST_FILES = 10_000  # whose size and time are read, equally spaced in the list

Fingerprint = dict[str, Any]
_PARTS = {"files": "number of files", "names": "names of its files", "size": "size", "content": "contents"}


def source_files(dataset: Any) -> list[str]:
    """The files that the samples of `dataset` come from; empty without a method `source_files`."""
    if isinstance(dataset, Subset):
        return source_files(dataset.dataset)
    listing = getattr(dataset, "source_files", None)
    return (
        [os.path.join(os.getcwd(), path) for path in listing()] if callable(listing) else []
    )  # abspath is 10 × as slow


def fingerprints(files: Mapping[str, Sequence[str]], known: Mapping[str, Fingerprint] = {}) -> dict[str, Fingerprint]:
    """The fingerprint of each split that comes from files. Raises RunError if a file cannot be read.

    known: earlier fingerprints; contents are not read again if names, sizes and times are equal.
    """
    computed: dict[tuple[str, ...], Fingerprint] = {}
    for split, paths in files.items():
        if paths and tuple(paths) not in computed:
            try:
                computed[tuple(paths)] = _fingerprint(paths, known.get(split, {}))
            except OSError as error:
                raise RunError(
                    f"data.{split}: cannot read {error.filename}, one of its source_files(): {error.strerror}"
                ) from error
    return {split: computed[tuple(paths)] for split, paths in files.items() if paths}


def differences(before: Mapping[str, Fingerprint], now: Mapping[str, Fingerprint]) -> list[str]:
    """A line for each split that has changed; times alone do not count.

    >>> from tdt.train.data.fingerprints import differences
    >>> differences({"train": {"size": 3, "content": "a"}}, {"train": {"size": 4, "content": "b"}})
    ['data.train has changed: its size was 3 and is 4']
    """
    lines = []
    for split in [split for split in before if split in now]:
        key = next((key for key in _PARTS if before[split].get(key) != now[split].get(key)), None)
        if key is not None:
            change = f"its {_PARTS[key]} was {before[split][key]} and is {now[split][key]}"
            lines.append(
                f"data.{split} has changed: {change if key in ('files', 'size') else f'the {_PARTS[key]} differ'}"
            )
    return lines


def _fingerprint(paths: Sequence[str], known: Fingerprint) -> Fingerprint:
    first, last = min(paths), max(paths)  # a common prefix of these two is one of every path
    begin = len(os.path.join(os.path.commonpath([os.path.dirname(first), os.path.dirname(last)]), ""))
    chosen = paths[:: -(-len(paths) // MOST_FILES)]
    about = [os.stat(path) for path in chosen]
    sizes = [one.st_size for one in about]
    found: Fingerprint = {
        "files": len(paths),
        "names": _crc(os.fsencode(path[begin:]) + b"\0" for path in paths),
        "size": sum(sizes),
        "times": _crc(b"%d %d," % (one.st_size, one.st_mtime_ns) for one in about),
    }
    same = all(found[key] == known.get(key) for key in found)
    return found | {"content": known["content"] if same else _crc(_sample(chosen, sizes))}


def _sample(paths: Sequence[str], sizes: Sequence[int]) -> Iterator[bytes]:
    """The bytes of the files in order: all of them, or equally spaced blocks."""
    total = sum(sizes)
    if total <= WHOLE:
        for path in paths:
            with open(path, "rb") as file:
                while block := file.read(BLOCKS * BLOCK):
                    yield block
        return
    offsets = (number * (total - BLOCK) // (BLOCKS - 1) for number in range(BLOCKS))
    place, begin, number = next(offsets), 0, 0
    while number < len(paths):
        if place >= begin + sizes[number]:
            begin, number = begin + sizes[number], number + 1
            continue
        with open(paths[number], "rb") as file:
            while place < begin + sizes[number]:
                file.seek(place - begin)
                yield file.read(BLOCK)
                place = next(offsets, total)


def _crc(parts: Iterable[bytes]) -> str:
    import google_crc32c

    value = 0
    for part in parts:
        value = google_crc32c.extend(value, part)
    return f"{value:08x}"
