"""The stages of `scripts/gpu_check`, each of which runs in a process of its own."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib.util
import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tdt
from benchmarks import gpu_attention, gpu_conv
from tests import gpu_kernels, gpu_results, gpu_speed, gpu_workers, programs_on_gpu, runs_on_gpu
from tests.gpu_results import RESTART, Results

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "gpu_check"
NO_GPU = "CuPy sees no GPU: pip install 'tdt-train[cuda13]', and look at nvidia-smi and tdt doctor"
Checks = Iterator[tuple[str, str | None]]


class LostGpuError(Exception):
    """A kernel has failed so that this process can use the GPU no more."""


def run(args: argparse.Namespace) -> int:
    """Run the stage `args.only`; the exit code."""
    if args.device.startswith("cuda") and not tdt.cuda.is_available():
        print(NO_GPU, file=sys.stderr)
        return 2
    args.until = time.monotonic() + args.minutes * 60
    warnings.simplefilter("ignore", RuntimeWarning)
    tdt.backends.cudnn.allow_tf32 = False  # float32 is held to the CPU's
    if args.lines:
        return _print_op_database(args) if args.only == "op database" else _print_ops(args)
    name = tdt.cuda.get_device_name(args.device) if args.device.startswith("cuda") else "the CPU itself"
    print(f"\n{args.only}: tdt {tdt.__version__} on {args.device}, {name}", flush=True)
    results = Results(args.results, args.command, args.only, args.again)
    try:
        failed = (named if args.only in NAMED else OTHERS[args.only])(args, results)
    except LostGpuError as error:
        print(f"{error}: the rest in a new process", flush=True)
        return RESTART
    finally:
        results.save()
    return int(failed > 0)


def in_time(args: argparse.Namespace, what: str) -> bool:
    """Whether there is time for `what`; prints that there is none."""
    if time.monotonic() < args.until:
        return True
    print(f"out of time before {what}: see --minutes", flush=True)
    return False


def look_after(args: argparse.Namespace, what: str) -> None:
    """After a failure: LostGpuError if the GPU cannot be used any more."""
    if args.device.startswith("cuda"):
        try:
            tdt.zeros(1, device=args.device).add_(1).item()
        except Exception as error:
            raise LostGpuError(f"{what} has left the GPU in an error, {error}".partition("\n")[0]) from error


def _nccl(target: str, done: Any) -> Checks:
    from tests.nccl_on_gpu import check_nccl

    return check_nccl(target)


# Stages whose checks are names, each with what is wrong; those that are done are left out.
NAMED: dict[str, Callable[[str, Any], Checks]] = {
    "kernels": gpu_kernels.check_kernels,
    "cudnn": gpu_kernels.check_cudnn,
    "graphs": gpu_kernels.check_graphs,
    "chains": gpu_kernels.check_chains,
    "compiled": gpu_kernels.check_compiled,
    "runs": runs_on_gpu.check_runs,
    "programs": programs_on_gpu.check_programs,
    "checkpoints": gpu_kernels.check_checkpoints,
    "nccl": _nccl,
}


def named(args: argparse.Namespace, results: Results) -> int:
    """Run a stage of `NAMED`; how many checks failed."""
    record, late = results.record, 0
    left_out: set[str] = set()
    if args.only == "runs" and args.runs:
        left_out = {*runs_on_gpu.RUNS} - {*args.runs}
    if args.only == "programs" and args.ops:
        left_out = {*programs_on_gpu.names()} - {*args.ops}
    for name, wrong in NAMED[args.only](args.device, {*record} | left_out):
        record[name] = wrong
        results.save()
        print(f"{args.only}, {name}: {wrong or 'agrees'}", flush=True)
        if wrong is not None:
            look_after(args, name)
        if not in_time(args, f"the rest of {args.only}"):
            late = 1
            break
    return late + sum(wrong is not None for wrong in record.values())


def ops(args: argparse.Namespace, results: Results) -> int:
    """Check ops, float32 before other dtypes; how many checks failed, and 1 for those that the time did not suffice for."""
    from tests.on_gpu import sampled_ops

    record, late = results.record, 0
    names = args.ops or sampled_ops()
    if unknown := {*names} - {*sampled_ops()}:
        print(f"no samples of {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    first = [dtype for dtype in args.dtypes if dtype == "float32"]
    for dtypes in filter(None, (first, [dtype for dtype in args.dtypes if dtype not in first])):
        command = [sys.executable, str(SCRIPT), "--only", "ops", "--lines", "--device", args.device]
        command += [*([] if args.values else ["--no-values"]), "--dtypes", *dtypes, "--ops"]
        left, jobs, saved = {*names}, min(args.jobs, len(names)), time.monotonic()
        for name, found in gpu_workers.check_in_processes(command, names, jobs, args.until):
            left.discard(name)
            broken = {"name": name, "dtype": dtypes[0], "agreed": 0, "seconds": 0.0, "wrong": [found]}
            for check in [broken] if isinstance(found, str) else found["checks"]:
                record[f"{check['name']} {check['dtype']}"] = check
            if time.monotonic() > saved + 5:
                results.save()
                saved = time.monotonic()
        results.save()
        if left:
            print(f"out of time before {len(left)} ops in {', '.join(dtypes)}: see --minutes", flush=True)
            late = 1
    _report_ops([*record.values()], args.dtypes)
    return late + sum(bool(check["wrong"]) for check in record.values())


def _print_ops(args: argparse.Namespace) -> int:
    """What a process of `ops` prints: the checks of an op, a line each."""
    from tests.on_gpu import check_ops

    for name in args.ops:
        checks = list(check_ops(tdt.device(args.device), [name], args.dtypes, args.values))
        print(json.dumps({"checks": [dataclasses.asdict(check) for check in checks]}), flush=True)
        if any(check.wrong for check in checks):
            try:
                look_after(args, name)
            except LostGpuError:
                return RESTART
    return 0


def op_database(args: argparse.Namespace, results: Results) -> int:
    """Check the op database of PyTorch; how many of its ops failed, and 1 for those that the time did not suffice for."""
    record = results.record
    if not importlib.util.find_spec("torch"):
        print("PyTorch, which has the op database, is not installed")
        return 0
    from tests.opdb_on_gpu import OPS

    left = {name for name in OPS if name not in record and (not args.ops or name in args.ops)}
    command = [sys.executable, str(SCRIPT), "--only", args.only, "--lines", "--device", args.device]
    command += [*([] if args.values else ["--no-values"]), "--ops"]
    saved = time.monotonic()
    for name, found in gpu_workers.check_in_processes(command, sorted(left), min(args.jobs, len(left)), args.until):
        left.discard(name)
        record[name] = found if isinstance(found, str) else "; ".join(found["wrong"]) or None
        if record[name] is not None:
            print(f"{name}: {record[name]}", flush=True)
        if time.monotonic() > saved + 5:
            results.save()
            saved = time.monotonic()
    failed = sum(wrong is not None for wrong in record.values())
    print(f"op database: {len(record) - failed} of {len(record)} agree, {len(left)} were not reached", flush=True)
    return failed + (len(left) > 0)


def _print_op_database(args: argparse.Namespace) -> int:
    """What a process of `op_database` prints: what is wrong with each op, a line each."""
    from tests.opdb_on_gpu import check

    for name in args.ops:
        wrong = check(name, args.device, args.values)
        print(json.dumps({"wrong": wrong}), flush=True)
        if wrong:
            try:
                look_after(args, name)
            except LostGpuError:
                return RESTART
    return 0


def _report_ops(checks: list[dict[str, Any]], dtypes: list[str]) -> None:
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    for check in checks:
        for reason in dict.fromkeys(check["wrong"]):
            reasons[reason].append(f"{check['name']} {check['dtype']}")
    print(f"\n{'dtype':10} {'checks':>7} {'calls':>7} {'failed':>7} {'seconds':>8}")
    for dtype in dtypes:
        of = [check for check in checks if check["dtype"] == dtype]
        calls, failed = sum(c["agreed"] + len(c["wrong"]) for c in of), sum(len(c["wrong"]) for c in of)
        print(f"{dtype:10} {len(of):7} {calls:7} {failed:7} {sum(c['seconds'] for c in of):8.1f}")
    for reason, where in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"  {reason}\n    {', '.join(where[:8])}{f' and {len(where) - 8} more' * (len(where) > 8)}")
    slowest = sorted(checks, key=lambda check: -check["seconds"])[:8]
    print("slowest:", ", ".join(f"{c['name']} {c['dtype']} {c['seconds']:.2f} s" for c in slowest), flush=True)


def configs(args: argparse.Namespace, results: Results) -> int:
    """Train configs; how many failed."""
    from tdt.train.config import bundled
    from tests.on_gpu import check_config, compare_config

    record = results.record
    print(f"\n{'config':18} {'first loss':>10} {'last loss':>10} {'ms a step':>10}")
    for name in args.configs or bundled():
        if name in record:
            continue
        if not in_time(args, name):
            return 1 + sum(done["wrong"] is not None for done in record.values())
        done = check_config(name, args.device, args.steps)
        if args.values and done.wrong is None:
            done.wrong = compare_config(name, args.device)
        losses = [f"{done.losses[k]:10.4f}" if done.losses else " " * 10 for k in (0, -1)]
        print(f"{name:18} {losses[0]} {losses[1]} {done.seconds * 1000:10.2f}  {done.wrong or ''}".rstrip(), flush=True)
        record[name] = dataclasses.asdict(done)
        results.save()
        if done.wrong is not None:
            look_after(args, name)
    return sum(done["wrong"] is not None for done in record.values())


def sanitizer(args: argparse.Namespace, results: Results) -> int:
    """Run all kernels under NVIDIA's compute-sanitizer; how many of its tools found something."""
    program = gpu_kernels.sanitizer_program()
    if program is None:
        results.record["tool"] = "compute-sanitizer was not found"
        print("compute-sanitizer was not found: it is a part of CUDA's toolkit")
        return 0
    failed = 0
    for tool in ("memcheck", "racecheck", "synccheck"):
        if not in_time(args, tool):
            return failed + 1
        wrong, lines = gpu_kernels.sanitized(program, tool, args.device, args.until - time.monotonic())
        results.record[tool] = {"wrong": wrong, "lines": lines}
        results.save()
        print(f"{tool}: {wrong or 'found nothing'}", flush=True)
        failed += wrong is not None
    return failed


def speed(args: argparse.Namespace, results: Results) -> int:
    """Measure training steps; how many fall behind PyTorch's by `gpu_speed.behind`, or fail."""
    on_gpu = args.device.startswith("cuda")
    graph = ["graph"] if on_gpu else []
    contestants: dict[str, tuple[Any, str]] = {"tdt": (tdt, "")}
    contestants |= {f"tdt {how}": (tdt, how) for how in ("compiled step", *graph)}
    later: dict[str, tuple[Any, str]] = {"tdt compiled": (tdt, "compiled")}
    if importlib.util.find_spec("torch"):
        import torch

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # as for tdt
        contestants |= {"torch": (torch, ""), **{f"torch {how}": (torch, how) for how in graph}}
        later["torch compiled"] = torch, "compiled"  # which takes it most of a minute to compile
    names = args.workloads or [*gpu_speed.WORKLOADS]
    if unknown := {*names} - {*gpu_speed.WORKLOADS}:
        print(f"no workload is called {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    print(f"{'workload':24} {'ms':>10}   times as fast as …; peak of memory, MiB")
    for those, kind in ((contestants, ""), (later, ", compiled")):
        for name, size in itertools.product(names, args.sizes):
            title = f"{name} {size}{kind}"
            if title in results.record:
                continue
            if not in_time(args, title):
                return 1 + sum(bool(row["behind"]) for row in results.record.values())
            found = gpu_speed.measure(name, size, args.device, those, args.steps)
            faster, behind = gpu_speed.ratios(found), gpu_speed.behind(found, size, on_gpu)
            results.record[title] = found | {"times as fast": faster, "behind": behind}
            results.save()
            _report_speed(title, found, faster, behind)
            if any("error" in each for each in found.values()):
                look_after(args, title)
    return sum(bool(row["behind"]) for row in results.record.values())


def _report_speed(title: str, found: dict[str, Any], faster: dict[str, float], behind: list[str]) -> None:
    times = ", ".join(f"{who} {ratio:.2f}" for who, ratio in faster.items())
    peaks = ", ".join(f"{who} {each['peak_bytes'] / 2**20:.0f}" for who, each in found.items() if "ms" in each)
    print(f"{title:24} {next(iter(found.values())).get('ms', float('nan')):10.3f}   {times}; {peaks}")
    for who, each in found.items():
        if "error" in each:
            print(f"    {who}: {each['error']}")
    for what in behind:
        print(f"    {what}")
    sys.stdout.flush()


def reserve(args: argparse.Namespace, results: Results) -> int:
    """Profile the workload that loses most to PyTorch by the results of speed, or the first; returns 0."""
    name, size = (args.workloads or [*gpu_speed.WORKLOADS])[0], args.sizes[0]
    known = gpu_results.found(args.results, "speed") or {}
    of = {key: row["times as fast"]["torch"] for key, row in known.items() if "torch" in row["times as fast"]}
    if of:
        name, size = min(of, key=of.__getitem__).split()
    print(f"the host's time in a step of {name} {size}")
    lines = list(gpu_speed.profile(tdt, name, size, args.device, args.steps))
    results.record |= {"workload": f"{name} {size}", "functions": lines}
    print("\n".join(lines), flush=True)
    return 0


def timed(args: argparse.Namespace, results: Results) -> int:
    """Measure convolutions or attention by cuDNN's engines, tdt's kernels and PyTorch; 1 if the time did not suffice."""
    if not tdt.backends.cudnn.is_available():
        results.record["all"] = "cuDNN is not installed"
        return 0
    for title, found in gpu_conv.layers() if args.only == "convolutions" else gpu_attention.lengths():
        results.record[title] = found
        results.save()
        print(f"{title}: {found}", flush=True)
        if not in_time(args, f"the rest of {args.only}"):
            return 1
    return 0


OTHERS = {
    "convolutions": timed,
    "attention": timed,
    "ops": ops,
    "op database": op_database,
    "configs": configs,
    "sanitizer": sanitizer,
    "speed": speed,
    "reserve": reserve,
}
