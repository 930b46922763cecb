"""No silent hang: each process sends heartbeats to rank 0 on a socket of their own, and a run without progress is aborted.

Rank 0 listens, and every other process connects to it. A thread in each sends what the process is doing: its step, what it
is at (training, evaluating, saving), the collective that it waits for or the last one, and how often it has reported progress.
Rank 0 watches all others, and these watch rank 0. The run is aborted when, for `timeout` seconds,

- no heartbeat of a process arrives (its machine, the network or its interpreter hangs), or
- a process reports no progress, and does not wait for the others in a collective, or
- no process at all reports progress, or
- a process waits for others in one collective, while the run is prepared: each of them reads the whole data;

at once when a connection ends without a farewell: the process has died; and soon when a process has ended its part, of which
it says farewell, and this one waits for it in a collective. Time in
which the watching thread itself could not run (the whole run was suspended, or the main thread kept the interpreter's lock)
does not count.
"""

from __future__ import annotations

import faulthandler
import json
import os
import secrets
import selectors
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tdt._activity import ACTIVITY, PREPARING, Activity
from tdt.distributed._communicator import Progress

TIMEOUT = 300.0  # seconds without progress after which a run is aborted
CONNECT = 5.0  # seconds in which a process connects to rank 0
MOST = 4096  # bytes of a line; a longer one is not of tdt
GRACE = 0.5  # seconds between a process's death and the abort: the launcher may be faster
LEFT = 5.0  # seconds for which a process waits for one that has ended its part
EXIT_AFTER = 2.0  # seconds that an abort by MPI may take
LIMIT = " (the limit is train.stall_timeout)"
SHOWN = 8  # processes that a message names

Exchange = Callable[[Any], list[Any]]  # a value of this process → the values of all, by rank


def heartbeat(activity: Activity) -> dict[str, Any]:
    """What a process sends.

    >>> from tdt._activity import Activity
    >>> from tdt.distributed._watchdog import heartbeat
    >>> heartbeat(Activity("training", 3, 17))["step"]
    3
    """
    waiting = Progress.waiting
    collective = Progress.latest if waiting is None else waiting.name
    return vars(activity) | {"waiting": waiting is not None, "collective": collective, "collectives": Progress.count}


@dataclass
class _Process:
    """A process as this one sees it; times are of `time.monotonic`."""

    rank: int
    received_at: float  # when its last heartbeat came
    progressed: float  # when it last reported progress
    last: dict[str, Any] = field(default_factory=lambda: heartbeat(Activity()))

    def update(self, beat: dict[str, Any], now: float) -> None:
        """Take a heartbeat."""
        self.received_at = now
        waits_on = beat["waiting"] and beat["collectives"] == self.last["collectives"]
        if beat["count"] != self.last["count"] or not beat["doing"] or (beat["doing"] == PREPARING and not waits_on):
            self.progressed = now
        self.last = {key: beat[key] for key in self.last}


@dataclass
class _Peer(_Process):
    """Another process, and the connection to it."""

    stream: socket.socket = field(kw_only=True)
    buffer: bytes = b""
    unsent: bytes = b""
    ended: float | None = None  # when it said farewell
    aborts: bool = False  # it aborts the run
    lost: float | None = None  # when its connection ended without farewell, or when it began to abort


class Watchdog:
    """Heartbeats between the processes of a run, from `start` to `stop`.

    Args:
        rank, hosts: this process's rank, and the machine of each process.
        timeout: in seconds, which may be changed; see the module.
        abort: ends the run, after the message has been printed; default: `abort_all`.
        activity: what this process is doing.
    """

    def __init__(
        self,
        rank: int,
        hosts: list[str],
        timeout: float = TIMEOUT,
        abort: Callable[[], None] | None = None,
        activity: Activity = ACTIVITY,
    ) -> None:
        self.rank, self.hosts, self.timeout, self.activity = rank, hosts, timeout, activity
        self.abort = abort or abort_all
        self._own = _Process(rank, 0.0, 0.0)
        self._peers: dict[int, _Peer] = {}
        self._selector = selectors.DefaultSelector()
        self._token = ""
        self._listening: socket.socket | None = None
        self._waiting: tuple[Progress | None, float] = None, 0.0  # what this process waits for, and since when
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tdt watchdog", daemon=True)

    @property
    def interval(self) -> float:
        """Seconds between two heartbeats."""
        return min(1.0, self.timeout / 10)

    def start(self, exchange: Exchange) -> list[int]:
        """Connect the processes, which all call this. Returns the ranks that cannot reach rank 0: nobody watches them."""
        if len(self.hosts) == 1:
            return []
        place = None
        if self.rank == 0:
            self._listening = _listen()
            self._listening.setblocking(False)
            self._selector.register(self._listening, selectors.EVENT_READ)
            place = self._listening.getsockname()[1], addresses(), secrets.token_hex(16)
        port, found, self._token = exchange(place)[0]
        reached = True
        if self.rank == 0:
            self._thread.start()
        else:
            local = self.hosts[self.rank] == self.hosts[0]
            reached = self._connect(port, ["127.0.0.1", *found] if local else found)
            if reached:
                self._thread.start()
        _open.add(self)
        return [rank for rank, here in enumerate(exchange(reached)) if not here]

    def stop(self, message: str = "farewell") -> None:
        """Send the others a message, and end the thread. message: "aborts" if the run is to end, else "farewell"."""
        self._ended.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(2 * self.interval + 1)
        for peer in self._peers.values():
            with suppress(OSError):
                peer.stream.send(peer.unsent + _line({message: self.rank}))
        self.close()

    def close(self) -> None:
        """Close the sockets: in a forked process these are its parent's."""
        for open_socket in (self._listening, *(peer.stream for peer in self._peers.values())):
            if open_socket is not None:
                open_socket.close()
        self._selector.close()
        _open.discard(self)

    def _connect(self, port: int, found: Iterable[str]) -> bool:
        """Connect to rank 0 at one of its addresses. Returns whether it answers."""
        end = time.monotonic() + CONNECT
        for address in dict.fromkeys(found):
            with suppress(OSError, ValueError):
                stream = socket.create_connection((address, port), max(0.1, min(1.0, end - time.monotonic())))
                stream.sendall(_line({"token": self._token, "rank": self.rank}))
                if json.loads(stream.makefile("rb").readline(MOST)) == {"welcome": self._token[::-1]}:
                    self._add(0, stream)
                    return True
        return False

    def _accept(self) -> None:
        assert self._listening is not None
        with suppress(OSError, ValueError, KeyError, TypeError):  # not a process of this run: it is left alone
            stream, _ = self._listening.accept()
            stream.settimeout(1.0)
            hello = json.loads(stream.makefile("rb").readline(MOST))
            if secrets.compare_digest(hello["token"], self._token) and hello["rank"] in range(1, len(self.hosts)):
                self._add(hello["rank"], stream)
                if len(self._peers) == len(self.hosts) - 1:  # all have come
                    self._selector.unregister(self._listening)
                    self._listening.close()
                stream.sendall(_line({"welcome": self._token[::-1]}))
            else:
                stream.close()

    def _add(self, rank: int, stream: socket.socket) -> None:
        stream.setblocking(False)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        now = time.monotonic()
        self._peers[rank] = _Peer(rank, now, now, stream=stream)
        self._selector.register(stream, selectors.EVENT_READ, self._peers[rank])

    def _run(self) -> None:
        looked = beaten = self._own.progressed = time.monotonic()
        while not self._ended.is_set():
            for key, _ in self._selector.select(min(0.1, self.interval / 2)):
                if key.data is None:
                    self._accept()
                else:
                    self._receive(key.data)
            now = time.monotonic()
            if now - looked > 2 * self.interval + 1:  # this thread could not run: what it waited for may have come
                for peer in (self._own, *self._peers.values()):
                    peer.received_at, peer.progressed = peer.received_at + now - looked, peer.progressed + now - looked
                self._waiting = None, now
            looked = now
            if Progress.waiting is not self._waiting[0]:
                self._waiting = Progress.waiting, now
            self._own.update(heartbeat(self.activity), now)
            if now - beaten >= self.interval:
                beaten = now
                for peer in self._peers.values():
                    self._send(peer)
            if (message := self._fault(now)) is not None and not self._ended.is_set():
                write(f"{self._name(self._own)}: {message}")
                self.abort()
                return

    def _receive(self, peer: _Peer) -> None:
        try:
            while data := peer.stream.recv(1 << 16):
                *lines, peer.buffer = (peer.buffer + data).split(b"\n")
                for beat in map(json.loads, lines):
                    if "farewell" in beat:
                        peer.ended = time.monotonic()
                    elif "aborts" in beat:
                        peer.aborts, peer.lost = True, time.monotonic()
                    else:
                        peer.update(beat, time.monotonic())
                if len(peer.buffer) > MOST:
                    raise OSError("the line is too long")
        except BlockingIOError:
            return
        except OSError:
            pass
        self._selector.unregister(peer.stream)
        if peer.ended is None and not peer.aborts:
            peer.lost = time.monotonic()

    def _send(self, peer: _Peer) -> None:
        """Send a heartbeat; where the last one has not left yet, its rest."""
        peer.unsent = peer.unsent or _line(heartbeat(self.activity))
        with suppress(OSError):  # `_receive` finds a lost connection
            peer.unsent = peer.unsent[peer.stream.send(peer.unsent) :]

    def _fault(self, now: float) -> str | None:
        """The message for an abort; None if all is well."""
        watched = [peer for peer in self._peers.values() if peer.ended is None]
        waiting, since = self._waiting
        if waiting is not None and waiting.size == len(self.hosts):
            for peer in self._peers.values():
                if peer.ended is not None and now - max(since, peer.ended) > LEFT:
                    return f"{self._name(peer)} has ended its part too early; the run is aborted:\n{self._table([self._own])}"
        for peer in watched:
            if peer.lost is not None and now - peer.lost > (2 * EXIT_AFTER if peer.aborts else GRACE):
                return f"{self._name(peer)} has died or lost its connection; the run is aborted:\n{self._table([peer])}"
            if now - peer.received_at > self.timeout:
                what = f"no heartbeat of {self._name(peer)} for {now - peer.received_at:.0f} s{LIMIT}"
                return f"{what}; the run is aborted:\n{self._table([peer, self._own])}"
        if self.rank != 0:
            return None
        everyone: list[_Process] = [self._own, *watched]
        late = [peer for peer in everyone if now - peer.progressed > self.timeout]
        if len(late) == len(everyone) or any(not peer.last["waiting"] for peer in late):
            return self._no_progress(late)
        if any(peer.last["doing"] == PREPARING for peer in late):  # it waits for some of the others
            return self._no_progress(everyone)
        return None

    def _no_progress(self, peers: list[_Process]) -> str:
        peers.sort(key=lambda peer: (peer.last["waiting"], peer.last["step"], peer.rank))
        return f"no progress for {self.timeout:g} s{LIMIT}; the run is aborted:\n{self._table(peers)}"

    def _name(self, peer: _Process) -> str:
        return f"rank {peer.rank} on {self.hosts[peer.rank]}"

    def _table(self, peers: Sequence[_Process]) -> str:
        lines = [f"  {self._name(peer)}: {_state(peer.last)}\n" for peer in peers[:SHOWN]]
        return "".join(lines) + f"  and {len(peers) - SHOWN} more\n" * (len(peers) > SHOWN)


_open: weakref.WeakSet[Watchdog] = weakref.WeakSet()


def _close_in_child() -> None:
    """Close the sockets in a forked loader worker, which would keep connections of a killed process open."""
    for watchdog in list(_open):
        watchdog.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def _state(beat: Mapping[str, Any]) -> str:
    """A process's last heartbeat in words: "at step 12, training, waiting in all_reduce"."""
    collective = str(beat["collective"] or "none")
    last = f"waiting in {collective}" if beat["waiting"] else f"last collective: {collective}"
    return f"at step {beat['step']}, {beat['doing'] or 'starting'}, {last}"


def _line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _listen() -> socket.socket:
    """A socket that listens on a free port of all interfaces."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    return socket.create_server(("", 0), backlog=1024)


def addresses() -> list[str]:
    """The addresses of this machine, those of its name first; loopback ones are left out.

    >>> from tdt.distributed._watchdog import addresses
    >>> "127.0.0.1" in addresses()
    False
    """
    found: list[str] = []
    with suppress(OSError):
        found += [str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)]
    if sys.platform == "linux":
        import fcntl
        import struct

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            for _, name in socket.if_nameindex():
                with suppress(OSError):  # an interface without an address
                    request = struct.pack("256s", name.encode()[:15])
                    found.append(socket.inet_ntoa(fcntl.ioctl(any_socket.fileno(), 0x8915, request)[20:24]))
    return [address for address in dict.fromkeys(found) if not address.startswith("127.") and address != "::1"]


def stop_all() -> None:
    """End the watchdogs of this process, whose part is done."""
    for watchdog in list(_open):
        watchdog.stop()


def write(text: str) -> None:
    """Write to stderr past Python's buffer, which another thread may hold."""
    with suppress(OSError):
        os.write(2, text.encode(errors="backslashreplace"))


def abort_all(status: int = 1) -> NoReturn:
    """End all processes of the run, without a collective: MPI's abort, and the end of this process where that hangs.

    The process ends after `EXIT_AFTER` seconds even if MPI keeps the interpreter's lock.
    """
    nowhere = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    faulthandler.dump_traceback_later(EXIT_AFTER, exit=True, file=nowhere)
    time.sleep(0.1)  # the launcher reads what was printed
    for watchdog in list(_open):
        watchdog.stop("aborts")
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(status)
    os._exit(status)
