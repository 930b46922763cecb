"""The checks of `tdt doctor`: versions, processor, kernels, GPU, folders, optional libraries."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tdt._about import DISTRIBUTION, __version__, install_hint
from tdt.train.runs._environment import environment

MARK = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
ELSEWHERE = {
    "cuda12",
    "cuda13",
    "nullgpu",
    "test",
    "parity",
    "bench",
}  # extras that `_gpu` reports, and those for developers


@dataclass(frozen=True)
class Finding:
    """state: "ok", "note" (works without it, or slower) or "broken". message: what was found, and how to repair it."""

    what: str
    state: str
    message: str


def checkup(runs_root: str | os.PathLike[str] = "runs") -> list[Finding]:
    """All findings. A check that raises an exception is a finding with the state "broken"."""
    looks: dict[str, Callable[[], Iterator[Finding]]] = {
        "versions": _versions,
        "requirements": _requirements,
        "processor": _processor,
        "BLAS": _blas,
        "threads": _threads,
        "kernels": _kernels,
        "gradient": _gradient,
        "GPU": _gpu,
        "runs": lambda: _runs(Path(runs_root)),
        "extras": _extras,
    }
    found = []
    for what, look in looks.items():
        try:
            found += list(look())
        except Exception as error:  # noqa: BLE001 - any failure is a result of the check
            found.append(Finding(what, "broken", f"{type(error).__name__}: {error}"))
    return found


def _versions() -> Iterator[Finding]:
    yield Finding("tdt", "ok", f"{__version__}, in {Path(__file__).parents[2]}")
    yield Finding("Python", "ok", f"{platform.python_version()}, {sys.executable}, {platform.platform()}")


def _requirements() -> Iterator[Finding]:
    """The required packages and their versions."""
    requirements = _declared()
    if requirements is None:
        message = "is not installed, so its requirements are not known; in a checkout: pip install -e ."
        yield Finding("requirements", "note", message)
        return
    for line in requirements:
        if MARK.search(line):
            continue
        name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        version = _version(name)
        if version is None:
            yield Finding(name, "broken", f"is not installed: pip install '{line}'")
        elif _is_too_old(version, line):
            yield Finding(name, "broken", f"{version} is too old: pip install '{line}'")
        else:
            yield Finding(name, "ok", version)


def _processor() -> Iterator[Finding]:
    import llvmlite.binding as llvm

    where = environment()
    known = ("avx512f", "avx2", "fma", "f16c", "neon", "sve")
    features = [name for name, has in llvm.get_host_cpu_features().items() if has and name in known]
    memory = f", {where['memory_bytes'] / 2**30:.1f} GiB of memory" if where["memory_bytes"] else ""
    description = f"{where['cpu']} ({llvm.get_host_cpu_name()}), {where['cpus']} cores{memory}"
    yield Finding(
        "processor", "ok", f"{description}; {' '.join(sorted(features)) or 'no vector extensions that kernels know'}"
    )


def _blas() -> Iterator[Finding]:
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    yield Finding("BLAS", "ok", f"{blas['name']} {blas.get('version', '')}".strip())


def _threads() -> Iterator[Finding]:
    import tdt

    set_to = [
        f"{name}={os.environ[name]}" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") if name in os.environ
    ]
    yield Finding("threads", "ok", f"{tdt.get_num_threads()}{f' ({chr(32).join(set_to)})' if set_to else ''}")


def _kernels() -> Iterator[Finding]:
    """Whether kernels are enabled, and where they are cached; if not in the user's cache, why."""
    from tdt._kernels import _cache, enabled

    if not enabled():
        yield Finding("kernels", "note", "switched off by TDT_KERNELS=reference: everything is slower")
        return
    folder, refused = _cache.place()
    reasons = "; ".join(refused)
    if folder is None:
        yield Finding("kernels", "note", f"cannot be kept, so each start compiles them: {reasons}")
        return
    codes = [_cache.load(name) for name in _cache.names()]
    whole = [len(code) for code in codes if code is not None]
    message = f"{len(whole)} kept, {sum(whole) / 2**20:.1f} MiB, in {folder}"
    if reasons:
        message += f"; they may end with a reboot, since the user's cache is not used: {reasons}"
    if damaged := len(codes) - len(whole):
        message += f"; {damaged} damaged or not of this user: compiled again when next needed"
    yield Finding("kernels", "note" if reasons or damaged else "ok", message)


def _gradient() -> Iterator[Finding]:
    """Compare a convolution and its gradient with kernels and without."""
    import tdt
    from tdt.backends import kernels

    def slope() -> tdt.Tensor:
        seeded = tdt.Generator().manual_seed(0)
        x = tdt.randn(8, 16, 32, 32, generator=seeded, requires_grad=True)
        w = tdt.randn(16, 16, 3, 3, generator=seeded, requires_grad=True)
        tdt.nn.functional.conv2d(x, w, padding=1).square().sum().backward()
        assert x.grad is not None and w.grad is not None
        return tdt.cat([x.grad.flatten(), w.grad.flatten()])

    fast = slope()
    with kernels(False):
        plain = slope()
    off = float((fast - plain).abs().max() / plain.abs().max())
    message = f"of a convolution: kernels and portable code differ by {off:.0e} of the largest"
    yield Finding("gradient", "ok" if off < 1e-5 else "broken", message)


def _gpu() -> Iterator[Finding]:
    from tdt._backend import cuda_device_count, gpu

    cupy = next((name for name in ("cupy-cuda12x", "cupy-cuda13x", "cupy") if _version(name)), None)
    needed = next((line for line in _declared() or () if line.startswith("cupy")), "")
    if cupy and _is_too_old(_version(cupy) or "", needed):
        extra = "cuda12" if "12" in cupy else "cuda13"
        yield Finding("GPU", "broken", f"{cupy} {_version(cupy)} is too old: {install_hint(extra)}")
        return
    count = cuda_device_count()
    if count:
        yield Finding("GPU", *_computes_on_gpu(f"{count} visible, {cupy or 'cupy'} {gpu().__version__}"))
    elif cupy:
        yield Finding(
            "GPU", "note", f"none is visible to {cupy} {_version(cupy)}; is there one, and its driver? (nvidia-smi)"
        )
    else:
        yield Finding("GPU", "note", f"not used: that needs CuPy: {install_hint('cuda12')}, or cuda13")


def _computes_on_gpu(found: str) -> tuple[str, str]:
    """The state and the message: whether a product of matrices is right, for which CUDA's libraries are needed."""
    import tdt

    x = tdt.ones(8, 8, device="cuda")
    try:
        total = float((x @ x).sum())
    except ImportError as error:
        missing = str(error).partition("\n")[0]
        return "broken", f"{found}; CUDA's libraries are missing: {install_hint('cuda13')}, or cuda12 ({missing})"
    return ("ok", found) if total == 512 else ("broken", f"{found}; the sum of 8 x 8 products is {total}, not 512")


def _runs(root: Path) -> Iterator[Finding]:
    """Whether runs can be written: tries it in the folder, or in the parent where it would be created."""
    place = root
    while not place.exists():
        place = place.absolute().parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        yield Finding("runs", "broken", f"{place} takes no files: {error.strerror}; use another --runs-root")
        return
    import shutil

    free = shutil.disk_usage(place).free / 2**30
    state = "ok" if free >= 1 else "note"
    yield Finding("runs", state, f"{root.absolute()}, {free:.1f} GiB free")


def _extras() -> Iterator[Finding]:
    """For each extra: whether its packages are installed."""
    extras: dict[str, list[str]] = {}
    for line in _declared() or ():
        if mark := MARK.search(line):
            extras.setdefault(mark[1], []).append(re.split(r"[^\w.-]", line, maxsplit=1)[0])
    for extra in sorted(extras.keys() - ELSEWHERE):
        missing = [name for name in extras[extra] if _version(name) is None]
        message = f"needs {', '.join(missing)}: {install_hint(extra)}" if missing else "installed"
        yield Finding(f"extra {extra}", "note" if missing else "ok", message)


def _declared() -> list[str] | None:
    try:
        return metadata.requires(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _is_too_old(version: str, requirement: str) -> bool:
    least = re.search(r">=\s*([\d.]+)", requirement)
    return least is not None and _numbers(version) < _numbers(least[1])


def _numbers(version: str) -> tuple[int, ...]:
    """(1, 26) from "1.26" and from "1.26rc1"."""
    return tuple(int(part) for part in re.findall(r"\d+", re.match(r"[\d.]*", version)[0]))  # type: ignore[index]
