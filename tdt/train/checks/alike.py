"""Before processes train together: what their numbers depend on is the same, and they share the cores of a machine."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import tdt
from tdt._kernels._native import processor
from tdt.backends import kernels
from tdt.train._agreement import together
from tdt.train._ranks import Ranks
from tdt.train.config import Config
from tdt.train.data.fingerprints import Fingerprint
from tdt.train.runs._environment import versions
from tdt.train.runs.run import RunError

VECTORS = ("sse", "avx", "fma", "f16c", "amx", "neon", "sve", "bf16", "fullfp16", "vsx")  # of LLVM's features
SHOWN = 8  # ranks that a message names for a value


def share_threads(ranks: Ranks) -> None:
    """Set the number of threads to the process's part of the cores; all processes get one number.

    A core on which several processes may run counts in parts. `OMP_NUM_THREADS` has precedence. A process alone keeps its number,
    and so that of NumPy's BLAS: from now on, not from the first kernel, since products then have the same bits.
    """
    if ranks.size > 1 and "OMP_NUM_THREADS" not in os.environ:
        cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        tdt.set_num_threads(threads_of(ranks.exchange((ranks.hosts[ranks.rank], frozenset(cores)), "cores")))
    else:
        tdt.set_num_threads(tdt.get_num_threads())


def threads_of(places: list[tuple[str, frozenset[int]]]) -> int:
    """Threads for each process. places: machine and cores of each.

    >>> from tdt.train.checks.alike import threads_of
    >>> both = frozenset(range(8))
    >>> threads_of([("a", both), ("a", both)]), threads_of([("a", both), ("b", both)])
    (4, 8)
    >>> threads_of([("a", frozenset({0, 1})), ("a", frozenset({2, 3}))])  # bound by the launcher
    2
    """
    users: dict[tuple[str, int], int] = defaultdict(int)
    for host, cores in places:
        for core in cores:
            users[host, core] += 1
    return max(1, min(int(sum(1 / users[host, core] for core in cores) + 1e-9) for host, cores in places))


def check_alike(ranks: Ranks, config: Config, files: Mapping[str, Fingerprint], device: tdt.device) -> None:
    """Raise RunError, in all processes, if these have different versions, configs, data, GPUs, instructions or threads.

    files: fingerprints of the data.
    """
    if ranks.size == 1:
        return
    found = versions()
    facts = {
        "tdt": found["tdt"],
        "numpy": found["numpy"],
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "config": _digest(config.resolved()),
        "data": _digest({split: {k: v for k, v in one.items() if k != "times"} for split, one in files.items()}),
        "kernels": f"fast, {_instructions()}" if kernels.enabled() else "reference",
        "threads": str(tdt.get_num_threads()),
        "device": tdt.cuda.get_device_name(device) if device.type == "cuda" else device.type,
    }
    everyone = ranks.exchange(facts, "facts about the processes")
    lines = [line for name in facts if (line := difference(name, [each[name] for each in everyone], ranks))]

    def refuse() -> None:
        if lines:
            raise RunError("\n".join(["the processes differ, and would not compute the same numbers:", *lines]))

    together(ranks, refuse)


def difference(name: str, values: list[str], ranks: Ranks) -> str | None:
    """A line that says which ranks have which value; None if all have the same.

    >>> from tdt.train._ranks import Ranks
    >>> from tdt.train.checks.alike import difference
    >>> difference("numpy", ["2.1"], Ranks.alone())
    """
    holders: dict[str, list[int]] = defaultdict(list)
    for rank, value in enumerate(values):
        holders[value].append(rank)
    if len(holders) == 1:
        return None
    parts = []
    for value, members in holders.items():
        more = f" and {len(members) - SHOWN} more" * (len(members) > SHOWN)
        parts.append(f"{value} on {', '.join(map(ranks.name, members[:SHOWN]))}{more}")
    return f"  {name}: {'; '.join(parts)}"


def _instructions() -> str:
    """The instructions for vectors that generated code may use."""
    names = (text[1:] for text in processor()[1].split(",") if text.startswith("+"))
    return " ".join(sorted(name for name in names if name.startswith(VECTORS)))


def _digest(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
