"""Run a command under mpirun on "machines" that are network namespaces of this one: a link each of a given rate to one switch.

    python -m benchmarks.machines --machines 4 --mbit 100 python -m benchmarks.collectives

Needs Linux, CAP_NET_ADMIN and `ip` and `tc` (Debian: iproute2). Each machine has a network interface, a loopback and a host name
of its own, and shares all else: files, processors, memory. A token bucket filter limits both directions of its link. Ranks talk
by TCP alone, of UCX or libfabric in MPICH, of Open MPI's own in Open MPI.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SWITCH = "10.0.0.254"  # where mpirun runs
BURST = 5e-4  # seconds for which a link may send what it has saved while idle
BUFFER = 1 << 22  # bytes that wait at each end of a link before packets are dropped
TCP = {  # the settings of each transport by which ranks of one kernel talk by TCP, as ranks of several machines do
    "ucx": {"MPIR_CVAR_CH4_NETMOD": "ucx", "UCX_TLS": "tcp", "UCX_NET_DEVICES": "eth0"},
    "ofi": {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0"},
    "openmpi": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "eth0"},
}
# What mpirun calls in the place of ssh, with options, an address and a command.
AGENT = """\
#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
number=${{1##*.}}
shift
exec ip netns exec "{prefix}$number" unshare --uts sh -c 'hostname "machine-$1"; exec sh -c "$2"' sh "$number" "$*"
"""


def _ip(*arguments: object) -> None:
    """Run `ip` or, where the first argument is "tc", that. PermissionError or RuntimeError with what it printed."""
    command = [str(argument) for argument in arguments]
    command = command if command[0] == "tc" else ["ip", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        kind = PermissionError if "not permitted" in done.stderr else RuntimeError
        raise kind(f"{shlex.join(command)}: {done.stderr.strip()}")


def missing() -> str | None:
    """Why this machine cannot have such namespaces; None if it can."""
    tools = [tool for tool in ("ip", "tc", "unshare") if shutil.which(tool) is None]
    if tools:
        return f"{', '.join(tools)} not found (Debian: apt-get install iproute2 util-linux)"
    try:
        with Machines(1, mbit=1):
            return None
    except (PermissionError, RuntimeError) as error:
        return f"{error} (CAP_NET_ADMIN and CAP_SYS_ADMIN are needed)"


class Machines:
    """Machines joined by a switch, as a context.

    Args:
        count: how many.
        mbit: rate of each link in megabits a second; None: not limited.
    Raises:
        PermissionError: on entering, where the kernel does not permit it.
    """

    def __init__(self, count: int, mbit: float | None = None) -> None:
        self.count, self.mbit = count, mbit
        self._prefix = f"tdt{os.getpid()}-"
        self._switch = f"{self._prefix}switch"
        self._folder = tempfile.TemporaryDirectory()

    def _namespace(self, number: int) -> str:
        return f"{self._prefix}{number}"

    def address(self, number: int) -> str:
        """Address of machine `number`, from 1."""
        return f"10.0.0.{number}"

    def __enter__(self) -> Machines:
        try:
            self._make_switch()
            for number in range(1, self.count + 1):
                self._make(number)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self._agent = Path(self._folder.name, "agent")
        self._agent.write_text(AGENT.format(prefix=self._prefix))
        self._agent.chmod(self._agent.stat().st_mode | stat.S_IXUSR)
        return self

    def _make_switch(self) -> None:
        _ip("netns", "add", self._switch)
        inside = ("-n", self._switch)
        _ip(*inside, "link", "set", "lo", "up")
        _ip(*inside, "link", "add", "bridge", "type", "bridge")
        _ip(*inside, "address", "add", f"{SWITCH}/24", "dev", "bridge")
        _ip(*inside, "link", "set", "bridge", "up")

    def _make(self, number: int) -> None:
        name, port = self._namespace(number), f"port{number}"
        _ip("netns", "add", name)
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", self._switch)
        _ip("-n", name, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", self._switch, "link", "set", port, "master", "bridge", "up")
        if self.mbit is not None:
            burst = max(8192, round(self.mbit * 1e6 / 8 * BURST))
            limit = ("root", "tbf", "rate", f"{self.mbit}mbit", "burst", burst, "limit", BUFFER)
            _ip("tc", "-n", name, "qdisc", "add", "dev", "eth0", *limit)
            _ip("tc", "-n", self._switch, "qdisc", "add", "dev", port, *limit)

    def cut(self, number: int) -> None:
        """Take the link of machine `number` down: nothing it sends arrives, and nothing reaches it."""
        _ip("-n", self._switch, "link", "set", f"port{number}", "down")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in [self._switch, *map(self._namespace, range(1, self.count + 1))]:
            subprocess.run(
                ["ip", "netns", "del", name], capture_output=True, check=False
            )  # not all are there after an error
        self._folder.cleanup()

    def mpirun(
        self,
        command: Sequence[str],
        ranks: int = 1,
        transport: str = "",
        variables: Mapping[str, str] = {},
        **options: Any,
    ) -> subprocess.Popen[str]:
        """Start a command under mpirun, `ranks` of it on each machine.

        Args:
            transport: a key of `TCP`; default: the first that the MPI of this interpreter has.
            variables: of the environment of the ranks.
            options: of `subprocess.Popen`.
        """
        mpirun = Path(sys.executable).with_name("mpirun")
        is_openmpi = mpirun.with_name("ompi_info").exists()
        settings = {"PYTHONPATH": str(ROOT), **TCP[transport or ("openmpi" if is_openmpi else "ucx")], **variables}
        addresses = [self.address(number) for number in range(1, self.count + 1)]
        total = ["-n", str(self.count * ranks)]
        if is_openmpi:
            hosts = ["--map-by", f"ppr:{ranks}:node", "--host", ",".join(f"{address}:{ranks}" for address in addresses)]
            launcher = ["--allow-run-as-root", "--prtemca", "plm_ssh_agent", str(self._agent)]
            launcher += ["--prtemca", "oob_tcp_if_include", "10.0.0.0/24"]
            passed = [part for name in settings for part in ("-x", name)]
        else:
            hosts = ["-hosts", ",".join(f"{address}:{ranks}" for address in addresses)]
            launcher = ["-launcher", "ssh", "-launcher-exec", str(self._agent), "-localhost", SWITCH]
            passed = ["-genvlist", ",".join(["PATH", "HOME", *settings])]
        line = ["ip", "netns", "exec", self._switch, str(mpirun), *launcher, *hosts, *total, *passed, *command]
        return subprocess.Popen(line, env=os.environ | settings, text=True, **options)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=4, help="how many (4)")
    parser.add_argument("--ranks", type=int, default=1, help="ranks on each (1)")
    parser.add_argument("--mbit", type=float, help="rate of each link in megabits a second; default: not limited")
    parser.add_argument("--transport", choices=TCP, default="", help="default: openmpi in Open MPI, ucx in MPICH")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    why = missing()
    if why is not None:
        parser.exit(2, f"benchmarks.machines: {why}\n")
    with Machines(args.machines, args.mbit) as machines:
        return machines.mpirun(args.command, args.ranks, args.transport).wait()


if __name__ == "__main__":
    sys.exit(main())
